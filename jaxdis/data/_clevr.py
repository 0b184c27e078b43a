"""CLEVR6: scenes of up to six solids on a plane, with each object's mask and factors, by ray casting.

CLEVR is Johnson et al. 2017. Greff et al. (2019) cut a square out of its pictures and keep those with at most six
objects; Dang-Nhu (2022, C.3) keeps those whose objects are all visible in that square. Geometry is in
:mod:`jaxdis.data._clevr_stage`, light in :mod:`jaxdis.data._clevr_light`, sampling in :mod:`jaxdis.data._clevr_space`.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Num, UInt8

from jaxdis._core.options import Count, check_fields
from jaxdis._core.platforms import on_cpu
from jaxdis.data import _clevr_light as clevr_light
from jaxdis.data import _clevr_stage as clevr_stage
from jaxdis.data._clevr_stage import Solids
from jaxdis.data._intervals import Interval

MOST_OBJECTS = 6
# The released pictures have 3 to 10 objects.
LEAST_OBJECTS = 3
# Values of 255 that the released code uses as linear light: gray, red, blue, green, brown, purple, cyan, yellow.
PALETTE = (
    (87, 87, 87),
    (173, 35, 35),
    (42, 75, 215),
    (29, 105, 20),
    (129, 74, 25),
    (129, 38, 192),
    (41, 208, 208),
    (255, 238, 51),
)
# Values of a channel in the evaluation of Dang-Nhu (2022, table 7).
LEVELS = 6
_UNIT, _PLACE = Interval(0, 1), Interval(-3, 3)
OBJECT = {
    "red": _UNIT,
    "green": _UNIT,
    "blue": _UNIT,
    "shape": 3,
    "material": 2,
    "size": clevr_stage.SIZES,
    "rotation": Interval(0, 360),
    "x": _PLACE,
    "y": _PLACE,
}
OBJECT_FACTORS = tuple(OBJECT)
SHAPES, MATERIALS = ("cube", "sphere", "cylinder"), ("rubber", "metal")
# How far each of them moves along each axis.
_JITTER = {"camera": 0.5, "key_lamp": 1.0, "fill_lamp": 1.0, "back_lamp": 1.0}
JITTERED = {f"{what}_{axis}": Interval(-most, most) for what, most in _JITTER.items() for axis in "xyz"}

# Scenes that an accelerator draws at one time.
_TOGETHER = 256


class Parts(NamedTuple):
    """Scene factors by part.

    ``count [...]``: how many objects; ``moved [..., 4, 3]``: how far camera, key, fill and back lamp are moved;
    ``objects [..., o, 9]`` in the order of ``OBJECT_FACTORS``; ``present [..., o]``.
    """

    count: Int[Array, "..."]
    moved: Float[Array, "... 4 3"]
    objects: Float[Array, "... o 9"]
    present: Bool[Array, "... o"]


def columns(max_objects: int, min_objects: int, jitter: bool) -> dict:
    """Factors ``num_objects``, the camera's and lamps' if they ``jitter``, and ``object_i_*``.

    Absent objects' factors are sampled, but these objects are not visible.
    """
    if not 1 <= min_objects <= max_objects <= MOST_OBJECTS:
        raise ValueError(
            f"max_objects: must be 1 ≤ min_objects ≤ max_objects ≤ {MOST_OBJECTS}, got {min_objects} and {max_objects}"
        )
    classes = {"num_objects": tuple(range(min_objects, max_objects + 1))} | (JITTERED if jitter else {})
    for number in range(1, max_objects + 1):
        classes |= {f"object_{number}_{name}": values for name, values in OBJECT.items()}
    return classes


def first_object(num_factors: int) -> int:
    """The column of the first object's first factor."""
    return 1 if num_factors % len(OBJECT) == 1 else 1 + len(JITTERED)


def parts(factors: Num[Array, "... k"], min_objects: int = LEAST_OBJECTS) -> Parts:
    """Split scene factors into parts; how many objects there are, and whether camera and lamps are moved, follow from
    k."""
    first = first_object(factors.shape[-1])
    factors = factors.astype(jnp.float32)
    objects = factors[..., first:].reshape(*factors.shape[:-1], -1, len(OBJECT))
    moved = factors[..., 1:first] if first > 1 else jnp.zeros((*factors.shape[:-1], 12), jnp.float32)
    count = factors[..., 0].astype(jnp.int32) + min_objects
    number = np.arange(objects.shape[-2], dtype=np.int32).reshape((1,) * count.ndim + (-1,))
    return Parts(count, moved.reshape(*moved.shape[:-1], 4, 3), objects, number < count[..., None])


@dataclasses.dataclass(frozen=True)
class View:
    """What determines a picture's outlines, given factors.

    Attributes:
      side: the picture's height and width, in pixels.
      rotation: ``released``: the angle is the factor's value in radians, as in the released code, which draws it from 0
        to 360 and writes it to a field in radians; ``degrees``: the angle is the factor's value in degrees.
      min_objects: the fewest objects in the space.
    """

    side: Count = 128
    rotation: Literal["released", "degrees"] = "released"
    min_objects: Count = LEAST_OBJECTS

    def __post_init__(self):
        check_fields(self)

    def solids(self, cut: Parts) -> Solids:
        """One scene's solids."""
        _, _, _, shape, _, size, rotation, x, y = cut.objects.T
        angle = rotation if self.rotation == "released" else jnp.radians(rotation)
        size = jnp.asarray(clevr_stage.SIZES, jnp.float32)[size.astype(jnp.int32)]
        return clevr_stage.standing(jnp.stack([x, y], 1), angle, size, shape.astype(jnp.int32), cut.present)

    def eye(self, cut: Parts) -> Float[Array, "3"]:
        return jnp.asarray(clevr_stage.CAMERA) + cut.moved[0]

    def mask(self, factors: Num[Array, " k"], side: int | None = None) -> UInt8[Array, "h w"]:
        """0 for the background, i for object i (from 1)."""
        cut, side = parts(factors, self.min_objects), side or self.side
        which = clevr_stage.identities(self.solids(cut), self.eye(cut), side)
        return (which + 1).astype(jnp.uint8).reshape(side, side)

    @functools.partial(jax.jit, static_argnums=0)
    def masks(self, factors: Num[Array, "n k"]) -> UInt8[Array, "n h w"]:
        """Instance masks."""
        return one_by_one(self.mask, factors)


@dataclasses.dataclass(frozen=True)
class Draw:
    """A ``draw`` for :class:`~jaxdis.data._render.Render`.

    Attributes:
      view: how the picture is seen.
      bounce: whether metal mirrors the scene; otherwise it is matte with highlights.
      shadows: whether solids cast shadows.
      supersampled: rays per pixel in each direction.
    """

    view: View = View()
    bounce: bool = True
    shadows: bool = True
    supersampled: Count = 1

    def __call__(self, tables: tuple[Array, ...], factors: Float[Array, "n k"], key=None) -> Float[Array, "n h w 3"]:
        return one_by_one(self.image, factors)

    def image(self, factors: Float[Array, " k"]) -> Float[Array, "h w 3"]:
        """One scene's picture."""
        cut = parts(factors, self.view.min_objects)
        eye, rays = self.view.eye(cut), self.view.side * self.supersampled
        linear = clevr_light.radiance(
            (eye[:1], eye[1:2], eye[2:]),
            clevr_stage.camera_rays(eye, rays),
            self.view.solids(cut),
            clevr_light.Surfaces(cut.objects[:, :3], cut.objects[:, 4] > 0),
            clevr_light.lamps(cut.moved[1:]),
            shadows=self.shadows,
            bounce=self.bounce,
        )
        shape = 3, self.view.side, self.supersampled, self.view.side, self.supersampled
        return clevr_light.encoded(linear.reshape(shape).mean((2, 4))).transpose(1, 2, 0)


def one_by_one(function: Callable, rows):
    """Apply a function to each row in one or several arrays: on CPU one row after another, so that intermediate arrays
    stay in cache, elsewhere several rows at once."""
    return jax.lax.map(function, rows, batch_size=None if on_cpu() else _TOGETHER)
