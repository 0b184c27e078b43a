"""Renderers of every kind are called in one way."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdis import models
from jaxdis.models._images import Images


def plain(factors):
    return jnp.zeros((len(factors), 4, 4, 1)) + factors[:, :1, None, None].astype(jnp.float32)


def noisy(factors, key):
    return jnp.broadcast_to(jax.random.uniform(key, (len(factors), 4, 4, 1)), (len(factors), 4, 4, 1))


def with_options(factors, *, scale=1.0):
    return scale * plain(factors)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Gathered:
    table: jax.Array

    def __call__(self, factors):
        return self.table[factors[:, 0]]


@pytest.mark.parametrize(
    ("render", "arrays", "takes_key"),
    [(plain, 0, False), (noisy, 0, True), (with_options, 0, False), (Gathered(jnp.ones((3, 4, 4, 1))), 1, False)],
    ids=["plain", "noisy", "options", "pytree"],
)
def test_a_renderer_is_called_as_it_asks_to_be(render, arrays, takes_key):
    images = Images.of(render)
    assert (len(jax.tree.leaves(images)), images.takes_key) == (arrays, takes_key)
    call = jax.jit(lambda images, factors, key: images(factors, key))
    assert call(images, jnp.zeros((2, 1), int), jax.random.key(0)).shape == (2, 4, 4, 1)
    assert Images.of(images) is images


def test_something_else_is_refused():
    with pytest.raises(ValueError, match="render: must be a function of factors"):
        Images.of("dsprites")


@pytest.fixture(scope="module")
def zoo():
    keys, hyper, labels = models.members({"beta": {"beta": [1.0]}}, seeds=1)
    config = models.Config(data="any", method=models.Vae(network=models.Mlp((8,), 2), batch_size=4), steps=2)
    return models.train(config, keys, hyper, labels=labels, data=np.random.default_rng(0).random((8, 4, 4, 1)))


def test_noise_follows_from_the_key_and_the_place_alone(zoo):
    factors = np.zeros((9, 1), np.int32)
    found = zoo.encode(factors, render=noisy).mean
    np.testing.assert_array_equal(zoo.encode(factors, render=noisy).mean, found)
    np.testing.assert_allclose(zoo.encode(factors, render=noisy, batch_size=4).mean, found, atol=1e-6)
    np.testing.assert_allclose(zoo.encode(factors[:5], render=noisy, batch_size=2).mean, found[:, :5], atol=1e-6)
    assert not np.allclose(zoo.encode(factors, render=noisy, key=jax.random.key(1)).mean, found)
    assert len(np.unique(found[0, :, 0])) == 9
