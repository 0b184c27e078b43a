"""The documentation: what its pages include exists, all are in the contents, and it builds without warnings."""

import html
import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from jaxdis.metrics import METRICS
from jaxdis.relations import RELATIONS
from jaxdis.scores import SCORES
from tests.test_examples import assert_printed

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "notebooks"
spec = importlib.util.spec_from_file_location("outputs", PAGES / "outputs.py")
outputs = importlib.util.module_from_spec(spec)
spec.loader.exec_module(outputs)


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


def test_metrics_say_what_their_calls_print():
    """Of quick metrics; a slow test has all."""
    names = ["mig", "modularity", "mcc", "sap_r2"]
    stated = json.loads(outputs.RECORD.read_text(encoding="utf-8"))
    assert stated.keys() == METRICS.keys()
    for name, found in outputs.computed(names).items():
        assert_printed(found, stated[name])


def test_all_metrics_say_what_their_calls_print():
    stated = json.loads(outputs.RECORD.read_text(encoding="utf-8"))
    for name, found in outputs.computed(list(METRICS)).items():
        assert_printed(found, stated[name])


def test_it_builds_without_warnings_and_loads_nothing_from_elsewhere(tmp_path):
    pytest.importorskip("sphinx")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "-b", "html", str(PAGES), str(tmp_path / "site")]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert result.returncode == 0, result.stderr
    page = (tmp_path / "site" / "reference" / "metrics" / "mig.html").read_text(encoding="utf-8")
    assert "Mutual information gap" in page
    assert "<mfrac>" in page
    assert page.count('role="img"') == 1
    assert "shuffled</text>" in page
    for file in (tmp_path / "site").rglob("*.html"):
        text = file.read_text(encoding="utf-8")
        assert not re.search(r"<(?:script|link|img)[^>]+(?:src|href)=\"https?://", text), file
        assert not re.search(r"<img(?![^>]*alt=\"[^\"]+)[^>]*>", text), file
