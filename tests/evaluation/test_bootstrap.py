"""How sure a score is: errors and intervals by resampling, against known populations."""

import csv
import functools
import io
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import entropy

from jaxdis import METRICS, RELATIONS, Blend, Direct, Factors, Spec, evaluate, metrics
from jaxdis.evaluation._costs import USUAL, seconds_at
from jaxdis.evaluation._inputs import bind
from jaxdis.evaluation._member import score_member_often
from jaxdis.evaluation._request import Request
from jaxdis.evaluation._run import shared_by
from tests.draws import representations
from tests.metrics.test_contracts import SAME_LEARNER, SOURCES, WIDE, family, quick_if

SIZES = (4, 3)
QUICK = {"num_train": 200, "num_eval": 100, "batch": 16, "stages": 5, "trees": 3, "epochs": 3, "sizes": (10, 100)}


def population() -> np.ndarray:
    """``p[a, b, x, y, z]``: two independent uniform factors; codes that keep a, a and b as often as their rate says."""

    def kept(rate, size):
        return rate * np.eye(size) + (1 - rate) / size

    return np.einsum("ax,ay,bz->abxyz", kept(0.8, 4), kept(0.4, 4), kept(0.6, 3)) / 12


def true_mig(joint: np.ndarray) -> float:
    """By its definition in float64: gaps of mutual information over the factor's entropy."""
    gaps = []
    for factor in (0, 1):
        tables = (joint.sum(axis=tuple({0, 1, 2, 3, 4} - {factor, code})) for code in (2, 3, 4))
        information = [entropy(table.sum(0)) + entropy(table.sum(1)) - entropy(table.ravel()) for table in tables]
        second, first = np.sort(information)[-2:]
        gaps.append((first - second) / np.log(SIZES[factor]))
    return float(np.mean(gaps))


def draw(rng, joint, n):
    cells = rng.choice(joint.size, n, p=joint.ravel())
    values = np.stack(np.unravel_index(cells, joint.shape), axis=1)
    return values[:, 2:].astype(np.float32), Factors.of(values[:, :2], SIZES)


def test_intervals_of_mig_cover_the_truth():
    """In 90 to 98 % of 200 draws of 500 samples, at 95 %; the plug-in estimate's bias is measured beside it."""
    joint = population()
    truth, rng = true_mig(joint), np.random.default_rng(0)
    covered, found, errors, biases = [], [], [], []
    for trial in range(200):
        scores = evaluate(*draw(rng, joint, 500), "mig", jax.random.key(trial), bootstrap=100)
        low, high = scores.interval("mig")
        covered.append(low <= truth <= high)
        found.append(scores["mig"])
        errors.append(scores.error("mig"))
        biases.append(scores.bias("mig"))
    assert 0.90 <= np.mean(covered) <= 0.98
    assert np.mean(errors) == pytest.approx(np.std(found), rel=0.15)
    assert np.mean(biases) == pytest.approx(np.mean(found) - truth, abs=4 * np.std(found) / np.sqrt(200))


def test_a_bias_is_reported_beside_the_interval_and_moves_no_interval():
    """A code of noise with 20 values raises the second-best information by 57 / 2n nats: MIG is too small."""
    kept = (0.8 * np.eye(4) + 0.05) / 4
    truth = (kept * np.log(kept * 16)).sum() / np.log(4)
    rng, n, biases = np.random.default_rng(5), 500, []
    for trial in range(40):
        values = rng.integers(0, 4, n)
        noisy = np.where(rng.random(n) < 0.8, values, rng.integers(0, 4, n))
        codes = np.stack([noisy, rng.integers(0, 20, n)], axis=1).astype(np.float32)
        scores = evaluate(codes, Factors.of(values, (4,)), "mig", jax.random.key(trial), bootstrap=100)
        biases.append((scores["mig"] - truth, scores.bias("mig"), scores.error("mig")))
        for kind in ("normal", "basic", "percentile"):
            low, high = scores.interval("mig", kind=kind)
            assert low <= scores["mig"] <= high
            assert high - low == pytest.approx(4 * scores.error("mig"), rel=0.2)
    apart, bias, error = np.mean(biases, axis=0)
    assert bias == pytest.approx(apart, rel=0.25)  # a second sample from the sample is biased as the first
    assert abs(bias) > error


@pytest.fixture(scope="module")
def zoo():
    return representations(3, noise=1.0)


def quick(name):
    metric = METRICS[name]
    return metric.with_options(**{option: value for option, value in QUICK.items() if option in metric.all_options})


# They compile in half the time of others that read the same.
LIGHT = ("sap_r2", "mcc_linear")


def one_of_each_kind() -> list[str]:
    """The lightest metric for every way of drawing samples again and every set of arrays that is read."""
    kinds = {}
    for name, metric in METRICS.items():
        kinds.setdefault((metric.source.reads, metric.source.distinct_samples), []).append(name)

    def weight(name):
        return name not in LIGHT, seconds_at(METRICS[name].source, USUAL)

    return [min(names, key=weight) for names in kinds.values()]


@functools.cache
def scores_of(names: tuple[str, ...], replicates: int):
    metrics = {name: quick(name) for name in names}
    return evaluate(*representations(3, noise=1.0), metrics, bootstrap=replicates, devices=jax.devices()[:1])


@pytest.mark.parametrize("name", one_of_each_kind())
def test_asking_for_an_error_changes_no_score(name):
    scores, plain = (scores_of(family(name), replicates) for replicates in (4, 0))
    for column in scores:
        np.testing.assert_allclose(scores[column], plain[column], atol=2e-6, err_msg=column)


# Rows with learners that other rows have as well add nothing.
DRAWN_AGAIN = [name for name in SOURCES if name not in WIDE + SAME_LEARNER]


@pytest.mark.parametrize("name", quick_if(DRAWN_AGAIN, {family(name)[0] for name in one_of_each_kind()}.__contains__))
def test_metrics_have_an_error(name):
    scores = scores_of(family(name), 4)
    for column in scores:
        assert scores.replicates[column].shape == (3, 4), column
        assert np.isfinite(scores.replicates[column]).all(), column
        for kind in ("normal", "basic", "percentile"):
            low, high = scores.interval(column, kind=kind).T
            assert ((low <= scores[column]) & (scores[column] <= high)).all(), column
    for own in family(name):  # something must move when samples are drawn again
        assert max(scores.error(column).max() for column in scores[[own]]) > 0


@pytest.mark.parametrize("name", ["mig", "irs"])
def test_replicates_are_draws_with_replacement(zoo, name):
    """By weights and by rows: the error is that of NumPy's own bootstrap."""
    codes, values = zoo
    rng = np.random.default_rng(1)
    factors = Factors.of(values)
    by_hand = []
    for _ in range(60):
        rows = rng.integers(0, 200, 200)
        by_hand.append(evaluate(codes[0, rows], factors.take(jnp.asarray(rows)), name)[name])
    scores = evaluate(codes[0], factors, name, bootstrap=200)
    assert scores.error(name) == pytest.approx(np.std(by_hand), rel=0.4)  # 60 draws know it to 9 %
    assert scores.replicates[name].mean() == pytest.approx(np.mean(by_hand), abs=5 * np.std(by_hand) / np.sqrt(60))


def test_replicates_are_shared_by_members_and_single_members_have_scalars(zoo):
    codes, values = zoo
    twice = evaluate(np.stack([codes[0], codes[0]]), values, ["mig", "irs"], bootstrap=10)
    single = evaluate(codes[0], values, ["mig", "irs"], bootstrap=10)
    for name in ("mig", "irs"):
        np.testing.assert_array_equal(*twice.replicates[name])
        assert single.error(name).shape == ()
        assert single.interval(name).shape == (2,)
        np.testing.assert_allclose(single.replicates[name], twice.replicates[name][0], atol=1e-6)


def test_weights_given_count_in_every_replicate(zoo):
    codes, values = zoo
    weights = np.r_[np.ones(150), np.zeros(50)]
    spoiled = codes[0].copy()
    spoiled[150:] *= 100
    left = evaluate(codes[0], values, "mig", weights=weights, bootstrap=4)
    right = evaluate(spoiled, values, "mig", weights=weights, bootstrap=4)
    np.testing.assert_allclose(left.replicates["mig"], right.replicates["mig"], atol=1e-6)


def test_errors_are_columns_of_the_tables(zoo):
    codes, values = zoo
    scores = evaluate(codes, values, "mig", bootstrap=4)
    row = list(csv.DictReader(io.StringIO(scores.to_csv())))[1]
    assert list(row)[:6] == ["member", "mig", "mig.error", "mig.bias", "mig.low", "mig.high"]
    assert float(row["mig.bias"]) == pytest.approx(scores.bias("mig")[1])
    assert float(row["mig.error"]) == pytest.approx(scores.error("mig")[1])
    np.testing.assert_allclose(scores.to_dict()["mig.low"], scores.interval("mig")[:, 0])
    assert list(scores) == ["mig"]
    np.testing.assert_allclose(scores.bias("mig"), scores.replicates["mig"].mean(1) - scores["mig"])


def test_what_a_bootstrap_refuses(zoo):
    codes, values = zoo
    with pytest.raises(ValueError, match="bootstrap: needs replicates"):
        evaluate(codes, values, "mig").error("mig")
    scores = evaluate(codes, values, "mig", bootstrap=4)
    with pytest.raises(KeyError, match="no column 'mgi'"):
        scores.interval("mgi")
    with pytest.raises(ValueError, match="level: must be a number between 0 and 1, got 95"):
        scores.interval("mig", 95.0)
    with pytest.raises(ValueError, match="kind: must be 'normal', 'basic' or 'percentile', got 'student'"):
        scores.interval("mig", kind="student")


@pytest.mark.parametrize("name", ["mig_ksg", "edi.modularity"])
def test_intervals_of_nearest_neighbors_cover_what_fresh_samples_give(name):
    """Rows drawn twice are duplicates, which these estimators take for information: intervals lay beside the score."""
    joint, rng = population(), np.random.default_rng(1)

    def sample():
        codes, factors = draw(rng, joint, 400)
        return codes + 0.5 * rng.normal(size=codes.shape).astype(np.float32), factors

    metric = name.split(".")[0]
    fresh = np.mean([evaluate(*sample(), metric)[name] for _ in range(16)])
    covered = []
    for trial in range(12):
        scores = evaluate(*sample(), metric, jax.random.key(trial), bootstrap=40)
        low, high = scores.interval(name)
        covered.append(low <= fresh <= high)
        assert low <= scores[name] <= high
        assert scores.bias(name) == pytest.approx(0, abs=1e-5)
    # In 89 to 97 % of hundreds of trials: 9 of 12 or more are then found in 96 of 100 runs or more.
    assert np.mean(covered) >= 0.75


def test_weights_of_any_scale_are_worth_the_same_number_of_samples():
    rng = np.random.default_rng(2)
    codes, factors = draw(rng, population(), 500)
    corrected = {"it": Blend(RELATIONS["mutual_information"].with_options(correction="miller_madow"), "gap")}
    weights = rng.random(500)
    scores = [
        evaluate(codes, factors, corrected, weights=scale * weights)["it"]
        for scale in (1, 1 / weights.sum(), 50, 1e12, 1e-50)
    ]
    np.testing.assert_allclose(scores, scores[0], atol=1e-5)
    assert scores[0] > 0
    counts = rng.integers(0, 4, 500)
    repeated = Factors.of(np.repeat(np.asarray(factors.values), counts, axis=0), factors.sizes)
    weighed = evaluate(codes, factors, corrected, weights=counts)["it"]
    assert weighed == pytest.approx(evaluate(np.repeat(codes, counts, axis=0), repeated, corrected)["it"], abs=1e-5)


class Mean(NamedTuple):
    score: jax.Array


@metrics.metric(distinct_samples=True)
def mean(codes, factors) -> Mean:
    """Give the mean of the first code."""
    return Mean(codes[:, 0].mean())


def test_on_halves_of_the_samples_a_mean_scatters_as_on_all_and_is_moved_to_it():
    codes, factors = draw(np.random.default_rng(4), population(), 400)
    scores = evaluate(codes, factors, {"mean": Direct(Spec(mean))}, bootstrap=200)
    assert scores.error("mean") == pytest.approx(codes[:, 0].std() / 20, rel=0.2)  # 200 replicates know it to 5 %
    assert scores.bias("mean") == pytest.approx(0, abs=1e-6)


def test_halves_of_the_samples_must_hold_the_neighbors():
    rng = np.random.default_rng(3)
    codes, factors = rng.normal(size=(20, 3)), Factors.of(rng.integers(0, 2, (20, 2)))
    with pytest.raises(ValueError, match="bootstrap: must have more than 21 samples for infoc.*got 20"):
        evaluate(codes, factors, "infoc", bootstrap=5)
    Request.of(codes, factors, "infoc")  # is not refused


def test_every_metric_can_be_bootstrapped(zoo):
    codes, values = zoo
    plan = tuple((name, quick(name)) for name in METRICS)
    members, shared, _ = bind(codes, Factors.of(values), split=True)
    member, shared = jax.tree.map(lambda leaf: leaf[0], members), shared_by(plan, shared)
    found = jax.eval_shape(functools.partial(score_member_often, (plan, 4)), member, shared)
    assert set(found.metrics) == set(found.replicates) == set(METRICS)
    for name, scores in found.metrics.items():
        columns = {field for field, value in scores._asdict().items() if value is not None and value.ndim == 0}
        assert found.replicates[name].keys() == columns
        assert all(values.shape == (4,) for values in found.replicates[name].values())
