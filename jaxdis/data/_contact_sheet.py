"""Contact sheets: one image row per factor, in which this factor varies and all others are fixed."""

from pathlib import Path
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Num, PRNGKeyArray, UInt8

from jaxdis._core.options import Count, Range, Seed, checked
from jaxdis.data._data_source import DataSource
from jaxdis.data._datasets import DATASETS
from jaxdis.data._factor_space import FactorSpace, middles
from jaxdis.data._render import Render

_MOST_COLUMNS = 12
_GAP = 2
_GRAY = 128
# With these limits a sheet of 64 × 64 images is at most a few thousand pixels wide.
Zoom = Annotated[int, Range(1, 16)]


@checked
def traversals(space: FactorSpace, key: PRNGKeyArray, columns: Count = _MOST_COLUMNS) -> Num[np.ndarray, "k c k"]:
    """Factors ``[k, columns, k]``: row j fixes one random cell but varies factor j from its first to its last value.

    A factor with fewer values than columns shows each once, and the rest of its row repeats the last.
    """
    center = np.asarray(space.sample(key, 1))[0].copy()
    if "num_objects" in space.names:
        # Otherwise the rows of absent objects would show nothing.
        center[space.position("num_objects")] = space.sizes[space.position("num_objects")] - 1
    rows = np.tile(center, (space.num_factors, columns, 1))
    for j, size in enumerate(space.sizes):
        if size is None:
            rows[j, :, j] = middles(space.values[j], columns)
        elif size > columns:
            rows[j, :, j] = np.round(np.linspace(0, size - 1, columns))
        else:
            rows[j, :, j] = np.minimum(np.arange(columns), size - 1)
    return rows


@checked
def contact_sheet(
    space: FactorSpace, render: Render, key: PRNGKeyArray, columns: Count = _MOST_COLUMNS
) -> UInt8[np.ndarray, "height width 3"]:
    """An image sheet ``uint8 [height, width, 3]``: row j traverses factor j, and gray fills shorter rows."""
    center_key, noise_key = jax.random.split(key)
    factors = traversals(space, center_key, columns)
    images = np.asarray(jax.jit(lambda render, *arguments: render(*arguments))(render, jnp.asarray(factors), noise_key))
    if images.dtype != np.uint8:
        images = np.round(images * 255).astype(np.uint8)
    height, width, _ = render.shape
    images = np.broadcast_to(images, (*images.shape[:-1], 3))
    sheet = np.full((_GAP + len(images) * (height + _GAP), _GAP + columns * (width + _GAP), 3), _GRAY, np.uint8)
    for j, size in enumerate(space.sizes):
        for column in range(min(size or columns, columns)):
            top, left = _GAP + j * (height + _GAP), _GAP + column * (width + _GAP)
            sheet[top : top + height, left : left + width] = images[j, column]
    return sheet


@checked
def save_sheet(name: str, path: str | Path, source: str | Path | None = None, seed: Seed = 0, zoom: Zoom = 1) -> None:
    """Save a data set's contact sheet as a PNG file, each pixel enlarged ``zoom`` times. Needs Pillow (the extra
    ``data``)."""
    from PIL import Image

    if name not in DATASETS:
        raise ValueError(f"name: must be one of {', '.join(DATASETS)}, got {name!r}")
    chosen = DATASETS[name]
    space, render = chosen.open(name, None if source is None else DataSource(str(source)))
    sheet = contact_sheet(space, render, jax.random.key(seed))
    Image.fromarray(sheet.repeat(zoom, 0).repeat(zoom, 1)).save(path, format="PNG")
