"""MONet against float64 NumPy."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit, log_expit

from jaxdis import models
from tests.models.methods.derived import flat, layer, nested
from tests.models.methods.slots import written_out as out
from tests.programs import compiled_whole

SMALL = models.Monet(
    num_slots=3,
    num_codes=2,
    batch_size=3,
    attention=(2, 3),
    attention_hidden=6,
    encoder=(3,),
    encoder_hidden=4,
    decoder=(3, 2),
    optimizer=models.Adam(),
).resolved(out.SHAPE)
SETTINGS = out.settings(SMALL, goal=-1.0, gamma=0.7, background_deviation=0.3, deviation=0.5, learning_rate=1e-2)
VARIANTS = {
    "attention": {},
    "decoder": {"decoder_masks": True, "mixture": "pixel", "kl": "exact"},
    "unregularized": {"regularized": False},
}


def block(params, x):
    x, norm = out.correlate(x, params["conv"]["kernel"], 1, 1), params["norm"]
    x = (x - x.mean((1, 2), keepdims=True)) / np.sqrt(x.var((1, 2), keepdims=True) + 1e-5)
    return out.relu(x * norm["scale"] + norm["bias"])


def unet(params, x):
    """Two blocks down and two up."""
    first = block(params["down_0"], x)
    second = block(params["down_1"], first[:, ::2, ::2])
    dense = second.reshape(len(x), -1)
    for i in range(3):
        dense = out.relu(layer(params[f"dense_{i}"], dense))
    up = block(params["up_0"], np.concatenate([dense.reshape(second.shape), second], -1))
    up = block(params["up_1"], np.concatenate([up.repeat(2, axis=1).repeat(2, axis=2), first], -1))
    return layer(params["logits"], up)[..., 0]


def forward(params, images, noise):
    """Masks of attention, posteriors, draws, pictures and masks of the decoder, as lists over slots."""
    scope, log_masks = np.zeros(images.shape[:3]), []
    for _ in range(2):
        logits = unet(params["attention"], np.concatenate([images, scope[..., None]], -1))
        log_masks.append(scope + log_expit(logits))
        scope = scope + log_expit(-logits)
    log_masks.append(scope)
    posteriors, draws, shown, logits = [], [], [], []
    for log_mask, normal in zip(log_masks, noise, strict=True):
        outputs = out.encoder(params["encoder"], np.concatenate([images, log_mask[..., None]], -1), out.relu)
        mean, sigma = outputs[:, :2], out.deviation(outputs[:, 2:])
        draws.append(mean + sigma * normal)
        posteriors.append((mean, sigma))
        decoded = out.broadcast(params["decoder"], draws[-1], out.relu)
        shown.append(expit(decoded[..., :-1]))
        logits.append(decoded[..., -1])
    priors = np.exp(logits) / np.exp(logits).sum(0)
    return np.array(log_masks), posteriors, draws, shown, np.log(priors)


def loss(method, params, multiplier, noise, images):
    log_masks, posteriors, draws, shown, log_priors = forward(params, images, noise)
    used = log_priors if method.decoder_masks else log_masks
    error = out.error(images, shown, used, (0.3, 0.5, 0.5), method.mixture).mean()
    m, p = (np.maximum(np.exp(logs), 1e-5) for logs in (log_masks, log_priors))
    m, p = m / m.sum(0), p / p.sum(0)
    mask_kl = (m * np.log(m / p)).sum((0, 2, 3)).mean()
    kl = 0.0
    for (mean, sigma), draw in zip(posteriors, draws, strict=True):
        if method.kl == "exact":
            kl += (0.5 * (mean**2 + sigma**2 - 1) - np.log(sigma)).sum(1).mean()
        else:
            kl += (out.log_normal(draw, mean, sigma) - out.log_normal(draw, 0, 1)).sum(1).mean()
    weighed = multiplier * kl if method.regularized else 0
    return error + 0.7 * mask_kl + weighed, (error, kl, mask_kl)


def begun(method):
    state = compiled_whole(method.begin)(jax.random.key(3))
    return state._replace(model=state.model._replace(params=out.jittered(state.model.params)))


def test_the_loss_is_that_of_the_paper():
    """Of which the test below takes the gradients."""
    model, images, noise = begun(SMALL).model, out.pictures(), SMALL.noise(jax.random.key(1), 3)
    losses, _ = compiled_whole(SMALL.loss)(model, jnp.float32(1.7), noise, SETTINGS, jnp.float32(images))[1]
    wanted, parts = loss(SMALL, nested(flat(model.params)), 1.7, np.asarray(noise, np.float64), images)
    np.testing.assert_allclose(losses.loss, wanted, rtol=1e-5)
    np.testing.assert_allclose(losses[1:4], parts, rtol=2e-5)


@pytest.mark.parametrize("name", VARIANTS)
def test_loss_and_gradients(name):
    method = dataclasses.replace(SMALL, **VARIANTS[name])
    model, images = begun(method).model, out.pictures()
    noise = method.noise(jax.random.key(1), 3)

    def ours(params):
        return method.loss(model._replace(params=params), jnp.float32(1.7), noise, SETTINGS, jnp.float32(images))

    gradients, (losses, _) = jax.jit(jax.grad(ours, has_aux=True))(model.params)
    normal = np.asarray(noise, np.float64)
    wanted, parts = loss(method, nested(flat(model.params)), 1.7, normal, images)
    np.testing.assert_allclose(losses.loss, wanted, rtol=1e-5)
    np.testing.assert_allclose(losses[1:4], parts, rtol=2e-5)
    out.assert_gradients(gradients, lambda params: loss(method, params, 1.7, normal, images)[0], model.params)


@pytest.mark.parametrize("regularized", [True, False])
def test_an_update_moves_the_multiplier(regularized):
    method = dataclasses.replace(SMALL, regularized=regularized)
    state, source, key = begun(method), out.source(), jax.random.key(9)
    new, losses = jax.jit(method.update)(state, jnp.int32(0), key, SETTINGS, source)
    data_key, noise_key = jax.random.split(key)
    images = np.asarray(source.images(data_key, 3), np.float64)
    noise = np.asarray(method.noise(noise_key, 3), np.float64)
    wanted, (error, _, _) = loss(method, nested(flat(state.model.params)), 1.0, noise, images)
    np.testing.assert_allclose(losses.loss, wanted, rtol=1e-5)
    if not regularized:
        assert (float(new.geco.multiplier), bool(new.geco.begun), float(losses.multiplier)) == (1, False, 0)
        return
    # The goal is per pixel and channel, the step for 64 × 64 pixels; the least multiplier is 1, hence a goal above.
    np.testing.assert_allclose(new.geco.average, error, rtol=1e-5)
    easy = SETTINGS._replace(goal=jnp.float32(20))
    new, _ = jax.jit(method.update)(state, jnp.int32(0), key, easy, source)
    slack = 20 * math.prod(out.SHAPE) - error
    np.testing.assert_allclose(new.geco.multiplier, np.exp(10 * 1e-5 * 64**2 / 24 * slack), rtol=1e-4)


def test_micro_batches_have_the_update_of_the_batch():
    without = "decoder/last/bias"  # the bias of all logits has the sign of rounding
    out.assert_micro_batches(SMALL, begun(SMALL), SETTINGS, without=without)


@pytest.mark.parametrize("decoder_masks", [False, True])
def test_slots_are_means_and_masks_sum_to_one(decoder_masks):
    method = dataclasses.replace(SMALL, decoder_masks=decoder_masks)
    model, images = begun(method).model, out.pictures()
    log_masks, posteriors, _, shown, log_priors = forward(nested(flat(model.params)), images, np.zeros((3, 1, 2)))
    slots = compiled_whole(method.represent)(model, jnp.float32(images))
    np.testing.assert_allclose(slots.codes, np.stack([mean for mean, _ in posteriors], 1), rtol=1e-4, atol=1e-5)
    masks = np.exp(log_priors if decoder_masks else log_masks).transpose(1, 0, 2, 3)
    np.testing.assert_allclose(slots.masks, masks, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(slots.masks.sum(1), 1, rtol=1e-5)
    parts = compiled_whole(method.parts)(model, jnp.float32(images))
    np.testing.assert_allclose(parts.pictures, np.stack(shown, 1), rtol=1e-4)
    np.testing.assert_allclose(
        parts.reconstruction, np.einsum("nshw,nshwc->nhwc", masks, np.stack(shown, 1)), rtol=1e-4
    )
    # Codes alone are decoded with the decoder's masks, slot by slot in any order.
    decode_parts = compiled_whole(method.decode_parts)
    decoded = decode_parts(model, slots.codes)
    np.testing.assert_allclose(decoded.masks, np.exp(log_priors).transpose(1, 0, 2, 3), rtol=1e-4, atol=1e-6)
    turned = decode_parts(model, slots.codes[:, ::-1])
    np.testing.assert_allclose(turned.masks, decoded.masks[:, ::-1], rtol=1e-5)
    np.testing.assert_allclose(
        compiled_whole(method.decode)(model, slots.codes[:, ::-1]), decoded.reconstruction, rtol=1e-5
    )


def test_goals_may_be_negative_and_nothing_else():
    found = models.members({"monet": {"goal": [-1.0, -2.0]}}, 1, models.Monet())
    assert found.hyperparameters.goal.tolist() == [-1, -2]
    assert [label["goal"] for label in found.labels] == [-1, -2]
    with pytest.raises(ValueError, match="^monet, gamma: must be a finite number of at least 0 or a sequence of them"):
        models.members({"monet": {"gamma": -1.0}}, 1, models.Monet())
    with pytest.raises(ValueError, match="^monet, goal: must be a finite number or a sequence of them"):
        models.members({"monet": {"goal": np.nan}}, 1, models.Monet())


def test_unsuitable_fields_are_refused():
    with pytest.raises(
        ValueError, match=r"^attention: needs for 5 blocks images with sides divisible by 16, got images"
    ):
        models.Monet().resolved((24, 32, 3))
    with pytest.raises(ValueError, match="^micro_batch: must be a divisor of batch_size 32, got 5"):
        models.Monet(micro_batch=5)
    sizes = [models.Monet(batch_size=n).tuned("cpu").micro_batch for n in (32, 9, 7)]
    assert sizes == [4, 3, 1]
    assert [models.Monet(batch_size=n).tuned("gpu").micro_batch for n in (32, 9, 34)] == [16, 9, 34]
    assert models.Genesis().tuned("gpu").micro_batch is None
    with pytest.raises(ValueError, match="^num_slots: must be at least 2, got 1"):
        models.Monet(num_slots=1)
