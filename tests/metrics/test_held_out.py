"""Factors that do not vary among held-out samples: every row that reads these leaves them out alike, and says so."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxdis import METRICS, RELATIONS, SCORES, Factors, Sample, evaluate, relate
from jaxdis.metrics import Blend
from jaxdis.relations._relation import read
from tests.metrics.test_contracts import SHORT, shortened
from tests.programs import compiled_whole

RNG = np.random.default_rng(0)
SIZES = (3, 2, 4)
# What a row knows of a factor from training alone, and keeps.
OF_TRAINING = {
    "dci": {"per_factor"},
    "dci_forest": {"per_factor"},
    "dci_lasso": {"per_factor"},
    "dci_logistic": {"per_factor"},
    "nk": {"code"},
    "snc": {"code"},
    "mcc_test": {"code"},
}
JUDGING = [name for name, metric in METRICS.items() if metric.source.reads.test]


def sample(n: int, *, still: int | None = None):
    values = np.stack([RNG.integers(0, size, n) for size in SIZES], axis=1)
    if still is not None:
        values[:, still] = 1
    codes = values @ np.array([[2.0, 0.3, 0, 1], [0, 2, 0.5, 1], [0.4, 0, 1, 1]]) + 0.3 * RNG.normal(size=(n, 4))
    return codes.astype(np.float32), Factors.of(values, SIZES, ("shape", "color", "size"))


TRAIN, TEST = sample(90), sample(60, still=1)


def means(metric) -> dict[str, str]:
    """Which field is the mean of which part."""
    fields = metric.axes
    named = {"score": "per_factor", "informativeness": "fit", "explicitness": "explicitness_per_factor"}
    return {score: part for score, part in named.items() if part in fields}


@pytest.mark.parametrize("name", JUDGING)
def test_a_factor_that_is_constant_there_is_left_out(name):
    scores = evaluate(*TRAIN, {name: shortened(METRICS[name])}, test=TEST)
    of_factors = {field for field, letters in METRICS[name].axes.items() if letters[-1] == "k"}
    judged = of_factors - OF_TRAINING.get(name, set())
    for field in judged:
        part = scores.part(f"{name}.{field}")
        assert (np.isnan(part) == [False, True, False]).all() or field == "joint", field
    for field, part in means(METRICS[name]).items():
        column = name if field == "score" else f"{name}.{field}"
        if column in scores and part in judged:
            assert scores[column] == pytest.approx(np.nanmean(scores.part(f"{name}.{part}")), abs=1e-6), column
    assert all(np.isfinite(value) for value in scores.values())
    notes = [text for _, text in scores.notes if text.startswith("color has one value alone in the samples")]
    assert len(notes) == bool(judged)


def test_means_over_judged_factors_leave_it_out():
    samples = compiled_whole(read)(*TRAIN, Sample(*TEST), None)
    assert samples.judged.tolist() == [True, False, True]
    assert samples.mean(jnp.array([0.2, 0.9, 0.6])) == pytest.approx(0.4)


@pytest.mark.parametrize("name", [name for name, spec in RELATIONS.items() if spec.reads.test])
def test_relations_judge_it_neither_by_strength_nor_by_fit(name):
    spec = RELATIONS[name]
    spec = spec.with_options(**{option: value for option, value in SHORT.items() if option in spec.all_options})
    found = relate(*TRAIN, spec, test=TEST)
    if found.fit is None:  # held-out accuracies are the strengths
        assert found.ceiling.tolist() == [1, 0, 1]
        assert np.isnan(found.strength).all(axis=0).tolist() == [False, True, False]
    else:  # strengths are of training
        assert found.ceiling.tolist() == [1, 1, 1]
        assert np.isnan(found.fit).tolist() == [False, True, False]


def test_scores_of_relations_that_judge_leave_it_out():
    plan = {name: Blend("logistic_accuracy", score) for name, score in SCORES.items()}
    there = evaluate(*TRAIN, plan, test=TEST)
    values = np.asarray(TRAIN[1].values)[:, [0, 2]], np.asarray(TEST[1].values)[:, [0, 2]]
    less = (Factors.of(each, (3, 4)) for each in values)
    without = evaluate(TRAIN[0], next(less), plan, test=(TEST[0], next(less)))
    for column in without:
        np.testing.assert_allclose(there[column], without[column], atol=1e-5, err_msg=column)


def test_splits_say_so_too():
    codes, factors = sample(90)
    values = np.asarray(factors.values).copy()
    values[:, 1] = np.arange(90) == 7  # in one of two parts
    scores = evaluate(codes, Factors.of(values, SIZES, factors.names), "r2_linear")
    assert np.isnan(scores.part("r2_linear.per_factor")).tolist() == [False, True, False]
    assert [text for _, text in scores.notes if text.startswith("color has one value alone in the samples")]


def test_no_note_where_all_vary():
    scores = evaluate(*TRAIN, ("r2_linear", "sap"), test=sample(60))
    assert not [text for _, text in scores.notes if "learned from" in text]
