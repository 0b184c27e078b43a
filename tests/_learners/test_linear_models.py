"""Linear learners against scikit-learn's optima."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.linear_model import Lasso, LassoLars, LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.svm import LinearSVC

from jaxdis import METRICS, Factors, evaluate, relate
from jaxdis._learners import classes as class_columns
from jaxdis._learners import linear, logistic, logistic_hessian, logistic_problem, margins
from jaxdis._learners.classes import Groups, class_areas
from jaxdis.relations import _learned, threshold_accuracy
from tests.programs import compiled_whole

# Programs of many small operations.
predict, log_probabilities = (jax.jit(f, static_argnums=2) for f in (logistic.predict, logistic.log_probabilities))
margin_accuracy, standardized = jax.jit(margins.margin_accuracy), jax.jit(linear.standardized)
lasso = jax.jit(linear.lasso, static_argnames="sweeps")

SIZES = (3, 2, 8)


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(0)
    values = np.stack([rng.integers(0, size, 4500) for size in SIZES], axis=1)
    codes = values @ rng.normal(size=(3, 6)) + 1.5 * rng.normal(size=(4500, 6))
    codes = np.asarray(standardized(np.asarray(codes, np.float32)))
    return codes[:3000], values[:3000], codes[3000:], values[3000:]


@functools.partial(jax.jit, static_argnums=2)
def fit_classes(codes, classes, sizes, inverse_penalty):
    return logistic.fit_logistic(codes, classes, sizes, inverse_penalty=inverse_penalty)


@pytest.mark.parametrize("inverse_penalty", [0.01, 1.0, 100.0])
def test_with_more_codes_than_samples_the_optimum_is_reached(inverse_penalty):
    """Few samples, rare classes, and codes 30 times as large as the others."""
    rng = np.random.default_rng(0)
    classes = rng.choice(4, (60, 1), p=(0.7, 0.2, 0.07, 0.03))
    classes[:4, 0] = range(4)
    codes = (rng.normal(size=(60, 300)) + 0.3 * classes).astype(np.float32)
    codes[:, :2] *= 30

    model = fit_classes(codes, np.asarray(classes, np.int32), (4,), np.float32(inverse_penalty))
    solver = LogisticRegression(C=inverse_penalty, solver="newton-cg", tol=1e-8, max_iter=1000)
    oracle = solver.fit(codes.astype(float), classes[:, 0])
    best = objective(codes, classes[:, 0], oracle.coef_.T, oracle.intercept_, inverse_penalty)
    assert objective(codes, classes[:, 0], *map(np.asarray, model), inverse_penalty) <= (1 + 1e-6) * best
    found = np.exp(log_probabilities(model, codes, (4,)))
    np.testing.assert_allclose(found, oracle.predict_proba(codes), atol=1e-3)


def test_logistic_weights_are_repetitions(samples):
    codes, values, _, _ = samples
    codes, values = codes[:500], values[:500]
    weights = np.random.default_rng(1).integers(0, 3, 500)
    rows = np.repeat(np.arange(500), weights)
    fit = jax.jit(lambda c, v, w: logistic.fit_logistic(c, v, SIZES, weights=w))
    weighted = fit(codes, np.asarray(values, np.int32), np.asarray(weights, np.float32))
    repeated = fit(codes[rows], np.asarray(values[rows], np.int32), jnp.ones(len(rows)))
    np.testing.assert_allclose(weighted.coefficients, repeated.coefficients, atol=5e-3)


def test_classes_that_do_not_occur_are_never_predicted():
    """And the two of four that occur share one vector of coefficients, as scikit-learn's, which a penalty tells."""
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 2, (60, 1)).astype(np.int32)
    codes = (rng.normal(size=(60, 300)) + 0.3 * classes).astype(np.float32)
    model = fit_classes(codes, classes, (4,), np.float32(0.01))
    assert np.asarray(predict(model, codes, (4,))).max() == 1
    oracle = LogisticRegression(C=0.01, solver="newton-cg", tol=1e-8).fit(codes.astype(float), classes[:, 0])
    found = np.exp(log_probabilities(model, codes, (4,)))
    np.testing.assert_allclose(found[:, :2], oracle.predict_proba(codes), atol=1e-4)


@pytest.mark.parametrize("values", [None, 200, 4, 1])
def test_areas_of_classes_equal_those_of_sklearn(values):
    """Scores without ties, with few, with many, all equal; the second factor lacks a class, the last has only one."""
    rng = np.random.default_rng(0)
    sizes = (3, 7, 2)
    classes = np.stack([rng.integers(0, 3, 500), rng.integers(1, 7, 500), np.ones(500)], axis=1).astype(np.int32)
    scores = rng.normal(size=(12, 500)) if values is None else rng.integers(0, values, (12, 500)) - values // 2
    scores = scores.astype(np.float32)
    found = np.asarray(jax.jit(class_areas, static_argnums=2)(scores, classes, sizes))
    for j, start in enumerate((0, 3, 10)):
        for value in range(sizes[j]):
            of_class, area = classes[:, j] == value, found[start + value]
            if 0 < of_class.sum() < 500:
                assert area == pytest.approx(
                    roc_auc_score(of_class, scores[start + value].astype(np.float32)), abs=1e-6
                )
            else:
                assert np.isnan(area)


@pytest.mark.parametrize("values", [None, 40])
def test_areas_of_classes_of_every_size_up_to_three_parts(values):
    """A search begins with parts of equal length, a power of two: one sample short of a part, and one too many."""
    counts = np.arange(1, 3 * class_columns.PARTS + 2)
    classes = np.repeat(np.arange(len(counts)), counts).astype(np.int32)
    rng = np.random.default_rng(1)
    shape = len(counts), len(classes)
    scores = (rng.normal(size=shape) if values is None else rng.integers(0, values, shape)).astype(np.float32)
    found = jax.jit(class_areas, static_argnums=2)(scores, classes[:, None], (len(counts),))
    expected = [roc_auc_score(classes == value, scores[value]) for value in range(len(counts))]
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("weights", ["balanced", None])
@pytest.mark.parametrize("factor", [0, 1, 2])
def test_margins_equal_liblinear(samples, factor, weights):
    codes, values, held_out, truth = samples
    size = SIZES[factor]
    classes = np.asarray(values[:, factor], np.int32)
    fit = jax.jit(lambda c, v: margins.fit_margins(c, v, size, margins.sorted_sums(c), balanced=weights is not None))
    model = jax.device_get(fit(codes, classes))
    accuracy = np.asarray(margin_accuracy(model, held_out, np.asarray(truth[:, factor], np.int32)))
    for i in range(codes.shape[1]):
        oracle = LinearSVC(C=0.01, class_weight=weights, tol=1e-8).fit(codes[:, i : i + 1], values[:, factor])
        slope, intercept = model.slope[:, i], model.intercept[:, i]
        if size == 2:  # one machine there, two mirror images here
            np.testing.assert_allclose(slope, [-oracle.coef_[0, 0], oracle.coef_[0, 0]], atol=1e-4)
        else:
            np.testing.assert_allclose(slope, oracle.coef_[:, 0], atol=1e-4)
            np.testing.assert_allclose(intercept, oracle.intercept_, atol=1e-4)
        assert accuracy[i] == pytest.approx(oracle.score(held_out[:, i : i + 1], truth[:, factor]), abs=7e-4)


def test_factors_of_few_classes_are_fitted_by_one_program(monkeypatch):
    """Of more classes, those of about as many: tables of few would be filled up to the most. Numbers are the same."""
    rng, seen, fit = np.random.default_rng(0), [], margins.fit_margins
    counted = lambda codes, classes, size, *rest, **how: (seen.append(size), fit(codes, classes, size, *rest, **how))[1]  # noqa: E731
    monkeypatch.setattr(_learned, "fit_margins", counted)
    sizes = (3, None, 70, 2, 90, 200)
    places = rng.permuted(np.tile(np.arange(400), (len(sizes), 1)), axis=1).T
    values = np.stack([place if size is None else place % size for place, size in zip(places.T, sizes, strict=True)], 1)
    codes = (values[:, :1] + 0.3 * rng.normal(size=(400, 4))).astype(np.float32)
    found = relate(codes, Factors.of(values, sizes), "svm_accuracy").strength
    assert sorted(seen) == [3, 90, 200]
    for j, size in [pair for pair in enumerate(sizes) if pair[1]]:
        alone = relate(codes, Factors.of(values[:, [j]], (size,)), "svm_accuracy").strength
        np.testing.assert_array_equal(found[:, j], alone[:, 0])


def test_margins_without_some_classes_weigh_those_that_occur(samples):
    """Two of three values: the binary machine, and the third is never named."""
    codes, values, held_out, _ = samples
    two = values[:, 0] < 2
    model = jax.jit(lambda c, v: margins.fit_margins(c, v, 3, margins.sorted_sums(c)))(
        codes[two], np.asarray(values[two, 0], np.int32)
    )
    oracle = LinearSVC(C=0.01, class_weight="balanced", tol=1e-8).fit(codes[two][:, :1], values[two, 0])
    assert model.slope[1, 0] == pytest.approx(oracle.coef_[0, 0], abs=1e-4)
    assert np.isneginf(model.intercept[2]).all()


def test_accuracy_of_margins_names_the_first_of_the_largest():
    """Against the largest value of all lines at every sample: crossings on samples, equal lines, absent classes."""
    rng = np.random.default_rng(1)
    # Small integers: every value and every crossing on a sample is exact.
    slope = rng.integers(-4, 5, (9, 40)).astype(np.float32)
    intercept = rng.integers(-6, 7, (9, 40)).astype(np.float32)
    slope[6], intercept[6] = slope[2], intercept[2]
    intercept[[1, 7]] = -np.inf
    slope[7] = slope[1]
    codes = rng.integers(-5, 6, (500, 40)).astype(np.float32)
    classes = rng.integers(0, 9, 500)
    named = np.argmax(slope[None] * codes[:, None] + intercept[None], axis=1)
    model = margins.Margins(slope, intercept)
    found = margin_accuracy(model, codes, np.asarray(classes, np.int32))
    np.testing.assert_allclose(found, (named == classes[:, None]).mean(axis=0), atol=1e-6)


def test_lasso_path_equals_sklearn_at_every_penalty(samples):
    codes, values, held_out, truth = samples
    codes, held_out = ((part - codes.mean(axis=0)) / codes.std(axis=0) for part in (codes, held_out))
    targets = standardized(np.asarray(values, np.float32))
    goal = standardized(np.asarray(truth, np.float32), like=np.asarray(values, np.float32))
    penalties = (0.3, 0.001, 0.03)
    path = jax.jit(lambda *a: linear.lasso_validated(*a, penalties=penalties))(codes, targets, held_out, goal)
    expected = []
    for penalty in sorted(penalties, reverse=True):
        oracle = Lasso(alpha=penalty, tol=1e-9, max_iter=100_000, fit_intercept=False)
        oracle.fit(codes.astype(float), np.asarray(targets, float))
        expected.append(((np.asarray(goal) - held_out @ oracle.coef_.T) ** 2).mean(axis=0))
    np.testing.assert_allclose(path.error, expected, atol=1e-4)
    best = np.sort(penalties)[::-1][np.argmin(expected, axis=0)]
    np.testing.assert_allclose(path.penalty, best)
    alone = np.asarray(lasso(codes, targets, np.float32(best[0])))
    np.testing.assert_allclose(path.model.weights[:, 0], alone[:, 0], atol=1e-4)


def test_targets_that_share_a_penalty_have_the_one_that_is_best_for_all():
    """As the indicators of a nominal factor: here of a target that a code equals and of one that is noise."""
    rng = np.random.default_rng(1)
    codes = rng.normal(size=(80, 2)).astype(np.float32)
    targets = np.stack([codes[:, 0], rng.normal(size=80)], axis=1).astype(np.float32)
    halves = codes[:40], targets[:40], codes[40:], targets[40:]
    path = compiled_whole(linear.lasso_validated)(*halves, penalties=(0.3, 0.001), together=np.ones((2, 1), np.float32))
    assert path.error[0, 1] < path.error[1, 1]  # noise alone takes the larger penalty
    np.testing.assert_allclose(path.penalty, [0.001, 0.001])
    assert path.model.weights[0, 1] != 0


def test_lasso_does_not_stop_early_where_units_are_large_or_small(samples):
    codes, values, _, _ = samples
    targets = np.asarray(standardized(np.asarray(values, np.float32)))
    plain = lasso(codes, targets, np.float32(0.02))
    scaled = lasso(1024 * codes, targets / 1024, np.float32(0.02))  # coefficients of some 1e-7
    np.testing.assert_allclose(1024 * 1024 * np.asarray(scaled), plain, atol=1e-5)


def test_sap_reads_the_squared_correlation_of_a_continuous_factor(samples):
    codes, values, held_out, truth = samples
    train = Factors.of(np.c_[values[:, 0], codes[:, 1]], (3, None))
    test = Factors.of(np.c_[truth[:, 0], held_out[:, 1]], (3, None))
    relation = relate(codes, train, "svm_accuracy", test=(held_out, test))
    strength = np.asarray(relation.strength)[:, 1]
    assert strength[1] == pytest.approx(1, abs=1e-5)
    np.testing.assert_allclose(strength, np.corrcoef(codes.T.astype(float))[1] ** 2, atol=2e-6)


def test_threshold_accuracy_by_hand():
    codes = np.array([0.0, 1, 2, 3, 4, 5, 6, 7])[:, None]
    factors = Factors.of([0, 0, 0, 1, 1, 1, 1, 1])
    # Two bins of four: three zeros against one, and four ones.
    assert compiled_whole(threshold_accuracy)(codes, factors).strength[0, 0] == pytest.approx(7 / 8)
    # Several bins may name the same class.
    rare = Factors.of([0, 0, 0, 0, 0, 0, 1, 1])
    assert compiled_whole(threshold_accuracy)(codes, rare, bins=4).strength[0, 0] == 1


def reference_explicitness(codes, values, held_out, truth, ovr):
    """Mean area over classes and factors by scikit-learn, run to convergence; one half for a class never seen."""
    means = []
    for j, size in enumerate(SIZES):
        seen = values[:, j].max() + 1
        if ovr:
            fits = [LogisticRegression(tol=1e-10, max_iter=5000).fit(codes, values[:, j] == v) for v in range(seen)]
            scores = np.stack([fit.predict_proba(held_out)[:, 1] for fit in fits], axis=1)
        else:
            fit = LogisticRegression(tol=1e-10, max_iter=5000).fit(codes, values[:, j])
            scores = fit.predict_proba(held_out)
        areas = [roc_auc_score(truth[:, j] == v, scores[:, v]) for v in range(seen)]
        means.append(np.mean(areas + [0.5] * (size - seen)))
    return means


@pytest.mark.parametrize("ovr", [False, True])
def test_explicitness_equals_sklearn(samples, ovr):
    """The last class of the last factor occurs among held-out samples alone."""
    codes, values, held_out, truth = samples
    codes, values = (part[values[:, 2] < 7] for part in (codes, values))
    metric = METRICS["explicitness"].with_options(classifier="one_vs_rest" if ovr else "multinomial")
    test = (held_out * 3 + 2, Factors.of(truth, SIZES))
    scores = evaluate(codes * 3 + 2, Factors.of(values, SIZES), {"e": metric}, test=test)
    expected = reference_explicitness(codes, values, held_out, truth, ovr)
    np.testing.assert_allclose(scores.part("e.per_factor"), expected, atol=5e-4)
    assert scores["e"] == pytest.approx(np.mean(expected), abs=3e-4)


def test_explicitness_counts_the_classes_that_the_test_set_holds(samples):
    codes, values, held_out, truth = samples
    kept = truth[:, 2] < 5
    scores = evaluate(
        codes, Factors.of(values, SIZES), "explicitness", test=(held_out[kept], Factors.of(truth[kept], SIZES))
    )
    assert 0.5 < scores.part("explicitness.per_factor")[2] <= 1


def test_each_factor_is_fitted_as_if_it_were_alone(samples):
    """Penalties of 10⁴ and 0.01 in one program: the bound of one factor must not stop the other."""
    codes, values, _, _ = samples
    fit = jax.jit(lambda v, s, sizes: logistic.fit_logistic(codes, v, sizes, inverse_penalty=s), static_argnums=2)
    classes = np.asarray(values[:, [0, 2]], np.int32)
    together = fit(classes, jnp.array([1e4, 0.01]), (3, 8))
    for j, (part, inverse_penalty) in enumerate(zip((slice(0, 3), slice(3, 11)), (1e4, 0.01), strict=True)):
        oracle = LogisticRegression(C=inverse_penalty, tol=1e-10, max_iter=5000).fit(codes, values[:, [0, 2][j]])
        np.testing.assert_allclose(together.coefficients[:, part], oracle.coef_.T, atol=2e-3 * abs(oracle.coef_).max())


def hard_to_fit():
    """Codes of a small random network: heavy tails, nearly collapsed codes, classes that overlap."""
    rng = np.random.default_rng(1)
    values = rng.integers(0, (3, 12), size=(1500, 2))
    phases = np.concatenate([values / (3, 12), np.sin(2 * np.pi * values / (3, 12))], axis=1)
    codes = np.tanh(1.5 * phases @ rng.normal(size=(4, 30))) @ rng.normal(size=(30, 6))
    codes = np.sinh(codes / 2 + 0.1 * rng.normal(size=codes.shape)) * np.logspace(-3, 0, 6)
    return np.asarray(standardized(np.asarray(codes, np.float32))), values


@pytest.mark.parametrize("inverse_penalty", [0.01, np.inf])
def test_areas_are_those_of_the_optimum_on_codes_that_are_hard_to_fit(inverse_penalty):
    codes, values = hard_to_fit()
    model = jax.jit(lambda c, v: logistic.fit_logistic(c, v, (3, 12), inverse_penalty=inverse_penalty))(
        codes, np.asarray(values, np.int32)
    )
    found = np.asarray(log_probabilities(model, codes, (3, 12)))
    for j, part in enumerate(Groups.of((3, 12)).slices()):
        # Exact Newton steps: without a penalty, other solvers need thousands to reach the same optimum.
        oracle = LogisticRegression(C=inverse_penalty, solver="newton-cholesky", tol=1e-8, max_iter=5000)
        oracle.fit(codes.astype(float), values[:, j])
        expected = oracle.predict_proba(codes.astype(float))
        labels = np.eye((3, 12)[j])[values[:, j]]
        areas = [roc_auc_score(labels, probability, average=None) for probability in (found[:, part], expected)]
        assert np.mean(areas[0]) == pytest.approx(np.mean(areas[1]), abs=1e-4)


def test_a_contrast_separates_the_means_of_the_classes_that_occur():
    rng = np.random.default_rng(0)
    values = np.stack([rng.permutation(np.arange(300) % 5), rng.integers(0, 2, 300)], axis=1)
    codes = rng.normal(size=(300, 3)) + np.stack([4 * values[:, 0], values[:, 1], 2 * values[:, 1]], axis=1)
    problem = compiled_whole(logistic_problem.problem_of)(
        np.asarray(codes, np.float32), np.asarray(values, np.int32), (6, 2), 1.0, None
    )
    contrast = np.asarray(problem.contrast)
    line = np.arange(5) - 2.0
    assert abs(np.corrcoef(contrast[:5], line)[0, 1]) > 0.999
    np.testing.assert_allclose(contrast[5:] ** 2, [0.0, 0.5, 0.5], atol=1e-6)
    np.testing.assert_allclose([contrast[:6].sum(), contrast[6:].sum()], 0.0, atol=1e-6)


def cycling(n):
    """A factor whose value cycles with the blocks of samples: a few blocks show few of its values."""
    shapes = jax.ShapeDtypeStruct((n, 1), np.float32), jax.ShapeDtypeStruct((n, 1), np.int32)
    inputs = jax.eval_shape(lambda *arrays: logistic_problem.problem_of(*arrays, (1,), 1.0, None).inputs, *shapes)
    return np.arange(n) % max(len(inputs), 3)


@pytest.mark.parametrize("inverse_penalty", [0.01, 100.0])
@pytest.mark.parametrize("order", ["sorted", "cycling", "rare"])
def test_where_few_samples_mislead_the_optimum_is_reached(order, inverse_penalty):
    n, rng = 7000, np.random.default_rng(3)
    size = int(cycling(n).max() + 1)
    values = {
        "sorted": np.sort(rng.integers(0, size, n)),
        "cycling": cycling(n),
        "rare": np.r_[1, 2, 2, 2, np.zeros(3000, int), 3 + rng.integers(0, size - 3, n - 3004)],
    }[order]
    codes = np.eye(size)[values] @ rng.normal(size=(size, 4)) + 0.7 * rng.normal(size=(n, 4))
    codes = np.asarray(standardized(np.asarray(codes, np.float32)))
    model = fit_classes(codes, np.asarray(values[:, None], np.int32), (size,), np.float32(inverse_penalty))
    oracle = LogisticRegression(C=inverse_penalty, solver="newton-cholesky", tol=1e-10, max_iter=2000)
    oracle.fit(codes.astype(float), values)

    found = objective(codes, values, np.asarray(model.coefficients), np.asarray(model.intercepts), inverse_penalty)
    best = objective(codes, values, oracle.coef_.T, oracle.intercept_, inverse_penalty)
    assert found == pytest.approx(best, rel=1e-6)


def objective(codes, classes, coefficients, intercepts, inverse_penalty):
    logits = codes.astype(float) @ coefficients.astype(float) + intercepts
    entropy = (logsumexp(logits, axis=1) - logits[np.arange(len(codes)), classes]).sum()
    return entropy + 0.5 * (coefficients.astype(float) ** 2).sum() / inverse_penalty


@pytest.mark.parametrize(("n", "d"), [(500, 80), (100, 90), (150, 400)])
def test_many_codes_reach_the_optimum_of_scikit_learn(n, d):
    """Rare classes and one that is missing, strong and weak penalties, and codes that make products ill-conditioned."""
    sizes, rng = (3, 7), np.random.default_rng(6)
    values = np.minimum(rng.geometric((0.9, 0.5), (n, 2)) - 1, (2, 5))
    values[:3, 0] = 0, 1, 2
    noisy = values @ rng.normal(size=(2, d)) + rng.normal(size=(n, d))
    regimes = {
        "noisy": noisy,
        "ties": np.round(noisy),
        "near copies": np.tile(noisy[:, : d // 2], 2) + 0.01 * rng.normal(size=(n, d)),
        "far from 0": noisy + 100,
        "unequal scales": noisy * np.logspace(-2, 1, d),
        "separable": noisy + 3 * values[:, :1] * rng.normal(size=(1, d)),
        "samples twice": noisy[np.arange(n) // 2],
        "of few dimensions": noisy[:, :8] @ rng.normal(size=(8, d)) + 1e-3 * rng.normal(size=(n, d)),
    }
    fit = jax.jit(lambda *given: logistic.fit_logistic(*given[:2], sizes, inverse_penalty=given[2]))
    for regime, codes in regimes.items():
        codes = codes.astype(np.float32)
        # The optimum is in the span of the samples, where scikit-learn finds it sooner.
        basis, coordinates = np.linalg.qr(codes.T.astype(float)) if d > n else (np.eye(d), codes.T.astype(float))
        # There may be as many coordinates as samples, but fewer directions.
        solver = {"solver": "newton-cg", "tol": 1e-8} if d > n else {"solver": "newton-cholesky", "tol": 1e-7}
        for inverse_penalty in (0.01, 100.0):
            model = fit(codes, values.astype(np.int32), np.float32(inverse_penalty))
            for part, classes in zip(Groups.of(sizes).slices(), values.T, strict=True):
                oracle = LogisticRegression(C=inverse_penalty, max_iter=1000, **solver).fit(coordinates.T, classes)
                fitted = np.asarray(model.coefficients[:, part]), np.asarray(model.intercepts[part])
                found = objective(codes, classes, *fitted, inverse_penalty)
                best = objective(codes, classes, basis @ oracle.coef_.T, oracle.intercept_, inverse_penalty)
                # Steps end where they are expected to gain 1e-8 nats per sample; weak penalties are ill-conditioned.
                share = 2e-6 if inverse_penalty <= 1 else 5e-4
                assert found - best <= share * best + 3e-8 * n, (regime, inverse_penalty)


@pytest.mark.parametrize(("inverse_penalty", "coupled"), [(0.01, True), (100.0, True), (1.0, False)])
def test_directions_that_are_not_told_apart_are_fitted(inverse_penalty, coupled, monkeypatch):
    """Classes differ where codes vary least, beyond the directions from which steps start; a class is rare."""
    fit = fit_classes
    if not coupled:  # as with factors of thousands of classes
        monkeypatch.setattr(logistic_hessian, "NUMBERS", 0)
        fit = jax.jit(lambda *inputs: fit_classes.__wrapped__(*inputs), static_argnums=2)
    n, d, rng = 700, 300, np.random.default_rng(7)
    classes = rng.choice(4, n, p=(0.55, 0.3, 0.14, 0.01))
    turned = np.linalg.qr(rng.normal(size=(d, d)))[0]
    hidden = rng.normal(size=(n, d)) * np.linspace(3, 0.3, d)
    hidden[:, -3:] += 0.5 * np.eye(4)[classes, 1:]
    codes = (hidden @ turned).astype(np.float32)
    model = fit(codes, classes[:, None].astype(np.int32), (4,), np.float32(inverse_penalty))
    solver = LogisticRegression(C=inverse_penalty, solver="newton-cg", tol=1e-8, max_iter=1000)
    oracle = solver.fit(codes.astype(float), classes)
    found = objective(codes, classes, np.asarray(model.coefficients), np.asarray(model.intercepts), inverse_penalty)
    best = objective(codes, classes, oracle.coef_.T, oracle.intercept_, inverse_penalty)
    assert found - best <= 2e-6 * best + 3e-8 * n


def test_intercepts_of_strong_penalties_are_those_of_scikit_learn():
    """They decide which class is named where coefficients are small."""
    rng = np.random.default_rng(0)
    values = rng.integers(0, 3, 900)
    codes = (values[:, None] * rng.normal(size=(1, 70)) + 4 * rng.normal(size=(900, 70))).astype(np.float32)
    fit = jax.jit(lambda c, v: logistic.fit_logistic(c, v, (3,), inverse_penalty=1e-4))
    model = fit(codes, values[:, None].astype(np.int32))
    oracle = LogisticRegression(C=1e-4, solver="newton-cholesky", tol=1e-8).fit(codes.astype(float), values)
    np.testing.assert_allclose(model.intercepts, oracle.intercept_, atol=5e-4)


def test_logits_beyond_the_range_of_exponentials_are_fitted():
    """Nearly separable without a penalty: logits of hundreds, which a clip would stop from moving."""
    rng = np.random.default_rng(0)
    codes = np.concatenate([rng.normal(size=(600, 1)), 40 + 0.1 * rng.normal(size=(60, 1))])
    classes = np.r_[codes[:600, 0] + 0.05 * rng.normal(size=600) > 0, np.zeros(60, bool)].astype(int)
    model = fit_classes(codes.astype(np.float32), classes[:, None].astype(np.int32), (2,), np.float32(np.inf))
    found = np.asarray(log_probabilities(model, codes.astype(np.float32), (2,)))
    oracle = LogisticRegression(C=np.inf, tol=1e-10, max_iter=20000).fit(codes, classes)
    entropy = -found[np.arange(660), classes].mean()
    expected = -np.log(oracle.predict_proba(codes)[np.arange(660), classes]).mean()
    assert entropy == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("apart", [1e-1, 1e-2, 1e-3])
def test_lasso_of_codes_that_nearly_copy_each_other_reaches_the_optimum(apart):
    """The objective is compared: scikit-learn's coordinates alone need 10⁵ sweeps for the coefficients."""
    rng = np.random.default_rng(2)
    codes = rng.normal(size=(2000, 6))
    codes[:, 1] = codes[:, 0] + apart * rng.normal(size=2000)
    target = codes[:, :1] + 0.5 * codes[:, 1:2] - codes[:, 2:3] + 0.1 * rng.normal(size=(2000, 1))
    codes, target = ((array - array.mean(axis=0)) / array.std(axis=0) for array in (codes, target))

    def objective(weights):
        return ((target[:, 0] - codes @ weights) ** 2).mean() / 2 + 0.02 * np.abs(weights).sum()

    found = np.asarray(lasso(np.asarray(codes, np.float32), np.asarray(target, np.float32), 0.02))[:, 0]
    best = LassoLars(alpha=0.02, fit_intercept=False).fit(codes, target[:, 0]).coef_
    assert objective(found.astype(float)) <= objective(best) + 1e-8


@pytest.mark.parametrize("constant", [0.0, 2.5])
def test_the_machine_of_a_constant_code_names_the_class_of_the_largest_intercept(constant):
    rng = np.random.default_rng(5)
    classes = rng.choice(3, size=(1500, 1), p=[0.7, 0.2, 0.1])
    codes = np.full((1500, 1), constant, np.float32)
    found = relate(codes[:1000], classes[:1000], "svm_accuracy", test=(codes[1000:], classes[1000:]))
    oracle = LinearSVC(C=0.01, class_weight="balanced").fit(codes[:1000], classes[:1000, 0])
    assert found.strength[0, 0] == pytest.approx(oracle.score(codes[1000:], classes[1000:, 0]), abs=1e-6)
