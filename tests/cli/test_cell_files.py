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
MATRIX = (np.eye(3)[TYPES] + 0.1 * RNG.normal(size=(120, 3))).astype(np.float32)


def annotations():
    cell_type = pd.Categorical(np.array(["B", "NK", "T"])[TYPES], categories=["T", "B", "NK"])
    columns = {"cell_type": cell_type, "depth": RNG.normal(size=120)}
    return pd.DataFrame(columns, index=[f"cell{number}" for number in range(120)])


@pytest.fixture
def file(tmp_path, monkeypatch):
    """A file that the stand-in reads as cells with two representations."""
    found = types.SimpleNamespace(
        obs=annotations(), obsm={"X_pca": MATRIX, "X_sparse": scipy.sparse.csr_matrix(MATRIX)}
    )
    monkeypatch.setitem(sys.modules, "anndata", types.SimpleNamespace(read_h5ad=lambda path, backed: found))
    path = tmp_path / "cells.h5ad"
    path.write_bytes(b"")
    return path


def test_a_representation_and_annotations_are_codes_and_factors(file):
    arrays = load_arrays(f"{file}:X_pca", columns=["cell_type"])
    np.testing.assert_array_equal(arrays.codes, MATRIX)
    assert arrays.factors.names == ("cell_type",)
    assert arrays.factors.classes == (("T", "B", "NK"),)
    np.testing.assert_array_equal(load_arrays(f"{file}:X_sparse", columns=["cell_type", "depth"]).codes, MATRIX)
    values = jaxdis.Factors.of(TYPES[:, None])
    assert load_arrays(f"{file}:X_pca", values).factors is values


def test_other_names_are_refused_with_those_that_there_are(file, tmp_path):
    with pytest.raises(ValueError, match=r"got 'pca'; there is cells\.h5ad:X_pca, cells\.h5ad:X_sparse"):
        load_arrays(f"{file}:pca")
    with pytest.raises(ValueError, match="must name a representation, got None"):
        load_arrays(file)
    with pytest.raises(ValueError, match="none.h5ad: no such file"):
        load_arrays(tmp_path / "none.h5ad:X_pca")


def test_without_anndata_the_shell_says_what_to_install(file, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "anndata", None)
    assert main(["score", f"{file}:X_pca", "--columns", "cell_type"]) != 0
    assert 'pip install "jaxdis[omics]"' in " ".join(capsys.readouterr().err.split())


def test_cells_of_anndata_are_scored(tmp_path, capsys):
    anndata = pytest.importorskip("anndata")
    data = anndata.AnnData(np.zeros((120, 2), np.float32), obs=annotations(), obsm={"X_pca": np.c_[TYPES, 0 * TYPES]})
    factors = jaxdis.Factors.from_table(data.obs, columns=["cell_type"])
    assert jaxdis.evaluate(data.obsm["X_pca"], factors, "mig")["mig"] == pytest.approx(1)
    data.write_h5ad(tmp_path / "cells.h5ad")
    assert main(["score", str(tmp_path / "cells.h5ad"), "--columns", "cell_type", "--metrics", "mig"]) == 0
    printed = capsys.readouterr().out
    assert "cell_type (3 classes: T, B, NK)" in printed
    assert "1.0000" in printed


@pytest.mark.filterwarnings("ignore:Writing zarr v2:UserWarning")
@pytest.mark.parametrize("ending", ["h5ad", "zarr"])
@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_matrix, scipy.sparse.csc_matrix])
def test_a_representation_may_be_the_matrix_or_a_layer_or_a_frame(ending, form, tmp_path):
    anndata = pytest.importorskip("anndata")
    pytest.importorskip("zarr")
    path = tmp_path / f"cells.{ending}"
    data = anndata.AnnData(form(MATRIX), obs=annotations())
    getattr(data, f"write_{ending}")(path)
    alone = load_arrays(path, columns=["cell_type"])
    np.testing.assert_array_equal(alone.codes, MATRIX)
    assert alone.factors.classes == (("T", "B", "NK"),)
    data.layers["scaled"] = form(2 * MATRIX)
    data.obsm["X_frame"] = pd.DataFrame(3 * MATRIX, index=data.obs_names, columns=["a", "b", "c"])
    data.obsm["X_form"] = form(4 * MATRIX)
    data.obsm["text"] = pd.DataFrame({"a": ["word"] * 120}, index=data.obs_names)
    getattr(data, f"write_{ending}")(path)
    for key, factor in (("X", 1), ("layers/scaled", 2), ("X_frame", 3), ("X_form", 4)):
        np.testing.assert_array_equal(load_arrays(f"{path}:{key}", columns=["cell_type"]).codes, factor * MATRIX)
    with pytest.raises(ValueError, match="there is cells.*:X_form, .*:X_frame, .*:text, .*:X, .*:layers/scaled"):
        load_arrays(path)
    with pytest.raises(ValueError, match="must hold numbers .cells, codes., got"):
        load_arrays(f"{path}:text", columns=["cell_type"])
    np.save(tmp_path / "codes.npy", MATRIX)
    assert load_arrays(tmp_path / "codes.npy", path, ["cell_type"]).factors.names == ("cell_type",)


def test_containers_given_in_python_say_how_to_name_a_representation():
    anndata = pytest.importorskip("anndata")
    data = anndata.AnnData(MATRIX, obs=annotations(), obsm={"X_pca": MATRIX})
    assert jaxdis.Factors.from_table(data, ["cell_type"]).classes == (("T", "B", "NK"),)
    with pytest.raises(ValueError, match=r"must be an array of numbers, got AnnData; give .X or .obsm\['X_pca'\]"):
        jaxdis.evaluate(data, TYPES, "mig")
    several = types.SimpleNamespace(mod={"rna": data}, obsm={}, obs=data.obs)
    with pytest.raises(ValueError, match=r"one modality's representation, such as mudata\['rna'\].X"):
        jaxdis.evaluate(several, TYPES, "mig")


def test_other_stores_are_refused_with_lines_that_convert_them(tmp_path):
    zarr = pytest.importorskip("zarr")
    pytest.importorskip("anndata")
    zarr.save(str(tmp_path / "codes.zarr"), MATRIX)
    (tmp_path / "empty.zarr").mkdir()
    for name, words in (("codes", r"zarr.open\('codes.zarr'\).*numpy.save"), ("empty", "must be a .zarr store")):
        with pytest.raises(ValueError, match=words):
            load_arrays(tmp_path / f"{name}.zarr:X")
