"""Shapes3D by ray casting: a room, an object in its middle, and light measured on the published pictures.

The set is Burgess and Kim 2018 (3D Shapes). Geometry and light were fitted to the 50 pictures printed in its notebook;
the faint texture of walls and floor is left out. Hues only change colors: the 480 combinations with geometry and light
for each (scale, shape, orientation) are traced once, and every image is a sum of gathered layers.
"""

import colorsys
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Shaped, UInt8

from jaxdis.data._factor_space import FactorSpace


def frame(forward: Float[Array, "3"]) -> Float[Array, "3 3"]:
    """Unit vectors for a camera that looks in this direction, z up in the world: to the right, upward and forward."""
    forward = forward / jnp.linalg.norm(forward)
    right = jnp.cross(forward, np.array([0, 0, 1], np.float32))
    right = right / jnp.linalg.norm(right)
    return jnp.stack([right, jnp.cross(right, forward), forward])


def spread(vector: Shaped[Array, " c"], rank: int) -> Shaped[Array, "... c"]:
    """A vector ``[c]`` reshaped to ``[1, …, 1, c]`` with ``rank`` axes, so that it broadcasts against ``[…, c]``."""
    return jnp.reshape(vector, (1,) * (rank - 1) + vector.shape)


# The room. Positions, sizes and angles were measured on the published pictures of the set (Burgess and Kim 2018).
# Lengths are in units of the distance from the object to the back wall: the floor is at z = 0, the object stands on it
# at x = y = 0, and the back wall is at y = 1.

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
    """Camera position, rotated by ``azimuth`` radians about the object, and the rays of its side × side pixels.

    Row 0 is at the top; directions are not of unit length.
    """
    place = CAMERA_DISTANCE * jnp.sin(azimuth), -CAMERA_DISTANCE * jnp.cos(azimuth), jnp.float32(CAMERA_HEIGHT)
    eye = jnp.stack(place)
    right, up, forward = frame(jnp.array([0, 0, LOOK_AT_HEIGHT], jnp.float32) - eye)
    reach = (np.tan(VERTICAL_FIELD_OF_VIEW / 2) * ((2 * np.arange(side) + 1) / side - 1)).astype(np.float32)
    across, down = reach[None, :, None] * spread(right, 3), reach[:, None, None] * spread(up, 3)
    return eye, spread(forward, 3) + across - down


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


LAYERS_NAME = "shapes3d-1"
LAYERS_SHAPE = (480 * 31, 64, 64, 3)

# Values as in the published file: its scale runs from 0.75 to 1.25, where its documentation says 0 to 1.
_HUES = {f"{surface}_hue": np.arange(10) / 10 for surface in ("floor", "wall", "object")}
SPACE = FactorSpace.of(**_HUES, scale=np.linspace(0.75, 1.25, 8), shape=4, orientation=np.linspace(-30, 30, 15))
SKY_COLOR = (153, 226, 249)
_GEOMETRY = FactorSpace.of(scale=8, shape=4, orientation=15)
_PALETTE = np.array([colorsys.hsv_to_rgb(hue / 10, 1, 1) for hue in range(10)], np.float32)
_LEVELS, _LEVEL_OF_HUE = np.unique(_PALETTE.round(4), return_inverse=True)
# Samples per pixel in each direction.
_SUPERSAMPLED = 2

# Light, measured on the published pictures. On walls and floor it is interpolated between evenly spaced knots in
# [−1, 1] (the floor's rows are along x, its columns along y).
_FLOOR = np.array(
    [
        [1.918, 1.785, 1.625, 1.407, 1.139, 0.857, 0.589],
        [1.528, 1.48, 1.438, 1.38, 1.231, 0.997, 0.727],
        [1.166, 1.177, 1.214, 1.326, 1.301, 1.073, 0.781],
        [0.853, 0.905, 0.969, 1.108, 1.086, 0.941, 0.69],
        [0.586, 0.672, 0.758, 0.814, 0.8, 0.687, 0.552],
        [0.344, 0.439, 0.521, 0.567, 0.585, 0.523, 0.446],
        [0.11, 0.201, 0.285, 0.359, 0.421, 0.429, 0.369],
    ],
    np.float32,
)
_BACK_WALL = np.array([0.859, 1.003, 1.064, 1.071, 0.996, 0.99, 0.963, 0.933, 0.783], np.float32)
_LEFT_WALL = np.array([1.169, 1.04, 0.912, 0.784, 0.668], np.float32)
_RIGHT_WALL = np.array([1.016, 0.902, 0.789, 0.675, 0.634], np.float32)
# Share of the floor's light that remains in the shadow.
_SHADOW = np.float32(0.32)
# The object: coefficients of the polynomials of `_harmonics` in its normal, and white gloss about the mirror direction.
_OBJECT = np.array([0.781, -0.148, -0.222, 0.613, -0.043, -0.144, 0.485, 0.038, 0.05], np.float32)
_GLOSS, _GLOSS_POWER = np.float32(0.164), np.float32(4.99)


def light(hits: Hits, eye: Float[Array, "3"]) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """Intensity that multiplies a surface's color (may exceed 1; the sum is clipped), and white gloss that is added."""
    x, y = hits.point[..., 0], hits.point[..., 1]
    floor = _interpolated_2d(_FLOOR, x, y) * jnp.where(hits.shadowed, _SHADOW, 1)
    left, right, back = _interpolated(_LEFT_WALL, y), _interpolated(_RIGHT_WALL, y), _interpolated(_BACK_WALL, x)
    wall = jnp.where(hits.normal[..., 0] > 0.5, left, jnp.where(hits.normal[..., 0] < -0.5, right, back))
    rank = hits.point.ndim
    toward = _unit(spread(jnp.asarray(LIGHT), rank) - hits.point) + _unit(spread(eye, rank) - hits.point)
    gloss = _GLOSS * jnp.maximum((hits.normal * _unit(toward)).sum(-1), 1e-6) ** _GLOSS_POWER
    diffuse = _harmonics(hits.normal) @ jnp.asarray(_OBJECT)
    is_object = hits.surface == OBJECT
    intensity = jnp.where(hits.surface == FLOOR, floor, jnp.where(is_object, diffuse, wall))
    return intensity, jnp.where(is_object, gloss, 0)


def _unit(vector: Vector) -> Vector:
    return vector / jnp.linalg.norm(vector, axis=-1, keepdims=True)


def _harmonics(normal: Vector) -> Float[Array, "... 9"]:
    """Polynomials in the normal, up to degree 2.

    Light from all sides on a matte surface is smooth (Ramamoorthi and Hanrahan 2001).
    """
    x, y, z = normal[..., 0], normal[..., 1], normal[..., 2]
    return jnp.stack([jnp.ones_like(x), x, y, z, x * y, x * z, y * z, x * x - y * y, 3 * z * z - 1], -1)


def _knot(at: Float[Array, "..."], knots: int) -> tuple[Int[Array, "..."], Float[Array, "..."]]:
    """Knot below a coordinate in [−1, 1], and the position between it and the next knot, in [0, 1]."""
    place = jnp.clip((at + 1) * np.float32((knots - 1) / 2), 0, np.float32(knots - 1 - 1e-4))
    below = place.astype(jnp.int32)
    return below, place - below.astype(jnp.float32)


def _interpolated(values: np.ndarray, at: Float[Array, "..."]) -> Float[Array, "..."]:
    below, part = _knot(at, len(values))
    values = jnp.asarray(values)
    return values[below] * (1 - part) + values[below + 1] * part


def _interpolated_2d(values: np.ndarray, x: Float[Array, "..."], y: Float[Array, "..."]) -> Float[Array, "..."]:
    (i, u), (j, v) = _knot(x, values.shape[0]), _knot(y, values.shape[1])
    values = jnp.asarray(values)
    near = values[i, j] * (1 - u) + values[i + 1, j] * u
    return near * (1 - v) + (values[i, j + 1] * (1 - u) + values[i + 1, j + 1] * u) * v


def samples(
    geometry: Int[Array, "3"],
) -> tuple[Int[Array, "s s 64 64"], Float[Array, "s s 64 64"], Float[Array, "s s 64 64"]]:
    """Surface, intensity and gloss for every sample of one (scale, shape, orientation); a pixel's samples lead."""
    scale, shape, orientation = geometry
    azimuth = jnp.asarray(np.radians(SPACE.values[5]).astype(np.float32))[orientation]
    eye, rays = camera(azimuth, 64 * _SUPERSAMPLED)
    rays = rays.reshape(64, _SUPERSAMPLED, 64, _SUPERSAMPLED, 3).transpose(1, 3, 0, 2, 4)
    hits = trace(eye, rays, shape, jnp.asarray(np.array(SPACE.values[3], np.float32))[scale])
    return hits.surface, *light(hits, eye)


def _trace(factors: Int[Array, " 6"]) -> Float[Array, "64 64 3"]:
    surface, intensity, gloss = samples(factors[3:])
    colors = jnp.concatenate([_sky_color()[None], jnp.asarray(_PALETTE)[factors[:3]]])
    intensity = jnp.where(surface == SKY, 1, intensity)
    return jnp.clip(colors[surface] * intensity[..., None] + gloss[..., None], 0, 1).mean((0, 1))


def draw_traced(tables: tuple[Array, ...], factors: Int[Array, "n 6"], key=None) -> Float[Array, "n 64 64 3"]:
    """Images traced one by one, without a table: some hundred images per second on one CPU core."""
    return jax.lax.map(_trace, factors, batch_size=16)


def layers(
    surface: Int[Array, "s s 64 64"], intensity: Float[Array, "s s 64 64"], gloss: Float[Array, "s s 64 64"]
) -> UInt8[Array, "31 64 64 3"]:
    """What each surface in each hue adds to the image of one (scale, shape, orientation), followed by the sky."""
    # The ten hues share six different channel values, so light is summed over pixels only for these.
    levels = jnp.asarray(_LEVELS)[:, None, None, None, None]
    lit = jnp.clip(levels * intensity[None] + gloss[None], 0, 1)
    covers = jnp.stack([surface == of for of in (FLOOR, WALL, OBJECT)])[:, None]
    sums = jnp.where(covers, lit[None], 0).mean((2, 3))
    colored = jnp.stack([sums[:, _LEVEL_OF_HUE[:, channel]] for channel in range(3)], -1)
    shares = covers.astype(jnp.float32).mean((2, 3))[..., None]
    share = (surface == SKY).astype(jnp.float32).mean((0, 1))[..., None]
    sky = _bytes(share * spread(_sky_color(), 3), share)
    return jnp.concatenate([_bytes(colored, shares).reshape(30, 64, 64, 3), sky[None]])


def _bytes(image: Float[Array, "..."], share: Float[Array, "..."]) -> UInt8[Array, "..."]:
    """Rounded values, but rounded down where surfaces share a pixel, so that their parts never add up to 256."""
    image = image * np.float32(255)
    return jnp.where(share == 1, jnp.round(image), jnp.floor(image)).astype(jnp.uint8)


def _sky_color() -> Float[Array, "3"]:
    return jnp.array(SKY_COLOR, jnp.float32) / 255


def build_layers(out: np.ndarray) -> None:
    """Fill ``out [480 · 31, 64, 64, 3]`` uint8 with the layers of every (scale, shape, orientation)."""
    step = 16
    # Two programs: in one, XLA on CPU traces the rays again for each sum of the layers and takes four times as long.
    lit = jax.jit(lambda start: jax.lax.map(samples, _GEOMETRY.factors(start + jnp.arange(step, dtype=jnp.int32))))
    layered = jax.jit(lambda lit: jax.lax.map(lambda light: layers(*light), lit))
    for start in range(0, _GEOMETRY.num_lattice, step):
        block = np.asarray(layered(lit(jnp.int32(start))))
        out[31 * start : 31 * (start + step)] = block.reshape(-1, 64, 64, 3)


def draw_layered(tables: tuple[Array, ...], factors: Int[Array, "n 6"], key=None) -> UInt8[Array, "n 64 64 3"]:
    """Images as sums of gathered layers; ``tables[0]`` is the array that :func:`build_layers` fills."""
    (table,) = tables
    first = 31 * _GEOMETRY.index(factors[:, 3:])
    floor, wall, thing = (table[first + 10 * surface + factors[:, surface]] for surface in range(3))
    return floor + wall + thing + table[first + 30]
