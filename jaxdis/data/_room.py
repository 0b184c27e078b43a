"""Shapes3D's room: which surface each camera ray meets, where, and whether light reaches that point.

Positions, sizes and angles were measured on the published pictures of the set (Burgess and Kim 2018). Lengths are in
units of the distance from the object to the back wall: the floor is at z = 0, the object stands on it at x = y = 0, and
the back wall is at y = 1.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxdis.data._rays import look_at, spread

CAMERA_DISTANCE, CAMERA_HEIGHT, LOOK_AT_HEIGHT = 0.8234, 0.2042, 0.1892
VERTICAL_FIELD_OF_VIEW = np.radians(38.3269)
WALL_HEIGHT = 0.4685
SIDE_WALLS, BACK_WALL = 0.90, 1.00
LIGHT = np.array([-1.0599, 0.6088, 4.4046], np.float32)
# Sizes at scale 1.
CUBE_HALF_EDGE = 0.088
CYLINDER_RADIUS, CYLINDER_HALF_HEIGHT = 0.0925, 0.0958
SPHERE_RADIUS = 0.1064
CAPSULE_RADIUS, CAPSULE_HALF_SEGMENT = 0.0807, 0.0848

SKY, FLOOR, WALL, OBJECT = range(4)
_FAR = np.float32(1e9)

Vector = Float[Array, "... 3"]


class Hits(NamedTuple):
    """Each ray's first hit.

    ``surface [...]`` (SKY, FLOOR, WALL, OBJECT), ``point`` and outward ``normal [..., 3]``, and ``shadowed [...]``
    where the object is between the point and the light.
    """

    surface: Int[Array, "..."]
    point: Vector
    normal: Vector
    shadowed: Bool[Array, "..."]


def camera(azimuth: Float[Array, ""], side: int) -> tuple[Float[Array, "3"], Float[Array, "side side 3"]]:
    """Camera position, rotated by ``azimuth`` radians about the object, and the rays of its side × side pixels."""
    place = CAMERA_DISTANCE * jnp.sin(azimuth), -CAMERA_DISTANCE * jnp.cos(azimuth), jnp.float32(CAMERA_HEIGHT)
    eye = jnp.stack(place)
    target = jnp.array([0, 0, LOOK_AT_HEIGHT], jnp.float32)
    return eye, look_at(eye, target, VERTICAL_FIELD_OF_VIEW, side)


def trace(eye: Float[Array, "3"], rays: Vector, shape: Int[Array, ""], scale: Float[Array, ""]) -> Hits:
    """Follow rays from one point to the first surface they meet."""
    eye = jnp.broadcast_to(eye, rays.shape)
    object_at, object_normal = intersect_object(eye, rays, shape, scale)
    x, y, z = rays[..., 0], rays[..., 1], rays[..., 2]
    floor_at = jnp.where(z < 0, -eye[..., 2] / jnp.minimum(z, -1e-9), _FAR)
    side_at = (SIDE_WALLS * jnp.sign(x) - eye[..., 0]) / jnp.where(jnp.abs(x) > 1e-9, x, 1e-9)
    back_at = jnp.where(y > 0, (BACK_WALL - eye[..., 1]) / jnp.maximum(y, 1e-9), _FAR)
    wall_at = jnp.minimum(side_at, back_at)
    beside = side_at < back_at
    wall_at = jnp.where(eye[..., 2] + wall_at * z <= WALL_HEIGHT, wall_at, _FAR)
    nearest = jnp.minimum(jnp.minimum(object_at, floor_at), wall_at)
    surface = jnp.where(object_at == nearest, OBJECT, jnp.where(floor_at == nearest, FLOOR, WALL))
    surface = jnp.where(nearest >= _FAR, SKY, surface)
    point = eye + jnp.where(nearest < _FAR, nearest, 0)[..., None] * rays
    zeros, ones = jnp.zeros_like(x), jnp.ones_like(x)
    wall_normal = jnp.stack([jnp.where(beside, -jnp.sign(x), 0), jnp.where(beside, 0, -ones), zeros], -1)
    is_object, is_wall = (surface == OBJECT)[..., None], (surface == WALL)[..., None]
    normal = jnp.where(is_object, object_normal, jnp.where(is_wall, wall_normal, jnp.stack([zeros, zeros, ones], -1)))
    start = point + 1e-4 * normal
    shadowed = intersect_object(start, spread(jnp.asarray(LIGHT), start.ndim) - start, shape, scale)[0] < 1
    return Hits(surface, point, normal, shadowed)


def intersect_object(
    start: Vector, rays: Vector, shape: Int[Array, ""], scale: Float[Array, ""]
) -> tuple[Float[Array, "..."], Vector]:
    """Ray parameter (1e9: missed) and outward normal where rays enter the cube, cylinder, sphere or capsule (0 … 3)."""
    half = jnp.stack([jnp.float32(h) for h in (CUBE_HALF_EDGE, CYLINDER_HALF_HEIGHT, 0, CAPSULE_HALF_SEGMENT)])
    radius = jnp.stack([jnp.float32(r) for r in (0, CYLINDER_RADIUS, SPHERE_RADIUS, CAPSULE_RADIUS)])
    half, radius = half[shape] * scale, radius[shape] * scale
    # The center is above the floor by half the object's height, which for a round end includes its radius.
    center = jnp.stack([0 * half, 0 * half, half + jnp.where(shape >= 2, radius, 0)])
    start = start - spread(center, start.ndim)
    slab_at, slab_normal = _slab(start, rays, half, shape == 0)
    disc_at, disc_normal = _side(start, rays, half, radius)
    cap_at, cap_normal = _caps(start, rays, half, radius)
    # A cylinder is a side and two discs, a capsule a side and two balls, and a ball a capsule without a side.
    flat = jnp.where(shape <= 1, slab_at, _FAR)
    on_disc = jnp.linalg.norm((start + slab_at[..., None] * rays)[..., :2], axis=-1) <= radius
    flat = jnp.where((shape == 0) | on_disc, flat, _FAR)
    side = jnp.where((shape == 1) | (shape == 3), disc_at, _FAR)
    cap = jnp.where(shape >= 2, cap_at, _FAR)
    nearest = jnp.minimum(jnp.minimum(flat, side), cap)
    normal = jnp.where((side == nearest)[..., None], disc_normal, cap_normal)
    return nearest, jnp.where((flat == nearest)[..., None], slab_normal, normal)


def _slab(start, rays, half, is_cube):
    """Entry into the box |x|, |y|, |z| ≤ half, or for a cylinder into the layer |z| ≤ half."""
    safe = jnp.where(jnp.abs(rays) > 1e-9, rays, 1e-9)
    near = (-jnp.sign(safe) * half - start) / safe
    far = (jnp.sign(safe) * half - start) / safe
    free = spread(jnp.stack([is_cube, is_cube, jnp.ones_like(is_cube)]), rays.ndim)
    near, far = jnp.where(free, near, -_FAR), jnp.where(free, far, _FAR)
    at, leave = near.max(-1), far.min(-1)
    normal = jnp.where(near == at[..., None], -jnp.sign(safe), 0)
    return jnp.where((at > 0) & (at <= leave), at, _FAR), normal


def _side(start, rays, half, radius):
    """Entry into the infinite upright cylinder, if it is between the two ends."""
    a = (rays[..., :2] ** 2).sum(-1)
    b = (start[..., :2] * rays[..., :2]).sum(-1)
    c = (start[..., :2] ** 2).sum(-1) - radius**2
    root = b * b - a * c
    at = (-b - jnp.sqrt(jnp.maximum(root, 0))) / jnp.maximum(a, 1e-12)
    point = start + at[..., None] * rays
    hit = (root > 0) & (at > 0) & (jnp.abs(point[..., 2]) <= half)
    return jnp.where(hit, at, _FAR), point * spread(jnp.array([1, 1, 0], jnp.float32), rays.ndim) / jnp.maximum(
        radius, 1e-6
    )


def _caps(start, rays, half, radius):
    """Entry into the nearer of two balls at heights ±half."""
    best, normal = jnp.full(rays.shape[:-1], _FAR), jnp.zeros_like(rays)
    for sign in (-1.0, 1.0):
        center = jnp.stack([0 * half, 0 * half, sign * half])
        away = start - spread(center, start.ndim)
        a, b = (rays**2).sum(-1), (away * rays).sum(-1)
        root = b * b - a * ((away**2).sum(-1) - radius**2)
        at = (-b - jnp.sqrt(jnp.maximum(root, 0))) / a
        at = jnp.where((root > 0) & (at > 0), at, _FAR)
        point = (away + at[..., None] * rays) / jnp.maximum(radius, 1e-6)
        normal = jnp.where((at < best)[..., None], point, normal)
        best = jnp.minimum(best, at)
    return best, normal
