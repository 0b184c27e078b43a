"""Every learner that iterates, again with ten times the iterations, where few end at the optimum.

Few samples, many codes, classes that are separable or rare, codes that nearly copy each other or are far from 0, and
weak penalties: what is reported moves by less than the learner's docstring says.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdis import Factors
from jaxdis._learners import linear, logistic, margins
from jaxdis.metrics import _unsupervised as unsupervised
from tests.programs import compiled_whole

REGIMES = {
    "many codes": (200, 100, (2, 5), 0.0, 0.0),
    "few samples": (30, 8, (2, 12), 0.0, 0.0),
    "near copies": (400, 12, (2, 4), 0.01, 0.0),
    "far from 0": (400, 12, (2, 4), 0.0, 100.0),
    "rare classes": (1000, 6, (2, 30), 0.0, 0.0),
}
every_regime = pytest.mark.parametrize("regime", REGIMES)
# One program for all penalties and numbers of iterations.
fit_margins = jax.jit(margins.fit_margins, static_argnames="size")
margin_accuracy = jax.jit(margins.margin_accuracy)
lasso_standardized = jax.jit(linear.lasso_standardized)


def draw(regime: str):
    n, d, sizes, copies, offset = REGIMES[regime]
    rng = np.random.default_rng(0)
    values = np.stack([np.minimum(rng.geometric(0.3, n) - 1, size - 1) for size in sizes], axis=1)
    codes = values @ rng.normal(size=(2, d)) + rng.normal(size=(n, d))
    if copies:
        codes[:, d // 2 :] = codes[:, : d - d // 2] + copies * rng.normal(size=(n, d - d // 2))
    return np.asarray(codes + offset, np.float32), np.asarray(values, np.int32), sizes


@functools.partial(jax.jit, static_argnums=2)
def logistic_optimum(codes, values, sizes, inverse_penalty, steps):
    """Each factor's objective where the fit ends."""
    model = logistic.fit_logistic(codes, values, sizes, inverse_penalty=inverse_penalty, steps=steps)
    log_probability = logistic.log_probabilities(model, codes, sizes)
    places = values + np.array([[0, sizes[0]]], np.int32)
    loss = -jnp.take_along_axis(log_probability, places, axis=1).sum(axis=0)
    parts = jnp.split(model.coefficients, [sizes[0]], axis=1)
    halves = np.array([2.0 if size == 2 else 1.0 for size in sizes], np.float32)  # two classes share one vector
    return loss + 0.5 * halves * jnp.stack([(part**2).sum() for part in parts]) / inverse_penalty


@every_regime
@pytest.mark.parametrize("inverse_penalty", [0.01, 1.0, 1e4])
def test_logistic_regression(regime, inverse_penalty):
    """The objective is within 1e-6 of the optimum up to 100, and 1e-4 beyond, where separable classes have it at 0."""
    codes, values, sizes = draw(regime)
    few, many = (
        np.asarray(logistic_optimum(codes, values, sizes, np.float32(inverse_penalty), steps))
        for steps in (logistic.STEPS, 10 * logistic.STEPS)
    )
    per_sample = 1e-7 * len(codes)  # where a step is expected to gain less, descent ends
    assert (few - many <= (1e-5 if inverse_penalty <= 100 else 1e-3) * many + per_sample).all()


fit_whole = compiled_whole(fit_margins)


@every_regime
def test_margins(regime):
    codes, values, sizes = draw(regime)
    ordered = compiled_whole(margins.sorted_sums)(codes)
    for j, size in enumerate(sizes):
        accuracy = [
            compiled_whole(margin_accuracy)(
                fit_whole(codes, values[:, j], size, ordered, inverse_penalty=penalty, steps=jnp.int32(steps)),
                codes,
                values[:, j],
            )
            for penalty in (0.01, 100.0)
            for steps in (margins.NEWTON_STEPS, 10 * margins.NEWTON_STEPS)
        ]
        # A line that moves in its last places may leave one sample on its other side.
        np.testing.assert_allclose(accuracy[0], accuracy[1], atol=1.01 / len(codes))
        np.testing.assert_allclose(accuracy[2], accuracy[3], atol=1.01 / len(codes))


@every_regime
@pytest.mark.parametrize("penalty", [0.02, 1e-3])
def test_lasso(regime, penalty):
    codes, values, _ = draw(regime)
    few, many = (
        lasso_standardized(codes, values.astype(np.float32), penalty, sweeps=sweeps).weights
        for sweeps in (linear.SWEEPS, 10 * linear.SWEEPS)
    )
    np.testing.assert_allclose(few, many, atol=1e-5)


@pytest.mark.parametrize("regime", ["many codes", "near copies", "far from 0"])
def test_wasserstein_dependence(regime, monkeypatch):
    codes, *_ = draw(regime)
    few = wasserstein(codes, 1)
    for name in ("NEWTON_STEPS", "CONJUGATE_STEPS"):
        monkeypatch.setattr(unsupervised, name, 10 * getattr(unsupervised, name))
    assert wasserstein(codes, 10) == pytest.approx(float(few), rel=1e-4)


@functools.partial(jax.jit, static_argnums=1)
def wasserstein(codes, _times):
    """Traced with the numbers of now, anew for another multiple of them."""
    factors = Factors.of(np.zeros((len(codes), 1), int))
    return unsupervised.total_correlation(jax.random.key(0), codes, factors).wasserstein


@pytest.mark.parametrize("scale", [1e-3, 1e-5, 1e-12, 1e-25])
def test_machines_of_two_classes_do_not_depend_on_the_scale_of_small_codes(scale):
    """All samples have a loss, and slopes are hardly penalized: only the signs of codes about a threshold count.

    Rounded balanced weights once outweighed the slopes: .318 for .774.
    """
    rng = np.random.default_rng(0)
    classes = np.asarray(rng.random(300) < 0.3, np.int32)
    codes = np.asarray(0.8 * np.asarray(classes) + 0.5 * rng.normal(size=300), np.float32)[:, None]

    found, expected = (float(accuracy_of_machines(codes, classes, np.float32(each))) for each in (scale, 1e-2))
    assert found == pytest.approx(expected, abs=1.01 / 300)


@jax.jit
def accuracy_of_machines(codes, classes, scale):
    train, held_out = margins.lifted(scale * codes, scale * codes)
    model = margins.fit_margins(train, classes, 2, margins.sorted_sums(train))
    return margins.margin_accuracy(model, held_out, classes)[0]
