"""Light on CLEVR's stage: three area lamps and a sun, hard shadows, rubber, metal and one mirror bounce.

A lamp with power P at distance d gives a matte surface with albedo a the radiance ``a · P / 4π · cos θ_lamp · cos θ /
d²``, where θ_lamp is measured from the direction in which the lamp aims; this is Blender's small area lamp, with which
Johnson et al. (2017) rendered. Powers, colors and positions are theirs. Their renderer has soft shadows and full
shaders for ground and materials; here lamps are points, the ground is an even gray, rubber is matte with a weak gloss,
and metal multiplies its reflections and the lamps' highlights by its color. Colors are linear until the picture is
encoded.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jaxdis.data._clevr_stage import Field, Hits, Solids, Vectors, entered, traced

# Key, fill and back: places, colors and powers.
LAMPS = np.array(
    [
        [6.446710109710693, -2.905174732208252, 4.258398056030273],
        [-4.671124458312988, -4.01359748840332, 3.0112245082855225],
        [-1.168501377105713, 2.646024465560913, 5.815736770629883],
    ],
    np.float32,
)
LAMP_COLORS = np.array([[1.0, 0.9323, 0.8167], [0.7617, 0.8177, 1.0], [1.0, 1.0, 1.0]], np.float32)
LAMP_POWERS = np.array([100, 30, 50], np.float32)
SUN_STRENGTH, _SUN_ANGLES = 0.45, (0.2360284924507141, 0.41688039898872375, 0.09707935154438019)

# Chosen by eye, since these belong to shaders that are not reproduced.
GROUND = 0.8
_RUBBER_GLOSS, _RUBBER_POWER = np.float32(0.12), np.float32(12)
_METAL_GLOSS, _METAL_POWER, _METAL_MATTE = np.float32(4.0), np.float32(150), np.float32(0.4)
# Rays leave a surface at this distance from it.
_CLEAR = np.float32(2e-3)
# Pixels of metal that are mirrored at one time.
_BLOCK = 1024


class Lamps(NamedTuple):
    """``place [l, 3]``, ``toward [l, 3]`` (the unit vector in which each aims) and ``power [l, 3]`` by channel.

    The last is the sun: its place is a direction, and its light is even.
    """

    place: Float[Array, "l 3"]
    toward: Float[Array, "l 3"]
    power: Float[Array, "l 3"]


def sun_direction() -> np.ndarray:
    """Unit vector to the sun, which shines along its own frame's negative z axis."""
    (cx, cy, cz), (sx, sy, sz) = np.cos(_SUN_ANGLES), np.sin(_SUN_ANGLES)
    return np.array([cz * sy * cx + sz * sx, sz * sy * cx - cz * sx, cy * cx], np.float32)


def lamps(moved: Float[Array, "3 3"]) -> Lamps:
    """Key, fill and back lamp, moved by these vectors, and the sun."""
    place = jnp.asarray(LAMPS) + moved
    toward = -place / jnp.linalg.norm(place, axis=1, keepdims=True)
    power = LAMP_COLORS * LAMP_POWERS[:, None] / np.float32(4 * np.pi)
    sun = jnp.asarray(sun_direction())[None]
    return Lamps(
        jnp.concatenate([place, 100 * sun]),
        jnp.concatenate([toward, -sun]),
        jnp.concatenate([jnp.asarray(power), jnp.full((1, 3), SUN_STRENGTH / np.pi, jnp.float32)]),
    )


class Light(NamedTuple):
    """Radiance from a white matte surface, and from the gloss on white rubber and white metal, ``[3, p]`` by
    channel."""

    matte: Float[Array, "3 p"]
    rubber: Float[Array, "3 p"]
    metal: Float[Array, "3 p"]


def light(hits: Hits, rays: Vectors, solids: Solids, of: Lamps, *, shadows: bool) -> Light:
    """The light from all lamps at the points that rays have hit."""
    start = tuple(a + _CLEAR * n for a, n in zip(hits.point, hits.normal, strict=True))

    def add(total: Light, lamp) -> tuple[Light, None]:
        (place, toward, power), is_sun = lamp
        to = tuple(place[i] - a for i, a in enumerate(start))
        distance = jnp.sqrt(_dot(to, to))
        to = tuple(t / distance for t in to)
        aimed = jnp.maximum(-_dot(to, toward), 0)
        falloff = jnp.where(is_sun, 1, aimed / (distance * distance))
        if shadows:
            falloff = jnp.where((entered(solids, start, to) < distance[None]).any(0), 0, falloff)
        facing = jnp.maximum(_dot(hits.normal, to), 0)
        half = tuple(t - d for t, d in zip(to, rays, strict=True))
        length = jnp.sqrt(jnp.maximum(_dot(half, half), 1e-12))
        glossy = jnp.where(facing > 0, jnp.maximum(_dot(hits.normal, half) / length, 1e-6), 1e-6)
        parts = (facing, _RUBBER_GLOSS * glossy**_RUBBER_POWER, _METAL_GLOSS * glossy**_METAL_POWER)
        lit = (power[:, None] * (falloff * part)[None] for part in parts)
        return Light(*(a + b for a, b in zip(total, lit, strict=True))), None

    none = jnp.zeros((3, hits.which.shape[0]), jnp.float32)
    is_sun = np.array([False, False, False, True])
    return jax.lax.scan(add, Light(none, none, none), (of, is_sun))[0]


def _dot(u: Vectors, v: Vectors | Float[Array, "3"]) -> Field:
    return u[0] * v[0] + u[1] * v[1] + u[2] * v[2]


class Surfaces(NamedTuple):
    """The solids' ``colors [o, 3]`` as linear light, and whether each is metal, ``metal [o]``."""

    colors: Float[Array, "o 3"]
    metal: Bool[Array, " o"]


def radiance(
    start: Vectors, rays: Vectors, solids: Solids, surfaces: Surfaces, of: Lamps, *, shadows: bool, bounce: bool
) -> Float[Array, "3 p"]:
    """Radiance along rays, ``[3, p]``: if ``bounce``, metal reflects the stage, in which other metal appears matte."""
    hits = traced(solids, start, rays)
    lit = light(hits, rays, solids, of, shadows=shadows)
    albedo, metal = _surface(hits, surfaces)
    flat = _flat(hits, lit, albedo, metal)
    if not bounce:
        return flat

    def mirror(number, image):
        rows = jax.lax.dynamic_slice(order, (number * block,), (block,))
        part = jax.tree.map(lambda field: field.at[rows].get(mode="clip"), hits)
        toward = tuple(d.at[rows].get(mode="clip") for d in rays)
        turned = 2 * _dot(toward, part.normal)
        away = tuple(d - turned * n for d, n in zip(toward, part.normal, strict=True))
        begin = tuple(a + _CLEAR * n for a, n in zip(part.point, part.normal, strict=True))
        seen = traced(solids, begin, away)
        seen_lit = light(seen, away, solids, of, shadows=shadows)
        shown = jnp.where(seen.missed[None], 0, _flat(seen, seen_lit, *_surface(seen, surfaces)))
        own = jax.tree.map(lambda field: field.at[:, rows].get(mode="clip"), lit)
        mirrored = _METAL_MATTE * own.matte + (1 - _METAL_MATTE) * shown + own.metal
        return image.at[:, rows].set(albedo.at[:, rows].get(mode="clip") * mirrored, mode="drop")

    pixels = flat.shape[1]
    block = min(_BLOCK, pixels)
    # Only pixels of metal are mirrored: they are listed first, and a block reaches beyond the list only at its end.
    order = jnp.nonzero(metal, size=-(-pixels // block) * block, fill_value=pixels)[0]
    blocks = (metal.sum() + block - 1) // block
    return jax.lax.fori_loop(0, blocks, mirror, flat)


def _surface(hits: Hits, surfaces: Surfaces) -> tuple[Float[Array, "3 p"], Bool[Array, " p"]]:
    solid = hits.which >= 0
    row = jnp.maximum(hits.which, 0)
    return jnp.where(solid[None], surfaces.colors[row].T, GROUND), solid & surfaces.metal[row]


def _flat(hits: Hits, lit: Light, albedo: Float[Array, "3 p"], metal: Bool[Array, " p"]) -> Float[Array, "3 p"]:
    """Radiance without a mirror."""
    rubber = albedo * lit.matte + jnp.where((hits.which >= 0)[None], lit.rubber, 0)
    return jnp.where(metal[None], albedo * (lit.matte + lit.metal), rubber)


def encoded(linear: Float[Array, "..."]) -> Float[Array, "..."]:
    """Linear light as a picture's values (sRGB), clipped to [0, 1]."""
    linear = jnp.clip(linear, 0, 1)
    curved = np.float32(1.055) * jnp.maximum(linear, 1e-6) ** np.float32(1 / 2.4) - np.float32(0.055)
    return jnp.where(linear <= np.float32(0.0031308), np.float32(12.92) * linear, curved)
