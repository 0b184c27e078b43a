"""The examples of the README and of docstrings run as they are written, at smaller sizes where they train."""

import doctest
import importlib
import pkgutil
import re
import shlex
from pathlib import Path

import jax
import numpy as np
import pytest

import jaxdis
from jaxdis import cli
from jaxdis.cli import main

ROOT = Path(__file__).parent.parent
PAGES = ("README.md", ".github/CLUSTERS.md")
# What makes an example small; each must occur.
SMALLER = {"steps=3000": "steps=20", "seeds=3": "seeds=1", "(10_000, 3)": "(500, 3)", "10_000, 10": "500, 10"}
SHORT = {"samples": 300, "test_samples": 150}


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


def test_the_python_of_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    whole = jaxdis.evaluate_encoder
    monkeypatch.setattr(jaxdis, "evaluate_encoder", lambda *given, **named: whole(*given, **SHORT, **named))
    text = "\n".join(blocks("README.md", "python"))
    for size, smaller in SMALLER.items():
        assert size in text
        text = text.replace(size, smaller)
    names: dict = {}
    exec(compile(text, "README.md", "exec"), names)
    assert (tmp_path / "scores.csv").exists()
    assert np.isfinite(names["scores"]["mig"]).all()


def test_a_metric_as_a_term_of_a_loss_is_raised_on_other_images(capsys):
    text = "\n".join(blocks("notebooks/metric_as_a_loss.md", "python"))
    with jax.numpy_dtype_promotion("standard"):  # optax's Adam mixes types
        exec(compile(text, "metric_as_a_loss.md", "exec"), {})
    found = {
        line.split()[0]: list(map(float, re.findall(r"\d\.\d*", line))) for line in capsys.readouterr().out.splitlines()
    }
    assert found["mcc"][1] > found["mcc"][0] + 0.1


def commands() -> list[str]:
    lines = [line for page in PAGES for block in blocks(page, "sh") for line in block.splitlines()]
    table = re.findall(r"`(jaxdis [^`…]+)`", (ROOT / "README.md").read_text())
    of_blocks = [part.strip() for line in lines for part in line.split("#")[0].split("&&")]
    return sorted({*(part for part in of_blocks if part.startswith("jaxdis ")), *table} - {"jaxdis COMMAND --help"})


def cli_commands() -> list[type]:
    """Every class of a command, so that a new one is not run here by accident."""
    rooms = [importlib.import_module(f"jaxdis.cli.{found.name}") for found in pkgutil.iter_modules(cli.__path__)]
    kinds = [kind for room in rooms for kind in vars(room).values() if isinstance(kind, type) and hasattr(kind, "run")]
    return list(dict.fromkeys(kinds))


@pytest.mark.parametrize("command", commands())
def test_the_commands_of_the_readme_parse(command, monkeypatch):
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
