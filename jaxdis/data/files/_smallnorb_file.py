"""The SmallNORB matrices (LeCun et al. 2004), in their own binary format."""

import gzip
import zlib
from pathlib import Path

import numpy as np

from jaxdis.data import _lattice as lattice
from jaxdis.data._factor_space import FactorSpace
from jaxdis.data.files import _containers as checks
from jaxdis.data.files import _containers as containers

WHERE = "https://cs.nyu.edu/~ylclab/data/norb-v1.0-small/"
TRAINING = "smallnorb-5x46789x9x18x6x2x96x96-training"
TESTING = "smallnorb-5x01235x9x18x6x2x96x96-testing"
PARTS = ("dat", "cat", "info")
_TYPES = {507333717: np.dtype("u1"), 507333716: np.dtype("<i4")}

# The instance (one of ten toys) is not a factor of the set; it is drawn for every image.
SPACE = FactorSpace.of(category=5, elevation=range(30, 71, 5), azimuth=range(0, 341, 20), lighting=6)
FULL_SPACE = FactorSpace.of(category=5, instance=10, elevation=range(30, 71, 5), azimuth=range(0, 341, 20), lighting=6)


def read_matrix(path: Path) -> np.ndarray:
    """One matrix, plain or gzipped: int32 magic, int32 rank, max(3, rank) int32 sizes, then the values, little-endian.

    Raises:
      ValueError: for another magic number, or another number of values than the sizes give.
    """
    try:
        data = path.read_bytes()
        # Recognized by its first bytes: tensorflow-datasets unpacks into a file that is still called .gz.
        data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"source: {path} is not a whole gzip file ({error})") from None
    magic = int.from_bytes(data[:4], "little")
    if magic not in _TYPES:
        raise ValueError(f"source: {path} starts with {magic}; needs {' or '.join(map(str, _TYPES))} (uint8, int32)")
    dtype, rank = _TYPES[magic], int.from_bytes(data[4:8], "little")
    start = 8 + 4 * max(3, rank)
    if not 1 <= rank <= 8 or len(data) < start:
        raise ValueError(f"source: {path} has a header of rank {rank} in {len(data)} bytes; needs a whole header")
    shape = tuple(np.frombuffer(data, "<i4", rank, 8).tolist())
    needed = start + int(np.prod(shape)) * dtype.itemsize
    if len(data) != needed:
        raise ValueError(f"source: {path} holds {len(data)} bytes; needs {needed} for shape {shape}")
    return np.frombuffer(data, dtype, offset=start).reshape(shape)


def matrix_path(folder: Path, half: str, part: str) -> Path:
    """The file of one matrix, plain or gzipped, whichever exists."""
    plain = folder / f"{half}-{part}.mat"
    zipped = folder / f"{half}-{part}.mat.gz"
    path = plain if plain.exists() else zipped
    return containers.existing(path, what=f"{plain.name} or {zipped.name}", where=WHERE)


def images(source: str | Path, space: FactorSpace | None = None) -> np.memmap:
    """First-camera images ``[cells, 64, 64, 1]`` uint8 of training and testing toys together, from the cache.

    ``source`` is the folder of the six matrices. Images are reduced from 96 × 96 (Lanczos).

    Checks: the headers, 96 × 96 pairs, and that every cell of category × instance × elevation × azimuth × lighting
    occurs exactly once.

    Raises:
      FileNotFoundError: names the missing matrix.
      ValueError: if a check fails.
    """
    space = space or FULL_SPACE
    folder = containers.existing(source, what="the folder of the six SmallNORB matrices", where=WHERE)
    paths = {half: [matrix_path(folder, half, part) for part in PARTS] for half in (TRAINING, TESTING)}
    origin = lattice.identity(*(path for half in paths.values() for path in half))
    return lattice.cached(
        lattice.name_of("smallnorb-file", origin),
        (space.num_lattice, 64, 64, 1),
        np.uint8,
        lambda out: _decode(folder, paths, space, out),
        origin,
    )


def _decode(folder: Path, paths: dict, space: FactorSpace, out: np.ndarray) -> None:
    pictures, labels = [], []
    for half in paths.values():
        dat, cat, info = (read_matrix(path) for path in half)
        if dat.ndim != 4 or dat.shape[1:] != (2, 96, 96) or dat.dtype != np.uint8:
            raise ValueError(f"source: {half[0]} holds {dat.dtype} {dat.shape}; needs uint8 (n, 2, 96, 96)")
        if cat.shape != dat.shape[:1] or info.shape != (len(dat), 4):
            raise ValueError(
                f"source: {half[1]} and {half[2]} hold {cat.shape} and {info.shape}; needs one row per image"
            )
        pictures.append(dat[:, 0])
        labels.append(lattice_labels(cat, info))
    index = checks.placed(folder, np.concatenate(labels), space)
    rows = iter(index)
    for half in pictures:
        for picture in half:
            out[next(rows)] = shrunk(picture)


def lattice_labels(category: np.ndarray, info: np.ndarray) -> np.ndarray:
    """Class numbers [n, 5]: category, instance, elevation, azimuth, lighting.

    The file gives azimuths in tens of degrees: 0, 2, …, 34.
    """
    instance, elevation, azimuth, lighting = info.T
    # An odd azimuth has no cell; it is placed outside the lattice rather than rounded to a neighbor.
    azimuth = np.where(azimuth % 2 == 0, azimuth // 2, -1)
    return np.stack([category, instance, elevation, azimuth, lighting], -1).astype(np.int64)


def shrunk(picture: np.ndarray) -> np.ndarray:
    """96 × 96 → 64 × 64 × 1."""
    from PIL import Image

    return np.asarray(Image.fromarray(picture).resize((64, 64), Image.Resampling.LANCZOS))[..., None]
