"""dSprites in color, on noise and on a painting: the harder variants in Locatello et al. 2019, section 4.

Color, noise or background is drawn again for every image, so a render needs a key and the factors alone do not
determine the pixels.
"""

import logging
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from jaxdis._core import random
from jaxdis._core.options import shown
from jaxdis.data import _lattice as lattice
from jaxdis.data._sprites import gathered_rows, unpack

logger = logging.getLogger(__name__)

# The painting is reduced to fit this box (width, height), as in disentanglement_lib.
_PAINTING_BOX = (350, 274)
_PAINTING_FORMATS = ("JPEG", "PNG", "WEBP")
# A decoded pixel takes three bytes; a small file may contain far more pixels than this.
MOST_PIXELS = 100_000_000


def _sprites(tables, factors) -> Float[Array, "n 64 64 1"]:
    return unpack(gathered_rows(tables, factors)).astype(jnp.float32)[..., None]


def draw_colored(tables: tuple[Array, ...], factors: Int[Array, "n 5"], key: PRNGKeyArray) -> Float[Array, "n 64 64 3"]:
    """The sprite in one color per image from U(0.5, 1)³, on black."""
    color = random.uniform(key, (len(factors), 1, 1, 3), minval=0.5, maxval=1.0)
    return _sprites(tables, factors) * color


def draw_noisy(tables: tuple[Array, ...], factors: Int[Array, "n 5"], key: PRNGKeyArray) -> Float[Array, "n 64 64 3"]:
    """The white sprite on U(0, 1) noise, independent in every pixel and channel."""
    # Random bits dominate the cost: one word gives each of three channels ten bits, more than images store.
    word = random.bits(key, (len(factors), 64, 64), jnp.uint32)
    levels = jnp.stack([(word >> shift) & 1023 for shift in (0, 10, 20)], -1)
    noise = (levels.astype(jnp.float32) + np.float32(0.5)) / 1024
    return jnp.minimum(_sprites(tables, factors) + noise, 1)


def draw_painted(tables: tuple[Array, ...], factors: Int[Array, "n 5"], key: PRNGKeyArray) -> Float[Array, "n 64 64 3"]:
    """A random patch from the painting, inverted inside the sprite.

    The background is the mean of a 64 × 64 patch of the painting (``tables[-1] [height, width, 3]``, in [0, 1]) and one
    color from U(0, 1)³. The last row and column are never drawn, as in disentanglement_lib.
    """
    painting = tables[-1]
    corner_key, color_key = jax.random.split(key)
    room = np.array([painting.shape[:2]], np.int32) - 64
    corner = random.randint(corner_key, (len(factors), 2), 0, jnp.broadcast_to(room, (len(factors), 2)))
    piece = jax.vmap(lambda at: jax.lax.dynamic_slice(painting, (at[0], at[1], 0), (64, 64, 3)))(corner)
    background = (piece + random.uniform(color_key, (len(factors), 1, 1, 3))) / 2
    return jnp.where(_sprites(tables[:-1], factors) > 0, 1 - background, background)


def load_painting(path: str | Path | None) -> np.ndarray:
    """The painting as float32 [height, width, 3] in [0, 1], reduced to fit 350 × 274 pixels.

    Raises:
      FileNotFoundError: without the picture; the message says which one to save where.
      ValueError: for a picture that is damaged, too large, or too small for a 64 × 64 patch.
    """
    default = lattice.directory() / "the_scream.jpg"
    path = Path(path) if path is not None else default
    if not path.is_file():
        raise FileNotFoundError(
            f"painting: scream_dsprites needs a photograph of Edvard Munch's The Scream (Wikimedia Commons, "
            f"The_Scream.jpg, public domain) and found none at {path}; pass painting=<file> or save it as {default}"
        )
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # checked below, before decoding
            with Image.open(path, formats=_PAINTING_FORMATS) as picture:
                if picture.width * picture.height > MOST_PIXELS:
                    raise ValueError(
                        f"painting: must be a picture of at most {MOST_PIXELS:,} pixels, got {picture.width:,} × "
                        f"{picture.height:,} in {path}"
                    )
                picture = picture.convert("RGB")
                picture.thumbnail(_PAINTING_BOX, Image.Resampling.LANCZOS)
    except (UnidentifiedImageError, Image.DecompressionBombError, OSError, SyntaxError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ValueError(f"painting: must be a whole JPEG, PNG or WebP picture, got {path} ({reason})") from None
    return checked_painting(np.asarray(picture, np.float32) / 255)


def checked_painting(painting: np.ndarray) -> np.ndarray:
    """The painting, if it is float32 [height, width, 3] in [0, 1] with more than 64 pixels on each side."""
    if np.asarray(painting).dtype.kind not in "fiu":
        raise ValueError(f"painting: must be numbers in [0, 1], got {shown(painting)}")
    painting = np.asarray(painting, np.float32)
    if painting.ndim != 3 or painting.shape[2] != 3 or min(painting.shape[:2]) <= 64:
        raise ValueError(
            f"painting: must be [height, width, 3] with more than 64 pixels each way, got {painting.shape}"
        )
    if not (painting.min() >= 0 and painting.max() <= 1):
        raise ValueError(f"painting: must be values in [0, 1], got {painting.min():g} to {painting.max():g}")
    return painting
