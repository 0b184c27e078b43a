"""Correlations and shares explained against the numbers of Mahon et al. 2024, SciPy, NumPy and known truths."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from jaxdis._core.files import read_csv_columns
from jaxdis.models import OBJECTIVES
from jaxdis.study.report import _statistics as correlation
from jaxdis.study.report._statistics import (
    fisher_comparison,
    mean_over_seeds,
    over_seeds,
    pearson,
    spearman_of_columns,
)

PAPER = json.loads((Path(__file__).parents[2] / "golden/mahon2024_tables.json").read_text())
METRICS = ("SNC", "NK", "MIG", "SAP", "IRS", "D", "C", "I", "MED")
TARGET = np.array(PAPER["compositional_generalization_both"])
SHAPES = slice(6, 12)  # the six models on 3dshapes


def test_significance_of_the_papers_appendix_e():
    """t = 6.45 and p < 1e-5 over 18 models, t = 3.23 and p < .033 over six, from r rounded to .85."""
    everything = pearson(np.array(PAPER["SNC"]), TARGET)
    assert (everything.n, everything.t) == (18, pytest.approx(6.45, abs=0.02))
    assert everything.p < 1e-5
    shapes = pearson(np.array(PAPER["SNC"])[SHAPES], TARGET[SHAPES])
    assert (shapes.n, shapes.t) == (6, pytest.approx(3.23, abs=0.03))
    assert 0.03 < shapes.p < 0.033


def test_significance_of_the_papers_figures_15_and_16():
    """They hold with the variance of one correlation; with that of a difference, SNC beats SAP and IRS alone."""
    r = np.array([PAPER["printed_correlation_all"][name] for name in METRICS])
    p = fisher_comparison(r, 18, samples=1)
    significant = {(METRICS[a], METRICS[b]) for a, b in np.argwhere(p < 0.01)}
    assert significant == {("SNC", name) for name in METRICS if name not in ("SNC", "NK")} | {("NK", "IRS")}
    shapes = [PAPER["printed_correlation_3dshapes"][name] for name in METRICS]
    assert not (fisher_comparison(np.array(shapes), 6, samples=1) < 0.01).any()
    proper = fisher_comparison(r, 18)
    assert {(METRICS[a], METRICS[b]) for a, b in np.argwhere(proper < 0.01)} == {("SNC", "SAP"), ("SNC", "IRS")}
    assert proper[0, METRICS.index("MIG")] == pytest.approx(0.049, abs=0.002)


def test_pearson_is_scipys_and_leaves_undefined_points_out():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, 12))
    found = pearson(np.append(x, np.nan), np.append(y, 3.0))
    assert found[:1] + found[2:] == pytest.approx((*stats.pearsonr(x, y), 12))
    assert np.isnan(pearson(np.ones(5), y[:5]).r)
    assert pearson(x, 2 * x).t == np.inf


def test_few_points_have_no_comparison():
    assert np.isnan(fisher_comparison(np.array([0.1, 0.9]), 3)).all()


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    mig = rng.normal(size=40)
    return {"seed": np.repeat(np.arange(10.0), 4), "mig": mig, "sap": mig + rng.normal(size=40), "none": np.ones(40)}


def test_rank_correlation_is_spearmans(table):
    matrix = spearman_of_columns(table, ["mig", "sap"])
    assert matrix[0, 1] == pytest.approx(stats.spearmanr(table["mig"], table["sap"])[0])
    np.testing.assert_allclose(matrix, matrix.T)
    np.testing.assert_allclose(np.diag(matrix), 1)
    assert spearman_of_columns(table, ["mig"], ["sap", "none"]).shape == (1, 2)
    assert np.isnan(spearman_of_columns(table, ["mig"], ["none"])[0, 0])
    table["mig"][3] = np.nan
    known = np.isfinite(table["mig"])
    expected = stats.spearmanr(table["mig"][known], table["sap"][known])[0]
    assert spearman_of_columns(table, ["mig", "sap"])[1, 0] == pytest.approx(expected)


def test_the_interval_over_seeds_is_that_of_whole_seeds():
    """Ten seeds of four identical members: Student's interval of ten values, not of 40."""
    rng = np.random.default_rng(2)
    per_seed = rng.normal(size=10)
    table = {"seed": np.repeat(np.arange(10), 4), "mig": np.repeat(per_seed, 4)}
    found = over_seeds(table, lambda rows: rows["mig"].mean(), replicates=4000)
    width = 2 * stats.t.isf(0.025, 9) * per_seed.std(ddof=1) / np.sqrt(10)
    assert found.value == pytest.approx(per_seed.mean())
    assert found.high - found.low == pytest.approx(width, rel=0.04)  # three errors of the spread of 4,000 draws
    assert found == over_seeds(table, lambda rows: rows["mig"].mean(), replicates=4000)


@pytest.mark.parametrize("seeds", [1, 2])
def test_fewer_than_three_seeds_have_no_interval(seeds):
    table = {"seed": np.arange(4) % seeds, "mig": np.arange(4.0)}
    assert np.isnan(over_seeds(table, lambda rows: rows["mig"].mean()).low)
    found = mean_over_seeds(table["mig"], table["seed"])
    assert found.value == 1.5
    assert np.isnan(found.low)


@pytest.mark.parametrize("count", [3, 5, 10])
def test_intervals_over_seeds_cover_the_mean_as_often_as_they_say(count):
    """95 % of 2,000 tables, within two errors (half a percent each) of 0.93 to 0.97; percentiles: 73, 83 and 90 %."""
    rng, exact, drawn = np.random.default_rng(count), [], []
    for trial in range(2000):
        seeds = np.repeat(np.arange(count), 2)
        scores = rng.normal(size=count)[seeds] + 0.3 * rng.normal(size=2 * count)
        found = mean_over_seeds(scores, seeds)
        exact.append(found.low <= 0 <= found.high)
        if trial < 500:
            table = {"seed": seeds, "mig": scores}
            found = over_seeds(table, lambda rows: rows["mig"].mean(), replicates=200)
            drawn.append(found.low <= 0 <= found.high)
    assert 0.93 <= np.mean(exact) <= 0.97
    assert 0.92 <= np.mean(drawn) <= 0.98  # one error is one percent here


def test_undefined_scores_are_left_out_of_a_mean_over_seeds():
    found = mean_over_seeds(np.array([1.0, 2.0, 3.0, np.nan]), np.array([0, 1, 2, 3]))
    assert found.value == 2
    assert found.high - found.value == pytest.approx(stats.t.isf(0.025, 2) / np.sqrt(3))


def test_intervals_of_a_correlation_over_seeds(table):
    found = over_seeds(table, lambda rows: correlation.spearman(rows["mig"], rows["sap"]), replicates=200)
    assert found.low < found.value < found.high


@pytest.fixture
def trained():
    rng = np.random.default_rng(0)
    objective = np.repeat(["beta", "dip_ii"], 12)
    beta = np.where(objective == "beta", np.tile(np.repeat([1.0, 4.0, 8.0], 4), 2), np.nan)
    off = np.where(objective == "dip_ii", np.tile(np.repeat([1.0, 5.0, 10.0], 4), 2), np.nan)
    mig = (objective == "beta") * 0.3 + np.nan_to_num(beta) * 0.05 + rng.normal(size=24) * 0.1
    return {"model": objective, "beta": beta, "lambda_off_diagonal": off, "mig": mig, "sap": rng.normal(size=24)}


def test_variance_explained_is_that_of_least_squares_on_one_hot_groups(trained):
    groups = np.array(
        [f"{o}{s}" for o, s in zip(trained["model"], correlation.regularizations(trained, OBJECTIVES), strict=True)]
    )

    def share(labels):
        design = (labels[:, None] == np.unique(labels)[None, :]).astype(float)
        fitted = design @ np.linalg.lstsq(design, trained["mig"], rcond=None)[0]
        return 1 - ((trained["mig"] - fitted) ** 2).sum() / ((trained["mig"] - trained["mig"].mean()) ** 2).sum()

    assert correlation.explained(trained, "mig") == pytest.approx(share(trained["model"]))
    by = correlation.regularizations(trained, OBJECTIVES)
    assert correlation.explained(trained, "mig", by) == pytest.approx(share(groups))


def test_regularizations_are_of_each_members_own_setting(trained):
    np.testing.assert_array_equal(correlation.regularizations(trained, OBJECTIVES)[[0, 11, 12, 23]], [1, 8, 1, 10])


def test_results_come_back_as_columns(tmp_path):
    (tmp_path / "r.csv").write_text("model,mig\nbeta,0.5\ndip_i,\n")
    table = read_csv_columns(tmp_path / "r.csv")
    assert table["model"].tolist() == ["beta", "dip_i"]
    assert table["mig"][0] == 0.5
    assert np.isnan(table["mig"][1])
