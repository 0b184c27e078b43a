"""IODINE against float64 NumPy: gradients that it reads by differences, those of its loss with inputs held fixed."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit, logsumexp, softmax

from jaxdis import models
from tests.models.methods.derived import flat, layer, nested
from tests.models.methods.slots import written_out as out
from tests.models.reference import gradient

SMALL = models.Iodine(
    num_slots=2,
    num_codes=2,
    batch_size=2,
    refinements=2,
    decoder=(3,),
    kernel=3,
    refiner=(3,),
    units=3,
).resolved(out.SHAPE)
SETTINGS = out.settings(SMALL, deviation=0.5, learning_rate=1e-2)
SIGMA = 0.5
VARIANTS = {
    "released": {},
    "unregularized": {"regularized": False, "mixture": "pixel", "ramp": "printed"},
    "output": {"reads_cell": False},
}


def decoded(params, codes):
    """Pictures and logits, ``[s, n, …]``."""
    outputs = np.stack([out.broadcast(params, code, out.elu, grown=False) for code in codes])
    return expit(outputs[..., :-1]), outputs[..., -1]


def mixed(method, images, shown, masks):
    """Log-likelihoods by pixel, or by pixel and channel, and those of each slot."""
    alone = np.stack([out.log_normal(images, picture, SIGMA) for picture in shown])
    terms = alone.sum(-1, keepdims=True) if method.mixture == "pixel" else alone
    return logsumexp(terms + np.log(masks + 1e-12)[..., None], axis=0), alone


def parts_of(method, params, mean, log_variance, normal, images):
    """Error and KL divergence of each image."""
    shown, logits = decoded(params["decoder"], mean + np.exp(log_variance / 2) * normal)
    error = -mixed(method, images, shown, softmax(logits, axis=0))[0].sum((1, 2, 3))
    return error, 0.5 * (mean**2 + np.exp(log_variance) - log_variance - 1).sum((0, 2))


def evidence(method, *arguments):
    error, kl = parts_of(method, *arguments)
    return -error - (kl if method.regularized else 0)


def slopes(function, array):
    """Derivatives of a scalar by central differences."""
    return gradient(lambda moved: function(moved["array"]), {"array": array}, 1e-5)["array"]


def standard(array, ddof=0):
    """Over all but slots and images."""
    flat_ = array.reshape(*array.shape[:2], -1)
    scaled = (flat_ - flat_.mean(-1, keepdims=True)) / (flat_.std(-1, keepdims=True, ddof=ddof) + 1e-5)
    return scaled.reshape(array.shape)


def inputs(method, params, mean, log_variance, normal, images):
    """What the refinement network reads, in the order of the documentation."""
    shown, logits = decoded(params["decoder"], mean + np.exp(log_variance / 2) * normal)
    masks = softmax(logits, axis=0)
    whole, alone = mixed(method, images, shown, masks)
    of_pictures = slopes(lambda moved: mixed(method, images, moved, masks)[0].sum(), shown)
    of_masks = slopes(lambda moved: mixed(method, images, shown, moved)[0].sum(), masks)
    of_mean = slopes(lambda m: evidence(method, params, m, log_variance, normal, images).sum(), mean)
    of_variance = slopes(lambda v: evidence(method, params, mean, v, normal, images).sum(), log_variance)
    density = np.exp(alone.sum(-1))
    total = (masks * density).sum(0)
    without = np.stack([(total - m * d) / (1 - m + 1e-5) for m, d in zip(masks, density, strict=True)])
    likelihood = np.stack([np.exp(whole.sum(-1))] * len(masks))
    height, width = out.SHAPE[:2]
    rows, columns = np.meshgrid(np.linspace(-1, 1, height), np.linspace(-1, 1, width), indexing="ij")
    maps = [np.stack([images] * len(masks)), shown]
    maps += [m[..., None] for m in (masks, logits, density / density.sum(0))]
    maps += [standard(of_pictures), *(standard(m)[..., None] for m in (of_masks, likelihood, without))]
    maps += [np.broadcast_to(m[None, None, ..., None], (*masks.shape, 1)) for m in (rows, columns)]
    vectors = [mean, log_variance, standard(of_mean, 1), standard(of_variance, 1)]
    return np.concatenate(maps, -1), np.concatenate(vectors, -1)


def change(method, params, read, memory):
    """Of one slot: changes of mean and log-variance, and the memory (hidden, cell)."""
    maps, vectors = read
    p = params["refinement"]
    x = out.elu(out.correlate(maps, p["convolution_0"]["kernel"], 2, 1) + p["convolution_0"]["bias"])
    x = out.elu(out.elu(layer(p["dense"], x.mean((1, 2)))))
    hidden, cell = out.lstm(p["lstm"], np.concatenate([x, vectors], 1), memory)
    return np.split(layer(p["update"], cell if method.reads_cell else hidden), 2, axis=1), (hidden, cell)


def trajectory(method, params, noise, images):
    """Posteriors before and after each refinement and what was read at each."""
    start = params["start"]
    mean, log_variance = (np.tile(start[name], (2, len(images), 1)) for name in ("mean", "log_variance"))
    posteriors, read, memories = [(mean, log_variance)], [], [(np.zeros((len(images), 3)),) * 2] * 2
    for normal in noise[:-1]:
        mean, log_variance = posteriors[-1]
        read.append(inputs(method, params, mean, log_variance, normal, images))
        steps = [change(method, params, (read[-1][0][k], read[-1][1][k]), memories[k]) for k in range(2)]
        memories = [memory for _, memory in steps]
        posteriors.append(tuple(old + np.stack([step[0][i] for step in steps]) for i, old in enumerate(posteriors[-1])))
    return posteriors, read


def loss(method, params, fixed, noise, images):
    """The loss where what was read, and the posteriors that changes are added to, stay what they are."""
    posteriors, read = fixed
    weights = [1 / 3, 2 / 3, 1] if method.ramp == "released" else [0, 1 / 2, 1]
    start = params["start"]
    current = tuple(np.tile(start[name], (2, len(images), 1)) for name in ("mean", "log_variance"))
    total, memories = 0.0, [(np.zeros((len(images), 3)),) * 2] * 2
    for i, normal in enumerate(noise):
        total -= weights[i] * evidence(method, params, *current, normal, images).mean()
        if i < len(read):
            steps = [change(method, params, (read[i][0][k], read[i][1][k]), memories[k]) for k in range(2)]
            memories = [memory for _, memory in steps]
            current = tuple(old + np.stack([step[0][j] for step in steps]) for j, old in enumerate(posteriors[i]))
    return total, current


def begun(method):
    state = method.begin(jax.random.key(3))
    model = state.model._replace(params=out.jittered(state.model.params))
    return state._replace(model=model._replace(statistics={"deviation": jnp.float32(SIGMA)}))


@pytest.mark.parametrize("name", VARIANTS)
def test_loss_and_gradients(name):
    method = dataclasses.replace(SMALL, **VARIANTS[name])
    model, images = begun(method).model, out.pictures(2)
    noise = method.noise(jax.random.key(1), 2)

    def ours(params):
        return method.loss(model._replace(params=params), jnp.ones(()), noise, SETTINGS, jnp.float32(images))

    gradients, (losses, _) = jax.jit(jax.grad(ours, has_aux=True))(model.params)
    params, normal = nested(flat(model.params)), np.asarray(noise, np.float64)
    fixed = trajectory(method, params, normal, images)
    wanted, last = loss(method, params, fixed, normal, images)
    np.testing.assert_allclose(losses.loss, wanted, rtol=2e-5)
    error, kl = parts_of(method, params, *last, normal[-1], images)
    np.testing.assert_allclose((losses.error, losses.kl), (error.mean(), kl.mean()), rtol=1e-4)
    # The start has a part in the first evidence alone, whose weight may be 0.
    without = () if method.ramp == "released" else ("start",)
    # If outputs are not read, the only ones that have a part, those of the first of two steps, follow a memory of 0.
    without += ("refinement/lstm/ho/kernel",) if method.reads_cell else ()
    out.assert_gradients(gradients, lambda p: loss(method, p, fixed, normal, images)[0], model.params, without=without)


def test_micro_batches_have_the_update_of_the_batch():
    without = "decoder/last/bias"  # the bias of all logits has the sign of rounding
    out.assert_micro_batches(SMALL, begun(SMALL), SETTINGS, without=without)


def test_updates_are_read_from_the_cell_state():
    """The released code takes output and cell for cell and output."""
    model, images = begun(SMALL).model, jnp.float32(out.pictures(2))
    noise = SMALL.noise(jax.random.key(1), 2)
    params = nested(flat(model.params))
    posteriors, _ = trajectory(SMALL, params, np.asarray(noise, np.float64), out.pictures(2))
    found = {}
    for reads_cell in (True, False):
        method = dataclasses.replace(SMALL, reads_cell=reads_cell)
        found[reads_cell] = np.asarray(method.refine(model, noise, jnp.float32(SIGMA), images)[2].mean)
    np.testing.assert_allclose(found[True], posteriors[-1][0], rtol=1e-4, atol=1e-4)
    assert np.abs(found[True] - found[False]).max() > 0.01


def test_permuted_noise_permutes_slots():
    model, images = begun(SMALL).model, jnp.float32(out.pictures(2))
    noise = SMALL.noise(jax.random.key(1), 2)
    run = jax.jit(lambda noise: SMALL.refine(model, noise, jnp.float32(SIGMA), images))
    errors, kls, posterior = run(noise)
    turned = run(noise[:, ::-1])
    np.testing.assert_allclose(turned[2].mean, posterior.mean[::-1], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(turned[0], errors, rtol=1e-5)
    assert np.abs(posterior.mean[0] - posterior.mean[1]).max() > 0.01
    # Without differences in noise, slots stay the same.
    same = run(jnp.broadcast_to(noise[:, :1], noise.shape))[2].mean
    np.testing.assert_allclose(same[0], same[1], rtol=1e-5)


def test_slots_are_last_means_and_masks_sum_to_one():
    model, images = begun(SMALL).model, out.pictures(3)
    slots = jax.jit(SMALL.represent)(model, jnp.float32(images))
    noise = np.asarray(SMALL.noise(jax.random.key(0), 1), np.float64)
    noise = np.broadcast_to(noise, (*noise.shape[:2], 3, noise.shape[3]))
    posteriors, _ = trajectory(SMALL, nested(flat(model.params)), noise, images)
    np.testing.assert_allclose(slots.codes, posteriors[-1][0].transpose(1, 0, 2), rtol=1e-3, atol=1e-4)
    shown, logits = decoded(nested(flat(model.params))["decoder"], posteriors[-1][0])
    masks = softmax(logits, axis=0).transpose(1, 0, 2, 3)
    np.testing.assert_allclose(slots.masks, masks, atol=1e-4)
    np.testing.assert_allclose(slots.masks.sum(1), 1, rtol=1e-5)
    wanted = np.einsum("nshw,snhwc->nhwc", masks, shown)
    np.testing.assert_allclose(SMALL.decode(model, slots.codes), wanted, atol=1e-4)


def test_long_gradients_are_scaled_down_and_short_ones_are_not():
    gradients = {"a": jnp.float32([3.0, 0.0]), "b": jnp.float32([[4.0]])}
    for clip, length in ((2.0, 2), (50.0, 5)):
        clipped = dataclasses.replace(SMALL, clip=clip).clipped(gradients)
        np.testing.assert_allclose(clipped["a"], [0.6 * length, 0], rtol=1e-6)
        np.testing.assert_allclose(clipped["b"], [[0.8 * length]], rtol=1e-6)
    assert SMALL.clipped(gradients) is gradients
