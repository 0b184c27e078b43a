"""Checks of a file before its pixels are used; a failed check is a ValueError that says what the file contains."""

from pathlib import Path

import numpy as np

from jaxdis.data._factor_space import FactorSpace


def images(path: Path, shape: tuple[int, ...], dtype: np.dtype, needed: tuple[int, ...]) -> None:
    """Check for uint8 images of the whole lattice."""
    if tuple(shape) != needed or dtype != np.uint8:
        raise ValueError(f"source: {path} holds {dtype} images {tuple(shape)}; needs uint8 {needed}")


def values(path: Path, rows: np.ndarray, space: FactorSpace) -> None:
    """Check that the rows of real factor values are those of the lattice, in its order."""
    needed = np.stack(np.meshgrid(*space.values, indexing="ij"), -1).reshape(-1, space.num_factors)
    _rows_equal(path, rows, needed, "factor values", 1e-4)


def classes(path: Path, rows: np.ndarray, space: FactorSpace) -> None:
    """Check that the rows of class numbers are those of the lattice, in its order."""
    needed = np.stack(np.unravel_index(np.arange(space.num_lattice), space.sizes), -1)
    _rows_equal(path, rows, needed, "class numbers", 0.0)


def _rows_equal(path: Path, rows: np.ndarray, needed: np.ndarray, what: str, tolerance: float) -> None:
    if rows.shape != needed.shape:
        raise ValueError(f"source: {path} holds {what} {rows.shape}; needs {needed.shape}")
    wrong = np.flatnonzero((np.abs(rows - needed) > tolerance).any(-1) | ~np.isfinite(rows).all(-1))
    if len(wrong):
        row = int(wrong[0])
        raise ValueError(
            f"source: {path} is not in lattice order: row {row} holds {what} {rows[row].tolist()}, "
            f"needs {needed[row].tolist()} ({len(wrong)} rows differ)"
        )


def cell(path: Path, factors: np.ndarray, space: FactorSpace) -> np.ndarray:
    """Lattice index of each row of ``factors [n, k]``."""
    outside = (factors < 0) | (factors >= np.array(space.sizes))
    if outside.any():
        row, column = (int(i[0]) for i in np.nonzero(outside))
        name, size = space.names[column], space.sizes[column]
        raise ValueError(
            f"source: {path} holds the label {factors[row, column]} of factor {name!r}; needs 0 to {size - 1}"
        )
    return np.ravel_multi_index(tuple(factors.T), space.sizes)


def placed(path: Path, factors: np.ndarray, space: FactorSpace) -> np.ndarray:
    """Lattice index of each row of ``factors [n, k]``, after checking that every cell occurs exactly once.

    For files without a guaranteed order: images are placed by their labels.
    """
    index = cell(path, factors, space)
    counts = np.bincount(index, minlength=space.num_lattice)
    missing, repeated = int((counts == 0).sum()), int((counts > 1).sum())
    if missing or repeated:
        first = np.unravel_index(int(np.flatnonzero(counts != 1)[0]), space.sizes)
        named = {name: int(value) for name, value in zip(space.names, first, strict=True)}
        raise ValueError(
            f"source: {path} does not hold every cell of the lattice once: {missing} are missing and {repeated} come "
            f"more than once, the first at {named}"
        )
    return index
