"""Arrays of NumPy's files: checked, never unpickled, and never larger in memory than the file allows."""

import math
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from jaxdis._core.tables.column_files import printable

MAKE_ONE = "numpy.savez('codes.npz', codes=codes, factors=factors)"
# Deflate packs at most 1,032 to 1; arrays of numbers are nowhere near that unless they are constant.
MOST_PACKED = 200
SMALL = 64 << 20


def read_npz(path: Path, known: Sequence[str]) -> dict[str, np.ndarray | None]:
    """The arrays with these names; if there are none, all others' names, each with None.

    Raises:
      ValueError: for a file that is damaged, or that holds pickled objects.
    """
    if not zipfile.is_zipfile(path):
        raise ValueError(
            f"{printable(path)}: must be a .npz file, got another file or one that is cut short; make one "
            f"with {MAKE_ONE}"
        )
    try:
        with zipfile.ZipFile(path) as archive:
            members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
            wanted = [name for name in known if name in members]
            return {name: _member(archive, members[name]) for name in wanted} or dict.fromkeys(members)
    except Exception as error:  # of a damaged file, the modules that read it raise nearly everything
        raise ValueError(f"{printable(path)}: {_reason(error)}") from None


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    """One array in an archive, after comparing its declared size with what the file holds."""
    if member.file_size > max(SMALL, MOST_PACKED * member.compress_size):
        raise ValueError(
            f"{member.filename} claims {member.file_size:,} bytes, packed in {member.compress_size:,}; use savez"
        )
    with archive.open(member) as stream:
        shape, by_columns, dtype = _header(stream, member.file_size)
        return np.ndarray(shape, dtype, stream.read(), order="F" if by_columns else "C")


def read_npy(path: Path) -> np.ndarray:
    """The array in an .npy file, memory-mapped.

    Raises:
      ValueError: as :func:`read_npz`.
    """
    try:
        with path.open("rb") as stream:
            _header(stream, path.stat().st_size)
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:
        reason = f"must be a plain .npy array, got another file or one that is cut short ({_reason(error)})"
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
