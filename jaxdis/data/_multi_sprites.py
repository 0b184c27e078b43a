"""Multi-dSprites: up to five colored sprites that occlude one another, with each object's mask and factors.

The generator follows Dang-Nhu 2022, appendix C.3 and table 7 (Engelcke et al.'s generator, 2020). Background and object
colors are from {0, 63, 127, 191, 255}³ and may repeat, so an object may be invisible. Objects are painted in order, and
later ones occlude earlier ones.
"""

import dataclasses
import functools
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, UInt8

from jaxdis.data import _sprites as sprites
from jaxdis.data._factor_space import FactorSpace
from jaxdis.data._scenes import scene_columns

COLORS = (0, 63, 127, 191, 255)
MOST_OBJECTS = 5
OBJECT_FACTORS = ("red", "green", "blue", *sprites.SPACE.names)
# Steps in each direction in Algorithm 2 (table 7); the shape is free. The background has the steps of object colors.
_STEPS = {"red": 1, "green": 1, "blue": 1, "scale": 1, "orientation": 3, "x": 2, "y": 2}


class Parts(NamedTuple):
    """Scene factors by part.

    The objects' ``count [...]``, ``background [..., 3]``, ``objects [..., o, 8]`` in the order of ``OBJECT_FACTORS``
    and ``present [..., o]``.
    """

    count: Int[Array, "..."]
    background: Int[Array, "... 3"]
    objects: Int[Array, "... o 8"]
    present: Bool[Array, "... o"]


class Scene(NamedTuple):
    """``images [n, 64, 64, 3]`` in 0…255 and ``masks [n, 64, 64]``: 0 for the background, i for object i (from 1)."""

    images: UInt8[Array, "n 64 64 3"]
    masks: UInt8[Array, "n 64 64"]


def space(max_objects: int = 4, min_objects: int = 1) -> FactorSpace:
    """Factors ``num_objects``, ``background_*`` and ``object_i_*``; absent objects' are sampled but invisible.

    Restrict how many objects there are with ``space.only({"num_objects": number - min_objects})``.
    """
    background = {f"background_{channel}": COLORS for channel in OBJECT_FACTORS[:3]}
    values = (COLORS, COLORS, COLORS, *sprites.SPACE.values)
    of_object = dict(zip(OBJECT_FACTORS, values, strict=True))
    return FactorSpace.of(**scene_columns(min_objects, max_objects, MOST_OBJECTS, background, of_object))


def steps(of: FactorSpace) -> dict[str, int]:
    """The ``radius`` of :meth:`FactorSpace.local_group` in table 7: bounded factor → steps in each direction."""
    return {name: _STEPS[name.split("_")[-1]] for name in of.names if name.split("_")[-1] in _STEPS}


def masks(of: FactorSpace, factors: Int[Array, "n k"]) -> UInt8[Array, "n 64 64"]:
    return scene(factors, int(of.values[0][0])).masks


def complete(of: FactorSpace) -> FactorSpace:
    return of.only({"num_objects": of.sizes[0] - 1})


def parts(factors: Int[Array, "... k"], min_objects: int = 1) -> Parts:
    """Split scene factors into parts; how many object slots there are follows from k = 4 + 8 o."""
    slots = (factors.shape[-1] - 4) // len(OBJECT_FACTORS)
    objects = factors[..., 4:].reshape(*factors.shape[:-1], slots, len(OBJECT_FACTORS))
    count = factors[..., 0] + min_objects
    number = np.arange(slots, dtype=np.int32).reshape((1,) * count.ndim + (slots,))
    return Parts(count, factors[..., 1:4], objects, number < count[..., None])


def scene(factors: Int[Array, "n k"], min_objects: int = 1, tables: tuple[Array, ...] = ()) -> Scene:
    cut = parts(factors, min_objects)
    n, slots = cut.present.shape
    words = sprites.gathered_rows(tables, cut.objects[..., 3:].reshape(n * slots, -1)).reshape(n, slots, 64, 2)
    words = jnp.where(cut.present[..., None, None], words, 0)
    palette = jnp.array(COLORS, jnp.uint8)
    later = functools.reduce(jnp.bitwise_or, [words[:, i] for i in range(slots)])
    images = sprites.unpack(~later).astype(jnp.uint8)[..., None] * palette[cut.background][:, None, None]
    masks = jnp.zeros((n, 64, 64), jnp.uint8)
    hidden = jnp.zeros_like(words[:, 0])
    for i in reversed(range(slots)):
        visible = sprites.unpack(words[:, i] & ~hidden).astype(jnp.uint8)
        images += visible[..., None] * palette[cut.objects[:, i, :3]][:, None, None]
        masks += visible * np.uint8(i + 1)
        hidden |= words[:, i]
    return Scene(images, masks)


@dataclasses.dataclass(frozen=True)
class Painter:
    """The ``draw`` for scenes with at least ``min_objects`` objects."""

    min_objects: int = 1

    def __call__(self, tables: tuple[Array, ...], factors: Int[Array, "n k"], key=None) -> UInt8[Array, "n 64 64 3"]:
        return scene(factors, self.min_objects, tables).images
