"""Cells in the shell: representations and annotations of an .h5ad, by anndata or a stand-in for it."""

import sys
import types

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import jaxdis
from jaxdis.cli import main
from jaxdis.evaluation._arrays_file import load_arrays

RNG = np.random.default_rng(0)
TYPES = RNG.integers(0, 3, 120)


def annotations():
    cell_type = pd.Categorical(np.array(["B", "NK", "T"])[TYPES], categories=["T", "B", "NK"])
    columns = {"cell_type": cell_type, "depth": RNG.normal(size=120)}
    return pd.DataFrame(columns, index=[f"cell{number}" for number in range(120)])


def cells(**representations):
    return types.SimpleNamespace(obs=annotations(), obsm=representations)


@pytest.fixture
def file(tmp_path, monkeypatch):
    """A file that the stand-in reads as cells with two representations."""
    codes = (np.eye(3)[TYPES] + 0.1 * RNG.normal(size=(120, 3))).astype(np.float32)
    found = cells(X_pca=codes, X_sparse=scipy.sparse.csr_matrix(codes))
    monkeypatch.setitem(sys.modules, "anndata", types.SimpleNamespace(read_h5ad=lambda path, backed: found))
    path = tmp_path / "cells.h5ad"
    path.write_bytes(b"")
    return path, codes


def test_a_representation_and_annotations_are_codes_and_factors(file):
    path, codes = file
    arrays = load_arrays(f"{path}:X_pca", columns=["cell_type"])
    np.testing.assert_array_equal(arrays.codes, codes)
    assert arrays.factors.names == ("cell_type",)
    assert arrays.factors.classes == (("T", "B", "NK"),)
    np.testing.assert_array_equal(load_arrays(f"{path}:X_sparse", columns=["cell_type", "depth"]).codes, codes)
    values = jaxdis.Factors.of(TYPES[:, None])
    assert load_arrays(f"{path}:X_pca", values).factors is values


def test_other_names_are_refused_with_those_that_there_are(file, tmp_path):
    path, _ = file
    with pytest.raises(ValueError, match=r"got 'pca'; there is cells\.h5ad:X_pca, cells\.h5ad:X_sparse"):
        load_arrays(f"{path}:pca")
    with pytest.raises(ValueError, match="must name a representation, got None"):
        load_arrays(path)
    with pytest.raises(ValueError, match="none.h5ad: no such file"):
        load_arrays(tmp_path / "none.h5ad:X_pca")


def test_without_anndata_the_shell_says_what_to_install(file, monkeypatch, capsys):
    path, _ = file
    monkeypatch.setitem(sys.modules, "anndata", None)
    assert main(["score", f"{path}:X_pca", "--columns", "cell_type"]) != 0
    assert 'pip install "jaxdis[omics]"' in " ".join(capsys.readouterr().err.split())


@pytest.mark.slow
def test_cells_of_anndata_are_scored(tmp_path, capsys, monkeypatch):
    anndata = pytest.importorskip("anndata")
    monkeypatch.setattr("jaxdis.cli._terminal.start", lambda cache: None)
    data = anndata.AnnData(np.zeros((120, 2), np.float32), obs=annotations(), obsm={"X_pca": np.c_[TYPES, 0 * TYPES]})
    factors = jaxdis.Factors.from_table(data.obs, columns=["cell_type"])
    assert jaxdis.evaluate(data.obsm["X_pca"], factors, "mig")["mig"] == pytest.approx(1)
    data.write_h5ad(tmp_path / "cells.h5ad")
    assert main(["score", str(tmp_path / "cells.h5ad"), "--columns", "cell_type", "--metrics", "mig"]) == 0
    printed = capsys.readouterr().out
    assert "cell_type (3 classes: T, B, NK)" in printed
    assert "1.0000" in printed
