"""Scores of small matrices against the reference implementations and by hand."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdis import SCORES, Relation
from tests.golden_values import numbers, undefined

GOLDEN = numbers("aggregations")
MATRICES = GOLDEN["matrices"]


FIELDS = ("ceiling", "code_ceiling", "fit", "active", "finite")


def score(name: str, matrix, **given):
    """A score of a relation with ceiling 1 (unless given), compiled as a whole: eager operations compile one by one."""
    matrix = np.asarray(matrix, np.float32)
    given.setdefault("ceiling", np.ones(matrix.shape[1]))
    arrays = {field: np.asarray(given[field]) for field in FIELDS if field in given}
    arrays = {field: value if value.dtype == bool else value.astype(np.float32) for field, value in arrays.items()}
    options = {option: value for option, value in given.items() if option not in FIELDS}
    return _score(SCORES[name].with_options(**options), matrix, arrays)


@functools.partial(jax.jit, static_argnums=0)
def _score(spec, matrix, fields):
    return spec(Relation.of(matrix, **fields))


@pytest.mark.parametrize("name", MATRICES)
def test_entropy_equals_the_reference(name):
    case = MATRICES[name]
    result = score("entropy", case["matrix"])
    per_code, per_factor = undefined(case["D_per_code"]), undefined(case["C_per_factor"])
    if name == "single_factor":  # entropy to the base 1: NaN there, all about the one factor here
        per_code = np.ones_like(per_code)
    if name == "single_code":
        per_factor = np.ones_like(per_factor)
    np.testing.assert_allclose(result.per_code, per_code, atol=1e-6)
    np.testing.assert_allclose(result.per_factor, per_factor, atol=1e-6)
    if name not in ("single_factor", "single_code"):
        assert result.disentanglement == pytest.approx(case["dci_D"], abs=1e-6)
        assert result.completeness == pytest.approx(case["dci_C"], abs=1e-6)


@pytest.mark.parametrize(
    "name", [name for name in MATRICES if not any(part in name for part in ("zero", "missed", "single"))]
)
def test_plain_means_equal_eastwood_and_williams(name):
    case = MATRICES[name]
    result = score("entropy", case["matrix"], completeness="mean")
    assert result.completeness == pytest.approx(float(case["qedr_C_unweighted_mean"]), abs=1e-6)


@pytest.mark.parametrize("name", MATRICES)
def test_modularity_equals_the_reference(name):
    case = MATRICES[name]
    result = score("modularity", case["matrix"])
    expected = undefined(case["modularity_per_code"])
    if name == "single_factor":
        expected = np.ones_like(expected)
    if name == "tiny_noise":  # 1e-17 squared is 0 in float32: a code that relates to nothing
        expected = np.zeros_like(expected)
    np.testing.assert_allclose(result.per_code, expected, atol=1e-6)
    assert result.score == pytest.approx(expected.mean(), abs=1e-6)


@pytest.mark.parametrize("name", MATRICES)
def test_gap_equals_the_reference(name):
    case = MATRICES[name]
    # With one code there is no second to subtract: the reference fails, here it is 0.
    expected = np.mean(case["matrix"][0]) if name == "single_code" else case["top2_gap_mean"]
    assert score("gap", case["matrix"]).score == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("name", MATRICES)
def test_independent_groups_equal_the_reference(name):
    case = MATRICES[name]
    result = score("independent_groups", case["matrix"])
    assert result.score == pytest.approx(case["pr_curves"]["area_precision"], abs=2e-6)
    assert result.largest == case["pr_curves"]["max_precision"]
    np.testing.assert_array_equal(result.groups, case["precision_curve"])
    np.testing.assert_array_equal(result.discovered, case["recall_curve"])


@pytest.mark.parametrize("name", ["rand10x5", "rand_sparse10x5"])
def test_dendrogram_equals_the_reference(name):
    """Tie-free matrices only: the reference's order among ties is unspecified."""
    expected = GOLDEN["dendrograms"][name]
    linkage = np.array(expected["linkage"])
    result = score("independent_groups", MATRICES[name]["matrix"])
    np.testing.assert_array_equal(result.merge_pair, np.sort(linkage[:, :2].astype(int), axis=1))
    np.testing.assert_array_equal(result.merge_rank, linkage[:, 2].astype(int))
    np.testing.assert_array_equal(result.merge_size, linkage[:, 3].astype(int))
    np.testing.assert_allclose(result.merge_threshold, expected["merge_thresholds"], rtol=1e-6)


def test_dendrogram_merges_unconnected_factors_last():
    result = score("independent_groups", np.eye(3))
    np.testing.assert_array_equal(result.merge_threshold, [0, 0])
    assert int(result.merge_size[-1]) == 3


@pytest.mark.parametrize("name", GOLDEN["amari"])
def test_amari_equals_the_formula(name):
    case = GOLDEN["amari"][name]
    result = score("amari", np.abs(case["P"]))
    assert result.score == pytest.approx(case["E"], abs=1e-5)
    size = len(case["P"])
    normalized = score("amari", np.abs(case["P"]), normalize=True).score
    assert normalized == pytest.approx(case["E"] / (2 * size * (size - 1)), abs=1e-6)


def test_amari_of_zero_rows_and_columns_is_zero():
    assert score("amari", [[1.0, 0.0], [0.0, 0.0]]).score == 0


def test_factor_gap_normalizes_by_factor_or_by_code():
    given = {"matrix": [[0.6, 0.2], [0.1, 0.5]], "ceiling": [1.0, 0.5], "code_ceiling": [2.0, 0.8]}
    np.testing.assert_allclose(score("factor_gap", **given).per_code, [0.2, 0.9], atol=1e-6)
    np.testing.assert_allclose(score("factor_gap", **given, normalize="code").per_code, [0.2, 0.5], atol=1e-6)


def test_factor_gap_averages_over_active_codes():
    given = {"matrix": [[0.6, 0.2], [0.1, 0.5]], "active": [True, False]}
    assert score("factor_gap", **given).score == pytest.approx(0.4, abs=1e-6)


def test_strongest_keeps_the_best_gap_of_each_factor():
    given = {"matrix": [[0.9, 0.1], [0.7, 0.2], [0.3, 0.4]], "ceiling": [1.0, 2.0]}
    result = score("strongest", **given)
    np.testing.assert_allclose(result.per_factor, [0.8, 0.1], atol=1e-6)
    assert result.score == pytest.approx(0.9 / 3, abs=1e-6)
    assert score("strongest", **given, average="mean_of_ratios").score == pytest.approx((0.8 + 0.05) / 2, abs=1e-6)


def test_strongest_gives_ties_to_the_first_factor_with_no_gap():
    result = score("strongest", [[0.5, 0.5]])
    np.testing.assert_array_equal(result.factor, [0])
    assert result.score == 0


def test_exclusivity_by_hand():
    shares = np.array([[0.9, 0.3, 0.0], [0.2, 0.8, 0.1]])
    rows = [0.9 - np.sqrt(0.09 / 2), 0.8 - np.sqrt(0.05 / 2)]
    columns = [0.9 - 0.2, 0.8 - 0.3, 0.1]
    result = score("exclusivity", shares)
    np.testing.assert_allclose(result.per_factor_modularity, [*rows, 0], atol=1e-6)
    np.testing.assert_allclose(result.per_factor_compactness, columns, atol=1e-6)
    assert result.modularity == pytest.approx(np.mean([*rows, 0]), abs=1e-6)


def test_exclusivity_caps_a_factor_at_one():
    assert score("exclusivity", [[1.0, 0.0], [1.0, 0.0]]).modularity == pytest.approx(0.5)


def test_concentration_by_hand():
    given = {"matrix": [[0.6, 0.2], [0.1, 0.3], [0.0, 0.0]]}
    by_code = (np.array([0.75, 0.75, 0.5]) - 0.5) / 0.5
    by_factor = (np.array([0.6 / 0.7, 0.3 / 0.5]) - 1 / 3) / (2 / 3)
    np.testing.assert_allclose(score("concentration", **given).per_code, by_code, atol=1e-6)
    np.testing.assert_allclose(score("concentration", **given, over="factors").per_factor, by_factor, atol=1e-6)


def test_matching_assigns_globally():
    """The greedy choice takes 0.9 and leaves 0.1; the best total is 0.8 + 0.7."""
    result = score("matching", [[0.9, 0.8], [0.7, 0.1]])
    assert result.score == pytest.approx(0.75)
    np.testing.assert_array_equal(result.code, [1, 0])


def test_matching_counts_a_factor_without_code_as_zero():
    result = score("matching", [[0.9, 0.8, 0.2]])
    np.testing.assert_allclose(result.per_factor, [0.9, 0, 0], atol=1e-6)
    assert result.score == pytest.approx(0.3)


def test_joint_gap_by_hand():
    given = {"matrix": [[0.5], [0.2]], "ceiling": [1.0], "code_ceiling": [0.7, 0.9]}
    # H(z1) + H(y) − I − (I1 − I2)
    assert score("joint_gap", **given, normalize=False).score == pytest.approx(0.7 + 1.0 - 0.5 - 0.3)


def test_top_k_keeps_the_purest_codes():
    matrix = np.array([[0.9, 0.1], [0.5, 0.4], [0.1, 0.9], [0.3, 0.6]])
    kept = score("entropy", matrix, top_k=1)
    alone = score("entropy", matrix[[0, 2]])
    assert kept.disentanglement == pytest.approx(float(alone.disentanglement), abs=1e-6)
    assert kept.completeness == pytest.approx(float(alone.completeness), abs=1e-6)


def _scalars(result):
    return {name: value for name, value in result._asdict().items() if value is not None and value.ndim == 0}


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (4, 1), (3, 4), (6, 3)])
def test_every_score_is_defined_for_every_shape(name, shape):
    matrix = np.random.default_rng(0).random(shape)
    given = {"matrix": matrix, "code_ceiling": np.ones(shape[0], np.float32)}
    for field, value in _scalars(score(name, **given)).items():
        if name == "joint_gap":
            continue  # needs the capacity of a relation by bins: tested by hand above
        assert np.isfinite(value), (name, field)


@pytest.mark.parametrize("name", SCORES)
def test_every_score_leaves_a_one_valued_factor_out(name):
    """With it, the scores are those of the relation without it."""
    matrix = np.random.default_rng(1).random((4, 3)).astype(np.float32)
    ceiling = np.array([0.9, 0.0, 1.1], np.float32)
    codes = np.full(4, 2.0, np.float32)
    with_it = score(name, matrix, ceiling=ceiling, code_ceiling=codes)
    without = score(name, matrix[:, [0, 2]], ceiling=ceiling[[0, 2]], code_ceiling=codes)
    for field, value in _scalars(without).items():
        np.testing.assert_allclose(_scalars(with_it)[field], value, atol=1e-6, err_msg=field)


@pytest.mark.parametrize("name", SCORES)
def test_every_score_ignores_the_order_of_codes_and_factors(name):
    rng = np.random.default_rng(2)
    matrix, ceiling, codes = rng.random((5, 3)), rng.random(3) + 1, rng.random(5) + 1
    rows, columns = rng.permutation(5), rng.permutation(3)
    plain = score(name, matrix, ceiling=ceiling, code_ceiling=codes)
    mixed = score(
        name,
        matrix[rows][:, columns],
        ceiling=ceiling[columns],
        code_ceiling=codes[rows],
    )
    for field, value in _scalars(plain).items():
        np.testing.assert_allclose(_scalars(mixed)[field], value, atol=1e-5, err_msg=field)


@pytest.mark.parametrize("name", SCORES)
def test_every_score_of_a_nan_row_is_nan_and_of_no_codes_is_not(name):
    matrix = np.random.default_rng(3).random((4, 3))
    codes = np.ones(4, np.float32)
    spoiled = score(name, matrix, finite=[True, False, True, True], code_ceiling=codes)
    for field, value in _scalars(spoiled).items():
        assert np.isnan(value), field
    if name == "joint_gap":
        return
    silent = score(name, np.zeros((4, 3)), code_ceiling=codes)
    for field, value in _scalars(silent).items():
        if name == "exclusivity":
            assert np.isnan(value), field
        else:
            assert value == (2 * 4 * 3 - 4 - 3 if name == "amari" else 0), field  # Amari's error is then the largest


@pytest.mark.parametrize("name", SCORES)
def test_every_score_is_the_same_jitted_and_batched(name):
    spec = SCORES[name]
    matrices = jnp.asarray(np.random.default_rng(4).random((3, 5, 4)), jnp.float32)
    codes = jnp.ones(5)

    def one(matrix):
        return spec(Relation.of(matrix, jnp.ones(4), code_ceiling=codes))

    batched = jax.jit(jax.vmap(one))(matrices)
    for member in range(3):
        alone = jax.jit(one)(matrices[member])
        for field, value in alone._asdict().items():
            if value is not None:
                np.testing.assert_allclose(getattr(batched, field)[member], value, atol=1e-6, err_msg=field)


def test_axis_alignment_is_the_best_code_less_all_others():
    matrix = [[0.8, 0.1, 0.0], [0.2, 0.3, 0.0], [0.2, 0.3, 0.0]]
    result = score("axis_alignment", matrix)
    np.testing.assert_allclose(result.per_factor, [0.5, 0, 0], atol=1e-6)
    assert result.score == pytest.approx(0.5 / 3, abs=1e-6)


@pytest.mark.parametrize("name", SCORES)
def test_a_code_that_is_not_finite_is_seen_among_thousands(name):
    """XLA's maximum of 3,000 numbers on CPU leaves NaN out: MIG and SAP were then 0."""
    few, many = (
        score(name, np.random.default_rng(0).random((d, 3)), fit=np.ones(3), finite=np.arange(d) != 3)
        for d in (30, 3000)
    )
    for field, value in few._asdict().items():
        if np.ndim(value) == 0:
            assert np.isnan(value) == np.isnan(getattr(many, field)), field
