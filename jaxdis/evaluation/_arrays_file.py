"""Codes and factors from a user's files, and what the factors are in words."""

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from jaxdis._core.options import shown
from jaxdis._core.tables.cell_files import is_cells, read_cells
from jaxdis._core.tables.column_files import SUFFIXES, check_file, differ, printable, read_columns
from jaxdis._core.tables.columns import FACTOR_SUFFIXES, names_of, sizes_of
from jaxdis._core.tables.factor_columns import FEW_CLASSES, Missing, columns_and_kinds
from jaxdis._core.tables.numpy_files import MAKE_ONE, read_npy, read_npz
from jaxdis.evaluation._table_rows import at_rows
from jaxdis.factors import Factors

# Classes of a factor that are listed by their names.
MOST_NAMED = 6
NAMES = ("codes", "factors", "names", "sizes", "variances")
# Of slots: names of the levels of their structure, number of groups of samples, the background, factors without order.
OF_SLOTS = ("levels", "groups", "background", "categorical")
# How to load what only the library that wrote it can load; some of these are pickles, which can run anything.
CONVERT = {
    **dict.fromkeys((".pt", ".pth"), "torch.load({name!r}).numpy()"),
    **dict.fromkeys((".pkl", ".pickle"), "pickle.load(open({name!r}, 'rb'))"),
    ".mat": "scipy.io.loadmat({name!r})[{array!r}]",
    **dict.fromkeys((".h5", ".hdf5"), "h5py.File({name!r})[{array!r}][:]"),
    ".xlsx": "pandas.read_excel({name!r})",
}


class Arrays(NamedTuple):
    """``codes [n, d]`` or ``[m, n, d]`` (slots: ``[n, s, d]`` or ``[m, n, s, d]``); ``factors``; ``variances`` shaped
    like codes, or None; and what a file with slots says besides."""

    codes: np.ndarray
    factors: Factors
    variances: np.ndarray | None
    slots: Mapping[str, np.ndarray] = MappingProxyType({})


def load_arrays(
    path: str | Path,
    factors_path: str | Path | Factors | None = None,
    columns: Sequence[str] = (),
    missing: Missing = "error",
    *,
    slots: bool = False,
) -> Arrays:
    """Read codes and factors.

    Args:
      path: ``.npz`` with arrays ``codes`` and, without ``factors_path``, ``factors``, and optionally the factors'
        ``names``, their ``sizes`` (how many values, 0 if continuous) and ``variances``; or the codes alone, as ``.npy``
        (memory-mapped) or as a table whose columns are codes (``.csv``, ``.tsv``, ``.txt`` or ``.parquet``); or
        ``cells.h5ad:KEY``, which represents cells, whose annotations are the factors.
      factors_path: the factors, or their file, which :meth:`jaxdis.Factors.from_table` reads.
      columns: columns in this file, or annotations, each alone or with what it holds, as ``angle:continuous`` or
        ``shape:classes``; all if empty.
      missing: as in :meth:`jaxdis.Factors.from_table`; ``"drop"`` leaves out the same samples from codes and variances.
      slots: whether codes are ``[n, slots, d]``, as those with four axes always are: ``[m, n, slots, d]``.

    Raises:
      ValueError: for a file that is missing, truncated, damaged, in another format, lacks an array or holds pickled
        objects, for factors beside an ``.npz`` that holds its own, and as :meth:`jaxdis.Factors.from_table`.
    """
    path, given = Path(path), factors_path if isinstance(factors_path, Factors) else None
    factors_path = None if factors_path is None or given is not None else Path(factors_path)
    if is_cells(path) and factors_path is None and given is None:
        codes, annotations = read_cells(path)
        names, kinds = columns_and_kinds(columns)
        given = Factors.from_table(annotations, names or None, kinds, missing)
        return Arrays(_kept(codes, given, path), given, None)
    if (columns or missing != "error") and factors_path is None:
        option = "--columns" if columns else "--missing"
        raise ValueError(f"{option}: goes with --factors FILE ({', '.join(FACTOR_SUFFIXES)}), got no such file")
    if factors_path == path:
        raise ValueError(f"--factors: must be another file than the codes, got {printable(path)} for both")
    arrays = _codes_of(path)
    codes, variances = arrays["codes"], arrays.get("variances")
    if factors_path is None and given is None:
        if "factors" not in arrays:
            raise ValueError(
                f"{printable(path)}: must have an array 'factors', got {shown(sorted(arrays))}; give them by "
                f"--factors factors.npy, or make one with {MAKE_ONE}"
            )
        return Arrays(codes, _factors_of(arrays, path), variances, {n: arrays[n] for n in OF_SLOTS if n in arrays})
    if "factors" in arrays:
        raise ValueError(f"--factors: goes with an .npy of codes; {printable(path)} holds its own")
    if given is None:
        _check(factors_path, "factors")
        given = _read_once(factors_path, tuple(columns), missing, factors_path.stat().st_mtime_ns)
    codes, variances = (_kept(array, given, path, slots) for array in (codes, variances))
    return Arrays(codes, given, variances)


def alike(one: Arrays, other: Arrays) -> bool:
    """Whether two files' codes can be members in one zoo."""
    shapes = [
        [(array.shape, array.dtype) for array in (arrays.codes, arrays.variances) if array is not None]
        for arrays in (one, other)
    ]
    return shapes[0] == shapes[1] and same_factors(one.factors, other.factors)


def same_factors(one: Factors, other: Factors) -> bool:
    alike = (one.sizes, one.names, one.classes) == (other.sizes, other.names, other.classes)
    return one is other or (alike and np.array_equal(one.values, other.values))


def in_words(factors: Factors) -> str:
    """What each factor is: ``shape (2 classes: heart, square), x (continuous)``, and how many rows lack a value."""
    values = np.asarray(factors.values)
    there = np.ones(values.shape, bool) if factors.present is None else factors.present
    words = []
    for j, (name, kind) in enumerate(zip(factors.names, factors.kinds, strict=True)):
        count = np.unique(values[there[:, j], j]).size
        kind = kind if kind != "classes" else "1 class" if count == 1 else f"{count} classes"
        named = factors.classes[j] if factors.classes else None
        listed = named and len(named) <= MOST_NAMED and any(isinstance(value, str) for value in named)
        words.append(f"{name} ({kind}: {', '.join(map(printable, named))})" if listed else f"{name} ({kind})")
    lacking = int((~there).any(axis=1).sum()) if factors.rows is None else factors.num_rows - len(factors.rows)
    left = "are left out" if factors.rows is not None else "count for the factors that have one"
    return ", ".join(words) + (f"; {lacking} of {factors.num_rows} rows lack a value and {left}" if lacking else "")


@functools.lru_cache(maxsize=1)
def _read_once(path: Path, columns: tuple[str, ...], missing: Missing, _time: int) -> Factors:
    """A table that many files' codes share."""
    names, kinds = columns_and_kinds(columns)
    return Factors.from_table(path, names, kinds, missing)


def _codes_of(path: Path) -> dict[str, np.ndarray]:
    if is_cells(path):
        return {"codes": read_cells(path)[0]}
    if path.suffix not in SUFFIXES:
        return _read(path, "codes")
    columns = read_columns(path)
    for name, entries in columns.items():
        row, text = next(((row, entry) for row, entry in enumerate(entries, 1) if isinstance(entry, str)), (0, None))
        if row:
            raise ValueError(
                f"{path.name}: column {shown(name)} must hold numbers, got {shown(text)} in row {row}; leave out what "
                "is no code"
            )
        if len(entries) > FEW_CLASSES and differ(entries) and max(entries) - min(entries) == len(entries) - 1:
            raise ValueError(f"{path.name}: column {shown(name)} must hold a code, got row numbers; leave it out")
    return {"codes": np.array([list(entries) for entries in columns.values()], np.float64).T}  # missing ones are NaN


def _read(path: Path, wanted: str) -> dict[str, np.ndarray]:
    """The arrays in an .npz that has the name wanted, or the one array in an .npy."""
    name = printable(path)
    _check(path, wanted)
    if path.suffix == ".npy":
        return {wanted: read_npy(path)}
    arrays = read_npz(path, (*NAMES, *OF_SLOTS))
    if wanted not in arrays:
        raise ValueError(
            f"{name}: must have an array {wanted!r}, got {shown(sorted(arrays))}; make one with {MAKE_ONE}"
        )
    return arrays


def _factors_of(arrays: dict[str, np.ndarray], path: Path) -> Factors:
    try:
        return Factors.of(arrays["factors"], sizes_of(arrays.get("sizes")), names_of(arrays.get("names")))
    except ValueError as error:
        raise ValueError(f"{printable(path)}: {error}") from None


def _check(path: Path, wanted: str) -> None:
    """Check that a file exists and is in a format that is read; say how to convert others."""
    check_file(path, f"; make one with {MAKE_ONE}" if wanted == "codes" else "")
    if path.suffix in CONVERT:
        load = CONVERT[path.suffix].format(name=path.name, array=wanted)
        raise ValueError(
            f"{printable(path)}: must be {', '.join(('.npz', '.npy', *SUFFIXES))}, got {path.suffix}; convert it in "
            f"Python: x = {load}; numpy.save('{wanted}.npy', x)"
        )


def _kept(array: np.ndarray | None, factors: Factors, path: Path, slots: bool = False) -> np.ndarray | None:
    """The rows that a table's factors kept, from codes or variances."""
    if array is None or factors.rows is None:
        return array
    axis = -3 if slots or array.ndim == 4 else -2
    kept = at_rows(array, factors, axis)
    if kept is array:
        raise ValueError(
            f"{printable(path)}: must have as many samples as the table of factors has rows, {factors.num_rows}, got "
            f"shape {array.shape}"
        )
    return kept


def read_images(path: str | Path) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """A file's images, and what it holds about their factors: ``factors``, ``names`` and ``sizes``.

    Args:
      path: ``.npy`` with images, or ``.npz`` with an array ``images``.

    Raises:
      ValueError: for a file that is missing, damaged or without images, or factors for more or fewer images.
    """
    path = Path(path)
    check_file(path, "; make one with numpy.save('images.npy', images)")
    if path.suffix == ".npy":
        arrays = {"images": read_npy(path)}
    else:
        arrays = read_npz(path, ("images", "factors", "names", "sizes"))
    if arrays.get("images") is None:
        raise ValueError(f"{printable(path)}: must have an array 'images', got {shown(sorted(arrays))}")
    images = arrays.pop("images")
    if not images.ndim or not len(images):
        raise ValueError(f"{printable(path)}: must have at least one image, got shape {images.shape}")
    if "factors" in arrays and arrays["factors"].shape[:1] != images.shape[:1]:
        shapes = f"factors {arrays['factors'].shape} of images {images.shape}"
        raise ValueError(f"{printable(path)}: must have one row of factors per image, got {shapes}")
    return images, arrays
