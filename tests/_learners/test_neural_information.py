"""A trained bound on mutual information against analytic values."""

import functools
import math

import jax
import numpy as np
import pytest

from jaxdis._learners.neural_information import (
    joint_neural_information,
    neural_information,
    pairwise_neural_information,
)

estimate = jax.jit(neural_information, static_argnames=("judge", "max_epochs", "width"))
pairs = jax.jit(functools.partial(pairwise_neural_information, max_epochs=4))


def gaussians(rho, seed, n=20_000):
    first, second = np.random.default_rng(seed).normal(size=(2, n, 1)).astype(np.float32)
    return first, np.float32(rho) * first + np.float32(math.sqrt(1 - rho**2)) * second


@pytest.mark.parametrize("judge", ["held_out", "in_sample"])
@pytest.mark.parametrize("rho", [0.3, 0.9])
def test_gaussians_within_five_per_cent(rho, judge):
    truth = -0.5 * math.log(1 - rho**2)
    found = [float(estimate(jax.random.key(s), *gaussians(rho, s), judge=judge).information) for s in range(6)]
    # The draw alone moves the estimate by ρ / √n, more where a third of the samples judges.
    error = rho / math.sqrt(20_000 / (3 if judge == "held_out" else 1)) / math.sqrt(6)
    assert np.mean(found) == pytest.approx(truth, abs=0.05 * truth + 2 * error)
    assert np.std(found) < 2 * math.sqrt(6) * error


@pytest.mark.parametrize("judge", ["held_out", "in_sample"])
def test_a_copy_of_nine_values_tells_its_entropy(judge):
    values = np.random.default_rng(0).integers(0, 9, (10_000, 1)).astype(np.float32)
    found = estimate(jax.random.key(0), values, values, judge=judge)
    assert float(found.information) == pytest.approx(math.log(9), rel=0.05)
    assert 5 < int(found.epochs) < 60


def test_independent_and_constant_columns_tell_nothing():
    first, second = gaussians(0.0, 0, 5000)
    # The best of some epochs, each of which scatters by under 0.01.
    assert 0 <= float(estimate(jax.random.key(0), first, second).information) < 0.02
    assert float(estimate(jax.random.key(0), np.ones_like(first), second).information) == 0
    assert np.isnan(estimate(jax.random.key(0), first * np.float32(np.nan), second).information)


def test_two_sides_of_several_columns():
    """The exclusive or of two bits: each alone tells nothing, both tell all."""
    bits = np.random.default_rng(0).integers(0, 2, (4000, 2)).astype(np.float32)
    target = (bits[:, :1] != bits[:, 1:]).astype(np.float32)
    joint = jax.jit(joint_neural_information)(jax.random.key(0), bits, target)
    assert float(joint[0]) == pytest.approx(math.log(2), rel=0.05)
    assert float(estimate(jax.random.key(0), bits[:, :1], target).information) < 0.02


def test_the_key_decides_and_the_order_of_columns_does_not():
    left = np.random.default_rng(0).normal(size=(600, 3)).astype(np.float32)
    right = left[:, :2] + np.float32(0.5)
    found = pairs(jax.random.key(0), left, right)
    np.testing.assert_array_equal(pairs(jax.random.key(0), left, right), found)
    np.testing.assert_allclose(pairs(jax.random.key(0), left[:, ::-1], right), found[::-1], atol=1e-5)
    assert not np.array_equal(pairs(jax.random.key(1), left, right), found)


@pytest.mark.parametrize(("n", "low", "high"), [(500, 0, 0.1), (1000, 1.9, 2.4)])
def test_fewer_samples_than_batches_need_teach_nothing(n, low, high):
    """A copy of nine classes, log 9 = 2.2 nats: an epoch of 500 samples is one step, and training stops after six."""
    values = np.random.default_rng(0).integers(0, 9, (n, 1)).astype(np.float32)
    for seed in range(2):
        assert low <= float(estimate(jax.random.key(seed), values, values).information) <= high
