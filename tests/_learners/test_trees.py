"""Boosted trees and forests against scikit-learn, and what they do with degenerate input."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

from jaxdis import RELATIONS, SCORES, Factors, Relation, Sample
from jaxdis._core.platforms import tracing_for
from jaxdis._learners import splits as finders
from jaxdis._learners.boosting import accuracy, fit_boosting
from jaxdis._learners.forest import _most_drawn, fit_forest
from jaxdis.data import synthetic
from jaxdis.data._teapot import Gap
from tests._learners.tree_references import FITTED, REPRESENTATIONS, graded, reference, representation
from tests.golden_values import arrays, numbers


def ours(codes, values, sizes, n: int, **options):
    relation = relate(codes[:n], values[:n], codes[n:], values[n:], sizes, **options)
    return np.asarray(relation.strength), np.asarray(relation.fit)


def relate(codes, values, held_out, held_values, sizes, *, name="boosted_trees", **options):
    spec = RELATIONS[name].with_options(**options)
    return _relate(spec, codes, Factors.of(values, sizes), Sample(held_out, Factors.of(held_values, sizes)))


@functools.partial(jax.jit, static_argnums=0)
def _relate(spec, codes, factors, test):
    if spec.reads.key:
        return spec(jax.random.key(0), codes, factors, test=test)
    return spec(codes, factors, test=test)


def d_and_c(importance):
    entropy = _entropy(np.asarray(importance, np.float32))
    return np.array([entropy.disentanglement, entropy.completeness])


@jax.jit
def _entropy(importance):
    return SCORES["entropy"](Relation.of(importance, jnp.ones(importance.shape[1])))


def correlation(left, right):
    return np.corrcoef(left.ravel(), right.ravel())[0, 1]


# What trees of bins may be off in D and C, and least correlation of importances. Where exact trees spend many splits on
# single samples, bins cannot follow: a factor told all but perfectly, or forty classes of fifty samples that codes
# hardly tell (the convergence note of fit_boosting).
BINNED = {"products": (0.04, 0.995), "redundant": (0.1, 0.98)}


@pytest.mark.parametrize("name", sorted(set(REPRESENTATIONS) - {"mixture"}))  # which the next test but one judges
def test_agrees_with_scikit_learn_at_its_defaults(name):
    """Exact splits lie within 0.005 of the mean of five random states, accuracy of every factor included."""
    golden = {part: np.array(found) for part, found in numbers("boosting")["representations"][name].items()}
    theirs = np.stack([d_and_c(importance) for importance in golden["importance"]])
    codes, values, sizes = representation(name, FITTED)
    exact, fit = ours(codes, values, sizes, FITTED)
    np.testing.assert_allclose(d_and_c(exact), theirs.mean(axis=0), atol=0.005)
    np.testing.assert_allclose(fit, golden["accuracy"].mean(axis=0), atol=0.005)
    assert correlation(exact, golden["importance"].mean(axis=0)) > 0.9995
    binned, _ = ours(codes, values, sizes, FITTED, splitter="histogram")
    apart, alike = BINNED.get(name, (0.015, 0.995))
    np.testing.assert_allclose(d_and_c(binned), theirs.mean(axis=0), atol=apart)
    assert correlation(binned, golden["importance"].mean(axis=0)) > alike


def test_ranks_a_zoo_as_scikit_learn_does():
    """Every second of thirty representations, from factors apart to factors turned by 45 degrees in every plane."""
    golden = numbers("boosting")["graded"]
    members = range(0, len(golden), 2)
    theirs = np.stack([d_and_c(np.array(golden[str(member)]["importance"][0])) for member in members])
    for options in ({}, {"splitter": "histogram"}):
        own = [d_and_c(ours(*graded(member, FITTED), FITTED, **options)[0]) for member in members]
        for score in range(2):
            assert spearmanr(theirs[:, score], np.stack(own)[:, score]).statistic > 0.99


@pytest.mark.parametrize("name", ["rotation", "mixture", "redundant"])
def test_agrees_with_scikit_learn(name):
    """Few samples and stages, where one tie that falls otherwise is seen: the spread of its states is allowed for."""
    n, how = 600, {"stages": 15, "depth": 2}
    codes, values, sizes = representation(name, n)
    (first, fit), (second, other) = (reference(codes, values, n, **how, seed=seed) for seed in range(2))
    exact, exact_fit = ours(codes, values, sizes, n, **how)
    assert (np.abs(d_and_c(exact) - d_and_c(first)) <= 0.01 + np.abs(d_and_c(first) - d_and_c(second))).all()
    assert correlation(exact, first) > 0.9995
    assert (np.abs(exact_fit - fit) <= 0.01 + np.abs(other - fit).max()).all()


def test_thresholds_lie_halfway_between_samples_of_the_node():
    """Where a sample of another node lies between, the threshold does not see it."""
    codes = np.array([[0, 0], [0, 10], [1, 4], [1, 9]], np.float32)
    held_out = np.array([[0, 4.9], [0, 5.1], [1, 6.4], [1, 6.6]], np.float32)
    values = np.array([0, 1, 2, 3], np.float32)
    found = fit_boosting(*map(jnp.asarray, (codes, values[:, None])), (None,), held_out, stages=1, rate=1.0, depth=2)
    np.testing.assert_allclose(found.test[:, 0], [0, 1, 2, 3], atol=1e-5)


@pytest.mark.parametrize("splitter", ["exact", "histogram"])
def test_a_parity_is_found_though_no_first_split_gains(splitter):
    """Two codes whose exclusive or is the factor, in equal numbers: scikit-learn too splits for no gain at all."""
    codes = np.array(np.meshgrid([0, 1], [0, 1], [0, 1])).reshape(3, -1).T.repeat(25, axis=0).astype(np.float32)
    values = (codes[:, :1] != codes[:, 1:2]).astype(int)
    importance, fit = ours(np.r_[codes, codes], np.r_[values, values], (2,), 200, stages=10, splitter=splitter)
    assert fit == 1
    theirs, score = reference(np.r_[codes, codes], np.r_[values, values], 200, 10)
    assert score == 1
    assert importance[2] < 0.2
    np.testing.assert_allclose(importance.sum(), theirs.sum(), atol=1e-5)


@pytest.mark.parametrize("splitter", ["exact", "histogram"])
def test_classes_long_certain_do_not_move_again(splitter):
    """Each code tells which of two classes a factor is in, to no error: after some stages most gradients are near 0.

    Leaves summed as differences gave the other code a fifth of the importance here, by rounding alone; scikit-learn
    gives it 0.006.
    """
    codes, factors = synthetic.calibration("110", jax.random.key(0), 2000)
    importance, _ = ours(np.asarray(codes), np.asarray(factors.values), factors.sizes, 1500, splitter=splitter)
    np.testing.assert_allclose(importance, np.eye(2), atol=0.015)


def test_regression_agrees_with_scikit_learn():
    codes, values, _ = representation("rotation", 600)
    targets = (values + 0.3 * codes[:, :1]).astype(np.float32) * 1e3 + 5e3
    relation = ours(codes, targets, (None,) * 3, 600, stages=20)
    for j, column in enumerate(targets.T):
        model = GradientBoostingRegressor(n_estimators=20, random_state=0).fit(codes[:600], column[:600])
        residual = column[600:] - model.predict(codes[600:])
        np.testing.assert_allclose(relation[0][:, j], model.feature_importances_, atol=3e-3)
        np.testing.assert_allclose(relation[1][j], 1 - np.sqrt((residual**2).mean()) / column[600:].std(), atol=0.02)


def test_discrete_and_continuous_factors_fit_together_as_they_do_apart():
    codes, values, _ = representation("rotation", 300)
    mixed = np.c_[values[:, 1], codes[:, 0] ** 2].astype(np.float32)
    together = ours(codes, mixed, (6, None), 300, stages=5, depth=1)
    for j, size in enumerate((6, None)):
        apart = ours(codes, mixed[:, j : j + 1].astype(int if size else np.float32), (size,), 300, stages=5, depth=1)
        np.testing.assert_allclose(together[0][:, j : j + 1], apart[0], atol=1e-5)
        np.testing.assert_allclose(together[1][j : j + 1], apart[1], atol=1e-5)


@pytest.mark.parametrize("splitter", ["exact", "histogram"])
def test_weights_agree_with_scikit_learn(splitter):
    codes, values, sizes = representation("rotation", 300)
    weights = np.random.default_rng(0).uniform(0.2, 3, 300).astype(np.float32)
    found = fit_boosting(
        *map(jnp.asarray, (codes[:300], values[:300])),
        sizes,
        codes[300:],
        stages=10,
        splitter=splitter,
        max_bins=400,
        weights=np.asarray(weights),
    )
    for j in range(len(sizes)):
        model = GradientBoostingClassifier(n_estimators=10, random_state=0).fit(
            codes[:300], values[:300, j], sample_weight=weights
        )
        np.testing.assert_allclose(found.importance[:, j], model.feature_importances_, atol=0.01)


@pytest.mark.parametrize("splitter", ["exact", "histogram"])
def test_many_samples_with_one_value_are_counted_alike_by_all_forms(splitter):
    """Such as thousands of samples in one bin, whose sums leave the integers that float32 holds."""
    rng = np.random.default_rng(0)
    values = rng.integers(0, (3, 4), size=(6000, 2))
    noise = rng.random((6000, 2)) < 0.1
    codes = np.stack([(values[:, 0] > 0) ^ noise[:, 0], (values[:, 1] > 1) ^ noise[:, 1], noise[:, 0]], axis=1)
    codes = codes.astype(np.float32)
    found = []
    for platform, deterministic in (("cpu", False), ("gpu", False), ("gpu", True), ("tpu", False)):
        with tracing_for(platform, deterministic):
            boosted = fit_boosting(codes, values, (3, 4), codes[:9], splitter=splitter, stages=5, depth=2)
        found.append((boosted.importance, boosted.train[:, :7], boosted.test[:, :7]))
    for boosted in found[1:]:
        for part, expected in zip(boosted, found[0], strict=True):
            np.testing.assert_allclose(part, expected, atol=1e-5)  # sums of 6,000 terms


def test_histogram_tells_clusters_apart():
    """Ten clusters whose weights do not divide by the bins: quantile edges would cut through them."""
    codes, values, sizes = representation("identity", 600)
    importance, fit = ours(codes, values, sizes, 600, stages=10, splitter="histogram", max_bins=16)
    np.testing.assert_allclose(d_and_c(importance), 1, atol=0.005)
    np.testing.assert_allclose(fit, 1)


def degenerate(kind: str):
    """Codes, class numbers and sizes, of one shape for one compilation: that of the test against scikit-learn."""
    rng, sizes = np.random.default_rng(0), REPRESENTATIONS["mixture"][2]
    codes, values = rng.normal(size=(900, 6)).astype(np.float32), rng.integers(0, sizes, (900, 3))
    if kind == "constant codes":
        codes[:] = 1.5
    elif kind == "duplicate codes":
        codes[:] = codes[:, :1]
    elif kind == "equal targets":
        values[:] = 1
    elif kind == "a class with one sample":
        values[:, 0] = np.arange(900) % 600 == 7  # one to learn from, one to judge by
    elif kind == "duplicate samples":
        codes[:] = codes[np.arange(900) % 2]
    elif kind == "huge codes":
        codes *= 1e37
    return codes, values, sizes


KINDS = ["constant codes", "duplicate codes", "equal targets", "a class with one sample", "duplicate samples"]
LEARNERS = {
    "exact": {"stages": 15, "depth": 2},
    "histogram": {"stages": 10, "depth": 2, "splitter": "histogram", "max_bins": 8},
    "two bins": {"stages": 40, "depth": 2, "splitter": "histogram", "max_bins": 2},
    "forest": {"name": "random_forest", "depth": 2, "trees": 5},
    "classifying forest": {"name": "random_forest", "depth": 2, "trees": 5, "criterion": "gini"},
}


@pytest.mark.parametrize("kind", [*KINDS, "huge codes"])
@pytest.mark.parametrize("learner", LEARNERS)
def test_degenerate_input_is_legal(learner, kind):
    codes, values, sizes = degenerate(kind)
    if learner == "classifying forest":
        sizes = (*sizes[:2], None)
    found = relate(codes[:600], values[:600], codes[600:], values[600:], sizes, **LEARNERS[learner])
    importance, fit = np.asarray(found.strength), np.asarray(found.fit)
    if learner == "classifying forest":  # to which a continuous factor is nothing
        assert np.isnan(importance[:, 2]).all()
        assert np.isnan(fit[2])
        importance, fit = importance[:, :2], fit[:2]
    if kind == "equal targets":
        assert np.isnan(importance).all()
        assert (np.asarray(found.ceiling) == 0).all()
        return
    assert np.isfinite(fit).all()
    total = importance.sum(axis=0)
    if kind == "constant codes":
        np.testing.assert_array_equal(importance, 0)
    else:
        assert ((np.abs(total - 1) < 1e-5) | (total == 0)).all()
    if kind == "duplicate codes" and "forest" not in learner:  # no code may take everything that equals share
        assert (importance > 0).all()


@pytest.mark.parametrize("learner", LEARNERS)
def test_two_samples_are_legal(learner):
    codes, values = np.array([[0.0, 1], [1, 1]], np.float32), np.array([[0], [1]])
    every_sample = {"bootstrap": False} if "forest" in learner else {}
    found = relate(codes, values, codes, values, (2,), **LEARNERS[learner], **every_sample)
    np.testing.assert_allclose(found.strength[:, 0], [1, 0], atol=1e-6)


@pytest.mark.parametrize("criterion", ["variance", "gini", "entropy"])
def test_forest_is_within_the_spread_of_scikit_learn(criterion):
    """Importances of ten seeds there; ours may be off their mean by four of their standard deviations."""
    codes, values, sizes = representation("mixture", 500)
    n, depth = 500, 6
    found, fit = ours(
        codes,
        values,
        sizes,
        n,
        name="random_forest",
        criterion=criterion,
        depth=depth,
        choose_depth=False,
        trees=20,
        max_bins=256,
        features=None if criterion == "variance" else 2,
    )
    for j in range(len(sizes)):
        models = [_forest(criterion, depth, seed).fit(codes[:n], values[:n, j]) for seed in range(10)]
        theirs = np.stack([model.feature_importances_ for model in models])
        assert (np.abs(found[:, j] - theirs.mean(axis=0)) < 4 * theirs.std(axis=0) + 0.005).all()
        if criterion != "variance":
            scores = [model.score(codes[n:], values[n:, j]) for model in models]
            assert abs(fit[j] - np.mean(scores)) < 4 * np.std(scores) + 0.02


def _forest(criterion, depth, seed):
    if criterion == "variance":
        return RandomForestRegressor(20, max_depth=depth, random_state=seed)
    return RandomForestClassifier(20, criterion=criterion, max_depth=depth, max_features=2, random_state=seed)


def test_forest_of_continuous_factors_agrees_with_the_recorded_one():
    """Teapots by the rules of Eastwood & Williams, trees of depth 10: the bins leave 0.005 of D and C."""
    stored, golden = arrays("qedr"), numbers("qedr")["values"]["forest_of_10_depths_12_10_10_10_10"]
    codes, factors = stored["codes"].astype(np.float32), stored["factors"].astype(np.float32)
    seen, number = ~np.asarray(Gap()(factors)), np.arange(len(codes))
    factors = (factors - factors[seen].mean(axis=0)) / factors[seen].std(axis=0)
    train, held = seen & (number < 8000), seen & (number >= 9000)
    options = {"name": "random_forest", "depth": 10, "choose_depth": False, "max_bins": 1024}
    found = relate(codes[train], factors[train], codes[held], factors[held], (None,) * 5, **options)
    scores = d_and_c(np.asarray(found.strength))
    expected = [golden[f"{score}_mean_and_deviation"][0] for score in ("disentanglement", "completeness")]
    np.testing.assert_allclose(scores, expected, atol=0.01)
    np.testing.assert_allclose(1 - np.asarray(found.fit), golden["test_nrmse"], atol=0.02)


@pytest.mark.parametrize("weighted", [False, True])
def test_trees_by_histograms_are_the_same_in_blocks_of_codes(weighted, monkeypatch):
    """Of three blocks for seven codes, the last is filled up; two codes have ties, one is constant."""
    rng = np.random.default_rng(0)
    codes = rng.normal(size=(60, 7))
    codes[:, :2], codes[:, 3] = codes[:, :2].round(), 1e3
    codes, values = jnp.asarray(codes, jnp.float32), jnp.asarray(rng.integers(0, 3, (60, 2)))
    weights = jnp.asarray(rng.integers(0, 3, 60), jnp.float32) if weighted else None

    def fitted(numbers):
        monkeypatch.setattr(finders, "BLOCK_NUMBERS", numbers)
        options = {"splitter": "histogram", "max_bins": 16, "stages": 2, "depth": 2, "weights": weights}
        return jax.jit(lambda codes: fit_boosting.__wrapped__(codes, values, (3, None), codes, **options))(codes)

    whole, blocks = fitted(1 << 21), fitted(3 * 60)
    assert np.ptp(np.asarray(whole.importance)) > 0
    jax.tree.map(np.testing.assert_array_equal, whole, blocks)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_tree_grows_on_all_the_samples_that_it_draws(weighted):
    """Only those drawn are sorted: each of 300 distinct samples must have a leaf of its own in a tree that draws it."""
    rng = np.random.default_rng(0)
    n = 300
    codes = rng.permutation(n).astype(np.float32)[:, None]
    weights = np.asarray(rng.integers(0, 3, n), np.float32) if weighted else None
    # With every class its own, a leaf of one class is right about the samples it saw, and no other is.
    arguments = jax.random.key(1), codes, np.arange(n, dtype=np.int32)[:, None], codes
    fitted = fit_forest(*arguments, classes=n, criterion="gini", trees=3, depth=30, max_bins=1000, weights=weights)
    right = np.asarray(fitted.test[0, -1])[np.arange(n), np.arange(n)]
    np.testing.assert_array_equal(right, 3 - np.asarray(fitted.left_out))
    for size in (1, 2, 30, 300, 3000):
        assert max(len(set(rng.integers(0, size, size))) for _ in range(200)) <= _most_drawn(size)


def test_depth_chosen_on_unseen_samples_does_not_overfit():
    """Targets of noise: a deep forest is worse than the mean, a chosen depth hardly."""
    rng = np.random.default_rng(0)
    codes, values = rng.normal(size=(600, 4)).astype(np.float32), rng.integers(0, 10, (600, 1))
    _, deep = ours(codes, values, (10,), 400, name="random_forest", choose_depth=False)
    _, chosen = ours(codes, values, (10,), 400, name="random_forest")
    assert chosen[0] > deep[0] + 0.02


def test_a_key_decides_a_forest():
    codes, values, sizes = representation("rotation", 200)
    factors, test = Factors.of(values[:200], sizes), Sample(codes[200:], Factors.of(values[200:], sizes))
    spec = RELATIONS["random_forest"].with_options(trees=3, depth=1)
    one, same, other = (spec(jax.random.key(s), codes[:200], factors, test=test) for s in (0, 0, 1))
    np.testing.assert_array_equal(one.strength, same.strength)
    assert np.abs(one.strength - other.strength).max() > 1e-3


@pytest.mark.parametrize(("offset", "unit"), [(100, 1), (10_000, 1), (0, 1e-5), (0, 1e6)])
def test_forests_do_not_depend_on_the_offset_and_unit_of_their_targets(offset, unit):
    rng = np.random.default_rng(0)
    codes = rng.random((800, 3)).astype(np.float32)
    target = np.round(1024 * codes[:, :1]) / 1024  # exact in float32, with the offset too
    fit = functools.partial(relate, codes[:500], held_out=codes[500:], sizes=(None,), name="random_forest")
    plain = fit(target[:500], held_values=target[500:])
    moved = offset + unit * target
    other = fit(moved[:500], held_values=moved[500:])
    assert plain.strength[0, 0] > 0.97
    np.testing.assert_allclose(other.strength, plain.strength, atol=0.01)
    np.testing.assert_allclose(other.fit, plain.fit, atol=0.01)


def test_few_samples_agree_with_scikit_learn():
    """Late stages have gradients of 1e-4 and less, whose gains an absolute resolution took for equal."""
    rng = np.random.default_rng(1)

    def noisy(n):
        values = rng.integers(0, 3, n).astype(np.int32)
        return np.stack([values + 0.8 * rng.normal(size=n), *rng.normal(size=(5, n))], axis=1).astype(
            np.float32
        ), values

    found, expected, spread = [], [], []
    for _ in range(6):
        (codes, values), (held_out, truth) = noisy(30), noisy(600)
        scores = fit_boosting(codes, values[:, None], (3,), held_out).test
        found.append(float(accuracy(scores, truth[:, None], (3,))[0]))
        states = [
            GradientBoostingClassifier(random_state=state).fit(codes, values).score(held_out, truth)
            for state in range(3)
        ]
        expected.append(np.mean(states))
        spread.append(np.std(states))
    # Random choices of codes in late stages cost or gave 0.05 to 0.07.
    assert np.mean(found) == pytest.approx(np.mean(expected), abs=0.012 + np.mean(spread))
