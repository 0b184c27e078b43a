"""Comparisons of scores, against scipy's tests and simulations of members that do not differ."""

import math

import numpy as np
import pytest
from scipy import stats

import jaxdis
from jaxdis.cli import main
from jaxdis.evaluation._comparison import FEWEST, Row, holm

rng = np.random.default_rng(0)
FIRST = {"seed": np.arange(6), "mig": rng.normal(0.2, 0.02, 6), "sap": rng.normal(0.5, 0.1, 6)}
SECOND = {"seed": np.arange(6)[::-1], "mig": rng.normal(0.3, 0.04, 6), "sap": rng.normal(0.5, 0.1, 6)}


def by_name(comparison) -> dict[str, Row]:
    return {row.metric: row for row in comparison.rows}


def test_independent_sets_are_compared_by_welchs_test():
    rows = by_name(jaxdis.compare(FIRST, SECOND))
    assert rows.keys() == {"mig", "sap"}
    for name, row in rows.items():
        expected = stats.ttest_ind(SECOND[name], FIRST[name], equal_var=False)
        assert row.p == pytest.approx(expected.pvalue, rel=1e-9)
        assert (row.low, row.high) == pytest.approx(tuple(expected.confidence_interval()), rel=1e-9)
        assert row.difference == pytest.approx(SECOND[name].mean() - FIRST[name].mean())


def test_pairs_are_matched_by_the_values_of_a_column():
    for name, row in by_name(jaxdis.compare(FIRST, SECOND, paired="seed")).items():
        gaps = SECOND[name][::-1] - FIRST[name]
        expected = stats.ttest_1samp(gaps, 0.0)
        assert row.p == pytest.approx(expected.pvalue, rel=1e-9)
        assert (row.low, row.high) == pytest.approx(tuple(expected.confidence_interval()), rel=1e-9)
        assert row.effect == pytest.approx(gaps.mean() / gaps.std(ddof=1))


def test_holm_on_known_values():
    assert holm([0.01, 0.04, math.nan, 0.03]) == pytest.approx([0.03, 0.06, math.nan, 0.06], nan_ok=True)
    assert holm([0.6, 0.7]) == [1.0, 1.0]


def test_members_that_are_needed_have_the_power_that_is_promised():
    difference, spread = 0.1, 0.1
    wanted = int(by_name(jaxdis.compare({"mig": [0.0, 0.1, 0.2]}, {"mig": [0.1, 0.2, 0.3]}))["mig"].members)
    assert wanted == 17  # of each group, for one standard deviation: the textbook's number
    draws = np.random.default_rng(1)
    first, second = draws.normal(0, spread, (2000, wanted)), draws.normal(difference, spread, (2000, wanted))
    found = stats.ttest_ind(first, second, axis=1).pvalue < 0.05
    assert found.mean() == pytest.approx(0.8, abs=0.03)


def test_scores_and_files_say_the_same(tmp_path, capsys):
    codes = np.random.default_rng(0).normal(size=(2, 4, 300, 3)).astype(np.float32)
    factors = np.random.default_rng(1).integers(0, 3, (300, 2))
    codes[1, :, :, 0] += factors[:, 0]
    tables = [jaxdis.evaluate(each, factors, ["mig", "sap_r2"], members={"seed": [3, 1, 2, 0]}) for each in codes]
    paths = [tmp_path / "a.csv", tmp_path / "b.npz"]
    tables[0].to_csv(paths[0])
    tables[1].save(paths[1])
    expected = by_name(jaxdis.compare(*tables, paired="seed"))
    assert expected["mig"].adjusted < 0.05
    found = by_name(jaxdis.compare(*paths, paired="seed", metrics=["mig", "sap_r2"]))
    assert found["mig"][1:] == pytest.approx(expected["mig"][1:])
    out = [str(tmp_path / "out.csv"), str(tmp_path / "page.html")]
    assert main(["compare", *map(str, paths), "--paired", "seed", "--csv", out[0], "--out", out[1]]) == 0
    assert "mig: higher by" in capsys.readouterr().out
    assert "mig" in (tmp_path / "out.csv").read_text()
    assert "<h1>" in (tmp_path / "page.html").read_text()


def test_too_few_members_have_no_test():
    (row,) = jaxdis.compare({"mig": [0.1, 0.2]}, {"mig": [0.3, 0.4, 0.5]}).rows
    assert row.difference == pytest.approx(0.25)
    assert math.isnan(row.p)
    assert f"needs {FEWEST}" in jaxdis.compare({"mig": [0.1, math.nan, 0.1]}, {"mig": [0.3, 0.4, 0.5]}).sentences()[0]


def test_scores_without_spread():
    same, other = {"mig": [0.5] * 3}, {"mig": [0.75] * 3}
    assert jaxdis.compare(same, same).rows[0].p == 1.0
    assert jaxdis.compare(same, other).rows[0].p == 0.0


@pytest.mark.parametrize(
    ("a", "b", "how", "message"),
    [
        ({"mig": [1.0]}, {"sap": [1.0]}, {}, "in common"),
        ({"mig": [1.0]}, {"mig": [1.0]}, {"paired": "seed"}, "paired: must be one of mig"),
        ({"mig": [1.0, 2.0], "s": [0, 0]}, {"mig": [1.0], "s": [0]}, {"paired": "s"}, "more than once"),
        ({"mig": [1.0], "s": [0]}, {"mig": [1.0], "s": [1]}, {"paired": "s"}, "occur in both"),
        ({"mig": [1.0]}, {"mig": [1.0]}, {"metrics": ["sap"]}, "must be columns of both"),
        ({"mig": [1.0]}, 3, {}, "b: must be Scores"),
        ({"mig": [1.0]}, "scores.pkl", {}, "must be a file written by"),
    ],
)
def test_what_cannot_be_compared_is_refused(a, b, how, message):
    with pytest.raises(ValueError, match=message):
        jaxdis.compare(a, b, **how)


@pytest.mark.slow
@pytest.mark.parametrize("count", [3, 5, 10])
@pytest.mark.parametrize("spread", [1.0, 3.0])
@pytest.mark.parametrize("paired", [None, "seed"])
def test_sets_that_do_not_differ_are_told_apart_as_often_as_promised(count, spread, paired):
    """Of 31 columns, in 60 comparisons: false findings, families with one, and intervals that miss 0."""
    draws, found = np.random.default_rng(count), []
    for _ in range(60):
        seeds, scale = {"seed": np.arange(count)}, (1.0, spread)
        sets = [seeds | {f"m{i}": draws.normal(0, s, count) for i in range(31)} for s in scale]
        found.append(jaxdis.compare(*sets, paired=paired).rows)
    p = np.array([[row.p for row in rows] for rows in found])
    assert 0.03 < (p < 0.05).mean() < 0.07  # 1,860 tests: two standard deviations are 0.01; Welch's is not exact
    adjusted = np.array([[row.adjusted for row in rows] for rows in found])
    assert (adjusted < 0.05).any(axis=1).mean() <= 0.13  # 0.05 and three deviations
    covered = np.array([[row.low <= 0 <= row.high for row in rows] for rows in found])
    assert 0.93 < covered.mean() < 0.97
