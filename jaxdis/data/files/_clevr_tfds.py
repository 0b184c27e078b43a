"""CLEVR of tensorflow-datasets: the published pictures of 480 × 320 pixels with descriptions of their scenes.

Scenes of at most six objects are kept if all objects show enough pixels in the square that
:mod:`jaxdis.data._clevr_render` cuts out.

- The descriptions have no masks and no camera, which was moved at random. Its position is fitted to the pixels at which
  the centers of objects are seen. The masks are the outlines of the solids from there; the published solids have
  rounded edges, so that pixels on outlines may differ.
- The test images have no descriptions and are left out.
"""

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jaxdis._core.options import Count
from jaxdis.data import _clevr_render as clevr
from jaxdis.data import _lattice as lattice
from jaxdis.data._clevr_render import View
from jaxdis.data._clevr_space import space
from jaxdis.data._factor_space import FactorSpace
from jaxdis.data.files import _clevr_files as files
from jaxdis.data.files import _tfds as tfds

# Height and width of the published pictures, and how much larger they are than those of 320 × 240. They show the same
# width and less height.
PICTURE = (320, 480)
SCALE = PICTURE[1] / clevr.PICTURE[1]
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


def read(source: str | Path, side: int = 128, min_pixels: int = 200) -> files.Read:
    """The scenes of a prepared ``clevr``, memory-mapped from the cache.

    The square is reduced by area-weighted linear interpolation. The rotation is that of the description, which CLEVR
    renders as radians.

    Checks: pictures of 480 × 320 pixels, objects in their ranges, and centers seen where a camera near CLEVR's sees
    them.
    """
    path = tfds.prepared("clevr", source)
    of = space(jitter=False, min_pixels=min_pixels)
    origin = f"{lattice.identity(path / 'dataset_info.json')} {side} {min_pixels}"
    return files.cached("clevr-tfds", origin, of, side, lambda kept: _decode(path, of, side, min_pixels, kept))


def _decode(path: Path, of: FactorSpace, side: int, min_pixels: int, kept: IO[bytes]) -> np.ndarray:
    rows = []
    for where, image, objects, seen in _scenes(path):
        row, points = files.row_of(of, objects), np.zeros((clevr.MOST_OBJECTS, 6), np.float32)
        points[: len(objects), :2], points[: len(objects), 3:] = objects[:, 7:], seen
        points[:, 2] = np.array(clevr.SIZES)[row[1:].reshape(-1, len(clevr.OBJECT))[:, 5].astype(int)]
        eye, farthest = _camera(points[:, :3], points[:, 3:], np.arange(clevr.MOST_OBJECTS) < len(objects))
        if not farthest <= _FARTHEST:
            raise ValueError(f"{where} shows objects {farthest:.1f} pixels from where CLEVR's camera sees them")
        fine, masks = (np.asarray(_masks(row, eye, size)) for size in (clevr.CROP_SIDE, side))
        if files.wanted(np.bincount(fine.ravel(), minlength=len(objects) + 1)[1:], min_pixels):
            rows.append(row)
            kept.write(np.concatenate([_cut(image, side), masks[..., None]], -1).tobytes())
    return files.stacked(path, rows, min_pixels)


def _scenes(path: Path) -> Iterator[tuple[str, np.ndarray, np.ndarray, np.ndarray]]:
    """Where a scene is, its picture, and of 3 to 6 objects their factors ``[o, 9]`` and (column, row, depth)."""
    for example in tfds.examples(path, SPLITS):
        where, things = f"source: {example['file_name']!r} of {path}", example["objects"]
        count = len(things["color"])
        if example["image"].shape != (*PICTURE, 3):
            raise ValueError(f"{where} has the shape {example['image'].shape}; needs {(*PICTURE, 3)}")
        if not clevr.LEAST_OBJECTS <= count <= clevr.MOST_OBJECTS:
            continue
        place = np.asarray(things["3d_coords"], np.float32)
        size = np.asarray(things["size"], np.int64)
        rotation = np.asarray(things["rotation"], np.float32)
        heights = np.abs(place[:, 2] - np.array(clevr.SIZES, np.float32)[size])
        for name, values, low, high in (
            ("places", place[:, :2], -3, 3),
            ("heights above sizes", heights, 0, 0.01),
            ("rotations", rotation, 0, 360),
        ):
            if not ((values >= low) & (values <= high)).all():
                raise ValueError(
                    f"{where} holds {name} {values.min():g} to {values.max():g}; needs {low:g} to {high:g}"
                )
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
        middle = PICTURE[0] / 2
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
    top = PICTURE[0] / 2 + SCALE * (clevr.CROP_TOP - clevr.PICTURE[0] / 2)
    box = (left, top, left + size, top + size)
    return np.asarray(Image.fromarray(image).resize((side, side), Image.Resampling.BILINEAR, box=box))
