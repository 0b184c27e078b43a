"""Agreement between members, against NumPy in float64 and known truths."""

import jax
import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from sklearn.linear_model import Lasso

from jaxdis import METRICS, Factors, evaluate
from jaxdis.metrics import linear_cka, matched_cosine, svcca, udr


def members(kind: str):
    rng = np.random.default_rng(1)
    base = rng.normal(size=(500, 4))
    if kind == "permuted":
        return np.stack([base[:, rng.permutation(4)] * rng.choice([-1, 1], 4) for _ in range(3)]).astype(np.float32)
    return np.stack([base @ np.linalg.qr(rng.normal(size=(4, 4)))[0] for _ in range(3)]).astype(np.float32)


def reference_udr(zoo, penalty):
    """The released algorithm: lasso of each pair, relative strengths of rows and columns, medians."""
    zoo = (zoo - zoo.mean(axis=1, keepdims=True)) / zoo.std(axis=1, keepdims=True)
    m = len(zoo)
    pairs = np.zeros((m, m))
    for i in range(m):
        for j in range(m):
            fit = Lasso(alpha=penalty, tol=1e-10, max_iter=10_000).fit(zoo[i], zoo[j])
            strength = np.abs(fit.coef_.T)
            with np.errstate(invalid="ignore"):
                x = np.nan_to_num(strength.max(axis=0) ** 2 / strength.sum(axis=0)).mean()
                y = np.nan_to_num(strength.max(axis=1) ** 2 / strength.sum(axis=1)).mean()
            pairs[i, j] = (x + y) / 2
    others = np.where(np.eye(m, dtype=bool), np.nan, pairs)
    return np.nanmedian(others, axis=0), pairs


@pytest.mark.parametrize("kind", ["permuted", "rotated"])
def test_udr_equals_the_reference(kind):
    zoo = members(kind)
    expected, pairs = reference_udr(zoo.astype(float), 0.1)
    result = udr(zoo)
    np.testing.assert_allclose(result.pairs, pairs, atol=1e-4)
    np.testing.assert_allclose(result.score, expected, atol=1e-4)


@pytest.mark.parametrize("kind", ["lasso", "spearman"])
def test_udr_tells_permutations_from_rotations(kind):
    assert np.min(udr(members("permuted"), kind=kind).score) > 0.75
    assert np.max(udr(members("rotated"), kind=kind).score) < 0.6


def test_udr_of_collapsed_members():
    zoo = members("permuted")
    zoo[1] = 1.5
    zoo[0, :, 2:] = 1.0
    result = udr(zoo)
    assert np.isfinite(result.score).all()
    np.testing.assert_allclose(np.asarray(result.pairs)[1], 0, atol=1e-6)
    assert np.isnan(udr(zoo[:1]).score).all()


def test_udr_leaves_members_with_nan_out():
    zoo = members("permuted")
    with_nan = np.concatenate([zoo, zoo[:1]])
    with_nan[-1, 5, 2] = np.nan
    score = np.asarray(udr(with_nan).score)
    assert np.isnan(score[-1])
    np.testing.assert_allclose(score[:-1], udr(zoo).score, rtol=1e-5)


@pytest.mark.parametrize("agreement", [udr, linear_cka, svcca])
def test_agreement_names_the_shape_it_needs(agreement):
    with pytest.raises(ValueError, match=r"codes: must have shape \[m, n, d\] .* got \(500, 4\)"):
        agreement(np.zeros((500, 4)))


def unlike():
    """Three members that share two of four directions, at different scales and far from 0."""
    rng = np.random.default_rng(2)
    shared = rng.normal(size=(500, 2))
    return np.stack(
        [np.c_[shared, rng.normal(size=(500, 2))] @ rng.normal(size=(4, 4)) * scale + 3 for scale in (1, 100, 0.01)]
    )


def by_gram_matrices(x, y):
    """CKA by its definition: the centered Gram matrices as vectors, and the cosine of their angle."""
    center = np.eye(len(x)) - 1 / len(x)
    grams = [(center @ codes @ codes.T @ center).ravel() for codes in (x, y)]
    return grams[0] @ grams[1] / np.linalg.norm(grams[0]) / np.linalg.norm(grams[1])


def by_principal_angles(x, y, kept=0.99):
    """SVCCA in float64, by singular value decompositions of the codes themselves."""
    bases = []
    for codes in (x, y):
        left, values, _ = np.linalg.svd(codes - codes.mean(axis=0), full_matrices=False)
        share = np.cumsum(values**2) / (values**2).sum()
        bases.append(left[:, : np.searchsorted(share, kept) + 1])
    return np.linalg.svd(bases[0].T @ bases[1], compute_uv=False).mean()


@pytest.mark.parametrize(("agreement", "reference"), [(linear_cka, by_gram_matrices), (svcca, by_principal_angles)])
def test_agreement_equals_the_definition(agreement, reference):
    zoo = unlike()
    expected = np.array([[reference(x, y) for y in zoo] for x in zoo])
    result = agreement(zoo.astype(np.float32))
    np.testing.assert_allclose(result.pairs, expected, atol=1e-5)
    others = [np.median([expected[i, j] for j in range(3) if j != i]) for i in range(3)]
    np.testing.assert_allclose(result.score, others, atol=1e-5)


@pytest.mark.parametrize("agreement", [linear_cka, svcca])
def test_agreement_of_constant_and_undefined_members(agreement):
    zoo = np.concatenate([unlike(), np.full((1, 500, 4), 5.0), unlike()[:1], unlike()[:1]]).astype(np.float32)
    zoo[5, 3, 2] = np.inf
    result = jax.tree.map(np.asarray, agreement(zoo))
    np.testing.assert_allclose(result.pairs[:3, 4], result.pairs[:3, 0], atol=1e-6)
    np.testing.assert_array_equal(result.pairs[3, :5], 0)
    assert result.score[3] == 0
    assert np.isfinite(result.score[:5]).all()
    assert np.isnan(result.pairs[5]).all()
    assert np.isnan(result.score[5])


@pytest.mark.parametrize("agreement", [linear_cka, svcca, udr])
def test_a_second_call_compiles_nothing(agreement, compiled):
    agreement(members("rotated"))
    before = len(compiled)
    agreement(members("permuted"))
    assert len(compiled) == before


def test_directions_are_matched_by_cosines():
    """As NumPy and SciPy, where an offset that all directions share makes mcc, which centers, another number."""
    rng = np.random.default_rng(0)
    first = rng.normal(size=(32, 20)) + 1.0
    second = first[:, rng.permutation(20)][:, :15] + 0.5 * rng.normal(size=(32, 15))
    cosine = np.abs((first / np.linalg.norm(first, axis=0)).T @ (second / np.linalg.norm(second, axis=0)))
    rows, columns = linear_sum_assignment(-cosine)
    found = matched_cosine(first, 3 * second)
    assert found.score == pytest.approx(cosine[rows, columns].mean(), abs=1e-6)
    assert matched_cosine(second, -first).score == pytest.approx(float(found.score), abs=1e-6)
    expected = np.full(20, -1)
    expected[rows] = columns
    np.testing.assert_array_equal(found.match, expected)
    np.testing.assert_array_equal(np.isnan(found.per_direction), expected < 0)
    np.testing.assert_allclose(found.nearest, cosine.max(axis=1), atol=1e-6)
    plan = {"cosine": METRICS["mcc"].with_options(kind="cosine"), "mcc": METRICS["mcc"]}
    scores = evaluate(first, Factors.of(second, (None,) * 15), plan)
    assert scores["cosine"] == pytest.approx(float(found.score), abs=1e-6)
    assert scores["mcc"] < found.score - 0.02


def test_directions_without_length_and_with_numbers_that_are_none():
    directions = np.eye(4, 3)
    directions[:, 2] = 0
    found = matched_cosine(directions, directions)
    assert found.score == pytest.approx(2 / 3)
    assert found.nearest.tolist() == [1, 1, 0]
    directions[0, 0] = np.nan
    assert np.isnan(matched_cosine(directions, directions).score)
    with pytest.raises(ValueError, match="second: must have the width of first, 4, got 3"):
        matched_cosine(np.eye(4), np.eye(3))
    with pytest.raises(ValueError, match="first: must have shape"):
        matched_cosine(np.ones(4), np.eye(3))
