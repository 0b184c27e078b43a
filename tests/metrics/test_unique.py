"""UniBound on bits, of which all information is known, where MIG is misled."""

import jax
import numpy as np
import pytest

from jaxdis import METRICS, Factors, evaluate
from jaxdis.metrics._separation import unibound
from tests.metrics.test_separation import all_bits
from tests.programs import compiled_whole

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


def test_the_bound_is_at_most_the_gap():
    rng = np.random.default_rng(0)
    values = rng.integers(0, 3, (400, 2))
    codes = (values @ rng.normal(size=(2, 3)) + 0.3 * rng.normal(size=(400, 3))).astype(np.float32)
    plan = {"unibound": METRICS["unibound"].with_options(samples=400), "mig": METRICS["mig_ksg"]}
    scores = evaluate(codes, values, plan)
    assert 0 <= scores["unibound"] <= scores["mig"] + 0.1
