"""CLEVR's scenes, decoded once from the official file with masks (Kabra et al. 2019).

Scenes of at most six objects are kept if all objects show enough pixels in the crop (rows 29 to 221, columns 64 to
256 of 320 × 240 pixels). The file, TFRecords of 100,000 scenes, numbers classes without naming them. Colors and sizes
are inferred from its contents: the eight codes of colors are matched to the palette by the mean color of their pixels,
and a size is the height of the object's center. The classes of shape and material are the codes of the file minus one,
and their order is not known.
"""

import dataclasses
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
from jaxtyping import Array, Num, UInt8

from jaxdis.data import _clevr_render as clevr
from jaxdis.data import _lattice as lattice
from jaxdis.data._clevr_render import space
from jaxdis.data._factor_space import FactorSpace
from jaxdis.data._lattice import ListedSpace
from jaxdis.data.files import _containers as containers
from jaxdis.data.files import _tfrecord as tfrecord

WHERE = "https://github.com/google-deepmind/multi_object_datasets"
RECORDS = 100_000
ENTITIES = 11
# The share of pixels that may be in no mask, and count as background, or in several, of which the first counts.
_UNCLEAR = 0.01
_CODES = ("color", "shape", "material", "size")
_NUMBERS = ("x", "y", "z", "rotation", "visibility")


@dataclasses.dataclass(frozen=True)
class FileScenes(ListedSpace):
    """A file's scenes, which have their own masks."""

    pictures: str = dataclasses.field(default="", metadata={"identity": False})

    def complete(self) -> "FileScenes":
        rows = self.listing.values
        return dataclasses.replace(self, listing=type(self.listing)(rows[rows[:, 0] == self.sizes[0] - 1]))

    def masks(self, factors: Num[Array, "n k"]) -> UInt8[Array, "n h w"]:
        return lattice.from_host(self._masks, factors, lattice.open_array(self.pictures).shape[1:3])

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
    """The scenes of ``clevr_with_masks_train.tfrecords``, ``RECORDS`` at most, decoded once and memory-mapped from the
    cache.

    The crop of 192 × 192 is reduced by linear interpolation for images and to the nearest pixel for masks. The rotation
    is that of the file, in degrees.

    Checks: the checksum of the gzip format; shapes of all features; codes, places and heights in their ranges; each
    pixel in exactly one mask (except for at most 1 % of the pixels); visible entities before all others; and colors
    that can be told apart.
    """
    path = containers.existing(source, what="clevr_with_masks_train.tfrecords", where=WHERE)
    if path.is_dir():
        raise ValueError(f"source: must be the file clevr_with_masks_train.tfrecords, got the folder {path}")
    of = space(jitter=False, min_pixels=min_pixels)
    origin = f"{lattice.identity(path)} {side} {min_pixels}"
    name = lattice.name_of("clevr-file", origin)

    def pictures(count: int, build) -> np.ndarray:
        return lattice.cached(f"{name}-pictures", (count, side, side, 4), np.uint8, build, origin)

    def fill(images: np.ndarray, kept) -> None:
        kept.seek(0)
        for picture in images:
            picture[:] = np.frombuffer(kept.read(picture.size), np.uint8).reshape(picture.shape)

    def build_factors(out: np.ndarray) -> None:
        with tempfile.TemporaryFile(dir=lattice.directory()) as kept:
            out[:] = np.nan
            rows = _decode(path, of, side, min_pixels, kept)
            out[: len(rows)] = rows
            pictures(len(rows), lambda images: fill(images, kept))

    def build_pictures(out: np.ndarray) -> None:
        with tempfile.TemporaryFile(dir=lattice.directory()) as kept:
            _decode(path, of, side, min_pixels, kept)
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
    """Factors ``[n, k]`` of the scenes to keep.

    Their pictures are written to ``kept``, ``[side, side, 4]`` uint8 with the mask as fourth channel.
    """
    # Sums of pixels by code of color, and their number.
    rows, shown = [], np.zeros((256, 4))
    for number, scene in enumerate(_scenes(path)):
        if number >= RECORDS:
            raise ValueError(f"source: {path} holds more than {RECORDS:,} records; needs {RECORDS:,}")
        objects = scene["objects"]
        which = _crop(scene["mask"])
        counts = np.bincount(which.ravel(), minlength=ENTITIES)[1 : len(objects) + 1]
        if not clevr.LEAST_OBJECTS <= len(counts) <= clevr.MOST_OBJECTS or (counts < min_pixels).any():
            continue
        image = _crop(scene["image"])
        for place, code in enumerate(objects[:, 0].astype(int), 1):
            inside = (image[which == place] / 255) ** 2.2
            shown[code] += [*inside.sum(0), len(inside)]
        # The objects that are absent have zeros.
        row = np.zeros(of.num_factors, np.float32)
        row[0] = len(objects) - clevr.LEAST_OBJECTS
        row[1 : 1 + objects.size] = objects.ravel()
        rows.append(row)
        kept.write(_picture(image, which, side).tobytes())
    if not rows:
        raise ValueError(f"source: {path} holds no scene of 3 to 6 objects that all show {min_pixels} pixels")
    return _with_colors(path, np.stack(rows), shown)


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
    for name, values, low, high in (
        ("color", color, 1, 8),
        ("shape", shape, 1, 3),
        ("material", material, 1, 2),
        ("x", x, -3, 3),
        ("y", y, -3, 3),
        ("height above its size", z - np.array(clevr.SIZES, np.float32)[size], -0.01, 0.01),
        ("rotation", rotation, 0, 360),
    ):
        if not ((values >= low) & (values <= high)).all():
            raise ValueError(f"{where} holds {name} {values.min():g} to {values.max():g}; needs {low:g} to {high:g}")
    return np.stack([color, 0 * color, 0 * color, shape - 1, material - 1, size, rotation, x, y], 1)


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
