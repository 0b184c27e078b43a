"""dSprites by formula: three outlines, scaled, rotated and moved over 64 × 64 pixels, with two 32-bit words per row.

The set is Matthey et al. 2017 (dSprites). The pixel rule and the outlines were measured on its published frames: of
320, 294 are exact and none differs by more than 2 pixels.
"""

import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, UInt32

from jaxdis._core import random
from jaxdis._core.options import shown
from jaxdis.data import _lattice as lattice
from jaxdis.data._factor_space import FactorSpace

# The published lattice without its color, which has one value and changes no index. Orientation includes both 0 and 2π,
# so orientations 0 and 39 are the same image.
SPACE = FactorSpace.of(
    shape=(1, 2, 3),
    scale=np.linspace(0.5, 1, 6),
    orientation=np.linspace(0, 2 * np.pi, 40),
    x=np.linspace(0, 1, 32),
    y=np.linspace(0, 1, 32),
)

_SQUARE_HALF_SIDE = np.float32(9.598)
_ELLIPSE_SEMI_AXES = np.float32(12.765), np.float32(7.215)
# Right half of the heart, from its tip below to its notch above, in pixels at scale 1: two cubic Bézier curves (u, v).
_HEART_HALF_OUTLINE = np.array(
    [
        [[0, 9.71445], [1.219567, 4.805724], [10.214288, 1.415738], [9.564553, -4.773542]],
        [[9.564553, -4.773542], [8.677134, -10.203724], [1.716731, -11.331278], [0, -5.107036]],
    ]
)
_HEART_ANGLES = 256
# No outline reaches further than 13.6 pixels from its center, so each sprite is drawn in a window of this size.
_WINDOW = 28


def _heart_radii() -> np.ndarray:
    """How far the heart's outline is from its origin at uniform angles from the tip (0) to the notch (π), [256]."""
    t = np.linspace(0, 1, 20_001)[:, None]
    weights = ((1 - t) ** 3, 3 * (1 - t) ** 2 * t, 3 * (1 - t) * t**2, t**3)
    u, v = np.concatenate([sum(w * p for w, p in zip(weights, curve, strict=True)) for curve in _HEART_HALF_OUTLINE]).T
    angles = np.linspace(0, np.pi, _HEART_ANGLES)
    return np.interp(angles, np.arctan2(u, v), np.hypot(u, v)).astype(np.float32)


def _tables() -> dict[str, np.ndarray]:
    """By class number: 1/scale, cosine and sine of the orientation, and the window's center and start in pixels."""
    # 2π is mapped to 0, so that the two are equal to the last bit.
    orientation = np.array(SPACE.values[2]) % (2 * np.pi)
    center = 16 + 32 * np.array(SPACE.values[3])
    return {
        "shrink": (1 / np.array(SPACE.values[1])).astype(np.float32),
        "cosine": np.cos(orientation).astype(np.float32),
        "sine": np.sin(orientation).astype(np.float32),
        "center": center.astype(np.float32),
        "start": np.floor(center - _WINDOW / 2 + 0.5).astype(np.int32),
    }


_HEART = _heart_radii()
_TABLES = _tables()


def rows(factors: Int[Array, "n 5"]) -> UInt32[Array, "n 64 2"]:
    """Sprites as bits: word w of row y holds pixels x = 32w … 32w + 31, the leftmost in the lowest bit."""
    return jax.vmap(_rows)(factors)


def _rows(factors: Int[Array, " 5"]) -> UInt32[Array, "64 2"]:
    shape, scale, orientation, x, y = factors
    table = {name: jnp.asarray(values) for name, values in _TABLES.items()}
    left, top = table["start"][x], table["start"][y]
    pixel = np.arange(_WINDOW, dtype=np.int32)
    dx, dy = (
        ((pixel + start).astype(jnp.float32) + np.float32(0.5) - table["center"][at]) * table["shrink"][scale]
        for start, at in ((left, x), (top, y))
    )
    cosine, sine = table["cosine"][orientation], table["sine"][orientation]
    u = cosine * dx[None, :] - sine * dy[:, None]
    v = sine * dx[None, :] + cosine * dy[:, None]
    inside = _inside(shape, u, v)
    word = (inside.astype(jnp.uint32) << pixel.astype(np.uint32)[None]).sum(1, dtype=jnp.uint32)
    return jax.lax.dynamic_update_slice(jnp.zeros((64, 2), jnp.uint32), _shifted(word, left), (top, 0))


def _inside(shape: Int[Array, ""], u: Float[Array, "h w"], v: Float[Array, "h w"]) -> Array:
    """Whether points in the sprite's own frame, in pixels at scale 1, are in the square, the ellipse or the heart."""
    square = jnp.maximum(jnp.abs(u), jnp.abs(v)) <= _SQUARE_HALF_SIDE
    wide, high = _ELLIPSE_SEMI_AXES
    ellipse = (u / wide) ** 2 + (v / high) ** 2 <= 1
    angle = jnp.arctan2(jnp.abs(u), v) * np.float32((_HEART_ANGLES - 1) / np.pi)
    below = jnp.clip(angle.astype(jnp.int32), 0, _HEART_ANGLES - 2)
    part = angle - below.astype(jnp.float32)
    radii = jnp.asarray(_HEART)
    heart = jnp.sqrt(u * u + v * v) <= radii[below] * (1 - part) + radii[below + 1] * part
    return jnp.where(shape == 0, square, jnp.where(shape == 1, ellipse, heart))


def _shifted(word: UInt32[Array, " h"], places: Int[Array, ""]) -> UInt32[Array, "h 2"]:
    """Words moved right by 0 … 63 pixels, over two words (a shift of one word by 32 or more is undefined)."""
    places = places.astype(jnp.uint32)
    near, far = jnp.minimum(places, 31), jnp.maximum(places, 32) - 32
    carried = (word >> 1) >> (31 - near)
    return jnp.where(places < 32, jnp.stack([word << near, carried], -1), jnp.stack([word & 0, word << far], -1))


def unpack(words: UInt32[Array, "... 64 2"]) -> UInt32[Array, "... 64 64"]:
    """Words to pixels of 0 and 1."""
    bits = np.arange(32, dtype=np.uint32).reshape((1,) * words.ndim + (32,))
    return ((words[..., None] >> bits) & 1).reshape(*words.shape[:-1], 64)


def pack(images: np.ndarray) -> np.ndarray:
    """The inverse of :func:`unpack`: pixels of 0 and 1 ``[..., 64, 64]`` on the host to the words of :func:`rows`."""
    return np.packbits(images, axis=-1, bitorder="little").view("<u4")


def gathered_rows(tables: tuple[Array, ...], factors: Int[Array, "n 5"]) -> UInt32[Array, "n 64 2"]:
    """Sprites from the file's lattice if there is one (``tables[0] [737280, 64, 2]``), otherwise by the formula."""
    return tables[0][SPACE.index(factors)] if tables else rows(factors)


def draw(tables: tuple[Array, ...], factors: Int[Array, "n 5"], key=None) -> Array:
    """White sprites on black, [n, 64, 64, 1]."""
    return unpack(gathered_rows(tables, factors)).astype(jnp.float32)[..., None]


# Hearts at half the resolution are a set small enough that models are trained on it in seconds. Positions vary twice as
# far horizontally as vertically. If both varied equally, any rotation between the two positions would explain the
# images equally well, and chance would decide which rotation a model finds.

_HEART_SHAPE, _UPRIGHT = 2, 0
# The first of dSprites' 32 vertical positions that occur, of 16.
_FIRST_Y = 8

_OF_DSPRITES = dict(zip(SPACE.names, SPACE.values, strict=True))
HEARTS_SPACE = FactorSpace.of(
    scale=_OF_DSPRITES["scale"], x=_OF_DSPRITES["x"], y=_OF_DSPRITES["y"][_FIRST_Y : _FIRST_Y + 16]
)


def draw_hearts(tables: tuple, factors: Int[Array, "n 3"], key: Array | None) -> Float[Array, "n 32 32 1"]:
    """Images from class numbers (scale, x, y): dSprites frames, averaged over squares of four pixels."""
    start = np.array([[_HEART_SHAPE, 0, _UPRIGHT, 0, _FIRST_Y]], np.int32)
    place = np.array([[0, 1, 0, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1]], np.int32)
    frames = draw(tables, start + factors @ place, key)
    sums = jax.lax.reduce_window(frames, np.float32(0), jax.lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "valid")
    return sums / np.float32(4)


# The harder variants in Locatello et al. 2019, section 4. Color, noise or background is drawn again for every image, so
# a render needs a key and the factors alone do not determine the pixels.

# The painting is reduced to fit this box (width, height), as in disentanglement_lib.
_PAINTING_BOX = (350, 274)
# A decoded pixel takes three bytes; a small file may contain far more pixels than this.
MOST_PIXELS = 100_000_000


def draw_colored(tables: tuple[Array, ...], factors: Int[Array, "n 5"], key: PRNGKeyArray) -> Float[Array, "n 64 64 3"]:
    """The sprite in one color per image from U(0.5, 1)³, on black."""
    color = random.uniform(key, (len(factors), 1, 1, 3), minval=0.5, maxval=1.0)
    return draw(tables, factors) * color


def draw_noisy(tables: tuple[Array, ...], factors: Int[Array, "n 5"], key: PRNGKeyArray) -> Float[Array, "n 64 64 3"]:
    """The white sprite on U(0, 1) noise, independent in every pixel and channel."""
    # Random bits dominate the cost: one word gives each of three channels ten bits, more than images store.
    word = random.bits(key, (len(factors), 64, 64), jnp.uint32)
    levels = jnp.stack([(word >> shift) & 1023 for shift in (0, 10, 20)], -1)
    noise = (levels.astype(jnp.float32) + np.float32(0.5)) / 1024
    return jnp.minimum(draw(tables, factors) + noise, 1)


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
    return jnp.where(draw(tables[:-1], factors) > 0, 1 - background, background)


def load_painting(path: str | Path | None) -> np.ndarray:
    """The painting as float32 [height, width, 3] in [0, 1], reduced to fit 350 × 274 pixels."""
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
            with Image.open(path, formats=("JPEG", "PNG", "WEBP")) as picture:
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
