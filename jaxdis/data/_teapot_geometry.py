"""What both forms of the teapot share: points on its patches, the lamp, the camera, and samples.

:mod:`jaxdis.data._teapot` draws the surface as points, :mod:`jaxdis.data._teapot_mesh` as triangles.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Num

# The camera turns about the middle of the teapot, at a distance from which the teapot just fits into the image.
CENTER = np.array([0.2, 0, 1.575])
DISTANCE = 13.0
REACH = 3.6 / DISTANCE
# Samples per pixel in each direction.
SUPERSAMPLED = 2
# Light from all sides, and its change toward a broad lamp in this direction: spherical harmonics of degrees 0 and 1.
AMBIENT, SLOPE = 0.55, 0.45
LAMP = np.array([0.35, -0.5, 0.8]) / np.linalg.norm([0.35, -0.5, 0.8])
# A sample is one number, whose high bits are its nearness and whose low bits its shade: the nearest is the greatest.
SHADES = 2**10
_NEARNESSES = 2**20


def sample_size(side: int) -> float:
    """A sample's width at the teapot's point nearest to the camera."""
    return 2 * REACH * (DISTANCE - 3.5) / samples(side)


def samples(side: int) -> int:
    """How many samples an image has in each direction."""
    return side * SUPERSAMPLED


def patch_points(patch: np.ndarray, u: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points on a patch ``[u, v, 3]`` and their outward unit normals (zero where an edge of the patch is a point)."""
    (b_u, d_u), (b_v, d_v) = _bernstein(u), _bernstein(v)
    across, along = np.einsum("ua,vb,abc->uvc", d_u, b_v, patch), np.einsum("ua,vb,abc->uvc", b_u, d_v, patch)
    normal = np.cross(along, across)  # in this order they point outward
    length = np.linalg.norm(normal, axis=-1, keepdims=True)
    return np.einsum("ua,vb,abc->uvc", b_u, b_v, patch), normal / np.maximum(length, 1e-12)


def shade_of(facing: np.ndarray) -> np.ndarray:
    """Surfaces' shades 0 … 1023, by the cosine between their normals and the lamp's direction."""
    return np.round((AMBIENT + SLOPE * facing) * (SHADES - 1))


def longest_line(patch: np.ndarray, axis: int) -> float:
    """How long the patch's longest line is along an axis, at its greatest speed."""
    values, slopes = _bernstein(np.linspace(0, 1, 33))
    first, second = (slopes, values) if axis == 0 else (values, slopes)
    return float(np.linalg.norm(np.einsum("ua,vb,abc->uvc", first, second, patch), axis=-1).max())


def projected(
    side: int, points: Float[Array, "3 ..."], azimuth: Float[Array, ""], elevation: Float[Array, ""]
) -> tuple[Float[Array, "..."], Float[Array, "..."], Float[Array, "..."]]:
    """Column, row and nearness of points about the teapot's middle; in the picture, nearness is linear on planes."""
    right, up, back = camera(azimuth, elevation)
    x, y, z = points
    nearness = 1 / (DISTANCE - (back[0] * x + back[1] * y + back[2] * z))
    scale = np.float32(samples(side) / (2 * REACH)) * nearness
    middle = np.float32(samples(side) / 2)
    column = middle + scale * (right[0] * x + right[1] * y)
    return column, middle - scale * (up[0] * x + up[1] * y + up[2] * z), nearness


def packed(nearness: Float[Array, "..."], shade: Num[Array, "..."]) -> Int[Array, "..."]:
    """Nearness and shade in one positive number, which is greater for nearer points."""
    depth = 1 / nearness
    near = ((DISTANCE + 4 - depth) * np.float32(_NEARNESSES / 8)).astype(jnp.int32)
    return near * SHADES + shade.astype(jnp.int32)


def camera(azimuth: Float[Array, ""], elevation: Float[Array, ""]) -> tuple[Array, Array, Array]:
    """Unit vectors to the right, upward, and from the teapot to the camera.

    At azimuth 0 the spout is at the right; at π/2 it points at the camera.
    """
    sin_a, cos_a, sin_e, cos_e = jnp.sin(azimuth), jnp.cos(azimuth), jnp.sin(elevation), jnp.cos(elevation)
    right = jnp.stack([cos_a, sin_a, jnp.zeros_like(cos_a)])
    back = jnp.stack([sin_a * cos_e, -cos_a * cos_e, sin_e])
    return right, jnp.stack([-sin_a * sin_e, cos_a * sin_e, cos_e]), back


def _bernstein(at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cubic Bernstein polynomials and their derivatives, ``[n, 4]`` each."""
    t, s = at[:, None], 1 - at[:, None]
    values = np.concatenate([s**3, 3 * s**2 * t, 3 * s * t**2, t**3], 1)
    lower = np.concatenate([s**2, 2 * s * t, t**2, 0 * t], 1)
    return values, 3 * (np.roll(lower, 1, 1) - lower)
