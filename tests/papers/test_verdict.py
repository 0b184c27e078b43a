"""The rule of verdicts, on statistics whose intervals are known."""

import math

import numpy as np
import pytest
from scipy import stats

from jaxdis.papers.harness._printed import Claim
from jaxdis.papers.harness._verdict import (
    FAILS,
    HOLDS,
    OPEN,
    Finding,
    Part,
    by_member,
    by_seed,
    counts,
    of_values,
    resampled,
    share,
)
from jaxdis.study.report._statistics import Interval

CLAIM = Claim("one", "§1", "More is more.", "")


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [
        ((0.5, 0.3, 0.7), HOLDS),
        ((0.05, -0.1, 0.2), OPEN),
        ((-0.5, -0.7, -0.3), FAILS),
        ((0.0, 0.0, 0.0), FAILS),
        ((1.2, 1.1, 1.3), FAILS),
        ((0.95, 0.8, 1.05), OPEN),
        ((0.5, math.nan, math.nan), OPEN),
        ((math.nan, math.nan, math.nan), OPEN),
    ],
)
def test_a_part_is_decided_by_its_interval(interval, verdict):
    assert Part("x", Interval(*interval), above=0, below=1).verdict == verdict


def test_a_claim_holds_with_all_its_parts_and_fails_with_one():
    good, bad, unsure = (Part("x", Interval(v, v - w, v + w), above=0) for v, w in ((1, 0.1), (-1, 0.1), (0, 0.1)))
    found = [Finding(CLAIM, parts) for parts in ((good, good), (good, unsure), (good, unsure, bad), ())]
    assert [one.verdict for one in found] == [HOLDS, OPEN, FAILS, OPEN]
    assert counts(found) == {HOLDS: 1, FAILS: 1, OPEN: 2}


def test_intervals_of_means_have_their_level():
    """90 % intervals of means of 40 normal numbers miss the truth in 10 % of 300 draws (standard error 1.7 %; the
    percentile bootstrap is too narrow by about √(39/40) here)."""
    rng = np.random.default_rng(0)
    missed = [not low <= 0 <= high for _, low, high in (of_values(rng.normal(size=40)) for _ in range(300))]
    assert 0.05 < np.mean(missed) < 0.17


def test_few_rows_have_no_interval():
    assert math.isnan(of_values([1.0, 2.0]).low)
    assert math.isnan(resampled(0, np.mean).value)
    assert of_values([1.0, np.nan, 3.0, 5.0]).value == 3


def test_a_statistic_that_few_replicates_define_has_no_interval():
    """Defined where all three rows are drawn: in 6 of 27 replicates."""
    value, low, high = resampled(3, lambda rows: 1.0 if len(set(rows.tolist())) == 3 else math.nan)
    assert value == 1
    assert math.isnan(low)
    assert math.isnan(high)


def test_shares_have_clopper_pearson_intervals():
    """Of 5 among 10, 90 %: .2224 to .7776 (Clopper & Pearson's table)."""
    assert share([True, False] * 5) == pytest.approx((0.5, 0.2224, 0.7776), abs=1e-4)
    assert share([False] * 4) == pytest.approx((0, 0, 1 - 0.05**0.25))
    assert share([True] * 4) == pytest.approx((1, 0.05**0.25, 1))


def test_seeds_are_drawn_whole_and_members_one_by_one():
    """A column that depends on the seed alone: two seeds have no interval, three a wide one; members a narrower one."""
    table = {"seed": np.repeat([0.0, 1.0], 50), "score": np.repeat([0.0, 1.0], 50)}
    mean = lambda some: float(some["score"].mean())  # noqa: E731
    assert by_seed(table, mean)[0] == 0.5
    assert np.isnan(by_seed(table, mean)[1:]).all()
    three = {"seed": np.repeat([0.0, 1.0, 2.0], 50), "score": np.repeat([0.0, 1.0, 2.0], 50)}
    low, high = np.array(by_seed(three, mean)[1:]) - 1
    assert -low == pytest.approx(high)
    assert high == pytest.approx(stats.t.isf(0.05, 2) / np.sqrt(3), rel=0.07)  # two errors of 500 draws
    value, low, high = by_member(table, mean)
    assert value == 0.5
    assert 0.4 < low < 0.45
    assert 0.55 < high < 0.6
