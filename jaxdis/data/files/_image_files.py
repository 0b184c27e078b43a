"""The publishers' files of six sets, checked and decoded once; each function returns a set's images.

All raise FileNotFoundError if ``source`` does not exist, and ValueError if a check fails. A smaller ``space`` than the
published one is for tests.
"""

import functools
import gzip
import io
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import numpy as np

from jaxdis.data import _sprites as sprites
from jaxdis.data._factor_space import FactorSpace
from jaxdis.data._shapes3d import SKY_COLOR
from jaxdis.data._shapes3d import SPACE as SHAPES3D_SPACE
from jaxdis.data._teapot import SPACE as TEAPOTS_SPACE
from jaxdis.data.files import _containers as containers

# Images that are decoded at one time.
_STEP = 2**11

MPI3D_MD5 = {
    "toy": "55889cb7c7dfc655d6e0277beee88868",
    "realistic": "59a6225b88b635365f70c91b3e52f70f",
    "real": "0f33f609918fb5c97996692f91129802",
    "complex": None,
    "challenge": None,
}
_ARM = {"object_size": 2, "camera_height": 3, "background_color": 3, "horizontal_axis": 40, "vertical_axis": 40}
# Colors white, green, red, blue, brown, olive; shapes cone, cube, cylinder, hexagonal, pyramid, sphere.
MPI3D_SPACE = FactorSpace.of(object_color=6, object_shape=6, **_ARM)
# "complex": colors yellow, green, olive, red; shapes cup, tennis ball, croissant, beer cup. "challenge", the files of
# the 2019 competition without the held-out values: colors green, red, blue, brown; shapes cone, cube, hexagonal,
# sphere.
_COMPLEX_SPACE = FactorSpace.of(object_color=4, object_shape=4, **_ARM)

CARS3D_SPACE = FactorSpace.of(elevation=4, azimuth=24, object_type=183)
# Of a car's file, several times over.
_MOST_BYTES = 2**26

SMALLNORB_URL = "https://cs.nyu.edu/~ylclab/data/norb-v1.0-small/"
TRAINING = "smallnorb-5x46789x9x18x6x2x96x96-training"
TESTING = "smallnorb-5x01235x9x18x6x2x96x96-testing"
_TYPES = {507333717: np.dtype("u1"), 507333716: np.dtype("<i4")}
_TOYS = {"elevation": range(30, 71, 5), "azimuth": range(0, 341, 20), "lighting": 6}
# The instance (one of ten toys) is not a factor of the set; it is drawn for every image.
SMALLNORB_SPACE = FactorSpace.of(category=5, **_TOYS)
SMALLNORB_FULL_SPACE = FactorSpace.of(category=5, instance=10, **_TOYS)

# Shares of the teapots' images, in the order of the file.
_PARTS = {"train": (0.0, 0.8), "validation": (0.8, 0.9), "test": (0.9, 1.0), "all": (0.0, 1.0)}


def dsprites_words(source: str | Path, space: FactorSpace | None = None) -> np.memmap:
    """The lattice as words ``[cells, 64, 2]`` (:func:`jaxdis.data._sprites.rows`) of dSprites as npz or hdf5.

    Checks: image shape and dtype, class numbers and values in lattice order, pixels of 0 and 1 only, and equal images
    for orientations 0 and 2π. The npz's pickled ``metadata`` is not read.
    """
    space = space or sprites.SPACE
    what = "dsprites_ndarray_co1sh3sc6or40x32y32_64x64 as .npz or .hdf5"
    where = "https://github.com/google-deepmind/dsprites-dataset"
    path = containers.existing(source, what=what, where=where, md5="b331c4447a651c44bf5e8ae09022e230")

    def decode(out: np.ndarray) -> None:
        apart = "/" if containers.is_hdf5(path) else "_"
        containers.images(path, *containers.header(path, "imgs"), (space.num_lattice, 64, 64))
        # The first column of both tables is the color, which has one value.
        containers.classes(path, containers.whole(path, f"latents{apart}classes")[:, 1:], space)
        containers.values(path, containers.whole(path, f"latents{apart}values")[:, 1:], space)
        containers.copied(path, "imgs", 2**13, out, lambda images: packed(path, images))
        check_full_circle(path, out, space)

    return containers.decoded("dsprites-file", [path], (space.num_lattice, 64, 2), np.uint32, decode)


def packed(path: Path, images: np.ndarray) -> np.ndarray:
    """Pixels of 0 and 1 as words."""
    if images.max() > 1:
        raise ValueError(f"source: {path} holds pixels of {images.max()}; needs 0 and 1 only")
    return sprites.pack(images)


def check_full_circle(path: Path, words: np.ndarray, space: FactorSpace) -> None:
    """Check that orientations 0 and 2π, if the lattice has both, show the same image."""
    column = space.position("orientation")
    angles = np.array(space.values[column])
    if not np.isclose(angles[-1] - angles[0], 2 * np.pi):
        return
    grid = words.reshape(*space.sizes, *words.shape[1:])
    first, last = np.take(grid, 0, column), np.take(grid, len(angles) - 1, column)
    if (different := int((first != last).any((-1, -2)).sum())) > 0:
        raise ValueError(f"source: in {path} {different} images differ between orientations 0 and 2π; needs them equal")


def shapes3d_images(source: str | Path, space: FactorSpace | None = None) -> np.memmap:
    """The lattice ``[cells, 64, 64, 3]`` uint8 of Shapes3D (hdf5, or an npz of the same arrays), 5.9 GB on disk.

    Checks: image shape and dtype, labels in lattice order, and the color of the sky in the first pixel.
    """
    space = space or SHAPES3D_SPACE
    where = "https://github.com/google-deepmind/3d-shapes"
    path = containers.existing(source, what="3dshapes.h5", where=where, md5="099a2078d58cec4daad0702c55d06868")

    def decode(out: np.ndarray) -> None:
        containers.images(path, *containers.header(path, "images"), out.shape)
        containers.values(path, containers.whole(path, "labels"), space)
        containers.copied(path, "images", _STEP, out, lambda images: with_sky(path, images))

    return containers.decoded("shapes3d-file", [path], (space.num_lattice, 64, 64, 3), np.uint8, decode)


def with_sky(path: Path, images: np.ndarray) -> np.ndarray:
    """The images, after a check that the first pixel of each is sky."""
    away = np.abs(images[:, 0, 0].astype(int) - np.array(SKY_COLOR)).max()
    if away > 2:
        raise ValueError(f"source: {path} has a first pixel {away} away from the sky {SKY_COLOR}; needs at most 2")
    return images


def mpi3d_space(variant: str) -> FactorSpace:
    if variant not in MPI3D_MD5:
        raise ValueError(f"variant: must be one of {', '.join(MPI3D_MD5)}, got {variant!r}")
    return MPI3D_SPACE if variant in ("toy", "realistic", "real") else _COMPLEX_SPACE


def checked_mpi3d(source: str | Path, variant: str, space: FactorSpace | None = None) -> Path:
    """The path of an MPI3D file (Gondal et al. 2019; 12.7 GB each), if it holds the variant's lattice.

    A file of 460,800 images is distinguished from the full lattice.
    """
    space = space or mpi3d_space(variant)
    where = "https://github.com/rr-learning/disentanglement_dataset"
    path = containers.existing(source, what=f"the npz of variant {variant!r}", where=where, md5=MPI3D_MD5[variant])
    shape, dtype = containers.header(path, "images")
    if shape[:1] == (_COMPLEX_SPACE.num_lattice,) and space.num_lattice == MPI3D_SPACE.num_lattice:
        raise ValueError(
            f"source: {path} holds 460800 images, 4 colors × 4 shapes, and was opened as variant {variant!r} with "
            f"6 × 6 (1036800); open it with variant='complex' or 'challenge', or use the full file of {variant!r}"
        )
    containers.images(path, shape, dtype, (space.num_lattice, 64, 64, 3))
    containers.mapped(path, "images")
    return path


def open_mpi3d(path: str) -> np.ndarray:
    """The array ``images [cells, 64, 64, 3]``: the file itself if it is uncompressed, otherwise decoded once."""
    file = Path(path)
    array = containers.mapped(file, "images")
    if array is not None:
        return array
    shape, _ = containers.header(file, "images")
    return containers.decoded(
        "mpi3d-file", [file], shape, np.uint8, lambda out: containers.copied(file, "images", _STEP, out)
    )


def cars3d_images(source: str | Path, space: FactorSpace | None = None) -> np.memmap:
    """The lattice ``[cells, 64, 64, 3]`` uint8 of Cars3D (Reed et al. 2015): 183 Matlab files of 24 × 4 views, reduced.

    ``source`` is nips2015-analogy-data.tar.gz or the folder it unpacks to. The object type is the position in
    ``cars/list.txt``; the order of a folder listing, which other libraries use, differs between machines.

    Checks: as many listed files as object types, all of them present, and each array ``im`` uint8 (128, 128, 3, 24, 4).
    """
    space = space or CARS3D_SPACE
    what, md5 = "nips2015-analogy-data.tar.gz", "4e866a7919c1beedf53964e6f7a23686"
    path = containers.existing(source, what=what, where=f"http://www.scottreed.info/files/{what}", md5=md5)
    parts = _listed_files(path) if path.is_dir() else [path]
    shape = (space.num_lattice, 64, 64, 3)
    return containers.decoded("cars3d-file", parts, shape, np.uint8, lambda out: _decode_cars(path, space, out))


def _listed_files(folder: Path) -> list[Path]:
    """The files beside ``cars/list.txt``."""
    listings = sorted(folder.glob("**/cars/list.txt"))
    if not listings:
        raise ValueError(f"source: found no cars/list.txt under {folder}; needs the unpacked nips2015-analogy-data")
    return sorted(listings[0].parent.iterdir())


def _decode_cars(path: Path, space: FactorSpace, out: np.ndarray) -> None:
    grid = out.reshape(*space.sizes, 64, 64, 3)
    listed: list[str] | None = None
    cars: dict[str, np.ndarray] = {}
    for name, data in _files_of_cars(path):
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


def _files_of_cars(path: Path) -> Iterator[tuple[str, bytes]]:
    """Names and contents of ``cars/list.txt`` and ``cars/*.mat``."""
    if path.is_dir():
        for file in _listed_files(path):
            if _is_of_cars(PurePosixPath("cars") / file.name):
                yield file.name, file.read_bytes()
        return
    try:
        with tarfile.open(path, "r|*") as archive:
            for member in archive:
                if member.isfile() and _is_of_cars(PurePosixPath(member.name)):
                    if member.size > _MOST_BYTES:
                        size = f"{member.size:,} bytes"
                        raise ValueError(f"source: {path} claims {size} for {member.name}; it is not the official file")
                    yield PurePosixPath(member.name).name, archive.extractfile(member).read()
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise ValueError(f"source: {path} is not a whole tar archive ({error})") from None


def _is_of_cars(path: PurePosixPath) -> bool:
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


def smallnorb_images(source: str | Path, space: FactorSpace | None = None) -> np.memmap:
    """First-camera images ``[cells, 64, 64, 1]`` uint8 of SmallNORB (LeCun et al. 2004), training and testing together.

    ``source`` is the folder of the six matrices. Images are reduced from 96 × 96 (Lanczos).

    Checks: the headers, 96 × 96 pairs, and that every cell of category × instance × elevation × azimuth × lighting
    occurs exactly once.
    """
    space = space or SMALLNORB_FULL_SPACE
    folder = containers.existing(source, what="the folder of the six SmallNORB matrices", where=SMALLNORB_URL)

    def path_of(name: str) -> Path:  # plain or gzipped, whichever exists
        path = folder / name if (folder / name).exists() else folder / f"{name}.gz"
        return containers.existing(path, what=f"{name} or {name}.gz", where=SMALLNORB_URL)

    halves = [[path_of(f"{half}-{part}.mat") for part in ("dat", "cat", "info")] for half in (TRAINING, TESTING)]
    shape = (space.num_lattice, 64, 64, 1)
    decode = functools.partial(_decode_toys, folder, halves, space)
    return containers.decoded("smallnorb-file", [path for half in halves for path in half], shape, np.uint8, decode)


def read_matrix(path: Path) -> np.ndarray:
    """One matrix, plain or gzipped: magic, rank and max(3, rank) sizes as int32, then the values, little-endian."""
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


def _decode_toys(folder: Path, halves: list[list[Path]], space: FactorSpace, out: np.ndarray) -> None:
    pictures, labels = [], []
    for half in halves:
        dat, cat, info = (read_matrix(path) for path in half)
        if dat.ndim != 4 or dat.shape[1:] != (2, 96, 96) or dat.dtype != np.uint8:
            raise ValueError(f"source: {half[0]} holds {dat.dtype} {dat.shape}; needs uint8 (n, 2, 96, 96)")
        if cat.shape != dat.shape[:1] or info.shape != (len(dat), 4):
            raise ValueError(
                f"source: {half[1]} and {half[2]} hold {cat.shape} and {info.shape}; needs one row per image"
            )
        pictures.append(dat[:, 0])
        labels.append(lattice_labels(cat, info))
    index = containers.placed(folder, np.concatenate(labels), space)
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


def teapots(source: str | Path, part: str = "all") -> tuple[np.ndarray, np.ndarray]:
    """Factors ``[n, 5]`` float32, and images ``[n, 64, 64, 3]`` uint8, of ``teapots.npz`` with 200,000 images.

    Checks: shapes, pixels from 0 to 255, and factors within their intervals.
    """
    where = "https://github.com/cianeastwood/qedr"
    path = containers.existing(source, what="teapots.npz", where=where, md5="9b58d66a382d01f4477e33520f1fa503")
    shape, _ = containers.header(path, "images")
    if len(shape) != 4 or shape[1:] != (64, 64, 3):
        raise ValueError(f"source: {path} holds images {tuple(shape)}; needs [n, 64, 64, 3]")
    factors = containers.whole(path, "gts")
    if factors.shape != (shape[0], 5) or factors.dtype.kind != "f":
        raise ValueError(f"source: {path} holds factors {factors.shape} {factors.dtype}; needs real ({shape[0]}, 5)")
    for name, span, column in zip(TEAPOTS_SPACE.names, TEAPOTS_SPACE.values, factors.T, strict=True):
        if not (span.low - 1e-5 <= column.min() and column.max() <= span.high + 1e-5):
            bounds = f"{column.min():g} to {column.max():g}"
            raise ValueError(f"source: {path} holds {name} from {bounds}; needs {span.low:g} to {span.high:g}")
    factors = factors.astype(np.float32)

    def checked(images: np.ndarray) -> np.ndarray:
        if images.dtype.kind not in "iu" or images.min() < 0 or images.max() > 255:
            contents = f"{images.dtype} pixels {images.min()} to {images.max()}"
            raise ValueError(f"source: {path} holds {contents}; needs whole numbers 0 to 255")
        return images

    copy = functools.partial(containers.copied, path, "images", _STEP, checked=checked)
    images = containers.decoded("teapots-file", [path], shape, np.uint8, copy)
    first, last = (round(share * len(factors)) for share in _PARTS[part])
    return factors[first:last], images[first:last]
