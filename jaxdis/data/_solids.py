"""A small ray caster for the stand-ins: convex solids with flat faces, lit by one lamp.

A solid is a set of half-spaces ``n · x ≤ d``, an array ``[FACES, 4]`` with rows (n, d). A scene is an array ``[s,
FACES, 4]``, its solids with one color each.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxdis.data._rays import spread

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
    """The regular solid with 14 faces (directions of a cube's corners and sides) around a ball of this radius."""
    corners = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) / np.sqrt(3)
    normals = np.concatenate([corners, np.eye(3), -np.eye(3)])
    return filled(np.concatenate([normals, np.full((14, 1), radius)], 1))


def _wall(sides: int, slope: float, distance: float) -> np.ndarray:
    angle = 2 * np.pi * np.arange(sides) / sides
    rows = np.stack([np.cos(angle), np.sin(angle), np.full(sides, slope), np.full(sides, distance)], 1)
    return rows / np.linalg.norm(rows[:, :3], axis=1, keepdims=True)


def box(half: Float[Array, "... 3"]) -> Solid:
    """Box with the given half edges."""
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
    """Rotation about the vertical axis."""
    c, s, o, i = jnp.cos(angle), jnp.sin(angle), jnp.zeros_like(angle), jnp.ones_like(angle)
    return jnp.stack([jnp.stack([c, -s, o]), jnp.stack([s, c, o]), jnp.stack([o, o, i])])


def about_y(angle: Float[Array, ""]) -> Float[Array, "3 3"]:
    """Rotation about the second axis."""
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
