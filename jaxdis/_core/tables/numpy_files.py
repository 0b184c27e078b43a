"""Arrays in NumPy and safetensors files: checked, never unpickled, never larger in memory than the file allows.

NumPy forgets the type bfloat16, in which JAX and torch keep activations: two bytes without a type (``V2``) are read as
bfloat16.
"""

import math
import zipfile
from collections.abc import Sequence
from pathlib import Path

import ml_dtypes
import numpy as np

from jaxdis._core.lookup import printable
from jaxdis._core.tables.column_files import suffix_of

MAKE_ONE = "numpy.savez('codes.npz', codes=codes, factors=factors)"
# Deflate packs at most 1,032 to 1; arrays of numbers are nowhere near that unless they are constant.
MOST_PACKED = 200
SMALL = 64 << 20
ARRAY_SUFFIXES = (".npz", ".npy", ".safetensors")


def read_arrays(path: Path, known: Sequence[str]) -> dict[str, np.ndarray | None]:
    """:func:`read_npz`, or the same for a ``.safetensors`` file."""
    return _read_safetensors(path, known) if suffix_of(path) == ".safetensors" else read_npz(path, known)


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
        return _typed(np.ndarray(shape, dtype, stream.read(), order="F" if by_columns else "C"))


def read_npy(path: Path) -> np.ndarray:
    """The array in an .npy file, memory-mapped.

    Raises:
      ValueError: as :func:`read_npz`.
    """
    try:
        with path.open("rb") as stream:
            _header(stream, path.stat().st_size)
        return _typed(np.load(path, mmap_mode="r", allow_pickle=False))
    except Exception as error:
        reason = f"must be a plain .npy array, got another file or one that is cut short ({_reason(error)})"
        raise ValueError(f"{printable(path)}: {reason}") from None


def _read_safetensors(path: Path, known: Sequence[str]) -> dict[str, np.ndarray | None]:
    from safetensors import safe_open

    try:
        with safe_open(path, framework="np") as file:
            wanted = [name for name in known if name in file.keys()]  # noqa: SIM118, since it is no mapping
            return {name: file.get_tensor(name) for name in wanted} or dict.fromkeys(file.keys())
    except AttributeError as error:  # "module 'numpy' has no attribute 'float8_e4m3fn'"
        raise ValueError(f"{printable(path)}: must hold types that NumPy has, got {error}; save float32") from None
    except Exception as error:  # the library's own
        raise ValueError(f"{printable(path)}: {_reason(error)}") from None


def _typed(array: np.ndarray) -> np.ndarray:
    """Two bytes that have lost their type as bfloat16."""
    return array.view(ml_dtypes.bfloat16) if array.dtype == np.dtype("V2") else array


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
