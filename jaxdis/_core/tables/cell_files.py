"""Annotated cell matrices, ``.h5ad``: representations in ``obsm``, and what is known about each cell in ``obs``."""

import re
from pathlib import Path

import numpy as np

from jaxdis._core.options import shown
from jaxdis._core.tables.column_files import check_file, printable


def is_cells(path: Path) -> bool:
    """Whether a path is ``cells.h5ad``, or ``cells.h5ad:X_pca`` with a representation's name."""
    return _parts(path) is not None


def read_cells(path: Path):
    """Codes ``[n, d]`` and the data frame of the cells.

    Args:
      path: ``cells.h5ad:KEY``, or ``cells.h5ad`` if the file has one representation.

    Raises:
      ValueError: for a missing or damaged file, or an unknown representation.
      ModuleNotFoundError: without anndata, which the extra ``omics`` installs.
    """
    file, key = _parts(path)
    check_file(file)
    import anndata

    try:
        cells = anndata.read_h5ad(file, backed="r")  # without the matrix of genes
    except (OSError, KeyError) as error:
        raise ValueError(f"{printable(file)}: must be a whole .h5ad file, got {error}") from None
    keys = sorted(cells.obsm)
    if key is None and len(keys) == 1:
        key = keys[0]
    if key not in keys:
        known = ", ".join(f"{file.name}:{known}" for known in keys) or "no representation (obsm) in it"
        raise ValueError(f"{printable(path)}: must name a representation, got {shown(key)}; there is {known}")
    codes = cells.obsm[key]
    return np.asarray(codes.toarray() if hasattr(codes, "toarray") else codes), cells.obs


def _parts(path: Path) -> tuple[Path, str | None] | None:
    """The file and the name after its colon."""
    found = re.fullmatch(r"(.+\.h5ad)(?::(.+))?", str(path))
    return (Path(found[1]), found[2]) if found else None
