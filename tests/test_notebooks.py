"""Every notebook runs, shows pictures, and ends in a sentence that answers its title."""

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))


@pytest.mark.slow_cases(
    "add_your_own",
    "how_sensitive",
    "score_a_sparse_autoencoder",
    "train_a_zoo",
    "which_metric_should_i_trust",
    "which_slot_holds_which_object",
    "your_own_arrays",
)
@pytest.mark.filterwarnings("default")  # of the notebook's own machinery
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs_at_toy_size(path, tmp_path, monkeypatch):
    monkeypatch.setenv("JAXDIS_NOTEBOOKS", "toy")
    monkeypatch.setenv("PYTHONPATH", os.getcwd())
    notebook = nbformat.read(path, 4)
    NotebookClient(notebook, timeout=400, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert sum("image/png" in output.get("data", {}) for output in outputs) >= 3
    assert not [output for output in outputs if output.get("name") == "stderr"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_answers_its_title(path):
    cells = nbformat.read(path, 4).cells
    title = cells[0].source.splitlines()[0]
    assert title.startswith("# ")
    assert cells[-1].source.startswith(f"**{title[2:]}** ")


def test_there_are_notebooks():
    assert len(NOTEBOOKS) >= 3
