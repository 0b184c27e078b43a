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
    strength = np.asarray(relate(codes, factors, RELATIONS["correlation"].with_options(kind=kind)).strength)
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


def test_r2_leaves_out_a_code_that_deviates_by_a_millionth():
    values = np.arange(40) % 2
    codes = values[:, None] * np.array([1.9e-6, 2.1e-6], np.float32)  # whose deviations are half as much
    np.testing.assert_allclose(relate(codes, Factors.of(values), "r2").strength[:, 0], [0, 1], atol=1e-5)


@pytest.mark.parametrize("kind", ["pearson", "spearman"])
def test_weights_are_repetitions(representation, kind):
    codes, factors = representation
    weights = np.random.default_rng(1).permutation(np.arange(3000) % 3)  # 3,000 in all
    rows = np.repeat(np.arange(3000), weights)
    spec = RELATIONS["correlation"].with_options(kind=kind)
    weighted = relate(codes, factors, spec, weights=weights).strength
    repeated = relate(codes[rows], factors.take(rows), spec).strength
    np.testing.assert_allclose(weighted, repeated, atol=3e-6)


def test_cosines_are_not_centered():
    """Weighted, with a column of zeros and a constant one, in any units; codes far from 0 keep their place."""
    rng = np.random.default_rng(0)
    codes, values = rng.normal(size=(40, 4)) + 1.0, rng.normal(size=(40, 3)) - 0.5
    codes[:, 3], values[:, 2] = 0, 2
    weights = rng.integers(0, 4, 40)
    spec = RELATIONS["correlation"].with_options(kind="cosine")
    expected = np.zeros((4, 3))
    for i, j in np.ndindex(3, 3):
        size = (weights * codes[:, i] ** 2).sum() * (weights * values[:, j] ** 2).sum()
        expected[i, j] = abs((weights * codes[:, i] * values[:, j]).sum()) / np.sqrt(size)
    for scale in (1.0, 1e-20, 1e20):
        relation = relate(scale * codes, Factors.of(values, (None,) * 3), spec, weights=weights)
        np.testing.assert_allclose(relation.strength, expected, atol=1e-6)
        assert relation.ceiling.tolist() == [1, 1, 1]
    far = relate(codes + 1e4, Factors.of(values, (None,) * 3), spec)
    assert far.strength[0, 2] == pytest.approx(1, abs=1e-4)  # both nearly constant


def test_the_cosine_of_a_circular_factor_is_that_to_the_plane_of_its_waves():
    rng = np.random.default_rng(0)
    angles = rng.uniform(0, 360, 200)
    codes = np.c_[np.cos(np.radians(angles - 40)), np.ones(200)]
    factors = Factors.from_table({"angle": angles}, kinds={"angle": ("circular", 360.0)})
    found = relate(codes, factors, RELATIONS["correlation"].with_options(kind="cosine")).strength[:, 0]
    waves = np.c_[np.sin(np.radians(angles)), np.cos(np.radians(angles))]
    plane = np.linalg.lstsq(waves, codes, rcond=None)[0]
    expected = np.linalg.norm(waves @ plane, axis=0) / np.linalg.norm(codes, axis=0)
    np.testing.assert_allclose(found, expected, atol=1e-5)
