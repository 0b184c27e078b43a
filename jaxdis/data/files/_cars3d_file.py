"""The Cars3D archive (Reed et al. 2015): 183 Matlab files of 24 × 4 views, reduced once to 64 × 64."""

import io
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import numpy as np

from jaxdis.data import _lattice as lattice
from jaxdis.data._factor_space import FactorSpace
from jaxdis.data.files import _containers as containers

MD5 = "4e866a7919c1beedf53964e6f7a23686"
WHERE = "http://www.scottreed.info/files/nips2015-analogy-data.tar.gz"
SPACE = FactorSpace.of(elevation=4, azimuth=24, object_type=183)
# Of a car's file, several times over.
_MOST_BYTES = 2**26


def images(source: str | Path, space: FactorSpace | None = None) -> np.memmap:
    """The lattice ``[cells, 64, 64, 3]`` uint8, memory-mapped from the cache.

    ``source`` is nips2015-analogy-data.tar.gz or the folder it unpacks to. The object type is the position in
    ``cars/list.txt``; the order of a folder listing, which other libraries use, differs between machines.

    Checks: as many listed files as object types, all of them present, and each array ``im`` uint8 (128, 128, 3, 24, 4).

    Raises:
      FileNotFoundError: if ``source`` does not exist.
      ValueError: if a check fails.
    """
    space = space or SPACE
    path = containers.existing(source, what="nips2015-analogy-data.tar.gz", where=WHERE, md5=MD5)
    parts = sorted((path / _listing_of(path)).parent.iterdir()) if path.is_dir() else [path]
    origin = lattice.identity(*parts)
    name = lattice.name_of("cars3d-file", origin)
    shape = (space.num_lattice, 64, 64, 3)
    return lattice.cached(name, shape, np.uint8, lambda out: _decode(path, space, out), origin)


def _listing_of(folder: Path) -> Path:
    listings = sorted(folder.glob("**/cars/list.txt"))
    if not listings:
        raise ValueError(f"source: found no cars/list.txt under {folder}; needs the unpacked nips2015-analogy-data")
    return listings[0].relative_to(folder)


def _decode(path: Path, space: FactorSpace, out: np.ndarray) -> None:
    grid = out.reshape(*space.sizes, 64, 64, 3)
    listed: list[str] | None = None
    cars: dict[str, np.ndarray] = {}
    for name, data in _files(path):
        if name == "list.txt":
            lines = data.decode("utf-8", "replace").splitlines()
            listed = [PurePosixPath(line.strip()).name.removesuffix(".mat") for line in lines if line.strip()]
        else:
            cars[name.removesuffix(".mat")] = _views(path, name, data, space)
    if listed is None:
        raise ValueError(f"source: found no cars/list.txt in {path}")
    if len(listed) != space.sizes[2] or len(set(listed)) != len(listed):
        raise ValueError(f"source: cars/list.txt in {path} names {len(set(listed))} cars; needs {space.sizes[2]}")
    missing = [name for name in listed if name not in cars]
    if missing:
        raise ValueError(
            f"source: {path} lacks {len(missing)} of the cars in cars/list.txt, the first {missing[0]}.mat"
        )
    for number, name in enumerate(listed):
        grid[:, :, number] = cars[name]


def _files(path: Path) -> Iterator[tuple[str, bytes]]:
    """Names and contents of ``cars/list.txt`` and ``cars/*.mat``."""
    if path.is_dir():
        for file in sorted((path / _listing_of(path)).parent.iterdir()):
            if _wanted(PurePosixPath("cars") / file.name):
                yield file.name, file.read_bytes()
        return
    try:
        with tarfile.open(path, "r|*") as archive:
            for member in archive:
                if member.isfile() and _wanted(PurePosixPath(member.name)):
                    if member.size > _MOST_BYTES:
                        size = f"{member.size:,} bytes"
                        raise ValueError(f"source: {path} claims {size} for {member.name}; it is not the official file")
                    yield PurePosixPath(member.name).name, archive.extractfile(member).read()
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise ValueError(f"source: {path} is not a whole tar archive ({error})") from None


def _wanted(path: PurePosixPath) -> bool:
    # Archives packed on a Mac contain a hidden twin of every file.
    kept = path.parent.name == "cars" and not path.name.startswith(".")
    return kept and (path.name == "list.txt" or path.suffix == ".mat")


def _views(path: Path, name: str, data: bytes, space: FactorSpace) -> np.ndarray:
    """One car, [elevation, azimuth, 64, 64, 3]."""
    from PIL import Image
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    needed = (128, 128, 3, space.sizes[1], space.sizes[0])
    try:
        held = loadmat(io.BytesIO(data), variable_names=["im"])
    # RuntimeError: scipy has no reader for the hdf5-based version 7.3 of the format.
    except (MatReadError, ValueError, RuntimeError, OSError, zlib.error) as error:
        raise ValueError(f"source: {name} in {path} is not a whole Matlab file ({error})") from None
    if "im" not in held or held["im"].shape != needed or held["im"].dtype != np.uint8:
        layout = f"{held['im'].dtype} {held['im'].shape}" if "im" in held else "none"
        raise ValueError(f"source: {name} in {path} needs an array 'im', uint8 {needed}; got {layout}")
    views = np.einsum("hwcae->eahwc", held["im"])
    small = np.empty((*views.shape[:2], 64, 64, 3), np.uint8)
    for at in np.ndindex(*views.shape[:2]):
        picture = Image.fromarray(np.ascontiguousarray(views[at]))
        small[at] = np.asarray(picture.resize((64, 64), Image.Resampling.LANCZOS))
    return small
