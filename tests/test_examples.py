"""The examples of the README, of pages and of docstrings run as they are written, at smaller sizes where they train.

A block of Python that is followed by one of text prints that text. ``python -m tests.test_examples`` writes what blocks
print today.
"""

import contextlib
import doctest
import importlib
import io
import pkgutil
import re
import shlex
import sys
import tempfile
import types
from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np
import pytest

import jaxdis
from jaxdis import cli
from jaxdis.cli import main

ROOT = Path(__file__).parent.parent
# Pages whose Python is one program, and what makes it small; each must occur.
PROGRAMS = {
    "README.md": {},
    "notebooks/a_zoo.md": {"steps=3000": "steps=20", "seeds=3": "seeds=1"},
    "notebooks/architecture.md": {},
    "notebooks/coming_from.md": {},
    "notebooks/compare_and_report.md": {},
    "notebooks/first_look.md": {},
    "notebooks/loggers.md": {},
    "notebooks/my_codes.md": {"(10_000, 3)": "(500, 3)", "10_000, 10": "500, 10"},
    "notebooks/my_encoder.md": {'("mig", "mcc", "irs")': '("mig", "mcc")'},
    "notebooks/my_table.md": {},
    "notebooks/thousands.md": {},
}
PAGES = ("README.md", ".github/CLUSTERS.md", *(f"notebooks/{page.name}" for page in (ROOT / "notebooks").glob("*.md")))
SHORT = {"samples": 300, "test_samples": 150}
BLOCK = re.compile(r"```python\n(?P<code>.*?)```(?:\n\n```text\n(?P<printed>.*?)```)?", re.DOTALL)
NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?")
# GitHub and the site show so many characters of code without a scroll bar.
WIDEST = 88
MOST_LINES_OF_README = 160


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


class Recorder:
    """Stands in for an experiment logger: whatever is called returns it, and calls are kept."""

    def __init__(self):
        self.calls: list[tuple] = []

    def __getattr__(self, name: str):
        def call(*given, **named):
            self.calls.append((name, given, named))
            return self

        return call

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


def loggers() -> tuple[Recorder, dict[str, types.ModuleType]]:
    """Modules in place of the loggers that pages name, which all write to one recorder."""
    record, modules = Recorder(), {}
    for name in ("wandb", "mlflow", "torch", "torch.utils", "torch.utils.tensorboard"):
        modules[name] = types.ModuleType(name)
    modules["torch"].Tensor = type("Tensor", (), {})  # SciPy looks for it where there is such a module
    modules["wandb"].init = record.init
    modules["mlflow"].start_run, modules["mlflow"].log_metrics = record.start_run, record.log_metrics
    modules["torch.utils.tensorboard"].SummaryWriter = record.SummaryWriter
    return record, modules


def outputs(page: str, names: dict) -> Iterator[tuple[re.Match, str]]:
    """Each block of a page's Python, run at a small size, with what it prints."""
    text = (ROOT / page).read_text(encoding="utf-8")
    code = "\n".join(match["code"] for match in BLOCK.finditer(text))
    for size in PROGRAMS[page]:
        assert size in code, (page, size)
    for match in BLOCK.finditer(text):
        part = match["code"]
        for size, smaller in PROGRAMS[page].items():
            part = part.replace(size, smaller)
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(part, page, "exec"), names)
        yield match, printed.getvalue()


def assert_printed(found: str, stated: str) -> None:
    """Numbers may differ by two in the last place: tests compile without optimization."""
    assert NUMBER.sub("#", found) == NUMBER.sub("#", stated)
    for left, right in zip(NUMBER.findall(found), NUMBER.findall(stated), strict=True):
        decimals = len(right.partition(".")[2]) if "e" not in right else 12
        left, right = (float(number.replace(",", "")) for number in (left, right))
        assert abs(left - right) <= (2.01 * 10**-decimals if decimals else 0), (left, right)


@pytest.mark.parametrize("page", PROGRAMS)
def test_the_python_of_pages_runs_and_prints_what_they_say(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    whole = jaxdis.evaluate_encoder
    monkeypatch.setattr(jaxdis, "evaluate_encoder", lambda *given, **named: whole(*given, **SHORT, **named))
    record, modules = loggers()
    if page == "notebooks/loggers.md":
        for name, module in modules.items():
            monkeypatch.setitem(sys.modules, name, module)
    names: dict = {}
    for match, printed in outputs(page, names):
        if match["printed"] is not None:
            assert_printed(printed, match["printed"])
    if page == "notebooks/loggers.md":
        logged = [(name, given) for name, given, _ in record.calls if name in ("log", "log_metrics", "add_scalar")]
        assert [name for name, _ in logged] == ["log", "log_metrics", "add_scalar", "add_scalar"]
        assert logged[0][1][0].keys() == {"val/mig", "val/mcc"}
    if page == "notebooks/my_codes.md":
        assert (tmp_path / "scores.csv").exists()
        assert np.isfinite(names["scores"]["mig"]).all()


def test_printed_numbers_are_compared():
    assert_printed("mig 0.2692 of 30", "mig 0.2691 of 30")
    for found in ("mig 0.2695 of 30", "mig 0.2691 of 31", "mcc 0.2691 of 30"):
        with pytest.raises(AssertionError):
            assert_printed(found, "mig 0.2691 of 30")


def test_all_pages_with_python_are_run():
    own = {"notebooks/metric_as_a_loss.md"}  # has a test of its own
    parts = {"notebooks/questions.md", ".github/CLUSTERS.md"}  # which continue what a reader has
    assert {page for page in PAGES if blocks(page, "python")} == PROGRAMS.keys() | own | parts


@pytest.mark.parametrize("page", PAGES)
def test_code_of_pages_is_not_clipped(page):
    lines = [line for block in blocks(page, "python") for line in block.splitlines()]
    assert not [line for line in lines if len(line) > WIDEST]


def test_code_of_docstrings_is_not_clipped():
    """As pages show it, with its prompts."""
    lines = [
        (path.name, line.strip())
        for path in (ROOT / "jaxdis").rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.lstrip().startswith((">>> ", "... "))
    ]
    assert len(lines) > 50
    assert not [place for place in lines if len(place[1]) > WIDEST]


@pytest.mark.parametrize("page", PAGES)
def test_pages_name_what_exists(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    for name in set(re.findall(r"(?<![\w/])jaxdis((?:\.[A-Za-z]\w*)+)", text)):
        thing = jaxdis
        for part in name.removeprefix(".").split("."):
            if part in getattr(thing, "__dataclass_fields__", ()):
                break
            assert hasattr(thing, part), (page, f"jaxdis{name}")
            thing = getattr(thing, part)


def test_the_readme_is_read_in_five_minutes():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= MOST_LINES_OF_README


def test_a_metric_as_a_term_of_a_loss_is_raised_on_other_images(capsys):
    text = "\n".join(blocks("notebooks/metric_as_a_loss.md", "python"))
    with jax.numpy_dtype_promotion("standard"):  # optax's Adam mixes types
        exec(compile(text, "metric_as_a_loss.md", "exec"), {})
    found = {
        line.split()[0]: list(map(float, re.findall(r"\d\.\d*", line))) for line in capsys.readouterr().out.splitlines()
    }
    assert found["mcc"][1] > found["mcc"][0] + 0.1


def commands() -> list[str]:
    joined = [block.replace("\\\n", " ") for page in PAGES for block in blocks(page, "sh")]
    lines = [line for block in joined for line in block.splitlines()]
    texts = [(ROOT / page).read_text(encoding="utf-8") for page in PAGES]
    inline = [" ".join(found.split()) for text in texts for found in re.findall(r"`(jaxdis [a-z][^`…]+)`", text)]
    whole = [found for found in inline if found.count(" ") > 1 and not re.search(r"\b[A-Z]{3,}\b|\.\.\.", found)]
    of_blocks = [part.strip() for line in lines for part in line.split("#")[0].split("&&")]
    return sorted({*(part for part in of_blocks if part.startswith("jaxdis ")), *whole})


def cli_commands() -> list[type]:
    """Every class of a command, so that a new one is not run here by accident."""
    rooms = [importlib.import_module(f"jaxdis.cli.{found.name}") for found in pkgutil.iter_modules(cli.__path__)]
    kinds = [kind for room in rooms for kind in vars(room).values() if isinstance(kind, type) and hasattr(kind, "run")]
    return list(dict.fromkeys(kinds))


@pytest.mark.parametrize("command", commands())
def test_the_commands_of_pages_parse(command, monkeypatch):
    ran = []
    for kind in cli_commands():
        monkeypatch.setattr(kind, "run", lambda command: ran.append(command))
    if "--tyro-print-completion" in command:
        with pytest.raises(SystemExit) as end:
            main(shlex.split(command)[1:])
        assert not end.value.code
        return
    assert main(shlex.split(command)[1:]) == 0
    assert len(ran) == 1


def modules_with_examples() -> list[str]:
    paths = [path for path in (ROOT / "jaxdis").rglob("*.py") if re.search("^ *>>> ", path.read_text(), re.MULTILINE)]
    return sorted(".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths)


@pytest.mark.parametrize("name", modules_with_examples())
def test_the_examples_of_docstrings_run(name):
    module = importlib.import_module(name.removesuffix(".__init__"))
    found = doctest.testmod(module, extraglobs={"jaxdis": jaxdis, "jax": importlib.import_module("jax"), "np": np})
    assert found.attempted > 0
    assert found.failed == 0


def record_outputs() -> None:
    """Write what the blocks of all pages print, where a block of text follows."""
    for page in PROGRAMS:
        path = ROOT / page
        with_loggers = loggers()[1] if page == "notebooks/loggers.md" else {}
        sys.modules |= with_loggers
        with contextlib.chdir(tempfile.mkdtemp()):
            printed = [(match, found) for match, found in outputs(page, {}) if match["printed"] is not None]
        for name in with_loggers:
            del sys.modules[name]
        text = path.read_text(encoding="utf-8")
        for match, found in reversed(printed):
            text = text[: match.start("printed")] + found + text[match.end("printed") :]
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    record_outputs()
