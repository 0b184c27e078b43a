"""The official Shapes3D file (hdf5, or an npz of the same arrays), decoded once to a memory-mapped lattice."""

from pathlib import Path

import numpy as np

from jaxdis.data import _lattice as lattice
from jaxdis.data._factor_space import FactorSpace
from jaxdis.data._shapes3d import SKY_COLOR, SPACE
from jaxdis.data.files import _containers as checks
from jaxdis.data.files import _containers as containers

MD5 = "099a2078d58cec4daad0702c55d06868"
WHERE = "https://github.com/google-deepmind/3d-shapes"
_STEP = 2**11


def images(source: str | Path, space: FactorSpace | None = None) -> np.memmap:
    """The file's lattice ``[cells, 64, 64, 3]`` uint8, memory-mapped from the cache (5.9 GB on disk).

    Checks: image shape and dtype, labels in lattice order, and the color of the sky in the first pixel.

    Raises:
      FileNotFoundError: if ``source`` does not exist.
      ValueError: if a check fails.
    """
    space = space or SPACE
    path = containers.existing(source, what="3dshapes.h5", where=WHERE, md5=MD5)
    origin = lattice.identity(path)
    name = lattice.name_of("shapes3d-file", origin)
    shape = (space.num_lattice, 64, 64, 3)
    return lattice.cached(name, shape, np.uint8, lambda out: _decode(path, space, out), origin)


def _decode(path: Path, space: FactorSpace, out: np.ndarray) -> None:
    checks.images(path, *containers.header(path, "images"), out.shape)
    checks.values(path, containers.whole(path, "labels"), space)
    start = 0
    for block in containers.blocks(path, "images", _STEP):
        sky(path, block)
        out[start : start + len(block)] = block
        start += len(block)


def sky(path: Path, images: np.ndarray) -> None:
    """Check that the first pixel of every image is sky."""
    away = np.abs(images[:, 0, 0].astype(int) - np.array(SKY_COLOR)).max()
    if away > 2:
        raise ValueError(f"source: {path} has a first pixel {away} away from the sky {SKY_COLOR}; needs at most 2")
