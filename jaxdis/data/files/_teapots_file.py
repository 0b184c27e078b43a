"""The official file of teapots (Eastwood & Williams 2018), 200,000 images with their factors, decoded once."""

from pathlib import Path

import numpy as np

from jaxdis.data import _lattice as lattice
from jaxdis.data._teapot import SPACE
from jaxdis.data.files import _containers as containers

MD5 = "9b58d66a382d01f4477e33520f1fa503"
WHERE = "https://github.com/cianeastwood/qedr"
# Shares of the images, in the order of the file.
PARTS = {"train": (0.0, 0.8), "validation": (0.8, 0.9), "test": (0.9, 1.0), "all": (0.0, 1.0)}
_STEP = 2**11


def read(source: str | Path, part: str = "all") -> tuple[np.ndarray, np.ndarray]:
    """Factors ``[n, 5]`` float32, and images ``[n, 64, 64, 3]`` uint8, memory-mapped from the cache.

    Checks: shapes, pixels from 0 to 255, and factors within their intervals.

    Args:
      source: ``teapots.npz``.
      part: ``train``, ``validation`` or ``test``, the first 80 %, the next and the last 10 % of the images, or ``all``.

    Raises:
      FileNotFoundError: if ``source`` does not exist.
      ValueError: if a check fails.
    """
    path = containers.existing(source, what="teapots.npz", where=WHERE, md5=MD5)
    shape, _ = containers.header(path, "images")
    if len(shape) != 4 or shape[1:] != (64, 64, 3):
        raise ValueError(f"source: {path} holds images {tuple(shape)}; needs [n, 64, 64, 3]")
    factors = _checked_factors(path, containers.whole(path, "gts"), shape[0])
    origin = lattice.identity(path)
    name = lattice.name_of("teapots-file", origin)
    images = lattice.cached(name, shape, np.uint8, lambda out: _decode(path, out), origin)
    first, last = (round(share * len(factors)) for share in PARTS[part])
    return factors[first:last], images[first:last]


def _checked_factors(path: Path, factors: np.ndarray, count: int) -> np.ndarray:
    if factors.shape != (count, 5) or factors.dtype.kind != "f":
        raise ValueError(f"source: {path} holds factors {factors.shape} {factors.dtype}; needs real ({count}, 5)")
    for name, span, column in zip(SPACE.names, SPACE.values, factors.T, strict=True):
        if not (span.low - 1e-5 <= column.min() and column.max() <= span.high + 1e-5):
            bounds = f"{column.min():g} to {column.max():g}"
            raise ValueError(f"source: {path} holds {name} from {bounds}; needs {span.low:g} to {span.high:g}")
    return factors.astype(np.float32)


def _decode(path: Path, out: np.ndarray) -> None:
    start = 0
    for block in containers.blocks(path, "images", _STEP):
        if block.dtype.kind not in "iu" or block.min() < 0 or block.max() > 255:
            contents = f"{block.dtype} pixels {block.min()} to {block.max()}"
            raise ValueError(f"source: {path} holds {contents}; needs whole numbers 0 to 255")
        out[start : start + len(block)] = block
        start += len(block)
