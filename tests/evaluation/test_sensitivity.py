"""How far scores and rankings depend on choices and on the number of samples, against scores computed one by one."""

import itertools
import math

import jax
import numpy as np
import pytest
import scipy.stats

import jaxdis
from jaxdis import Factors, evaluate, sample_curve
from jaxdis.evaluation._sensitivity import Sensitivity, _rows, order_of, rank_correlation
from tests.draws import representations

rng = np.random.default_rng(0)
# Members whose codes hold less and less of the factors.
CODES, FACTORS = representations(4, noise=np.array([0.1, 0.5, 1.0, 2.0])[:, None, None])


def test_reversed_pairs_are_counted_as_one_by_one():
    for ties in (100, 4):
        first, second = rng.integers(0, ties, (2, 9)).astype(float)
        pairs = list(itertools.combinations(range(9), 2))
        reversed_pairs = sum((first[i] - first[j]) * (second[i] - second[j]) < 0 for i, j in pairs)
        assert order_of(first, second)[1] == pytest.approx(reversed_pairs / len(pairs))
    assert order_of(np.arange(4.0), np.arange(4.0)) == (1.0, 0.0)
    assert order_of(np.arange(4.0), -np.arange(4.0)) == (-1.0, 1.0)
    assert math.isnan(order_of(np.ones(4), np.arange(4.0))[0])


def test_a_choice_has_the_share_of_variance_that_it_was_given():
    members, bins, seeds = np.array([-3.0, 0.0, 3.0]), np.array([0.0, 7.0]), np.array([-1.0, 1.0])
    scores = members[:, None, None] + bins[:, None] + np.array([1.0, -2.0, 1.0])[:, None, None] * seeds
    (of_bins, of_seeds), _ = _rows("m", scores, {"bins": (10, 20), "seed": (0, 1)})
    assert of_bins.share == pytest.approx(0, abs=1e-12)  # a shift of all members alike
    assert of_seeds.share == pytest.approx(2 / (6 + 2))
    assert (of_seeds.tau, of_seeds.flipped) == (pytest.approx(0.5), 0)  # -2, -2, 4 instead of -4, 2, 2


MEMBERS = np.arange(4.0)


def planted(scores, axes) -> list[str]:
    """The sentences about scores ``[m, *choices]`` that no metric computed."""
    choices, settings = _rows("m", scores, axes)
    return Sensitivity(tuple(choices), tuple(settings), {"m": scores}, {"m": axes}).sentences()


def test_the_choice_that_alone_reverses_most_pairs_is_named_whatever_its_share():
    scores = np.stack([MEMBERS] * 4, axis=1).reshape(4, 2, 2)
    scores[:, 1, 0] = [0, 2, 1, 3]  # fewer samples reverse one of six pairs
    scores[:, 1, 1] = [9, -9, 9, -9]  # with another seed as well, all is different
    axes = {"samples": (200, 100), "seed": (0, 1)}
    by = {row.choice: row for row in _rows("m", scores, axes)[0]}
    assert by["seed"].share > 0.4 > by["seed"].flipped == 0
    (said,) = planted(scores, axes)
    assert said.startswith("m: samples matters most: it reverses up to 16.7% of pairs (τ = 0.67), with ")
    assert f"with {by['samples'].share:.1%} of the members' variance" in said
    scores[:, 1] *= 1e-3  # hardly any variance, and the same order
    assert planted(scores, axes)[0].startswith("m: samples matters most: it reverses up to 16.7% of pairs")


def test_where_no_choice_alone_reverses_a_pair_the_nearest_is_named():
    scores = np.stack([MEMBERS, MEMBERS, MEMBERS * 2, MEMBERS[::-1]], axis=1).reshape(4, 2, 2)
    (said,) = planted(scores, {"samples": (200, 100), "seed": (0, 1)})
    assert said.startswith("m: no choice alone reverses a pair; samples comes nearest, with ")
    assert said.endswith("of the members' variance: alone it leaves the ranking unchanged")
    scores[:, 1, 0] = [0, 1, 1, 2]
    assert planted(scores, {"samples": (200, 100), "seed": (0, 1)})[0].endswith("alone it makes ties or breaks them")
    scores[:, 1, 0] = MEMBERS
    assert planted(scores, {"bins": (20, 5), "seed": (0, 1)}) == [
        "m: no choice alone changes a score, only several together"
    ]


def test_seeds_that_draw_nothing_are_not_named():
    found = jaxdis.sensitivity(CODES[1:3].repeat(2, 0) + 0.0, FACTORS, "sap_r2", samples=(40, 200), seeds=6)
    assert {row.choice for row in found.choices} == {"samples", "seed"}
    assert "seed" not in found.sentences()[0]


def test_scores_are_those_of_single_evaluations():
    found = jaxdis.sensitivity(CODES, FACTORS, ["mig", "sap_r2"], options={"bins": (5, 20)}, samples=(100, 200))
    assert found.axes["mig"] == {"bins": (20, 5), "samples": (200, 100), "seed": (0,)}  # the default is tried once
    assert found.axes["sap_r2"] == {"samples": (200, 100), "seed": (0,)}
    expected = jaxdis.evaluate(CODES, FACTORS, {"mig": jaxdis.METRICS["mig"].with_options(bins=5)})["mig"]
    np.testing.assert_allclose(found.scores["mig"][:, 1, 0, 0], expected, rtol=1e-6)
    assert {(row.metric, row.choice, row.value) for row in found.settings} == {
        ("mig", "bins", 5), ("mig", "samples", 100), ("sap_r2", "samples", 100)
    }  # fmt: skip
    (row,) = (row for row in found.settings if row.choice == "bins")
    assert row.shift == pytest.approx((found.scores["mig"][:, 1, 0, 0] - found.scores["mig"][:, 0, 0, 0]).mean())
    assert row.tau == 1.0  # members are far apart
    assert "mig: " in repr(found)


def test_members_without_a_number_rank_nothing():
    codes = CODES.copy()
    codes[1:] = np.nan
    with pytest.warns(RuntimeWarning, match="3 of 4 members"):
        found = jaxdis.sensitivity(codes, FACTORS, "sap_r2", samples=(100, 200))
    assert found.sentences() == ["sap_r2: fewer than two members have a number under all choices"]
    codes[:] = np.nan
    with pytest.warns(RuntimeWarning, match="4 of 4 members"):
        found = jaxdis.sensitivity(codes, FACTORS, "sap_r2", samples=(100, 200))
    assert found.sentences() == ["sap_r2: fewer than two members have a number under all choices"]
    assert math.isnan(found.choices[0].share)


def test_other_seeds_take_other_samples():
    found = jaxdis.sensitivity(CODES, FACTORS, "sap_r2", samples=(100,), seeds=(3, 4))
    assert found.scores["sap_r2"].shape == (4, 1, 2)
    assert np.ptp(found.scores["sap_r2"], axis=2).min() > 0
    whole = jaxdis.sensitivity(CODES, FACTORS, ["sap_r2", "mig"], seeds=3)
    assert np.ptp(whole.scores["sap_r2"], axis=2).max() == 0
    assert whole.sentences() == ["sap_r2: no choice changes the ranking", "mig: no choice changes the ranking"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"options": {"depth": (1, 2)}}, "options: must be among bins"),
        ({"options": {"bins": 3}}, "bins: must be a sequence"),
        ({"samples": (1, 100)}, "samples: must have numbers of samples from 2 to 200"),
        ({}, "nothing to choose from"),
        ({"seeds": 2, "arguments": {"weights": np.ones(200)}}, "must have no `weights`"),
        ({"seeds": (-1, 2)}, "seeds: must be a whole number"),
        ({"seeds": 0}, "seeds: must be a whole number of at least 1"),
        ({"seeds": ()}, "seeds: must be at least one"),
    ],
)
def test_what_cannot_be_tried_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        jaxdis.sensitivity(CODES, FACTORS, "mig", **change)
    with pytest.raises(ValueError, match="at least three members"):
        jaxdis.sensitivity(CODES[:2], FACTORS, "mig", seeds=2)


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
        (
            lambda zoo: sample_curve(*zoo, "mig", sizes=(9,), column="train"),
            "column: must be one of score, got 'train'",
        ),
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
