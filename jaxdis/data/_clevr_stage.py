"""CLEVR's stage: camera, lamps, ground and solids, and what each ray meets.

Positions, sizes and lamps are those in the scene that Johnson et al. (2017) released. The ground is z = 0 and the
camera and all lamps aim at the origin. Every solid stands on the ground and fills [−1, 1]³ times its size: a cube, the
ball with radius 1, or the upright cylinder with radius 1 and height 2.

A ray is ``start + t · direction`` for t > 0. Vector fields are three arrays, so that loops over pixels vectorize.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

CAMERA = np.array([7.481131553649902, -6.5076398849487305, 5.34366512298584], np.float32)
# Half the width of the picture at distance 1: a lens of 35 mm before a sensor of 32 mm.
HALF_WIDTH = 16 / 35
# The picture, and the rows and columns that are cut out of it (Greff et al. 2019).
PICTURE = (240, 320)
CROP_TOP, CROP_LEFT, CROP_SIDE = 29, 64, 192
CUBE, BALL, CYLINDER = range(3)
SIZES = (0.35, 0.7)
FAR = np.float32(1e9)

Field = Float[Array, "..."]
Vectors = tuple[Field, Field, Field]


class Solids(NamedTuple):
    """``center [o, 3]``, ``cos`` and ``sin [o]`` for the turn about z, ``size``, ``shape`` and ``present [o]``."""

    center: Float[Array, "o 3"]
    cos: Float[Array, " o"]
    sin: Float[Array, " o"]
    size: Float[Array, " o"]
    shape: Int[Array, " o"]
    present: Bool[Array, " o"]


def standing(
    place: Float[Array, "o 2"],
    angle: Float[Array, " o"],
    size: Float[Array, " o"],
    shape: Int[Array, " o"],
    present: Bool[Array, " o"],
) -> Solids:
    """Solids at these places on the ground, turned by angles in radians."""
    center = jnp.concatenate([place, size[:, None]], 1)
    return Solids(center, jnp.cos(angle), jnp.sin(angle), size, shape, present)


def frame(eye: Float[Array, "3"]) -> Float[Array, "3 3"]:
    """Unit vectors for a camera that looks at the origin: to the right, upward and into the picture."""
    into = -eye / jnp.linalg.norm(eye)
    right = jnp.cross(into, np.array([0, 0, 1], np.float32))
    right = right / jnp.linalg.norm(right)
    return jnp.stack([right, jnp.cross(right, into), into])


def camera_rays(eye: Float[Array, "3"], side: int) -> Vectors:
    """Unit directions ``[side²]`` through the centers of the crop's side × side pixels, row by row."""
    axes = frame(eye)
    scale = HALF_WIDTH / (PICTURE[1] / 2)
    at = (np.arange(side) + 0.5) * CROP_SIDE / side
    across = jnp.asarray((scale * (CROP_LEFT + at - PICTURE[1] / 2)).astype(np.float32))
    upward = jnp.asarray((scale * (PICTURE[0] / 2 - CROP_TOP - at)).astype(np.float32))
    across, upward = jnp.tile(across, side), jnp.repeat(upward, side)
    x, y, z = (across * axes[0, i] + upward * axes[1, i] + axes[2, i] for i in range(3))
    length = 1 / jnp.sqrt(x * x + y * y + z * z)
    return x * length, y * length, z * length


def pixel(points: Float[Array, "n 3"], eye: Float[Array, "3"], side: int) -> Float[Array, "n 2"]:
    """(row, column) in the crop where points are seen; the center of the first pixel is at (0.5, 0.5)."""
    right, up, into = ((points - eye[None]) @ frame(eye).T).T
    scale = PICTURE[1] / 2 / HALF_WIDTH
    row, column = PICTURE[0] / 2 - scale * up / into, PICTURE[1] / 2 + scale * right / into
    return jnp.stack([row - CROP_TOP, column - CROP_LEFT], 1) * (side / CROP_SIDE)


def entered(solids: Solids, start: Vectors, rays: Vectors) -> Float[Array, "o p"]:
    """t at which each ray ``[p]`` enters each solid; FAR where it misses, or starts inside or behind.

    The three shapes are intersections of slabs and a quadric, so that t is the last entry before the first exit.
    """
    at, along = _local(solids, start, True), _local(solids, rays, False)
    (x_in, x_out), (y_in, y_out), (z_in, z_out) = (_slab(a, d) for a, d in zip(at, along, strict=True))
    # x² + y² + w z² ≤ 1 is the ball for w = 1, and the cylinder without its ends for w = 0.
    w = (solids.shape == BALL).astype(jnp.float32)[:, None]
    a, b, c = (
        u[0] * v[0] + u[1] * v[1] + w * u[2] * v[2] - last
        for u, v, last in ((along, along, 0), (at, along, 0), (at, at, 1))
    )
    a = jnp.maximum(a, 1e-12)
    inside = b * b - a * c
    root = jnp.sqrt(jnp.maximum(inside, 0))
    cube = (solids.shape == CUBE)[:, None]
    enter = jnp.maximum(z_in, jnp.where(cube, jnp.maximum(x_in, y_in), jnp.where(inside > 0, (-b - root) / a, FAR)))
    leave = jnp.minimum(z_out, jnp.where(cube, jnp.minimum(x_out, y_out), (-b + root) / a))
    return jnp.where((enter > 0) & (enter <= leave) & solids.present[:, None], enter, FAR)


def _local(solids: Solids, vectors: Vectors, are_points: bool) -> Vectors:
    """Points or directions in each solid's frame, where it fills [−1, 1]³."""
    x, y, z = (v[None] for v in vectors)
    if are_points:
        x, y, z = (v - solids.center[:, i, None] for i, v in enumerate((x, y, z)))
    cos, sin, scale = (v[:, None] for v in (solids.cos, solids.sin, 1 / solids.size))
    return (cos * x + sin * y) * scale, (cos * y - sin * x) * scale, z * scale


def _slab(at: Field, along: Field) -> tuple[Field, Field]:
    inverse = 1 / jnp.where(jnp.abs(along) > 1e-9, along, 1e-9)
    middle, half = -at * inverse, jnp.abs(inverse)
    return middle - half, middle + half


def ground(start: Vectors, rays: Vectors) -> Float[Array, " p"]:
    """t at which rays from above meet the ground."""
    return jnp.where(rays[2] < 0, -start[2] / jnp.minimum(rays[2], -1e-9), FAR)


class Hits(NamedTuple):
    """What rays meet first.

    ``which [p]``: −1 for no solid; ``missed [p]`` where there is no ground either; ``point`` and outward ``normal``.
    """

    which: Int[Array, " p"]
    missed: Bool[Array, " p"]
    point: Vectors
    normal: Vectors


def traced(solids: Solids, start: Vectors, rays: Vectors) -> Hits:
    """Follow rays to the first surface."""
    on_solid, on_ground = entered(solids, start, rays), ground(start, rays)
    nearest = on_solid.min(0)
    which = jnp.where(nearest < on_ground, on_solid.argmin(0), -1).astype(jnp.int32)
    t = jnp.minimum(nearest, on_ground)
    missed = t >= FAR
    t = jnp.where(missed, 0, t)
    point = tuple(a + t * d for a, d in zip(start, rays, strict=True))
    normal = normal_of(solids, which, point)
    return Hits(which, missed, point, normal)


def identities(solids: Solids, eye: Float[Array, "3"], side: int) -> Int[Array, " p"]:
    """The solid that each pixel in the crop shows, −1 for the ground."""
    on_solid = entered(solids, (eye[:1], eye[1:2], eye[2:]), camera_rays(eye, side))
    return jnp.where(on_solid.min(0) < FAR, on_solid.argmin(0), -1).astype(jnp.int32)


def normal_of(solids: Solids, which: Int[Array, " p"], point: Vectors) -> Vectors:
    """The outward normals of the solids' surfaces and the ground, at points on them."""
    table = jnp.concatenate([solids.center, jnp.stack([solids.cos, solids.sin, 1 / solids.size], 1)], 1)
    x, y, z, cos, sin, scale = table[jnp.maximum(which, 0)].T
    shape = solids.shape[jnp.maximum(which, 0)]
    x, y, z = point[0] - x, point[1] - y, (point[2] - z) * scale
    x, y = (cos * x + sin * y) * scale, (cos * y - sin * x) * scale
    # A cube's face is that of the greatest coordinate; a point is on a cylinder's end if |z| exceeds its distance to
    # the axis.
    wide, deep, high, round_ = jnp.abs(x), jnp.abs(y), jnp.abs(z), x * x + y * y
    cube = shape == CUBE
    on_end = jnp.where(cube, high >= jnp.maximum(wide, deep), (shape == CYLINDER) & (high * high >= round_))
    first = wide >= deep
    x, y = jnp.where(cube & ~first, 0, x), jnp.where(cube & first, 0, y)
    x, y, z = jnp.where(on_end, 0, x), jnp.where(on_end, 0, y), jnp.where((shape == BALL) | on_end, z, 0)
    x, y, z = jnp.where(which < 0, 0, cos * x - sin * y), jnp.where(which < 0, 0, sin * x + cos * y), z
    z = jnp.where(which < 0, 1, z)
    length = 1 / jnp.sqrt(jnp.maximum(x * x + y * y + z * z, 1e-12))
    return x * length, y * length, z * length
