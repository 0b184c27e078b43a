"""CLEVR's scenes, decoded once from one of two sources.

Scenes of at most six objects are kept if all objects show enough pixels in the crop (rows 29 to 221, columns 64 to
256 of 320 × 240 pixels).

- The official file with masks (Kabra et al. 2019), TFRecords of 100,000 scenes, numbers classes without naming them.
  Colors and sizes are inferred from its contents: the eight codes of colors are matched to the palette by the mean
  color of their pixels, and a size is the height of the object's center. The classes of shape and material are the
  codes of the file minus one, and their order is not known.
- The pictures of tensorflow-datasets, 480 × 320 pixels, have descriptions without masks and without the camera, which
  was moved at random. Its position is fitted to the pixels at which the centers of objects are seen. The masks are the
  outlines of the solids from there; the published solids have rounded edges, so that pixels on outlines may differ. The
  test images have no descriptions and are left out.
"""

import dataclasses
import functools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Num, UInt8

from jaxdis._core.options import Count
from jaxdis.data import _clevr_render as clevr
from jaxdis.data import _lattice as lattice
from jaxdis.data._clevr_render import View, space
from jaxdis.data._factor_space import FactorSpace
from jaxdis.data._lattice import ListedSpace
from jaxdis.data.files import _containers as containers
from jaxdis.data.files import _tfds as tfds
from jaxdis.data.files import _tfrecord as tfrecord

WHERE = "https://github.com/google-deepmind/multi_object_datasets"
RECORDS = 100_000
ENTITIES = 11
# The share of pixels that may be in no mask, and count as background, or in several, of which the first counts.
_UNCLEAR = 0.01
_CODES = ("color", "shape", "material", "size")
_NUMBERS = ("x", "y", "z", "rotation", "visibility")

# Height and width of the published pictures, and how much larger they are than those of 320 × 240. They show the same
# width and less height.
PUBLISHED = (320, 480)
SCALE = PUBLISHED[1] / clevr.PICTURE[1]
SPLITS = ("train", "validation")
COLORS = ("gray", "blue", "brown", "yellow", "red", "green", "purple", "cyan")
_PALETTE = dict(zip(("gray", "red", "blue", "green", "brown", "purple", "cyan", "yellow"), clevr.PALETTE, strict=True))
# Labels in the order of tensorflow-datasets, as numbers of ours.
_SHAPES = tuple(clevr.SHAPES.index(name) for name in ("cube", "sphere", "cylinder"))
_MATERIALS = tuple(clevr.MATERIALS.index(name) for name in ("rubber", "metal"))
# An error of depth that counts like one of a pixel: depths are not rounded.
_DEPTH = 0.02
# Largest distance, in published pixels, of a center from where the fitted camera sees it.
_FARTHEST = 1.5
_STEPS = 8


@dataclasses.dataclass(frozen=True)
class FileScenes(ListedSpace):
    """A file's scenes, which have their own masks."""

    pictures: str = dataclasses.field(default="", metadata={"identity": False})

    def complete(self) -> "FileScenes":
        rows = self.listing.values
        return dataclasses.replace(self, listing=type(self.listing)(rows[rows[:, 0] == self.sizes[0] - 1]))

    def masks(self, factors: Num[Array, "n k"]) -> UInt8[Array, "n h w"]:
        pictures = lattice.open_array(self.pictures)
        shape = jax.ShapeDtypeStruct((len(factors), *pictures.shape[1:3]), np.uint8)
        return jax.pure_callback(self._masks, shape, factors, vmap_method="sequential")

    def _masks(self, factors) -> np.ndarray:
        listed, pictures = _factors_beside(Path(self.pictures)), lattice.open_array(self.pictures)
        rows = [np.square(listed - row).sum(1).argmin() for row in np.asarray(factors)]
        return np.ascontiguousarray(pictures[rows, :, :, 3])


class Read(NamedTuple):
    """``factors [n, 55]``, ``images [n, side, side, 3]`` and the space of the file."""

    factors: np.ndarray
    images: np.ndarray
    space: FileScenes


def read(source: str | Path, side: int = 128, min_pixels: int = 200) -> Read:
    """The scenes of ``clevr_with_masks_train.tfrecords``, or of the folder of a prepared ``clevr``, memory-mapped from
    the cache.

    The crop of 192 × 192 is reduced by linear interpolation for images and to the nearest pixel for masks. The rotation
    is that of the file, in degrees.

    Checks: checksums of all records; shapes of all features; codes, places and heights in their ranges; each pixel in
    exactly one mask (except for at most 1 % of the pixels); visible entities before all others; and colors that can be
    told apart.
    """
    if Path(source).is_dir():
        return _read_prepared(Path(source), side, min_pixels)
    path = containers.existing(source, what="clevr_with_masks_train.tfrecords", where=WHERE)
    of = space(jitter=False, min_pixels=min_pixels)
    origin = f"{lattice.identity(path)} {side} {min_pixels}"
    return cached("clevr-file", origin, of, side, lambda kept: _decode(path, of, side, min_pixels, kept))


def cached(kind: str, origin: str, of: FactorSpace, side: int, decode: Callable[[IO[bytes]], np.ndarray]) -> Read:
    """Scenes decoded once, ``RECORDS`` at most, and memory-mapped from the cache.

    ``decode`` writes the pictures to a file, ``[side, side, 4]`` uint8 with the mask as fourth channel, and returns
    their factors ``[n, k]``.
    """
    name = lattice.name_of(kind, origin)

    def pictures(count: int, build) -> np.ndarray:
        return lattice.cached(f"{name}-pictures", (count, side, side, 4), np.uint8, build, origin)

    def fill(images: np.ndarray, kept) -> None:
        kept.seek(0)
        for picture in images:
            picture[:] = np.frombuffer(kept.read(picture.size), np.uint8).reshape(picture.shape)

    def build_factors(out: np.ndarray) -> None:
        with tempfile.TemporaryFile(dir=lattice.directory()) as kept:
            out[:] = np.nan
            rows = decode(kept)
            out[: len(rows)] = rows
            pictures(len(rows), lambda images: fill(images, kept))

    def build_pictures(out: np.ndarray) -> None:
        with tempfile.TemporaryFile(dir=lattice.directory()) as kept:
            decode(kept)
            fill(out, kept)

    lattice.cached(f"{name}-factors", (RECORDS, of.num_factors), np.float32, build_factors, origin)
    place = lattice.path_of(f"{name}-pictures")
    factors = _factors_beside(place)
    images = pictures(len(factors), build_pictures)
    listed = FileScenes.over(FactorSpace(of.names, of.sizes, of.values), factors)
    return Read(factors, images[..., :3], dataclasses.replace(listed, pictures=str(place)))


def _factors_beside(pictures: Path) -> np.ndarray:
    factors = np.asarray(lattice.open_array(pictures.with_name(pictures.name.replace("-pictures", "-factors"))))
    return factors[~np.isnan(factors[:, 0])]


def _decode(path: Path, of: FactorSpace, side: int, min_pixels: int, kept: IO[bytes]) -> np.ndarray:
    """Factors of the scenes to keep. Pictures are written to ``kept``."""
    # Sums of pixels by code of color, and their number.
    rows, shown = [], np.zeros((256, 4))
    for number, scene in enumerate(_scenes(path)):
        if number >= RECORDS:
            raise ValueError(f"source: {path} holds more than {RECORDS:,} records; needs {RECORDS:,}")
        objects = scene["objects"]
        which = _crop(scene["mask"])
        counts = np.bincount(which.ravel(), minlength=ENTITIES)[1 : len(objects) + 1]
        if not wanted(counts, min_pixels):
            continue
        image = _crop(scene["image"])
        for place, code in enumerate(objects[:, 0].astype(int), 1):
            inside = (image[which == place] / 255) ** 2.2
            shown[code] += [*inside.sum(0), len(inside)]
        rows.append(row_of(of, objects))
        kept.write(_picture(image, which, side).tobytes())
    return _with_colors(path, stacked(path, rows, min_pixels), shown)


def wanted(counts: np.ndarray, min_pixels: int) -> bool:
    """Whether a scene is kept whose objects show these numbers of pixels in the crop of 192 × 192."""
    return clevr.LEAST_OBJECTS <= len(counts) <= clevr.MOST_OBJECTS and bool((counts >= min_pixels).all())


def row_of(of: FactorSpace, objects: np.ndarray) -> np.ndarray:
    """The factors of a scene with these objects ``[o, 9]``; 0 for those that are absent."""
    row = np.zeros(of.num_factors, np.float32)
    row[0] = len(objects) - clevr.LEAST_OBJECTS
    row[1 : 1 + objects.size] = objects.ravel()
    return row


def stacked(path: Path, rows: list[np.ndarray], min_pixels: int) -> np.ndarray:
    if not rows:
        raise ValueError(f"source: {path} holds no scene of 3 to 6 objects that all show {min_pixels} pixels")
    return np.stack(rows)


def _scenes(path: Path) -> Iterator[dict[str, np.ndarray]]:
    """``image``, ``mask [h, w]`` and ``objects [o, 9]`` (with the code of the color for red) of each record."""
    height, width = clevr.PICTURE
    sizes = {"image": height * width * 3, "mask": ENTITIES * height * width}
    sizes |= dict.fromkeys(_CODES + _NUMBERS, ENTITIES)
    for number, example in enumerate(tfrecord.examples(path)):
        where = f"source: record {number} of {path}"
        for name, size in sizes.items():
            kind = np.float32 if name in _NUMBERS else np.uint8
            if name not in example or example[name].shape != (size,) or example[name].dtype != kind:
                held = example[name].shape if name in example else "none"
                raise ValueError(f"{where} needs {size} values {name!r}, {np.dtype(kind).name}; got {held}")
        masks = example["mask"].reshape(ENTITIES, height, width) > 0
        if (share := (masks.sum(0) != 1).mean()) > _UNCLEAR:
            raise ValueError(
                f"{where} has {share:.1%} of pixels that are not in one mask; needs at most {_UNCLEAR:.0%}"
            )
        image = example["image"].reshape(height, width, 3)
        yield {"image": image, "mask": masks.argmax(0), "objects": _objects(where, example)}


def _objects(where: str, example: dict[str, np.ndarray]) -> np.ndarray:
    visible = example["visibility"] > 0
    count = int(visible.sum())
    if count < 1 or not visible[:count].all():
        raise ValueError(f"{where} must have visible entities first, the background among them, got {visible.tolist()}")
    color, shape, material, _, x, y, z, rotation = (
        example[name][1:count].astype(np.float32) for name in (*_CODES, "x", "y", "z", "rotation")
    )
    size = np.abs(z[:, None] - np.array(clevr.SIZES)).argmin(1)
    _check_ranges(
        where,
        ("color", color, 1, 8),
        ("shape", shape, 1, 3),
        ("material", material, 1, 2),
        ("x", x, -3, 3),
        ("y", y, -3, 3),
        ("height above its size", z - np.array(clevr.SIZES, np.float32)[size], -0.01, 0.01),
        ("rotation", rotation, 0, 360),
    )
    return np.stack([color, 0 * color, 0 * color, shape - 1, material - 1, size, rotation, x, y], 1)


def _check_ranges(where: str, *limits: tuple[str, np.ndarray, float | int, float | int]) -> None:
    """Check that named values lie from a lowest to a highest one."""
    for name, values, low, high in limits:
        if not ((values >= low) & (values <= high)).all():
            raise ValueError(f"{where} holds {name} {values.min():g} to {values.max():g}; needs {low:g} to {high:g}")


def _with_colors(path: Path, rows: np.ndarray, shown: np.ndarray) -> np.ndarray:
    """Rows with the palette's colors in place of codes.

    Light and mirrors draw the mean color of an object toward gray. Hues and saturations, relative to the rest, remain:
    codes and palette are matched by their chromaticities at equal spread.
    """
    from scipy.optimize import linear_sum_assignment

    codes = np.flatnonzero(shown[:, 3] > 0)
    palette = np.array(clevr.PALETTE) / 255
    seen, ideal = (c / c.sum(1, keepdims=True) - 1 / 3 for c in (shown[codes, :3], palette))
    seen, ideal = (c / np.sqrt(np.square(c).sum(1).mean()) for c in (seen, ideal))
    away = np.square(seen[:, None] - ideal[None]).sum(-1)
    matched = linear_sum_assignment(away)[1]
    worst = away[np.arange(len(codes)), matched].max()
    if worst > 0.5:
        raise ValueError(f"source: {path} shows colors {worst:.2g} away from those of CLEVR; needs less than 0.5")
    colors = np.zeros((256, 3), np.float32)
    colors[codes] = palette[matched]
    objects = rows[:, 1:].reshape(len(rows), -1, len(clevr.OBJECT_FACTORS))
    objects[:, :, :3] = colors[objects[:, :, 0].astype(int)]
    return np.concatenate([rows[:, :1], objects.reshape(len(rows), -1)], 1)


def _crop(picture: np.ndarray) -> np.ndarray:
    side = clevr.CROP_SIDE
    top, left = clevr.CROP_TOP, clevr.CROP_LEFT
    return picture[top : top + side, left : left + side]


def _picture(image: np.ndarray, which: np.ndarray, side: int) -> np.ndarray:
    """The crop at another size, and the mask as its fourth channel."""
    at = (np.arange(side) + 0.5) * clevr.CROP_SIDE / side
    below = np.clip(np.floor(at - 0.5).astype(int), 0, clevr.CROP_SIDE - 2)
    weight = np.zeros((side, clevr.CROP_SIDE))
    share = np.clip(at - 0.5 - below, 0, 1)
    weight[np.arange(side), below], weight[np.arange(side), below + 1] = 1 - share, share
    small = np.einsum("iw,hwc->hic", weight, np.einsum("ih,hwc->iwc", weight, image.astype(np.float64)))
    nearest = np.floor(at).astype(int)
    return np.concatenate([np.round(small), which[nearest][:, nearest, None]], -1).astype(np.uint8)


def _read_prepared(source: Path, side: int, min_pixels: int) -> Read:
    """The scenes of a prepared ``clevr``, memory-mapped from the cache.

    The square is reduced by area-weighted linear interpolation. The rotation is that of the description, which CLEVR
    renders as radians.

    Checks: pictures of 480 × 320 pixels, objects in their ranges, and centers seen where a camera near CLEVR's sees
    them.
    """
    path = tfds.prepared("clevr", source)
    of = space(jitter=False, min_pixels=min_pixels)
    origin = f"{lattice.identity(path / 'dataset_info.json')} {side} {min_pixels}"
    return cached("clevr-tfds", origin, of, side, lambda kept: _decode_described(path, of, side, min_pixels, kept))


def _decode_described(path: Path, of: FactorSpace, side: int, min_pixels: int, kept: IO[bytes]) -> np.ndarray:
    rows = []
    for where, image, objects, seen in _described(path):
        row, points = row_of(of, objects), np.zeros((clevr.MOST_OBJECTS, 6), np.float32)
        points[: len(objects), :2], points[: len(objects), 3:] = objects[:, 7:], seen
        points[:, 2] = np.array(clevr.SIZES)[row[1:].reshape(-1, len(clevr.OBJECT))[:, 5].astype(int)]
        eye, farthest = _camera(points[:, :3], points[:, 3:], np.arange(clevr.MOST_OBJECTS) < len(objects))
        if not farthest <= _FARTHEST:
            raise ValueError(f"{where} shows objects {farthest:.1f} pixels from where CLEVR's camera sees them")
        fine, masks = (np.asarray(_masks(row, eye, size)) for size in (clevr.CROP_SIDE, side))
        if wanted(np.bincount(fine.ravel(), minlength=len(objects) + 1)[1:], min_pixels):
            rows.append(row)
            kept.write(np.concatenate([_cut(image, side), masks[..., None]], -1).tobytes())
    return stacked(path, rows, min_pixels)


def _described(path: Path) -> Iterator[tuple[str, np.ndarray, np.ndarray, np.ndarray]]:
    """Where a scene is, its picture, and of 3 to 6 objects their factors ``[o, 9]`` and (column, row, depth)."""
    for example in tfds.examples(path, SPLITS):
        where, things = f"source: {example['file_name']!r} of {path}", example["objects"]
        count = len(things["color"])
        if example["image"].shape != (*PUBLISHED, 3):
            raise ValueError(f"{where} has the shape {example['image'].shape}; needs {(*PUBLISHED, 3)}")
        if not clevr.LEAST_OBJECTS <= count <= clevr.MOST_OBJECTS:
            continue
        place = np.asarray(things["3d_coords"], np.float32)
        size = np.asarray(things["size"], np.int64)
        rotation = np.asarray(things["rotation"], np.float32)
        heights = np.abs(place[:, 2] - np.array(clevr.SIZES, np.float32)[size])
        places = ("places", place[:, :2], -3, 3)
        _check_ranges(where, places, ("heights above sizes", heights, 0, 0.01), ("rotations", rotation, 0, 360))
        color = np.array([_PALETTE[COLORS[label]] for label in things["color"]], np.float32) / 255
        kinds = [np.array(of)[things[name]] for name, of in (("shape", _SHAPES), ("material", _MATERIALS))]
        columns = (*kinds, size, rotation, place[:, 0], place[:, 1])
        objects = np.concatenate([color, np.stack(columns, 1)], 1).astype(np.float32)
        yield where, example["image"], objects, np.asarray(things["pixel_coords"], np.float32)


@jax.jit
def _camera(
    points: Float[Array | np.ndarray, "o 3"],
    seen: Float[Array | np.ndarray, "o 3"],
    present: Bool[Array | np.ndarray, " o"],
) -> tuple[Float[Array, "3"], Float[Array, ""]]:
    """The camera that sees ``points`` at ``seen`` (column, row, depth), by least squares, and its farthest miss."""

    def away(eye):
        row, column = clevr.pixel(points, eye, clevr.CROP_SIDE).T
        row, column = row + clevr.CROP_TOP, column + clevr.CROP_LEFT
        depth = (points - eye[None]) @ clevr.frame(eye)[2]
        middle = PUBLISHED[0] / 2
        projected = jnp.stack([SCALE * column, middle + SCALE * (row - clevr.PICTURE[0] / 2), depth], 1)
        return jnp.where(present[:, None], (projected - seen) / jnp.array([[1, 1, _DEPTH]]), 0.0)

    def step(eye, _):
        slope = jax.jacfwd(away)(eye).reshape(-1, 3)
        return eye - jnp.linalg.solve(slope.T @ slope, slope.T @ away(eye).reshape(-1)), None

    eye, _ = jax.lax.scan(step, jnp.asarray(clevr.CAMERA), length=_STEPS)
    return eye, jnp.abs(away(eye)[:, :2]).max()


@functools.partial(jax.jit, static_argnums=2)
def _masks(row: Float[Array | np.ndarray, " k"], eye: Float[Array, "3"], side: Count):
    """0 for the background, i for object i (from 1)."""
    solids = View().solids(clevr.parts(row))
    return (clevr.identities(solids, eye, side) + 1).astype(jnp.uint8).reshape(side, side)


def _cut(image: np.ndarray, side: int) -> np.ndarray:
    from PIL import Image

    left, size = SCALE * clevr.CROP_LEFT, SCALE * clevr.CROP_SIDE
    top = PUBLISHED[0] / 2 + SCALE * (clevr.CROP_TOP - clevr.PICTURE[0] / 2)
    box = (left, top, left + size, top + size)
    return np.asarray(Image.fromarray(image).resize((side, side), Image.Resampling.BILINEAR, box=box))
