"""Single-neuron classification against the authors' values, known truths and chance."""

import numpy as np
import pytest

from jaxdis import METRICS, Factors, evaluate
from jaxdis.data import synthetic
from jaxdis.metrics._probe_accuracy import _bins_of_common_size
from tests.golden_values import arrays, numbers
from tests.programs import compiled_whole
from tests.relations.test_information import POPULATIONS

GOLDEN = numbers("snc")["cases"]


def representation(name):
    if name in POPULATIONS:
        return POPULATIONS[name]()
    stored = arrays("unbalanced" if name == "fewer_codes" else name)
    codes = stored["codes"][:, :1] if name == "fewer_codes" else stored["codes"]
    return codes, Factors.of(stored["factors"])


def score(codes, factors, mode="paper", **options):
    metric = METRICS["snc"].with_options(mode=mode, **options)
    return evaluate(codes, factors, {"snc": metric}, test=(codes, factors))


@pytest.mark.parametrize("name", GOLDEN)
def test_code_mode_equals_the_authors(name):
    """Exactly; where the alignment is tied, its total and the accuracies in any order."""
    expected = GOLDEN[name]
    found = score(*representation(name), "code")
    information = np.array(expected["information"])
    code = found.part("snc.code")
    pairs = np.arange(len(code))
    assert information[pairs, code].sum() == pytest.approx(information[pairs, expected["alignment"]].sum(), abs=1e-6)
    if (code == expected["alignment"]).all():
        np.testing.assert_allclose(found.part("snc.accuracy"), expected["accuracy"], atol=1e-6)
        np.testing.assert_allclose(found.part("snc.per_factor"), expected["adjusted"], atol=1e-6)
    else:
        np.testing.assert_allclose(np.sort(found.part("snc.accuracy")), np.sort(expected["accuracy"]), atol=1e-6)


@pytest.mark.parametrize("shares", [(0.04, 0.75, 0.09, 0.12), (0.52, 0.12, 0.36), (0.4, 0.6)])
def test_rectified_codes_score_as_their_negation(shares):
    """Bins of a common size were counted from the lower end: .977 for the negation of a perfect code that had 1."""
    rng = np.random.default_rng(2)
    values = rng.choice(len(shares), 900, p=shares)
    code = np.where(values == 0, 0, values + 0.9 * rng.random(900)).astype(np.float32)[:, None]
    scores = score(np.stack([code, -code]), Factors.of(values[:, None]))
    np.testing.assert_allclose(*scores["snc"], atol=0.004)
    assert (scores["snc"] > 0.98).all()


@pytest.mark.parametrize(("model", "expected"), [("M1", 0.25), ("M2", 0.45)])
def test_table_1_of_mahon_et_al(model, expected):
    """Equation 3 on the toy models. The table prints 12.5 and 22.5: mean accuracy less one half, not over (1 − r)."""
    assert score(*synthetic.toy_model(model))["snc"] == pytest.approx(expected, abs=1e-6)


def test_distributed_codes_are_at_chance():
    assert score(*synthetic.distributed(4, 3))["snc"] == pytest.approx(0, abs=1e-6)


def test_identity_is_one():
    rng = np.random.default_rng(0)
    values = np.stack([rng.integers(0, size, 3000) for size in (3, 6, 40)], axis=1)
    codes = np.exp(values + 0.1 * rng.random(values.shape))
    # Equal-count bins of sampled classes are off by the classes' own fluctuation.
    assert score(codes, values)["snc"] > 0.9
    balanced = np.stack([np.arange(2400) % 3, np.arange(2400) // 3 % 8], axis=1)
    assert score(balanced, balanced)["snc"] == pytest.approx(1)


def test_a_code_that_equals_a_factor_of_sampled_classes_scores_one():
    """As released, a quantile that falls among equal values leaves two classes to one bin."""
    released = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        values = rng.integers(0, 3, (10_000, 1))
        assert score(values, values)["snc"] == 1
        assert score(-values, values)["snc"] == 1
        released.append(float(score(values, values, "code")["snc"]))
    # Classes of 10,000 / 3 samples fluctuate by 47: one half ± 0.02.
    assert all(min(abs(found - 0.5), abs(found - 1)) < 0.02 for found in released)
    assert {round(2 * found) for found in released} == {1, 2}


@pytest.mark.parametrize("sign", [1, -1])
def test_a_threshold_at_zero_separates_a_rare_concept_of_a_rectified_code(sign):
    """The code is 0 without its concept; beside it, a code of balanced classes, and a factor that has no code."""
    rng = np.random.default_rng(0)
    concept, balanced, other = rng.random(600) < 0.1, np.arange(600) % 3, np.arange(600) // 3 % 4
    codes = np.stack([balanced, np.where(concept, rng.uniform(0.1, 1, 600), 0)], axis=1).astype(np.float32)
    found = score(sign * codes, np.stack([concept, balanced, other], axis=1).astype(int))
    np.testing.assert_allclose(found.part("snc.per_factor"), [1, 1, 0], atol=1e-6)
    assert found["snc"] == pytest.approx(2 / 3)
    np.testing.assert_array_equal(found.part("snc.code"), [1, 0, -1])


def test_unbalanced_separable_classes_score_one_by_common_bins():
    values = np.repeat([0, 1, 2], (1800, 900, 300))[:, None]
    rng = np.random.default_rng(0)
    codes = values + 0.5 * rng.random(values.shape)
    assert score(codes, values)["snc"] == pytest.approx(1)
    assert score(codes, values, "code").part("snc.accuracy")[0] < 0.8


def test_a_class_has_no_more_bins_than_its_count_needs():
    """Of four bins of four samples, half of them in the last class, this class has two, and every other one has one."""
    classes = np.concatenate([np.tile([2, 2, 1, 0], 4), np.zeros(20)]).astype(np.int32)
    code = np.arange(36, dtype=np.float32)
    named = np.asarray(compiled_whole(_bins_of_common_size)(code, code, code, classes, 3, "scipy"))
    np.testing.assert_array_equal(named.reshape(9, 4), named[::4, None].repeat(4, axis=1))
    assert sorted(named[:16:4]) == [0, 1, 2, 2]
    assert (named[16:] == 0).all()


def test_independent_codes_score_zero_within_their_error():
    rng = np.random.default_rng(1)
    values = np.stack([rng.integers(0, 4, 4000), rng.choice(3, 4000, p=(0.6, 0.3, 0.1))], axis=1)
    noise = rng.normal(size=(20, 4000, 3)).astype(np.float32)
    parts = evaluate(noise, values, "snc").part("snc.accuracy")
    chance = [0.25, 0.36 + 0.09 + 0.01]
    standard_error = parts.std(axis=0) / np.sqrt(20)
    # Bins chosen among many agree with labels by luck on the training samples only.
    assert (np.abs(parts.mean(axis=0) - chance) < np.maximum(5 * standard_error, 0.01)).all()


def test_classes_missing_from_train_or_test():
    train = np.arange(900) % 3
    test = np.arange(300) % 2
    factors, held_out = Factors.of(train, (4,)), Factors.of(test, (4,))
    scores = evaluate(train[:, None], factors, "snc", test=(test[:, None], held_out))
    assert scores["snc"] == pytest.approx(1)
    scores = evaluate(test[:, None], held_out, "snc", test=(train[:, None], factors))
    assert np.isfinite(scores["snc"])


def test_fewer_samples_than_classes_is_defined():
    rng = np.random.default_rng(2)
    values = rng.integers(0, 40, (12, 1))
    assert 0 <= evaluate(rng.normal(size=(12, 2)), Factors.of(values, (40,)), "snc")["snc"] <= 1


def test_monotone_maps_change_nothing():
    codes, factors = representation("unbalanced")
    bent = np.arcsinh(codes) * 3 + codes**3
    np.testing.assert_allclose(score(bent, factors)["snc"], score(codes, factors)["snc"], atol=1e-6)


@pytest.mark.parametrize("mode", ["paper", "code"])
def test_declared_values_that_do_not_occur_change_nothing(mode):
    rng = np.random.default_rng(9)
    values = rng.integers(0, 2, size=(600, 1))
    codes = np.concatenate([values + 0.6 * rng.normal(size=(600, 1)), rng.normal(size=(600, 2))], axis=1)
    metric = METRICS["snc"].with_options(mode=mode)
    scores = [float(evaluate(codes, Factors.of(values, (size,)), {"it": metric})["it"]) for size in (2, 3, 4)]
    assert scores[0] > 0.3
    assert scores == [scores[0]] * 3


@pytest.mark.parametrize("share", [0.5, 0.1, 0.02])
def test_constant_codes_score_what_the_contract_says(share):
    """``(1 − 2p) / (2 (1 − p))`` by the squared shares, 0 by the share of the most frequent class."""
    values = (np.arange(2000) < 2000 * share).astype(int)[:, None]
    codes = np.ones((2000, 2), np.float32)
    assert score(codes, values)["snc"] == pytest.approx((1 - 2 * share) / (2 * (1 - share)), abs=1e-6)
    # Accuracy and the share of the class may differ in the last place.
    assert score(codes, values, chance="majority")["snc"] == pytest.approx(0, abs=2**-24 / share)
    assert score(values + 0.1, values, chance="majority")["snc"] == 1


@pytest.mark.parametrize("name", ["snc", "nk"])
def test_codes_are_aligned_by_another_relation(name):
    """Classes in another order go with the factor exactly; a noisy copy has the larger correlation."""
    rng = np.random.default_rng(0)
    factor = rng.integers(0, 4, 600)
    scattered = np.array([3.0, 0.0, 1.0, 2.0])[factor]  # the classes in another order
    codes = np.stack([scattered, factor + 0.2 * rng.normal(size=600)], axis=1).astype(np.float32)
    options = {} if name == "snc" else {"epochs": 1, "width": 2}
    aligned = {}
    for align in ("mutual_information", "correlation", "r2"):
        plan = {"m": METRICS[name].with_options(align=align, **options)}
        aligned[align] = int(evaluate(codes, factor[:, None], plan).part("m.code")[0])
    assert aligned == {"mutual_information": 0, "correlation": 1, "r2": 1}


@pytest.mark.parametrize("name", ["snc", "mcc", "nk"])
def test_scipy_assigns_codes_as_well_as_the_program(name):
    """Of two members with unbalanced classes, whose bins are matched with 200 slots and more; continuous codes."""
    rng = np.random.default_rng(0)
    classes = np.stack([rng.choice(3, 300, p=[0.6, 0.3, 0.1]), rng.integers(0, 4, 300)], axis=1)
    codes = (classes[None] + rng.normal(size=(2, 300, 2))).astype(np.float32)
    scores = [
        evaluate(codes, classes, {name: METRICS[name].with_options(assignment=solver)}, test=(codes, classes))[name]
        for solver in ("optax", "scipy")
    ]
    np.testing.assert_allclose(*scores, rtol=1e-6)
