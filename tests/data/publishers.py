"""Small files in each publisher's exact layout, for the tests of the readers."""

import functools
import gzip
import io
import tarfile

import h5py
import jax
import numpy as np
from PIL import Image
from scipy.io import savemat

from jaxdis.data import FactorSpace
from jaxdis.data import _sprites as sprites
from jaxdis.data._shapes3d import SKY_COLOR
from jaxdis.data.files import _image_files as image_files

SPRITES = FactorSpace.of(
    shape=(1, 2, 3), scale=(0.5, 1.0), orientation=(0, np.pi, 2 * np.pi), x=(0.0, 1.0), y=(0.0, 1.0)
)
ROOMS = FactorSpace.of(
    floor_hue=(0.0, 0.1), wall_hue=(0.0, 0.1), object_hue=(0.0,), scale=(0.75, 1.25), shape=2, orientation=(-30, 0, 30)
)


def lattice_values(space):
    return np.stack(np.meshgrid(*space.values, indexing="ij"), -1).reshape(-1, space.num_factors)


@functools.cache
def drawn_sprites():
    """The cells of a lattice of 72 images, and these."""
    classes = np.asarray(jax.jit(SPRITES.factors)(np.arange(72, dtype=np.int32)))
    there = classes * np.int32([1, 5, 1, 31, 31])
    there[:, 2] = np.array([0, 20, 39])[classes[:, 2]]
    return classes, np.asarray(jax.jit(sprites.draw)((), there))[..., 0]


def sprite_arrays():
    """What the published file holds, on the small lattice; color stands first and has one value."""
    classes, images = drawn_sprites()
    none = np.zeros((72, 1))
    return {
        "imgs": images.astype(np.uint8),
        "latents_classes": np.concatenate([none, classes], 1).astype(np.int64),
        "latents_values": np.concatenate([none + 1, lattice_values(SPRITES)], 1),
    }


def write_npz(path, arrays):
    # The published file carries a pickled dictionary beside its arrays.
    np.savez_compressed(path, metadata=np.array({"author": "x"}, object), **arrays)
    return path


def write_hdf5(path, arrays):
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file.create_dataset(name.replace("latents_", "latents/"), data=array, compression="gzip")
    return path


WRITERS = {"npz": write_npz, "hdf5": write_hdf5}


def room_arrays():
    noise = np.random.default_rng(0).integers(0, 256, (48, 64, 64, 3), dtype=np.uint8)
    noise[:, 0, 0] = SKY_COLOR
    noise[7, 0, 0] += 2
    return {"images": noise, "labels": lattice_values(ROOMS)}


ARM = FactorSpace.of(object_color=2, object_shape=2, horizontal_axis=3)


def arm_images():
    return np.random.default_rng(1).integers(0, 256, (12, 64, 64, 3), dtype=np.uint8)


CARS = FactorSpace.of(elevation=2, azimuth=3, object_type=4)
NAMES = ["car_007_mesh", "car_001_mesh", "car_100_mesh", "car_020_mesh"]


def shrunk(image):
    return np.asarray(Image.fromarray(image).resize((64, 64), Image.Resampling.LANCZOS))


def car_views():
    """[object, height, width, channel, azimuth, elevation], smooth so that shrinking keeps what is seen."""
    coarse = np.random.default_rng(0).integers(0, 256, (4, 4, 4, 3, 3, 2), dtype=np.uint8)
    return coarse.repeat(32, 1).repeat(32, 2)


def car_files(views):
    files = {"cars/list.txt": "".join(f"{name}\n" for name in NAMES).encode()}
    for name, view in zip(NAMES, views, strict=True):
        buffer = io.BytesIO()
        savemat(buffer, {"im": view, "mask": view[:, :, 0] > 0}, do_compression=True)
        files[f"cars/{name}.mat"] = buffer.getvalue()
    return files


def write_archive(folder, files):
    files = {**files, "cars/._car_001_mesh.mat": b"a Mac's twin"}
    path = folder / "nips2015-analogy-data.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name in sorted(files, key=lambda name: (name.endswith("txt"), name)):
            info = tarfile.TarInfo(f"data/{name}")
            info.size = len(files[name])
            archive.addfile(info, io.BytesIO(files[name]))
    return path


def write_folder(folder, files):
    path = folder / "data"
    (path / "cars").mkdir(parents=True)
    for name, data in files.items():
        (path / name).write_bytes(data)
    return path


CAR_WRITERS = {"archive": write_archive, "folder": write_folder}


TOYS = FactorSpace.of(category=2, instance=2, elevation=2, azimuth=3, lighting=1)


def write_matrix(path, array):
    """The published format: magic, rank, at least three sizes, values; all little-endian."""
    magic = {"uint8": 507333717, "int32": 507333716}[array.dtype.name]
    sizes = list(array.shape) + [1] * (3 - array.ndim)
    header = np.array([magic, array.ndim, *sizes], "<i4").tobytes()
    data = header + array.astype(array.dtype.newbyteorder("<")).tobytes()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def toy_arrays():
    """Two halves as published: training holds instance 1, testing instance 0, both in a shuffled order."""
    rng = np.random.default_rng(2)
    halves = {}
    for half, instance in ((image_files.TRAINING, 1), (image_files.TESTING, 0)):
        cells = rng.permutation(np.array([(c, e, a) for c in range(2) for e in range(2) for a in range(3)]))
        category, elevation, azimuth = cells.T.astype(np.int32)
        info = np.stack([0 * category + instance, elevation, 2 * azimuth, 0 * category], 1)
        dat = rng.integers(0, 256, (12, 2, 8, 8), dtype=np.uint8).repeat(12, 2).repeat(12, 3)
        halves[half] = {"dat": dat, "cat": category, "info": info}
    return halves


def write_toys(folder, halves, suffix):
    for half, parts in halves.items():
        for part, array in parts.items():
            write_matrix(folder / f"{half}-{part}{suffix}", array)
    return folder


def synthetic_painting(height: int = 274, width: int = 221) -> np.ndarray:
    """A swirl of colors that replaces the painting; it is not The Scream."""
    y, x = np.mgrid[0:height, 0:width] / 40
    phase = np.array([0.0, 2.0, 4.0])
    waves = np.sin(x[..., None] + 2 * np.sin(y[..., None] + phase) + phase)
    return (0.5 + 0.5 * waves).astype(np.float32)
