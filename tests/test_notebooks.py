"""Every notebook runs, shows pictures, and ends in a sentence that answers its title."""

import ast
import importlib.util
import os
import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.test_examples import WIDEST

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
GUIDES = [ROOT / "README.md", *sorted((ROOT / "notebooks").glob("*.md"))]
PRIVATE = re.compile(r"^\s*(?:>>> )?(?:from|import) +jaxdis[\w.]*(?:\._| import [^#\n]*\b_).*$", re.MULTILINE)


# In place of the values in a notebook's cell with the tag "parameters": sizes that run in seconds.
SMALL = {
    "add_your_own": {"seeds": 1, "steps": 10},
    "how_sensitive": {
        "metrics": ["mig", "sap_r2"],
        "samples": (200, 600),
        "seeds": 2,
        "estimators": {"mig": "MIG", "sap_r2": "SAP", "dci_lasso": "DCI"},
    },
    "score_a_sparse_autoencoder": {"n": 600, "d": 128},
    "train_a_zoo": {"steps": 10, "seeds": 1, "log_every": 5, "num_samples": 300},
    "which_metric_should_i_trust": {
        "metrics": ["mig", "mig_sup", "modularity", "sap", "mcc", "dcimig"],
        "seeds": 2,
        "case_samples": 300,
    },
    "which_slot_holds_which_object": {
        "num_images": 200,
        "num_scenes": 100,
        "steps": 6,
        "log_every": 2,
        "iterations": 5,
    },
    "your_own_arrays": {"num_samples": 1_000},
}


@pytest.mark.filterwarnings("default")  # of the notebook's own machinery
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs_at_a_small_size(path, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.getcwd())
    monkeypatch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")  # programs take longer to compile than to run
    notebook = nbformat.read(path, 4)
    [place] = [i for i, cell in enumerate(notebook.cells) if "parameters" in cell.metadata.get("tags", ())]
    small = "\n".join(f"{name} = {value!r}" for name, value in SMALL[path.stem].items())
    notebook.cells.insert(place + 1, nbformat.v4.new_code_cell(small))
    NotebookClient(notebook, timeout=400, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert sum("image/png" in output.get("data", {}) for output in outputs) >= 3
    assert not [output for output in outputs if output.get("name") == "stderr"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_its_parameters_are_assigned_in_one_cell(path):
    cells = nbformat.read(path, 4).cells
    [parameters] = [cell.source for cell in cells if "parameters" in cell.metadata.get("tags", ())]
    names = {
        node.id
        for node in ast.walk(ast.parse(parameters))
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    assert names == SMALL[path.stem].keys()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_answers_its_title(path):
    cells = nbformat.read(path, 4).cells
    title = cells[0].source.splitlines()[0]
    assert title.startswith("# ")
    assert cells[-1].source.startswith(f"**{title[2:]}** ")
    assert "\n\nNext: " in cells[-1].source


def code_of(path) -> str:
    """The code of a notebook, or a guide with its code blocks."""
    if path.suffix == ".md":
        return path.read_text(encoding="utf-8")
    return "\n".join(cell.source for cell in nbformat.read(path, 4).cells if cell.cell_type == "code")


@pytest.mark.parametrize("path", [*NOTEBOOKS, *GUIDES], ids=lambda path: path.stem)
def test_it_imports_public_names_alone(path):
    assert not PRIVATE.findall(code_of(path))


@pytest.mark.parametrize(
    ("line", "private"),
    [
        ("from jaxdis.models._zoo import traversals", True),
        ("    import jaxdis._core.arrays", True),
        ("from jaxdis.models import _zoo", True),
        ("from jaxdis.models import traversals, slot_parts  # not _traversal", False),
        ("import jaxdis.data", False),
    ],
)
def test_imports_of_private_names_are_seen(line, private):
    assert bool(PRIVATE.search(line)) == private


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_its_first_cell_says_how_to_install(path, monkeypatch):
    first = next(cell.source for cell in nbformat.read(path, 4).cells if cell.cell_type == "code")
    exec(first, {})
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match="jaxdis is not installed") as raised:
        exec(first, {})
    [command] = re.findall(r"pip install \S+", str(raised.value))
    assert command in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_its_code_is_not_clipped(path):
    assert not [line for line in code_of(path).splitlines() if len(line) > WIDEST]
