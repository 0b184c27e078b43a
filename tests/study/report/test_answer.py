"""The answer at the top of a report, on tables whose answer is known."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from jaxdis import METRICS
from jaxdis._core.spec import Spec
from jaxdis.evaluation._comparison import p_in_words
from jaxdis.metrics import Blend, Direct
from jaxdis.papers.eastwood2018._run import lasso_regression
from jaxdis.study import Sampling, Study
from jaxdis.study.report import _sections as sections
from jaxdis.study.report._answer import answer, best_member, lead, ranking
from jaxdis.study.report._report import _best
from jaxdis.study.report._subject import Subject
from tests.study.report.planned import CHOSEN, SEEDS, spread, subject_of


def test_settings_are_ranked_by_their_means_and_the_ranks_averaged():
    columns = {"mig_sup": spread([0.1, 0.3, 0.2]), "mig": spread([0.1, 0.2, 0.4]), "explicitness": spread([0.9] * 3)}
    subject = subject_of(columns)
    found = ranking(subject, CHOSEN)
    assert found.settings == ("β-VAE, β = 1", "β-VAE, β = 4", "β-TCVAE, β = 4")
    np.testing.assert_array_equal(found.rank, [[3, 3, 2], [1, 2, 2], [2, 1, 2]])
    np.testing.assert_allclose(found.overall, [8 / 3, 5 / 3, 5 / 3])
    np.testing.assert_allclose(found.spread, np.std([-0.01, 0, 0, 0.01]) * np.ones((3, 3)), rtol=1e-12)


def test_where_less_is_better_the_least_comes_first():
    columns = {"mig": spread([0.1, 0.2, 0.4]), "rmse": spread([0.1, 0.2, 0.4])}
    subject = subject_of(columns, metrics=("mig",))
    error = {"mig": METRICS["mig"], "rmse": Blend("r2", "amari")}
    study = Study.of("errors", subject.study.trainings, error, sampling=Sampling(100, 50))
    found = ranking(Subject.of(study, subject.table), ("mig", "rmse"))
    np.testing.assert_array_equal(found.rank, [[3, 1], [2, 2], [1, 3]])


@pytest.mark.parametrize(("gap", "certain"), [(0.2, True), (0.002, False)])
def test_a_lead_is_more_than_noise_only_if_seeds_say_so(gap, certain):
    columns = dict.fromkeys(CHOSEN, spread([0.1, 0.3, 0.3 + gap]))
    subject = subject_of(columns)
    found = lead(subject, ranking(subject, CHOSEN), "mig")
    a, b = (columns["mig"][0, row] for row in (2, 1))
    assert (found.best, found.second) == (2, 1)
    assert found.difference == pytest.approx(gap)
    assert found.p == pytest.approx(stats.ttest_ind(a, b, equal_var=False).pvalue)
    against = stats.ttest_ind(a, columns["mig"][0, 0], equal_var=False).pvalue
    assert (found.worst, found.worst_p) == (0, pytest.approx(3 * against))  # of three pairs
    assert "surely leads β-VAE, β = 1" in answer(subject)
    assert ("(significant" in answer(subject)) == certain
    assert ("not significant" in answer(subject)) != certain


def test_one_seed_ranks_but_is_sure_of_nothing():
    subject = subject_of(dict.fromkeys(CHOSEN, np.array([[[0.1], [0.2], [0.3]]])), seeds=1)
    said = answer(subject)
    assert "three seeds or more could tell this from noise" in said
    assert "±" not in said
    assert np.isnan(ranking(subject, CHOSEN).spread).all()


def test_settings_that_share_the_best_rank_are_all_named():
    said = answer(subject_of(dict.fromkeys(CHOSEN, spread([0.1, 0.3, 0.3]))))
    assert "<strong>β-VAE, β = 4</strong> and <strong>β-TCVAE, β = 4</strong> share the best average rank of 3" in said
    assert "Compactness: β-VAE, β = 4 and β-TCVAE, β = 4 tie." in said
    assert "leads" not in said


def test_members_whose_training_stopped_are_mentioned():
    subject = subject_of(dict.fromkeys(CHOSEN, spread([0.1, 0.2, 0.3])))
    assert "stopped early" not in answer(subject)
    stopped = np.where(np.array(subject.settings) == "β-TCVAE, β = 4", 0, -1)
    said = answer(Subject.of(subject.study, {**subject.table, "stopped": stopped}))
    assert f"Training of {SEEDS} of {3 * SEEDS} members stopped early" in said
    assert "(β-TCVAE, β = 4)" in said


def test_members_without_different_combinations_are_not_called_seeds_alone():
    subject = subject_of(dict.fromkeys(CHOSEN, spread([0.1, 0.2, 0.3])))
    assert f"Mean ± standard deviation over {SEEDS} seeds (rank)" in answer(subject)
    table = {**subject.table, "held_out": np.array(["shape 0", "shape 1"] * 6)}
    assert "over seeds and held-out combinations (rank)" in answer(Subject.of(subject.study, table))


def test_undefined_settings_come_last_and_lead_nothing():
    columns = dict.fromkeys(CHOSEN, spread([np.nan, 0.2, 0.1]))
    subject = subject_of(columns)
    found = ranking(subject, CHOSEN)
    np.testing.assert_array_equal(found.rank[:, 0], [3, 1, 2])
    assert (found.order[-1], lead(subject, found, "mig").second) == (0, 2)
    nowhere = subject_of(dict.fromkeys(CHOSEN, spread([np.nan] * 3)))
    assert answer(nowhere) == ""


def test_the_best_member_is_of_the_best_setting():
    columns = {name: spread([0.5, 0.1, 0.2]) for name in CHOSEN}
    for column in columns.values():
        column[0, 1, 2] = 0.99  # one lucky seed of the worst setting
    row = best_member(subject_of(columns), CHOSEN)
    assert row == 3  # of the first setting, the seed with the highest scores


def test_a_member_without_scores_is_not_the_best():
    columns = {name: spread([0.5, 0.1, 0.2]) for name in CHOSEN}
    for column in columns.values():
        column[0, 0, :2] = np.nan
    assert best_member(subject_of(columns), CHOSEN) == 3


def test_the_best_member_without_headlines_has_the_least_error():
    plan = {"lasso": Direct(Spec(lasso_regression).with_options(penalty=0.1))}
    subject = subject_of(dict.fromkeys(("lasso", "lasso.completeness"), spread([0.5, 0.1, 0.2])), metrics=("mig",))
    study = dataclasses.replace(subject.study, metrics=tuple(plan.items()))
    subject = Subject.of(study, subject.table)
    assert subject.lower_is_better("lasso")
    assert not subject.lower_is_better("lasso.completeness")
    assert _best(subject) == 4  # of the second setting, the first seed
    assert "Metrics: lasso completeness." in sections.carried(subject)


def test_columns_have_the_titles_of_their_metrics_and_link_to_them():
    subject = subject_of(dict.fromkeys(CHOSEN, spread([0.1, 0.2, 0.3])))
    assert dict(subject.titles) == {"mig_sup": "MIG-sup", "mig": "MIG", "explicitness": "Explicitness score"}
    assert '<a href="#metric-mig">MIG</a>' in answer(subject)


def test_equal_ranks_are_broken_by_the_size_of_the_differences():
    """Two settings lead in one aspect each; the first by little, the second by far."""
    columns = {"mig_sup": spread([0.1, 0.31, 0.30]), "mig": spread([0.1, 0.2, 0.6]), "explicitness": spread([0.9] * 3)}
    subject = subject_of(columns)
    found = ranking(subject, CHOSEN)
    assert found.overall[1] == found.overall[2]
    assert [found.settings[row] for row in found.order] == ["β-TCVAE, β = 4", "β-VAE, β = 4", "β-VAE, β = 1"]
    assert "<strong>β-TCVAE, β = 4</strong> is ahead by the size of the differences" in answer(subject)
    assert subject.settings[best_member(subject, CHOSEN)] == "β-TCVAE, β = 4"


def test_a_p_value_is_never_0():
    column = np.array([[[0.1, 0.1], [0.2, 0.2], [0.9, 0.9]]]) + 1e-9 * np.arange(2)
    said = answer(subject_of(dict.fromkeys(CHOSEN, column), seeds=2))
    assert "p = 0)" not in said
    assert "p = 0," not in said
    assert p_in_words(0.0) == "p < 1e-15"
    assert p_in_words(0.0123) == "p = 0.012"
