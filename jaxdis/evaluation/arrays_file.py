"""Codes and factors from a user's files: checked, never unpickled, and never larger in memory than the file allows."""

import math
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jaxdis.evaluation.factor_tables import SUFFIXES, read_factors
from jaxdis.options import shown
from jaxdis.typing import Factors

MAKE_ONE = "numpy.savez('codes.npz', codes=codes, factors=factors)"
NAMES = ("codes", "factors", "names", "sizes", "variances")
# Deflate packs at most 1,032 to 1; arrays of numbers are nowhere near that unless they are constant.
MOST_PACKED = 200
SMALL = 64 << 20


class Arrays(NamedTuple):
    """``codes [n, d]`` or ``[m, n, d]``; ``factors``; ``variances`` in the shape of codes, or None."""

    codes: np.ndarray
    factors: Factors
    variances: np.ndarray | None


def load_arrays(path: str | Path, factors_path: str | Path | None = None, columns: Sequence[str] = ()) -> Arrays:
    """Read codes and factors.

    Args:
      path: ``.npz`` with arrays ``codes`` and, without ``factors_path``, ``factors``, and optionally ``names`` (of
        factors), ``sizes`` (numbers of values, 0 for a continuous factor) and ``variances``; or ``.npy`` with the codes
        alone (memory-mapped).
      factors_path: ``.npy`` with the factors if the codes are an ``.npy``, or a ``.csv`` or ``.parquet`` table of them.
      columns: columns of such a table; all if empty.

    Raises:
      ValueError: for a file that is missing, truncated, damaged, not in NumPy's format, lacks an array or holds pickled
        objects, and for an ``.npy`` of factors together with an ``.npz``.
    """
    path = Path(path)
    name = printable(path)
    if not path.is_file():
        raise ValueError(f"{name}: no such file; make one with {MAKE_ONE}")
    table = factors_path is not None and Path(factors_path).suffix in SUFFIXES
    if columns and not table:
        raise ValueError(f"--columns: goes with --factors TABLE ({' or '.join(SUFFIXES)}), got {factors_path}")
    if table:
        arrays = {"codes": _read_npy(path)} if path.suffix == ".npy" else _read_npz(path)
        if "codes" not in arrays:
            raise ValueError(f"{name}: needs an array 'codes', got {shown(sorted(arrays))}")
        return Arrays(arrays["codes"], read_factors(factors_path, columns), arrays.get("variances"))
    if path.suffix == ".npy":
        if factors_path is None:
            raise ValueError(f"{name}: an .npy holds one array; give the factors as well: --factors factors.npy")
        arrays = {"codes": _read_npy(path), "factors": _read_npy(Path(factors_path))}
    else:
        if factors_path is not None:
            raise ValueError(f"--factors: goes with an .npy of codes; {name} holds its own")
        arrays = _read_npz(path)
    for wanted in ("codes", "factors"):
        if wanted not in arrays:
            raise ValueError(
                f"{name}: needs an array {wanted!r}, got {shown(sorted(arrays))}; make one with {MAKE_ONE}"
            )
    try:
        factors = Factors.of(arrays["factors"], _sizes(arrays.get("sizes")), _names(arrays.get("names")))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    return Arrays(arrays["codes"], factors, arrays.get("variances"))


def read_images(path: str | Path) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Images of a file, and what it holds about their factors: ``factors``, ``names`` and ``sizes``.

    Args:
      path: ``.npy`` of images, or ``.npz`` with an array ``images``.

    Raises:
      ValueError: for a file that is missing, damaged or without images, or factors of another number of images.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"{printable(path)}: no such file; make one with numpy.save('images.npy', images)")
    if path.suffix == ".npy":
        found = {"images": _read_npy(path)}
    else:
        found = _read_npz(path, ("images", "factors", "names", "sizes"))
    if found.get("images") is None:
        raise ValueError(f"{printable(path)}: needs an array 'images', got {shown(sorted(found))}")
    images = found.pop("images")
    if not images.ndim or not len(images):
        raise ValueError(f"{printable(path)}: needs at least one image, got shape {images.shape}")
    if "factors" in found and found["factors"].shape[:1] != images.shape[:1]:
        shapes = f"factors {found['factors'].shape} of images {images.shape}"
        raise ValueError(f"{printable(path)}: needs one row of factors per image, got {shapes}")
    return images, found


def printable(path: Path) -> str:
    """A file's name without the control characters that would reach the terminal."""
    return "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in str(path))


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
        _check_header(stream, member.file_size)
    with archive.open(member) as stream:
        return np.lib.format.read_array(stream, allow_pickle=False)


def _read_npy(path: Path) -> np.ndarray:
    if not path.is_file():
        raise ValueError(f"{printable(path)}: no such file")
    try:
        with path.open("rb") as stream:
            _check_header(stream, path.stat().st_size)
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:
        reason = f"needs a plain .npy array, got another file or one that is cut short ({_reason(error)})"
        raise ValueError(f"{printable(path)}: {reason}") from None


def _check_header(stream, size: int) -> None:
    """Refuse a header whose array the following bytes cannot hold, before allocating memory for it."""
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(stream)
    if dtype.hasobject:
        raise ValueError("holds pickled Python objects, which are never loaded; save plain arrays")
    if any(isinstance(length, bool) or length < 0 for length in shape):
        raise ValueError(f"is damaged: an array claims the shape {shape}")
    if math.prod(shape) * dtype.itemsize > size:
        raise ValueError(f"is damaged or cut short: an array claims the shape {shape}, in {size:,} bytes")


def _reason(error: Exception) -> str:
    reason = " ".join(str(error).split())[:200] or type(error).__name__
    return reason if isinstance(error, ValueError) and reason.startswith(("holds", "is ")) else f"is damaged ({reason})"
