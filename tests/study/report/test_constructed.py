"""Every analysis of a report on tables that are constructed so that its result is known."""

import dataclasses

import numpy as np
import pytest

from jaxdis import plots
from jaxdis._core import finite
from jaxdis.study.report import _sections as sections
from jaxdis.study.report import _statistics as results
from jaxdis.study.report._figures import MEASURES, blends, chosen_members, dependence, learning, merge_ranks
from jaxdis.study.report._statistics import across_data, score_cube, spearman, transfer
from tests.study.report.planned import spread, subject_of

TWO = ("dsprites", "shapes3d")
# Within either data set the second falls as the first rises; together both rise.
RISING = np.stack([np.linspace(0, 1, 12), np.linspace(2, 3, 12)]).reshape(2, 3, 4)
FALLING = np.stack([np.linspace(1, 0, 12), np.linspace(3, 2, 12)]).reshape(2, 3, 4)
TASK = "downstream_trees"


@pytest.fixture
def drawn(monkeypatch):
    """What is drawn, as (name of the picture, arguments)."""
    calls = []
    for name in plots.__all__:
        if name != "median":
            record = lambda *given, name=name, **named: calls.append((name, given)) or b""  # noqa: E731
            monkeypatch.setattr(plots, name, record)
    return lambda kind: [given for name, given in calls if name == kind]


@pytest.fixture
def written(monkeypatch):
    """The tables that sections write."""
    tables = []
    monkeypatch.setattr(sections, "table", lambda names, columns: tables.append(columns) or "")
    return tables


def opposed(first="mig", second="sap", more=(), **others):
    columns = {first: RISING, second: FALLING, **others}
    return subject_of(columns, data=TWO, metrics=(first, second, *more))


class TestDataSetsAreNeverPooled:
    """Simpson's paradox: −1 within both data sets, positive over their union."""

    def test_the_union_would_mislead(self):
        assert spearman(RISING.ravel(), FALLING.ravel()) > 0.4

    def test_metrics(self, drawn):
        sections.by_data(sections.agreement, opposed())
        assert [matrix[0, 1] for matrix, *_ in drawn("rank_map")] == pytest.approx([-1, -1])

    def test_losses(self, written):
        sections.by_data(sections.unsupervised, opposed(final_loss=RISING, sample_kl=FALLING))
        for found in written:
            np.testing.assert_allclose(found["loss in training"], [1, -1])
            np.testing.assert_allclose(found["kl of samples"], [-1, 1])
        assert len(written) == 2

    def test_relations(self, drawn):
        subject = opposed("mig", "mig_sup", more=("modularity",), modularity=RISING)
        sections.by_data(lambda mine: str(blends(mine)), subject)
        under_one = [matrix for matrix, *_ in drawn("rank_map")]
        assert len(under_one) == 2
        for matrix in under_one:
            np.testing.assert_allclose(matrix[0], [1, -1, 1])

    def test_learning_curves(self, drawn):
        columns = {f"{TASK}.{size}": FALLING for size in (10, 100)} | {f"{TASK}.efficiency": RISING}
        subject = opposed("mig", TASK, **columns)
        sections.by_data(lambda mine: str(learning(mine)), subject)
        for matrix, names, heads in drawn("rank_map"):
            assert names == ["MIG"]
            found = dict(zip(heads, matrix[0], strict=True))
            assert found.pop(next(head for head in heads if "efficiency" in head)) == pytest.approx(1)
            np.testing.assert_allclose([*found.values()], -1)
        assert len(drawn("rank_map")) == 2

    def test_variance_explained(self, written):
        """The model decides everything on either data set, in opposite order."""
        mig = np.stack([[[0.1] * 4, [0.1] * 4, [0.9] * 4], [[0.9] * 4, [0.9] * 4, [0.1] * 4]])
        subject = subject_of({"mig": mig}, data=TWO, metrics=("mig",))
        sections.by_data(sections.explained, subject)
        assert [found["model"] for found in written] == [[pytest.approx(1)]] * 2
        assert results.explained(subject.table, "mig") == pytest.approx(0, abs=1e-12)

    def test_dependence(self, drawn):
        names = tuple(f"{measure}{kind}" for measure in MEASURES for kind in ("", "_sampled"))
        subject = subject_of(dict.fromkeys(MEASURES, RISING), data=TWO, metrics=MEASURES)
        assert dependence(subject) == []  # without sampled codes
        sampled = {f"{measure}_sampled": FALLING for measure in MEASURES}
        table = {**subject.table, **{n: v.ravel() for n, v in sampled.items()}}
        subject = dataclasses.replace(subject, table=table, names=names)
        for _, mine in subject.each():
            assert len(dependence(mine)) == 2
        for [panels] in drawn("point_clouds"):
            for _, _, samples, means in panels:
                assert spearman(samples, means) == pytest.approx(-1)

    def test_one_data_set_has_no_heading_and_no_comparison(self, drawn):
        subject = subject_of({"mig": spread([0.1, 0.2, 0.3])}, metrics=("mig",))
        assert "<h3>" not in sections.by_data(sections.scores, subject)
        assert "between data sets" not in sections.carried(subject)
        assert "between data sets" in sections.carried(opposed())


class TestTies:
    def test_ranks_are_averaged(self):
        # Ranks 1.5, 1.5, 3, 4 and 1.5, 1.5, 3.5, 3.5: covariance 4 over the root of 4.5 × 4.
        assert spearman(np.array([1, 1, 2, 3]), np.array([1, 1, 2, 2])) == pytest.approx(4 / np.sqrt(18))
        assert np.isnan(spearman(np.ones(4), np.arange(4)))

    def test_a_tie_is_as_good(self):
        subject = subject_of({"mig": np.full((2, 3, 4), 0.5), "sap": np.full((2, 3, 4), 0.5)}, TWO, ("mig", "sap"))
        assert transfer(subject.table, ["mig", "sap"]) == (1, 1, 1, 1)

    def test_scores_that_never_vary_are_compared_with_nothing(self, drawn, written):
        subject = subject_of({"mig": np.full((1, 3, 4), 0.5), "sap": spread([0.1, 0.2, 0.3])}, metrics=("mig", "sap"))
        assert sections.agreement(subject) == ""
        sections.explained(subject)
        assert [len(found["metric"]) for found in written] == [1]

    def test_equal_members_are_in_the_order_of_the_table(self):
        subject = subject_of({"mig": np.full((1, 3, 4), 0.5)}, metrics=("mig",))
        assert chosen_members(subject, "mig") == {"best": 11, "median": 6, "worst": 0}


class TestOneSeed:
    @pytest.fixture
    def alone(self):
        scores = np.array([[[0.1], [0.2], [0.3]], [[0.3], [0.2], [0.1]]])
        return subject_of({"mig": scores, "sap": scores[::-1]}, TWO, ("mig", "sap"), seeds=1)

    def test_nothing_can_be_said_to_transfer(self, alone):
        assert sections.carried(alone) == ""
        assert np.isnan(transfer(alone.table, ["mig", "sap"])).all()

    def test_means_have_no_interval(self, alone, drawn, written):
        sections.by_data(sections.scores, alone)
        assert [found["β-TCVAE"][0] for found in written] == ["0.3", "0.1"]
        assert not drawn("violins")
        assert not drawn("violins_by_regularization")

    def test_settings_can_still_be_compared_between_data_sets(self, alone):
        matrix, _ = across_data(alone.table, "mig")
        np.testing.assert_allclose(matrix, [[1, -1], [-1, 1]])


class TestMissingCells:
    """A setting that one data set lacks, and a metric that some members lack."""

    @pytest.fixture
    def subject(self):
        mig = np.array([[0.1, 0.9, 0.3], [0.1, 0.2, 0.4]])[:, :, None] + np.zeros(4)
        subject = subject_of({"mig": mig, "sap": 1 - mig}, TWO, ("mig", "sap"))
        lacks = (subject.table["data"] == "shapes3d") & (subject.settings == np.array("β-VAE, β = 4"))
        assert lacks.sum() == 4
        return subject.rows(~lacks)

    def test_the_cube_has_a_hole(self, subject):
        cube, data, _ = score_cube(subject.table, ["mig"])
        assert data == TWO
        assert np.isnan(cube[1, 1]).all()
        assert np.isfinite(np.delete(cube, 1, axis=1)).all()

    def test_what_is_missing_never_wins(self, subject):
        """On the first data set the missing setting is best; where it is chosen, nothing is compared elsewhere."""
        found = transfer(subject.table, ["mig"])
        assert found.same_data_same_metric == 1
        assert np.isnan(found.same_data_other_metric)
        # Chosen on the second, it is the second of three on the first, as good as two of them.
        assert found.other_data_same_metric == pytest.approx(2 / 3, abs=0.03)

    def test_data_sets_are_compared_on_common_settings(self, subject):
        assert np.isnan(across_data(subject.table, "mig")[0][0, 1])  # two settings are too few
        assert len(subject) == 20


class TestUndefinedScores:
    def test_a_column_of_nan_is_left_out_everywhere(self, drawn, written):
        nowhere = np.full((1, 3, 4), np.nan)
        columns = {"mig": spread([0.1, 0.2, 0.3]), "sap": nowhere, "mig_sup": spread([0.3, 0.2, 0.1])}
        subject = subject_of(columns, metrics=tuple(columns))
        assert "sap" not in [*subject.varying(), *subject.headline_columns(), *subject.headlines().values()]
        sections.agreement(subject)
        assert all(len(names) == 2 for _, names in drawn("rank_map"))
        sections.explained(subject)
        assert [len(found["metric"]) for found in written] == [2]
        assert chosen_members(subject, "sap") == {}

    def test_members_without_a_score_are_left_out_of_a_correlation(self):
        mig = np.arange(12.0).reshape(1, 3, 4)
        sap = -mig.copy()
        sap[0, 0, 0], mig[0, 2, 3] = 100.0, np.nan
        mig[0, 0, 0] = np.nan
        table = subject_of({"mig": mig, "sap": sap}, metrics=("mig", "sap")).table
        assert spearman(table["mig"], table["sap"]) == pytest.approx(-1)

    def test_and_of_the_groups_by_a_score(self, drawn):
        """Accuracy rises with the score, and is lowest where the score is undefined."""
        mig = np.arange(12.0).reshape(1, 3, 4)
        accuracy = mig / 12
        mig[0, 0, :3], accuracy[0, 0, :3] = np.nan, -1
        columns = {"mig": mig, TASK: accuracy} | {f"{TASK}.{size}": accuracy for size in (10, 100)}
        learning(subject_of(columns, metrics=("mig", TASK)))
        [(sizes, groups, *_)] = drawn("curves")
        np.testing.assert_allclose(sizes, [1, 2])
        expected = {"lowest third": [3, 4, 5], "middle third": [6, 7, 8], "highest third": [9, 10, 11]}
        for name, members in expected.items():
            np.testing.assert_allclose(groups[name], np.tile(np.array(members) / 12, (2, 1)))

    def test_medians_and_means_are_of_what_is_defined(self):
        assert finite.median(np.array([np.nan, 1, 5, 3])) == finite.mean([1, np.nan, 5]) == 3
        assert np.isnan(finite.median(np.array([np.nan])))
        assert np.isnan(finite.mean([]))

    def test_the_share_explained_is_that_of_defined_members(self):
        mig = spread([0.1, 0.5, 0.9], noise=0)
        mig[0, 2] = np.nan
        subject = subject_of({"mig": mig}, metrics=("mig",))
        assert results.explained(subject.table, "mig") == pytest.approx(0, abs=1e-12)  # what is left is of one model
        assert results.explained(subject.table, "mig", subject.regularization) == pytest.approx(1)


def test_merges_by_hand():
    """Factors 0 and 1 join first, then 2 and 3, then 4 joins the first two, then all."""
    ranks = merge_ranks(np.array([[0, 1], [2, 3], [4, 5], [6, 7]]))
    expected = np.full((5, 5), 3.0)
    expected[[0, 1], [1, 0]] = 0
    expected[[2, 3], [3, 2]] = 1
    expected[[0, 1, 4, 4], [4, 4, 0, 1]] = 2
    np.fill_diagonal(expected, np.nan)
    np.testing.assert_array_equal(ranks, expected)


def test_best_median_and_worst_follow_the_direction_of_the_score():
    subject = subject_of({"mig": np.arange(12.0).reshape(1, 3, 4)}, metrics=("mig",))
    assert chosen_members(subject, "mig") == {"best": 11, "median": 6, "worst": 0}
    flipped = type("Flipped", (type(subject),), {"lower_is_better": lambda self, name: True})
    assert chosen_members(flipped.of(subject.study, subject.table), "mig")["best"] == 0


def test_scores_that_cannot_mean_what_they_seem_to_are_named():
    """A hundred samples of dSprites, whose orientations have 40 values."""
    found = sections._notes(subject_of({"mig": RISING[:1], "explicitness": RISING[:1]}))
    assert "mig: 100 samples are few for 20 bins and the 40 classes of orientation" in found
    assert "explicitness: 100 samples are few for the 40 classes of orientation, 2 each." in found
    assert "mig: orientation has 40 classes in 20 bins: mutual information reaches at most 0.81 of its entropy" in found
