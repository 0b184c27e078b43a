"""Tiny data and networks shared by the tests of models."""

import dataclasses

import jax
import numpy as np
import pytest

from jaxdis import models
from jaxdis.models.training._image_source import as_source
from jaxdis.models.training._train import begin, resolved_config

SMALL = models.Mlp(hidden=(16,), num_codes=3)


@pytest.fixture(scope="session")
def images() -> np.ndarray:
    """Forty 8 × 8 images of a bright square whose place and side are its factors."""
    rng = np.random.default_rng(0)
    made = np.zeros((40, 8, 8, 1), np.float32)
    for image in made:
        row, column, side = rng.integers(0, 5), rng.integers(0, 5), rng.integers(2, 4)
        image[row : row + side, column : column + side] = 1
    return made


@pytest.fixture
def config() -> models.Config:
    return models.Config(data="squares", method=models.Vae(network=SMALL, batch_size=8), steps=12)


@pytest.fixture
def members() -> models.Members:
    return models.members({"beta": {"beta": [1.0, 4.0]}}, seeds=2)


def untrained(config: models.Config, members: models.Members, images: np.ndarray) -> models.Zoo:
    """The zoo before its first update, for tests that read a zoo: a training takes seconds to compile."""
    config = resolved_config(config, as_source(images))
    first = jax.jit(jax.vmap(lambda key: config.method.params(begin(config.method, key).learner)))
    params = jax.tree.map(np.asarray, first(members.keys))
    blank = np.zeros((len(members.labels), 1), np.float32)
    losses = config.method.losses(*[blank] * len(config.method.losses._fields))
    stopped = np.full(len(members.labels), -1, np.int32)
    return models.Zoo(config, params, members.hyperparameters, losses, stopped, members.labels)


def changed(config: models.Config, **fields) -> models.Config:
    """A config whose method has other fields."""
    return dataclasses.replace(config, method=dataclasses.replace(config.method, **fields))


def largest_difference(left, right) -> float:
    """Over all leaves, relative to 1 + the leaf."""
    differences = jax.tree.map(lambda a, b: float(np.max(np.abs(np.asarray(a) - b) / (1 + np.abs(b)))), left, right)
    return max(jax.tree.leaves(differences))


def same(left: models.Zoo, right: models.Zoo) -> bool:
    """Whether two zoos are equal to the last bit."""
    trees = [(z.params, z.hyperparameters, z.losses, z.stopped) for z in (left, right)]
    leaves = zip(*map(jax.tree.leaves, trees), strict=True)
    return left.config == right.config and left.labels == right.labels and all(np.array_equal(a, b) for a, b in leaves)


def interrupted_and_resumed(updates: int, *arguments, **named) -> models.Zoo:
    """A run that ended after some updates, and was called again."""

    def stop(done, _):
        if done == updates:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        models.train(*arguments, **named, progress=stop)
    return models.train(*arguments, **named)
