"""Identifiability: against scikit-learn, and on maps of which the answer is known."""

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score

from jaxdis import METRICS, Factors, evaluate
from jaxdis.metrics import _identifiability
from tests.programs import compiled_whole

spread_rows = compiled_whole(_identifiability._spread_rows)

SIZES = (3, None, None)


def sample(seed: int, n: int) -> tuple[np.ndarray, Factors]:
    """Factors of two kinds, and codes that mix them linearly with noise."""
    rng = np.random.default_rng(seed)
    values = np.c_[rng.integers(0, 3, n), rng.normal(size=(n, 2))]
    mixing = np.random.default_rng(9).normal(size=(3, 5))
    return (values @ mixing + 0.5 * rng.normal(size=(n, 5))).astype(np.float32), Factors.of(values, SIZES)


def standardized(columns, like):
    return (columns - like.mean(axis=0)) / like.std(axis=0)


def scikit(model, train, test) -> np.ndarray:
    """R² of each factor by a model of scikit-learn, fitted to standardized columns in float64."""
    (codes, factors), (held_out, truth) = (
        (np.asarray(codes, float), np.asarray(f.values, float)) for codes, f in (train, test)
    )
    model.fit(standardized(codes, codes), standardized(factors, factors))
    predicted = model.predict(standardized(held_out, codes))
    return r2_score(standardized(truth, factors), predicted, multioutput="raw_values")


@pytest.mark.parametrize(
    ("name", "model", "options"),
    [
        ("r2_linear", Ridge(alpha=0.3 * 120), {"penalty": 0.3}),
        ("r2_kernel", KernelRidge(alpha=1.0, kernel="rbf"), {}),
        ("r2_kernel", KernelRidge(alpha=0.1, kernel="rbf", gamma=0.7), {"penalty": 0.1, "inverse_width": 0.7}),
    ],
)
def test_variance_explained_is_that_of_scikit_learn(name, model, options):
    train, test = sample(0, 120), sample(1, 80)
    scores = evaluate(*train, {name: METRICS[name].with_options(**options)}, test=test)
    np.testing.assert_allclose(scores.part(f"{name}.per_factor"), scikit(model, train, test), atol=2e-5)
    assert scores[name] == pytest.approx(scikit(model, train, test).mean(), abs=2e-5)


def test_more_codes_than_samples():
    """The Gram matrix of codes is singular: float32 solved with it to two digits at the default penalty."""
    (codes, factors), (held_out, truth) = sample(0, 120), sample(1, 80)
    noise = np.random.default_rng(2).normal(size=(200, 400)).astype(np.float32)
    train, test = (np.c_[codes, noise[:120]], factors), (np.c_[held_out, noise[120:]], truth)
    scores = evaluate(*train, "r2_linear", test=test)
    expected = scikit(Ridge(alpha=1e-4 * 120, solver="svd"), train, test)
    np.testing.assert_allclose(scores.part("r2_linear.per_factor"), expected, atol=2e-5)


def test_kernel_regression_reads_few_samples_and_standardizes_by_all():
    (codes, factors), (held_out, truth) = sample(0, 120), sample(1, 80)
    scores = evaluate(codes, factors, {"few": METRICS["r2_kernel"].with_options(samples=40)}, test=(held_out, truth))
    rows = np.asarray(spread_rows(factors.values, 40))
    assert len(set(rows // 3)) == 40  # one from each of 40 stretches
    model, values = KernelRidge(alpha=1.0, kernel="rbf"), np.asarray(factors.values)
    model.fit(standardized(codes, codes)[rows], standardized(values, values)[rows])
    predicted = model.predict(standardized(held_out, codes))
    expected = r2_score(standardized(np.asarray(truth.values), values), predicted, multioutput="raw_values")
    np.testing.assert_allclose(scores.part("few.per_factor"), expected, atol=2e-5)


def test_the_samples_of_kernel_regression_vary_where_all_do():
    """A factor whose period is the distance between even samples, one of two rare values, one of a single value."""
    n = 12 * 50
    rare = np.zeros(n, int)
    rare[[77, 401]] = 1
    values = np.c_[np.arange(n) % 12, rare, np.zeros(n, int)]
    rows = np.asarray(spread_rows(values.astype(np.int32), 50))
    assert len(set(rows)) == 50
    assert len(set(values[rows, 0])) == 12
    assert [np.ptp(values[rows, j]) > 0 for j in (1, 2)] == [True, False]
    codes = (values + 0.01 * np.random.default_rng(0).normal(size=values.shape)).astype(np.float32)
    few = METRICS["r2_kernel"].with_options(samples=50)
    found = evaluate(codes, values, {"few": few}, test=(codes, values)).part("few.per_factor")
    assert found[0] > 0.95
    assert np.isnan(found).tolist() == [False, False, True]


def test_which_map_of_the_factors_each_metric_forgives():
    """Copies, a rotation, and a smooth map that no linear one inverts."""
    values = np.random.default_rng(0).uniform(-1, 1, size=(1500, 2)).astype(np.float32)
    turn = np.array([[1, -1], [1, 1]], np.float32) / np.sqrt(2)
    bent = np.c_[values[:, 0] + 2 * values[:, 1] ** 2, values[:, 1]]
    bent[:, 1] += 0.5 * np.sin(2 * bent[:, 0])
    codes = np.stack([values, values @ turn, bent]).astype(np.float32)
    scores = evaluate(codes, Factors.of(values, (None, None)), ("mcc_test", "mcc_linear", "r2_linear", "r2_kernel"))
    np.testing.assert_allclose(scores["mcc_test"][:2], [1, np.sqrt(0.5)], atol=0.05)
    for name in ("mcc_linear", "r2_linear"):
        np.testing.assert_allclose(scores[name][:2], 1, atol=1e-4)
        assert scores[name][2] < 0.8
    assert (scores["r2_kernel"] > 0.97).all()


def test_mcc_on_held_out_samples_is_not_optimistic():
    """Of 200 codes of noise, some correlate with the factors by chance: .24 in 60 training samples, none in others."""
    rng = np.random.default_rng(0)
    train, test = ((rng.normal(size=(n, 200)).astype(np.float32), rng.integers(0, 4, (n, 3))) for n in (60, 3000))
    scores = evaluate(*train, ("mcc", "mcc_test"), test=test)
    assert scores["mcc"] == scores["mcc_test.train"] > 0.3
    assert scores["mcc_test"] < 0.05


def test_a_circular_factor_is_refused_where_it_would_be_a_number_on_a_line():
    angles = np.random.default_rng(0).uniform(0, 360, 100)
    factors = Factors.from_table({"angle": angles}, kinds={"angle": "circular"})
    codes = np.c_[np.sin(np.radians(angles))].astype(np.float32)
    assert evaluate(codes, factors, "mcc_test")["mcc_test"] > 0.9
    with pytest.raises(ValueError, match="must not be circular for r2_linear"):
        evaluate(codes, factors, "r2_linear")
