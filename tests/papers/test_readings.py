"""Statistics of constructed tables whose values are known."""

import itertools

import numpy as np
import pytest

from jaxdis.papers.harness import _readings as r
from jaxdis.study.report._statistics import explained


def table(rows, **columns):
    """Rows of (data, model, regularization, seed)."""
    data, model, regularization, seed = map(np.array, zip(*rows, strict=True))
    return {"data": data, "model": model, "regularization": regularization.astype(float), "seed": seed, **columns}


def grid(models=("a", "b"), regularizations=(1, 2, 4), seeds=4, data=("d",)):
    return list(itertools.product(data, models, regularizations, range(seeds)))


def test_trend_reads_medians_not_members():
    """One seed of each regularization goes the other way; medians rise."""
    rows = grid(models=("a",))
    regularization = np.array([row[2] for row in rows], float)
    score = regularization + np.where([row[3] == 0 for row in rows], -10 * regularization, 0)
    assert r.trend(table(rows, score=score), "score") == pytest.approx(1)


def test_slopes_are_exponents():
    rows = grid(models=("a",))
    regularization = np.array([row[2] for row in rows], float)
    assert r.slope(table(rows, score=3 * regularization**-0.5), "score") == pytest.approx(-0.5)


def test_leads():
    found = {"a": 3.0, "b": 1.0, "c": 2.0}
    assert r.lead_of("a", found) == 1
    assert r.lead_of("b", found, min) == -1
    assert np.isnan(r.lead_of("d", found))
    assert np.isnan(r.lead_of("a", {"a": 3.0}))


def test_explained_variance_is_zero_by_chance_and_one_where_seeds_do_nothing():
    """Noise: unadjusted R² would be (L − 1) / (N − 1) = .45 for the settings."""
    rows = grid(models=tuple("abcdef"), regularizations=(1, 2, 3, 4, 5, 6), seeds=2)
    rng = np.random.default_rng(0)
    tables = [table(rows, score=rng.normal(size=len(rows))) for _ in range(200)]
    found = [explained(one, "score", one["regularization"], adjust=True) for one in tables]
    assert np.mean(found) == pytest.approx(0, abs=4 * np.std(found) / np.sqrt(200))
    of_settings = table(rows, score=np.array([ord(row[1]) * 10 + row[2] for row in rows], float))
    assert explained(of_settings, "score", of_settings["regularization"], adjust=True) == pytest.approx(1)
    of_models = table(rows, score=np.array([ord(row[1]) for row in rows], float))
    assert explained(of_models, "score", adjust=True) == pytest.approx(1)
    assert np.isnan(explained(table(rows, score=np.ones(len(rows))), "score", adjust=True))


def test_ties_do_not_count_as_discordant():
    assert r.discordant(np.array([1.0, 1, 2]), np.array([1.0, 2, 3])) == 0
    assert np.isnan(r.discordant(np.ones(3), np.arange(3.0)))


def test_a_seed_beats_a_strength_as_often_as_ranges_overlap():
    rows = grid(models=("a",), regularizations=(1, 2), seeds=4)
    apart = table(rows, score=np.array([0, 1, 2, 3, 10, 11, 12, 13.0]))
    assert r.beats(apart, "score") == 0
    mixed = table(rows, score=np.array([0, 1, 2, 10, 1.5, 3, 4, 5.0]))
    assert r.beats(mixed, "score") == pytest.approx((1 + 4) / 16)


def test_overlaps_are_shares_of_the_narrower_range():
    rows = [("d", "a", 1, i) for i in range(2)] + [("d", "b", 1, i) for i in range(2)]
    assert list(r.overlaps(table(rows, score=np.array([0, 4, 3, 5.0])), "score")) == [0.5]
    assert list(r.overlaps(table(rows, score=np.array([0, 1, 3, 5.0])), "score")) == [0]


def test_missing_scores_are_left_out():
    rows = grid(models=("a",))
    score = np.array([row[2] for row in rows], float)
    score[::4] = np.nan
    assert r.trend(table(rows, score=score), "score") == pytest.approx(1)
    assert np.isnan(r.median(np.full(3, np.nan)))
    assert len(r.of(table(rows, score=score), regularization=(1, 2))["model"]) == 8


def test_what_is_undefined_counts_for_nothing():
    rows = grid(models=("a", "b"), regularizations=(1, 2), seeds=2)
    score = np.array([0, 1, 2, np.nan, np.nan, np.nan, np.nan, np.nan])
    assert list(r.overlaps(table(rows, score=score), "score")) == []
    one = table(rows[:4], score=np.array([0, 3, 2, np.nan]))
    assert r.beats(one, "score") == pytest.approx(0.5)
    assert r.lead_of("a", {"a": 3.0, "b": np.nan, "c": 1.0}) == r.lead_of("a", {"a": 3.0, "c": 1.0, "b": np.nan}) == 2
    assert np.isnan(r.lead_of("a", {"a": np.nan, "b": 1.0}))
    assert r.share_above(np.array([1, np.nan, 3.0]), np.array([2, 0, 2.0])) == 0.5
    assert np.isnan(r.share_above(np.full(3, np.nan), 0.5))


def test_what_settings_of_one_member_explain_is_undefined():
    """Of one member a setting, settings would explain all."""
    rng = np.random.default_rng(0)
    for seeds in (1, 3):
        rows = grid(models=("a", "b"), regularizations=(1, 2, 3), seeds=seeds)
        of_rows = table(rows, score=rng.normal(size=len(rows)))
        for adjust in (False, True):
            both = explained(of_rows, "score", of_rows["regularization"], adjust=adjust)
            assert np.isnan(both) == (seeds == 1)
