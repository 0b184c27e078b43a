"""Downstream tasks: InfoE, learning curves, new combinations, new regions, against scikit-learn and by construction."""

import functools

import jax
import numpy as np
import pytest
from sklearn.linear_model import Lasso, LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import KFold

from jaxdis import Direct, Factors, Sample, Spec, evaluate, relate
from jaxdis._learners import logistic
from jaxdis._learners.logistic import INVERSE_PENALTIES, STEPS
from jaxdis.data._teapot import Gap
from jaxdis.metrics._downstream import downstream_logistic
from jaxdis.metrics._generalization import compositional_generalization, zero_shot
from jaxdis.relations import RELATIONS
from tests.golden_values import arrays, numbers
from tests.programs import compiled_whole

fit_logistic_validated = jax.jit(logistic.fit_logistic_validated, static_argnames="sizes")
SIZES = (3, 2, 8)


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(0)
    values = np.stack([rng.choice(3, 3000, p=(0.6, 0.3, 0.1)), rng.integers(0, 2, 3000), rng.integers(0, 8, 3000)], 1)
    codes = (values @ rng.normal(size=(3, 6)) + 1.5 * rng.normal(size=(3000, 6))).astype(np.float32)
    return codes[:2000], values[:2000], codes[2000:], values[2000:]


def test_infoe_equals_sklearn(samples):
    codes, values, _, _ = samples
    scaled = (codes - codes.mean(axis=0)) / codes.std(axis=0)
    expected = []
    for j, size in enumerate(SIZES):
        model = LogisticRegression(C=np.inf, class_weight="balanced", tol=1e-10, max_iter=5000).fit(
            scaled, values[:, j]
        )
        expected.append(1 - log_loss(values[:, j], model.predict_proba(scaled)) / np.log(size))
    scores = evaluate(codes, Factors.of(values, SIZES), "infoe")
    np.testing.assert_allclose(scores.part("infoe.per_factor"), expected, atol=1e-4)
    assert scores["infoe"] == pytest.approx(np.mean(expected), abs=1e-4)


def test_logistic_accuracy_equals_sklearn(samples):
    codes, values, held_out, truth = samples
    found = relate(codes, Factors.of(values, SIZES), "logistic_accuracy", test=(held_out, Factors.of(truth, SIZES)))
    mean, deviation = codes.mean(axis=0), codes.std(axis=0)
    for i in range(codes.shape[1]):
        train, judged = ((sample[:, i : i + 1] - mean[i]) / deviation[i] for sample in (codes, held_out))
        for j in range(3):
            oracle = LogisticRegression(tol=1e-10, max_iter=5000).fit(train, values[:, j])
            assert found.strength[i, j] == pytest.approx(oracle.score(judged, truth[:, j]), abs=2e-3)


def test_a_lasso_without_weights_is_no_better_than_the_mean():
    """Errors are in deviations of the samples that are predicted, here a fifth of those of the training samples."""
    rng = np.random.default_rng(0)
    train, test = rng.integers(0, 11, (4000, 1)), rng.integers(4, 7, (2000, 1))
    codes, held_out = (rng.normal(size=(len(values), 2)).astype(np.float32) for values in (train, test))
    spec = RELATIONS["lasso_importance"].with_options(penalty=5.0)
    relation = relate(codes, Factors.of(train, (11,)), spec, test=(held_out, Factors.of(test, (11,))))
    assert relation.fit[0] == pytest.approx(0, abs=0.02)  # the means of both differ by chance


@pytest.mark.parametrize("informativeness", ["accuracy", "nrmse"])
def test_logistic_importance_equals_sklearn(samples, informativeness):
    codes, values, held_out, truth = samples
    spec = RELATIONS["logistic_importance"].with_options(informativeness=informativeness)
    truth, declared = truth.copy(), (3, 3, 8)
    truth[:9, 1] = 2  # a class that no training sample has: coefficients are means over the other two
    relation = relate(codes, Factors.of(values, declared), spec, test=(held_out, Factors.of(truth, declared)))
    strength, fit = np.asarray(relation.strength), np.asarray(relation.fit)
    train, judged = ((sample - codes.mean(axis=0)) / codes.std(axis=0) for sample in (codes, held_out))
    for j, size in enumerate(SIZES):
        oracle = LogisticRegression(tol=1e-10, max_iter=5000).fit(train, values[:, j])
        # Two classes: one vector there, its two halves here.
        weights = np.abs(oracle.coef_).mean(axis=0) / (2 if size == 2 else 1)
        np.testing.assert_allclose(strength[:, j], weights, atol=2e-3)
        if informativeness == "accuracy":
            expected = oracle.score(judged, truth[:, j])
        else:
            error = oracle.predict_proba(judged) @ np.arange(size) - truth[:, j]
            expected = 1 - np.sqrt((error**2).mean()) / truth[:, j].std()
        assert fit[j] == pytest.approx(expected, abs=2e-3)


def test_lasso_informativeness_as_accuracy(samples):
    codes, values, held_out, truth = samples
    spec = RELATIONS["lasso_importance"].with_options(informativeness="accuracy")
    found = relate(codes, Factors.of(values, SIZES), spec, test=(held_out, Factors.of(truth, SIZES)))
    train, judged = ((sample - codes.mean(axis=0)) / codes.std(axis=0) for sample in (codes, held_out))
    for j, size in enumerate(SIZES):
        scale = values[:, j].std()
        oracle = Lasso(alpha=0.02).fit(train.astype(float), (values[:, j] - values[:, j].mean()) / scale)
        named = np.round(np.clip(oracle.predict(judged) * scale + values[:, j].mean(), 0, size - 1))
        assert found.fit[j] == pytest.approx((named == truth[:, j]).mean(), abs=2e-3)


def test_cross_validation_equals_sklearn(samples):
    """Mean accuracy over folds of every inverse penalty, and the accuracy of the model chosen."""
    codes, values, held_out, truth = samples
    fit = functools.partial(fit_logistic_validated, sizes=SIZES)
    chosen = fit(codes, np.asarray(values, np.int32))
    named = held_out @ np.asarray(chosen.model.coefficients) + np.asarray(chosen.model.intercepts)
    start = 0
    for j, size in enumerate(SIZES):
        tried = range(0, 10, 3)
        expected = [
            np.mean([_score(codes, values[:, j], INVERSE_PENALTIES[c], *fold) for fold in KFold(5).split(codes)])
            for c in tried
        ]
        # Six samples of 2,000: weakly penalized solutions are flat, and neither solver ends at the very optimum.
        np.testing.assert_allclose(chosen.accuracy[::3, j], expected, atol=3e-3)
        oracle = LogisticRegression(C=float(chosen.inverse_penalty[j]), max_iter=3000).fit(codes, values[:, j])
        accuracy = (named[:, start : start + size].argmax(axis=1) == truth[:, j]).mean()
        assert accuracy == pytest.approx(oracle.score(held_out, truth[:, j]), abs=3e-3)
        start += size


@pytest.mark.parametrize(("n", "d", "size"), [(80, 40, 2), (100, 10, 40), (10, 10, 4)])
def test_cross_validation_of_noise_equals_sklearn(n, d, size):
    """Few samples and weak penalties: a fit that has seen the samples it is judged on would be far above chance."""
    rng = np.random.default_rng(0)
    codes, values = rng.normal(size=(n, d)).astype(np.float32), rng.integers(0, size, n)
    fit = functools.partial(fit_logistic_validated, codes, np.asarray(values[:, None], np.int32), (size,))
    chosen = fit()
    tried = range(0, 10, 3)
    expected = [
        np.mean([_score(codes, values, INVERSE_PENALTIES[c], *fold) for fold in KFold(5).split(codes)]) for c in tried
    ]
    # Two samples: weakly penalized solutions are flat, and neither solver ends at the very optimum.
    np.testing.assert_allclose(chosen.accuracy[::3, 0], expected, atol=2.01 / n)
    np.testing.assert_allclose(fit(steps=10 * STEPS).accuracy, chosen.accuracy, atol=1.01 / n)


def test_folds_of_unequal_length_are_those_of_kfold():
    """Folds of 41, 41, 41, 40 and 40: one wrong label at the start of the fourth, one at the end of the last."""
    values = np.random.default_rng(0).integers(0, 2, 203)
    codes = np.where(values == 1, 5.0, -5.0)[:, None].astype(np.float32)
    values[[123, 202]] = 1 - values[[123, 202]]
    accuracy = fit_logistic_validated(codes, np.asarray(values[:, None], np.int32), (2,)).accuracy[:, 0]
    np.testing.assert_allclose(accuracy[5:], (3 + 2 * 39 / 40) / 5, rtol=1e-6)


def test_a_class_that_a_fold_lacks_is_never_predicted_there():
    """All samples of the third class are in the last fold, far from the others: every one counts as an error."""
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.integers(0, 2, 180), np.full(20, 2)])
    codes = (np.array([-1.0, 1.0, 9.0])[values] + 0.3 * rng.normal(size=200))[:, None].astype(np.float32)
    accuracy = fit_logistic_validated(codes, np.asarray(values[:, None], np.int32), (3,)).accuracy[:, 0]
    last = (values[160:180] == (codes[160:180, 0] > 0)).mean() / 2
    others = np.mean([(values[i : i + 40] == (codes[i : i + 40, 0] > 0)).mean() for i in range(0, 160, 40)])
    assert accuracy[-1] == pytest.approx((4 * others + last) / 5, abs=0.01)


def _score(codes, classes, inverse_penalty, train, judged):
    model = LogisticRegression(C=inverse_penalty, tol=1e-5, max_iter=3000).fit(codes[train], classes[train])
    return model.score(codes[judged], classes[judged])


def curve(codes, values, held_out, truth, sizes, factor_sizes):
    metric = Direct(Spec(downstream_logistic, (("sizes", sizes),)))
    return evaluate(
        codes, Factors.of(values, factor_sizes), {"lr": metric}, test=(held_out, Factors.of(truth, factor_sizes))
    )


def test_learning_curve_rises_and_measures_efficiency(samples):
    scores = curve(*samples, (10, 100, 1000, 10_000), SIZES)
    means = scores.part("lr.by_size")
    assert means[0] < means[1] < means[2] <= means[3] + 0.01
    assert scores["lr.efficiency"] == pytest.approx(means[1] / means[3], rel=1e-6)
    assert scores["lr"] == pytest.approx(scores.part("lr.accuracy")[-1].mean(), rel=1e-6)
    assert scores["lr.worst"] == pytest.approx(scores.part("lr.accuracy")[-1].min(), rel=1e-6)
    assert scores.part("lr.samples").tolist() == [10, 100, 1000, 2000]  # of the last size, as many as there are


def test_learning_curve_with_classes_missing_and_few_samples():
    rng = np.random.default_rng(0)
    values = rng.integers(0, 40, (60, 1))
    values[:10] = 7  # the first ten samples hold one class
    codes = np.c_[values / 40, rng.normal(size=60)].astype(np.float32)
    scores = curve(codes, values, codes, values, (2, 10, 60), (40,))
    share = (values == 7).mean()
    np.testing.assert_allclose(scores.part("lr.accuracy")[:2, 0], share, atol=1e-6)
    assert np.isfinite(scores.part("lr.accuracy")).all()


@pytest.fixture(scope="module")
def combinations():
    """All pairs of five sizes and four shapes, twenty times each with noise; the pair (1, 2) is left out."""
    rng = np.random.default_rng(0)
    values = np.stack(np.meshgrid(np.arange(5), np.arange(4), np.arange(2), indexing="ij"), -1).reshape(-1, 3)
    values = np.repeat(values, 40, axis=0)
    codes = (values + 0.1 * rng.normal(size=values.shape)).astype(np.float32)
    return codes, values, (values[:, 0] == 1) & (values[:, 1] == 2)


def read_out(codes, values, new):
    """What is learned from all pairs but the new one, judged by that."""
    seen, others = (Factors.of(values[rows], (5, 4, 2)) for rows in (~new, new))
    return compiled_whole(compositional_generalization)(jax.random.key(0), codes[~new], seen, codes[new], others)


def test_new_combinations_of_disentangled_codes_are_read(combinations):
    codes, values, new = combinations
    result = read_out(codes, values, new)
    assert result.mlp.accuracy.min() > 0.9
    assert result.mlp.joint[0, 1] > 0.85
    np.testing.assert_allclose(np.diag(result.mlp.joint), result.mlp.accuracy, atol=1e-6)
    for j, size in enumerate((5, 4, 2)):
        p = np.bincount(values[~new, j], minlength=size) / (~new).sum()
        expected = (result.mlp.accuracy[j] - (p**2).sum()) / (1 - (p**2).sum())
        assert result.mlp.per_factor[j] == pytest.approx(float(expected), abs=1e-5)


def test_new_combinations_of_entangled_codes_are_not(combinations):
    """A code for each combination of the two factors: what was never seen cannot be named."""
    _, values, new = combinations
    codes = np.eye(20, dtype=np.float32)[values[:, 0] * 4 + values[:, 1]]
    result = read_out(codes, values, new)
    assert result.mlp.joint[0, 1] == 0
    assert result.linear.joint[0, 1] == 0
    assert result.mlp.adjusted_joint[0, 1] == 0


@pytest.fixture(scope="module")
def teapots():
    golden = numbers("qedr")
    stored = arrays("qedr")
    return stored["codes"], stored["factors"], golden


@pytest.mark.parametrize(("rule", "recorded"), [("released", "code"), ("printed", "paper")])
def test_the_gap_holds_as_many_samples_as_the_reference(teapots, rule, recorded):
    _, factors, golden = teapots
    gap = Gap(rule)(factors)
    assert int(gap.sum()) == golden["values"][f"n_gap_{recorded}_rule"]


def test_lasso_and_zero_shot_equal_the_reference(teapots):
    """Coefficients to 1e-4, errors to 1e-4: fitted on the first 8,000 samples, those in the gap taken out."""
    codes, factors, golden = teapots
    expected = golden["values"]["lasso_alpha0.02"]
    gap = np.asarray(Gap()(factors))
    first = np.arange(len(gap)) < 8000
    train = Sample(codes[first & ~gap], Factors.of(factors[first & ~gap], (None,) * 5))
    far = Sample(codes[gap], Factors.of(factors[gap], (None,) * 5))
    relation = relate(train.codes, train.factors, "lasso_importance", test=(far.codes, far.factors))
    np.testing.assert_allclose(relation.strength, expected["R"], atol=1e-4)
    metric = Direct(Spec(zero_shot))
    scores = evaluate(train.codes, train.factors, {"zero": metric}, test=(far.codes, far.factors))
    errors = np.array(expected["nrmse_train_dev_test_zeroshot"])
    np.testing.assert_allclose(scores.part("zero.seen"), errors[:, 0], atol=1e-4)
    np.testing.assert_allclose(scores.part("zero.unseen"), errors[:, 3], atol=1e-3)


@pytest.mark.parametrize(("n", "d"), [(200, 10), (60, 200)])
def test_codes_far_from_zero_are_learned_as_well(n, d):
    """Of multiples of 2⁻⁶, which float32 shifts by 100,000 exactly."""
    rng = np.random.default_rng(0)
    (codes, factors), test = (
        (np.round(64 * (rng.normal(size=(m, d)) + 0.6 * classes)) / 64, Factors.of(classes, (3,)))
        for m, classes in ((m, rng.choice(3, (m, 1), p=(0.6, 0.3, 0.1))) for m in (n, 300))
    )
    score = jax.jit(
        lambda codes, held_out: downstream_logistic(codes, factors, test=Sample(held_out, test[1]), sizes=(n,))
    )
    near, far = (score(*(np.asarray(part + by, np.float32) for part in (codes, test[0]))) for by in (0, 100_000))
    np.testing.assert_allclose(far.score, near.score, atol=0.011)  # rounding may choose a neighboring penalty
