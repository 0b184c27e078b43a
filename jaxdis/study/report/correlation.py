"""Correlation of metrics with other quantities, with intervals and tests of differences."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from scipy import stats

Table = Mapping[str, np.ndarray]
# An interval needs a statistic that is defined in this share of its replicates.
MOSTLY = 1 / 3


class Correlation(NamedTuple):
    """Pearson's r over ``n`` points with Student's t and its two-sided p-value; NaN where undefined."""

    r: float
    t: float
    p: float
    n: int


class Interval(NamedTuple):
    """A statistic over all seeds, and percentiles of its bootstrap replicates."""

    value: float
    low: float
    high: float


def pearson(x: np.ndarray, y: np.ndarray) -> Correlation:
    """Pearson's correlation and its t-test, ``t = r √(n − 2) / √(1 − r²)`` with n − 2 degrees of freedom.

    Points with an undefined coordinate are left out. Mahon et al. 2024, Table 4 and Appendix E.
    """
    x, y = _both_known(x, y)
    if not _varies(x, y):
        return Correlation(math.nan, math.nan, math.nan, len(x))
    found = stats.pearsonr(x, y)
    r, n = float(found.statistic), len(x)
    t = math.copysign(math.inf, r) if abs(r) >= 1 else r * math.sqrt(n - 2) / math.sqrt(1 - r * r)
    return Correlation(r, t, float(2 * stats.t.sf(abs(t), n - 2)), n)


def fisher_comparison(r: np.ndarray, n: int, *, samples: Literal[1, 2] = 2) -> np.ndarray:
    """Whether correlations differ: one-sided p-values ``[c, c]``, entry (a, b) for "a is greater than b".

    Fisher's transformation ``z = artanh r`` has variance ``1 / (n − 3)``; the difference of two independent ones has
    ``2 / (n − 3)``, the default.

    Args:
      r: correlations ``[c]``, each over ``n`` points.
      samples: 2 for the test of a difference; 1 for the figures of the paper.

    Contract:

    - NaN for n ≤ 3 and for an undefined correlation.
    - Correlations of several metrics with one quantity over the same models are not independent, so that these p-values
      are only a guide.
    - Mahon et al. 2024, Appendix I and Figures 15 and 16, report differences as significant at .01 that are not
      significant by this test: SNC against MIG over 18 models is p = .05. Their statements (SNC beats all but NK, NK
      beats IRS alone) all follow from ``samples=1``, which takes the variance of one correlation for that of the
      difference.
    """
    r = np.clip(np.asarray(r, float), -1 + 1e-12, 1 - 1e-12)
    if n <= 3:
        return np.full((len(r), len(r)), math.nan)
    z = np.arctanh(r)
    return stats.norm.sf((z[:, None] - z[None, :]) / math.sqrt(samples / (n - 3)))


def spearman_of_columns(table: Table, names: Sequence[str], others: Sequence[str] | None = None) -> np.ndarray:
    """Spearman's correlation of columns over members, ``[c, c]``, or of each of ``names`` with each of ``others``.

    Members with an undefined score in either are left out; NaN for a constant column. Locatello et al. 2020: §6.1
    between metrics, §5.4.2 with unsupervised scores and losses, §7 with downstream tasks.
    """
    others = names if others is None else others
    return np.array([[spearman(table[a], table[b]) for b in others] for a in names]).reshape(len(names), len(others))


def spearman(x: np.ndarray, y: np.ndarray) -> float:
    """Spearman's rank correlation of the pairs that are defined; NaN for fewer than three or a constant."""
    x, y = _both_known(x, y)
    return float(stats.spearmanr(x, y)[0]) if _varies(x, y) else math.nan


def over_seeds(
    table: Table, statistic: Callable[[Table], float], *, replicates: int = 1000, level: float = 0.95, seed: int = 0
) -> Interval:
    """A statistic of a table with its bootstrap interval; whole seeds are drawn with replacement.

    All members that share a seed are drawn together, since they start from the same weights. Percentile intervals of
    the replicates in which the statistic is defined; NaN if these are less than a third, or with fewer than two seeds.
    """
    value = float(statistic(table))
    rows_of = [np.flatnonzero(table["seed"] == each) for each in np.unique(table["seed"])]
    if len(rows_of) < 2:
        return Interval(value, math.nan, math.nan)
    rng = np.random.default_rng(seed)
    statistics = []
    for _ in range(replicates):
        rows = np.concatenate([rows_of[i] for i in rng.integers(len(rows_of), size=len(rows_of))])
        statistics.append(statistic({name: column[rows] for name, column in table.items()}))
    tail = 100 * (1 - level) / 2
    statistics = np.asarray(statistics, float)
    if np.isfinite(statistics).mean() < MOSTLY:
        return Interval(value, math.nan, math.nan)
    low, high = np.nanpercentile(statistics, [tail, 100 - tail])
    return Interval(value, float(low), float(high))


def _both_known(x, y) -> tuple[np.ndarray, np.ndarray]:
    x, y = np.asarray(x, float), np.asarray(y, float)
    known = np.isfinite(x) & np.isfinite(y)
    return x[known], y[known]


def _varies(x: np.ndarray, y: np.ndarray) -> bool:
    return len(x) > 2 and bool(np.ptp(x) > 0) and bool(np.ptp(y) > 0)
