"""CLEVR6: scenes of up to six solids on a plane, with each object's mask and factors, by ray casting.

CLEVR is Johnson et al. 2017. Greff et al. (2019) cut a square out of its pictures and keep those with at most six
objects; Dang-Nhu (2022, C.3) keeps those whose objects are all visible in that square. Such scenes are drawn here, of
independent factors, under the rules of Johnson et al.'s released code (2017).

Positions, sizes and lamps are those in the scene that Johnson et al. (2017) released. The ground is z = 0 and the
camera and all lamps aim at the origin. Every solid stands on the ground and fills [−1, 1]³ times its size: a cube, the
ball with radius 1, or the upright cylinder with radius 1 and height 2.

A ray is ``start + t · direction`` for t > 0. Vector fields are three arrays, so that loops over pixels vectorize.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Num, PRNGKeyArray, UInt8

from jaxdis._core import random
from jaxdis._core.options import CheckedFields, Count, Natural, checked
from jaxdis._core.platforms import on_cpu
from jaxdis.data._factor_space import MOST_REDRAWS, FactorSpace, Interval, drawn_cells, listed_cells
from jaxdis.data._scenes import scene_columns
from jaxdis.data._shapes3d import frame

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


def camera_rays(eye: Float[Array, "3"], side: int) -> Vectors:
    """Unit directions ``[side²]`` through the centers of the crop's side × side pixels, row by row."""
    axes = frame(-eye)  # it looks at the origin
    scale = HALF_WIDTH / (PICTURE[1] / 2)
    at = (np.arange(side) + 0.5) * CROP_SIDE / side
    across = jnp.asarray((scale * (CROP_LEFT + at - PICTURE[1] / 2)).astype(np.float32))
    upward = jnp.asarray((scale * (PICTURE[0] / 2 - CROP_TOP - at)).astype(np.float32))
    across, upward = jnp.tile(across, side), jnp.repeat(upward, side)
    x, y, z = (across * axes[0, i] + upward * axes[1, i] + axes[2, i] for i in range(3))
    length = 1 / jnp.sqrt(x * x + y * y + z * z)
    return x * length, y * length, z * length


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


class Hits(NamedTuple):
    """What rays meet first.

    ``which [p]``: −1 for no solid; ``missed [p]`` where there is no ground either; ``point`` and outward ``normal``.
    """

    which: Int[Array, " p"]
    missed: Bool[Array, " p"]
    point: Vectors
    normal: Vectors


def traced(solids: Solids, start: Vectors, rays: Vectors) -> Hits:
    on_solid = entered(solids, start, rays)
    on_ground = jnp.where(rays[2] < 0, -start[2] / jnp.minimum(rays[2], -1e-9), FAR)  # for rays from above
    nearest = on_solid.min(0)
    which = jnp.where(nearest < on_ground, on_solid.argmin(0), -1).astype(jnp.int32)
    t = jnp.minimum(nearest, on_ground)
    missed = t >= FAR
    t = jnp.where(missed, 0, t)
    point = tuple(a + t * d for a, d in zip(start, rays, strict=True))
    return Hits(which, missed, point, normal_of(solids, which, point))


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


# Light: three area lamps and a sun, hard shadows, rubber, metal and one mirror bounce. A lamp with power P at distance
# d gives a matte surface with albedo a the radiance ``a · P / 4π · cos θ_lamp · cos θ / d²``, where θ_lamp is measured
# from the direction in which the lamp aims; this is Blender's small area lamp, with which Johnson et al. (2017)
# rendered. Powers, colors and positions are theirs. Their renderer has soft shadows and full shaders for ground and
# materials; here lamps are points, the ground is an even gray, rubber is matte with a weak gloss, and metal multiplies
# its reflections and the lamps' highlights by its color. Colors are linear until the picture is encoded.

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


def lamps(moved: Float[Array, "3 3"]) -> Lamps:
    """Key, fill and back lamp, moved by these vectors, and the sun."""
    place = jnp.asarray(LAMPS) + moved
    toward = -place / jnp.linalg.norm(place, axis=1, keepdims=True)
    power = LAMP_COLORS * LAMP_POWERS[:, None] / np.float32(4 * np.pi)
    (cx, cy, cz), (sx, sy, sz) = np.cos(_SUN_ANGLES), np.sin(_SUN_ANGLES)
    # The sun shines along its own frame's negative z axis.
    sun = jnp.array([[cz * sy * cx + sz * sx, sz * sy * cx - cz * sx, cy * cx]], jnp.float32)
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


MOST_OBJECTS = 6
# The released pictures have 3 to 10 objects.
LEAST_OBJECTS = 3
# Values of 255 that the released code uses as linear light: gray, red, blue, green, brown, purple, cyan, yellow.
PALETTE = (87, 87, 87), (173, 35, 35), (42, 75, 215), (29, 105, 20)
PALETTE += (129, 74, 25), (129, 38, 192), (41, 208, 208), (255, 238, 51)
# Values of a channel in the evaluation of Dang-Nhu (2022, table 7).
LEVELS = 6
_UNIT, _PLACE = Interval(0, 1), Interval(-3, 3)
OBJECT = {"red": _UNIT, "green": _UNIT, "blue": _UNIT, "shape": 3, "material": 2, "size": SIZES}  # rubber, metal
OBJECT |= {"rotation": Interval(0, 360), "x": _PLACE, "y": _PLACE}
OBJECT_FACTORS = tuple(OBJECT)
# How far each of them moves along each axis.
_JITTER = {"camera": 0.5, "key_lamp": 1.0, "fill_lamp": 1.0, "back_lamp": 1.0}
JITTERED = {f"{what}_{axis}": Interval(-most, most) for what, most in _JITTER.items() for axis in "xyz"}

# Scenes that an accelerator draws at one time.
_TOGETHER = 256


class Parts(NamedTuple):
    """Scene factors by part.

    ``moved [..., 4, 3]``: how far camera, key, fill and back lamp are moved; ``objects [..., o, 9]`` in the order of
    ``OBJECT_FACTORS``; ``present [..., o]``.
    """

    moved: Float[Array, "... 4 3"]
    objects: Float[Array, "... o 9"]
    present: Bool[Array, "... o"]


def first_object(num_factors: int) -> int:
    """The column of the first object's first factor."""
    return 1 if num_factors % len(OBJECT) == 1 else 1 + len(JITTERED)


def parts(factors: Num[Array, "... k"], min_objects: int = LEAST_OBJECTS) -> Parts:
    """Split scene factors into parts; how many objects there are, and whether camera and lamps are moved, follow from
    k."""
    first = first_object(factors.shape[-1])
    factors = factors.astype(jnp.float32)
    objects = factors[..., first:].reshape(*factors.shape[:-1], -1, len(OBJECT))
    moved = factors[..., 1:first] if first > 1 else jnp.zeros((*factors.shape[:-1], 12), jnp.float32)
    count = factors[..., 0].astype(jnp.int32) + min_objects
    number = np.arange(objects.shape[-2], dtype=np.int32).reshape((1,) * count.ndim + (-1,))
    return Parts(moved.reshape(*moved.shape[:-1], 4, 3), objects, number < count[..., None])


@dataclasses.dataclass(frozen=True)
class View(CheckedFields):
    """What determines a picture's outlines, given factors.

    ``rotation``: ``released``: the angle is the factor's value in radians, as in the released code, which draws it from
    0 to 360 and writes it to a field in radians; ``degrees``: the angle is the factor's value in degrees.
    """

    side: Count = 128
    rotation: Literal["released", "degrees"] = "released"
    min_objects: Count = LEAST_OBJECTS

    def solids(self, cut: Parts) -> Solids:
        _, _, _, shape, _, size, rotation, x, y = cut.objects.T
        angle = rotation if self.rotation == "released" else jnp.radians(rotation)
        size = jnp.asarray(SIZES, jnp.float32)[size.astype(jnp.int32)]
        center = jnp.stack([x, y, size], 1)  # solids stand on the ground
        return Solids(center, jnp.cos(angle), jnp.sin(angle), size, shape.astype(jnp.int32), cut.present)

    def eye(self, cut: Parts) -> Float[Array, "3"]:
        return jnp.asarray(CAMERA) + cut.moved[0]

    def mask(self, factors: Num[Array, " k"], side: int | None = None) -> UInt8[Array, "h w"]:
        """0 for the background, i for object i (from 1)."""
        cut, side = parts(factors, self.min_objects), side or self.side
        eye = self.eye(cut)
        on_solid = entered(self.solids(cut), (eye[:1], eye[1:2], eye[2:]), camera_rays(eye, side))
        which = jnp.where(on_solid.min(0) < FAR, on_solid.argmin(0), -1).astype(jnp.int32)
        return (which + 1).astype(jnp.uint8).reshape(side, side)

    @functools.partial(jax.jit, static_argnums=0)
    def masks(self, factors: Num[Array, "n k"]) -> UInt8[Array, "n h w"]:
        return one_by_one(self.mask, factors)


@dataclasses.dataclass(frozen=True)
class Draw:
    """A ``draw`` for :class:`~jaxdis.data._render.Render`; without ``bounce``, metal is matte with highlights."""

    view: View = View()
    bounce: bool = True
    shadows: bool = True
    supersampled: Count = 1

    def __call__(self, tables: tuple[Array, ...], factors: Float[Array, "n k"], key=None) -> Float[Array, "n h w 3"]:
        return one_by_one(self.image, factors)

    def image(self, factors: Float[Array, " k"]) -> Float[Array, "h w 3"]:
        cut = parts(factors, self.view.min_objects)
        eye, rays = self.view.eye(cut), self.view.side * self.supersampled
        start, surfaces = (eye[:1], eye[1:2], eye[2:]), Surfaces(cut.objects[:, :3], cut.objects[:, 4] > 0)
        given = start, camera_rays(eye, rays), self.view.solids(cut), surfaces, lamps(cut.moved[1:])
        linear = radiance(*given, shadows=self.shadows, bounce=self.bounce)
        shape = 3, self.view.side, self.supersampled, self.view.side, self.supersampled
        return encoded(linear.reshape(shape).mean((2, 4))).transpose(1, 2, 0)


def one_by_one(function: Callable, rows):
    """Apply a function to each row in one or several arrays: on CPU one row after another, so that intermediate arrays
    stay in cache, elsewhere several rows at once."""
    return jax.lax.map(function, rows, batch_size=None if on_cpu() else _TOGETHER)


# Where objects may stand: the rules are those in Johnson et al.'s released code (2017). Two objects are apart if there
# is a gap between them, and if they are not at nearly the same place from left to right, nor from front to back. These
# are the camera's directions before it is moved: published scenes have the same ones, wherever the camera is.

GAP, MARGIN = np.float32(0.25), np.float32(0.4)
# Places that are tried for each object.
TRIES = 50
# Pixels are counted in pictures of this side, in proportion.
COUNTED_SIDE = 64

Row = Float[Array, " k"]


def placed(view: View, key: PRNGKeyArray, row: Row, low: Row, high: Row) -> tuple[Row, Bool[Array, ""]]:
    """The row with new x and y for every object, and whether all objects found a place.

    Objects are placed one after another, each uniformly between its bounds, at the first of 50 places that is apart
    from the objects before it.
    """
    first, count = first_object(len(row)), len(OBJECT_FACTORS)
    columns = np.arange(first + count - 2, len(row), count)[:, None] + np.arange(2)[None]
    cut = parts(row, view.min_objects)
    size, axes = view.solids(cut).size, _axes()
    low, high = low[columns], high[columns]
    tries = low[:, None] + (high - low)[:, None] * random.uniform(key, (len(columns), TRIES, 2))

    def place(number, state):
        places, fits = state
        before = (jnp.arange(len(columns)) < number) & cut.present
        sizes = jnp.broadcast_to(size[number] + size, (TRIES, len(columns)))
        good = (_apart(tries[number][:, None] - places[None], sizes, axes) | ~before[None]).all(1)
        places = places.at[number].set(tries[number, good.argmax()])
        return places, fits & (good.any() | ~cut.present[number])

    places, fits = jax.lax.fori_loop(0, len(columns), place, (tries[:, 0], jnp.bool_(True)))
    return row.at[columns].set(places), fits


def _axes() -> Float[Array, "2 2"]:
    """Directions on the ground, to the right and away from the camera."""
    right, _, into = frame(-jnp.asarray(CAMERA))
    return jnp.stack([right[:2], into[:2] / jnp.linalg.norm(into[:2])])


def _apart(away: Float[Array, "a b 2"], sizes: Float[Array, "a b"], axes: Float[Array, "2 2"]) -> Bool[Array, "a b"]:
    """Whether objects are apart whose places differ by this and whose sizes sum to this."""
    distance = jnp.sqrt((away**2).sum(-1))
    return (distance - sizes >= GAP) & (jnp.abs(jnp.dot(away, axes.T, precision="highest")) >= MARGIN).all(-1)


# The radius of Algorithm 2 of Dang-Nhu 2022 (table 7): the neighboring levels of a channel, and 0.7 in x and y.
_RADIUS = {"red": 0.2, "green": 0.2, "blue": 0.2, "x": 0.7, "y": 0.7}
# Folded into keys, apart from the numbers of proposals.
_ROW, _COLORS, _PLACES = (MOST_REDRAWS + i for i in range(3))


class Reach(NamedTuple):
    """How far a neighborhood reaches: pairs of a column and its radius, and the columns that wrap around; hashable."""

    radii: tuple[tuple[int, int | float], ...]
    around: frozenset[int]

    def radius(self, column: int, default: int | float) -> int | float:
        return dict(self.radii).get(column, default)


@dataclasses.dataclass(frozen=True)
class SceneSpace(FactorSpace):
    """The space of scenes; its samples follow the rules even if factors are held, fixed, left out or near a center.

    Attributes:
      view: how pictures are seen, since visibility depends on the rotation.
      colors: how objects are colored: ``palette``: by one of Johnson et al.'s eight colors; ``levels``: each channel is
        one of 0, 0.2, …, 1, as in Dang-Nhu's evaluation (2022, table 7).
      min_pixels: how many pixels each object must show in the crop from the 320 × 240 picture.

    A scene that violates the rules is redrawn with as many objects and the same camera and lamps, so that these stay
    uniform (as in the released code); if regions are left out, all its factors are redrawn. After 10,000
    attempts it is returned unchanged, since two objects that are held at one place can never follow the rules.
    """

    view: View = View()
    colors: Literal["palette", "levels"] = "palette"
    min_pixels: Natural = 200

    @checked
    def sample(self, key: PRNGKeyArray, n: Natural) -> Float[Array, "n k"]:
        """n independent scenes."""
        return self._scenes(key, n)

    @checked
    def given(
        self, key: PRNGKeyArray, factor: str | int | Int[Array, ""], value: Num[Array, " n"]
    ) -> Float[Array, "n k"]:
        """One scene per value, drawn given that the factor has this value; a color may then leave the palette."""
        held = jnp.arange(self.num_factors) == self._traced(factor)
        return self._scenes(key, len(value), held=held, values=value.astype(jnp.float32))

    @checked
    def local_group(
        self, key: PRNGKeyArray, n: Natural, radius: Mapping[str, int | float | None], circular: tuple[str, ...] = ()
    ) -> Float[Array, "n k"]:
        """n scenes near a random one, as :meth:`FactorSpace.local_group`.

        With ``levels``, a color's radius is rounded down to whole levels; with the ``palette``, which has no order,
        colors are free. Positions do not wrap around.
        """
        return self._group(key, n, self._reach(radius, circular))

    @checked
    def allowed(self, factors: Num[Array | np.ndarray, "... k"]) -> Bool[Array, "..."]:
        """Whether scenes follow the rules, and are not left out; their colors are not checked."""
        keep = FactorSpace.allowed(self, factors)
        follows = self._follow(jnp.asarray(factors).astype(jnp.float32).reshape(-1, self.num_factors))
        return keep & follows.reshape(keep.shape)

    def complete(self) -> "SceneSpace":
        """The scenes on which slots are scored: with the most objects, and colors by ``levels``."""
        return dataclasses.replace(self, colors="levels").only({"num_objects": self.sizes[0] - 1})

    def masks(self, factors: Num[Array, "n k"]) -> UInt8[Array, "n h w"]:
        return self.view.masks(factors)

    def _visible(self, row: Row) -> Bool[Array, ""]:
        """Whether every object shows enough pixels in the crop from a 320 × 240 picture."""
        present = parts(row, self.view.min_objects).present
        number = np.arange(1, len(present) + 1, dtype=np.uint8)
        counts = (self.view.mask(row, COUNTED_SIDE)[None] == number[:, None, None]).sum((1, 2))
        needed = math.ceil(self.min_pixels * (COUNTED_SIDE / CROP_SIDE) ** 2)
        return ((counts >= needed) | ~present).all()

    @functools.partial(jax.jit, static_argnums=0)
    def _follow(self, rows: Float[Array, "n k"]) -> Bool[Array, " n"]:
        def follows(row):
            cut = parts(row, self.view.min_objects)
            solids = self.view.solids(cut)
            place, size = solids.center[:, :2], solids.size
            good = _apart(place[:, None] - place[None], size[:, None] + size[None], _axes())
            both = cut.present[:, None] & cut.present[None] & ~np.eye(len(size), dtype=bool)
            return (good | ~both).all() & self._visible(row)

        return one_by_one(follows, rows)

    def _reach(self, radius: Mapping[str, int | float | None], circular: tuple[str, ...]) -> Reach:
        columns, around = self._neighborhood(radius, circular)
        return Reach(tuple(sorted(columns.items())), around)

    def _group(self, key, n: int, reach: Reach) -> Float[Array, "n k"]:
        center_key, draw_key = jax.random.split(key)
        return self._scenes(draw_key, n, reach, self.sample(center_key, 1)[0])

    def _groups(self, keys, n: int, radius: Mapping, circular: tuple[str, ...]) -> Float[Array, "g n k"]:
        return self._one_by_one(keys, n, self._reach(radius, circular))

    @functools.partial(jax.jit, static_argnums=(0, 2, 3))
    def _one_by_one(self, keys, n: int, reach: Reach) -> Float[Array, "g n k"]:
        return jax.lax.map(lambda key: self._group(key, n, reach), keys)

    @functools.partial(jax.jit, static_argnums=(0, 2, 3))
    def _scenes(
        self, key, n: int, reach: Reach | None = None, center: Row | None = None, held=None, values=None
    ) -> Float[Array, "n k"]:
        """n scenes, near a center if there is one, whose factors ``held [k]`` have ``values [n]``; one program."""
        low, high, wraps = self._bounds(reach, center)
        head = jnp.arange(self.num_factors) < (0 if self.regions else first_object(self.num_factors))

        def scene(key_and_value):
            key, value = key_and_value

            def propose(state):
                number, last, _ = state
                attempt_key = jax.random.fold_in(key, number)
                row = self._row(attempt_key, (low, high, wraps), reach, center)
                row = jnp.where(head & (number > 0), last, row)
                bounds = low, high
                if held is not None:
                    row, *bounds = (jnp.where(held, value, array) for array in (row, low, high))
                row, fits = placed(self.view, jax.random.fold_in(attempt_key, _PLACES), row, *bounds)
                fits &= FactorSpace.allowed(self, row[None])[0]
                return number + 1, row, jax.lax.cond(fits, self._visible, lambda row: jnp.bool_(False), row)

            start = jnp.int32(0), jnp.zeros(self.num_factors), jnp.bool_(False)
            return jax.lax.while_loop(lambda state: ~state[2] & (state[0] < MOST_REDRAWS), propose, start)[1]

        return one_by_one(scene, (jax.random.split(key, n), jnp.zeros(n) if values is None else values))

    def _row(self, key, bounds: tuple[Row, Row, np.ndarray], reach: Reach | None, center: Row | None) -> Row:
        low, high, wraps = bounds
        discrete, start, width = self._extents()
        share = random.uniform(jax.random.fold_in(key, _ROW), (self.num_factors,))
        row = low + (high - low + discrete) * share
        row = jnp.where(discrete > 0, jnp.minimum(jnp.floor(row), high), row)
        row = jnp.where(wraps, start + (row - start) % width, row)
        if self.excluded:
            tied = listed_cells(self._lattice())
            cell = drawn_cells(self._class_sizes, tied.positions, 1, key, tied.cells, tied.weights)[0]
            row = jnp.where(discrete > 0, cell.astype(jnp.float32), row)
        return self._colored(jax.random.fold_in(key, _COLORS), row, reach, center)

    def _extents(self) -> np.ndarray:
        """Whether each factor is discrete (1, else 0), its lowest value, and how wide it is."""
        spans = [(0, span.low, span.high - span.low) if isinstance(span, Interval) else None for span in self.values]
        return np.array([span or (1, 0, self.sizes[j]) for j, span in enumerate(spans)], np.float32).T

    def _bounds(self, reach: Reach | None, center: Row | None) -> tuple[Row, Row, np.ndarray]:
        """Each factor's lowest and highest value, and which factors continue at the other end."""
        discrete, start, width = self._extents()
        low, high = start.copy(), start + width - discrete
        for j, value in self.fixed:
            low[j] = high[j] = value
        if reach is None:
            return jnp.asarray(low), jnp.asarray(high), np.zeros(self.num_factors, bool)
        circular = [isinstance(span, Interval) and span.circular for span in self.values]
        goes_round = (np.array(circular) | np.isin(np.arange(self.num_factors), list(reach.around))) & (low < high)
        goes_round &= ~np.array([name.endswith(("_x", "_y")) for name in self.names])
        radii = np.array([reach.radius(j, np.inf) for j in range(self.num_factors)], np.float32)
        # A circular neighborhood as wide as the factor is the whole factor.
        bounded = np.isfinite(radii) & ~(goes_round & (2 * radii + discrete >= width))
        wraps, radii = goes_round & bounded, np.where(bounded, radii, 0).astype(np.float32)
        near_low, near_high = center - radii, center + radii
        near_low = jnp.where(wraps, near_low, jnp.maximum(near_low, low))
        near_high = jnp.where(wraps, near_high, jnp.minimum(near_high, high))
        return jnp.where(bounded, near_low, low), jnp.where(bounded, near_high, high), wraps

    def _colored(self, key, row: Row, reach: Reach | None, center: Row | None) -> Row:
        """The row with colors from the palette or the levels, where they are not fixed."""
        first, count = first_object(self.num_factors), len(OBJECT_FACTORS)
        columns = np.arange(first, self.num_factors, count)[:, None] + np.arange(3)[None]
        if self.colors == "palette":
            palette = jnp.array(PALETTE, jnp.float32) / 255
            colors = palette[random.randint(key, columns.shape[:1], 0, len(PALETTE))]
        else:
            last = LEVELS - 1
            middle = jnp.zeros(columns.shape) if center is None else center[columns]
            radius = [1 if reach is None else reach.radius(int(j), 1) for j in columns.flat]
            steps = (np.minimum(radius, 1) * last + 1e-6).astype(np.int32).reshape(columns.shape)
            middle = jnp.round(middle * last).astype(jnp.int32)
            low, high = jnp.maximum(middle - steps, 0), jnp.minimum(middle + steps, last)
            colors = random.randint(key, columns.shape, low, high + 1).astype(jnp.float32) / last
        free = np.isin(columns, [j for j, _ in self.fixed], invert=True)
        return row.at[columns].set(jnp.where(free, colors, row[columns]))


@checked
def space(
    max_objects: Count = MOST_OBJECTS,
    min_objects: Count = LEAST_OBJECTS,
    *,
    colors: Literal["palette", "levels"] = "palette",
    jitter: bool = True,
    min_pixels: Natural = 200,
    view: View | None = None,
) -> SceneSpace:
    """The space of scenes; see :class:`SceneSpace` and :func:`jaxdis.data._datasets.clevr6`.

    Factors ``num_objects``, the camera's and lamps' if they ``jitter``, and ``object_i_*``. Absent objects' factors are
    sampled, but these objects are not visible.
    """
    found = scene_columns(min_objects, max_objects, MOST_OBJECTS, JITTERED if jitter else {}, OBJECT)
    view = dataclasses.replace(view or View(), min_objects=min_objects)
    if view.rotation == "degrees":
        turn = Interval(0, 360, circular=True)
        found = {name: turn if name.endswith("_rotation") else values for name, values in found.items()}
    return dataclasses.replace(SceneSpace.of(**found), view=view, colors=colors, min_pixels=min_pixels)


def radius(of: FactorSpace) -> dict[str, float]:
    """The ``radius`` of :meth:`FactorSpace.local_group` in table 7; shape, material, size and rotation are free."""
    parts = {name: name.split("_")[-1] for name in of.names if name.startswith("object_")}
    return {name: _RADIUS[part] for name, part in parts.items() if part in _RADIUS}
