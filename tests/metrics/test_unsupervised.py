"""Scores without factors, against NumPy in float64 and known truths."""

import jax
import numpy as np
import pytest
import scipy.linalg
from sklearn.metrics import mutual_info_score

from jaxdis import METRICS, Factors, evaluate
from jaxdis.metrics import _unsupervised
from jaxdis.metrics._unsupervised import total_correlation
from tests.programs import compiled_whole
from tests.turns import counting

VALUES = np.arange(3000)[:, None] % 3


@pytest.fixture(scope="module")
def codes():
    rng = np.random.default_rng(0)
    return (rng.normal(size=(3000, 4)) @ rng.normal(size=(4, 4)) * [1, 10, 0.1, 1] + 5).astype(np.float32)


def test_total_correlation_equals_the_reference(codes):
    covariance = np.cov(codes.astype(float), rowvar=False)
    expected = 0.5 * (np.log(np.diag(covariance)).sum() - np.linalg.slogdet(covariance)[1])
    root = scipy.linalg.sqrtm(np.diag(np.diag(covariance)) @ covariance)
    distance = 2 * np.trace(covariance) - 2 * np.trace(root).real
    scores = evaluate(codes, VALUES, "total_correlation")
    assert scores["total_correlation"] == pytest.approx(expected, rel=1e-4)
    # A difference of two traces in float32, here of codes whose variances span 1 : 10,000.
    assert scores["total_correlation.wasserstein"] == pytest.approx(distance, abs=1e-4 * np.trace(covariance))
    normalized = scores["total_correlation.wasserstein_normalized"]
    assert normalized == pytest.approx(distance / np.trace(covariance), abs=1e-4)


@pytest.mark.parametrize("d", [5, 64])
@pytest.mark.parametrize("smallest", [0.3, 0.05, 0.02, 1e-3, 1e-5])
def test_total_correlation_of_codes_however_dependent(smallest, d):
    """Both sides of the smallest eigenvalue below which eigenvalues are refined."""
    rng = np.random.default_rng(0)
    shared, noise = rng.normal(size=(2000, 1)), rng.normal(size=(2000, d))
    codes = (np.sqrt(1 - smallest) * shared + np.sqrt(smallest) * noise).astype(np.float32)
    expected = -0.5 * np.linalg.slogdet(np.corrcoef(codes.astype(float).T))[1]
    found = evaluate(codes, np.zeros((2000, 1), int), "total_correlation")["total_correlation"]
    # Three times what was seen; without the refinement, 1e-5 for 64 codes at 1e-3 and 1e-2 at 1e-5.
    assert found == pytest.approx(expected, rel=4e-6)


def test_collapsed_codes_are_dropped_and_duplicates_are_finite(codes):
    expected = float(evaluate(codes, VALUES, "total_correlation")["total_correlation"])
    more = np.c_[codes, np.full(3000, 7.0)].astype(np.float32)
    assert evaluate(more, VALUES, "total_correlation")["total_correlation"] == pytest.approx(expected, rel=1e-5)
    twice = float(evaluate(np.c_[codes, codes[:, :1]], VALUES, "total_correlation")["total_correlation"])
    assert expected + 5 < twice < np.inf
    for few in (codes[:, :1], np.ones_like(codes)):
        assert evaluate(few, VALUES, "total_correlation")["total_correlation"] == pytest.approx(0, abs=1e-6)


def test_sampled_codes_are_less_dependent(codes):
    metric = METRICS["total_correlation"].with_options(representation="sampled")
    variances = np.broadcast_to(codes.var(axis=0), codes.shape).astype(np.float32)
    sampled = evaluate(codes, VALUES, {"tc": metric}, variances=variances)["tc"]
    covariance = np.cov(codes.astype(float), rowvar=False) + np.diag(codes.astype(float).var(axis=0))
    expected = 0.5 * (np.log(np.diag(covariance)).sum() - np.linalg.slogdet(covariance)[1])
    assert sampled == pytest.approx(expected, rel=0.1)  # one draw of noise
    with pytest.raises(ValueError, match="variances: the sampled representation needs"):
        evaluate(codes, VALUES, {"tc": metric})


def test_code_information_equals_sklearn(codes):
    bins = [np.digitize(codes[:, i], np.histogram(codes[:, i], 20)[1][:-1]) for i in range(4)]
    expected = np.array([[mutual_info_score(bins[i], bins[j]) if i != j else 0 for j in range(4)] for i in range(4)])
    scores = evaluate(codes, VALUES, "code_information")
    np.testing.assert_allclose(scores.part("code_information.matrix"), expected, atol=1e-3)  # a sample on an edge
    assert scores["code_information"] == pytest.approx(expected.sum() / 12, abs=2e-4)


def test_information_of_sampled_codes_is_that_of_codes_with_noise(codes):
    metric = METRICS["code_information"].with_options(representation="sampled")
    variances = np.full_like(codes, 1e-12)
    exact = evaluate(codes, VALUES, "code_information")["code_information"]
    assert evaluate(codes, VALUES, {"i": metric}, variances=variances)["i"] == pytest.approx(exact, abs=1e-3)
    drowned = evaluate(codes, VALUES, {"i": metric}, variances=np.full_like(codes, 1e4))["i"]
    # Independent codes have only the bias of the histogram, (b − 1)² / 2n, of whose bins most are nearly empty.
    assert 0 < drowned < 19**2 / 6000 < exact
    with pytest.raises(ValueError, match="variances: the sampled representation needs"):
        evaluate(codes, VALUES, {"i": metric})


def wasserstein(codes):
    """By its definition in float64, and the trace of the covariance.

    The singular values of the scaled codes are the roots of the eigenvalues of their product, which would lose half of
    the digits: with eigenvalues, one case below was 1e-4 off, by an amount that differed between processors.
    """
    centered = (codes.astype(float) - codes.mean(axis=0, dtype=float)) / np.sqrt(len(codes) - 1)
    scale = np.linalg.norm(centered, axis=0)
    return 2 * (scale**2).sum() - 2 * np.linalg.svd(centered * scale, compute_uv=False).sum(), (scale**2).sum()


@pytest.mark.parametrize(
    "scale",
    [
        (1, 1, 1e-3, 1e-2, 1e-4),
        (1, 1, 1e-5, 1, 1e-20),
        (1000, 1, 1, 1, 1),
        (1e-10,) * 5,
        (1e10,) * 5,
        (1e16,) * 5,
    ],
    ids=["collapsed", "some vanish", "one is large", "small", "large", "very large"],
)
@pytest.mark.parametrize("shared", [0.1, 10.0])
def test_wasserstein_keeps_its_digits_whatever_the_scales(scale, shared):
    rng = np.random.default_rng(0)
    codes = ((rng.normal(size=(3000, 5)) + shared * rng.normal(size=(3000, 1))) * np.array(scale)).astype(np.float32)
    found = evaluate(codes, np.zeros((3000, 1), int), "total_correlation")
    distance, trace = wasserstein(codes)
    # The reference itself keeps 1e-16 of the largest variance.
    tolerance = 1e-4 * distance + 1e-14 * trace
    assert found["total_correlation.wasserstein"] == pytest.approx(distance, abs=tolerance)
    assert found["total_correlation.wasserstein_normalized"] == pytest.approx(distance / trace, abs=tolerance / trace)


@pytest.mark.parametrize(("seed", "spread", "shared"), [(5, 3, 0.03), (6, 2, 0.1), (9, 3, 0.1)])
def test_wasserstein_of_codes_that_eigenvectors_mix(seed, spread, shared):
    """Eigenvectors in float32 mix codes of very different scales, and give a distance 29 to 6,300 times as large."""
    rng = np.random.default_rng(seed)
    codes = rng.normal(size=(2000, 5)) + shared * rng.normal(size=(2000, 1))
    codes = (codes * np.exp(spread * rng.normal(size=5))).astype(np.float32)
    found = evaluate(codes, np.zeros((2000, 1), int), "total_correlation")
    distance, trace = wasserstein(codes)
    assert found["total_correlation.wasserstein"] == pytest.approx(distance, abs=1e-5 * distance + 1e-14 * trace)


def test_wasserstein_of_codes_that_eigenvectors_almost_solve_takes_no_more_than_their_step():
    """Of 1,000 codes, Newton's method from 0 takes nine steps of sixty products, and six seconds."""
    rng = np.random.default_rng(0)
    codes = rng.normal(size=(2000, 40)) + rng.normal(size=(2000, 5)) @ rng.normal(size=(5, 40))
    codes = (codes * np.geomspace(0.2, 1, 40)).astype(np.float32)
    distance, _ = wasserstein(codes)
    with counting() as turns:
        factors = Factors.of(np.zeros((2000, 1), int), (1,))
        found = compiled_whole(total_correlation)(jax.random.key(0), codes, factors)
    assert found.wasserstein == pytest.approx(distance, rel=1e-5)
    assert turns["roots"] == [0]


@pytest.mark.parametrize("kind", ["few samples", "copies"])
@pytest.mark.parametrize("seed", range(2))
def test_wasserstein_of_a_singular_covariance(kind, seed):
    """Newton's method alone found other roots: 40 to 1e7 times the variance."""
    rng = np.random.default_rng(seed)
    if kind == "few samples":
        rank = rng.integers(1, 5)  # as of two to five samples, in arrays of one shape
        codes = rng.normal(size=(5, rank)) @ rng.normal(size=(rank, 12))
    else:
        codes = rng.normal(size=(500, 4)) @ rng.normal(size=(4, 12))
        codes[:, 6:] = codes[:, :6]
    codes = codes.astype(np.float32)
    found = evaluate(codes, np.zeros((len(codes), 1), int), "total_correlation")
    distance, trace = wasserstein(codes)
    # Each of twelve eigenvalues is off by up to 1e-7 of the largest, its root by up to 3e-4.
    assert found["total_correlation.wasserstein_normalized"] == pytest.approx(distance / trace, abs=4e-3)


def test_code_information_of_several_blocks_of_codes_equals_sklearns(monkeypatch):
    monkeypatch.setattr(_unsupervised, "BLOCK_BINS", 12)  # blocks of three codes
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 4, (600, 7)) + rng.integers(0, 4, (600, 1))
    metric = METRICS["code_information"].with_options(bins=4)
    cut = np.stack([np.digitize(code, np.histogram(code, 4)[1][1:-1]) for code in codes.T])
    expected = np.array([[mutual_info_score(a, b) for b in cut] for a in cut]) * (1 - np.eye(7))
    scores = evaluate(codes, VALUES[:600], {"shared": metric})
    np.testing.assert_allclose(scores.part("shared.matrix"), expected, atol=1e-6)
    assert scores["shared"] == pytest.approx(expected.sum() / 42, abs=1e-6)


@pytest.mark.parametrize(("n", "bins"), [(2, 2), (36, 20), (10_000, 20), (10_000, 40), (2**17, 3), (2**17 + 1, 3)])
def test_information_of_weak_exact_and_missing_relations_keeps_its_digits(n, bins):
    rng, sample = np.random.default_rng(0), np.arange(n)
    number = np.stack([sample % 2, sample // 2 % 2, rng.integers(0, bins, n), rng.integers(0, bins, n)], axis=1)
    skewed = (bins * rng.random(n) ** 9).astype(int)  # one bin holds most samples, others few
    number = np.column_stack([number, number[:, 2], skewed, np.where(sample < 2, 1, skewed), 0 * sample])
    found = compiled_whole(_unsupervised._information_of_pairs)(np.asarray(number, np.int32), bins)
    expected = np.array([[mutual_info_score(a, b) for b in number.T] for a in number.T])
    tolerance = {"rtol": 2e-6, "atol": 1e-10} if n <= _unsupervised.MOST_COUNTS else {"rtol": 1e-4, "atol": 1e-7}
    np.testing.assert_allclose(found, expected, **tolerance)
    assert not found[-1].any()
    if n % 4 == 0:
        assert found[0, 1] == 0


@pytest.mark.parametrize("constant", [0, 35])
def test_total_correlation_of_more_codes_than_samples(constant):
    """However many of them are constant."""
    rng = np.random.default_rng(0)
    codes = (rng.normal(size=(30, 40)) * rng.uniform(0.5, 2, 40)).astype(np.float32)
    codes[:, :constant] = 3.0
    varied = codes[:, constant:].astype(float)
    eigenvalues = np.maximum(np.linalg.eigvalsh(np.corrcoef(varied.T)), 1e-7)
    scores = evaluate(codes, VALUES[:30], "total_correlation")
    assert scores["total_correlation"] == pytest.approx(-0.5 * np.log(eigenvalues).sum(), rel=1e-4)
    distance, _ = wasserstein(varied)
    assert scores["total_correlation.wasserstein"] == pytest.approx(distance, rel=1e-3)


@pytest.mark.filterwarnings("ignore:codes:RuntimeWarning")
def test_one_number_among_thousands_that_is_not_finite_gives_nan():
    """XLA's largest of 4,096 numbers or more on CPU leaves NaN out."""
    codes = np.random.default_rng(0).normal(size=(8192, 3)).astype(np.float32)
    codes[4000, 1] = np.nan
    scores = evaluate(codes, np.zeros((8192, 1), int), "total_correlation")
    assert all(np.isnan(value) for value in scores.values())
