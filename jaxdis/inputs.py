"""Codes and factors from a user's files: checked, never unpickled."""

import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jaxdis.typing import Factors

MAKE_ONE = "numpy.savez('codes.npz', codes=codes, factors=factors)"


class Arrays(NamedTuple):
    """``codes [n, d]`` or ``[m, n, d]``; ``factors``; ``variances`` in the shape of codes, or None."""

    codes: np.ndarray
    factors: Factors
    variances: np.ndarray | None


def load_arrays(path: str | Path, factors_path: str | Path | None = None) -> Arrays:
    """Read codes and factors.

    Args:
      path: ``.npz`` with arrays ``codes`` and ``factors`` and optionally ``names`` (of factors), ``sizes`` (numbers of
        values, 0 for a continuous factor) and ``variances``; or ``.npy`` with the codes alone (memory-mapped).
      factors_path: ``.npy`` with the factors, when the codes are an ``.npy``.

    Raises:
      ValueError: for a file that is missing, cut short, not NumPy's, lacks an array or holds pickled objects.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"{path}: no such file; make one with {MAKE_ONE}")
    if path.suffix == ".npy":
        if factors_path is None:
            raise ValueError(f"{path}: an .npy holds one array; give the factors as well: --factors factors.npy")
        found = {"codes": _read_npy(path), "factors": _read_npy(Path(factors_path))}
    else:
        found = _read_npz(path)
    for name in ("codes", "factors"):
        if name not in found:
            raise ValueError(f"{path}: needs an array {name!r}, got {sorted(found)}; make one with {MAKE_ONE}")
    sizes = found.get("sizes")
    if sizes is not None:
        sizes = tuple(int(size) or None for size in np.atleast_1d(sizes))
    names = found.get("names")
    factors = Factors.of(found["factors"], sizes, None if names is None else np.atleast_1d(names).tolist())
    return Arrays(found["codes"], factors, found.get("variances"))


def _read_npz(path: Path) -> dict[str, np.ndarray]:
    if not zipfile.is_zipfile(path):
        raise ValueError(f"{path}: is no .npz, or is cut short; make one with {MAKE_ONE}")
    try:
        with np.load(path, allow_pickle=False) as archive:
            wanted = [name for name in ("codes", "factors", "names", "sizes", "variances") if name in archive.files]
            return {name: archive[name] for name in wanted} or dict.fromkeys(archive.files)
    except ValueError as error:
        if "allow_pickle" in str(error):
            raise ValueError(
                f"{path}: holds pickled Python objects, which are never loaded; save plain arrays"
            ) from None
        raise ValueError(f"{path}: cannot be read ({error})") from None
    except (zipfile.BadZipFile, EOFError, OSError, KeyError) as error:
        raise ValueError(f"{path}: is damaged ({error})") from None


def _read_npy(path: Path) -> np.ndarray:
    if not path.is_file():
        raise ValueError(f"{path}: no such file")
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"{path}: is no plain .npy array, or is cut short ({error})") from None
