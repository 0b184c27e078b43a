"""Optimizers of the library and of optax, in zoos that are swept, resumed and read."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxdis import models
from jaxdis.models._config import describe
from tests.models.conftest import interrupted_and_resumed, same

SMALL = models.Mlp((4,), 2)


def schedule(count):
    return jnp.where(count < 6, 1e-2, 0.0)


OWN_STEPS = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule))


def config(optimizer, steps=8, **fields):
    return models.Config(
        "own", method=models.Vae(network=SMALL, batch_size=8, optimizer=optimizer, **fields), steps=steps
    )


@pytest.fixture(scope="module")
def pixels():
    return np.random.default_rng(0).random((8, 4, 4, 1), dtype=np.float32)


def test_the_rate_of_a_function_of_optax_is_swept(pixels):
    """Lion's steps are the signs of moments: after one update, each parameter has moved by the learning rate."""
    members = models.members({"beta": {"learning_rate": [0.01, 0.03]}})
    before, after = (models.train(config(lion, steps), *members, data=pixels).params for steps in (1, 2))
    for member, rate in enumerate((0.01, 0.03)):
        moves = [np.abs(a - b)[member].ravel() for a, b in zip(*map(jax.tree.leaves, (before, after)), strict=True)]
        moves = np.concatenate(moves)
        assert np.minimum(moves, np.abs(moves - rate)).max() < 1e-5
        assert (moves > rate / 2).mean() > 0.5


def lion(learning_rate):
    return optax.lion(learning_rate, weight_decay=0.0)


def test_the_librarys_adam_is_that_of_optax(pixels):
    members = models.members({"beta": {"learning_rate": [0.01, 0.03]}})
    ours, theirs = (models.train(config(o), *members, data=pixels) for o in (models.Adam(), optax.adam))
    for left, right in zip(*(jax.tree.leaves(zoo.params) for zoo in (ours, theirs)), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-6)


def test_a_schedule_counts_updates_and_survives_resumption(pixels, tmp_path):
    members = models.members({"beta": {"beta": [1.0, 4.0]}}, seeds=2)
    whole = models.train(config(OWN_STEPS), *members, data=pixels, log_every=2, checkpoint_every=4)
    # From the sixth update on the rate is 0.
    assert all(
        map(
            np.array_equal,
            *(jax.tree.leaves(models.train(config(OWN_STEPS, n), *members, data=pixels).params) for n in (6, 8)),
        )
    )

    how = {"data": pixels, "log_every": 2, "checkpoint_every": 4, "directory": tmp_path}
    assert same(interrupted_and_resumed(4, config(OWN_STEPS), *members, **how), whole)
    whole.save(tmp_path / "zoo.npz")
    with pytest.raises(ValueError, match="pass it to load"):
        models.load(tmp_path / "zoo.npz")
    assert same(models.load(tmp_path / "zoo.npz", method=config(OWN_STEPS).method), whole)


def test_an_optimizer_is_described_by_its_name():
    assert describe(config(optax.lion))["method"]["optimizer"]["name"].endswith(".lion")
    named = models.Optax(OWN_STEPS, name="clipped")
    assert describe(config(named))["method"]["optimizer"] == {"type": "Optax", "name": "clipped"}
    assert hash(config(OWN_STEPS)) == hash(config(OWN_STEPS))
    assert config(OWN_STEPS) != config(optax.adam(1e-3))


@pytest.mark.parametrize("method", ["resnet_vae", "infogan", "weak_de", "labelled_partition", "monet", "iodine"])
def test_every_method_takes_optax(method):
    changed = dataclasses.replace(models.METHODS[method](), optimizer=optax.sgd)
    assert isinstance(changed.optimizer, models.Optax)


def test_rates_that_nothing_would_read_are_refused(pixels):
    swept = models.members({"beta": {"learning_rate": [0.01, 0.03]}})
    with pytest.raises(ValueError, match="learning_rate: the optimizer has its own, .* such as optax.adamw"):
        models.train(config(OWN_STEPS), *swept, data=pixels)
    factor = models.DiscriminatorTraining(optimizer=optax.sgd(0.1), network=models.Discriminator(1, 4))
    members = models.members({"factor": {"discriminator_learning_rate": 0.5}})
    with pytest.raises(ValueError, match="discriminator_learning_rate: the optimizer has its own"):
        models.train(config(models.Adam(), objective="factor", discriminator=factor), *members, data=pixels)
    with pytest.raises(ValueError, match="optimizer: must be a function learning rate → transformation"):
        models.PartedVae(optimizer=OWN_STEPS)


@pytest.mark.parametrize("wrong", ["adam", 3, optax.GradientTransformation, None, len, optax.sgd(0.1).init])
def test_what_is_no_optimizer_is_refused(wrong):
    with pytest.raises(ValueError, match="^optimizer: .*; pass a transformation of optax, or a function"):
        models.Vae(optimizer=wrong)
