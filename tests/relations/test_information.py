"""Mutual information against the reference implementations, and the parts of the estimate against NumPy."""

import functools
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.metrics import mutual_info_score

from jaxdis import METRICS, Factors, evaluate, relate
from jaxdis._core import arrays as core_arrays
from jaxdis.data import synthetic
from jaxdis.relations import RELATIONS, mutual_information, mutual_information_sampled
from jaxdis.relations import _binning as binning
from jaxdis.relations import _information as information
from tests.golden_values import arrays, numbers
from tests.programs import compiled_whole
from tests.relations.test_binless import calibration_case

# Programs of many small operations.
equal_width_bins = jax.jit(binning.equal_width_bins, static_argnames="bins")
sort_columns = jax.jit(core_arrays.sort_columns)
sampled = compiled_whole(mutual_information_sampled)
information_of_tables = jax.jit(information.information_of_tables, static_argnums=1)


@functools.partial(jax.jit, static_argnames=("bins", "mode"))
def equal_count_bins(ordered, codes, bins, **options):
    return binning.equal_count_bins(ordered, codes, (bins,), **options)[0]


def related(*arguments, **options):
    """A relation as NumPy arrays: each look into those of JAX compiles a program."""
    fields = vars(relate(*arguments, **options))
    return types.SimpleNamespace(**{name: np.asarray(value) for name, value in fields.items()})


def _xor():
    """Four binary codes, ``z1 = c1 ⊕ c2``, ``z2 = c2 ⊕ c3``, ``z3 = c3``: the exact population of 16 samples."""
    codes = np.indices((2, 2, 2, 2)).reshape(4, -1).T
    values = np.stack([codes[:, 0] ^ codes[:, 1], codes[:, 1] ^ codes[:, 2], codes[:, 2]], axis=1)
    return codes.astype(np.float32), Factors.of(values)


def test_a_one_valued_factor_is_left_out_although_its_sums_are_rounded():
    """Sums of soft counts round: the entropy of the only value was ±1e-7, and every other factor was counted."""
    for seed in range(8):
        rng = np.random.default_rng(seed)
        values = np.stack([rng.integers(0, 3, 500), np.zeros(500, int), rng.integers(0, 4, 500)], axis=1)
        codes = (values + rng.normal(size=values.shape)).astype(np.float32)
        variances = np.exp(rng.normal(size=values.shape)).astype(np.float32) * 0.3
        metrics = ["rmig", "jemmig"]
        with_it = evaluate(codes, Factors.of(values, (3, 2, 4)), metrics, variances=variances)
        without = evaluate(codes, Factors.of(values[:, [0, 2]], (3, 4)), metrics, variances=variances)
        for metric in metrics:
            assert np.isnan(with_it.part(f"{metric}.per_factor")[1]), metric
            assert with_it[metric] == pytest.approx(float(without[metric]), abs=1e-6), metric


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_code_that_is_not_finite_makes_the_gap_of_codes_nan(bad):
    rng = np.random.default_rng(0)
    values = rng.integers(0, 4, (300, 3))
    codes = (values + rng.normal(size=values.shape)).astype(np.float32)
    codes[5, 1] = bad
    metrics = {by: METRICS["mig_sup"].with_options(normalize=by) for by in ("factor", "code")}
    with pytest.warns(RuntimeWarning, match="1 non-finite"):
        scores = evaluate(codes, values, metrics)
    for by in metrics:
        assert np.isnan(scores[by]), by


def test_a_one_valued_factor_has_no_entropy_whatever_its_weights():
    for seed in range(12):
        rng = np.random.default_rng(seed)
        values = np.stack([rng.integers(0, 3, 900), np.zeros(900, int)], axis=1)
        codes, weights = (values + rng.normal(size=values.shape)).astype(np.float32), rng.random(900)
        for method in ("scatter", "matmul"):
            spec = RELATIONS["mutual_information"].with_options(method=method)
            assert related(codes, Factors.of(values, (3, 2)), spec, weights=weights).ceiling[1] == 0


POPULATIONS = {
    "b_toy_M1": lambda: synthetic.toy_model("M1"),
    "b_toy_M2": lambda: synthetic.toy_model("M2"),
    "c_xor": _xor,
    "c_thm31_n4_k3": jax.jit(lambda: synthetic.distributed(4, 3)),
    "c_thm31_n8_k2": lambda: _stored("theorem31_n8_k2"),
}


def _stored(name):
    stored = arrays(name)
    codes = (stored["quarters"].astype(np.float32) + 0.5) / 4 if "quarters" in stored else stored["codes"]
    return codes, Factors.of(stored["factors"])


@pytest.mark.parametrize("name", POPULATIONS)
def test_equal_width_equals_the_reference(name):
    expected = numbers("populations")["cases"][name]
    relation = relate(*POPULATIONS[name](), "mutual_information")
    # Both count exactly; float32 logarithms leave 1e-7.
    np.testing.assert_allclose(relation.strength, expected["mi"], atol=2e-7)
    np.testing.assert_allclose(relation.ceiling, expected["entropy"], rtol=1e-6)


@pytest.mark.parametrize("name", [*POPULATIONS, "unbalanced", "ties"])
def test_equal_count_equals_the_reference(name):
    if name in POPULATIONS:
        representation, expected = POPULATIONS[name](), numbers("populations")["cases"][name]
    else:
        representation = _stored(name)
        expected = {"equal_count_mi_factor_by_code": numbers("equal_count")["equal_count_mi_factor_by_code"][name]}
    released = RELATIONS["mutual_information_equal_count"].with_options(mode="code")
    relation = relate(*representation, released)
    np.testing.assert_allclose(relation.strength.T, expected["equal_count_mi_factor_by_code"], atol=2e-7)


@pytest.mark.parametrize("case", synthetic.CASES)
def test_thirty_bins_equal_the_reference_on_calibration_cases(case):
    relation = relate(*calibration_case(case), RELATIONS["mutual_information"].with_options(bins=30))
    expected = numbers("calibration")["cases"][case]["mi_bins30"]
    np.testing.assert_allclose(relation.strength, expected, atol=5e-7)


def test_continuous_factors_are_binned_like_the_reference():
    expected = numbers("warp")
    factors = arrays("warp")["factors"]
    steepness = 1000 ** (expected["alpha"] - 0.25)
    codes = np.tan(2 * np.arctan(steepness / 2) * (factors.astype(float) - 0.5)) / steepness + 0.5
    spec = RELATIONS["mutual_information"].with_options(bins=30)
    relation = relate(codes, Factors.of(factors, (None,) * 6), spec)
    # Edges of float32 values are rounded as NumPy's: one sample of 20,000 lies on the other side of an edge. That moves
    # log(20,000 / 30) / 20,000 = 3e-4 nats at most.
    np.testing.assert_allclose(relation.strength, expected["mi_bins30"], atol=3e-4)


def test_bins_are_numpys():
    rng = np.random.default_rng(0)
    codes = np.stack(
        [
            rng.normal(size=5000),
            rng.integers(0, 25, 5000) * 0.1,  # values on edges
            rng.integers(-5, 16, 5000) * 0.1,  # for which the quotient by the width is an ulp off
            rng.integers(0, 6, 5000),
            np.exp(rng.normal(size=5000) * 3),
        ],
        axis=1,
    ).astype(np.float32)
    number = np.asarray(equal_width_bins(codes, 20))
    for i in range(codes.shape[1]):
        edges = np.histogram(codes[:, i], 20)[1]
        expected = np.clip(np.digitize(codes[:, i], edges[:-1]) - 1, 0, 19)
        np.testing.assert_array_equal(number[:, i], expected)


def test_constant_and_one_ulp_codes_are_one_bin():
    codes = np.stack([np.full(100, 0.3), np.where(np.arange(100) < 50, 1.0, 1.0 + 2**-23)], axis=1).astype(np.float32)
    assert len(set(codes[:, 1].tolist())) == 2
    number = equal_width_bins(codes, 20)
    assert (np.asarray(number) == 0).all()


@pytest.mark.parametrize(("n", "classes"), [(500, 6), (2000, 40)])
def test_without_ties_equal_count_bins_have_the_information_of_the_released_algorithm(n, classes):
    rng = np.random.default_rng(n)
    values = rng.integers(0, classes, n)
    code = (values + 0.7 * rng.normal(size=n)).astype(np.float32)
    assert len(set(code.tolist())) == n
    dividers = np.sort(code)[[m * n // classes for m in range(1, classes)]]
    number = (code[:, None] >= dividers[None, :]).sum(axis=1)
    relation = related(code[:, None], Factors.of(values[:, None], (classes,)), "mutual_information_equal_count")
    assert relation.strength[0, 0] == pytest.approx(mutual_info_score(number, values), abs=2e-6)


BETWEEN = {
    "most values are the smallest": ([0, 0, 0, 0, 0, 0, 1, 2], 2, [0] * 6 + [1, 1]),
    "most values are the largest": ([-2, -1, 0, 0, 0, 0, 0, 0], 2, [0, 0] + [1] * 6),
    "the nearer end": ([0, 1, 2, 2, 2, 3, 4, 5], 2, [0] * 5 + [1] * 3),
    "of equally near ends that towards the median": ([0, 1, 1, 2, 3, 4, 5, 6], 4, [0, 0, 0, 1, 2, 2, 3, 3]),
    "no ties": ([0, 1, 2, 3, 4, 5, 6, 7], 4, [0, 0, 1, 1, 2, 2, 3, 3]),
    "a constant": ([3] * 8, 4, [0] * 8),
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", BETWEEN)
def test_dividers_lie_between_values(name, weighted):
    values, bins, expected = BETWEEN[name]
    codes = np.array(values, np.float32)[:, None]
    weights = np.ones_like(codes) if weighted else None
    number = np.asarray(equal_count_bins(sort_columns(codes), codes, bins, weights=weights))[:, 0]
    np.testing.assert_array_equal(number, expected)
    # Held-out values in a gap belong to the nearer side, so that the negated code has the same bins in reverse.
    mirrored = np.asarray(equal_count_bins(sort_columns(-codes), -codes, bins, weights=weights))[:, 0]
    assert (np.unique(mirrored, return_inverse=True)[1] == np.unique(-number, return_inverse=True)[1]).all()


def test_sort_columns_orders_signs_zeros_and_infinities():
    values = np.array([3.0, -0.0, 0.0, -np.inf, 1e-30, -7.5, np.inf, -1e-30, 2.0], np.float32)
    np.testing.assert_array_equal(np.asarray(sort_columns(values[:, None]))[:, 0], np.sort(values))


def test_information_of_tables_equals_sklearn_in_float64():
    rng = np.random.default_rng(1)
    y = rng.integers(0, 40, 10_000)
    x = np.where(rng.random(10_000) < 0.02, y % 20, rng.integers(0, 20, 10_000))  # a weak relation
    table = np.zeros((1, 20, 40), np.float32)
    np.add.at(table[0], (x, y), 1)
    strength, _, _ = information_of_tables(table, (40,))
    np.testing.assert_allclose(np.asarray(strength)[0, 0], mutual_info_score(x, y), rtol=2e-6)


def test_miller_madow_adds_half_the_occupied_cells():
    rng = np.random.default_rng(2)
    codes = rng.normal(size=(2000, 2)).astype(np.float32)
    factors = Factors.of(rng.integers(0, 7, (2000, 1)))
    plain = related(codes, factors, "mutual_information")
    corrected = related(codes, factors, RELATIONS["mutual_information"].with_options(correction="miller_madow"))
    number = np.asarray(equal_width_bins(codes, 20))
    for i in range(2):
        bins = len(np.unique(number[:, i]))
        cells = len(np.unique(np.c_[number[:, i], np.asarray(factors.values)[:, 0]], axis=0))
        bias = (bins + 7 - cells - 1) / 4000
        assert corrected.strength[i, 0] == pytest.approx(max(float(plain.strength[i, 0]) + bias, 0), abs=1e-6)
        assert abs(corrected.strength[i, 0]) < plain.strength[i, 0]  # nearer the truth, which is 0
    assert corrected.ceiling[0] == pytest.approx(float(plain.ceiling[0]) + 6 / 4000, abs=1e-6)


def test_a_faint_relation_keeps_its_digits():
    """Of 200,000 samples, each cell of two by two has 10 more or fewer than by chance."""
    table = np.array([[[50_010, 49_990], [49_990, 50_010]]], np.float32)
    strength, _, _ = information_of_tables(table, (2,))
    assert strength[0, 0] == pytest.approx(2e-4**2 / 2, rel=1e-4)


def test_a_code_in_one_bin_carries_nothing_whatever_its_weights():
    """Beside a weight of 2²⁴ in its class and bin, small weights are lost: in the constant code's table alone."""
    number, weights = np.arange(2000), np.ones(2000)
    weights[:2] = 2.0**24
    codes, values = np.c_[number > 1, np.ones(2000)].astype(np.float32), np.minimum(number, 1)
    relation = related(codes, Factors.of(values, (2,)), RELATIONS["mutual_information"], weights=weights)
    assert relation.strength[1, 0] == 0


def test_weights_are_repetitions():
    rng = np.random.default_rng(3)
    codes = rng.normal(size=(400, 3)).astype(np.float32)
    values = rng.integers(0, 4, (400, 2))
    weights = rng.integers(0, 4, 400)
    rows = np.repeat(np.arange(400), weights)
    for name in ("mutual_information", "mutual_information_equal_count", "mutual_information_sampled"):
        weighted = relate(codes, Factors.of(values, (4, 4)), name, weights=weights)
        repeated = relate(codes[rows], Factors.of(values[rows], (4, 4)), name)
        np.testing.assert_allclose(weighted.strength, repeated.strength, atol=2e-6, err_msg=name)
        np.testing.assert_allclose(weighted.ceiling, repeated.ceiling, rtol=2e-6, err_msg=name)


def test_sampled_information_of_wide_and_narrow_posteriors():
    """A posterior as wide as the prior tells nothing; a narrow one tells what its bin does; between, the channel's."""
    rng = np.random.default_rng(4)
    values = rng.integers(0, 2, (4000, 1))
    codes = np.where(values == 1, 1.0, -1.0).astype(np.float32)
    factors = Factors.of(values)

    def information_at(variance):
        return float(
            mutual_information_sampled(codes, factors, variances=jnp.full(codes.shape, variance)).strength[0, 0]
        )

    narrow = float(mutual_information_sampled(codes, factors).strength[0, 0])
    assert narrow == pytest.approx(float(mutual_information(codes, factors).ceiling[0]), rel=1e-5)
    assert information_at(1e-8) == pytest.approx(narrow, rel=1e-6)
    # The binary-input Gaussian channel at signal 1 and noise 1/2, by quadrature.
    grid = np.linspace(-12, 12, 200_001)
    sigma = np.sqrt(0.5)
    p = [np.exp(-((grid - c) ** 2) / (2 * sigma**2)) / np.sqrt(2 * np.pi) / sigma for c in (-1, 1)]
    share = values.mean()
    mix = (1 - share) * p[0] + share * p[1]
    truth = sum(
        w * np.trapezoid(q * np.log(np.maximum(q, 1e-300) / mix), grid)
        for w, q in zip((1 - share, share), p, strict=True)
    )
    # 100 bins and the limits at ±4 cost 0.2 %.
    assert information_at(0.5) == pytest.approx(truth, rel=3e-3)
    assert information_at(1e4) < 1e-3


@pytest.mark.parametrize(("mean", "variance", "right"), [(0.5, 2.0, np.e / (1 + np.e)), (1.0, 1e-3, 1.0)])
def test_two_bins_of_a_sampled_code_are_a_binary_channel(mean, variance, right):
    """Their centers are ±2: samples lie on their mean's side with odds exp(4 mean / variance), all if these vanish."""
    values = np.arange(60)[:, None] % 2
    codes = (mean * (2 * values - 1)).astype(np.float32)
    relation = sampled(codes, Factors.of(values, (2,)), bins=2, variances=np.full_like(codes, variance))
    noise = sum(-share * np.log(share) for share in (right, 1 - right) if share > 0)
    assert relation.strength[0, 0] == pytest.approx(np.log(2) - noise, rel=1e-5)
    assert relation.code_ceiling[0] == pytest.approx(np.log(2), rel=1e-5)


# A constant code still has a bin of the fixed grid, or names the commonest class: see their contracts.
NOT_SILENT = {"mutual_information_sampled", "svm_accuracy", "threshold_accuracy", "logistic_accuracy"}


@pytest.mark.parametrize("name", RELATIONS)
def test_a_one_valued_factor_is_a_column_of_nan_and_a_constant_code_a_row_of_zeros(name):
    codes = np.stack([np.zeros(50), np.arange(50)], axis=1).astype(np.float32)
    factors = Factors.of(np.stack([np.zeros(50, int), np.arange(50) % 2], axis=1), (3, 2))
    relation = related(codes, factors, name)
    assert relation.ceiling[0] == 0
    assert np.isnan(relation.strength[:, 0]).all()
    if name not in NOT_SILENT:
        assert relation.strength[0, 1] == 0


@pytest.mark.parametrize("name", ["mutual_information", "mutual_information_equal_count"])
def test_zero_is_a_bin_of_its_own_on_request(name):
    """Of a code that is faint where the factor is present, and large once, equal bins see nothing."""
    rng = np.random.default_rng(0)
    values = rng.integers(0, 2, (300, 1))
    faint = values * rng.uniform(1e-4, 1e-3, (300, 1))
    codes = np.concatenate([faint, np.ones((300, 1)), rng.normal(size=(300, 1)), np.zeros((300, 1))], axis=1)
    codes[values[:, 0].argmax(), 0] = 10
    codes[::3, 1] = 0
    relations = {zero: relate(codes, values, RELATIONS[name].with_options(zero=zero)) for zero in ("value", "bin")}
    strength = {zero: np.asarray(relation.strength)[:, 0] for zero, relation in relations.items()}
    present = values.mean()
    entropy = -present * np.log(present) - (1 - present) * np.log(1 - present)
    assert strength["bin"][0] == pytest.approx(entropy, rel=1e-5)
    assert strength["bin"][1] == pytest.approx(mutual_info_score(codes[:, 1], values[:, 0]), abs=1e-6)
    assert strength["bin"][2] == strength["value"][2]
    assert strength["bin"][3] == 0
    if name == "mutual_information":
        assert strength["value"][0] < 0.01
        assert relations["bin"].capacity == pytest.approx(np.log(21))
