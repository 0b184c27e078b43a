"""What slots show, for all members of a zoo."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxdis import models
from tests.models.conftest import untrained
from tests.models.methods.test_methods import SMALLEST


def test_parts_of_a_zoo_are_those_of_its_members(images):
    config = models.Config("squares", method=SMALLEST["monet"], steps=1)
    zoo = untrained(config, models.members({"monet": {}}, 2, config.method), images)
    parts, slots = models.slot_parts(zoo, images[:5], batch_size=2), zoo.encode(images[:5])
    assert parts.reconstruction.shape == (2, 5, 8, 8, 1)
    assert parts.pictures.shape == (2, 5, 2, 8, 8, 1)
    np.testing.assert_allclose(parts.masks, slots.masks, rtol=1e-5)
    whole = np.einsum("mnshw,mnshwc->mnhwc", parts.masks, parts.pictures)
    np.testing.assert_allclose(parts.reconstruction, whole, rtol=1e-5)
    one = jax.tree.map(lambda leaf: jnp.asarray(leaf[1]), zoo.params)
    alone = zoo.config.method.parts(one, jnp.asarray(images[:5]))
    np.testing.assert_allclose(parts.pictures[1], alone.pictures, rtol=1e-5)
    assert zoo.reconstruct(images[:5]).shape == (2, 5, 8, 8, 1)
