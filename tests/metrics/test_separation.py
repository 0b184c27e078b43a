"""SEPIN, INDIN and UniBound: codes of bits, of which all information is known, and a plain float64 estimate."""

import jax
import numpy as np
import pytest
from scipy.special import logsumexp

from jaxdis import METRICS, Factors, evaluate
from jaxdis.factors import Sample
from jaxdis.metrics._metric import apply
from jaxdis.metrics._separation import unibound
from tests.programs import compiled_whole

NAMES = ("sepin", "wsepin", "indin", "windin")
LOG2 = np.log(2)


@jax.jit
def separation(codes, variances):
    factors = Factors.of(np.zeros((len(codes), 1), int))
    sample = Sample(codes.astype(np.float32), factors, None, variances)
    return apply(METRICS["sepin"].relation, jax.random.key(0), sample)


def all_bits(count: int) -> np.ndarray:
    """Every combination of bits equally often, far apart beside posteriors of deviation 1."""
    return 50 * np.stack(np.meshgrid(*[[0, 1]] * count, indexing="ij"), axis=-1).reshape(-1, count).repeat(32, axis=0)


@pytest.mark.parametrize(
    ("made_of", "separate", "independent"),
    [
        (lambda a, b: (a, a, 0 * a), (0, 0, 0), (0, 0, 0)),  # either says it all
        (lambda a, b: (a, b, a), (0, 1, 0), (0, 1, 0)),
        (lambda a, b: (a, b, (a + b) % 100), (0, 0, 0), (0, 0, 0)),  # any two give the third
        (lambda a, b: (a, b, 0 * a), (1, 1, 0), (1, 1, 0)),
    ],
)
def test_information_in_bits_is_known(made_of, separate, independent):
    a, b = all_bits(2).T
    codes = np.stack(made_of(a, b), axis=1)
    found = separation(codes, np.ones_like(codes, np.float32))
    np.testing.assert_allclose(found.informative, LOG2 * (codes.std(axis=0) > 0), atol=1e-4)
    np.testing.assert_allclose(found.separate, LOG2 * np.array(separate), atol=1e-4)
    np.testing.assert_allclose(found.independent, LOG2 * np.array(independent), atol=1e-4)


def test_weights_are_shares_of_information():
    """Two bits say log 4 in one code; a third bit, log 2; and a code of none, nothing."""
    a, b, c = all_bits(3).T
    codes = np.stack([a + 2 * b, c, 0 * c], axis=1).astype(np.float32)
    scores = evaluate(codes, np.zeros(len(codes), int), NAMES, variances=np.ones_like(codes))
    for name in ("sepin", "indin"):
        assert scores[name] == pytest.approx((2 + 1 + 0) / 3 * LOG2, abs=1e-4)
        assert scores[f"w{name}" if name == "sepin" else "windin"] == pytest.approx((2 * 2 + 1) / 3 * LOG2, abs=1e-4)


def test_entropies_are_those_of_a_mixture():
    """Against the same sums in float64, of other draws: estimates of 1,000 draws scatter by .03."""
    rng = np.random.default_rng(0)
    means = rng.normal(size=(1000, 2)) @ np.array([[1, 0.8, 0], [0, 0.6, 1]])
    deviations = rng.uniform(0.2, 0.5, size=means.shape)
    draws = means + deviations * rng.normal(size=means.shape)

    def log_density(drawn, means, deviations):
        return -0.5 * ((drawn - means) / deviations) ** 2 - np.log(deviations)

    pairs = log_density(draws[:, None], means[None], deviations[None])

    def entropy(columns):
        return -(logsumexp(pairs[:, :, columns].sum(axis=2), axis=1) - np.log(1000)).mean()

    given = -log_density(draws, means, deviations).mean(axis=0)
    every = [0, 1, 2]
    found = separation(means, deviations.astype(np.float32) ** 2)
    for i in every:
        rest = [j for j in every if j != i]
        informative = entropy([i]) - given[i]
        separate = entropy(every) - entropy(rest) - given[i]
        independent = informative - (entropy([i]) + entropy(rest) - entropy(every))
        expected = (informative, separate, independent)
        np.testing.assert_allclose([part[i] for part in found[:3]], expected, atol=0.1)


bounds = compiled_whole(unibound)


@pytest.mark.parametrize(
    ("made_of", "unique", "gap"),
    [
        (lambda a, b: (a, b, a), (0, 1), (0, 1)),  # redundant
        (lambda a, b: (a, b, (a + b) % 100), (0, 0), (1, 1)),  # any two give the third
        (lambda a, b: (a, b, 0 * a), (1, 1), (1, 1)),
        (lambda a, b: (0 * a, 0 * a, 0 * a), (0, 0), (0, 0)),
    ],
)
def test_unique_information_in_bits_is_known(made_of, unique, gap):
    a, b = all_bits(2).T
    codes = np.stack(made_of(a, b), axis=1).astype(np.float32)
    factors = np.stack([a, b], axis=1) // 50
    bound = bounds(jax.random.key(0), codes, Factors.of(factors), variances=np.ones_like(codes))
    np.testing.assert_allclose(bound.per_factor, unique, atol=0.02)
    np.testing.assert_allclose(evaluate(codes, factors, "mig").part("mig.per_factor"), gap, atol=1e-5)


def test_codes_that_hold_each_factor_twice_have_no_unique_information_given_enough_samples():
    rng = np.random.default_rng(0)
    values = rng.integers(0, 5, (10_000, 4))
    codes = np.repeat(values, 2, axis=1) + 0.02 * rng.normal(size=(len(values), 8))
    assert evaluate(codes.astype(np.float32), values, "unibound")["unibound"] < 0.01
