"""Teapots by formula: Newell's patches under one fixed lamp, seen from any point on a hemisphere, in any color.

The set is Eastwood & Williams 2018, §4.1. Its geometry and factors are published, its light and background are not:
here the lamp is above the spout's side, its light is white and does not move with the camera, and the background is
black. A pixel's shade does not depend on the color, so that an image is shade times color. Both sides of the surface
are lit, each as it faces the lamp.
"""

import dataclasses
import functools
from pathlib import Path
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Num

from jaxdis._core.options import CheckedFields
from jaxdis._core.platforms import on_cpu
from jaxdis.data._factor_space import FactorSpace, Interval

# Newell's 32 bicubic Bézier patches, z up and the spout along +x: rim (4), body (8), handle (4), spout (4), lid (8),
# bottom (4). The file has 290 points and then, for each patch, the numbers of its 4 × 4.
_POINTS, _PATCHES = Path(__file__).with_name("newell.txt").read_text().split("\n\n")
CONTROL_POINTS = np.array(_POINTS.split(), float).reshape(-1, 3)[np.array(_PATCHES.split(), int)].reshape(32, 4, 4, 3)


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


def patch_points(patch: np.ndarray, u: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points on a patch ``[u, v, 3]`` and their outward unit normals (zero where an edge of the patch is a point)."""
    (b_u, d_u), (b_v, d_v) = _bernstein(u), _bernstein(v)
    across, along = np.einsum("ua,vb,abc->uvc", d_u, b_v, patch), np.einsum("ua,vb,abc->uvc", b_u, d_v, patch)
    normal = np.cross(along, across)  # in this order they point outward
    length = np.linalg.norm(normal, axis=-1, keepdims=True)
    return np.einsum("ua,vb,abc->uvc", b_u, b_v, patch), normal / np.maximum(length, 1e-12)


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


_VIEW = {"azimuth": Interval(0, 2 * np.pi, circular=True), "elevation": Interval(0, np.pi / 2)}
SPACE = FactorSpace.of(**_VIEW, **dict.fromkeys(("red", "green", "blue"), Interval(0, 1)))

# Points per sample in each direction: fewer leave holes.
_DENSITY = 1.5


@dataclasses.dataclass(frozen=True)
class Gap(CheckedFields):
    """Red teapots from above, the combinations that Eastwood & Williams (2018, B.2) leave out for zero-shot transfer.

    ``printed``: red > green + 0.15 and elevation > π/4, which is 18.1 % of the space. ``released``: also red > blue +
    0.15, which is 10.2 % and agrees with how many images the paper counts.
    """

    rule: Literal["released", "printed"] = "released"

    def __call__(self, factors: Num[Array, "n 5"]) -> Bool[Array, " n"]:
        elevation, red, green, blue = factors.T[1:]
        gap = (red > green + np.float32(0.15)) & (elevation > np.float32(np.pi / 4))
        return gap & (red > blue + np.float32(0.15)) if self.rule == "released" else gap


@functools.cache
def lit_surface(side: int) -> tuple[np.ndarray, np.ndarray]:
    """Points about the teapot's middle and outward normals ``[6, p]``, and each point's shade on both sides ``[2, p]``.

    In images of side × side pixels, neighbors are less than a sample apart wherever the camera is.
    """
    width = 2 * REACH * (DISTANCE - 3.5) / side  # of a pixel at the teapot's point nearest to the camera
    spacing = width / SUPERSAMPLED / _DENSITY
    points, normals = [], []
    values, slopes = _bernstein(np.linspace(0, 1, 33))
    for patch in CONTROL_POINTS:
        # As many as suffice for the patch's longest line along either axis, at its greatest speed.
        speeds = [np.einsum("ua,vb,abc->uvc", *of, patch) for of in ((slopes, values), (values, slopes))]
        counts = [int(np.ceil(float(np.linalg.norm(lines, axis=-1).max()) / spacing)) for lines in speeds]
        point, normal = patch_points(patch, *((np.arange(count) + 0.5) / count for count in counts))
        points.append(point.reshape(-1, 3))
        normals.append(normal.reshape(-1, 3))
    points = (np.concatenate(points) - CENTER).astype(np.float32)
    normals = np.concatenate(normals).astype(np.float32)
    facing = normals @ LAMP
    shades = np.round((AMBIENT + SLOPE * np.stack([facing, -facing])) * (SHADES - 1))
    return np.concatenate([points.T, normals.T]), shades.astype(np.int32)


@dataclasses.dataclass(frozen=True)
class Draw:
    """A ``draw`` for :class:`~jaxdis.data._render.Render`: the nearest surface in each pixel's samples.

    Drawn as points, each of which fills the sample it falls into, so that outlines are up to half a sample wider.
    """

    side: int

    def __call__(self, tables: tuple[Array, ...], factors: Float[Array, "n 5"], key=None) -> Float[Array, "n h w 3"]:
        def image(row):
            return self.shade(row[0], row[1])[:, :, None] * row[None, None, 2:]

        # One after another, a scatter stays in cache on CPU.
        return jax.lax.map(image, factors) if on_cpu() else jax.vmap(image)(factors)

    def shade(self, azimuth: Float[Array, ""], elevation: Float[Array, ""]) -> Float[Array, "h w"]:
        """Each pixel's brightness in [0, 1], 0 outside the teapot."""
        shade = (self._points(azimuth, elevation) % SHADES).astype(jnp.float32) * np.float32(1 / (SHADES - 1))
        return shade.reshape(self.side, SUPERSAMPLED, self.side, SUPERSAMPLED).mean((1, 3))

    def _points(self, azimuth: Float[Array, ""], elevation: Float[Array, ""]) -> Int[Array, " s"]:
        """What each sample shows, row by row."""
        surface, shades = map(jnp.asarray, lit_surface(self.side))
        samples = self.side * SUPERSAMPLED
        right, up, back = camera(azimuth, elevation)
        (x, y, z), (nx, ny, nz) = surface[:3], surface[3:]
        nearness = 1 / (DISTANCE - (back[0] * x + back[1] * y + back[2] * z))
        scale = np.float32(samples / (2 * REACH)) * nearness
        middle = np.float32(samples / 2)
        column = middle + scale * (right[0] * x + right[1] * y)
        row = middle - scale * (up[0] * x + up[1] * y + up[2] * z)
        a, b, c = (np.float32(DISTANCE) * back[i] for i in range(3))
        outside = nx * (a - x) + ny * (b - y) + nz * (c - z) > 0
        shade = jnp.where(outside, shades[0], shades[1])
        near = ((DISTANCE + 4 - 1 / nearness) * np.float32(_NEARNESSES / 8)).astype(jnp.int32)
        place = row.astype(jnp.int32) * samples + column.astype(jnp.int32)
        buffer = jnp.zeros(samples**2, jnp.int32)
        return buffer.at[place].max(near * SHADES + shade, mode="drop")
