"""dSprites by formula: three outlines, scaled, rotated and moved over 64 × 64 pixels, with two 32-bit words per row.

The set is Matthey et al. 2017 (dSprites). The pixel rule and the outlines were measured on its published frames: of
320, 294 are exact and none differs by more than 2 pixels. They are part of this set's version: see ``VERSION``.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, UInt32

from jaxdis.data._factor_space import FactorSpace

VERSION = 1

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
    """Sprites from the packed lattice if there is one (``tables[0] [737280, 64, 2]``), otherwise by the formula."""
    return tables[0][SPACE.index(factors)] if tables else rows(factors)


def draw(tables: tuple[Array, ...], factors: Int[Array, "n 5"], key=None) -> Array:
    """White sprites on black, [n, 64, 64, 1]."""
    return unpack(gathered_rows(tables, factors)).astype(jnp.float32)[..., None]


def build(out: np.ndarray) -> None:
    """Fill ``out [737280, 64, 2]`` uint32 with all sprites of the lattice, in lattice order."""
    step = 2**13
    render = jax.jit(lambda start: rows(SPACE.factors(start + jnp.arange(step, dtype=jnp.int32))))
    for start in range(0, len(out), step):
        out[start : start + step] = np.asarray(render(jnp.int32(start)))
