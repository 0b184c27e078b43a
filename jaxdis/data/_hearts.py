"""Upright dSprites hearts at half the resolution: a set small enough that models are trained on it in seconds.

Positions vary twice as far horizontally as vertically. If both varied equally, any rotation between the two positions
would explain the images equally well, and chance would decide which rotation a model finds.
"""

import jax
import numpy as np
from jaxtyping import Array, Float, Int

from jaxdis.data import _sprites as sprites
from jaxdis.data._factor_space import FactorSpace

_HEART, _UPRIGHT = 2, 0
# The first of dSprites' 32 vertical positions that occur.
_FIRST_Y = 8
_NUM_Y = 16

_OF_DSPRITES = dict(zip(sprites.SPACE.names, sprites.SPACE.values, strict=True))
SPACE = FactorSpace.of(
    scale=_OF_DSPRITES["scale"],
    x=_OF_DSPRITES["x"],
    y=_OF_DSPRITES["y"][_FIRST_Y : _FIRST_Y + _NUM_Y],
)


def draw(tables: tuple, factors: Int[Array, "n 3"], key: Array | None) -> Float[Array, "n 32 32 1"]:
    """Images from class numbers (scale, x, y): dSprites frames, averaged over squares of four pixels."""
    start = np.array([[_HEART, 0, _UPRIGHT, 0, _FIRST_Y]], np.int32)
    place = np.array([[0, 1, 0, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1]], np.int32)
    frames = sprites.draw(tables, start + factors @ place, key)
    return jax.lax.reduce_window(frames, np.float32(0), jax.lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "valid") / np.float32(
        4
    )
