"""Shapes3D: the official lattice, what each factor may change, and the published pictures."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdis.data
from jaxdis.data import _shapes3d as room
from jaxdis.data._shapes3d import SKY_COLOR, SPACE, build_layers, layers, samples

GOLDEN = json.loads((Path(__file__).parent.parent / "golden" / "shapes3d_blocks.json").read_text())
SOME = np.asarray(SPACE.sample(jax.random.key(0), 6))


@pytest.fixture(scope="module")
def draw():
    """Pictures, two at a time: by one program."""
    _, render = jaxdis.data.shapes3d(cached=False, dtype="uint8")
    compiled = jax.jit(render)

    def draw(factors):
        pairs = np.resize(np.asarray(factors, np.int32), (-(-len(factors) // 2), 2, 6))
        return np.concatenate([compiled(pair) for pair in pairs])[: len(factors)]

    return draw


@pytest.fixture(scope="module")
def regions():
    """Surfaces [128, 128] and shadow of one (scale, shape, orientation), straight from the tracer."""

    def find(factors):
        scale, shape, orientation = factors[3:]
        azimuth = np.float32(np.radians(SPACE.values[5][orientation]))
        hits = trace(azimuth, np.int32(shape), np.float32(SPACE.values[3][scale]))
        return np.asarray(hits.surface), np.asarray(hits.shadowed & (hits.surface == room.FLOOR))

    trace = jax.jit(lambda azimuth, *shape_and_scale: room.trace(*room.camera(azimuth, 128), *shape_and_scale))
    return find


def touched(samples):
    """Pixels [64, 64] of which a sample is marked."""
    return samples.reshape(64, 2, 64, 2).any((1, 3))


def test_factor_table_and_lattice_order_are_the_official_ones():
    space, _ = jaxdis.data.shapes3d(cached=False)
    assert space.names == ("floor_hue", "wall_hue", "object_hue", "scale", "shape", "orientation")
    assert space.sizes == (10, 10, 10, 8, 4, 15)
    assert space.num_lattice == 480_000
    np.testing.assert_allclose(space.values[0], np.arange(10) / 10)
    np.testing.assert_allclose(space.values[3], 0.75 + np.arange(8) / 14)
    assert space.values[4] == (0, 1, 2, 3)
    np.testing.assert_allclose(space.values[5], -30 + np.arange(15) * 60 / 14)
    np.testing.assert_array_equal(space.index(jnp.eye(6, dtype=jnp.int32)), np.array([48_000, 4_800, 480, 60, 15, 1]))


def test_published_pictures_are_reproduced(draw):
    drawn = np.asarray(draw(jnp.array(GOLDEN["factors"]))).astype(float)
    blocks = drawn.reshape(-1, 8, 8, 8, 8, 3).mean((2, 4))
    away = np.abs(blocks - np.array(GOLDEN["blocks"]))
    # Block means of eight pictures; pixel by pixel the 50 published ones are 0.0164 away (4.2 of 255).
    assert away.mean() < 4
    assert (away.mean((1, 2, 3)) < 6).all()


@pytest.mark.parametrize("column", [3, 4])
def test_scale_and_shape_change_the_object_and_its_shadow_alone(draw, regions, column):
    for factors in SOME:
        other = factors.copy()
        other[column] = (factors[column] + 2) % SPACE.sizes[column]
        before, after = np.asarray(draw(jnp.array([factors, other])))
        may = np.zeros((64, 64), bool)
        for one in (factors, other):
            surface, shadow = regions(one)
            may |= touched((surface == room.OBJECT) | shadow)
        changed = (before != after).any(-1)
        assert changed.any()
        assert not (changed & ~may).any()


def test_the_sky_is_where_the_files_have_it(draw):
    images = np.asarray(draw(jnp.array(SOME)))
    np.testing.assert_array_equal(images[:, 0, 0], np.tile(SKY_COLOR, (6, 1)))


@pytest.mark.parametrize("shape", range(4))
def test_the_object_has_the_size_of_its_solid(regions, shape):
    """Its silhouette's height and width in pixels, from the pinhole formula at the distance of its outline."""
    surface, _ = regions(np.array([0, 0, 0, 3, shape, 7]))
    rows, columns = np.nonzero(surface == room.OBJECT)
    scale = SPACE.values[3][3]
    half_width = scale * [room.CUBE_HALF_EDGE, room.CYLINDER_RADIUS, room.SPHERE_RADIUS, room.CAPSULE_RADIUS][shape]
    # A cube is widest at its front face; a round body where the view touches it.
    depth = room.CAMERA_DISTANCE - (half_width if shape == 0 else half_width**2 / room.CAMERA_DISTANCE)
    tangent = half_width / depth if shape == 0 else half_width / np.sqrt(room.CAMERA_DISTANCE**2 - half_width**2)
    width = 128 * tangent / np.tan(room.VERTICAL_FIELD_OF_VIEW / 2)
    assert abs((np.ptp(columns) + 1) - width) <= 2
    height = {0: 2 * room.CUBE_HALF_EDGE, 1: 2 * room.CYLINDER_HALF_HEIGHT, 2: 2 * room.SPHERE_RADIUS}
    height[3] = 2 * (room.CAPSULE_RADIUS + room.CAPSULE_HALF_SEGMENT)
    ratio = scale * height[shape] / (2 * half_width)
    assert abs((np.ptp(rows) + 1) / (np.ptp(columns) + 1) - ratio) < 0.15 * ratio


def test_layers_add_up_to_the_traced_image(draw):
    geometry = jax.jit(lambda geometry: layers(*samples(geometry)))
    for factors in SOME:
        table = np.asarray(geometry(jnp.array(factors[3:]))).astype(int)
        total = table[factors[0]] + table[10 + factors[1]] + table[20 + factors[2]] + table[30]
        # Parts of a shared pixel are rounded down, each by less than one.
        assert total.max() <= 255
        away = np.asarray(draw(factors[None]))[0].astype(int) - total
        assert away.min() >= -1
        assert away.max() <= 4
        alone = (table.reshape(31, -1, 3)[[factors[0], 10 + factors[1], 20 + factors[2], 30]] > 0).any(-1).sum(0) == 1
        assert np.abs(away.reshape(-1, 3)[alone]).max() <= 1


def test_the_layers_are_cached_and_gathered(cache, draw):
    _, render = jaxdis.data.shapes3d(dtype="uint8")
    assert [path.name for path in cache.glob("*.npy")] == ["shapes3d-1.npy"]
    away = np.asarray(render(jnp.array(SOME))).astype(int) - np.asarray(draw(jnp.array(SOME)))
    assert np.abs(away).max() <= 4
    again = np.zeros(render.tables[0].shape, np.uint8)
    build_layers(again)
    np.testing.assert_array_equal(again, render.tables[0])
