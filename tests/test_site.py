"""The documentation: what its pages include exists, all are in the contents, and it builds without warnings."""

import ast
import html
import importlib
import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from jaxdis.metrics import METRICS
from jaxdis.relations import RELATIONS
from jaxdis.scores import SCORES
from notebooks import outputs
from tests.test_examples import assert_printed

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "notebooks"


def test_pages_include_sections_that_exist():
    for page in PAGES.glob("*.md"):
        for path, options in re.findall(r"```{include} (\S+)\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
            text = (PAGES / path).read_text(encoding="utf-8")
            for marker in re.findall(r':(?:start-after|end-before): "(.*)"', options):
                assert text.count(marker.replace("\\n", "\n")) == 1, (page.name, marker)


def test_every_page_and_notebook_is_in_the_contents():
    index = (PAGES / "index.md").read_text(encoding="utf-8")
    listed = {line for block in re.findall(r"```{toctree}\n(.*?)```", index, re.DOTALL) for line in block.split("\n")}
    written = {page.stem for page in (*PAGES.glob("*.md"), *PAGES.glob("*.ipynb"))} - {"index"}
    assert written == {name for name in listed if name and not name.startswith((":", "reference/"))}


def test_links_lead_to_files_and_sections_that_exist():
    found = 0
    for page in (ROOT / "README.md", ROOT / "CHANGELOG.md", *PAGES.glob("*.md"), *(ROOT / ".github").glob("*.md")):
        for target in re.findall(
            r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
        ):
            if target.startswith(("https:", "mailto:", "reference/")):
                continue
            path, _, section = target.partition("#")
            file = page.parent / path if path else page
            assert file.exists(), (page.name, target)
            if section:
                titles = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
                slugs = {re.sub(r"[^\w -]", "", title.lower()).strip().replace(" ", "-") for title in titles}
                assert section in slugs, (page.name, target)
            found += 1
    assert found > 20


def test_what_builds_the_site_imports_names_that_exist():
    """Only a slow test builds it."""
    for path in PAGES.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module.startswith("jaxdis"):
                module = importlib.import_module(node.module)
                assert not [name.name for name in node.names if not hasattr(module, name.name)], (
                    path.name,
                    node.module,
                )


def test_every_metric_has_formulas():
    formulas = tomllib.loads((PAGES / "formulas.toml").read_text(encoding="utf-8"))
    blends = [metric for metric in METRICS.values() if hasattr(metric, "relation")]
    direct = [name for name, metric in METRICS.items() if not hasattr(metric, "relation")]
    assert {*RELATIONS, *(metric.relation.name for metric in blends)} == formulas["relations"].keys()
    assert {*SCORES, *(metric.score.name for metric in blends)} == formulas["scores"].keys()
    assert set(direct) == formulas["metrics"].keys()
    for line in (line for table in formulas.values() for lines in table.values() for line in lines):
        assert line.count("{") == line.count("}"), line
        assert line.count(r"\left") == line.count(r"\right"), line


def test_the_font_has_the_characters_of_all_formulas():
    convert = pytest.importorskip("latex2mathml.converter").convert
    formulas = tomllib.loads((PAGES / "formulas.toml").read_text(encoding="utf-8"))
    drawn = "".join(convert(line) for table in formulas.values() for lines in table.values() for line in lines)
    needed = set(html.unescape(re.sub("<.*?>", "", drawn))) - set(" \xa0")
    listed = re.search("italics of letters: (.*)", (PAGES / "_static" / "formulas.txt").read_text(encoding="utf-8"))
    assert needed <= set(listed[1])
    assert (PAGES / "_static" / "formulas.woff2").stat().st_size < 40_000


@pytest.mark.parametrize("names", [["mig", "modularity", "sap_r2"], [*METRICS]], ids=["quick", "all"])
def test_metrics_say_what_their_calls_print(names):
    stated = json.loads(outputs.RECORD.read_text(encoding="utf-8"))
    assert stated.keys() == METRICS.keys()
    for name, found in outputs.computed(names).items():
        assert_printed(found, stated[name])


def test_figures_of_metrics_show_what_is_computed():
    """Of a quick metric; of all, the models in calls have the numbers that these print."""
    shown = json.loads(outputs.ZOO.read_text(encoding="utf-8"))
    stated = json.loads(outputs.RECORD.read_text(encoding="utf-8"))
    lines = dict(line.split(" ", 1) for text in stated.values() for line in text.splitlines())
    assert shown.keys() == lines.keys()
    for column, numbers in lines.items():
        assert len(shown[column]) == 30
        called = [shown[column][model] for model in outputs.MODELS]
        assert called == pytest.approx([float(number) for number in numbers.split()], rel=0.006, abs=0.006), column
    assert shown["mig"] == pytest.approx(outputs.of_zoo(["mig"])["mig"], rel=0.01, abs=1e-3)


# What newcomers ask, in words of issues of disentanglement_lib (29, 39), disent (33, 48), torchmetrics (96, 883, 1277,
# 2287), scib (400), scib-metrics (13, 36, 85), SAELens (192, 551, 584), SAEBench (8, 42), Lightning (18462) and of
# repositories of VAEs; then single words. The right page, or pages.
QUERIES = {
    "different length of latent codes": "questions",
    "pretrained models": "questions first_look",
    "adding dataset and features": "my_encoder add_your_own",
    "no ground-truth MNIST": "questions",
    "num_train and batch_size of metric_dci": "coming_from",
    "Disentanglement Metrics": "reference/metrics",
    "bootstrapped confidence intervals for metrics": "questions",
    "extremely slow to compute": "questions speed",
    "using GPU Tensors slower than CPU": "accelerators",
    "metrics returns all NaN": "questions",
    "out-of-memory errors": "questions my_codes",
    "benchmarking multiple embeddings of the same dataset": "my_codes compare_and_report",
    "evaluate integration methods AnnData": "my_table",
    "tutorial for fine-tuning an SAE": "score_a_sparse_autoencoder",
    "train SAEs on my own model": "score_a_sparse_autoencoder",
    "very wide SAEs memory usage": "score_a_sparse_autoencoder my_codes",
    "load existing activations from disk": "my_codes",
    "dead latents": "score_a_sparse_autoencoder",
    "Low MIG and AAM metrics": "questions",
    "mig score is only 0.06": "questions reference/metrics/mig",
    "length of code C": "questions",
    "metrics for latent representations": "which_metric reference/metrics",
    "Epoch level metrics not being logged to wandb": "loggers",
    "sequence data ground truth factor": "questions",
    "does the dimension D of code affect the output": "questions",
    "torchmetrics error with Multi GPU": "accelerators coming_from",
    "gradient of metric is zero": "metric_as_a_loss",
    "plot latent traversal": "train_a_zoo",
    "save and load scores": "my_codes",
    "reproduce locatello": "reproductions",
    "object centric slots": "which_slot_holds_which_object",
    "differentiable metric": "metric_as_a_loss",
    "dci slow": "speed",
}
WORDS = {
    "SAE": "score_a_sparse_autoencoder",
    "tutorial": "first_look",
    "gallery": "reference/gallery",
    "license": "license",
    "NaN": "questions",
    "cell": "my_table",
    "slow": "questions speed",
    "transposed": "questions my_codes",
    "confidence interval": "questions",
    "mig": "reference/metrics/mig",
    "unibound": "reference/metrics/unibound",
    "evaluate": "reference/api/jaxdis",
    "install": "first_look",
    "disentanglement_lib": "coming_from",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("sphinx")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "-b", "html", str(PAGES), str(folder)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert result.returncode == 0, result.stderr
    return folder


def ranks(site, queries: dict[str, str]) -> dict[str, int]:
    """The place of the first right page among what the search of the site finds."""
    if shutil.which("node") is None:
        pytest.skip("the search is a script, which node runs")
    command = ["node", str(Path(__file__).with_name("find.js")), str(site)]
    result = subprocess.run(command, input=json.dumps(list(queries)), capture_output=True, text=True, check=True)
    found = {}
    for (query, right), places in zip(queries.items(), json.loads(result.stdout), strict=True):
        pages = [place.partition("#")[0] for place in places]
        found[query] = min((pages.index(page) + 1 for page in right.split() if page in pages), default=99)
    return found


def test_newcomers_find_the_right_page(site):
    words, questions = ranks(site, WORDS), ranks(site, QUERIES)
    assert len(questions) >= 30
    assert set(words.values()) == {1}, words
    assert max(questions.values()) <= 3, questions
    assert sum(rank == 1 for rank in questions.values()) >= len(questions) - 3, questions


def test_it_builds_without_warnings_and_loads_nothing_from_elsewhere(site):
    page = (site / "reference" / "metrics" / "mig.html").read_text(encoding="utf-8")
    assert "Mutual information gap" in page
    assert "<mfrac>" in page
    assert page.count('role="img"') == 2
    assert page.count('r="3.5"') == 30  # points; the theme has circles, too
    assert "shuffled</text>" in page
    assert '<meta name="description" content="How much more information' in page
    for file in site.rglob("*.html"):
        text = file.read_text(encoding="utf-8")
        assert not re.search(r"<(?:script|link|img)[^>]+(?:src|href)=\"https?://", text), file
        assert not re.search(r"<img(?![^>]*alt=\"[^\"]+)[^>]*>", text), file
