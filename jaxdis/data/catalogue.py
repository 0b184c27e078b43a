"""One function a data set, each returning (space, render), and the table of them all."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from jaxdis.data import lattice, multi_sprites, sprite_variants, sprites
from jaxdis.data.factors import FactorSpace
from jaxdis.data.render import Render, checked_dtype


def _packed(source, cached: bool) -> tuple[tuple, str]:
    """The packed lattice of sprites as tables (none: draw by the formula) and where the images come from."""
    if source is not None:
        raise ValueError("source")
    if not cached:
        return (), "procedural"
    shape = (sprites.SPACE.num_lattice, 64, 2)
    words = lattice.cached(f"dsprites-{sprites.VERSION}", shape, np.uint32, sprites.build)
    return (lattice.on_device(words),), "procedural"


def dsprites(source: str | Path | None = None, cached: bool = False, dtype="float32") -> tuple[FactorSpace, Render]:
    """dSprites (Matthey et al. 2017): a white square, ellipse or heart on black, [64, 64, 1].

    Args:
      source: the official npz or hdf5 file, or a prepared tensorflow-datasets folder; None draws by formula.
      cached: gather from the packed lattice (377 MB in memory and on disk, built once) instead of drawing each image.
      dtype: "float32" in [0, 1] or "uint8" in 0…255.
    """
    tables, origin = _packed(source, cached)
    return sprites.SPACE, Render(
        tables, sprites.draw, sprites.SPACE.sizes, (64, 64, 1), checked_dtype(dtype), False, origin
    )
