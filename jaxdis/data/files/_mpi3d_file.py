"""The MPI3D files (Gondal et al. 2019): 12.7 GB each, read in place through a memory map at the array's offset."""

from pathlib import Path

import numpy as np

from jaxdis.data import _lattice as lattice
from jaxdis.data._factor_space import FactorSpace
from jaxdis.data.files import _containers as checks
from jaxdis.data.files import _containers as containers

WHERE = "https://github.com/rr-learning/disentanglement_dataset"
MD5 = {
    "toy": "55889cb7c7dfc655d6e0277beee88868",
    "realistic": "59a6225b88b635365f70c91b3e52f70f",
    "real": "0f33f609918fb5c97996692f91129802",
    "complex": None,
    "challenge": None,
}
_ARM = {"object_size": 2, "camera_height": 3, "background_color": 3, "horizontal_axis": 40, "vertical_axis": 40}
# Colors white, green, red, blue, brown, olive; shapes cone, cube, cylinder, hexagonal, pyramid, sphere.
SPACE = FactorSpace.of(object_color=6, object_shape=6, **_ARM)
# "complex": colors yellow, green, olive, red; shapes cup, tennis ball, croissant, beer cup. "challenge", the files of
# the 2019 competition without the held-out values: colors green, red, blue, brown; shapes cone, cube, hexagonal,
# sphere.
COMPLEX_SPACE = FactorSpace.of(object_color=4, object_shape=4, **_ARM)


def space_of(variant: str) -> FactorSpace:
    if variant not in MD5:
        raise ValueError(f"variant: must be one of {', '.join(MD5)}, got {variant!r}")
    return SPACE if variant in ("toy", "realistic", "real") else COMPLEX_SPACE


def open_images(path: str) -> np.ndarray:
    """The array ``images [cells, 64, 64, 3]``: the file itself if it is uncompressed, otherwise decoded once."""
    file = Path(path)
    array = containers.mapped(file, "images")
    if array is not None:
        return array
    shape, _ = containers.header(file, "images")
    origin = lattice.identity(file)
    return lattice.cached(
        lattice.name_of("mpi3d-file", origin), shape, np.uint8, lambda out: _decode(file, out), origin
    )


def _decode(path: Path, out: np.ndarray) -> None:
    start = 0
    for block in containers.blocks(path, "images", 2**11):
        out[start : start + len(block)] = block
        start += len(block)


def checked(source: str | Path, variant: str, space: FactorSpace | None = None) -> Path:
    """The path, if it holds the variant's lattice.

    Raises:
      FileNotFoundError: if ``source`` does not exist.
      ValueError: for another size, shape or dtype; a file of 460,800 images is distinguished from the full lattice.
    """
    space = space or space_of(variant)
    path = containers.existing(source, what=f"the npz of variant {variant!r}", where=WHERE, md5=MD5[variant])
    shape, dtype = containers.header(path, "images")
    if shape[:1] == (COMPLEX_SPACE.num_lattice,) and space.num_lattice == SPACE.num_lattice:
        raise ValueError(
            f"source: {path} holds 460800 images, 4 colors × 4 shapes, and was opened as variant {variant!r} with "
            f"6 × 6 (1036800); open it with variant='complex' or 'challenge', or use the full file of {variant!r}"
        )
    checks.images(path, shape, dtype, (space.num_lattice, 64, 64, 3))
    containers.mapped(path, "images")
    return path
