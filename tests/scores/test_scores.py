"""Scores of small matrices against the reference implementations and by hand."""

import functools

import jax
import numpy as np
import pytest

from jaxdis import SCORES, Relation
from tests.golden_values import numbers, undefined

GOLDEN = numbers("aggregations")
MATRICES = GOLDEN["matrices"]


# Matrices by hand and of the reference have this shape, padded by inactive codes and one-valued factors, which every
# score leaves out: one program serves all. Those of a single code or factor stay as they are.
SHAPE = (10, 5)


def score(name: str, matrix, *, padded=True, **given):
    """A score of a relation with ceiling 1 (unless given), compiled as a whole: eager operations compile one by one."""
    options = {option: given.pop(option) for option in [*given] if option not in FIELDS}
    matrix = np.asarray(matrix, np.float32)
    padding = np.maximum(np.array(SHAPE) - matrix.shape, 0) if padded and 1 not in matrix.shape else np.zeros(2, int)
    fields = _fields(matrix, tuple(padding), **given)
    result = jax.tree.map(np.asarray, _score(SCORES[name].with_options(**options), fields))
    return _cut(result, matrix.shape, tuple(padding))


FIELDS = ("ceiling", "code_ceiling", "fit", "active", "finite")


def _fields(matrix, padding=(0, 0), *, ceiling=None, code_ceiling=None, fit=None, active=None, finite=None):
    """The arguments of a relation, all of them, so that programs differ by shape alone."""
    (d, k), (codes, factors) = matrix.shape, padding

    def extended(values, default, by, fill):
        values = np.asarray(default if values is None else values)
        return np.pad(values if values.dtype == bool else values.astype(np.float32), (0, by), constant_values=fill)

    # What pads is not 0, so that a score that reads it is seen.
    fields = {
        "strength": np.pad(np.asarray(matrix, np.float32), ((0, codes), (0, factors)), constant_values=0.37),
        "ceiling": extended(ceiling, np.ones(k), factors, 0),
        "code_ceiling": extended(code_ceiling, np.full(d, np.nan), codes, 0.7),
        "active": extended(active, np.ones(d, bool), codes, False),
        "finite": extended(finite, np.ones(d, bool), codes, True),
    }
    return fields if fit is None else fields | {"fit": extended(fit, None, factors, 0.3)}


def _cut(result, shape, padding):
    """A result without the padded codes and factors."""
    if not any(padding):
        return result
    parts = {"per_code": shape[0], "code": shape[1], "factor": shape[0]}
    parts |= {field: shape[1] for field in result._fields if field.startswith("per_factor")}
    return result._replace(
        **{field: getattr(result, field)[:size] for field, size in parts.items() if field in result._fields}
    )


@functools.partial(jax.jit, static_argnums=0)
def _score(spec, fields):
    return spec(Relation.of(**fields))


@jax.jit
def _every_score(fields):
    """All scores in one program, which is less to compile than one for each."""
    return {name: spec(Relation.of(**fields)) for name, spec in SCORES.items()}


def every_score(matrix, **given):
    matrix = np.asarray(matrix)
    given.setdefault("fit", np.linspace(0.2, 0.8, matrix.shape[1]))
    return jax.tree.map(np.asarray, _every_score(_fields(matrix, **given)))


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
    # Inactive codes would not be left out: their strengths of 0 are thresholds, too.
    result = score("independent_groups", case["matrix"], padded=False)
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
    apart = score("independent_groups", np.eye(3), padded=False)  # factors that nothing connects are merged last
    np.testing.assert_array_equal(apart.merge_threshold, [0, 0])
    assert int(apart.merge_size[-1]) == 3


@pytest.mark.parametrize("name", GOLDEN["amari"])
def test_amari_equals_the_formula(name):
    case = GOLDEN["amari"][name]
    result = score("amari", np.abs(case["P"]))
    assert result.score == pytest.approx(case["E"], abs=1e-5)
    size = len(case["P"])
    normalized = score("amari", np.abs(case["P"]), normalize=True).score
    assert normalized == pytest.approx(case["E"] / (2 * size * (size - 1)), abs=1e-6)
    assert score("amari", [[1.0, 0.0], [0.0, 0.0]]).score == 0  # rows and columns of zeros


def test_factor_gap_normalizes_by_factor_or_by_code_and_averages_over_active_codes():
    given = {"matrix": [[0.6, 0.2], [0.1, 0.5]], "ceiling": [1.0, 0.5], "code_ceiling": [2.0, 0.8]}
    np.testing.assert_allclose(score("factor_gap", **given).per_code, [0.2, 0.9], atol=1e-6)
    np.testing.assert_allclose(score("factor_gap", **given, normalize="code").per_code, [0.2, 0.5], atol=1e-6)
    given = {"matrix": given["matrix"], "active": [True, False]}
    assert score("factor_gap", **given).score == pytest.approx(0.4, abs=1e-6)


def test_strongest_keeps_the_best_gap_of_each_factor():
    given = {"matrix": [[0.9, 0.1], [0.7, 0.2], [0.3, 0.4]], "ceiling": [1.0, 2.0]}
    result = score("strongest", **given)
    np.testing.assert_allclose(result.per_factor, [0.8, 0.1], atol=1e-6)
    assert result.score == pytest.approx(0.9 / 3, abs=1e-6)
    assert score("strongest", **given, average="mean_of_ratios").score == pytest.approx((0.8 + 0.05) / 2, abs=1e-6)
    tied = score("strongest", [[0.5, 0.5]])  # goes to the first factor, with no gap
    np.testing.assert_array_equal(tied.factor, [0])
    assert tied.score == 0


def test_exclusivity_by_hand():
    shares = np.array([[0.9, 0.3, 0.0], [0.2, 0.8, 0.1]])
    rows = [0.9 - np.sqrt(0.09 / 2), 0.8 - np.sqrt(0.05 / 2)]
    columns = [0.9 - 0.2, 0.8 - 0.3, 0.1]
    result = score("exclusivity", shares)
    np.testing.assert_allclose(result.per_factor_modularity, [*rows, 0], atol=1e-6)
    np.testing.assert_allclose(result.per_factor_compactness, columns, atol=1e-6)
    assert result.modularity == pytest.approx(np.mean([*rows, 0]), abs=1e-6)
    # Two codes of one factor count once.
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
    fewer = score("matching", [[0.9, 0.8, 0.2]])  # a factor without a code counts as 0
    np.testing.assert_allclose(fewer.per_factor, [0.9, 0, 0], atol=1e-6)
    assert fewer.score == pytest.approx(0.3)


def test_joint_gap_by_hand():
    given = {"matrix": [[0.5], [0.2]], "ceiling": [1.0], "code_ceiling": [0.7, 0.9]}
    # H(z1) + H(y) − I − (I1 − I2)
    assert score("joint_gap", **given, normalize=False).score == pytest.approx(0.7 + 1.0 - 0.5 - 0.3)
    # Inactive codes are as constant ones.
    assert score("joint_gap", **given, active=[False, False], normalize=False).score == pytest.approx(1)


def test_a_mean_over_codes_leaves_out_an_inactive_one_that_is_not_finite():
    given = {"active": [True, False], "finite": [True, False]}
    assert score("modularity", [[0.4, 0.2], [0.1, 0.5]], **given).score == pytest.approx(0.75)


def test_top_k_keeps_the_purest_codes():
    """Which are not the strongest for their factor."""
    matrix = np.array([[0.5, 0.1], [0.9, 0.8], [0.1, 0.4], [0.6, 0.7]])
    kept = score("entropy", matrix, top_k=1)
    alone = score("entropy", matrix[[0, 2]])
    assert kept.disentanglement == pytest.approx(float(alone.disentanglement), abs=1e-6)
    assert kept.completeness == pytest.approx(float(alone.completeness), abs=1e-6)


def _scalars(result):
    return {name: value for name, value in result._asdict().items() if value is not None and value.ndim == 0}


# What holds for every score is tested on one shape, (6, 3), where it is not about shapes.


@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (4, 1), (3, 4), (6, 3)])
def test_every_score_is_defined_for_every_shape(shape):
    matrix = np.random.default_rng(0).random(shape)
    for name, result in every_score(matrix, code_ceiling=np.ones(shape[0])).items():
        for field, value in _scalars(result).items():
            if name == "joint_gap":
                continue  # needs the capacity of a relation by bins: tested by hand above
            assert np.isfinite(value), (name, field)


def test_every_score_leaves_a_one_valued_factor_out():
    """With it, the scores are those of the relation without it."""
    matrix = np.random.default_rng(1).random((6, 3)).astype(np.float32)
    ceiling = np.array([0.9, 0.0, 1.1], np.float32)
    codes, fit = np.full(6, 2.0, np.float32), np.array([0.4, 0.9, 0.6])
    with_it = every_score(matrix, ceiling=ceiling, code_ceiling=codes, fit=fit)
    without = every_score(matrix[:, [0, 2]], ceiling=ceiling[[0, 2]], code_ceiling=codes, fit=fit[[0, 2]])
    for name in SCORES:
        for field, value in _scalars(without[name]).items():
            np.testing.assert_allclose(_scalars(with_it[name])[field], value, atol=1e-6, err_msg=f"{name} {field}")


def test_every_score_ignores_the_order_of_codes_and_factors():
    rng = np.random.default_rng(2)
    matrix, ceiling, codes = rng.random((6, 3)), rng.random(3) + 1, rng.random(6) + 1
    rows, columns = rng.permutation(6), rng.permutation(3)
    fit = rng.random(3)
    plain = every_score(matrix, ceiling=ceiling, code_ceiling=codes, fit=fit)
    mixed = every_score(
        matrix[rows][:, columns],
        ceiling=ceiling[columns],
        code_ceiling=codes[rows],
        fit=fit[columns],
    )
    for name in SCORES:
        for field, value in _scalars(plain[name]).items():
            np.testing.assert_allclose(_scalars(mixed[name])[field], value, atol=1e-5, err_msg=f"{name} {field}")


def test_every_score_of_a_nan_row_is_nan_and_of_no_codes_is_not():
    matrix = np.random.default_rng(3).random((6, 3))
    codes = np.ones(6, np.float32)
    spoiled = every_score(matrix, finite=np.arange(6) != 1, code_ceiling=codes, fit=np.full(3, np.nan))
    silent = every_score(np.zeros((6, 3)), code_ceiling=codes, fit=np.zeros(3))
    for name in SCORES:
        for field, value in _scalars(spoiled[name]).items():
            assert np.isnan(value), (name, field)
        if name == "joint_gap":
            continue
        for field, value in _scalars(silent[name]).items():
            if name == "exclusivity" and field != "explicitness":  # that is the mean fit
                assert np.isnan(value), field
            else:  # Amari's error is then the largest
                assert value == (2 * 6 * 3 - 6 - 3 if name == "amari" else 0), (name, field)


def test_every_score_is_the_same_jitted_and_batched():
    matrices = np.random.default_rng(4).random((3, 6, 3))
    members = [_fields(matrix, code_ceiling=np.ones(6), fit=matrix[0]) for matrix in matrices]
    stacked = jax.tree.map(lambda *fields: np.stack(fields), *members)
    batched = jax.jit(jax.vmap(_every_score))(stacked)
    for member in range(3):
        alone = _every_score(members[member])
        for name in SCORES:
            for field, value in alone[name]._asdict().items():
                if value is not None:
                    found = np.asarray(getattr(batched[name], field))[member]
                    np.testing.assert_allclose(found, value, atol=1e-6, err_msg=f"{name} {field}")


def test_axis_alignment_is_the_best_code_less_all_others():
    matrix = [[0.8, 0.1, 0.0], [0.2, 0.3, 0.0], [0.2, 0.3, 0.0]]
    result = score("axis_alignment", matrix)
    np.testing.assert_allclose(result.per_factor, [0.5, 0, 0], atol=1e-6)
    assert result.score == pytest.approx(0.5 / 3, abs=1e-6)


def test_a_code_that_is_not_finite_is_seen_among_thousands():
    """XLA's maximum of 3,000 numbers on CPU leaves NaN out: MIG and SAP were then 0."""
    few, many = (
        every_score(np.random.default_rng(0).random((d, k)), fit=np.ones(k), finite=np.arange(d) != 3)
        for d, k in ((6, 3), (3000, 2))
    )
    for name in SCORES:
        for field, value in few[name]._asdict().items():
            if np.ndim(value) == 0:
                assert np.isnan(value) == np.isnan(getattr(many[name], field)), (name, field)
