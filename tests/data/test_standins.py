"""The stand-ins: the sizes of the sets whose place they hold, and every factor visible."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdis.data
from jaxdis.data import _standins as solids
from jaxdis.data.files import _image_files as image_files

KEY = jax.random.key(0)
PAIRS = {
    "standin_turntable": (image_files.CARS3D_SPACE, (64, 64, 3)),
    "standin_gray_turntable": (image_files.SMALLNORB_SPACE, (64, 64, 1)),
    "standin_arm": (image_files.MPI3D_SPACE, (64, 64, 3)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_the_lattice_is_that_of_the_set_and_the_name_says_what_it_is_not(name):
    space, render = jaxdis.data.DATASETS[name].make()
    original, shape = PAIRS[name]
    assert space == original
    assert render.shape == shape
    assert jaxdis.data.DATASETS[name].description.startswith("NOT ")


@pytest.mark.parametrize("name", PAIRS)
def test_every_value_of_every_factor_is_seen(name):
    space, render = jaxdis.data.DATASETS[name].make(dtype="uint8")
    draw = jax.jit(render)
    center = np.asarray(space.sample(jax.random.key(3), 1))[0]
    for column, size in enumerate(space.sizes):
        rows = np.tile(center, (183, 1))
        rows[:size, column] = np.arange(size)
        # One key an image, so that a hidden factor is drawn alike for all.
        keys = jax.random.wrap_key_data(jnp.tile(jax.random.key_data(KEY), (183, 1)))
        images = np.asarray(jax.vmap(lambda row, key: draw(row, key))(jnp.asarray(rows), keys))[:size]
        assert len({image.tobytes() for image in images}) == size, space.names[column]


@pytest.mark.parametrize("name", PAIRS)
def test_images_are_pure_and_in_range(name):
    space, render = jaxdis.data.DATASETS[name].make()
    factors = space.sample(KEY, 8)
    images = np.asarray(jax.jit(render)(factors, KEY))
    assert images.dtype == np.float32
    assert images.min() >= 0
    assert images.max() <= 1
    # Solids and ground both show in every picture.
    assert (np.ptp(images.reshape(8, -1), axis=1) > 0.2).all()
    np.testing.assert_array_equal(images, jax.jit(render)(factors, KEY))


def test_the_hidden_instance_is_drawn_for_every_image():
    _, render = jaxdis.data.standin_gray_turntable(dtype="uint8")
    factors = jnp.tile(jnp.array([[2, 4, 5, 1]]), (300, 1))
    images = np.asarray(jax.jit(render)(factors, KEY))
    kinds, counts = np.unique(images.reshape(300, -1), axis=0, return_counts=True)
    assert len(kinds) == 10
    assert counts.min() > 10
    with pytest.raises(ValueError, match="must be a typed key"):
        render(factors)


def test_rays_enter_a_box_where_algebra_says():
    rays = jnp.array([[[1, 0, 0], [1, 0.3, 0], [1, 0.7, 0], [1, 0, -0.45]]], jnp.float32)
    eye = jnp.array([-3, 0, 0.5], jnp.float32)
    near = solids.placed(solids.box(jnp.array([1, 1, 1], jnp.float32)), jnp.zeros(3))
    far = solids.placed(solids.box(jnp.array([1, 9, 9], jnp.float32)), jnp.array([5, 0, 0], jnp.float32))
    which, normal = solids.cast(eye, rays, jnp.stack([near, far]))
    np.testing.assert_array_equal(which, [[0, 0, 1, 0]])
    np.testing.assert_array_equal(normal, [[[-1, 0, 0]] * 4])


def test_prisms_pyramids_and_turned_boxes_have_their_planes():
    down = jnp.array([[[0, 0, -1]]], jnp.float32)

    def height(solid, x, y):
        """Where a ray straight down from z = 1 enters, found by raising the start until it is inside."""
        at = jnp.array([x, y, 1], jnp.float32)
        along = (solid[:, :3] @ jnp.array([0, 0, -1], jnp.float32), solid[:, 3] - solid[:, :3] @ at)
        entry = max(float(d / n) for n, d in zip(*along, strict=True) if n < 0)
        which, _ = solids.cast(at, down, solid[None])
        return 1 - entry if int(which[0, 0]) == 0 else None

    assert height(jnp.asarray(solids.prism(4, 0.2, 0.1)), 0.19, 0.19) == pytest.approx(0.1)
    assert height(jnp.asarray(solids.prism(4, 0.2, 0.1)), 0.21, 0.0) is None
    # A pyramid of inner radius 0.2 and half height 0.1 falls from 0.1 at its axis to −0.1 at its foot.
    assert height(jnp.asarray(solids.pyramid(4, 0.2, 0.1)), 0.0, 0.0) == pytest.approx(0.1, abs=1e-5)
    assert height(jnp.asarray(solids.pyramid(4, 0.2, 0.1)), 0.1, 0.0) == pytest.approx(0.0, abs=1e-5)
    turned = solids.placed(solids.box(jnp.array([0.4, 0.1, 0.1])), jnp.zeros(3), solids.about_z(jnp.float32(np.pi / 2)))
    assert height(turned, 0.0, 0.35) == pytest.approx(0.1, abs=1e-5)
    assert height(turned, 0.35, 0.0) is None
