"""Consistency and restrictiveness: against all pairs of samples, exact cases, and a simulator."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdis import METRICS, evaluate, evaluate_encoder
from jaxdis.data import FactorSpace
from jaxdis.metrics.interventions import restrictiveness

SIZES = (3, 4, 5)
MIXING = np.array([[3, 0, 0, 1], [0, 2, 1, 0], [0.5, 0, 1, 1]], np.float32)
NAMES = ["consistency", "restrictiveness"]


def grid(copies: int = 2) -> np.ndarray:
    return np.tile(list(itertools.product(*map(range, SIZES))), (copies, 1))


def by_pairs(codes, same):
    """Mean half square of the difference of every code over all pairs of a sample and another one that is the ``same``;
    every sample counts once."""
    apart = (codes[:, None] - codes[None]) ** 2 / 2
    pairs = same & ~np.eye(len(codes), dtype=bool)
    counted = pairs.any(axis=1)
    return (np.where(pairs[:, :, None], apart, 0).sum(axis=1)[counted] / pairs.sum(axis=1)[counted, None]).mean(axis=0)


def reference(codes, values):
    """The shares of variance that remain while a factor is held, and while it alone changes, in float64."""
    everything = by_pairs(codes, np.ones((len(codes),) * 2, bool))
    equal = values[:, None] == values[None]
    held, changed = [], []
    for j in range(values.shape[1]):
        held.append(by_pairs(codes, equal[:, :, j]))
        changed.append(by_pairs(codes, np.delete(equal, j, axis=2).all(axis=2)))
    return np.array(held).T, np.array(changed).T, everything


@pytest.fixture(scope="module")
def scored():
    """Five members and their scores: mixed codes, one per factor, a sum and its second part, noise, constants."""
    rng, values = np.random.default_rng(0), grid()
    zoo = np.zeros((5, len(values), 4))
    zoo[0] = (values @ MIXING + rng.normal(size=(120, 4))) * [1, 5, 1, 2] + 100
    zoo[1, :, :3] = values[:, [2, 0, 1]] * [1, -3, 0.1]
    zoo[2, :, :3] = np.stack([values[:, 1] + values[:, 2], values[:, 2], values[:, 0]], axis=1)
    zoo[3] = rng.normal(size=(120, 4))
    return zoo, evaluate(zoo.astype(np.float32), values, NAMES)


@pytest.mark.parametrize("member", [0, 2, 3])
def test_scores_equal_those_of_all_pairs(scored, member):
    zoo, found = scored
    codes, varies = zoo[member], zoo[member].std(axis=0) > 0
    held, changed, variance = reference(codes, grid())
    with np.errstate(invalid="ignore"):
        held, changed = held / variance[:, None], changed / variance[:, None]
    np.testing.assert_allclose(found.part("consistency.matrix")[member][varies], (1 - held)[varies], atol=2e-5)
    own = max(itertools.permutations(np.flatnonzero(varies), 3), key=lambda own: sum(1 - held[own, range(3)]))
    np.testing.assert_array_equal(found.part("consistency.code")[member], own)
    assert found["consistency"][member] == pytest.approx((1 - held[own, range(3)]).mean(), abs=2e-5)
    others = [varies & (np.arange(4) != code) for code in own]
    shares = [(variance * changed[:, j])[rest].sum() / variance[rest].sum() for j, rest in enumerate(others)]
    np.testing.assert_allclose(found.part("restrictiveness.per_factor")[member], 1 - np.array(shares), atol=2e-5)


def test_one_code_per_factor_scores_one(scored):
    _, found = scored
    assert found["consistency"][1] == pytest.approx(1, abs=1e-6)
    assert found["restrictiveness"][1] == pytest.approx(1, abs=1e-6)
    np.testing.assert_array_equal(found.part("consistency.code")[1], [1, 2, 0])


def test_a_code_of_two_factors_lowers_its_own_consistency_and_the_restrictiveness_of_the_second(scored):
    _, found = scored
    held, free = (found.part(f"{name}.per_factor")[2] for name in NAMES)
    assert held[1] < 0.5  # y of y + z: variances 15/12 and 2 of four and five values
    np.testing.assert_allclose(held[[0, 2]], 1, atol=1e-6)
    np.testing.assert_allclose(free[[0, 1]], 1, atol=1e-6)
    assert free[2] < 0.6


def test_constant_codes_score_zero(scored):
    _, found = scored
    assert [found[name][4] for name in NAMES] == [0, 0]


def test_noise_scores_zero():
    noise = np.random.default_rng(1).normal(size=(6000, 3)).astype(np.float32)
    found = evaluate(noise, grid(100), NAMES)
    np.testing.assert_allclose([found[name] for name in NAMES], 0, atol=0.01)


@pytest.mark.parametrize("where", ["device", "host"])
def test_a_simulator_equals_its_table(where):
    space = FactorSpace.of(a=3, b=4, c=5)

    def render(factors):
        return factors.astype(jnp.float32)[:, None, None, :] / 8

    def encode(images):
        return (images if where == "device" else np.asarray(images)).reshape(len(images), -1) @ MIXING

    found = evaluate_encoder(encode, (space, render), metrics=NAMES, key=jax.random.key(0))
    expected = evaluate(np.asarray(encode(render(np.asarray(grid(40))))), grid(40), NAMES)
    for name in NAMES:
        np.testing.assert_allclose(found.part(f"{name}.matrix"), expected.part(f"{name}.matrix"), atol=0.05)
        assert found[name] == pytest.approx(expected[name], abs=0.03)
        assert METRICS[name].about.intervenes


def test_a_factor_without_a_code_counts_zero():
    values = np.asarray(grid())
    found = restrictiveness(values[:, :2].astype(jnp.float32), FactorSpace.of(a=3, b=4, c=5).wrap(values))
    np.testing.assert_allclose(found.per_factor, [1, 1, 0], atol=1e-6)
