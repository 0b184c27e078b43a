"""GENESIS against float64 NumPy."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit, log_expit

from jaxdis import models
from tests.models.methods.derived import double, flat, layer, nested
from tests.models.methods.slots import written_out as out
from tests.programs import compiled_whole

SMALL = models.Genesis(
    num_slots=3,
    num_codes=2,
    num_mask_codes=2,
    batch_size=3,
    mask_encoder=(2, 3),
    mask_strides=(1, 2),
    mask_decoder=(3, 2, 2),
    features=3,
    units=3,
    prior_units=3,
    encoder=(3,),
    encoder_hidden=4,
    decoder=(3,),
    # Batch normalization cancels some gradients, and a small ε would turn what rounding leaves of them into steps.
    optimizer=models.Adam(epsilon=1e-2),
).resolved(out.SHAPE)
SETTINGS = out.settings(SMALL, deviation=0.5, learning_rate=1e-2)
UPDATE = jax.jit(SMALL.update)


class Norm:
    """Batch normalization in training or with given moments, which notes what it saw."""

    def __init__(self, moments=None):
        self.moments, self.seen = moments, {}

    def __call__(self, name, params, x):
        norm = f"normalization_{name[-1]}"
        x = x + params[name]["bias"]
        self.seen[norm] = x.mean((0, 1, 2)), x.var((0, 1, 2))
        mean, variance = self.seen[norm] if self.moments is None else self.moments[norm].values()
        return (x - mean) / np.sqrt(variance + 1e-5) * params[norm]["scale"] + params[norm]["bias"]


def gated(x):
    value, gate = np.split(x, 2, axis=-1)
    return value * expit(gate)


def features(params, images, norm):
    x = gated(norm("convolution_0", params, out.correlate(images, params["convolution_0"]["kernel"], 1, 2)))
    x = gated(norm("convolution_1", params, out.correlate(x, params["convolution_1"]["kernel"], 2, 2)))
    return gated(layer(params["features"], x.reshape(len(x), -1)))


def logits(params, codes, norm):
    """Of the codes of all slots at once, which are one batch."""
    first = params["transposed_first"]
    x = gated(np.einsum("nd,hwdo->nhwo", codes, first["kernel"]) + first["bias"])
    x = gated(norm("transposed_0", params, out.spread(x, params["transposed_0"]["kernel"])))
    x = gated(norm("transposed_1", params, out.correlate(x, params["transposed_1"]["kernel"], 1, 2)))
    return layer(params["logits"], x)[..., 0]


def drawn(outputs, normal):
    mean, raw = np.split(outputs, 2, axis=1)
    return mean, out.deviation(raw), mean + out.deviation(raw) * normal


def prior(outputs):
    mean, raw = np.split(outputs, 2, axis=1)
    return np.tanh(mean), expit(raw + 4) + 1e-4


def divergence(draw, of_prior):
    mean, sigma, codes = draw
    return (out.log_normal(codes, mean, sigma) - out.log_normal(codes, *of_prior)).sum(1).mean()


def forward(params, images, noise, moments=None):
    """Draws of both codes, logarithms of masks, pictures and normalizations, over slots."""
    norms = {name: Norm(moments and moments[name]) for name in ("mask_encoder", "mask_decoder")}
    h = features(params["mask_encoder"], images, norms["mask_encoder"])
    of_masks = [drawn(layer(params["first"], h), noise[0][0])]
    memory = (np.zeros((len(h), 3)),) * 2
    for normal in noise[0][1:]:
        memory = out.lstm(params["memory"], np.concatenate([h, of_masks[-1][2]], 1), memory)
        of_masks.append(drawn(layer(params["next"], memory[0]), normal))
    batch = np.concatenate([codes for _, _, codes in of_masks])
    maps = np.split(logits(params["mask_decoder"], batch, norms["mask_decoder"]), 3)
    scope, log_masks = np.zeros_like(maps[0]), []
    for row in maps[:-1]:
        log_masks.append(scope + log_expit(row))
        scope = scope + log_expit(-row)
    log_masks.append(scope)
    of_pictures, shown = [], []
    for log_mask, normal in zip(log_masks, noise[1], strict=True):
        inputs = np.concatenate([images, log_mask[..., None]], -1)
        of_pictures.append(drawn(out.encoder(params["encoder"], inputs, out.elu), normal))
        shown.append(expit(out.broadcast(params["decoder"], of_pictures[-1][2], out.elu)))
    return of_masks, of_pictures, log_masks, shown, norms


def loss(params, multiplier, noise, images, regularized=True):
    of_masks, of_pictures, log_masks, shown, norms = forward(params, images, noise)
    error = out.error(images, shown, log_masks, (0.5,) * 3, "channel").mean()
    mask_kl, memory = divergence(of_masks[0], (0, 1)), (np.zeros((len(images), 3)),) * 2
    for before, draw in zip(of_masks, of_masks[1:], strict=False):
        memory = out.lstm(params["prior_memory"], before[2], memory)
        mask_kl += divergence(draw, prior(layer(params["prior"], memory[0])))
    kl, p = 0.0, params["component_prior"]
    for draw, (_, _, codes) in zip(of_pictures, of_masks, strict=True):
        hidden = out.elu(layer(p["dense_1"], out.elu(layer(p["dense_0"], codes))))
        kl += divergence(draw, prior(layer(p["dense_2"], hidden)))
    return error + multiplier * (kl + mask_kl) * regularized, (error, kl, mask_kl), norms


def begun():
    state = compiled_whole(SMALL.begin)(jax.random.key(3))
    rng = np.random.default_rng(7)
    statistics = jax.tree.map(lambda m: m + rng.random(m.shape).astype(np.float32), state.model.statistics)
    return state._replace(model=type(state.model)(out.jittered(state.model.params), statistics))


@pytest.mark.parametrize("regularized", [True, False])
def test_loss_and_gradients(regularized):
    method = dataclasses.replace(SMALL, regularized=regularized)
    model, images = begun().model, out.pictures()
    noise = method.noise(jax.random.key(1), 3)

    def ours(params):
        return method.loss(model._replace(params=params), jnp.float32(1.7), noise, SETTINGS, jnp.float32(images))

    gradients, (losses, statistics) = jax.jit(jax.grad(ours, has_aux=True))(model.params)
    wanted, parts, norms = loss(nested(flat(model.params)), 1.7, double(noise), images, regularized)
    np.testing.assert_allclose(losses.loss, wanted, rtol=1e-5)
    np.testing.assert_allclose(losses[1:4], parts, rtol=2e-5)
    for part, norm in norms.items():
        for name, (mean, variance) in norm.seen.items():
            before, after = model.statistics[part][name], statistics[part][name]
            np.testing.assert_allclose(after["mean"], 0.9 * before["mean"] + 0.1 * mean, rtol=1e-4, atol=1e-6)
            np.testing.assert_allclose(after["var"], 0.9 * before["var"] + 0.1 * variance, rtol=1e-4)

    def numeric(params):
        return loss(params, 1.7, double(noise), images, regularized)[0]

    # Batch normalization takes away what is the same everywhere.
    biases = [f"mask_encoder/convolution_{i}/bias" for i in range(2)]
    biases += [f"mask_decoder/transposed_{i}/bias" for i in range(2)]
    priors = [] if regularized else ["prior", "component_prior"]
    out.assert_gradients(gradients, numeric, model.params, without=(*biases, *priors))


def test_micro_batches_have_the_update_of_the_batch():
    out.assert_micro_batches(SMALL, begun(), SETTINGS)


def test_an_update_moves_the_multiplier():
    state, source, key = begun(), out.source(), jax.random.key(9)
    new, losses = UPDATE(state, jnp.int32(0), key, SETTINGS, source)
    data_key, noise_key = jax.random.split(key)
    images = np.asarray(source.images(data_key, 3), np.float64)
    wanted, (error, _, _), _ = loss(nested(flat(state.model.params)), 1.0, double(SMALL.noise(noise_key, 3)), images)
    np.testing.assert_allclose(losses.loss, wanted, rtol=1e-5)
    slack = 0.5655 * math.prod(out.SHAPE) - error
    factor = np.exp(1e-5 * 64**2 / 24 * slack * (10 if slack > 0 else 1))
    np.testing.assert_allclose(new.geco.multiplier, factor, rtol=1e-4)
    # The next update's loss has the new multiplier.
    _, then = UPDATE(new._replace(model=state.model), jnp.int32(1), key, SETTINGS, source)
    np.testing.assert_allclose(then.loss, error + factor * (losses.kl + losses.mask_kl), rtol=1e-5)


def test_slots_are_means_by_running_moments_and_masks_sum_to_one():
    model, images = begun().model, out.pictures()
    silence = np.zeros((2, 3, 1, 1))
    of_masks, of_pictures, log_masks, shown, _ = forward(
        nested(flat(model.params)), images, silence, double(model.statistics)
    )
    slots = jax.jit(SMALL.represent)(model, jnp.float32(images))
    codes = [np.concatenate([u[0], z[0]], 1) for u, z in zip(of_masks, of_pictures, strict=True)]
    assert slots.codes.shape == (3, 3, 4)
    np.testing.assert_allclose(slots.codes, np.stack(codes, 1), rtol=1e-4, atol=1e-5)
    masks = np.exp(log_masks).transpose(1, 0, 2, 3)
    np.testing.assert_allclose(slots.masks, masks, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(slots.masks.sum(1), 1, rtol=1e-5)
    parts = SMALL.decode_parts(model, slots.codes)
    np.testing.assert_allclose(parts.masks, masks, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(parts.pictures, np.stack(shown, 1), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        SMALL.decode(model, slots.codes), np.einsum("nshw,nshwc->nhwc", masks, np.stack(shown, 1)), rtol=1e-4, atol=1e-5
    )


def test_unsuitable_strides_are_refused():
    with pytest.raises(
        ValueError, match=r"^strides: needs images with sides divisible by 4, got images of shape \(30, 30"
    ):
        models.Genesis().resolved((30, 30, 3)).begin(jax.random.key(0))
    with pytest.raises(ValueError, match="^mask_strides: must be 1 or 2 for each of mask_encoder"):
        models.Genesis(mask_strides=(1, 2, 1, 2))
