"""Annotated cell matrices, ``.h5ad`` and ``.zarr``: representations, and what is known about each cell in ``obs``."""

import types
from pathlib import Path

import numpy as np

from jaxdis._core.lookup import printable, some_of
from jaxdis._core.options import shown
from jaxdis._core.tables.column_files import check_file, file_and_part, suffix_of

CELL_SUFFIXES = (".h5ad", ".zarr")
# The matrix itself, and matrices beside it.
_MATRIX, _LAYERS = "X", "layers/"


def is_cells(path: Path) -> bool:
    """Whether a path is ``cells.h5ad`` or ``cells.zarr``, alone or with a representation: ``cells.h5ad:X_pca``."""
    return suffix_of(file_and_part(path)[0]) in CELL_SUFFIXES


def read_cells(path: Path):
    """Codes ``[n, d]`` and the data frame of the cells.

    Args:
      path: ``cells.h5ad:KEY`` with a key in ``obsm``, ``cells.h5ad:X``, or ``cells.h5ad:layers/NAME``. The file alone
        has one representation, or nothing but the matrix ``X``.

    Raises:
      ValueError: for a missing or damaged file, or an unknown representation.
      ModuleNotFoundError: without anndata, which the extra ``omics`` installs.
    """
    file, key = file_and_part(path)
    cells = _opened(file)
    keys = sorted(cells.obsm)
    if getattr(cells, "X", None) is not None:
        keys.append(_MATRIX)
    keys += [f"{_LAYERS}{layer}" for layer in sorted(getattr(cells, "layers", {}).keys())]
    if key is None and (len(cells.obsm) == 1 or len(keys) == 1 or (not cells.obsm and _MATRIX in keys)):
        key = keys[0]
    if key not in keys:
        known = some_of([f"{file.name}:{known}" for known in keys]) or "no representation (obsm, X, layers) in it"
        raise ValueError(f"{printable(path)}: must name a representation, got {shown(key)}; there is {known}")
    if key in cells.obsm:
        codes = cells.obsm[key]
    else:
        codes = cells.X if key == _MATRIX else cells.layers[key.removeprefix(_LAYERS)]
    return _dense(codes, path), cells.obs


def read_annotations(path: Path):
    """The data frame of the cells alone."""
    return _opened(file_and_part(path)[0]).obs


def _opened(file: Path):
    """The cells in a file, whose matrix and layers are not read."""
    check_file(file)
    import anndata

    try:
        return _store(file) if suffix_of(file) == ".zarr" else anndata.read_h5ad(file, backed="r")
    except (OSError, KeyError) as error:
        raise ValueError(f"{printable(file)}: must be a whole {suffix_of(file)} file, got {error}") from None


def _store(folder: Path) -> types.SimpleNamespace:
    """The cells in a .zarr store."""
    import zarr
    from anndata.io import read_elem

    try:
        root = zarr.open(str(folder), mode="r")
        names = set(root.keys()) if hasattr(root, "keys") else ()
    except Exception as error:  # zarr's own, of several kinds
        raise ValueError(f"{printable(folder)}: must be a .zarr store, got another folder ({error})") from None
    if "obs" not in names:
        lines = f"x = zarr.open({folder.name!r})[…][:]; numpy.save('codes.npy', x)"
        raise ValueError(f"{printable(folder)}: must hold AnnData, got another store; convert it in Python: {lines}")
    obsm = read_elem(root["obsm"]) if "obsm" in names else {}
    layers = root["layers"] if "layers" in names else {}
    matrix = root[_MATRIX] if _MATRIX in names else None
    return types.SimpleNamespace(obs=read_elem(root["obs"]), obsm=obsm, X=matrix, layers=layers)


def _dense(codes, path: Path) -> np.ndarray:
    """Numbers from what anndata reads: an array, a data frame, or the same in a file, sparse ones included."""
    if type(codes).__module__.startswith("zarr"):
        from anndata.io import read_elem

        codes = read_elem(codes)
    codes = codes.to_memory() if hasattr(codes, "to_memory") else codes
    codes = np.asarray(codes.toarray() if hasattr(codes, "toarray") else codes)
    if codes.ndim != 2 or codes.dtype.kind not in "fiub":
        raise ValueError(f"{printable(path)}: must hold numbers [cells, codes], got {shown(codes)}")
    return codes
