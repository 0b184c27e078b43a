"""The ResNet VAE and InfoGAN against float64 re-derivations of their losses and gradients, and their states."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdis import models
from jaxdis._core.platforms import tracing_for
from jaxdis.models._zoo import traversals
from jaxdis.models.methods import _infogan as infogan
from jaxdis.models.methods import _resnet_vae as resnet_vae
from jaxdis.models.networks._architectures import shapes_of
from jaxdis.models.training._image_source import as_source
from tests.models import residual_reference as reference
from tests.models.conftest import largest_difference
from tests.models.methods.derived import differences, double

SHAPE, CHANNELS, BLOCKS, SMALLEST = (4, 4, 2), (2, 3, 3), 2, (1, 1, 3)
VAE = models.ResnetVae(CHANNELS, 2, batch_size=5, image_shape=SHAPE)
GAN = models.InfoGan(CHANNELS, 2, batch_size=5, critic_updates=2, image_shape=SHAPE)
IMAGES = np.random.default_rng(0).uniform(size=(5, *SHAPE)).astype(np.float32)


def stirred(params):
    """Parameters away from their beginning, where scales are 1 and offsets 0."""
    rng = np.random.default_rng(1)
    return jax.tree.map(lambda leaf: leaf + 0.3 * rng.normal(size=leaf.shape).astype(np.float32), params)


def agree(found, expected, tolerance=1e-4):
    """Relative to the largest entry of each leaf (or 1e-2, below which float32 has nothing to say)."""

    def error(found, expected):
        return np.abs(np.asarray(found) - expected).max() / max(np.abs(expected).max(), 1e-2)

    errors = jax.tree.map(error, found, expected)
    assert max(jax.tree.leaves(errors)) < tolerance, errors


@pytest.fixture(scope="module")
def vae():
    """A stirred model, and its loss as a jitted function."""
    model = VAE.begin(jax.random.key(0)).model
    model = model._replace(params=stirred(model.params))

    def loss(params, key):
        return VAE.loss(model._replace(params=params), key, jnp.float32(6), jnp.asarray(IMAGES))

    return model, jax.jit(jax.value_and_grad(loss, has_aux=True))(model.params, jax.random.key(3))


def test_the_loss_of_the_vae_and_its_gradient_are_those_of_float64(vae):
    model, ((loss, (losses, statistics)), gradient) = vae
    params, noise = double(model.params), np.asarray(jax.random.normal(jax.random.key(3), (5, 2)), np.float64)
    inputs = (IMAGES.astype(np.float64), noise, 6.0, BLOCKS, SMALLEST)
    expected, moments = reference.vae_loss(params, *inputs)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    assert losses.loss == loss
    expected = differences(lambda params: reference.vae_loss(params, *inputs)[0][0], params)
    agree(gradient, expected, 2e-4)  # biases before a normalization have the gradient that rounding leaves
    moved = jax.tree.map(lambda old, new: 0.9 * np.asarray(old) + 0.1 * new, model.statistics, moments)
    agree(statistics, moved)


@pytest.fixture(scope="module")
def gan():
    model = GAN.begin(jax.random.key(0)).model
    critic, generator = stirred(model.critic), stirred(model.generator)
    return model._replace(critic=critic, generator=generator)


WEIGHTS = infogan.Settings()._replace(information=jnp.float32(6), penalty=jnp.float32(10))
CODES = np.random.default_rng(2).uniform(-1, 1, (5, 2)).astype(np.float32)
PLACES = np.random.default_rng(3).uniform(size=(5, 1, 1, 1)).astype(np.float32)


def test_the_loss_of_the_critic_and_its_gradient_are_those_of_float64(gan):
    """The penalty's gradient is a derivative of a derivative through patches and products."""
    fakes, _ = jax.jit(GAN._generated)(gan, jnp.asarray(CODES))
    inputs = (jnp.asarray(CODES), fakes, resnet_vae.signed(jnp.asarray(IMAGES)), jnp.asarray(PLACES))
    graded = jax.jit(jax.grad(lambda params: GAN.critic_loss(params, *inputs, WEIGHTS), has_aux=True))
    gradient, losses = graded(gan.critic)
    critic, doubled = double(gan.critic), double(inputs)
    expected = reference.critic_loss(critic, *doubled, (6, 10), BLOCKS)
    found = (losses.critic, losses.distance, losses.penalty, losses.information)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    loss = lambda params: reference.critic_loss(params, *doubled, (6, 10), BLOCKS)[0]  # noqa: E731
    agree(gradient, differences(loss, critic, step=1e-5))  # of differences already


def test_the_loss_of_the_generator_and_its_gradient_are_those_of_float64(gan):
    def loss(params):
        images, _ = GAN._generated(gan._replace(generator=params), jnp.asarray(CODES))
        return GAN.generator_loss(gan.critic, jnp.asarray(CODES), images, WEIGHTS)

    value, gradient = jax.jit(jax.value_and_grad(loss))(gan.generator)
    generator, critic = double(gan.generator), double(gan.critic)
    inputs = (critic, CODES.astype(np.float64), (6, 10), BLOCKS, SMALLEST)
    # Two parts of order one nearly cancel.
    assert abs(value - reference.generator_loss(generator, *inputs)) < 1e-6
    agree(gradient, differences(lambda params: reference.generator_loss(params, *inputs), generator))


def test_on_accelerators_the_critic_takes_a_few_images_at_a_time(monkeypatch):
    method = dataclasses.replace(GAN, channels=(2, 3), batch_size=4)
    state, key = method.begin(jax.random.key(0)), jax.random.key(1)
    state = state._replace(model=state.model._replace(critic=stirred(state.model.critic)))

    def updated(images):
        with tracing_for("gpu"):
            traced = jax.jit(lambda state: method._update_critic(state, key, WEIGHTS, images)).trace(state)
        return "scan" in str(traced.jaxpr), traced.lower().compile()(state)[1:]

    images = resnet_vae.signed(jnp.asarray(IMAGES[:4]))
    in_parts, (losses, gradients) = updated(images)
    monkeypatch.setattr(infogan, "CRITIC_BATCH", 2)
    are_parts, found = updated(images)
    assert (in_parts, are_parts) == (False, True)
    agree(found, (losses, gradients))


def test_the_generator_waits_for_the_critic_once():
    source, small = as_source(IMAGES), dataclasses.replace(GAN, channels=(2,))
    state = small.begin(jax.random.key(0))
    update = jax.jit(lambda state, step: small.update(state, step, jax.random.key(1), infogan.Settings(), source))
    first, _ = update(state, jnp.int32(0))
    assert largest_difference(first.model.generator, state.model.generator) == 0
    assert largest_difference(first.model.critic, state.model.critic) > 0
    assert first.critic_moments.count == 2
    second, losses = update(first, jnp.int32(1))
    assert largest_difference(second.model.generator, first.model.generator) > 0
    assert second.generator_moments.count == 1
    # Each pass of the generator moves the running moments: two updates of the critic, three passes with its own.
    assert largest_difference(first.model.statistics, state.model.statistics) > 0
    assert np.isfinite(losses).all()


def test_the_papers_networks_have_their_sizes():
    """7.65 and 7.59 million parameters."""
    method = models.ResnetVae(image_shape=(64, 64, 3))
    images, codes = jnp.zeros((1, 64, 64, 3)), jnp.zeros((1, 10))
    encoder = method.encoder(20, by_batch=True)
    for module, inputs, millions in ((encoder, images, 7.65), (method.decoder, codes, 7.59)):
        shapes = shapes_of(module, inputs)["params"]
        count = sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(shapes))
        assert round(count / 1e6, 2) == millions
    with pytest.raises(ValueError, match=r"^channels: needs at least one entry, and images with sides divisible by 4"):
        models.InfoGan((2, 3, 4), image_shape=(6, 8, 1))


def test_a_generator_is_traversed_over_its_prior(images):
    method = models.InfoGan((2,), 3, batch_size=4, critic_updates=1)
    zoo = models.train(
        models.Config("squares", method=method, steps=2), *models.members({"infogan": {}}, 1), data=images
    )
    sheet = traversals(zoo, images[:2], values=np.linspace(-1, 1, 4))
    assert sheet.shape == (1, 2, 3, 4, 8, 8, 1)
    assert np.abs(np.diff(sheet, axis=3)).max() > 0
    np.testing.assert_array_equal(zoo.encode(images[:3]).variance, 1)
