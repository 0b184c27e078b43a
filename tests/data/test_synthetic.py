"""Synthetic representations have the truth that they claim."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.stats import chi2

from jaxdis import relate
from jaxdis.data import synthetic
from tests.golden_values import numbers
from tests.programs import compiled_whole

calibration, entangled, noise, distributed, householder_map = map(
    compiled_whole,
    (synthetic.calibration, synthetic.entangled, synthetic.noise, synthetic.distributed, synthetic.householder_map),
)


@pytest.mark.parametrize("case", synthetic.CASES)
def test_calibration_cases_have_the_reference_distribution(case):
    """Same cells, and counts as two samples of one distribution have them (chi-square at one in a million).

    Cells of the cases that are neither modular nor compact are permuted at random: their counts are compared sorted.
    """
    expected = numbers("calibration")["cases"][case]
    codes, factors = calibration(case, jax.random.key(0))
    rows = np.c_[np.asarray(factors.values), np.asarray(codes).astype(int)]
    cells, counts = np.unique(rows, axis=0, return_counts=True)
    reference = np.array(expected["cells"])
    assert rows.shape[1] == reference.shape[1] - 1
    if case.startswith("00"):
        counts, wanted = np.sort(counts), np.sort(reference[:, -1])
        assert len(np.unique(rows[:, 2:], axis=0)) == (81 if case == "001" else 16)
    else:
        np.testing.assert_array_equal(cells, reference[:, :-1])
        wanted = reference[:, -1]
    statistic = ((counts - wanted) ** 2 / (counts + wanted)).sum()
    assert statistic < chi2.isf(1e-6, len(counts) - 1)


def test_copies_stand_side_by_side_and_are_independent():
    codes, factors = calibration("101", jax.random.key(0), 20_000, copies=2)
    assert codes.shape == (20_000, 6)
    strength = np.asarray(relate(codes, factors, "mutual_information").strength)
    assert strength[:3, :2].max() > 1
    assert strength[:3, 2:].max() < 0.01


@pytest.mark.parametrize("alpha", [0.0, 0.2, 0.6, 1.0])
def test_warp_is_increasing_from_zero_to_one(alpha):
    codes, factors = synthetic.warp(alpha, jax.random.key(0), 5000, num_factors=2)
    order = np.argsort(np.asarray(factors.values)[:, 0])
    warped = np.asarray(codes)[order, 0]
    assert (np.diff(warped) >= -1e-4).all()
    assert warped.min() >= -1e-3
    assert warped.max() <= 1 + 1e-3
    assert warped[len(warped) // 2] == pytest.approx(0.5, abs=0.03)


def test_warp_steepens():
    """At alpha 1 nearly all of the factor lies within a small part of the code's range."""
    middle = [
        float(((codes > 0.4) & (codes < 0.6)).mean())
        for codes in (synthetic.warp(alpha, jax.random.key(0), 5000)[0] for alpha in (0.0, 0.5, 1.0))
    ]
    assert middle[0] < 0.3 < middle[1] < middle[2]


def test_rotation_mixes_each_code_with_its_left_neighbor():
    codes, factors = synthetic.rotation(0.3, jax.random.key(0), 100, num_factors=4)
    matrix = 0.7 * np.eye(4) + 0.3 * np.roll(np.eye(4), 1, axis=1)
    np.testing.assert_allclose(codes, np.asarray(factors.values) @ matrix, atol=1e-6)


def test_noise_keeps_the_share_of_signal():
    codes, factors = noise(0.25, jax.random.key(0), 50_000, num_factors=2)
    slope = np.cov(np.asarray(codes)[:, 0], np.asarray(factors.values)[:, 0])
    assert slope[0, 1] / slope[1, 1] == pytest.approx(0.75, abs=0.01)
    drowned, factors = noise(1.0, jax.random.key(0), 50_000, num_factors=1)
    assert abs(np.corrcoef(np.asarray(drowned)[:, 0], np.asarray(factors.values)[:, 0])[0, 1]) < 0.02


def test_toy_models_agree_as_table_1_says():
    for model, second in (("M1", 0.5), ("M2", 0.7)):
        codes, factors = synthetic.toy_model(model)
        codes, values = np.asarray(codes), np.asarray(factors.values)
        agreement = [[(codes[:, i] == values[:, j]).mean() for j in range(2)] for i in range(2)]
        np.testing.assert_allclose(agreement, [[0.75, 0.75], [second, 0.5]], atol=1e-6)


@pytest.mark.parametrize(("num_factors", "num_values"), [(2, 2), (3, 3), (4, 3)])
def test_distributed_code_tells_nothing_alone_and_everything_together(num_factors, num_values):
    codes, factors = distributed(num_factors, num_values)
    assert len(codes) == num_values ** (2 * num_factors)
    assert (np.asarray(relate(codes, factors, "mutual_information").strength) == 0).all()
    assert len(np.unique(np.asarray(codes), axis=0)) == len(codes)


def test_distributed_draws_from_the_population():
    codes, factors = distributed(4, 3, jax.random.key(0), 1000)
    digits = np.round(np.asarray(codes) * 9 - 0.5).astype(int)
    np.testing.assert_array_equal((digits // 3 + np.roll(digits % 3, -1, axis=1)) % 3, factors.values)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: synthetic.calibration("2", jax.random.key(0)), "case: must be one of 000"),
        (lambda: synthetic.toy_model("M3"), "name: must be 'M1' or 'M2'"),
        (lambda: synthetic.distributed(8, 3), "the exact population has 3\\^16 samples"),
        (lambda: synthetic.distributed(8, 3, jax.random.key(0)), "give both"),
        (lambda: synthetic.entangled(0.2, jax.random.key(0), 10, num_factors=1), "num_factors: must be at least 2"),
    ],
)
def test_bad_arguments_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(("alpha", "k"), [(0.2, 2), (0.3, 4)])
def test_entangled_codes_are_distributed_as_the_factors(alpha, k):
    n = 20_000
    codes, factors = entangled(alpha, jax.random.key(0), n, num_factors=k)
    codes, values = np.asarray(codes), np.asarray(factors.values)
    for column in codes.T:
        assert stats.kstest(column, "uniform").pvalue > 0.001
    ranks = stats.rankdata(codes, axis=0)
    assert np.abs(np.corrcoef(ranks.T) - np.eye(k)).max() < 4 / np.sqrt(n)
    # Every code is a function of every factor: it moves when one of them moves alone.
    for j in range(k):
        moved = values[:100].copy()
        moved[:, j] = (moved[:, j] + 0.37) % 1
        assert (np.abs(np.asarray(householder_map(alpha, jnp.asarray(moved))) - codes[:100]) > 1e-6).mean() > 0.99


def test_the_entangling_map_is_its_own_inverse():
    codes, factors = entangled(0.2, jax.random.key(1), 1000, num_factors=3)
    np.testing.assert_allclose(householder_map(0.2, codes), factors.values, atol=2e-4)  # tails of quantiles
