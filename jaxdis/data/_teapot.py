"""Teapots by formula: Newell's patches under one fixed lamp, seen from any point on a hemisphere, in any color.

The set is Eastwood & Williams 2018, §4.1. Its geometry and factors are published, its light and background are not:
here the lamp is above the spout's side, its light is white and does not move with the camera, and the background is
black. A pixel's shade does not depend on the color, so that an image is shade times color. Both sides of the surface
are lit, each as it faces the lamp.
"""

import dataclasses
import functools
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Num

from jaxdis._core.options import check_fields
from jaxdis._core.platforms import on_cpu
from jaxdis.data import _teapot_geometry as geometry
from jaxdis.data._factor_space import FactorSpace
from jaxdis.data._intervals import Interval
from jaxdis.data._newell import CONTROL_POINTS
from jaxdis.data._teapot_mesh import depth_buffer

SPACE = FactorSpace.of(
    azimuth=Interval(0, 2 * np.pi, circular=True),
    elevation=Interval(0, np.pi / 2),
    red=Interval(0, 1),
    green=Interval(0, 1),
    blue=Interval(0, 1),
)

# Points per sample in each direction: fewer leave holes.
_DENSITY = 1.5


@dataclasses.dataclass(frozen=True)
class Gap:
    """Red teapots from above, the combinations that Eastwood & Williams (2018, B.2) leave out for zero-shot transfer.

    Attributes:
      rule: ``printed``: red > green + 0.15 and elevation > π/4, which is 18.1 % of the space. ``released``: also red >
        blue + 0.15, which is 10.2 % and agrees with how many images the paper counts.
    """

    rule: Literal["released", "printed"] = "released"

    def __post_init__(self):
        check_fields(self)

    def __call__(self, factors: Num[Array, "n 5"]) -> Bool[Array, " n"]:
        elevation, red, green, blue = factors.T[1:]
        gap = (red > green + np.float32(0.15)) & (elevation > np.float32(np.pi / 4))
        return gap & (red > blue + np.float32(0.15)) if self.rule == "released" else gap


def surface(side: int) -> tuple[np.ndarray, np.ndarray]:
    """The teapot's points ``[p, 3]``, about its middle, and their outward normals, for images of side × side pixels.

    Neighbors are less than a sample apart wherever the camera is.
    """
    spacing = geometry.sample_size(side) / _DENSITY
    points, normals = [], []
    for patch in CONTROL_POINTS:
        counts = [int(np.ceil(geometry.longest_line(patch, axis) / spacing)) for axis in (0, 1)]
        point, normal = geometry.patch_points(patch, *((np.arange(count) + 0.5) / count for count in counts))
        points.append(point.reshape(-1, 3))
        normals.append(normal.reshape(-1, 3))
    return (np.concatenate(points) - geometry.CENTER).astype(np.float32), np.concatenate(normals).astype(np.float32)


@functools.cache
def lit_surface(side: int) -> tuple[np.ndarray, np.ndarray]:
    """Points and normals ``[6, p]``, and each point's shade on both sides ``[2, p]``, int32."""
    points, normals = surface(side)
    facing = normals @ geometry.LAMP
    return np.concatenate([points.T, normals.T]), geometry.shade_of(np.stack([facing, -facing])).astype(np.int32)


@dataclasses.dataclass(frozen=True)
class Draw:
    """A ``draw`` for :class:`~jaxdis.data._render.Render`: the nearest surface in each pixel's samples.

    Attributes:
      side: images' height and width, in pixels.
      form: ``points``: the surface is drawn as points, each of which fills the sample it falls into, so that outlines
        are up to half a sample wider; ``triangles``: as triangles (:mod:`jaxdis.data._teapot_mesh`); None: points on
        CPU, triangles elsewhere.
    """

    side: int
    form: Literal["points", "triangles"] | None = None

    def __call__(self, tables: tuple[Array, ...], factors: Float[Array, "n 5"], key=None) -> Float[Array, "n h w 3"]:
        def image(form):
            return lambda row: self.shade(row[0], row[1], form)[:, :, None] * row[None, None, 2:]

        # One after another, a scatter stays in cache on CPU.
        if on_cpu():
            return jax.lax.map(image(self.form or "points"), factors)
        return jax.vmap(image(self.form or "triangles"))(factors)

    def shade(self, azimuth: Float[Array, ""], elevation: Float[Array, ""], form: str) -> Float[Array, "h w"]:
        """Each pixel's brightness in [0, 1], 0 outside the teapot."""
        if form == "triangles":
            buffer = depth_buffer(self.side, azimuth, elevation)
        else:
            buffer = self._points(azimuth, elevation)
        shade = (buffer % geometry.SHADES).astype(jnp.float32) * np.float32(1 / (geometry.SHADES - 1))
        return shade.reshape(self.side, geometry.SUPERSAMPLED, self.side, geometry.SUPERSAMPLED).mean((1, 3))

    def _points(self, azimuth: Float[Array, ""], elevation: Float[Array, ""]) -> Int[Array, " s"]:
        """What each sample shows, row by row."""
        surface, shades = map(jnp.asarray, lit_surface(self.side))
        column, row, nearness = geometry.projected(self.side, surface[:3], azimuth, elevation)
        _, _, back = geometry.camera(azimuth, elevation)
        (x, y, z), (nx, ny, nz) = surface[:3], surface[3:]
        a, b, c = (np.float32(geometry.DISTANCE) * back[i] for i in range(3))
        outside = nx * (a - x) + ny * (b - y) + nz * (c - z) > 0
        shade = jnp.where(outside, shades[0], shades[1])
        place = row.astype(jnp.int32) * geometry.samples(self.side) + column.astype(jnp.int32)
        buffer = jnp.zeros(geometry.samples(self.side) ** 2, jnp.int32)
        return buffer.at[place].max(geometry.packed(nearness, shade), mode="drop")
