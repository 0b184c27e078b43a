"""What users pass by mistake is refused with what to do; what is unusual but clear is scored as what it is."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdis
from jaxdis import RELATIONS, Factors, evaluate, relate
from jaxdis.codes import active
from jaxdis.evaluation._inputs import bind
from jaxdis.evaluation._run import shared_by, stages_of
from jaxdis.metrics._plan import plan_of
from jaxdis.structured import Structure
from tests.draws import representations

CODES, VALUES = representations(noise=0.1)
ONE_ARRAY = "must be one array, got a {} of {}; of means and log-variances give the means, join batches by numpy.conc"


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda codes: evaluate(codes, VALUES, "mig"), "codes"),
        (lambda codes: evaluate(CODES, VALUES, "sap", test=(codes, VALUES)), "test codes"),
        (lambda codes: evaluate(CODES, VALUES, "mig", variances=codes), "variances"),
        (lambda codes: evaluate(CODES, codes, "mig"), "factors"),
        (lambda codes: jaxdis.relate(codes, VALUES, "r2"), "codes"),
        (lambda codes: jaxdis.sample_curve(codes, VALUES, "mig", sizes=[5]), "codes"),
        (active, "posterior"),
        (lambda codes: jaxdis.evaluate_structured(codes, VALUES, Structure.slots(1, 3, 1, ("x", "y"))), "codes"),
    ],
)
def test_several_arrays_are_not_taken_for_a_zoo(call, name):
    for codes in ((CODES, CODES), [CODES[:100], CODES[100:]], [CODES[:40], CODES[40:]], [jnp.asarray(CODES)] * 2):
        with pytest.raises(ValueError, match=f"{name}: " + ONE_ARRAY.format(type(codes).__name__, 2)):
            call(codes)


def test_lists_of_numbers_and_of_samples_are_arrays():
    expected = evaluate(CODES, VALUES, "mig")["mig"]
    assert evaluate(CODES.tolist(), VALUES.tolist(), "mig")["mig"] == expected
    assert evaluate(list(CODES), list(VALUES), "mig")["mig"] == expected
    with pytest.raises(ValueError, match="codes: must be an array, got a list of entries of different lengths"):
        evaluate([[1.0, 2.0], [3.0]], VALUES, "mig")


def test_log_variances_are_recognized_by_their_sign():
    with pytest.raises(ValueError, match="variances: must be numbers of at least 0, got -1; give numpy.e"):
        evaluate(CODES, VALUES, "mig", variances=np.full_like(CODES, -1.0))


def test_sparse_arrays_name_the_method_that_makes_them_dense():
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(ValueError, match=r"factors: must be a dense array, got csr_matrix.*by \.toarray\(\)"):
        evaluate(CODES, sparse.csr_matrix(VALUES), "mig")

    class Tensor:
        layout = "torch.sparse_csr"

    with pytest.raises(ValueError, match=r"codes: must be a dense array, got Tensor.*by \.to_dense\(\)"):
        evaluate(Tensor(), VALUES, "mig")


@pytest.mark.parametrize(
    "values",
    [
        np.array(["a", "b", "c", "d"])[VALUES],
        np.array(["a", "b", "c", "d"], object)[VALUES[:, 0]],
        {"shape": VALUES[:, 0]},
        np.where(VALUES > 1, 1, -1),
    ],
    ids=["text", "objects", "mapping", "signs"],
)
def test_values_that_are_no_class_numbers_come_with_the_remedy(values):
    with pytest.raises(ValueError, match=re.escape("by np.unique(column, return_inverse=True)[1]")):
        Factors.of(values)


def test_a_data_frame_names_its_factors_and_its_columns_of_text():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(VALUES, columns=["shape", "size"])
    assert Factors.of(frame).names == ("shape", "size")
    assert Factors.of(frame, names=("a", "b")).names == ("a", "b")
    assert Factors.of(pandas.DataFrame(VALUES)).names == ("factor_0", "factor_1")
    assert evaluate(CODES, frame, "mig").factor_names == ("shape", "size")
    frame["color"] = "red"
    with pytest.raises(ValueError, match=r"got DataFrame of Python objects in color; Factors\.from_table"):
        Factors.of(frame)


def test_held_out_classes_that_training_lacks_are_declared():
    held_out = np.c_[VALUES[:, 0] + 5, VALUES[:, 1]]
    with pytest.raises(ValueError, match="got 7; declare classes that a part of the samples lacks by Factors.of"):
        evaluate(CODES, VALUES, "sap", test=(CODES, held_out))
    assert np.isfinite(evaluate(CODES, Factors.of(VALUES, (8, 4)), "sap", test=(CODES, held_out))["sap"])


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (CODES + 0j, "real numbers, got"),
        (np.array([["a", "b", "c"]] * 200), "real numbers, got"),
        (
            CODES.astype(object),
            "an array of numbers, got ndarray of Python objects; convert it by numpy.asarray(…, float)",
        ),
    ],
)
def test_arrays_of_other_things_than_real_numbers_are_refused_by_name(array, words):
    with pytest.raises(ValueError, match=re.escape(f"codes: must be {words}")):
        evaluate(array, VALUES, "mig")


def test_the_layout_of_memory_changes_nothing():
    expected = evaluate(CODES, VALUES, "mig")["mig"]
    for codes in (
        np.asfortranarray(CODES),
        CODES.astype(">f4"),
        CODES.astype(np.float64),
        np.ma.array(CODES),
        np.repeat(CODES, 2, axis=0)[::2],
        jnp.asarray(CODES),
    ):
        assert evaluate(codes, VALUES, "mig")["mig"] == expected
    assert evaluate(CODES, VALUES.astype(">i8"), "mig")["mig"] == expected


def test_a_deleted_array_is_named():
    codes = jax.device_put(CODES)
    codes.delete()
    for call in (lambda: evaluate(codes, VALUES, "mig"), lambda: evaluate(CODES, VALUES, "mig", variances=codes)):
        with pytest.raises(
            ValueError, match=r"(codes|variances): must be an array that holds numbers, got a deleted one"
        ):
            call()


@pytest.mark.parametrize("scale", [1e-9, 1e-25, 1e25])
def test_the_scale_of_codes_changes_nothing_within_a_wide_range(scale):
    plain, scaled = (evaluate(codes, VALUES, ("mig", "mcc")) for codes in (CODES, CODES * np.float64(scale)))
    for name in plain:
        assert scaled[name] == pytest.approx(plain[name], abs=1e-5)


@pytest.mark.parametrize("scale", [1e-33, 1e-39, 1e33])
@pytest.mark.parametrize("role", ["codes", "test codes"])
def test_codes_that_float32_loses_are_named(role, scale):
    odd = (CODES * np.float64(scale)).astype(np.float32)
    codes, test = (odd, None) if role == "codes" else (CODES, (odd, VALUES))
    with pytest.warns(
        RuntimeWarning, match=f"{role}: must lie within 1e-30 … 1e\\+30, got [\\d.]+e[+-]\\d+ as the largest"
    ):
        evaluate(codes, VALUES, "sap_r2" if role == "codes" else "sap", test=test)


def test_values_beyond_float32_are_not_called_infinite():
    with pytest.raises(
        ValueError, match=r"codes: must be numbers that float32 can hold, up to 3\.4e38, got 4\.\d+e\+300"
    ):
        evaluate((1 + CODES) * np.float64(1e300), VALUES, "mig")
    with pytest.raises(ValueError, match="factors: must be values that float32 can hold"):
        Factors.of(VALUES * 1e300, (None, None))


def test_a_key_may_be_a_seed_or_raw():
    """This metric splits the samples by it."""
    expected = evaluate(CODES, VALUES, "r2_linear", jax.random.key(3)).to_dict()
    for key in (3, jax.random.PRNGKey(3)):
        assert evaluate(CODES, VALUES, "r2_linear", key).to_dict() == expected
    assert evaluate(CODES, VALUES, "r2_linear", 4).to_dict() != expected


def test_factors_that_do_not_vary_are_named():
    constant = Factors.of(np.zeros((200, 2), int), names=("shape", "size"))
    with pytest.warns(RuntimeWarning, match="factors: must vary, got one value alone in shape, size; scores that need"):
        assert np.isnan(evaluate(CODES, constant, "mig")["mig"])
    evaluate(CODES, np.c_[VALUES, np.zeros(200, int)], "mig")  # a warning would be an error


def test_what_users_look_at_is_short():
    assert repr(jaxdis.relate(CODES, VALUES, "r2")) == "Relation(strength of shape (3, 2))"
    members = jaxdis.models.members({"beta": {"beta": [1.0, 4.0]}}, seeds=50)
    assert len(repr(members)) < 200
    assert repr(members).startswith("Members(100: {'model': 'beta'")


GAPS = np.array([3, 4, 9, 40])


def shared_in(metric, factors, test=None, validation=None):
    """What the members share in a metric's program, which is compiled for the sizes of its factors."""
    factors = Factors.checked(factors)
    _, shared, _ = bind(CODES, factors, test=test, validation=validation)
    (stage,) = stages_of(plan_of(metric))
    return shared_by(stage, shared)


@pytest.mark.parametrize("name", ["mig", "sap", "mig_ksg", "irs", "explicitness"])
def test_gaps_between_classes_change_nothing(name):
    plain, gaps = (evaluate(CODES, factors, name) for factors in (VALUES, GAPS[VALUES]))
    for column in plain:
        assert gaps[column] == plain[column]


@pytest.mark.parametrize("name", ["mcc", "sap_r2", "dci_lasso", "dci_forest"])
def test_values_keep_their_distances_where_they_are_read_as_values(name):
    """The correlation of a code with a factor is that of their values, whatever numbers are left out."""
    factors = shared_in(name, GAPS[VALUES]).factors
    assert factors.sizes == (10, 41)
    np.testing.assert_array_equal(np.asarray(factors.values), GAPS[VALUES])
    assert shared_in(name, Factors.of(GAPS[VALUES], (99, 99))).factors.sizes == (10, 41)
    if name == "mcc":
        codes = GAPS[VALUES[:, [0, 1, 0]]].astype(np.float32)
        assert evaluate(codes, GAPS[VALUES], name)["mcc"] == pytest.approx(1, abs=1e-6)


def test_classes_are_those_of_all_roles():
    """A class that training lacks has the same number in all samples, and counts."""
    others = (CODES[:50], np.full((50, 2), 60))
    factors = Factors.of(GAPS[VALUES], (99, 99))
    shared = shared_in("sap", factors, test=others, validation=(CODES[:50], np.full((50, 2), 3)))
    assert shared.factors.sizes == shared.test_factors.sizes == shared.validation_factors.sizes == (4, 5)
    np.testing.assert_array_equal(np.asarray(shared.factors.values), VALUES)
    np.testing.assert_array_equal(np.asarray(shared.test_factors.values)[0], [3, 4])
    np.testing.assert_array_equal(np.asarray(shared.validation_factors.values)[0], [0, 0])


def test_continuous_factors_stay_beside_numbered_ones():
    mixed = Factors.of(np.c_[GAPS[VALUES[:, 0]], CODES[:, 1]], (50, None))
    factors = shared_in("mig", mixed).factors
    assert factors.sizes == (3, None)
    np.testing.assert_array_equal(np.asarray(factors.values), np.c_[VALUES[:, 0], CODES[:, 1]].astype(np.float32))


def test_a_relation_of_its_own_and_a_function_of_a_user():
    trees = RELATIONS["boosted_trees"].with_options(splitter="histogram", stages=2, depth=1)
    plain, gaps = (relate(CODES, factors, trees).strength for factors in (VALUES, GAPS[VALUES]))
    np.testing.assert_array_equal(plain, gaps)

    def largest(codes, factors):
        return jaxdis.relations.Relation.of(jax.numpy.full((3, 2), float(max(factors.sizes))), jax.numpy.ones(2))

    assert relate(CODES, GAPS[VALUES], jaxdis.Spec(largest)).strength.max() == 41
