"""FactorVAE, BetaVAE, IRS and total correlation of a zoo on tables, with draws shared by its members.

Peers: the loops of disentanglement_lib (Locatello et al. 2020) on a table of codes, written again in NumPy (and its
scikit-learn classifier). They draw a row for a value by its list of rows, made beforehand.
"""

import jax
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from workload import make_zoo

from jaxdis import Factors, evaluate

MEMBERS = 64
TRAIN, EVAL, BATCH = 10_000, 5_000, 64


def lists(values):
    return [[np.flatnonzero(column == value) for value in range(column.max() + 1)] for column in values.T]


def factor_vae(codes, values, rng, count=TRAIN + EVAL):
    """A batch at a time: hold a value, take the code that varies least, of those that are not collapsed."""
    rows_of, codes = lists(values), codes[:, codes.std(axis=0, ddof=1) >= 0.05]
    spread = codes.var(axis=0, ddof=1)
    votes = np.zeros((codes.shape[1], values.shape[1]), int)
    seen = []
    for _ in range(count):
        factor = rng.integers(values.shape[1])
        candidates = rows_of[factor][values[rng.integers(len(values)), factor]]
        batch = codes[candidates[rng.integers(len(candidates), size=BATCH)]]
        seen.append((np.argmin(batch.var(axis=0, ddof=1) / spread), factor))
    for code, factor in seen[: count * 2 // 3]:
        votes[code, factor] += 1
    answer = votes.argmax(axis=1)
    return np.mean([answer[code] == factor for code, factor in seen[count * 2 // 3 :]])


def beta_vae(codes, values, rng, count=TRAIN + EVAL):
    """A batch at a time: 64 pairs equal in one factor, their mean distance; then scikit-learn's classifier."""
    order, start, number = [], [], []
    for column in values.T:
        order.append(np.argsort(column, kind="stable"))
        number.append(np.bincount(column))
        start.append(np.cumsum(number[-1]) - number[-1])
    features, labels = np.empty((count, codes.shape[1])), np.empty(count, int)
    for row in range(count):
        factor = rng.integers(values.shape[1])
        left = rng.integers(len(values), size=BATCH)
        value = values[left, factor]
        step = (rng.random(BATCH) * number[factor][value]).astype(int)
        right = order[factor][start[factor][value] + step]
        features[row], labels[row] = np.abs(codes[left] - codes[right]).mean(axis=0), factor
    train = count * 2 // 3
    model = LogisticRegression(max_iter=1000).fit(features[:train], labels[:train])
    return model.score(features[train:], labels[train:])


def irs(codes, values, rng):
    """A factor, a value and a code at a time, as the released code."""
    largest = np.abs(codes - codes.mean(axis=0)).max(axis=0)
    matrix = np.zeros((codes.shape[1], values.shape[1]))
    for j in range(values.shape[1]):
        moved = np.zeros(codes.shape[1])
        present = np.unique(values[:, j])
        for value in present:
            given = codes[values[:, j] == value]
            moved += np.percentile(np.abs(given - given.mean(axis=0)), 99, axis=0)
        matrix[:, j] = 1 - moved / len(present) / largest
    return (matrix.max(axis=1) * largest).sum() / largest.sum()


def total_correlation(codes, values, rng):
    covariance = np.cov(codes, rowvar=False)
    root = np.linalg.eigvals(np.diag(np.diag(covariance)) @ covariance)
    2 * np.trace(covariance) - 2 * np.sqrt(np.abs(root)).sum()
    return 0.5 * (np.log(np.diag(covariance)).sum() - np.linalg.slogdet(covariance)[1])


# Name, peer, how far apart the scores may be: seeds for the first two.
CASES = {
    "factor_vae": (factor_vae, 0.03),
    "beta_vae": (beta_vae, 0.03),
    "irs": (irs, 1e-5),
    "total_correlation": (total_correlation, 1e-3),
}


@pytest.mark.parametrize("metric", CASES)
def bench_peer(measure, metric, benchmark):
    benchmark.group = f"{metric}: ms per member"
    codes, values = make_zoo(1)
    rounds = 3 if metric.endswith("vae") else 15
    measure(lambda: CASES[metric][0](codes[0], values, np.random.default_rng(0)), rounds=rounds, compiled=False)


@pytest.mark.parametrize("members", [1, MEMBERS])
@pytest.mark.parametrize("metric", CASES)
def bench_zoo(measure, metric, members, benchmark):
    benchmark.group = f"{metric}: ms per member"
    codes, values = make_zoo(members)
    factors = Factors.of(values)
    measure(lambda: dict(evaluate(codes, factors, metric)), rounds=3, each=members)
    peer, apart = CASES[metric]
    expected = peer(codes[0].astype(float), values, np.random.default_rng(0))
    assert evaluate(codes[:1], factors, metric)[metric][0] == pytest.approx(expected, abs=apart)


def bench_bootstrap(measure, benchmark):
    """What an error bar costs: 100 replicates of MIG against 100 evaluations of the zoo."""
    benchmark.group = "mig with 100 replicates: ms per member"
    codes, values = make_zoo(16)
    factors = Factors.of(values)
    measure(lambda: dict(evaluate(codes, factors, "mig", jax.random.key(0), bootstrap=100)), rounds=3, each=16)


def bench_bootstrap_peer(measure, benchmark):
    benchmark.group = "mig with 100 replicates: ms per member"
    codes, values = make_zoo(16)
    draws = [np.random.default_rng(i).integers(0, len(values), len(values)) for i in range(100)]
    taken = [(codes[:, rows], Factors.of(values[rows])) for rows in draws[:10]]
    measure(lambda: [dict(evaluate(*taken[i % 10], "mig")) for i in range(100)], rounds=3, each=16)
