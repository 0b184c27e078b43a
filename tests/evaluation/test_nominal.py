"""Factors whose classes have no order: no score depends on how these are numbered, and no order is invented."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.linear_model import Lasso, Ridge
from sklearn.metrics import r2_score

import jaxdis
from jaxdis import METRICS, RELATIONS, Factors, evaluate, relate
from jaxdis._core.table_columns import columns_and_kinds
from jaxdis.evaluation._notes import known, notes_of
from jaxdis.factors import Sample
from jaxdis.metrics._metric import apply
from jaxdis.metrics._plan import plan_of
from tests.metrics.test_contracts import SOURCES, family, quick_if, shortened, shortened_plan
from tests.programs import compiled_whole

SIZES, N = (4, 3), 180


def nominal(values, sizes=SIZES):
    return dataclasses.replace(Factors.of(values, sizes), nominal=(True,) * len(sizes))


def sample(seed=0):
    rng = np.random.default_rng(seed)
    values = rng.integers(0, SIZES, (N, 2))
    codes = np.stack([values[:, 0] % 2 + values[:, 1] / 2, np.sin(3 * values[:, 0]), rng.normal(size=N)], axis=1)
    return (codes + 0.3 * rng.normal(size=codes.shape)).astype(np.float32), values


def renumbered(values):
    return np.stack([np.array([2, 0, 3, 1])[values[:, 0]], np.array([1, 2, 0])[values[:, 1]]], axis=1)


CODES, VALUES = sample()


@pytest.mark.parametrize("name", quick_if(SOURCES, {"mig", "mcc", "sap_r2", "r2_linear", "z_max", "irs"}.__contains__))
def test_no_score_depends_on_how_classes_are_numbered(name):
    """An evaluation numbers classes anew before any metric sees them."""
    plan = shortened_plan(family(name))
    scores, moved = (evaluate(CODES, nominal(values), plan, 0) for values in (VALUES, renumbered(VALUES)))
    assert list(scores) == list(moved)
    for column in scores:
        np.testing.assert_array_equal(scores[column], moved[column])


apply_whole = compiled_whole(apply)


@pytest.mark.parametrize("name", quick_if(RELATIONS, {"correlation", "r2", "mutual_information"}.__contains__))
def test_no_relation_depends_on_how_classes_are_numbered(name):
    """Without the numbers that an evaluation gives classes, up to rounding where learners break ties."""
    spec = shortened(RELATIONS[name])
    test = Sample(jnp.asarray(CODES[::3]), nominal(VALUES[::3]))
    moved = test._replace(factors=nominal(renumbered(VALUES[::3])))
    key = jax.random.key(0)
    one = apply_whole(spec, key, Sample(jnp.asarray(CODES), nominal(VALUES)), test)
    other = apply_whole(spec, key, Sample(jnp.asarray(CODES), nominal(renumbered(VALUES))), moved)
    tolerance = 0.05 if name == "boosted_trees" else 1e-5
    np.testing.assert_allclose(one.strength, other.strength, atol=tolerance)
    if one.fit is not None:
        np.testing.assert_allclose(one.fit, other.fit, atol=tolerance)


def test_correlation_with_classes_is_the_correlation_ratio():
    weights = np.random.default_rng(1).integers(0, 3, N)
    repeated = np.repeat(np.arange(N), weights)
    for rows, given in ((np.arange(N), None), (repeated, weights)):
        codes, values = CODES[rows].astype(float), VALUES[rows]
        between = [
            sum((values[:, j] == v).mean() * codes[values[:, j] == v].mean(axis=0) ** 2 for v in range(size))
            for j, size in enumerate(SIZES)
        ]
        ratio = (np.array(between).T - codes.mean(axis=0)[:, None] ** 2) / codes.var(axis=0)[:, None]
        found = relate(CODES, nominal(VALUES), "r2", weights=given)
        np.testing.assert_allclose(found.strength, ratio, atol=2e-6)
        found = relate(CODES, nominal(VALUES), "correlation", weights=given)
        np.testing.assert_allclose(found.strength, np.sqrt(ratio), atol=2e-6)
    ranks = CODES.argsort(axis=0).argsort(axis=0).astype(np.float32)
    spearman = RELATIONS["correlation"].with_options(kind="spearman")
    of_ranks = relate(ranks, nominal(VALUES), "correlation").strength
    np.testing.assert_allclose(relate(CODES, nominal(VALUES), spearman).strength, of_ranks, atol=2e-6)
    perfect = relate(VALUES[:, [0, 1, 0]].astype(np.float32), nominal(VALUES), "correlation").strength
    np.testing.assert_allclose(np.diag(perfect), 1, atol=1e-6)


def test_two_classes_have_no_order_to_lose():
    table = {"a": np.array(["no", "yes"])[VALUES[:, 1] % 2], "b": (VALUES[:, 1] % 2).tolist()}
    factors = Factors.from_table(table)
    assert factors.nominal is None
    scores = evaluate(CODES, factors, {"r2": METRICS["r2_linear"]}, 0)
    assert scores.part("r2.per_factor")[0] == pytest.approx(scores.part("r2.per_factor")[1])


TRAIN, TEST = np.arange(N) % 3 > 0, np.arange(N) % 3 == 0
CENTER, SCALE = CODES[TRAIN].mean(axis=0), CODES[TRAIN].std(axis=0)
INPUTS, OTHERS = ((CODES[rows].astype(float) - CENTER) / SCALE for rows in (TRAIN, TEST))


def test_linear_predictions_are_those_of_indicators():
    scores = evaluate(
        CODES[TRAIN], nominal(VALUES[TRAIN]), ("r2_linear", "mcc_linear"), 0, test=(CODES[TEST], nominal(VALUES[TEST]))
    )
    for j, size in enumerate(SIZES):
        hot, truth = np.eye(size)[VALUES[TRAIN, j]], np.eye(size)[VALUES[TEST, j]]
        predicted = Ridge(alpha=1e-4 * len(INPUTS)).fit(INPUTS, hot).predict(OTHERS)
        expected = r2_score(truth, predicted, multioutput="variance_weighted")
        assert scores.part("r2_linear.per_factor")[j] == pytest.approx(expected, abs=1e-5)
        apart = [columns - columns.mean(axis=0) for columns in (predicted, truth)]
        expected = abs((apart[0] * apart[1]).sum()) / np.sqrt((apart[0] ** 2).sum() * (apart[1] ** 2).sum())
        assert scores.part("mcc_linear.per_factor")[j] == pytest.approx(expected, abs=1e-5)


def test_lasso_weights_are_those_of_indicators():
    relation = relate(
        CODES[TRAIN], nominal(VALUES[TRAIN]), "lasso_importance", 0, test=(CODES[TEST], nominal(VALUES[TEST]))
    )
    for j, size in enumerate(SIZES):
        hot, truth = np.eye(size)[VALUES[TRAIN, j]], np.eye(size)[VALUES[TEST, j]]
        spread = hot.std(axis=0)
        model = Lasso(alpha=0.02, tol=1e-10, max_iter=10**5).fit(INPUTS, (hot - hot.mean(axis=0)) / spread)
        expected = (np.abs(model.coef_) * spread[:, None] ** 2).sum(axis=0) / (spread**2).sum()
        np.testing.assert_allclose(relation.strength[:, j], expected, atol=1e-5)
        wrong = truth - hot.mean(axis=0) - model.predict(OTHERS) * spread
        nrmse = np.sqrt((wrong**2).mean(axis=0).sum() / truth.var(axis=0).sum())
        assert relation.fit[j] == pytest.approx(1 - nrmse, abs=1e-5)


def test_matched_codes_are_judged_by_the_means_of_training():
    scores = evaluate(CODES[TRAIN], nominal(VALUES[TRAIN]), "mcc_test", 0, test=(CODES[TEST], nominal(VALUES[TEST])))
    for j, code in enumerate(scores.part("mcc_test.code")):
        means = [CODES[TRAIN & (VALUES[:, j] == v), code].mean() for v in range(SIZES[j])]
        expected = abs(np.corrcoef(CODES[TEST, code], np.array(means)[VALUES[TEST, j]])[0, 1])
        assert scores.part("mcc_test.per_factor")[j] == pytest.approx(expected, abs=1e-5)


def test_forests_predict_indicators_of_nominal_factors_and_values_of_others():
    """The largest code of three is the class: an alphabet's middle class is no harder than the others."""
    rng = np.random.default_rng(0)
    values = rng.integers(0, 3, (600, 2))
    codes = np.eye(3)[values[:, 0]] + 0.1 * rng.normal(size=(600, 3))
    both = dataclasses.replace(Factors.of(values, (3, 3)), nominal=(True, False))
    mixed = relate(codes, both, "random_forest", 0)
    assert mixed.fit[0] > 0.9
    assert (np.asarray(mixed.strength[:, 0]) > 0.1).all()  # each class has its own code
    ordered = relate(codes, Factors.of(values, (3, 3)), "random_forest", 0)
    np.testing.assert_array_equal(mixed.strength[:, 1], ordered.strength[:, 1])
    np.testing.assert_array_equal(mixed.fit[1], ordered.fit[1])


def test_metrics_that_need_an_order_leave_nominal_factors_out_and_say_so():
    factors = dataclasses.replace(Factors.of(VALUES, SIZES, ("cell", "dose")), nominal=(True, False))
    scores = evaluate(CODES, factors, ("monotonicity", "mcc", "smoothness"), 0)
    assert np.isnan(scores.part("monotonicity.per_factor")).tolist() == [True, False]
    alone = evaluate(CODES, Factors.of(VALUES[:, 1:], SIZES[1:]), "smoothness", 0)
    np.testing.assert_allclose(scores["smoothness"], alone["smoothness"], atol=1e-5)
    notes = {name: [text for of, text in scores.notes if of == name and "order" in text] for name in scores}
    left_out = "cell has classes without an order and is left out; declare one by kinds={'cell': ('ordered', …)}"
    assert notes["monotonicity"] == notes["smoothness"] == [left_out]
    assert ["read as indicators" in text for text in notes["mcc"]] == [True]
    told = notes_of(plan_of("mig"), {"mig": np.float32(0.5)}, known(factors), N)
    assert not [text for _, text in told if "order" in text]


LEVELS = ("mild", "moderate", "severe")


def test_text_is_nominal_unless_an_order_is_declared():
    pandas = pytest.importorskip("pandas")
    level = np.random.default_rng(0).integers(0, 3, 300)
    codes = np.stack([level + 0.01 * np.random.default_rng(1).normal(size=300), np.zeros(300)], axis=1)
    text = np.array(LEVELS)[level]
    swapped = np.array(("b", "a", "c"))[level]  # by alphabet, the least is in the middle
    for column, kind, is_nominal in (
        (text.tolist(), None, True),
        (swapped.tolist(), None, True),
        (swapped.tolist(), ("ordered", ("b", "a", "c")), False),
        (swapped.tolist(), ("ordered", ["b", "a", "c", "d"]), False),
        (level.tolist(), None, False),
        (level.tolist(), "classes", False),
        (level.tolist(), "ordered", False),
        (level.tolist(), "nominal", True),
        (pandas.Categorical(swapped, ["b", "a", "c"], ordered=True), None, False),
        (pandas.Categorical(swapped, ["b", "a", "c"]), None, True),
        (pandas.Categorical(swapped, ["b", "a", "c"]), "ordered", False),
        (pandas.Categorical(swapped, ["a", "b", "c"], ordered=True), ("ordered", ("b", "a", "c")), False),
    ):
        table = pandas.DataFrame({"level": column})
        factors = Factors.from_table(table, kinds={} if kind is None else {"level": kind})
        assert (factors.nominal is not None) == is_nominal
        if not is_nominal:  # with the class that does not occur
            assert factors.sizes == (4 if "d" in factors.classes[0] else 3,)
        assert evaluate(codes, factors, "sap_r2")["sap_r2"] > 0.99


def test_classes_that_training_lacks_are_known_if_they_are_declared():
    levels = ("low", "medium", "high")
    train = Factors.from_table({"a": ["low", "high"] * 30}, kinds={"a": ("ordered", levels)})
    test = Factors.from_table({"a": ["low", "medium", "high"] * 10}, kinds={"a": ("ordered", levels)})
    codes, others = (np.arange(60) % 2 * 2.0)[:, None], (np.arange(30) % 3 * 1.0)[:, None]
    scores = evaluate(codes, train, "r2_linear", test=(others, test))
    assert scores["r2_linear"] == pytest.approx(1, abs=1e-3)
    plain = Factors.from_table({"a": ["low", "medium", "high"] * 10})
    assert evaluate(codes, train, "r2_linear", test=(others, plain))["r2_linear"] == scores["r2_linear"]


def test_kinds_are_written_in_the_shell():
    names, kinds = columns_and_kinds(["size:ordered=s,m,l", "a:nominal", "b:circular", "c:x", "d", "e:ordered"])
    assert names == ["size", "a", "b", "c:x", "d", "e"]
    assert kinds == {"size": ("ordered", ("s", "m", "l")), "a": "nominal", "b": "circular", "e": "ordered"}
    numbers = Factors.from_table({"dose": [10, 1, 5] * 20}, kinds=columns_and_kinds(["dose:ordered=10,5,1"])[1])
    assert numbers.classes == ((10, 5, 1),)


def test_refusals():
    table = {"size": ["s", "m", "l"] * 20, "x": [0.5, 1.5, 2.5] * 20}
    for kinds, words in (
        (
            {"size": "ordered"},
            "column 'size' must have its classes listed in order, got text; kinds={'size': .'ordered",
        ),
        ({"size": ("ordered", ("s", "m"))}, r"column 'size' must be among its declared classes .*, got 'l'"),
        ({"size": ("ordered", ("s", "s", "l"))}, r"kinds: the classes of 'size' must be listed in order, once each"),
        ({"size": ("ordered", 3)}, r"kinds: the classes of 'size' must be listed in order, once each, got 3"),
        ({"size": ("ordered", ())}, r"kinds: the classes of 'size' must be listed in order, once each"),
    ):
        with pytest.raises(ValueError, match=words):
            Factors.from_table(table, kinds=kinds)


def test_what_is_nominal_stays_so():
    factors = Factors.from_table({"cell": ["T", "B", "NK"] * 40, "dose": [1, 2, 3] * 40})
    assert factors.nominal == (True, False)
    assert factors.take(np.arange(50)).nominal == factors.binned().nominal == (True, False)
    assert factors.select([1, 0]).nominal == (False, True)
    assert factors.one_hot().nominal is None
    assert jaxdis.data.example()[1].nominal == (True, False, False, False, False)
    gaps = Factors.from_table({"cell": ["T", "B", "NK", None] * 30, "dose": [1, 2, 3, 4] * 30}, missing="each")
    codes = np.random.default_rng(0).normal(size=(120, 2))
    assert [name for name, text in evaluate(codes, gaps, "mcc").notes if "without an order" in text] == ["mcc"]
