"""Comparisons of scores, against scipy's tests and simulations of members that do not differ."""

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import jaxdis
from jaxdis.cli import _score_tables, main
from jaxdis.evaluation._comparison import FEWEST, Row, holm
from tests.draws import representations

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
    factors = representations()[1]
    codes = np.random.default_rng(1).normal(size=(2, 4, 200, 3)).astype(np.float32)
    codes[1, :, :, 0] += factors[:, 0]
    tables = [jaxdis.evaluate(each, factors, ["mig", "sap_r2"], members={"seed": [3, 1, 2, 0]}) for each in codes]
    paths = [tmp_path / "a.csv", tmp_path / "b.npz"]
    tables[0].to_csv(paths[0])
    tables[1].save(paths[1])
    expected = by_name(jaxdis.compare(*tables, paired="seed"))
    assert expected["mig"].adjusted < 0.05
    found = by_name(jaxdis.compare(*paths, paired="seed", metrics=["mig", "sap_r2"]))
    assert found["mig"][2:] == pytest.approx(expected["mig"][2:])
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


def test_sets_without_a_number_are_named_and_never_the_best(tmp_path, capsys):
    paths = [str(tmp_path / name) for name in ("old.csv", "new.csv")]
    for path, score in zip(paths, ("0.1", "nan"), strict=True):
        Path(path).write_text(f"member,mig\n0,{score}\n1,{score}\n")
    assert main(["compare", *paths]) == 0
    assert "nan" not in capsys.readouterr().out
    nothing = {"mig": np.full(6, np.nan)}
    (sentence,) = jaxdis.compare({"mig": FIRST["mig"]}, nothing, names=("old", "new")).sentences()
    assert sentence == "mig: no score in new is a number"
    found = jaxdis.compare(nothing, {"mig": FIRST["mig"]}, nothing, {"mig": SECOND["mig"]}, names="abcd")
    assert [row.sets for row in found.rows] == [("d", "b"), ("d", "a"), ("d", "c")]
    (both,) = jaxdis.compare(nothing, nothing, names="ab").sentences()
    assert both == "mig: no score in a and b is a number"


@pytest.mark.parametrize(
    ("a", "b", "how", "message"),
    [
        ({"mig": [1.0]}, {"sap": [1.0]}, {}, "in common"),
        ({"mig": [1.0]}, {"mig": [1.0]}, {"paired": "seed"}, "paired: must be one of mig"),
        ({"mig": [1.0, 2.0], "s": [0, 0]}, {"mig": [1.0], "s": [0]}, {"paired": "s"}, "more than once"),
        ({"mig": [1.0], "s": [0]}, {"mig": [1.0], "s": [1]}, {"paired": "s"}, "occur in all sets"),
        ({"mig": [1.0]}, {"mig": [1.0]}, {"metrics": ["sap"]}, "must be columns of all sets"),
        ({"mig": [1.0]}, 3, {}, "b: must be Scores"),
        ({"mig": [1.0]}, "scores.pkl", {}, "must be a file written by"),
    ],
)
def test_what_cannot_be_compared_is_refused(a, b, how, message):
    with pytest.raises(ValueError, match=message):
        jaxdis.compare(a, b, **how)


def test_all_sets_are_set_beside_the_best():
    draws = np.random.default_rng(2)
    sets = [{"mig": draws.normal(mean, 0.02, 8), "amari": draws.normal(mean, 0.02, 8)} for mean in (0.2, 0.4, 0.38)]
    found = jaxdis.compare(*sets, names=["low", "high", "near"])
    assert [(row.metric, row.sets) for row in found.rows] == [
        ("mig", ("high", "near")),
        ("mig", ("high", "low")),
        ("amari", ("low", "near")),  # an error: the lowest is best
        ("amari", ("low", "high")),
    ]
    row = found.rows[1]
    expected = stats.ttest_ind(sets[0]["mig"], sets[1]["mig"], equal_var=False)
    assert row.p == pytest.approx(expected.pvalue)
    assert (row.low, row.high) == pytest.approx(tuple(expected.confidence_interval()))
    assert row.p * 4 <= row.adjusted <= row.p * 6  # of three pairs in two columns
    assert "mig: low lower by" in repr(found)


def test_a_column_divides_one_set_and_metadata_comes_from_a_file(tmp_path):
    table = {"file": ["runs/x.npz", "runs/y.npz", "z.npz"] * 2, "mig": np.arange(6.0)}
    table["file"] = [f"{name}{place}" for place, name in enumerate(table["file"])]
    settings = ["narrow", "wide"] * 3
    meta = tmp_path / "runs.csv"
    meta.write_text(
        "file,width\n" + "".join(f"{f},{w}\n" for f, w in reversed(list(zip(table["file"], settings, strict=True))))
    )
    (row,) = jaxdis.compare(table, by="width", meta=meta).rows
    assert row.sets == ("narrow", "wide")
    assert (row.first, row.second) == (2.0, 3.0)
    with pytest.raises(ValueError, match="meta: must have a row for every member, got none for 'y'"):
        jaxdis.compare(
            {"member": ["y"], "mig": [1.0]}, {"member": ["y"], "mig": [1.0]}, meta={"member": ["x"], "s": [0]}
        )


def test_json_of_one_and_of_several_files_is_read(tmp_path):
    one = {
        "mig": [0.1, None],
        "members": [{"member": "m", "seed": 0}, {"member": "n", "seed": 1}],
        "parts": {},
        "notes": [],
    }
    several = {"x.npz": one | {"mig": [0.5, 0.75]}, "y.npz": {"mig": 0.25, "members": [{"member": 0, "seed": 5}]}}
    for name, content in (("one", one), ("several", several)):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    (row,) = jaxdis.compare(tmp_path / "one.json", tmp_path / "several.json").rows
    assert (row.first, row.second) == pytest.approx((0.1, 0.5))
    (tmp_path / "bad.json").write_text("[1")
    with pytest.raises(ValueError, match=r"bad.json: must be JSON of scores"):
        jaxdis.compare(tmp_path / "bad.json", tmp_path / "one.json")


@pytest.mark.parametrize("ending", ["csv", "json", "npz", "parquet"])
def test_numbers_that_describe_members_are_no_scores(ending, tmp_path):
    """In files as in memory; rows that were added with other metrics count as well."""
    codes, factors = representations(3)
    tables = {name: jaxdis.evaluate(codes, factors, name) for name in ("mig", "sap_r2")}
    tables = {
        name: dataclasses.replace(table, members=tuple({"member": f"m{i}", "beta": i} for i in range(3)))
        for name, table in tables.items()
    }
    path = tmp_path / f"scores.{ending}"
    if ending == "npz":
        tables["mig"].save(path)
    elif ending == "json":
        path.write_text(_score_tables.to_json(tables, {}, several=True))
    elif ending == "csv":
        path.write_text(_score_tables.to_csv(tables, {}, several=True))
    else:
        _score_tables.append(path, {"mig": tables["mig"]}, {})
        _score_tables.append(path, {"sap_r2": tables["sap_r2"]}, {})
    compared = {row.metric for row in jaxdis.compare(path, path).rows}
    assert compared == ({"mig"} if ending == "npz" else {"mig", "sap_r2"})


def test_permutations_take_no_distribution_for_granted():
    (row,) = jaxdis.compare(
        {"s": [0, 1, 2], "m": [0.0, 0.1, 0.2]}, {"s": [0, 1, 2], "m": [1.0, 1.2, 1.1]}, paired="s"
    ).rows
    assert row.permutation == 0.25  # two of the eight signs of three differences
    (row,) = jaxdis.compare({"m": [0.0, 0.1, 0.2]}, {"m": [1.0, 1.2, 1.1]}).rows
    assert row.permutation == 0.1  # two of twenty divisions


def test_sets_are_ranked_across_data():
    draws = np.random.default_rng(3)
    data = [f"d{place}" for place in range(14)]
    sets = [{"data": data, "mig": draws.normal(mean, 0.1, 14)} for mean in (0.1, 0.1, 0.1, 0.5)]
    (found,) = jaxdis.compare(*sets, across="data").ranks
    assert found.p == pytest.approx(stats.friedmanchisquare(*(one["mig"] for one in sets)).pvalue)
    assert found.critical == pytest.approx(1.25, abs=0.005)  # Demšar 2006, §3.2.4: four classifiers, fourteen data sets
    assert found.ranks["d"] == min(found.ranks.values())
    assert "surely behind d" in found.sentence()
    with pytest.raises(ValueError, match="across: must have at least three sets"):
        jaxdis.compare(*sets[:2], across="data")


def test_sets_are_ranked_where_all_have_a_number():
    data, blank = ["x", "y", "z"] * 2, np.nan
    sets = [{"data": data, "mig": np.array(scores)} for scores in (
        (0.1, 0.2, 0.3, 0.1, 0.2, 0.3), (0.2, blank, 0.4, 0.2, blank, 0.4), (0.3, 0.3, blank, 0.3, 0.3, 0.5)
    )]  # fmt: skip
    (found,) = jaxdis.compare(*sets, across="data").ranks
    assert (found.blocks, found.ranks) == (2, {"a": 3, "b": 2, "c": 1})
    sets[1]["mig"][[0, 3]] = blank
    (found,) = jaxdis.compare(*sets, across="data").ranks
    assert found.sentence() == "mig: no ranks; fewer than two data sets have a number in every set"
    (found,) = jaxdis.compare(*[sets[0]] * 3, names="abc", across="data").ranks
    assert (found.p, set(found.ranks.values())) == (1, {2})


def test_two_representations_of_the_same_samples_are_compared_by_replicates():
    draws = np.random.default_rng(4)
    factors = draws.integers(0, 3, (400, 2))
    codes = (factors + draws.normal(size=(3, 400, 2)) * np.array([0.5, 0.5, 1.0])[:, None, None]).astype(np.float32)
    near, same, far = (jaxdis.evaluate(each, factors, "mig", bootstrap=50) for each in codes)
    (row,) = jaxdis.compare(near, far).rows
    assert row.adjusted < 0.05
    assert row.high < 0
    error = (far.replicates["mig"] - near.replicates["mig"]).std(ddof=1)
    assert row.high - row.low == pytest.approx(2 * 1.96 * error, rel=1e-3)
    assert jaxdis.compare(near, same).rows[0].p > 0.05
    assert "not sure" in jaxdis.compare(near, same).sentences()[0]
    with pytest.raises(ValueError, match="the same samples with the same key"):
        jaxdis.compare(near, jaxdis.evaluate(codes[1], factors, "mig", 1, bootstrap=50))


def test_of_many_sets_that_do_not_differ_few_families_hold_a_finding():
    """Six sets of five members, in 300 comparisons of one column: the best is chosen after the fact."""
    draws, families = np.random.default_rng(0), 0
    for _ in range(300):
        sets = [{"m": draws.normal(0, spread, 5)} for spread in (1, 1, 1, 1, 3, 3)]
        families += min(row.adjusted for row in jaxdis.compare(*sets).rows) < 0.05
    assert families / 300 <= 0.05 + 3 * 0.0126


@pytest.mark.parametrize("count", [3, 10])
@pytest.mark.parametrize("paired", [None, "seed"])
def test_sets_that_do_not_differ_are_told_apart_as_often_as_promised(count, paired):
    """Of 31 columns, in 60 comparisons: false findings, families with one, and intervals that miss 0."""
    draws, found = np.random.default_rng(count), []
    for _ in range(60):
        seeds = {"seed": np.arange(count)}
        sets = [seeds | {f"m{i}": draws.normal(0, spread, count) for i in range(31)} for spread in (1.0, 3.0)]
        found.append(jaxdis.compare(*sets, paired=paired).rows)
    p = np.array([[row.p for row in rows] for rows in found])
    assert 0.03 < (p < 0.05).mean() < 0.07  # 1,860 tests: two standard deviations are 0.01; Welch's is not exact
    adjusted = np.array([[row.adjusted for row in rows] for rows in found])
    assert (adjusted < 0.05).any(axis=1).mean() <= 0.13  # 0.05 and three deviations
    covered = np.array([[row.low <= 0 <= row.high for row in rows] for rows in found])
    assert 0.93 < covered.mean() < 0.97


def test_a_folder_of_files_is_a_set(tmp_path):
    for seed in range(3):
        (tmp_path / f"run{seed}.csv").write_text(f"seed,mig\n{seed},0.{seed + 1}\n")
    (row,) = jaxdis.compare(tmp_path, {"seed": [0, 1, 2], "mig": [0.2, 0.3, 0.4]}, paired="seed").rows
    assert (row.first, row.difference) == pytest.approx((0.2, 0.1))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="must be a folder with files of scores"):
        jaxdis.compare(tmp_path / "empty", tmp_path)


@pytest.mark.parametrize("value", [0.3, 1 / 3, 0.1, -0.7, 0.0])
def test_equal_constants_are_equal_however_many(value, tmp_path):
    """Six times 0.3 is less than ten times, divided by ten and six: the last bit was a difference with p = .015."""
    paths = [tmp_path / "a.csv", tmp_path / "b.csv"]
    columns = [{"mig": np.full(count, value), "sap": rng.normal(size=count)} for count in (6, 10)]
    for path, column in zip(paths, columns, strict=True):
        rows = zip(range(len(column["mig"])), *column.values(), strict=True)
        path.write_text("member,mig,sap\n" + "\n".join(",".join(map(str, row)) for row in rows))
    other = {"mig": np.full(7, np.float32(value))}
    for sets in (columns, paths, (columns[0], other)):
        comparison = jaxdis.compare(*sets)
        row = by_name(comparison)["mig"]
        assert (row.difference, row.low, row.high, row.p, row.adjusted, row.effect) == (0, 0, 0, 1, 1, 0)
        assert "mig: equal, p = 1" in str(comparison)


def test_gaps_and_ranks_that_differ_by_rounding_are_equal():
    first = {"seed": np.arange(5), "data": list("abcab"), "mig": np.array([0.1, 0.2, 0.3, 0.7, 0.9])}
    shifted = {**first, "mig": first["mig"] + 0.1}
    (row,) = jaxdis.compare(first, shifted, paired="seed").rows
    assert (row.p, row.effect, row.low) == (0, math.inf, row.high)
    assert jaxdis.compare({"mig": [0.5] * 3}, {"mig": [0.75] * 3}).rows[0].p == 0
    thrice = [{"data": ["a"] * count + ["b"] * 3, "mig": np.full(count + 3, 0.3)} for count in (3, 6, 10)]
    (ranks,) = jaxdis.compare(*thrice, across="data").ranks
    assert set(ranks.ranks.values()) == {2.0}
