"""Options chosen on validation samples: against scikit-learn's choice by the same loop, and what may not matter."""

import jax
import numpy as np
import pytest
from sklearn.linear_model import Lasso
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from jaxdis import METRICS, RELATIONS, Factors, blend_table, evaluate, evaluate_structured, relate, sample_curve
from jaxdis.evaluation._inputs import bind
from jaxdis.evaluation._member import score_member
from jaxdis.evaluation._run import shared_by
from jaxdis.factors import Sample
from jaxdis.metrics._plan import plan_of
from jaxdis.relations import lasso_importance, random_forest
from jaxdis.structured import Structure

SIZES = (3, 5, 4)
PENALTIES = (0.3, 0.001, 0.1, 0.02, 0.01)
DEPTHS = (12, 2, 6)
LASSO = RELATIONS["lasso_importance"].with_options(penalty=PENALTIES)
# One tree of all samples and all cuts: scikit-learn's decision tree, without random numbers.
TREE = RELATIONS["random_forest"].with_options(depth=DEPTHS, trees=1, bootstrap=False, max_bins=512)
PLAN = {
    "lasso": METRICS["dci_lasso"].with_options(penalty=PENALTIES),
    "forest": METRICS["dci_forest"].with_options(depth=DEPTHS, trees=3),
}


def drawn(n: int, members: int = 3, d: int = 4, seed: int = 0):
    """Noisy codes ``[m, n, d]`` and class numbers; the last factor is easy to read off a code, the others are not."""
    mixing = np.random.default_rng(0).normal(size=(members, len(SIZES), d))
    rng = np.random.default_rng(seed)
    values = np.stack([rng.integers(0, size, n) for size in SIZES], axis=1)
    codes = np.einsum("nk,mkd->mnd", values, mixing) + rng.normal(size=(members, n, d))
    codes[:, :, 0] = values[:, 2] + 0.1 * rng.normal(size=(members, n))
    return codes.astype(np.float32), values


TRAIN, TEST, VALIDATION = drawn(240), drawn(90, seed=1), drawn(80, seed=2)


def first(samples):
    return samples[0][0], samples[1]


def related(spec, train=TRAIN, test=TEST, validation=VALIDATION):
    codes, values = first(train)
    return relate(codes, Factors.of(values, SIZES), spec, test=first(test), validation=validation and first(validation))


def test_the_penalty_is_that_of_scikit_learn():
    (codes, values), (others, truth) = first(TRAIN), first(VALIDATION)
    train, judged = ((part - codes.mean(axis=0)) / codes.std(axis=0) for part in (codes, others))
    relation = related(LASSO)
    strength, chosen = np.asarray(relation.strength), np.asarray(relation.chosen)
    for j in range(len(SIZES)):
        target, goal = ((part[:, j] - values[:, j].mean()) / values[:, j].std() for part in (values, truth))
        models = [Lasso(alpha=penalty, tol=1e-9).fit(train.astype(float), target) for penalty in PENALTIES]
        best = np.argmin([((model.predict(judged) - goal) ** 2).mean() for model in models])
        assert chosen[j] == pytest.approx(PENALTIES[best])
        np.testing.assert_allclose(strength[:, j], np.abs(models[best].coef_), atol=1e-4)
    assert len(set(chosen)) > 1


@pytest.mark.parametrize("criterion", ["variance", "gini"])
def test_the_depth_is_that_of_scikit_learn(criterion):
    """Whose thresholds lie elsewhere between two samples, and who draws otherwise among cuts of equal gain."""
    samples = drawn(1000), drawn(90, seed=1), drawn(2000, seed=2)
    (codes, values), _, (others, truth) = map(first, samples)
    relation = related(TREE.with_options(criterion=criterion, max_bins=1024), *samples)
    tree = DecisionTreeRegressor if criterion == "variance" else DecisionTreeClassifier
    for j in range(len(SIZES)):
        models = [tree(max_depth=depth, random_state=0).fit(codes, values[:, j]) for depth in sorted(DEPTHS)]
        missed = [model.predict(others) - truth[:, j] for model in models]
        best = np.argmin([(m**2 if criterion == "variance" else m != 0).mean() for m in missed])
        assert relation.chosen[j] == sorted(DEPTHS)[best]
        np.testing.assert_allclose(relation.strength[:, j], models[best].feature_importances_, atol=0.03)
    assert len(set(np.asarray(relation.chosen))) > 1


@pytest.mark.parametrize("criterion", ["variance", "entropy"])
def test_the_depth_is_that_of_the_best_forest_of_a_single_depth(criterion):
    (codes, values), test, validation = map(first, (TRAIN, TEST, VALIDATION))
    # Of equal length, so that programs are shared.
    test, validation = (Sample(part[:80], Factors.of(truth[:80], SIZES)) for part, truth in (test, validation))

    def forest(test, **options):
        arguments = jax.random.key(0), codes, Factors.of(values, SIZES)
        return random_forest(*arguments, test=test, trees=4, criterion=criterion, choose_depth=False, **options)

    relation = forest(test, validation=validation, depth=(6, 1, 3))
    alone = {depth: forest(test, depth=depth) for depth in (1, 3, 6)}
    fits = np.stack([forest(validation, depth=depth).fit for depth in alone])
    assert np.asarray(relation.chosen).tolist() == [list(alone)[best] for best in fits.argmax(axis=0)]
    for j, depth in enumerate(map(int, relation.chosen)):
        np.testing.assert_allclose(relation.strength[:, j], alone[depth].strength[:, j], atol=1e-6)
        assert relation.fit[j] == pytest.approx(float(alone[depth].fit[j]), abs=1e-6)


@pytest.mark.parametrize("spec", [LASSO, TREE, TREE.with_options(trees=3, bootstrap=True)])
def test_choosing_never_reads_test_samples(spec):
    relation, others = (related(spec, test=test) for test in (TEST, drawn(90, seed=3)))
    np.testing.assert_array_equal(relation.chosen, others.chosen)
    np.testing.assert_array_equal(relation.strength, others.strength)
    changed = np.asarray(relation.fit) != np.asarray(others.fit)
    assert changed[:2].all()  # the last factor is predicted without an error


@pytest.mark.parametrize("name", ["lasso_importance", "random_forest"])
def test_a_single_value_reads_no_validation_samples(name):
    spoiled = np.full_like(VALIDATION[0], np.nan), VALIDATION[1]
    option = RELATIONS[name].traits.chooses
    alone = RELATIONS[name].with_options(**{option: (RELATIONS[name].all_options[option],)})
    for spec in (RELATIONS[name], alone):
        for left, right in zip(
            jax.tree.leaves(related(spec, validation=None)),
            jax.tree.leaves(related(spec, validation=spoiled)),
            strict=True,
        ):
            np.testing.assert_array_equal(left, right)


def test_a_one_valued_factor_and_one_that_trees_cannot_classify_choose_nothing():
    def sample(samples):
        codes, values = first(samples)
        return Sample(codes, Factors.of(values * (0, 1, 1), (3, 5, None)))

    codes, factors = sample(TRAIN)[:2]
    samples = {"test": sample(TEST), "validation": sample(VALIDATION)}
    lasso = lasso_importance(codes, factors, penalty=PENALTIES, **samples)
    assert np.isfinite(lasso.chosen).tolist() == [False, True, True]
    forest = random_forest(jax.random.key(0), codes, factors, depth=(1, 3), trees=2, criterion="gini", **samples)
    assert np.isfinite(forest.chosen).tolist() == [False, True, False]


@pytest.mark.parametrize("role", ["test", "validation"])
def test_a_code_that_is_not_finite_in_other_samples_is_reported(role):
    plan, samples = {"lasso": PLAN["lasso"], "mig": "mig"}, {"test": TEST, "validation": VALIDATION}
    spoiled = samples[role][0].copy()
    spoiled[1, 7, 2] = np.nan
    with pytest.warns(RuntimeWarning, match=rf"^{role} codes: 1 non-finite values in 1 of 3 members \(1\)"):
        scores = evaluate(*TRAIN, plan, **{**samples, role: (spoiled, samples[role][1])})
    whole = evaluate(*TRAIN, plan, **samples)
    assert np.isfinite(scores["mig"]).all()
    for column, values in scores.items():
        assert column == "mig" or np.isnan(values[1]), column
        np.testing.assert_array_equal(values[[0, 2]], whole[column][[0, 2]], err_msg=column)


def test_codes_far_from_zero_are_shifted_together():
    near, far = (
        relate(
            TRAIN[0][0].astype(float) + offset,
            TRAIN[1],
            LASSO,
            test=(TEST[0][0] + offset, TEST[1]),
            validation=(VALIDATION[0][0].astype(float) + offset, VALIDATION[1]),
        )
        for offset in (0.0, 1e6)
    )
    np.testing.assert_array_equal(near.chosen, far.chosen)
    np.testing.assert_allclose(near.strength, far.strength, atol=1e-4)  # offsets of 1e6 leave ten digits of float64


def test_replicates_draw_validation_samples_again():
    plan = {"lasso": PLAN["lasso"]}
    scores = evaluate(*TRAIN, plan, test=TEST, validation=VALIDATION, bootstrap=20)
    others = evaluate(*TRAIN, plan, test=TEST, validation=drawn(80, seed=5), bootstrap=20)
    assert (scores.error("lasso.disentanglement") > 0).all()
    assert (scores.replicates["lasso.disentanglement"] != others.replicates["lasso.disentanglement"]).any()


def test_tables_and_curves_pass_validation_samples_on():
    arguments = {"test": TEST, "validation": VALIDATION}
    curve = sample_curve(*TRAIN, PLAN["lasso"], sizes=(60, 120), arguments={"validation": VALIDATION})
    assert np.isfinite(curve.score).all()
    table = blend_table(*TRAIN, ["lasso_importance"], ["entropy"], **arguments)
    assert np.isfinite(table["lasso_importance/entropy.completeness"]).all()


CODES, VALUES = VALIDATION


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "validation: needs samples on which lasso, forest can choose an option, got none"),
        (CODES, r"validation: must be a pair \(codes, factors\), got ndarray"),
        ((CODES[:, :, :2], VALUES), "validation: must have as many members and codes as the training codes"),
        ((CODES, VALUES + 9), "validation factors: factor 'factor_0' of size 3 must have values from 0 to 2"),
    ],
)
def test_bad_validation_samples_are_refused(given, message):
    with pytest.raises(ValueError, match=f"^{message}") as error:
        evaluate(*TRAIN, PLAN, validation=given)
    assert "\n" not in str(error.value)


def test_several_values_without_validation_samples_are_refused_everywhere():
    for spec in (LASSO, TREE):
        with pytest.raises(ValueError, match="^validation: needs samples on which to choose (penalty|depth) among"):
            related(spec, validation=None)
    structure = Structure.slots(2, 2, objects=1, properties=("a", "b", "c"))
    with pytest.raises(ValueError, match="^validation_share: must be a share on which random_forest can choose"):
        evaluate_structured(TRAIN[0][0].reshape(-1, 2, 2), TRAIN[1], structure, final=TREE)
    with pytest.raises(ValueError, match="^validation: needs a relation that reads it, got mutual_information"):
        relate(*first(TRAIN), "mutual_information", validation=first(VALIDATION))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("dci_lasso", {"penalty": ()}, "penalty: must be a number of at least 0 or a tuple"),
        ("dci_lasso", {"penalty": (0.1, -1.0)}, "penalty: must be a number of at least 0 or a tuple"),
        ("dci_forest", {"depth": (3, 0)}, "depth: must be a whole number from 1 to 24 or a tuple"),
        ("dci_forest", {"depth": (3, 2.5)}, "depth: must be a whole number from 1 to 24 or a tuple"),
    ],
)
def test_bad_values_are_refused(name, options, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        METRICS[name].with_options(**options)


def test_a_zoo_is_scored_as_each_member_is_and_in_any_batch():
    codes, values = TRAIN
    whole = evaluate(codes, values, PLAN, test=TEST, validation=VALIDATION)
    batches = evaluate(codes, values, PLAN, test=TEST, validation=VALIDATION, batch_size=2)
    alone = evaluate(*first(TRAIN), PLAN, test=first(TEST), validation=first(VALIDATION))
    for column in whole:
        assert np.isfinite(whole[column]).all(), column
        np.testing.assert_allclose(batches[column], whole[column], atol=1e-5, err_msg=column)
        np.testing.assert_allclose(alone[column], whole[column][0], atol=1e-5, err_msg=column)


def test_ten_calls_trace_once():
    plan, traces = plan_of(PLAN), []

    def counted(plan, member, shared):
        traces.append(1)
        return score_member(plan, member, shared)

    jitted = jax.jit(counted, static_argnums=0)
    for call in range(10):
        codes, factors = TRAIN[0] + call, Factors.of(TRAIN[1])
        member, shared, _ = bind(codes, factors, jax.random.key(call), test=TEST, validation=VALIDATION)
        jitted.trace(plan_of(PLAN), jax.tree.map(lambda leaf: leaf[0], member), shared_by(plan, shared))
    assert len(traces) == 1
