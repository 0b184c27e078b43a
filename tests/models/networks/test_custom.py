import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen as nn
from flax import nnx

from jaxdis import models
from tests.models.conftest import largest_difference


def plain_init(key):
    return {"in": jax.random.normal(key, (64, 6)) * 0.1, "out": jnp.zeros((3, 64))}


def plain_encode(params, images):
    return jnp.split(images.reshape(-1, 64) @ params["in"], 2, axis=1)


def plain_decode(params, codes):
    return (codes @ params["out"]).reshape(-1, 8, 8, 1)


class Autoencoder(nnx.Module):
    def __init__(self, rngs):
        self.inwards = nnx.Linear(64, 6, rngs=rngs)
        self.outwards = nnx.Linear(3, 64, rngs=rngs)

    def encode(self, images):
        return jnp.split(self.inwards(images.reshape(-1, 64)), 2, axis=1)

    def decode(self, codes):
        return self.outwards(codes).reshape(-1, 8, 8, 1)


GRAPH = nnx.split(nnx.eval_shape(lambda: Autoencoder(nnx.Rngs(0))))[0]


def nnx_init(key):
    return nnx.to_pure_dict(nnx.split(Autoencoder(nnx.Rngs(key)))[1])


def nnx_encode(params, images):
    return nnx.merge(GRAPH, params).encode(images)


def nnx_decode(params, codes):
    return nnx.merge(GRAPH, params).decode(codes)


class Bare:
    """Three methods and nothing else; hashable by identity."""

    init, encode, decode = staticmethod(plain_init), staticmethod(plain_encode), staticmethod(plain_decode)


OWN = {
    "plain": models.Own(plain_init, plain_encode, plain_decode, name="plain"),
    "nnx": models.Own(nnx_init, nnx_encode, nnx_decode, name="nnx"),
    "object": Bare(),
}


@pytest.mark.parametrize("name", list(OWN))
def test_a_users_own_network_is_trained_saved_and_read(name, images, tmp_path):
    keys, hyper, labels = models.members({"beta": {"beta": 1.0, "learning_rate": 1e-2}}, seeds=2)
    config = models.Config(data="squares", method=models.Vae(network=OWN[name], batch_size=8), steps=200)
    zoo = models.train(config, keys, hyper, labels=labels, data=images)
    assert (zoo.losses.loss[:, -1] < zoo.losses.loss[:, 0]).all()
    zoo.save(tmp_path / "zoo.npz")
    with pytest.raises(ValueError, match="pass it to load"):
        models.load(tmp_path / "zoo.npz")
    read = models.load(tmp_path / "zoo.npz", method=config.method)
    assert largest_difference(read.encode(images), zoo.encode(images)) == 0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"decode": lambda p, codes: plain_decode(p, codes)[..., 0]},
            r"decode needs logits of shape \(2, 8, 8, 1\) .*",
        ),
        ({"encode": lambda p, images: plain_encode(p, images)[0]}, r"encode needs two arrays \[n, d\]"),
        (
            {"encode": lambda p, images: (plain_encode(p, images)[0], jnp.zeros(()))},
            r"encode needs two arrays \[n, d\]",
        ),
    ],
    ids=["images without channels", "means alone", "one variance"],
)
def test_networks_whose_arrays_would_broadcast_are_refused(changes, words, images):
    network = dataclasses.replace(OWN["plain"], **changes)
    config = models.Config(data="squares", method=models.Vae(network=network, batch_size=8), steps=2)
    with pytest.raises(ValueError, match=words):
        models.train(config, *models.members({"beta": {}}), data=images)


class FlaxEncoder(nn.Module):
    @nn.compact
    def __call__(self, images):
        return nn.Dense(3)(images)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"network": FlaxEncoder()}, "network: needs functions init, encode and decode, FlaxEncoder lacks encode"),
        ({"network": FlaxEncoder}, "FlaxEncoder lacks encode, decode; jaxdis.models.Own makes"),
        ({"network": (FlaxEncoder(), FlaxEncoder())}, "network: needs functions init, encode and decode, tuple"),
    ],
)
def test_what_is_no_part_of_a_model_is_refused_with_the_way_out(arguments, message):
    with pytest.raises(ValueError, match=message):
        models.Vae(**arguments)


@dataclasses.dataclass(frozen=True)
class Lion(models.Adam):
    def transformation(self):
        return optax.scale_by_lion()


def test_any_transformation_of_optax_trains():
    """Lion's steps are the signs of moments: after one update, each parameter has moved by the learning rate."""
    images = np.random.default_rng(0).random((8, 4, 4, 1), dtype=np.float32)
    method = models.Vae(network=models.Mlp((4,), 2), batch_size=8, optimizer=Lion())
    keys, settings, _ = models.members({"beta": {"learning_rate": 0.01}})
    before, after = (
        models.train(models.Config("own", method=method, steps=steps), keys, settings, data=images).params
        for steps in (1, 2)
    )
    moves = np.concatenate([np.abs(a - b).ravel() for a, b in zip(*map(jax.tree.leaves, (before, after)), strict=True)])
    assert np.minimum(moves, np.abs(moves - 0.01)).max() < 1e-5
    assert (moves > 0.005).mean() > 0.5
