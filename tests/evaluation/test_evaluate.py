"""What users hand in and get back."""

import csv
import functools
import io
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdis
from jaxdis import METRICS, RELATIONS, SCORES, Blend, Direct, Factors, Spec, blend_table, evaluate, relate
from jaxdis._core import runtime
from jaxdis.data import synthetic
from jaxdis.evaluation import _inputs
from tests.draws import representations
from tests.golden_values import numbers

# Metrics of several relations and shapes that compile quickly: what is said here holds for any.
SOME = ("mig", "med", "mcc", "sap_r2", "rmig")


@pytest.fixture
def arrays():
    return representations()


# ---- Numbers of the papers and the reference implementations


@pytest.mark.parametrize("case", synthetic.CASES)
def test_metrics_equal_the_reference_on_calibration_cases(case):
    expected = numbers("calibration")["cases"][case]
    cells = np.array(expected["cells"])
    k = expected["num_factors"]
    rows = np.repeat(cells[:, :-1], cells[:, -1], axis=0)
    metrics = {
        "mig": METRICS["mig"].with_options(bins=30),
        "mig_sup": METRICS["mig_sup"].with_options(bins=30, normalize="code"),
        "dcimig": METRICS["dcimig"].with_options(bins=30),
        "sap": METRICS["sap_r2"],
    }
    scores = evaluate(rows[:, k:], rows[:, :k], metrics)
    for name in metrics:
        assert scores[name] == pytest.approx(expected[name], abs=1e-5), name


OF_POPULATIONS = {name: METRICS[name] for name in ("mig", "modularity", "sap_r2", "med")}
OF_POPULATIONS["entropy"] = Blend("mutual_information", "entropy")


@pytest.mark.parametrize("name", ["b_toy_M1", "b_toy_M2", "c_xor", "c_thm31_n4_k3", "c_thm31_n8_k2"])
def test_metrics_equal_the_reference_on_populations(name):
    from tests.relations.test_information import POPULATIONS

    expected = numbers("populations")["cases"][name]
    scores = evaluate(*POPULATIONS[name](), OF_POPULATIONS)
    for column in ("mig", "modularity", "sap_r2"):
        assert scores[column] == pytest.approx(expected[column], abs=1e-5), column
    for column in ("entropy", "med"):
        assert scores[f"{column}.disentanglement"] == pytest.approx(expected[f"{column}_disentanglement"], abs=1e-5)
        assert scores[f"{column}.completeness"] == pytest.approx(expected[f"{column}_completeness"], abs=1e-5)


@functools.partial(jax.jit, static_argnums=0)
def score_of(name, strength):
    return SCORES[name](jaxdis.Relation.of(strength, jnp.ones(strength.shape[1])))


@pytest.mark.parametrize(("model", "mig", "med"), [("M1", 0.189, 0.583), ("M2", 0.1294, 0.464)])
def test_table_1_of_mahon_et_al(model, mig, med):
    """MIG and MED of the toy models. Table 1 prints .119 for MIG on M2: its own appendix gives (.1887 + .0700) / 2.

    Its MED is the mean of D, C and an informativeness of .75, on information that is not normalized by column.
    """
    expected = numbers("populations")["cases"][f"b_toy_{model}"]
    scores = evaluate(*synthetic.toy_model(model), OF_POPULATIONS)
    assert scores["mig"] == pytest.approx(mig, abs=5e-4)
    both = scores["entropy.disentanglement"] + scores["entropy.completeness"]
    assert (both + 0.75) / 3 == pytest.approx(med, abs=5e-4)
    # SAP and DCI there read accuracies of the best threshold: the scores of that matrix.
    accuracy = np.float32(expected["accuracy_matrix"])
    assert score_of("gap", accuracy).score == pytest.approx({"M1": 0.25, "M2": 0.15}[model], abs=1e-6)
    # DCI takes accuracy above chance as importance. Table 1 mixes two scalings (.5 for 75 %, .2 for 70 %) and prints
    # .471 on M2; one scaling, 2 (accuracy − 1/2), gives .466.
    dci = score_of("entropy", 2 * (accuracy - np.float32(0.5)))
    assert (dci.disentanglement + dci.completeness + 0.75) / 3 == pytest.approx(
        {"M1": 0.583, "M2": 0.466}[model], abs=5e-4
    )


# ---- What comes in


class OnlyDLPack:
    """An array of another library: nothing but the protocol."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


@pytest.mark.parametrize("wrap", [np.asarray, jnp.asarray, OnlyDLPack, lambda array: array.tolist()])
def test_arrays_of_any_library(arrays, wrap):
    codes, values = arrays
    expected = evaluate(codes, values, "mig")["mig"]
    assert evaluate(wrap(codes), wrap(values.astype(np.int32)), "mig")["mig"] == pytest.approx(
        float(expected), abs=1e-6
    )


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int64, bool, np.uint8])
def test_codes_of_any_number_type(arrays, dtype):
    codes, values = arrays
    assert np.isfinite(evaluate(codes.astype(dtype), values, "mig")["mig"])


def test_a_one_dimensional_factor_is_a_column(arrays):
    codes, values = arrays
    assert evaluate(codes, values[:, 0], "mig")["mig"] == evaluate(codes, values[:, :1], "mig")["mig"]


def test_continuous_factors_are_marked_by_none(arrays):
    codes, values = arrays
    mixed = np.c_[values[:, 0], np.random.default_rng(0).random(200)]
    factors = Factors.of(mixed, sizes=(3, None))
    relation = relate(codes, factors, "mutual_information")
    assert np.asarray(relation.ceiling)[1] == pytest.approx(np.log(20), abs=0.1)  # 20 bins of a uniform factor
    assert np.isfinite(list(evaluate(codes, factors, SOME).values())).all()


def bad_inputs():
    codes, values = np.zeros((10, 2), np.float32), np.arange(10)[:, None] % 3
    yield "codes of wrong rank", (np.zeros(10), values), r"codes: must have shape \[n, d\] or \[m, n, d\].*got \(10,\)"
    yield "codes of rank 4", (np.zeros((2, 2, 10, 2)), values), r"codes: must have shape"
    yield (
        "factors of wrong rank",
        (codes, np.zeros((10, 1, 1), int)),
        r"factors: must have shape \[n, k\].*got \(10, 1, 1\)",
    )
    yield "mismatched n", (codes, values[:9]), r"codes: must have as many samples as factors, got 10 .* against 9"
    yield "negative factor", (codes, values - 1), r"factors: must be class numbers from 0 upwards, got -1"
    yield "fractional factor", (codes, values + 0.5), r"factors: .*not whole numbers \(such as 0.5\)"
    yield "non-finite factor", (codes, np.where(values == 1, np.nan, values)), r"factors: must be finite values, got 3"
    yield "one sample", (codes[:1], values[:1]), r"must have at least 2 samples, got 1"
    yield "strings", (codes, np.full((10, 1), "red")), r"factors: must be whole or real numbers, got dtype <U3"
    yield "complex codes", (codes * 1j, values), r"codes: must be real numbers, got dtype complex"
    yield "objects", ([[1, "x"], [2, None]], values), r"codes: must be an array of numbers"
    yield "no codes", (np.zeros((10, 0)), values), r"codes: must have at least one member and one code"


@pytest.mark.parametrize(("given", "message"), [case[1:] for case in bad_inputs()], ids=[c[0] for c in bad_inputs()])
def test_bad_arrays_are_refused_by_name(given, message):
    with pytest.raises(ValueError, match=message):
        evaluate(*given, "mig")


def test_bad_sizes_and_names_are_refused():
    values = np.arange(10)[:, None] % 3
    for options, message in [
        ({"sizes": (2,)}, r"factor 'factor_0' of size 2 must have values from 0 to 1, got 2"),
        ({"sizes": (3, 3)}, r"sizes: must have 1 entries"),
        ({"sizes": (0,)}, r"sizes: must be whole numbers of at least 1 or None, got 0"),
        ({"names": ("a", "b")}, r"names: must have 1 entries"),
    ]:
        with pytest.raises(ValueError, match=message):
            Factors.of(values, **options)
    with pytest.raises(ValueError, match="names: must be distinct names"):
        Factors.of(np.c_[values, values], names=("a", "a"))


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        ([], r"metrics: must have at least one metric, got none"),
        ({}, r"metrics: must have at least one metric, got none"),
        ("mgi", r"unknown metric 'mgi'; did you mean 'mig'\?"),
        (["mig", 3], r"metrics: must be names, got 3"),
    ],
)
def test_bad_metrics_are_refused(arrays, metrics, message):
    with pytest.raises(ValueError, match=message):
        evaluate(*arrays, metrics)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"key": jnp.zeros(4, jnp.uint32)}, r"key: must be a typed key"),
        ({"weights": np.ones(3)}, r"weights: must have shape \[200\]"),
        ({"weights": -np.ones(200)}, r"weights: must be finite numbers of at least 0"),
        ({"weights": np.zeros(200)}, r"weights: .* not all 0"),
        ({"variances": np.ones((200, 2))}, r"variances: must have the shape of codes"),
        ({"test": 3}, r"test: must be a pair"),
        ({"test": (np.zeros((50, 2)), np.zeros((50, 2), int))}, r"test: must have as many members and codes"),
        ({"test": (np.zeros((50, 3)), np.zeros((40, 2), int))}, r"test codes: must have as many samples"),
    ],
)
def test_bad_options_are_refused(arrays, options, message):
    with pytest.raises(ValueError, match=message):
        evaluate(*arrays, "mig", **options)


def test_non_finite_codes_are_counted_and_named(arrays):
    codes, values = arrays
    zoo = np.stack([codes] * 3)
    zoo[2, :4, 1] = np.inf
    with pytest.warns(RuntimeWarning, match=r"codes: 4 non-finite values in 1 of 3 members \(2\)"):
        scores = evaluate(zoo, values, "mig")
    assert np.isfinite(scores["mig"][:2]).all()
    assert np.isnan(scores["mig"][2])


def test_non_finite_variances_are_counted_and_named(arrays):
    codes, values = arrays
    zoo = np.stack([codes] * 3)
    variances = np.full_like(zoo, 0.1)
    variances[1, 7, 0] = np.nan
    with pytest.warns(RuntimeWarning, match=r"variances: 1 non-finite values in 1 of 3 members \(1\)"):
        scores = evaluate(zoo, values, ("rmig", "mig"), variances=variances)
    assert np.isnan(scores["rmig"][1])
    assert np.isfinite(scores["rmig"][[0, 2]]).all()
    assert np.isfinite(scores["mig"]).all()
    assert np.isfinite(evaluate(zoo, values, "mig", variances=variances)["mig"]).all()  # not read, no warning


# ---- What comes out


def test_single_representation_gives_scalars_and_a_zoo_vectors(arrays):
    codes, values = arrays
    single, zoo = evaluate(codes, values, SOME), evaluate(codes[None], values, SOME)
    assert single["mig"].shape == ()
    assert zoo["mig"].shape == (1,)
    assert single.part("mig.per_factor").shape == (2,)
    assert zoo.part("mig.per_factor").shape == (1, 2)
    with pytest.raises(KeyError, match="the columns are"):
        single["nothing"]
    with pytest.raises(KeyError, match="the parts are"):
        single.part("nothing")


def test_tables_go_to_dict_and_csv(arrays, tmp_path):
    codes, values = arrays
    scores = evaluate(np.stack([codes, codes + 1]), values, ["mig", "med"])
    assert set(scores.to_dict()) == {"mig", "med.disentanglement", "med.completeness"}
    scores.to_csv(tmp_path / "out.csv")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "out.csv").read_text())))
    assert [row["member"] for row in rows] == ["0", "1"]
    assert float(rows[1]["mig"]) == pytest.approx(float(scores["mig"][1]), rel=1e-6)
    assert "mig" in repr(scores)


def test_names_of_ones_own(arrays):
    scores = evaluate(*arrays, {"thirty": METRICS["mig"].with_options(bins=30), "twenty": METRICS["mig"]})
    assert scores["thirty"] != scores["twenty"]


class PerCode(NamedTuple):
    score: jax.Array


def test_a_metric_of_ones_own_that_returns_arrays(arrays):
    per_code = Direct(Spec(lambda codes, factors: PerCode(codes.mean(0))))
    scores = evaluate(*arrays, {"mine": per_code, "mig": METRICS["mig"]})
    np.testing.assert_allclose(scores.part("mine.score"), np.mean(arrays[0], 0), atol=1e-5)
    with pytest.raises(KeyError, match=r"it is an array: part\('mine.score'\)"):
        scores["mine"]
    with pytest.raises(ValueError, match="must return a NamedTuple of arrays, got"):
        evaluate(*arrays, {"mine": Direct(Spec(lambda codes, factors: codes.mean()))})


def test_blend_table_is_every_relation_under_every_score(arrays):
    relations = ("mutual_information", "correlation", "r2")
    table = blend_table(*arrays, relations=relations)
    assert {name.split(".")[0] for name in table} == {f"{r}/{s}" for r in relations for s in SCORES}
    assert table["mutual_information/gap"] == evaluate(*arrays, "mig")["mig"]
    with pytest.raises(ValueError, match="unknown score 'gpa'; did you mean 'gap'"):
        blend_table(*arrays, scores=["gpa"])


def test_relate_gives_the_matrix_that_the_scores_read(arrays):
    codes, values = arrays
    relation = relate(codes, values, "mutual_information")
    assert relation.strength.shape == (3, 2)
    score = jax.jit(SCORES["gap"])(relation).score
    assert score == pytest.approx(float(evaluate(codes, values, "mig")["mig"]), abs=1e-6)
    with pytest.raises(ValueError, match=r"one member"):
        relate(codes[None], values, "mutual_information")


def test_weights_select_samples(arrays):
    codes, values = arrays
    weights = (np.arange(200) < 100).astype(np.float32)
    weighted = evaluate(codes, values, "mig", weights=weights)["mig"]
    cut = evaluate(np.tile(codes[:100], (2, 1)), np.tile(values[:100], (2, 1)), "mig")["mig"]
    assert weighted == pytest.approx(float(cut), abs=1e-6)


def test_active_masks_codes(arrays):
    codes, values = arrays
    masked = evaluate(codes, values, "mig_sup", active=[True, False, True])["mig_sup"]
    assert masked == pytest.approx(float(evaluate(codes[:, [0, 2]], values, "mig_sup")["mig_sup"]), abs=1e-6)


def test_progress_counts_members(arrays):
    codes, values = arrays
    seen = []
    evaluate(np.stack([codes] * 5), values, "mig", progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (5, 5)


def test_traced_factors_work_inside_jit(arrays):
    codes, values = arrays
    factors = Factors.of(values)
    inside = jax.jit(lambda c, f: RELATIONS["mutual_information"](c, f).strength)(codes, factors)
    np.testing.assert_allclose(inside, relate(codes, factors, "mutual_information").strength, atol=1e-6)


def test_the_program_that_divides_samples_is_kept_on_disk(arrays, monkeypatch):
    """It is compiled before any metric's: looking for the folder with the first of those was too late."""
    codes, values = arrays
    order = []
    monkeypatch.setattr(runtime, "keep_programs", lambda: order.append("folder"))

    def stop(*_):
        order.append("divided")
        raise InterruptedError

    monkeypatch.setattr(_inputs, "divided", stop)
    with pytest.raises(InterruptedError):
        evaluate(codes, values, "mcc_test")
    assert order == ["folder", "divided"]


@pytest.mark.parametrize("offset", [1e5, 2.0**24, 1e9])
def test_codes_far_from_zero_keep_their_digits(offset):
    rng = np.random.default_rng(0)
    values = rng.integers(0, 4, size=(800, 2))
    codes = np.concatenate([values, values + 0.3 * rng.normal(size=(800, 2))], axis=1)
    names = ("mig", "mig_sup", "dcimig", "mcc", "dci_lasso", "explicitness", "total_correlation", "irs")
    near = evaluate(codes, values, names, test=(codes[:400], values[:400]))
    far = evaluate(codes + offset, values, names, test=(codes[:400] + offset, values[:400]))
    for name in near:
        assert far[name] == pytest.approx(near[name], abs=2e-4), name
    mixed = evaluate((codes + offset)[None], values, "explicitness", test=(codes[:400] + offset, values[:400]))
    assert mixed["explicitness"][0] == pytest.approx(near["explicitness"], abs=2e-4)
    matrix = relate(codes + offset, values, "mutual_information").strength
    np.testing.assert_allclose(matrix, relate(codes, values, "mutual_information").strength, atol=1e-4)


@pytest.mark.parametrize("scale", [1e-30, 1e-20, 1e20, 2e29])
def test_scores_that_know_no_unit_do_not_depend_on_it(scale):
    rng = np.random.default_rng(1)
    values = rng.integers(0, 4, size=(600, 2))
    codes = (values + 0.3 * rng.normal(size=(600, 2))).astype(np.float32)
    names = ("mig", "mcc", "explicitness", "dci_lasso", "infoe", "mig_ksg", "total_correlation", "dci_logistic")
    unit, scaled = evaluate(codes, values, names), evaluate(codes * np.float32(scale), values, names)
    for name in names:
        column = f"{name}.disentanglement" if name.startswith("dci") else name
        assert scaled[column] == pytest.approx(unit[column], abs=2e-4), name


def test_codes_related_to_nothing_have_the_largest_amari_error():
    values = np.random.default_rng(2).integers(0, 4, size=(100, 3))
    metric = {"it": Blend("correlation", SCORES["amari"].with_options(normalize=True))}
    nothing, everything = evaluate(np.stack([np.zeros((100, 3)), values]), values, metric)["it"]
    assert nothing == 1
    assert everything < 0.4
