"""Nearest-neighbor information against scikit-learn, the reference implementation, and theory; ties against chance."""

import functools
import math

import jax
import numpy as np
import pytest
from scipy.special import digamma
from sklearn.feature_selection import mutual_info_classif, mutual_info_regression

from jaxdis._learners.neighbors import (
    _groups,
    continuous_information,
    discrete_information,
    expected_digamma,
    joint_continuous_information,
    joint_discrete_information,
)
from tests.golden_values import arrays, numbers

continuous = jax.jit(continuous_information, static_argnames=("neighbors", "method"))
discrete = jax.jit(discrete_information, static_argnames=("sizes", "neighbors"))
joint_continuous = jax.jit(joint_continuous_information, static_argnames=("neighbors",))
joint_discrete = jax.jit(joint_discrete_information, static_argnames=("sizes", "neighbors", "norm"))


@pytest.mark.parametrize("method", ["sorted", "brute"])
@pytest.mark.parametrize("neighbors", [3, 10])
@pytest.mark.parametrize("rho", ["0.3", "0.9"])
def test_gaussians_equal_the_reference_and_lie_by_the_truth(rho, neighbors, method):
    sample = arrays("nearest")[f"gauss_rho{rho}"]
    expected = numbers("nearest")[f"gauss_rho{rho}"]
    found = float(continuous(sample[:, :1], sample[:, 1:], neighbors=neighbors, method=method)[0, 0])
    # float32 inputs move a few counts by one: 1e-6 nats each.
    assert found == pytest.approx(expected[f"sklearn_k{neighbors}"], abs=1e-5)
    # Of 2,000 samples the estimate scatters by 0.02 to 0.03 nats.
    assert found == pytest.approx(expected["analytic"], abs=0.06)


@pytest.mark.parametrize("neighbors", [3, 10])
def test_classes_equal_the_reference(neighbors):
    stored, expected = arrays("nearest"), numbers("nearest")["mixed"]
    codes, classes = stored["mixed_X"], stored["mixed_y"].astype(np.int32)[:, None]
    sizes = (int(classes.max()) + 1,)
    found = discrete(codes, classes, sizes=sizes, neighbors=neighbors)[:, 0]
    # float32 differences tie where float64's do not: a count of one more at a few samples.
    np.testing.assert_allclose(found, expected[f"sklearn_classif_k{neighbors}"], atol=5e-4)
    joint = joint_discrete(codes, classes, sizes=sizes, neighbors=neighbors, norm="euclidean")[0]
    assert float(joint) == pytest.approx(expected[f"innvariant_cd_joint3d_euclid_k{neighbors}"], abs=5e-4)
    joint = joint_continuous(codes, classes.astype(np.float32), neighbors=neighbors)[0]
    # The reference's noise breaks ties of a class number that is read as a value.
    assert float(joint) == pytest.approx(expected[f"innvariant_cc_joint3d_k{neighbors}"], abs=1e-3)


@functools.cache
def mixture(n=1500):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(n, 2))
    codes = np.c_[values + 0.5 * rng.normal(size=(n, 2)), rng.standard_cauchy(size=n), np.exp(3 * values[:, :1])]
    return codes.astype(np.float32), values.astype(np.float32), rng.integers(0, 6, n) // (1 + (values[:, 0] > 0))


def test_many_pairs_equal_sklearn():
    codes, values, classes = mixture()
    expected = np.stack([mutual_info_regression(codes, values[:, j], random_state=0) for j in range(2)], axis=1)
    for method in ("sorted", "brute"):
        np.testing.assert_allclose(continuous(codes, values, method=method), expected, atol=1e-4)
    classes = classes.astype(np.int32)
    expected = mutual_info_classif(codes, classes, random_state=0)
    np.testing.assert_allclose(discrete(codes, classes[:, None], sizes=(6,))[:, 0], expected, atol=1e-4)


def with_noise(code, classes, seed):
    """Ross's estimate with ties broken by noise, in float64 and not cut at 0."""
    code = code + 1e-7 * np.random.default_rng(seed).normal(size=len(code))
    terms = []
    for value, label in zip(code, classes, strict=True):
        own = np.sort(np.abs(code[classes == label] - value))
        reach = min(3, len(own) - 1)
        near = (np.abs(code - value) < own[reach]).sum()
        terms.append(digamma(reach) - digamma(len(own)) - digamma(near))
    return digamma(len(code)) + np.mean(terms)


@pytest.mark.parametrize("values", [12, 40, 150])
def test_ties_are_the_mean_over_noise(values):
    """Few values: all neighbors tie at 0. Many: some tie at a distance, a few more than others."""
    rng = np.random.default_rng(values)
    code = rng.integers(0, values, 604)
    classes = np.where(rng.random(604) < 0.6, code * 4 // values, rng.integers(0, 4, 604))
    broken = [with_noise(code, classes, seed) for seed in range(12)]
    found = float(discrete(code.astype(np.float32)[:, None], classes.astype(np.int32)[:, None], sizes=(4,))[0, 0])
    # Three standard errors of the mean over noise, and 0.004 for an expectation to second order.
    assert found == pytest.approx(np.mean(broken), abs=3 * np.std(broken) / math.sqrt(12) + 4e-3)


def test_repeating_every_sample_keeps_the_estimate_finite_and_copies_tell_everything():
    classes = np.repeat(np.arange(5, dtype=np.int32), 40)[:, None]
    code = classes.astype(np.float32)
    entropy = math.log(5)
    # ψ(n) − ⟨ψ(n_c)⟩ passes the entropy by 1 / 2 n_c − 1 / 2 n.
    assert float(discrete(code, classes, sizes=(5,))[0, 0]) == pytest.approx(entropy, abs=0.02)
    assert float(joint_discrete(code, classes, sizes=(5,))[0]) == pytest.approx(entropy, abs=0.02)
    assert float(continuous(code, code)[0, 0]) == pytest.approx(entropy, abs=0.02)
    assert float(joint_continuous(code, code)[0]) == pytest.approx(entropy, abs=0.02)


def test_one_code_jointly_is_that_code():
    codes, values, classes = mixture()
    classes = classes.astype(np.int32)[:, None]
    rounded = np.round(codes[:, :1], 1)
    for code in (codes[:, :1], rounded):
        single, joint = discrete(code, classes, sizes=(6,))[0], joint_discrete(code, classes, sizes=(6,))
        # The joint estimate reads codes over their deviation, which breaks some ties of rounded ones.
        np.testing.assert_allclose(joint, single, atol=5e-4)
        np.testing.assert_allclose(joint_continuous(code, values), continuous(code, values)[0], atol=1e-4)


def test_rare_classes_are_read_with_fewer_neighbors_and_lone_samples_left_out():
    rng = np.random.default_rng(3)
    classes = np.r_[np.zeros(300), np.ones(300), np.full(3, 2), np.full(1, 3)].astype(np.int32)
    code = (classes + 0.3 * rng.normal(size=len(classes))).astype(np.float32)[:, None]
    expected = mutual_info_classif(code, classes, random_state=0)
    # scikit-learn leaves the lone sample out of the counts too: one in 604.
    np.testing.assert_allclose(discrete(code, classes[:, None], sizes=(4,))[:, 0], expected, atol=4e-3)
    np.testing.assert_allclose(joint_discrete(code, classes[:, None], sizes=(4,)), expected, atol=4e-3)


def test_classes_of_two_and_three_reach_to_their_farthest_sample():
    code = np.random.default_rng(4).normal(size=604).astype(np.float32)
    classes = np.r_[0, 0, 1, 1, 1, 2 + (code[5:] > 0)]
    found = discrete(code[:, None], classes.astype(np.int32)[:, None], sizes=(4,))[0, 0]
    # A neighbor more would add ψ(2) − ψ(1) at two samples and ψ(3) − ψ(2) at three: 6e-3.
    assert float(found) == pytest.approx(with_noise(code, classes, 0), abs=3e-4)


def test_nothing_is_told_by_a_constant_or_of_one():
    """Shapes are those of the test of rare classes."""
    rng = np.random.default_rng(0)
    still, varied = np.full((604, 1), 2.5, np.float32), rng.normal(size=(604, 1)).astype(np.float32)
    classes = rng.integers(0, 4, (604, 1)).astype(np.int32)
    np.testing.assert_array_equal(discrete(still, classes, sizes=(4,)), 0)
    np.testing.assert_allclose(joint_discrete(still, classes, sizes=(4,)), 0, atol=1e-5)
    np.testing.assert_allclose(discrete(varied, np.zeros_like(classes), sizes=(4,)), 0, atol=1e-5)


def test_equal_rows_of_codes_share_their_number():
    codes = np.random.default_rng(0).integers(-1, 2, (400, 5)).astype(np.float32)
    codes = np.c_[codes, np.tile(codes[:, :1], 300)]  # a sort by 305 keys at once would compile for minutes
    _, numbers = np.unique(codes, axis=0, return_inverse=True)
    np.testing.assert_array_equal(jax.jit(_groups)(codes), numbers.ravel())


def test_expected_digamma_is_the_mean_over_orders():
    rng = np.random.default_rng(0)
    expected = jax.jit(expected_digamma)
    for k, inside, inside_class, shell, shell_class in [
        (3, 0, 0, 9, 4),
        (3, 0, 0, 3, 3),
        (3, 5, 1, 8, 3),
        (2, 7, 1, 1, 1),
    ]:
        rank = k - inside_class
        orders = [np.flatnonzero(rng.permutation(shell) < shell_class)[rank - 1] + 1 for _ in range(20_000)]
        truth = digamma(inside + np.array(orders)).mean()
        found = float(expected(rank, shell_class, inside, shell, shell_class))
        assert found == pytest.approx(truth, abs=0.01 if inside else 0.006)


@pytest.mark.parametrize(("code_grid", "value_grid"), [(0, 0.1), (0, 1.0), (0.3, 0.3)])
def test_values_on_a_grid_are_the_mean_over_noise(code_grid, value_grid):
    """scikit-learn breaks ties by noise. Strict counts leave whole shells of ties out: 0.52 for 0.34 nats."""
    rng = np.random.default_rng(0)
    code, other = rng.normal(size=(2, 1500))
    value = (code + other) / math.sqrt(2)
    code, value = (
        np.round(column / grid) * grid if grid else column for column, grid in ((code, code_grid), (value, value_grid))
    )
    expected = [mutual_info_regression(code[:, None], value, random_state=seed, n_neighbors=3)[0] for seed in range(8)]
    found = [float(continuous(code[:, None], value[:, None], method=method)[0, 0]) for method in ("sorted", "brute")]
    assert found[0] == pytest.approx(found[1], abs=1e-5)
    assert float(joint_continuous(code[:, None], value[:, None])[0]) == pytest.approx(found[0], abs=1e-4)
    # Four standard deviations over noise, and 0.006: float32 distances between points of a grid are not all equal.
    assert found[0] == pytest.approx(np.mean(expected), abs=4 * np.std(expected) + 0.006)


def test_a_few_duplicates_are_counted_as_ties():
    rng = np.random.default_rng(1)
    code = rng.normal(size=3000).astype(np.float32)
    code[:21] = code[21:42]
    classes = (code > 0).astype(np.int32) + (rng.random(3000) < 0.3)
    expected = mutual_info_classif(code[:, None], classes, random_state=0)
    # float32 differences tie where float64's do not. Uncounted, the duplicates give 0.002 too much.
    # And four classes that do not occur, as in the program of the next test.
    np.testing.assert_allclose(discrete(code[:, None], classes[:, None], sizes=(7,))[:, 0], expected, atol=4e-4)


@pytest.mark.parametrize("neighbors", [2, 3])
def test_a_few_ties_at_the_radius_are_not_inside(neighbors):
    """Balls that end at repeated samples, and of two windows of equal reach, against all distances."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=3000).astype(np.float32)
    classes = rng.integers(0, 7, 3000).astype(np.int32)
    values[:8] = [100, 101, 101, 99.5, 99.2, 98.9, 99.1, 104]
    classes[:8] = [0, 0, 0, 0, 1, 2, 3, 0]
    values[8], classes[8:10] = values[9], [5, 6]
    apart = np.abs(values[:, None] - values[None, :])
    same = classes[:, None] == classes[None, :]
    radius = np.partition(np.where(same, apart, np.inf), neighbors, axis=1)[:, neighbors]
    inside = (apart < radius[:, None]).sum(axis=1)
    expected = digamma(3000) + (digamma(neighbors) - digamma(same.sum(axis=1)) - digamma(inside)).mean()
    how = {} if neighbors == 3 else {"neighbors": neighbors}
    found = discrete(values[:, None], classes[:, None], sizes=(7,), **how)
    # A count that is off by one at one sample moves the mean by 1e-5.
    assert float(found[0, 0]) == pytest.approx(max(expected, 0.0), abs=3e-6)


def test_minus_zero_is_zero():
    rng = np.random.default_rng(2)
    code = np.round(rng.normal(size=(400, 1)))
    classes = (rng.random((400, 1)) < 0.5 + 0.2 * np.sign(code)).astype(np.int32)
    signed = np.where((code == 0) & (rng.random((400, 1)) < 0.5), -0.0, code)
    np.testing.assert_array_equal(
        discrete(signed, classes, sizes=(2,)), discrete(np.abs(code) * np.sign(code), classes, sizes=(2,))
    )
    np.testing.assert_array_equal(continuous(signed, code), continuous(code + 0.0, code + 0.0))
