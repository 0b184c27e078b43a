"""Scores against the number of samples."""

import jax
import numpy as np
import pytest
import scipy.stats

from jaxdis import Factors, evaluate, sample_curve
from jaxdis.evaluation._sensitivity import rank_correlation


@pytest.fixture(scope="module")
def zoo():
    """Eight members, from clean to noisy codes of the same factors."""
    rng = np.random.default_rng(0)
    values = np.stack([rng.integers(0, size, 2400) for size in (3, 4)], axis=1)
    noise = np.geomspace(0.1, 3, 8)[:, None, None] * rng.normal(size=(8, 2400, 2))
    return (values + noise).astype(np.float32), Factors.of(values)


def test_codes_far_from_0_are_shifted_before_they_are_rounded(zoo):
    codes, factors = zoo[0].astype(np.float64), zoo[1]
    near, far = (sample_curve(codes + shift, factors, "mig", sizes=(600,)).score for shift in (0, 1e9))
    np.testing.assert_allclose(far, near, atol=2e-3)  # float64 rounds these codes to 1e-7: a sample at an edge moves
    assert near.min() > 0.01


def test_a_curve_runs_twice_at_each_size_on_samples_of_its_own(zoo):
    found = sample_curve(*zoo, "mig", jax.random.key(3), sizes=(50, 1200, 2400))
    assert found.score.shape == (3, 2, 8)
    np.testing.assert_allclose(found.overlap, [0, 0, 1])
    assert (found.score[:2, 0] != found.score[:2, 1]).any()
    # The last size is all samples, in another order.
    np.testing.assert_allclose(found.score[2, 0], evaluate(*zoo, "mig")["mig"], atol=1e-5)
    expected = scipy.stats.spearmanr(found.score[0, 0], found.score[0, 1]).statistic
    assert found.rank_correlation[0, 0] == pytest.approx(expected, abs=1e-9)
    # A zoo whose members differ by factors of noise is ranked alike by 1,200 samples, and the small ones agree less.
    assert found.rank_correlation[1, 1] > 0.95
    np.testing.assert_allclose(found.rank_correlation, found.rank_correlation.T)


def test_a_curve_of_every_kind_of_metric_falls_with_its_bias(zoo):
    """The information of two independent codes is all bias, so it falls as samples come."""
    rng = np.random.default_rng(4)
    codes = rng.normal(size=(2, 2000, 3)).astype(np.float32)
    found = sample_curve(codes, rng.integers(0, 3, 2000), "code_information", sizes=(100, 1000))
    assert (found.score[0] > 3 * found.score[1]).all()
    single = sample_curve(codes[0], rng.integers(0, 3, 2000), "explicitness", sizes=(100,))
    assert np.isnan(single.rank_correlation).all()  # one member has no ranking
    assert np.isfinite(single.score).all()


def test_rank_correlation_equals_scipy():
    rng = np.random.default_rng(5)
    left, right = rng.integers(0, 4, (2, 30)), rng.normal(size=(3, 30))
    expected = [[scipy.stats.spearmanr(a, b).statistic for b in right] for a in left]
    np.testing.assert_allclose(rank_correlation(left, right), expected, atol=1e-12)
    assert np.isnan(rank_correlation(np.ones((1, 30)), right)).all()
    right[0, 3] = np.nan
    assert np.isnan(rank_correlation(left, right)[:, 0]).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda zoo: sample_curve(*zoo, "mgi", sizes=(9,)), "did you mean 'mig'"),
        (
            lambda zoo: sample_curve(*zoo, "mig", sizes=(9,), column="train"),
            "column: must be one of score, got 'train'",
        ),
        (lambda zoo: sample_curve(*zoo, "mig", sizes=(1,)), r"sizes: must have numbers of samples from 2 to 2400"),
        (lambda zoo: sample_curve(*zoo, "mig", sizes=(10_000,)), r"sizes: must have numbers of samples from 2 to 2400"),
        (
            lambda zoo: sample_curve(*zoo, "mig", arguments={"weights": np.ones(2400)}),
            "must have no `weights`",
        ),
    ],
)
def test_what_is_refused(zoo, call, message):
    with pytest.raises(ValueError, match=message):
        call(zoo)
