"""CLEVR6: scenes of up to six solids on a plane, with each object's mask and factors, by ray casting.

CLEVR is Johnson et al. 2017. Greff et al. (2019) cut a square out of its pictures and keep those with at most six
objects; Dang-Nhu (2022, C.3) keeps those whose objects are all visible in that square; :mod:`jaxdis.data._clevr_space`
draws such scenes.

Positions, sizes and lamps are those in the scene that Johnson et al. (2017) released. The ground is z = 0 and the
camera and all lamps aim at the origin. Every solid stands on the ground and fills [−1, 1]³ times its size: a cube, the
ball with radius 1, or the upright cylinder with radius 1 and height 2.

A ray is ``start + t · direction`` for t > 0. Vector fields are three arrays, so that loops over pixels vectorize.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Num, UInt8

from jaxdis._core.options import Count, check_fields
from jaxdis._core.platforms import on_cpu
from jaxdis.data._factor_space import Interval
from jaxdis.data._scenes import scene_columns

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
OBJECT = {"red": _UNIT, "green": _UNIT, "blue": _UNIT, "shape": 3, "material": 2, "size": SIZES}
OBJECT |= {"rotation": Interval(0, 360), "x": _PLACE, "y": _PLACE}
OBJECT_FACTORS = tuple(OBJECT)
SHAPES, MATERIALS = ("cube", "sphere", "cylinder"), ("rubber", "metal")
# How far each of them moves along each axis.
_JITTER = {"camera": 0.5, "key_lamp": 1.0, "fill_lamp": 1.0, "back_lamp": 1.0}
JITTERED = {f"{what}_{axis}": Interval(-most, most) for what, most in _JITTER.items() for axis in "xyz"}

# Scenes that an accelerator draws at one time.
_TOGETHER = 256


class Parts(NamedTuple):
    """Scene factors by part.

    ``count [...]``: how many objects; ``moved [..., 4, 3]``: how far camera, key, fill and back lamp are moved;
    ``objects [..., o, 9]`` in the order of ``OBJECT_FACTORS``; ``present [..., o]``.
    """

    count: Int[Array, "..."]
    moved: Float[Array, "... 4 3"]
    objects: Float[Array, "... o 9"]
    present: Bool[Array, "... o"]


def columns(max_objects: int, min_objects: int, jitter: bool) -> dict:
    """Factors ``num_objects``, the camera's and lamps' if they ``jitter``, and ``object_i_*``.

    Absent objects' factors are sampled, but these objects are not visible.
    """
    return scene_columns(min_objects, max_objects, MOST_OBJECTS, JITTERED if jitter else {}, OBJECT)


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
    return Parts(count, moved.reshape(*moved.shape[:-1], 4, 3), objects, number < count[..., None])


@dataclasses.dataclass(frozen=True)
class View:
    """What determines a picture's outlines, given factors.

    ``rotation``: ``released``: the angle is the factor's value in radians, as in the released code, which draws it from
    0 to 360 and writes it to a field in radians; ``degrees``: the angle is the factor's value in degrees.
    """

    side: Count = 128
    rotation: Literal["released", "degrees"] = "released"
    min_objects: Count = LEAST_OBJECTS

    def __post_init__(self):
        check_fields(self)

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
        which = identities(self.solids(cut), self.eye(cut), side)
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
