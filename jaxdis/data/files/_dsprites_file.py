"""The official dSprites files, npz and hdf5, packed to bits as they are read."""

from pathlib import Path

import numpy as np

from jaxdis.data import _lattice as lattice
from jaxdis.data import _sprites as sprites
from jaxdis.data._factor_space import FactorSpace
from jaxdis.data.files import _containers as checks
from jaxdis.data.files import _containers as containers

MD5 = "b331c4447a651c44bf5e8ae09022e230"
WHERE = "https://github.com/google-deepmind/dsprites-dataset"
_STEP = 2**13


def words(source: str | Path, space: FactorSpace | None = None) -> np.memmap:
    """The file's lattice as words ``[cells, 64, 2]`` (:func:`jaxdis.data._sprites.rows`), memory-mapped from the cache.

    Checks: image shape and dtype, class numbers and values in lattice order, pixels of 0 and 1 only, and equal images
    for orientations 0 and 2π. The npz's pickled ``metadata`` is not read.

    Raises:
      FileNotFoundError: if ``source`` does not exist.
      ValueError: if a check fails.
    """
    space = space or sprites.SPACE
    what = "dsprites_ndarray_co1sh3sc6or40x32y32_64x64 as .npz or .hdf5"
    path = containers.existing(source, what=what, where=WHERE, md5=MD5)
    origin = lattice.identity(path)
    return lattice.cached(
        lattice.name_of("dsprites-file", origin),
        (space.num_lattice, 64, 2),
        np.uint32,
        lambda out: _decode(path, space, out),
        origin,
    )


def _decode(path: Path, space: FactorSpace, out: np.ndarray) -> None:
    names = ("latents/classes", "latents/values") if containers.is_hdf5(path) else ("latents_classes", "latents_values")
    checks.images(path, *containers.header(path, "imgs"), (space.num_lattice, 64, 64))
    # The first column of both tables is the color, which has one value.
    checks.classes(path, containers.whole(path, names[0])[:, 1:], space)
    checks.values(path, containers.whole(path, names[1])[:, 1:], space)
    start = 0
    for images in containers.blocks(path, "imgs", _STEP):
        if images.max() > 1:
            raise ValueError(f"source: {path} holds pixels of {images.max()}; needs 0 and 1 only")
        out[start : start + len(images)] = sprites.pack(images)
        start += len(images)
    full_circle(path, out, space)


def full_circle(path: Path, words: np.ndarray, space: FactorSpace) -> None:
    """Check that orientations 0 and 2π, if the lattice has both, show the same image."""
    column = space.position("orientation")
    angles = np.array(space.values[column])
    if not np.isclose(angles[-1] - angles[0], 2 * np.pi):
        return
    grid = words.reshape(*space.sizes, *words.shape[1:])
    first, last = np.take(grid, 0, column), np.take(grid, len(angles) - 1, column)
    if (different := int((first != last).any((-1, -2)).sum())) > 0:
        raise ValueError(f"source: in {path} {different} images differ between orientations 0 and 2π; needs them equal")
