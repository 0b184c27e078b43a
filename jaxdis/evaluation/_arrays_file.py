"""Codes and factors from a user's files: checked, never unpickled, and never larger in memory than the file allows."""

import functools
import math
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jaxdis._core.options import shown
from jaxdis.evaluation._column_files import SUFFIXES, check_file, differ, printable, read_columns
from jaxdis.evaluation._factor_tables import FEW_CLASSES, FactorTable, Missing, columns_and_kinds, read_table
from jaxdis.factors import Factors

MAKE_ONE = "numpy.savez('codes.npz', codes=codes, factors=factors)"
NAMES = ("codes", "factors", "names", "sizes", "variances")
# How to load what only the library that wrote it can load; some of these are pickles, which can run anything.
CONVERT = {
    **dict.fromkeys((".pt", ".pth"), "torch.load({name!r}).numpy()"),
    **dict.fromkeys((".pkl", ".pickle"), "pickle.load(open({name!r}, 'rb'))"),
    ".mat": "scipy.io.loadmat({name!r})[{array!r}]",
    **dict.fromkeys((".h5", ".hdf5"), "h5py.File({name!r})[{array!r}][:]"),
    ".xlsx": "pandas.read_excel({name!r})",
}
# Deflate packs at most 1,032 to 1; arrays of numbers are nowhere near that unless they are constant.
MOST_PACKED = 200
SMALL = 64 << 20


class Arrays(NamedTuple):
    """``codes [n, d]`` or ``[m, n, d]``; ``factors``; ``variances`` in the shape of codes, or None.

    ``table`` says how the columns of a table of factors were read; None for factors in NumPy's format.
    """

    codes: np.ndarray
    factors: Factors
    variances: np.ndarray | None
    table: FactorTable | None = None


def load_arrays(
    path: str | Path,
    factors_path: str | Path | None = None,
    columns: Sequence[str] = (),
    missing: Missing = "error",
) -> Arrays:
    """Read codes and factors.

    Args:
      path: ``.npz`` with arrays ``codes`` and, without ``factors_path``, ``factors``, and optionally ``names`` (of
        factors), ``sizes`` (numbers of values, 0 for a continuous factor) and ``variances``; or the codes alone, as
        ``.npy`` (memory-mapped) or as a table whose columns are codes (``.csv``, ``.tsv``, ``.txt`` or ``.parquet``).
      factors_path: the factors, as ``.npy``, ``.npz`` or a table.
      columns: columns of a table of factors, each alone or with what it holds, as ``angle:continuous`` or
        ``shape:classes``; all if empty.
      missing: ``"drop"`` leaves out samples without a value for one of these columns, of codes, variances and factors.

    Raises:
      ValueError: for a file that is missing, truncated, damaged, in another format, lacks an array or holds pickled
        objects, for factors beside an ``.npz`` that holds its own, and as
        :func:`jaxdis.evaluation._factor_tables.read_table`.
    """
    path, factors_path = Path(path), None if factors_path is None else Path(factors_path)
    is_table = factors_path is not None and factors_path.suffix in SUFFIXES
    if (columns or missing != "error") and not is_table:
        option = "--columns" if columns else "--missing"
        raise ValueError(f"{option}: goes with --factors TABLE ({', '.join(SUFFIXES)}), got {factors_path}")
    if factors_path == path:
        raise ValueError(f"--factors: must be another file than the codes, got {printable(path)} for both")
    arrays = _codes_of(path)
    codes, variances = arrays["codes"], arrays.get("variances")
    if is_table:
        check_file(factors_path)
        table = _read_once(factors_path, tuple(columns), missing, factors_path.stat().st_mtime_ns)
        codes, variances = (_kept(array, table, path) for array in (codes, variances))
        return Arrays(codes, table.factors, variances, table)
    if factors_path is None:
        if "factors" not in arrays:
            raise ValueError(
                f"{printable(path)}: needs an array 'factors', got {shown(sorted(arrays))}; give them by "
                f"--factors factors.npy, or make one with {MAKE_ONE}"
            )
        return Arrays(codes, _factors_of(arrays, path), variances)
    if "factors" in arrays:
        raise ValueError(f"--factors: goes with an .npy of codes; {printable(path)} holds its own")
    return Arrays(codes, _factors_of(_read(factors_path, "factors"), factors_path), variances)


@functools.lru_cache(maxsize=1)
def _read_once(path: Path, columns: tuple[str, ...], missing: Missing, _time: int) -> FactorTable:
    """A table that the codes of many files share."""
    return read_table(path, *columns_and_kinds(columns), missing)


def _codes_of(path: Path) -> dict[str, np.ndarray]:
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
    """The arrays of an .npz that has one of the name wanted, or the one array of an .npy."""
    name = printable(path)
    check_file(path, f"; make one with {MAKE_ONE}" if wanted == "codes" else "")
    if path.suffix in CONVERT:
        load = CONVERT[path.suffix].format(name=path.name, array=wanted)
        raise ValueError(
            f"{name}: must be {', '.join(('.npz', '.npy', *SUFFIXES))}, got {path.suffix}; convert it in Python: "
            f"x = {load}; numpy.save('{wanted}.npy', x)"
        )
    if path.suffix == ".npy":
        return {wanted: _read_npy(path)}
    arrays = _read_npz(path)
    if wanted not in arrays:
        raise ValueError(f"{name}: needs an array {wanted!r}, got {shown(sorted(arrays))}; make one with {MAKE_ONE}")
    return arrays


def _factors_of(arrays: dict[str, np.ndarray], path: Path) -> Factors:
    try:
        return Factors.of(arrays["factors"], _sizes(arrays.get("sizes")), _names(arrays.get("names")))
    except ValueError as error:
        raise ValueError(f"{printable(path)}: {error}") from None


def _kept(array: np.ndarray | None, table: FactorTable, path: Path) -> np.ndarray | None:
    """The rows that a table kept, of codes or variances."""
    if array is None or len(table.rows) == table.num_rows:
        return array
    if array.ndim < 2 or array.shape[-2] != table.num_rows:
        raise ValueError(
            f"{printable(path)}: must have as many samples as the table of factors has rows, {table.num_rows}, got "
            f"shape {array.shape}"
        )
    return array[..., table.rows, :]


def read_images(path: str | Path) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Images of a file, and what it holds about their factors: ``factors``, ``names`` and ``sizes``.

    Args:
      path: ``.npy`` of images, or ``.npz`` with an array ``images``.

    Raises:
      ValueError: for a file that is missing, damaged or without images, or factors of another number of images.
    """
    path = Path(path)
    check_file(path, "; make one with numpy.save('images.npy', images)")
    if path.suffix == ".npy":
        arrays = {"images": _read_npy(path)}
    else:
        arrays = _read_npz(path, ("images", "factors", "names", "sizes"))
    if arrays.get("images") is None:
        raise ValueError(f"{printable(path)}: needs an array 'images', got {shown(sorted(arrays))}")
    images = arrays.pop("images")
    if not images.ndim or not len(images):
        raise ValueError(f"{printable(path)}: needs at least one image, got shape {images.shape}")
    if "factors" in arrays and arrays["factors"].shape[:1] != images.shape[:1]:
        shapes = f"factors {arrays['factors'].shape} of images {images.shape}"
        raise ValueError(f"{printable(path)}: needs one row of factors per image, got {shapes}")
    return images, arrays


def _sizes(sizes: np.ndarray | None) -> tuple[int | None, ...] | None:
    """Numbers of values, None for 0."""
    if sizes is None:
        return None
    if sizes.ndim > 1 or sizes.dtype.kind not in "fiu":
        raise ValueError(f"sizes: needs one number per factor (0 for a continuous one), got {shown(sizes)}")
    sizes = np.atleast_1d(sizes)
    if not np.isfinite(sizes).all() or (sizes % 1 != 0).any() or (sizes < 0).any():
        raise ValueError(f"sizes: needs whole numbers of at least 0, got {shown(sizes.tolist())}")
    return tuple(int(size) or None for size in sizes)


def _names(names: np.ndarray | None) -> list[str] | None:
    if names is None:
        return None
    if names.ndim > 1 or names.dtype.kind not in "US":
        raise ValueError(f"names: needs one text per factor, got {shown(names)}")
    return np.atleast_1d(np.char.decode(names, "utf-8", "replace") if names.dtype.kind == "S" else names).tolist()


def _read_npz(path: Path, known: Sequence[str] = NAMES) -> dict[str, np.ndarray]:
    if not zipfile.is_zipfile(path):
        raise ValueError(
            f"{printable(path)}: needs a .npz file, got another file or one that is cut short; make one with {MAKE_ONE}"
        )
    try:
        with zipfile.ZipFile(path) as archive:
            members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
            wanted = [name for name in known if name in members]
            return {name: _member(archive, members[name]) for name in wanted} or dict.fromkeys(members)
    except Exception as error:  # of a damaged file, the modules that read it raise nearly everything
        raise ValueError(f"{printable(path)}: {_reason(error)}") from None


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    """One array of an archive, after comparing its declared size with what the file holds."""
    if member.file_size > max(SMALL, MOST_PACKED * member.compress_size):
        raise ValueError(
            f"{member.filename} claims {member.file_size:,} bytes, packed in {member.compress_size:,}; use savez"
        )
    with archive.open(member) as stream:
        shape, by_columns, dtype = _header(stream, member.file_size)
        return np.ndarray(shape, dtype, stream.read(), order="F" if by_columns else "C")


def _read_npy(path: Path) -> np.ndarray:
    try:
        with path.open("rb") as stream:
            _header(stream, path.stat().st_size)
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:
        reason = f"needs a plain .npy array, got another file or one that is cut short ({_reason(error)})"
        raise ValueError(f"{printable(path)}: {reason}") from None


def _header(stream, size: int) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, order and dtype of the array that follows, unless the bytes cannot hold it or hold pickled objects."""
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, by_columns, dtype = read(stream)
    if dtype.hasobject:
        raise ValueError("holds pickled Python objects, which are never loaded; save plain arrays")
    if any(isinstance(length, bool) or length < 0 for length in shape):
        raise ValueError(f"is damaged: an array claims the shape {shape}")
    if math.prod(shape) * dtype.itemsize > size:
        raise ValueError(f"is damaged or cut short: an array claims the shape {shape}, in {size:,} bytes")
    return shape, by_columns, dtype


def _reason(error: Exception) -> str:
    reason = " ".join(str(error).split())[:200] or type(error).__name__
    return reason if isinstance(error, ValueError) and reason.startswith(("holds", "is ")) else f"is damaged ({reason})"
