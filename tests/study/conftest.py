"""The tiny study, run once for the tests of studies and papers, whichever worker they are on."""

import os
import shutil
from pathlib import Path

import pytest

from jaxdis._core import store
from jaxdis.study import _run_study
from tests.study.tiny import tiny


@pytest.fixture(scope="module")
def tiny_folder(tmp_path_factory) -> Path:
    """Its finished folder, which stays as it is."""
    base = tmp_path_factory.getbasetemp()
    out = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "tiny"
    with store.locked(store.lock_of(out)):
        if not out.exists():
            _run_study.run(tiny(), out.with_name("tiny.begun"))
            out.with_name("tiny.begun").rename(out)
    return out


@pytest.fixture(scope="module")
def tiny_copy(tiny_folder, tmp_path_factory) -> Path:
    """A copy of it for the tests of a file."""
    return shutil.copytree(tiny_folder, tmp_path_factory.mktemp("study") / "tiny")


@pytest.fixture
def cells_copied(tiny_folder, monkeypatch):
    """Have a driver's batches take their cells from the finished folder."""

    def copy(root, study, batch, on_updates=None):
        shutil.copytree(tiny_folder / batch.kind, Path(root) / batch.kind, dirs_exist_ok=True)

    monkeypatch.setattr(_run_study, "run_batch", copy)
