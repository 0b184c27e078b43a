"""Correlations against scipy and scikit-learn."""

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr

from jaxdis import RELATIONS, Factors, relate
from tests.golden_values import numbers
from tests.relations.test_information import POPULATIONS


@pytest.fixture
def representation():
    rng = np.random.default_rng(0)
    values = rng.integers(0, 6, (3000, 2))
    codes = np.stack([values[:, 0] + rng.normal(size=3000), np.exp(values[:, 1]), rng.normal(size=3000)], axis=1)
    return codes.astype(np.float32) + 100, Factors.of(values)


@pytest.mark.parametrize(("kind", "oracle"), [("pearson", pearsonr), ("spearman", spearmanr)])
def test_correlation_equals_scipy(representation, kind, oracle):
    codes, factors = representation
    strength = relate(codes, factors, RELATIONS["correlation"].with_options(kind=kind)).strength
    for i in range(3):
        for j in range(2):
            expected = abs(oracle(codes[:, i].astype(float), np.asarray(factors.values)[:, j])[0])
            assert strength[i, j] == pytest.approx(expected, abs=2e-6)


@pytest.mark.parametrize("name", POPULATIONS)
def test_r2_equals_the_reference(name):
    expected = numbers("populations")["cases"][name]
    np.testing.assert_allclose(relate(*POPULATIONS[name](), "r2").strength, expected["r2"], atol=1e-6)


def test_a_constant_far_from_zero_relates_to_nothing():
    codes = np.full((1000, 1), 1234.567, np.float32)
    factors = Factors.of(np.arange(1000) % 3)
    assert relate(codes, factors, "r2").strength[0, 0] == 0
    assert relate(codes, factors, "correlation").strength[0, 0] == 0


@pytest.mark.parametrize("kind", ["pearson", "spearman"])
def test_weights_are_repetitions(representation, kind):
    codes, factors = representation
    weights = np.random.default_rng(1).integers(0, 3, 3000)
    rows = np.repeat(np.arange(3000), weights)
    spec = RELATIONS["correlation"].with_options(kind=kind)
    weighted = relate(codes, factors, spec, weights=weights).strength
    repeated = relate(codes[rows], Factors.of(np.asarray(factors.values)[rows]), spec).strength
    np.testing.assert_allclose(weighted, repeated, atol=3e-6)
