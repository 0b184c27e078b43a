import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn
from flax import nnx

from jaxdis import models
from jaxdis.models._config import describe
from jaxdis.models.networks._architectures import functions_of
from tests.models.conftest import interrupted_and_resumed, largest_difference, same


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


class Flat(nnx.Module):
    """An encoder of two arrays, or a decoder."""

    def __init__(self, inputs, outputs, *, rngs):
        self.layer = nnx.Linear(inputs, outputs, rngs=rngs)

    def __call__(self, inputs):
        outputs = self.layer(inputs.reshape(len(inputs), -1))
        return outputs.reshape(-1, 8, 8, 1) if outputs.shape[1] == 64 else tuple(jnp.split(outputs, 2, axis=1))


def there(rngs):
    return Flat(64, 6, rngs=rngs)


def back(rngs):
    return Flat(3, 64, rngs=rngs)


class Pair(nn.Module):
    width: int = 5

    def setup(self):
        self.inner, self.inwards, self.outwards = nn.Dense(self.width), nn.Dense(6), nn.Dense(64)

    def encode(self, images):
        return jnp.split(self.inwards(nn.relu(self.inner(images.reshape(-1, 64)))), 2, axis=1)

    def decode(self, codes):
        return self.outwards(codes).reshape(-1, 8, 8, 1)


class Encoder(nn.Module):
    @nn.compact
    def __call__(self, images):
        return jnp.split(nn.Dense(6)(images.reshape(-1, 64)), 2, axis=1)


class Decoder(nn.Module):
    @nn.compact
    def __call__(self, codes):
        return nn.Dense(64)(codes).reshape(-1, 8, 8, 1)


class Bare:
    """Three methods and nothing else; hashable by identity."""

    init, encode, decode = staticmethod(plain_init), staticmethod(plain_encode), staticmethod(plain_decode)


OWN = {
    "named": models.Own(plain_init, plain_encode, plain_decode, name="plain"),
    "functions": (plain_init, plain_encode, plain_decode),
    "object": Bare(),
    "linen": Pair(),
    "pair of linen": (Encoder(), Decoder()),
    "nnx": Autoencoder,
    "pair of nnx": (there, back),
}


@pytest.mark.parametrize("name", list(OWN))
def test_a_users_own_network_is_trained_resumed_saved_and_read(name, images, tmp_path):
    keys, hyper, labels = models.members({"beta": {"beta": [1.0, 4.0], "learning_rate": 1e-2}}, seeds=2)
    config = models.Config(data="squares", method=models.Vae(network=OWN[name], batch_size=8), steps=120)
    how = {"labels": labels, "data": images, "log_every": 40, "checkpoint_every": 40}

    zoo = models.train(config, keys, hyper, **how)
    assert same(interrupted_and_resumed(80, config, keys, hyper, **how, directory=tmp_path / "run"), zoo)
    assert (zoo.losses.loss[:, -1] < zoo.losses.loss[:, 0]).all()
    first = np.asarray(jax.tree.leaves(zoo.params)[-1])
    assert not np.array_equal(first[0], first[1])  # members draw parameters of their own
    zoo.save(tmp_path / "zoo.npz")
    with pytest.raises(ValueError, match="pass it to load"):
        models.load(tmp_path / "zoo.npz")
    read = models.load(tmp_path / "zoo.npz", method=config.method)
    assert largest_difference(read.encode(images), zoo.encode(images)) == 0


def test_equal_modules_are_one_network():
    """The same program serves them, and they have one description, which holds their fields."""
    first, second = (models.Vae(network=Pair(7)) for _ in range(2))
    assert first == second
    assert functions_of(first.network) is functions_of(second.network)
    assert describe(first)["network"] == {"type": "Pair", "width": 7}
    assert describe(models.Vae(network=Pair(8))) != describe(first) == describe(second)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"decode": lambda p, codes: plain_decode(p, codes)[..., 0]},
            r"decode must return logits of shape \(2, 8, 8, 1\) .*",
        ),
        (
            {"encode": lambda p, images: plain_encode(p, images)[0]},
            r"encode must return means and log-variances",
        ),
        (
            {"encode": lambda p, images: (plain_encode(p, images)[0], jnp.zeros(()))},
            r"encode must return means and log-variances",
        ),
    ],
    ids=["images without channels", "means alone", "one variance"],
)
def test_networks_whose_arrays_would_broadcast_are_refused(changes, words, images):
    network = dataclasses.replace(OWN["named"], **changes)
    config = models.Config(data="squares", method=models.Vae(network=network, batch_size=8), steps=2)
    with pytest.raises(ValueError, match=words):
        models.train(config, *models.members({"beta": {}}), data=images)


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (Encoder(), "network: Encoder lacks encode and decode; pass a flax.linen module with"),
        (Pair, "network: must be a network, got Pair; pass a flax.linen module"),
        ((Encoder(), Decoder), "network: must be a network, got a tuple of Encoder, Decoder; pass"),
        ((plain_encode, plain_decode), r"network: a tuple of plain_encode, plain_decode\(rngs=…\) fails"),
        (
            Autoencoder(nnx.Rngs(0)),
            "network: must be a class of nnx modules .*, as every member draws .* Autoencoder",
        ),
        (Flat, r"network: Flat\(rngs=…\) fails .* lambda rngs"),
        (there, "network: there lacks encode and decode"),
        (3, "network: must be a network, got int; pass"),
        ((), "network: must be a network, got a tuple of nothing"),
        ([Encoder(), Decoder()], "network: must be a hashable value, such as a frozen dataclass, got list"),
    ],
)
def test_what_is_no_network_is_refused_when_it_is_given(network, message):
    with pytest.raises(ValueError, match=message):
        models.Vae(network=network)


def test_modules_that_hold_more_than_parameters_are_refused():
    class Moments(nn.Module):
        @nn.compact
        def __call__(self, images):
            return jnp.split(nn.BatchNorm(True)(nn.Dense(6)(images.reshape(-1, 64))), 2, axis=1)

    with pytest.raises(ValueError, match="network: must have modules with parameters alone, got one with batch_stats"):
        models.Vae(network=(Moments(), Decoder())).resolved((8, 8, 1))
