"""What every row of every table must do. A new row is tested by being a row."""

import collections
import functools

import jax
import numpy as np
import pytest

from jaxdis import METRICS, RELATIONS, Factors, Scores, evaluate
from jaxdis._core.platforms import on_cpu, platform_of, tracing_for
from jaxdis._core.precision import single_precision
from jaxdis.evaluation import _run
from jaxdis.evaluation._inputs import bind
from jaxdis.evaluation._member import Stage, score_member_often
from jaxdis.evaluation._run import shared_by
from jaxdis.factors import Sample
from jaxdis.metrics._metric import apply
from jaxdis.metrics._plan import NOT_IN_STUDIES, plan_of
from tests.programs import check_products_of

SIZES = (3, 5, 4)

# Which maps of a code leave each relation as it is. A new relation says what it promises here.
INVARIANT_UNDER = {
    "mutual_information": "affine",
    "mutual_information_equal_count": "increasing",
    "mutual_information_sampled": "nothing",
    "mutual_information_neighbors": "affine",
    "mutual_information_neural": "nothing",
    "neighbor_alignment": "increasing",
    "impact_intensity": "affine",
    "correlation": "affine",
    "r2": "affine",
    "svm_accuracy": "nothing",
    "lasso_importance": "affine",
    "logistic_accuracy": "affine",
    "logistic_importance": "affine",
    "threshold_accuracy": "increasing",
    "boosted_trees": "increasing",
    "random_forest": "increasing",  # with no more samples than bins, of which there are 256
}


# Scores that are undefined, and say so by NaN, where no code carries information.
NEED_INFORMATION = {"edi.modularity", "edi.compactness"}
# Votes for one of several factors, undefined and NaN where there are fewer than two.
NEED_TWO_FACTORS = {"factor_vae", "beta_vae", "z_max"}


# Metrics that change with the sign of a code, and why.
SIGN_MATTERS = {
    "dci": "of cuts of equal gain, trees take the lowest",
    "downstream_trees": "of cuts of equal gain, trees take the lowest",
    "dci_forest": "random choices among cuts fall otherwise",
    "dci_es": "random choices among cuts fall otherwise",
    "structured": "random choices among cuts fall otherwise",
    "rmig": "0 lies at an edge of its fixed bins, and belongs to the upper one",
    "jemmig": "0 lies at an edge of its fixed bins, and belongs to the upper one",
    "nk": "the first weights of a perceptron are not mirrored",
    "linear_probe": "the first weights of a probe are not mirrored",
    "mlp_probe": "the first weights of a perceptron are not mirrored",
}
# The value at a cut belongs to the bin above, as in the released code: a sample of 80 per cut and factor.
SIGN_MOVES = {"snc": 0.02}

# Learners that stop early: what is promised here holds after any number of stages, trees or epochs.
SHORT = {"stages": 10, "trees": 4, "epochs": 10, "max_epochs": 10, "num_train": 1000, "num_eval": 500}
SHORT["sizes"] = (10, 100)


def shortened(metric):
    """The same metric, trained for less long, and boosted trees of two levels, which compile in half of the time."""
    short = SHORT | ({"depth": 2} if "stages" in metric.all_options else {})
    return metric.with_options(**{option: value for option, value in short.items() if option in metric.all_options})


def shortened_plan(names):
    return {name: shortened(METRICS[name]) for name in names}


@functools.cache
def zoo(members: int = 3, n: int = 240, d: int = 4):
    """Members that carry their factors more or less noisily; codes are noisy, so that no sample sits on an edge."""
    rng = np.random.default_rng(0)
    values = np.stack([rng.integers(0, size, n) for size in SIZES], axis=1)
    mixing = rng.normal(size=(members, len(SIZES), d))
    codes = np.einsum("nk,mkd->mnd", values, mixing) + 0.3 * rng.normal(size=(members, n, d))
    return codes.astype(np.float32), Factors.of(values, SIZES)


def columns(scores) -> dict[str, np.ndarray]:
    return {**scores.columns, **scores.parts}


def assert_same(left, right, **tolerance):
    left, right = columns(left), columns(right)
    assert left.keys() == right.keys()
    for name in left:
        if tolerance:
            np.testing.assert_allclose(left[name], right[name], err_msg=name, **tolerance)
        else:
            np.testing.assert_array_equal(left[name], right[name], err_msg=name)


def family(name: str) -> tuple[str, ...]:
    """The metrics that read one relation: a program has it once for all of them, and compiling is what costs here."""
    relation = getattr(METRICS[name], "relation", None)
    return (name,) if relation is None else tuple(other for other in METRICS if reads(other, relation))


def reads(name: str, relation) -> bool:
    return getattr(METRICS[name], "relation", None) == relation


def quick_if(names, is_quick):
    """Parameters of which the others are slow, as a row is that nobody has thought of yet."""
    return [name if is_quick(name) else pytest.param(name, marks=pytest.mark.slow) for name in names]


def quick_if_older(names):
    return quick_if(names, lambda name: name not in NOT_IN_STUDIES)


def half_equal(codes):
    """Rectified codes: 0 for half of the samples."""
    return np.maximum(codes - np.median(codes, axis=1, keepdims=True), 0)


def with_more_classes(factors):
    """The first factor's numbers in degrees, of which most do not occur; of the others, more classes are declared, and
    of one more factor, all samples have one."""
    values = np.c_[np.asarray(factors.values), np.zeros(len(factors.values), int)]
    values[:, 0] = 20 * values[:, 0] + 30
    return Factors.of(values, (values[:, 0].max() + 1, *(size + 3 for size in SIZES[1:]), 1))


TWO_DEVICES = jax.devices()
# What is handed in otherwise than for the zoo itself: arguments of evaluate.
VARIANTS = {
    "zoo": lambda codes, factors: {},
    "first member": lambda codes, factors: {"codes": codes[0]},
    "batches on two devices": lambda codes, factors: {"batch_size": 2, "devices": TWO_DEVICES},
    "constant code": lambda codes, factors: {"codes": np.where(np.arange(4) == 1, np.float32(2.5), codes)},
    "constant codes": lambda codes, factors: {"codes": np.ones_like(codes)},
    "one factor": lambda codes, factors: {"factors": factors.select([0])},
    "one code": lambda codes, factors: {"codes": codes[:, :, :1]},
    "another order": lambda codes, factors: {"codes": codes[:, :, [2, 0, 3, 1]]},
    "half equal": lambda codes, factors: {"codes": half_equal(codes)},
    "half equal, negated": lambda codes, factors: {"codes": -half_equal(codes)},
    "more classes": lambda codes, factors: {"factors": with_more_classes(factors)},
}


TRACES = collections.Counter()


@functools.partial(jax.jit, static_argnums=0)
def traced_once(stage, member, shared):
    TRACES[stage] += 1
    return score_member_often(stage, member, shared)


def scored_once(stage, member, shared):
    """The library's own, traced once for all programs of a shape, and not told how precise products are."""
    with jax.default_matmul_precision(None):
        return traced_once(stage, member, shared)


def score(names, **given) -> Scores:
    """Evaluate metrics of the zoo, or of what is given in its place."""
    codes, factors = zoo()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_run, "score_member_often", scored_once)
        return evaluate(metrics=shortened_plan(names), **{"codes": codes, "factors": factors, **given})


@functools.cache
def scores_of_family(names: tuple[str, ...], variant: str) -> Scores:
    return score(names, **VARIANTS[variant](*zoo()))


def scores_of(name: str, variant: str = "zoo") -> Scores:
    return of_metric(name, scores_of_family(family(name), variant))


def of_metric(name: str, scores: Scores) -> Scores:
    """What one metric says, of the scores of several."""

    def own(table):
        return {column: values for column, values in table.items() if column.split(".")[0] == name}

    return Scores(own(scores.columns), own(scores.parts))


@pytest.mark.parametrize("name", quick_if_older(METRICS))
def test_classes_that_do_not_occur_and_a_one_valued_factor_change_nothing(name):
    """That factor has no parts: NaN, no votes, or the code -1."""
    scores = columns(scores_of(name, "more classes"))
    for column, values in columns(scores_of(name)).items():
        old = tuple(map(slice, values.shape))
        np.testing.assert_allclose(scores[column][old], values, rtol=1e-5, atol=1e-6, err_msg=column)
        new = scores[column].copy()
        new[old] = -1
        assert (np.isnan(new) | (new == 0) | (new == -1)).all(), column


@functools.partial(jax.jit, static_argnums=0)
def relate_active(spec, codes, factors, weights, active):
    return apply(spec, jax.random.key(0), Sample(codes, factors, weights), Sample(codes, factors), active)


def relate_jitted(spec, codes, factors, weights=1.0, active=(True,) * 4):
    """One program for all tests of a relation, whichever codes are active and however samples weigh."""
    weights = np.broadcast_to(np.float32(weights), len(codes)) if spec.reads.weights else None
    return relate_active(spec, codes, factors, weights, np.array(active))


# Metrics whose programs take a minute to compile; run them with -m slow.
WIDE = ("downstream_trees", "mlp_probe", "dci_es")
# Metrics whose learner another row has as well: logistic regression.
SAME_LEARNER = ("dci_logistic", "infoe")


def of_rows(slow):
    """All tests of one row run one after the other, while its programs are kept."""
    return pytest.mark.parametrize("name", quick_if(METRICS, lambda name: name not in slow), scope="module")


# Of the newer rows, tests that need one program are quick; those that compile another for each variant are slow.
LATER = {*WIDE, *NOT_IN_STUDIES, *SAME_LEARNER}
every_metric, in_one_program = of_rows(LATER), of_rows(WIDE)
# Rows that compile for long: test_optimized compares them, as all others, alone and in batches on one device.
LONG = {"beta_vae", "code_information", "dci", "dci_forest", "dcimig_ksg", "edi", "explicitness", "infoc", "infom"}
LONG |= {"irs", "linear_probe", "mig_ksg", "mig_sup_ksg", "modularity_ksg", "nk", "sap", "snc", "structured", *LATER}
every_short_metric = pytest.mark.parametrize("name", [name for name in METRICS if name not in LONG], scope="module")
every_relation = pytest.mark.parametrize("name", RELATIONS, scope="module")
# The first of the metrics that read one relation stands for them all.
SOURCES = [name for name in METRICS if family(name)[0] == name]
every_source = pytest.mark.parametrize("name", quick_if_older(SOURCES))


@in_one_program
def test_scores_are_numbers_with_the_right_shape(name):
    scores = scores_of(name)
    assert any(column == name or column.startswith(f"{name}.") for column in scores)
    for column, values in scores.items():
        assert values.shape == (3,), column
        assert np.isfinite(values).all(), column


@every_short_metric
def test_one_member_alone_equals_it_in_the_zoo(name):
    alone = scores_of(name, "first member")
    # Products of several matrices at once, which accelerators take, add in another order.
    rtol = 1e-6 if on_cpu() else 2e-6
    for column, values in scores_of(name).items():
        assert alone[column].shape == ()
        np.testing.assert_allclose(alone[column], values[0], rtol=rtol, atol=1e-6, err_msg=column)


@every_short_metric
def test_batches_on_two_devices_equal_members_one_by_one(name):
    """vmap = lax.map, to the rounding of matrix products, which one device alone may cut differently."""
    assert_same(scores_of(name, "batches on two devices"), scores_of(name), atol=1e-5)


@every_source
def test_the_key_alone_decides(name):
    """And not the other metrics of the same relation, up to the rounding of another program."""
    assert_same(score([name], key=jax.random.key(0)), scores_of(name), atol=1e-6)


@in_one_program
def test_nan_in_one_member_leaves_the_others_bit_identical(name):
    spoiled = zoo()[0].copy()
    spoiled[1, 17, 2] = np.nan
    with pytest.warns(RuntimeWarning, match=r"1 non-finite values in 1 of 3 members \(1\)"):
        scores = of_metric(name, score(family(name), codes=spoiled))
    for column, values in columns(scores_of(name)).items():
        np.testing.assert_array_equal(columns(scores)[column][[0, 2]], values[[0, 2]], err_msg=column)
    for column, values in scores.items():
        assert np.isnan(values[1]), column


@in_one_program
def test_a_constant_code_is_legal(name):
    for column, values in scores_of(name, "constant code").items():
        assert np.isfinite(values).all(), column


@in_one_program
def test_all_codes_constant_is_legal(name):
    for column, values in scores_of(name, "constant codes").items():
        assert (np.isnan(values) if column in NEED_INFORMATION else np.isfinite(values)).all(), column


def test_without_any_variation_nothing_is_found():
    """And a classifier without features names the most frequent factor: a third, to the spread of 500 answers."""
    for column in ("factor_vae", "irs", "total_correlation", "total_correlation.wasserstein", "code_information"):
        assert (scores_of(column.split(".")[0], "constant codes")[column] == 0).all(), column
    np.testing.assert_allclose(scores_of("beta_vae", "constant codes")["beta_vae"], 1 / 3, atol=0.08)


@every_metric
@pytest.mark.parametrize("variant", ["one factor", "one code"])
def test_fewer_codes_than_factors_and_a_single_factor_are_legal(name, variant):
    for column, values in scores_of(name, variant).items():
        if name in NEED_TWO_FACTORS and variant == "one factor":
            assert np.isnan(values).all(), column
            continue
        # The first code alone may tell nothing, and some metrics are undefined then.
        undefined = np.isnan(values) & (column in NEED_INFORMATION and variant == "one code")
        assert (np.isfinite(values) | undefined).all(), column


@in_one_program
def test_the_order_of_codes_does_not_matter(name):
    """To 1e-4: coordinate descent ends where its order leads, within its tolerance."""
    scores = scores_of(name, "another order")
    for column, values in scores_of(name).items():
        np.testing.assert_allclose(scores[column], values, atol=1e-4, err_msg=column)


@in_one_program
def test_the_sign_of_codes_does_not_matter(name):
    """To 1e-4, the tolerance of learners; of codes of which half of the values are equal."""
    if name in SIGN_MATTERS:
        pytest.skip(SIGN_MATTERS[name])
    scores = scores_of(name, "half equal, negated")
    for column, values in scores_of(name, "half equal").items():
        np.testing.assert_allclose(scores[column], values, atol=SIGN_MOVES.get(name, 1e-4), err_msg=column)


@every_source
@single_precision
def test_ten_calls_trace_once_and_products_are_of_full_precision(name):
    """Accelerators round the operands of other products: by TF32, parts of DCI would move by .03."""
    codes, factors = zoo()
    plan = plan_of(shortened_plan(family(name)))
    before = TRACES.total()
    for call in range(10):
        members, shared, _ = bind(codes + call, factors, jax.random.key(call), split=True)
        member = jax.tree.map(lambda leaf: leaf[0], members)
        stage = Stage(plan_of(shortened_plan(family(name))), relations=True)
        with tracing_for(platform_of(jax.devices())):  # as in the programs above, which may have traced it
            traced = traced_once.trace(stage, member, shared_by(plan, shared))
    assert TRACES.total() <= before + 1
    check_products_of(traced.jaxpr.jaxpr)


@every_metric
def test_64_bits_change_nothing(name):
    codes, factors = zoo()
    with jax.enable_x64(True):
        wide = Factors.of(np.asarray(factors.values, np.int64), factors.sizes)
        scores = score(family(name), codes=codes.astype(np.float64), factors=wide)
    assert_same(of_metric(name, scores), scores_of(name))


@pytest.mark.parametrize(
    "name", sorted(set(RELATIONS) - {"lasso_importance", "logistic_importance"})
)  # coefficients: no bound
def test_relation_is_within_its_ceiling(name):
    codes, factors = zoo()
    relation = relate_jitted(shortened(RELATIONS[name]), codes[0], factors)
    strength, ceiling = np.asarray(relation.strength), np.asarray(relation.ceiling)
    assert (strength >= 0).all()
    assert (strength <= ceiling + 1e-6).all()


@every_relation
def test_relation_has_a_nan_row_for_a_nan_code_alone(name):
    """And the other rows are those with that code silent."""
    codes, factors = zoo()
    spoiled, silent = codes[0].copy(), codes[0].copy()
    spoiled[5, 2] = np.inf
    silent[:, 2] = 0
    spoiled = relate_jitted(shortened(RELATIONS[name]), spoiled, factors)
    whole = relate_jitted(shortened(RELATIONS[name]), silent, factors)
    assert np.isnan(spoiled.strength[2]).all()
    others = np.array([0, 1, 3])
    np.testing.assert_allclose(spoiled.strength[others], whole.strength[others], atol=2e-6)


@every_relation
def test_an_inactive_code_relates_to_nothing(name):
    """Whatever it holds."""
    (codes, *_), factors = zoo()
    loud = codes.copy()
    loud[:, 1] = 50 * np.random.default_rng(1).normal(size=len(loud))
    relation, other = (
        relate_jitted(shortened(RELATIONS[name]), given, factors, active=(True, False, True, True))
        for given in (codes, loud)
    )
    assert (np.asarray(relation.strength)[1] == 0).all()
    assert not relation.active[1]
    for field in ("strength", "ceiling", "fit"):
        if (found := getattr(relation, field)) is not None:
            np.testing.assert_allclose(found, getattr(other, field), atol=2e-6, err_msg=field)


@pytest.mark.parametrize("name", [name for name, spec in RELATIONS.items() if spec.reads.weights])
def test_zero_weights_take_samples_out(name):
    codes, factors = zoo()
    weights = np.r_[np.ones(200), np.zeros(40)].astype(np.float32)
    moved = codes[0].copy()
    moved[200:] *= 50  # what has no weight must not stretch the range either
    weighted = relate_jitted(shortened(RELATIONS[name]), moved, factors, weights)
    cut = relate_jitted(shortened(RELATIONS[name]), codes[0][:200], factors.take(np.arange(200)))
    np.testing.assert_allclose(weighted.strength, cut.strength, atol=5e-6)
    np.testing.assert_allclose(weighted.ceiling, cut.ceiling, rtol=1e-5)


@every_relation
def test_relation_is_invariant_as_it_promises(name):
    codes, factors = zoo()
    spec, one = shortened(RELATIONS[name]), codes[0]
    promise = INVARIANT_UNDER[name]
    mapped = {"affine": 2 * one - 8, "increasing": np.arcsinh(one) + one**3, "nothing": one}[promise]
    np.testing.assert_allclose(
        relate_jitted(spec, mapped, factors).strength, relate_jitted(spec, one, factors).strength, atol=1e-4
    )
    if promise == "affine":  # and the promise is not larger than it says
        bent = relate_jitted(spec, np.exp(one), factors).strength
        assert np.abs(bent - relate_jitted(spec, one, factors).strength).max() > 1e-3


def test_every_relation_says_what_it_is_invariant_under():
    assert INVARIANT_UNDER.keys() == RELATIONS.keys()


def test_adding_a_metric_or_a_member_changes_no_number():
    codes, factors = zoo()
    alone = evaluate(codes[:2], factors, ["factor_vae", "mig"])
    together = evaluate(codes, factors, ["sap", "mig", "beta_vae", "factor_vae"])
    for name in alone:
        np.testing.assert_array_equal(together[name][:2], alone[name])


def test_dci_of_logistic_regression_leaves_a_continuous_factor_out():
    rng = np.random.default_rng(0)
    values = rng.integers(0, (3, 4, 5), size=(300, 3))
    codes = (values @ rng.normal(size=(3, 4)) + 0.3 * rng.normal(size=(300, 4))).astype(np.float32)
    alone = evaluate(codes, Factors.of(values, (3, 4, 5)), "dci_logistic")
    more = evaluate(codes, Factors.of(np.c_[values, rng.normal(size=300)], (3, 4, 5, None)), "dci_logistic")
    for name in alone:
        assert more[name] == pytest.approx(float(alone[name]), abs=1e-6)


@pytest.mark.parametrize("normalize", [False, True])
def test_amari_without_a_factor_that_varies_is_nan(normalize):
    codes = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    metric = METRICS["amari"].with_options(normalize=normalize)
    with pytest.warns(RuntimeWarning, match="factors: must vary"):
        assert np.isnan(evaluate(codes, np.zeros((50, 2), int), {"error": metric})["error"])


@in_one_program
def test_options_make_a_new_value_and_the_default_is_the_same_value(name):
    metric = METRICS[name]
    assert metric.with_options() == metric
    assert hash(metric) == hash(metric.with_options(**metric.all_options))
    with pytest.raises(ValueError, match="has no option 'bogus'"):
        metric.with_options(bogus=1)
