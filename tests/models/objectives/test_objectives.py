import dataclasses
import functools
import inspect
from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdis import models
from jaxdis.models.networks._architectures import Own, begin
from jaxdis.models.objectives import _losses as losses
from jaxdis.models.objectives._losses import Estimator, _log_weights, decompose
from tests.draws import uniform
from tests.models import reference
from tests.programs import compiled_whole

N, D, PIXELS = 6, 3, 16


def init(key):
    shapes = {"mean": (PIXELS, D), "log_variance": (PIXELS, D), "out": (D, PIXELS)}
    keys = jax.random.split(key, 6)
    params = {name: 0.3 * jax.random.normal(k, shape) for k, (name, shape) in zip(keys, shapes.items(), strict=False)}
    biases = {f"{name}_bias": 0.1 * jax.random.normal(keys[3], shape[1:]) for name, shape in shapes.items()}
    return params | biases


def encode(params, images):
    x = images.reshape(images.shape[0], -1)
    return x @ params["mean"] + params["mean_bias"][None], x @ params["log_variance"] + params["log_variance_bias"][
        None
    ]


def decode(params, codes):
    return (codes @ params["out"] + params["out_bias"][None]).reshape(-1, 4, 4, 1)


LINEAR = Own(init, encode, decode, image_shape=(4, 4, 1))
SETTINGS = {
    "beta": {"beta": 3.0},
    "annealed": {"capacity": 20.0, "gamma": 50.0, "capacity_steps": 100.0},
    "factor": {"gamma": 7.0},
    "beta_tc": {"beta": 5.0},
    "dip_i": {"lambda_off_diagonal": 4.0},
    "dip_ii": {"lambda_off_diagonal": 4.0},
}


@functools.cache
def fixed():
    """Parameters, images in [0, 1] and the key of the noise."""
    return jax.jit(init)(jax.random.key(0)), uniform(1, (N, 4, 4, 1)), jax.random.key(2)


@functools.cache
def program(objective: str, estimator: str):
    """One for all settings of an objective."""
    _, images, key = fixed()
    opponent = models.DiscriminatorTraining(network=models.Discriminator(2, 5))
    method = models.Vae(objective, LINEAR, N, estimator, discriminator=opponent)

    def loss(params, discriminator, step, hyper):
        return method.loss(params, discriminator, step, key, hyper, images, 40)[0]

    return jax.jit(jax.value_and_grad(loss))


def value_and_gradient(objective: str, settings: dict, *, at_step: int = 0, estimator="mss", discriminator=()):
    hyper = jax.tree.map(np.float32, models.OBJECTIVES[objective].settings(**settings))
    return program(objective, estimator)(fixed()[0], discriminator, np.int32(at_step), hyper)


def expected(objective: str, settings: dict, *, at_step: int = 0, estimator="mss", ratio=None):
    params, images, key = fixed()
    noise = np.float64(jax.random.normal(key, (N, D)))
    params = {name: np.float64(value) for name, value in params.items()}

    def of(params):
        return reference.loss(
            objective, settings, params, np.float64(images), noise, step=at_step, estimator=estimator, ratio=ratio
        )

    return of(params), reference.gradient(of, params)


def agree(got, wanted):
    np.testing.assert_allclose(got[0], wanted[0], rtol=2e-6)
    for name, gradient in wanted[1].items():
        scale = np.abs(gradient).max()
        np.testing.assert_allclose(got[1][name], gradient, rtol=2e-4, atol=2e-5 * scale)


@pytest.mark.parametrize(
    ("objective", "estimator"),
    [*((name, "mss") for name in models.OBJECTIVES if name != "factor"), ("beta_tc", "mahon2024")],
)
def test_value_and_gradient_against_float64(objective, estimator):
    given = objective, SETTINGS[objective]
    how = {"at_step": 30, "estimator": estimator}
    agree(value_and_gradient(*given, **how), expected(*given, **how))


def test_factor_against_float64():
    discriminator = begin(jax.random.key(3), models.Discriminator(2, 5), jnp.zeros((1, D)), scheme="glorot")[0]
    layers = [jax.tree.map(np.float64, discriminator[name]) for name in sorted(discriminator)]

    def ratio(codes):
        hidden = codes
        for layer in layers[:-1]:
            hidden = hidden @ layer["kernel"] + layer["bias"]
            hidden = np.where(hidden > 0, hidden, 0.2 * hidden)
        logits = hidden @ layers[-1]["kernel"] + layers[-1]["bias"]
        return (logits[:, 0] - logits[:, 1]).mean()

    got = value_and_gradient("factor", SETTINGS["factor"], discriminator=discriminator)
    agree(got, expected("factor", SETTINGS["factor"], ratio=ratio))


def test_beta_tc_of_one_is_the_vae():
    tc = value_and_gradient("beta_tc", {"beta": 1.0})
    vae = value_and_gradient("beta", {"beta": 1.0})
    assert float(tc[0]) == float(vae[0])
    for left, right in zip(jax.tree.leaves(tc[1]), jax.tree.leaves(vae[1]), strict=True):
        np.testing.assert_array_equal(left, right)


def batch():
    mean, log_variance, noise = np.random.default_rng(0).normal(size=(3, 16, 4)).astype(np.float32)
    log_variance -= 1
    return tuple(map(jnp.asarray, (mean + np.exp(log_variance / 2) * noise, mean, log_variance)))


parts = compiled_whole(decompose)


@pytest.mark.parametrize("estimator", get_args(Estimator))
def test_parts_of_the_divergence_against_float64(estimator):
    got = parts(*batch(), num_data=1000, estimator=estimator)
    wanted = reference.parts(*(np.float64(a) for a in batch()), 1000, estimator)
    np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=2e-5)


def test_a_batch_larger_than_its_data_set_is_refused():
    with pytest.raises(ValueError, match="no smaller than the batch"):
        decompose(*batch(), num_data=8, estimator="mss")


def test_an_unknown_estimator_is_refused(monkeypatch):
    monkeypatch.setattr(losses, "estimable", lambda n, num_data, estimator: True)  # types are checked in tests alone
    with pytest.raises(ValueError, match="estimator: must be one of mss, .*, got 'msw'"):
        inspect.unwrap(_log_weights)(4, 10, "msw")


def terms(**changes) -> models.Terms:
    """KL of exactly 2 nats: one code, mean 2, variance 1."""
    row = jnp.full((4, 1), 2.0)
    return dataclasses.replace(models.Terms(jnp.float32(10.0), row, jnp.zeros((4, 1)), row, jnp.int32(0)), **changes)


def test_annealing_by_hand():
    hyper = losses.annealed(capacity=5.0, gamma=100.0, capacity_steps=10.0)
    # C(t) = 0.5 t up to 5: |2 − C| = 2, 1.5, 1, 0.5, 0, 0.5, …, 3, 3
    regularized = jax.jit(lambda step: losses.regularized(terms(step=step), hyper))
    traced = [float(regularized(np.int32(t))) for t in range(13)]
    wanted = [10 + 100 * abs(2 - min(5.0, 0.5 * t)) for t in range(13)]
    np.testing.assert_allclose(traced, wanted, rtol=1e-6)
    assert traced[4] == 10


def test_warm_up_by_hand():
    hyper = losses.beta(beta=3.0, warmup_steps=4.0)
    regularized = jax.jit(lambda step: losses.regularized(terms(step=step), hyper))
    traced = [float(regularized(np.int32(t))) for t in range(6)]
    np.testing.assert_allclose(traced, [10 + 3 * 2 * a for a in (0.25, 0.5, 0.75, 1, 1, 1)], rtol=1e-6)


def test_parts_of_one_weight_are_the_kl_whatever_the_estimator():
    mean = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)

    def regularized(mean):
        whole = terms(mean=mean, log_variance=0.1 * mean, codes=mean + 0.5, num_data=100)
        of = [dataclasses.replace(whole, estimator=name) for name in get_args(Estimator)]
        parts = dict.fromkeys(("mutual_information", "total_correlation", "dimension_wise_kl"), 1.0)
        return [losses.regularized(each, losses.Hyperparameters(kl=0.0, **parts)) for each in of]

    sums = jax.jit(regularized)(mean)
    np.testing.assert_allclose(sums, sums[0], rtol=1e-5)


def test_terms_that_overflow_do_not_leak_through_a_zero_weight():
    wild = terms(log_variance=jnp.full((4, 1), -80.0), codes=jnp.full((4, 1), 1e10))
    assert np.isfinite(jax.jit(lambda: losses.regularized(wild, losses.beta()))())


def test_every_row_is_tested():
    """With the setting that is swept among others than the default."""
    assert set(SETTINGS) == set(models.OBJECTIVES)
    assert all(row.swept in SETTINGS[name] for name, row in models.OBJECTIVES.items())
