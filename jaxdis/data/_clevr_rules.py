"""Where CLEVR's objects may stand: apart from one another, and each visible.

The rules are those in Johnson et al.'s released code (2017). Two objects are apart if there is a gap between them, and
if they are not at nearly the same place from left to right, nor from front to back. These are the camera's directions
before it is moved: published scenes have the same ones, wherever the camera is.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from jaxdis._core import random
from jaxdis.data import _clevr as clevr
from jaxdis.data import _clevr_stage as clevr_stage
from jaxdis.data._clevr import OBJECT_FACTORS, View

GAP, MARGIN = np.float32(0.25), np.float32(0.4)
# Places that are tried for each object.
TRIES = 50
# Pixels are counted in pictures of this side, in proportion.
COUNTED_SIDE = 64

Row = Float[Array, " k"]


def placed(view: View, key: PRNGKeyArray, row: Row, low: Row, high: Row) -> tuple[Row, Bool[Array, ""]]:
    """The row with new x and y for every object, and whether all objects found a place.

    Objects are placed one after another, each uniformly between its bounds, at the first of 50 places that is apart
    from the objects before it.
    """
    first, count = clevr.first_object(len(row)), len(OBJECT_FACTORS)
    columns = np.arange(first + count - 2, len(row), count)[:, None] + np.arange(2)[None]
    cut = clevr.parts(row, view.min_objects)
    size, axes = view.solids(cut).size, _axes()
    low, high = low[columns], high[columns]
    tries = low[:, None] + (high - low)[:, None] * random.uniform(key, (len(columns), TRIES, 2))

    def place(number, state):
        places, fits = state
        before = (jnp.arange(len(columns)) < number) & cut.present
        sizes = jnp.broadcast_to(size[number] + size, (TRIES, len(columns)))
        good = (_apart(tries[number][:, None] - places[None], sizes, axes) | ~before[None]).all(1)
        places = places.at[number].set(tries[number, good.argmax()])
        return places, fits & (good.any() | ~cut.present[number])

    places, fits = jax.lax.fori_loop(0, len(columns), place, (tries[:, 0], jnp.bool_(True)))
    return row.at[columns].set(places), fits


def apart(view: View, row: Row) -> Bool[Array, ""]:
    """Whether all objects in a scene are apart."""
    cut = clevr.parts(row, view.min_objects)
    solids = view.solids(cut)
    place, size = solids.center[:, :2], solids.size
    good = _apart(place[:, None] - place[None], size[:, None] + size[None], _axes())
    both = cut.present[:, None] & cut.present[None] & ~np.eye(len(size), dtype=bool)
    return (good | ~both).all()


def visible(view: View, row: Row, min_pixels: int) -> Bool[Array, ""]:
    """Whether every object shows at least this many pixels in the crop from a 320 × 240 picture."""
    present = clevr.parts(row, view.min_objects).present
    number = np.arange(1, len(present) + 1, dtype=np.uint8)
    counts = (view.mask(row, COUNTED_SIDE)[None] == number[:, None, None]).sum((1, 2))
    needed = math.ceil(min_pixels * (COUNTED_SIDE / clevr_stage.CROP_SIDE) ** 2)
    return ((counts >= needed) | ~present).all()


def _axes() -> Float[Array, "2 2"]:
    """Directions on the ground, to the right and away from the camera."""
    right, _, into = clevr_stage.frame(jnp.asarray(clevr_stage.CAMERA))
    return jnp.stack([right[:2], into[:2] / jnp.linalg.norm(into[:2])])


def _apart(away: Float[Array, "a b 2"], sizes: Float[Array, "a b"], axes: Float[Array, "2 2"]) -> Bool[Array, "a b"]:
    """Whether objects are apart whose places differ by this and whose sizes sum to this."""
    distance = jnp.sqrt((away**2).sum(-1))
    return (distance - sizes >= GAP) & (jnp.abs(jnp.dot(away, axes.T, precision="highest")) >= MARGIN).all(-1)
