"""Scores against their options and against the number of samples."""

import jax
import numpy as np
import pytest
import scipy.stats

import jaxdis
from jaxdis import METRICS, Factors, evaluate, sample_curve, sweep
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
    near, far = (sweep(codes + shift, factors, "mig", bins=[5, 20]).score for shift in (0, 1e9))
    np.testing.assert_allclose(far, near, atol=2e-3)  # float64 rounds these codes to 1e-7: a sample at an edge moves
    near, far = (sample_curve(codes + shift, factors, "mig", sizes=(600,)).score for shift in (0, 1e9))
    np.testing.assert_allclose(far, near, atol=2e-3)
    assert near.min() > 0.01


def test_a_sweep_is_the_metric_at_every_setting(zoo):
    found = sweep(*zoo, "mig", bins=[5, 20])
    assert found.settings == ({"bins": 5}, {"bins": 20})
    for setting, score in zip(found.settings, found.score, strict=True):
        alone = evaluate(*zoo, {"m": METRICS["mig"].with_options(**setting)})
        np.testing.assert_allclose(score, alone["m"], atol=1e-6)
    expected = scipy.stats.spearmanr(*found.score).statistic
    assert found.rank_correlation[0, 1] == pytest.approx(expected, abs=1e-9)
    np.testing.assert_allclose(np.diag(found.rank_correlation), 1)


def test_a_sweep_of_two_knobs_is_their_product(zoo):
    found = sweep(*zoo, "irs", quantile=[0.9, 1.0], factor_bins=[None, 2])
    assert [tuple(setting.values()) for setting in found.settings] == [(0.9, None), (0.9, 2), (1.0, None), (1.0, 2)]
    assert found.score.shape == (4, 8)
    assert (found.score[0] > found.score[2]).all()  # a supremum is at least a quantile


def test_a_sweep_of_a_stochastic_metric_and_of_one_of_several_columns(zoo):
    found = sweep(*zoo, "factor_vae", jax.random.key(1), num_train=[100], num_eval=[100], batch=[4, 32])
    assert found.score.shape == (2, 8)
    assert set(found.columns) == {"score", "train"}
    both = sweep(*zoo, "med", column="completeness", bins=[20])
    np.testing.assert_array_equal(both.score, both.columns["completeness"])
    assert (both.score != both.columns["disentanglement"]).any()


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
        (lambda zoo: sweep(*zoo, "mig"), "options: must have at least one with values to try; the options are"),
        (lambda zoo: sweep(*zoo, "mig", bins=[]), "options: must have at least one with values"),
        (lambda zoo: sweep(*zoo, "mig", bin=[3]), "has no option 'bin'"),
        (lambda zoo: sweep(*zoo, "mgi", bins=[3]), "did you mean 'mig'"),
        (lambda zoo: sweep(*zoo, "mig", column="train", bins=[3]), "column: must be one of score, got 'train'"),
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


def test_both_are_at_the_top():
    assert {"sweep", "sample_curve"} <= set(jaxdis.__all__)
