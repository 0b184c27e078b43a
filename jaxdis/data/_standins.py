"""Stand-ins for three sets that cannot be rendered: same factors, sizes and image shape, but other pictures.

They exercise the code that Cars3D, SmallNORB and MPI3D would exercise; results on a stand-in say nothing about the set
that it replaces. Solids, proportions and colors come from small tables and from multiples of irrational numbers.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from jaxdis.data._lattice import with_hidden
from jaxdis.data._shapes3d import look_at, spread
from jaxdis.data.files import _image_files as image_files

# A small ray caster for the stand-ins: convex solids with flat faces, lit by one lamp.
# A solid is a set of half-spaces ``n · x ≤ d``, an array ``[FACES, 4]`` with rows (n, d). A scene is an array ``[s,
# FACES, 4]``, its solids with one color each.

FACES = 14
_FAR = np.float32(1e9)

Solid = Float[Array, "... faces 4"]


def filled(rows: np.ndarray) -> np.ndarray:
    """Half-spaces padded to ``FACES`` with the one that contains all points."""
    rows = np.asarray(rows, np.float32)
    return np.concatenate([rows, np.tile(np.array([[0, 0, 0, 1]], np.float32), (FACES - len(rows), 1))])


def prism(sides: int, radius: float, half_height: float) -> np.ndarray:
    """Upright prism over a regular polygon with this inner radius: 4 sides give a box, 12 nearly a cylinder."""
    return filled(np.concatenate([_wall(sides, 0.0, radius), [[0, 0, 1, half_height], [0, 0, -1, half_height]]]))


def pyramid(sides: int, radius: float, half_height: float) -> np.ndarray:
    """Upright pyramid over a regular polygon with this inner radius: 12 sides give nearly a cone."""
    slope = radius / (2 * half_height)
    return filled(np.concatenate([_wall(sides, slope, radius / 2), [[0, 0, -1, half_height]]]))


def ball(radius: float) -> np.ndarray:
    """The regular solid with 14 faces (directions to a cube's corners and sides) around a ball with this radius."""
    corners = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) / np.sqrt(3)
    normals = np.concatenate([corners, np.eye(3), -np.eye(3)])
    return filled(np.concatenate([normals, np.full((14, 1), radius)], 1))


def _wall(sides: int, slope: float, distance: float) -> np.ndarray:
    angle = 2 * np.pi * np.arange(sides) / sides
    rows = np.stack([np.cos(angle), np.sin(angle), np.full(sides, slope), np.full(sides, distance)], 1)
    return rows / np.linalg.norm(rows[:, :3], axis=1, keepdims=True)


def box(half: Float[Array, "... 3"]) -> Solid:
    normals = np.concatenate([np.eye(3), -np.eye(3)]).astype(np.float32)
    normals = jnp.broadcast_to(jnp.asarray(normals), (*half.shape[:-1], 6, 3))
    faces = jnp.concatenate([normals, jnp.concatenate([half, half], -1)[..., None]], -1)
    rest = jnp.broadcast_to(jnp.array([0, 0, 0, 1], jnp.float32), (*half.shape[:-1], FACES - 6, 4))
    return jnp.concatenate([faces, rest], -2)


def placed(solid: Solid, at: Float[Array, "... 3"], turn: Float[Array, "... 3 3"] | None = None) -> Solid:
    """The solid rotated about its origin by a rotation matrix, then translated."""
    normals = solid[..., :3]
    if turn is not None:
        normals = jnp.einsum("...fj,...ij->...fi", normals, turn)
    return jnp.concatenate([normals, solid[..., 3:] + (normals @ at[..., None])], -1)


def about_z(angle: Float[Array, ""]) -> Float[Array, "3 3"]:
    c, s, o, i = jnp.cos(angle), jnp.sin(angle), jnp.zeros_like(angle), jnp.ones_like(angle)
    return jnp.stack([jnp.stack([c, -s, o]), jnp.stack([s, c, o]), jnp.stack([o, o, i])])


def about_y(angle: Float[Array, ""]) -> Float[Array, "3 3"]:
    c, s, o, i = jnp.cos(angle), jnp.sin(angle), jnp.zeros_like(angle), jnp.ones_like(angle)
    return jnp.stack([jnp.stack([c, o, s]), jnp.stack([o, i, o]), jnp.stack([-s, o, c])])


def cast(
    eye: Float[Array, "3"], rays: Float[Array, "h w 3"], solids: Float[Array, "s faces 4"]
) -> tuple[Int[Array, "h w"], Float[Array, "h w 3"]]:
    """The first solid that each ray enters (−1: none) and the normal where it enters."""
    normals, offsets = solids[..., :3], solids[..., 3]
    toward = jnp.einsum("hwi,sfi->hwsf", rays, normals)
    at = (offsets - normals @ eye)[None, None] / jnp.where(jnp.abs(toward) > 1e-9, toward, 1e-9)
    # A padding face has no direction and never cuts.
    real = jnp.abs(normals).sum(-1) > 0
    real = real[None, None]
    enter = jnp.where(real & (toward < 0), at, -_FAR)
    leave = jnp.where(real & (toward >= 0), at, _FAR).min(-1)
    entered = enter.max(-1)
    entered = jnp.where((entered > 0) & (entered <= leave), entered, _FAR)
    first = entered.min(-1)
    which = jnp.where(first < _FAR, jnp.argmin(entered, -1), -1).astype(jnp.int32)
    face = jnp.argmax(jnp.take_along_axis(enter, jnp.maximum(which, 0)[..., None, None], 2)[..., 0, :], -1)
    return which, normals[jnp.maximum(which, 0), face]


def shaded(
    which: Int[Array, "h w"],
    normal: Float[Array, "h w 3"],
    colors: Float[Array, "s 3"],
    lamp: Float[Array, "3"],
    background: Float[Array, "3"],
) -> Float[Array, "h w 3"]:
    """Matte solids under ambient light and light from the lamp's direction."""
    lamp = lamp / jnp.linalg.norm(lamp)
    # Light wraps around, so that sides turned away from the lamp still depend on its direction.
    light = np.float32(0.3) + np.float32(0.35) * (1 + normal @ lamp)
    return jnp.where((which >= 0)[..., None], colors[jnp.maximum(which, 0)] * light[..., None], spread(background, 3))


TURNTABLE_SPACE = image_files.CARS3D_SPACE
GRAY_TURNTABLE_SPACE = image_files.SMALLNORB_SPACE
ARM_SPACE = image_files.MPI3D_SPACE

_FIELD_OF_VIEW = np.radians(40)
_LAMP = np.array([-0.4, -0.7, 1.0], np.float32)


def _spread(number: Int[Array, ""], of: int) -> Float[Array, " of"]:
    """``of`` numbers in [0, 1) that fill the cube evenly as ``number`` increases (an additive recurrence)."""
    steps = np.array([0.5545497, 0.308517, 0.7390851, 0.618034, 0.4142136, 0.2360680], np.float32)[:of]
    return (0.5 + number.astype(jnp.float32) * steps) % 1


def _turntable_eye(elevation: Float[Array, ""], azimuth: Float[Array, ""], distance: float) -> Float[Array, "3"]:
    flat = jnp.cos(elevation)
    place = flat * jnp.cos(azimuth), flat * jnp.sin(azimuth), jnp.sin(elevation)
    return distance * jnp.stack(place)


def _saturated(hue: Float[Array, ""]) -> Float[Array, "3"]:
    """A color of the given hue in [0, 1)."""
    return jnp.clip(jnp.abs((hue * 6 + np.array([0, 4, 2], np.float32)) % 6 - 3) - 1, 0, 1)


def _car(factors: Int[Array, "3"]) -> Float[Array, "64 64 3"]:
    elevation, azimuth, number = factors
    spread = _spread(number, 6)
    length, width, height = 0.7 + 0.4 * spread[0], 0.32 + 0.14 * spread[1], 0.14 + 0.1 * spread[2]
    cabin = (0.3 + 0.35 * spread[3]) * length
    shift = (spread[4] - 0.6) * (length - cabin)
    size = jnp.stack([jnp.stack([length, width, height]), jnp.stack([cabin, 0.85 * width, 0.75 * height])])
    at = jnp.stack([jnp.stack([0 * length, 0 * length, 0 * length]), jnp.stack([shift, 0 * shift, 1.6 * height])])
    wheel = jnp.asarray(_WHEEL)
    corner = np.array([[-0.62, -1], [-0.62, 1], [0.62, -1], [0.62, 1]], np.float32)
    places = jnp.concatenate([corner * jnp.stack([length, width])[None], jnp.broadcast_to(-height, (4, 1))], 1)
    scene = jnp.concatenate([placed(box(size), at), placed(jnp.broadcast_to(wheel, (4, *wheel.shape)), places)])
    paint = 0.25 + 0.75 * _saturated(spread[5])
    colors = jnp.concatenate([paint[None], 0.75 * paint[None], jnp.full((4, 3), 0.12)])
    angle = azimuth.astype(jnp.float32) * np.float32(2 * np.pi / 24)
    eye = _turntable_eye(np.float32(0.15) + elevation.astype(jnp.float32) * np.float32(0.2), angle, 3.4)
    hit = cast(eye, look_at(eye, jnp.zeros(3), _FIELD_OF_VIEW, 64), scene)
    return shaded(*hit, colors, jnp.asarray(_LAMP), jnp.ones(3))


# A wheel is an upright prism rotated onto the second axis.
_WHEEL = prism(12, 0.17, 0.07)[:, [0, 2, 1, 3]]

# Six boxes per category, in hundredths: center and half edges, in the order of the set.
_TOYS = np.array([
    [(0, 0, 10, 50, 17, 17), (60, 0, 35, 16, 12, 14), (40, 12, -30, 7, 7, 25),
     (40, -12, -30, 7, 7, 25), (-40, 12, -30, 7, 7, 25), (-40, -12, -30, 7, 7, 25)],  # animal
    [(0, 0, 10, 14, 24, 30), (0, 0, 58, 13, 13, 15), (0, 13, -50, 9, 9, 32),
     (0, -13, -50, 9, 9, 32), (15, 33, 15, 22, 7, 7), (0, -33, 5, 7, 7, 30)],  # human
    [(0, 0, 0, 75, 11, 11), (10, 0, 2, 15, 75, 3), (-65, 0, 5, 9, 30, 3),
     (-65, 0, 22, 10, 3, 17), (20, 35, -8, 12, 6, 6), (20, -35, -8, 12, 6, 6)],  # airplane
    [(-20, 0, 12, 50, 24, 28), (50, 0, 0, 20, 22, 20), (45, 20, -26, 12, 7, 12),
     (45, -20, -26, 12, 7, 12), (-40, 20, -26, 12, 7, 12), (-40, -20, -26, 12, 7, 12)],  # truck
    [(0, 0, -8, 65, 26, 12), (-10, 0, 14, 30, 22, 12), (40, 24, -20, 12, 5, 10),
     (40, -24, -20, 12, 5, 10), (-40, 24, -20, 12, 5, 10), (-40, -24, -20, 12, 5, 10)],  # car
])  # fmt: skip
_TOYS = (_TOYS / 100).astype(np.float32)


def _toy(factors: Int[Array, "5"]) -> Float[Array, "64 64 1"]:
    category, instance, elevation, azimuth, lighting = factors
    spread = _spread(instance, 4)
    parts = jnp.asarray(_TOYS)[category] * jnp.tile(0.75 + 0.5 * spread[:3], 2)[None]
    scene = placed(box(parts[:, 3:]), parts[:, :3])
    shade = 0.45 + 0.4 * spread[3]
    height = jnp.radians(30 + 5 * elevation.astype(jnp.float32))
    eye = _turntable_eye(height, azimuth.astype(jnp.float32) * np.float32(np.pi / 9), 3.2)
    lamp_angle = lighting.astype(jnp.float32) * np.float32(np.pi / 3)
    lamp = jnp.stack([jnp.cos(lamp_angle), jnp.sin(lamp_angle), jnp.float32(0.7)])
    hit = cast(eye, look_at(eye, jnp.zeros(3), _FIELD_OF_VIEW, 64), scene)
    return shaded(*hit, jnp.full((6, 3), 1.0) * shade, lamp, jnp.full(3, 0.75))[..., :1]


# Cone, cube, cylinder, hexagonal prism, pyramid and sphere of about the same size.
_PRISMS = prism(4, 0.12, 0.12), prism(12, 0.12, 0.13), prism(6, 0.12, 0.13)
_TIPS = np.stack([pyramid(12, 0.15, 0.14), *_PRISMS, pyramid(4, 0.15, 0.14), ball(0.13)])
# White, green, red, blue, brown, olive; purple, sea green, salmon.
_TIP_COLORS = np.array(
    [[1, 1, 1], [0.1, 0.7, 0.2], [0.85, 0.1, 0.1], [0.15, 0.25, 0.9], [0.5, 0.3, 0.15], [0.5, 0.5, 0.1]], np.float32
)
_GROUNDS = np.array([[0.35, 0.2, 0.45], [0.25, 0.5, 0.42], [0.85, 0.5, 0.42]], np.float32)


def _arm(factors: Int[Array, "7"]) -> Float[Array, "64 64 3"]:
    color, shape, size, camera, ground, horizontal, vertical = factors
    turn = about_z((horizontal.astype(jnp.float32) - np.float32(19.5)) * np.float32(np.pi / 60))
    lift = (vertical.astype(jnp.float32) - np.float32(19.5)) * np.float32(np.pi / 90)
    pitched = turn @ about_y(-lift)
    along, shoulder = pitched[:, 0], jnp.array([0, 0, 0.3], jnp.float32)
    scale = 1 + 0.5 * size.astype(jnp.float32)
    tip = jnp.asarray(_TIPS)[shape]
    tip = jnp.concatenate([tip[:, :3], tip[:, 3:] * scale], 1)
    half = jnp.array([[0.3, 0.055, 0.055], [0.1, 0.1, 0.3]], jnp.float32)
    arm, post = box(half)
    scene = jnp.stack(
        [
            placed(arm, shoulder + 0.3 * along, pitched),
            placed(post, jnp.zeros(3)),
            placed(tip, shoulder + (0.55 + 0.13 * scale) * along, turn),
        ]
    )
    colors = jnp.stack([jnp.full(3, 0.55), jnp.full(3, 0.4), jnp.asarray(_TIP_COLORS)[color]])
    eye = jnp.stack([jnp.float32(2.3), jnp.float32(-1.5), 1.5 - 0.55 * camera.astype(jnp.float32)])
    hit = cast(eye, look_at(eye, jnp.array([0.25, 0, 0.2], jnp.float32), np.radians(30), 64), scene)
    return shaded(*hit, colors, jnp.array([0.5, -0.7, 1.0], jnp.float32), jnp.asarray(_GROUNDS)[ground])


def draw_turntable(tables, factors: Int[Array, "n 3"], key=None) -> Float[Array, "n 64 64 3"]:
    """Box cars on white, instead of Cars3D."""
    return jax.lax.map(_car, factors, batch_size=8)


def draw_gray_turntable(tables, factors: Int[Array, "n 4"], key: PRNGKeyArray) -> Float[Array, "n 64 64 1"]:
    """Gray toys of six boxes, instead of SmallNORB; the instance is hidden and drawn for every image."""
    return jax.lax.map(_toy, with_hidden(image_files.SMALLNORB_FULL_SPACE, "instance", factors, key), batch_size=8)


def draw_arm(tables, factors: Int[Array, "n 7"], key=None) -> Float[Array, "n 64 64 3"]:
    """An arm with one link and an object at its tip, instead of MPI3D."""
    return jax.lax.map(_arm, factors, batch_size=8)
