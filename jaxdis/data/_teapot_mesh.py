"""The teapot as triangles in a depth buffer: the form of :mod:`jaxdis.data._teapot` without holes or widened outlines.

Patches are cut into quadrilaterals that span a few samples, and these into two triangles. A triangle is drawn at the
samples whose centers it contains; its shade is linear between its corners, and the nearest triangle is seen. Every
quadrilateral is tested at equally many samples about it, so that one program draws them all.
"""

import functools
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxdis.data import _teapot_geometry as geometry
from jaxdis.data._newell import CONTROL_POINTS

# The longest edge of a quadrilateral, in samples.
_EDGE = 4.0
# Normals are taken at this distance from the edges of a patch, some of which are points.
_INSIDE = 1e-3


class Mesh(NamedTuple):
    """``corners [3, 4, q]`` around each quadrilateral, ``shades [2, 4, q]`` on both sides, and ``box``.

    Seen from anywhere, a quadrilateral lies within box × box samples.
    """

    corners: np.ndarray
    shades: np.ndarray
    box: int


@functools.cache
def mesh(side: int) -> Mesh:
    """Quadrilaterals for images with side × side pixels."""
    sample = geometry.sample_size(side)
    corners, shades = [], []
    for patch in CONTROL_POINTS:
        counts = [int(np.ceil(geometry.longest_line(patch, axis) / (_EDGE * sample))) for axis in (0, 1)]
        u, v = (np.linspace(0, 1, count + 1) for count in counts)
        points, _ = geometry.patch_points(patch, u, v)
        _, normals = geometry.patch_points(patch, *(np.clip(at, _INSIDE, 1 - _INSIDE) for at in (u, v)))
        facing = normals @ geometry.LAMP
        for grids, parts in ((points, corners), (facing[..., None], shades)):
            quads = np.stack([grids[:-1, :-1], grids[1:, :-1], grids[1:, 1:], grids[:-1, 1:]])
            parts.append(quads.reshape(4, -1, grids.shape[-1]))
    around = np.concatenate(corners, 1)
    widest = max(np.linalg.norm(around[i] - around[j], axis=-1).max() for i in range(4) for j in range(i))
    facing = np.concatenate(shades, 1)[..., 0]
    return Mesh(
        np.moveaxis(around - geometry.CENTER, -1, 0).astype(np.float32),
        geometry.shade_of(np.stack([facing, -facing])).astype(np.float32),
        int(np.ceil(widest / sample)) + 1,
    )


def depth_buffer(side: int, azimuth: Float[Array, ""], elevation: Float[Array, ""]) -> Int[Array, " s"]:
    """What each sample shows, row by row: see :func:`jaxdis.data._teapot_geometry.packed`."""
    of, samples = mesh(side), geometry.samples(side)
    x, y, nearness = geometry.projected(side, jnp.asarray(of.corners), azimuth, elevation)
    shades = jnp.asarray(of.shades)
    left, top = (jnp.floor(v.min(0))[None, None] for v in (x, y))
    step = np.arange(of.box, dtype=np.float32)
    across, down = left + step[None, :, None] + 0.5, top + step[:, None, None] + 0.5
    fragments = jnp.zeros((of.box, of.box, x.shape[1]), jnp.int32)
    for corners in ((0, 1, 2), (0, 2, 3)):
        (ax, bx, cx), (ay, by, cy) = (tuple(v[i][None, None] for i in corners) for v in (x, y))
        twice = (bx - ax) * (cy - ay) - (cx - ax) * (by - ay)
        inverse = 1 / jnp.where(jnp.abs(twice) > 1e-6, twice, 1)
        second = ((across - ax) * (cy - ay) - (cx - ax) * (down - ay)) * inverse
        third = ((bx - ax) * (down - ay) - (across - ax) * (by - ay)) * inverse
        shares = 1 - second - third, second, third
        covered = (jnp.minimum(jnp.minimum(*shares[:2]), shares[2]) >= -1e-3) & (jnp.abs(twice) > 1e-6)
        # Corners run clockwise as seen from outside, which is the positive direction where rows are counted downward.
        lit = jnp.where(twice[0] > 0, shades[0][np.array(corners)], shades[1][np.array(corners)])
        values = (nearness[np.array(corners)], lit)
        near, shade = (sum(share * value[i][None, None] for i, share in enumerate(shares)) for value in values)
        fragments = jnp.maximum(fragments, jnp.where(covered, geometry.packed(near, jnp.round(shade)), 0))
    inside = (across >= 0) & (across < samples) & (down >= 0) & (down < samples)
    place = jnp.where(inside, down.astype(jnp.int32) * samples + across.astype(jnp.int32), samples * samples)
    return jnp.zeros(samples * samples, jnp.int32).at[place].max(fragments, mode="drop")
