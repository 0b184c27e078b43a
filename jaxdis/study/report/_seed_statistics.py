"""How metrics correlate with other quantities, with intervals and tests for differences."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from scipy import stats

Table = Mapping[str, np.ndarray]
# An interval needs a statistic that is defined in this share of its replicates.
MOSTLY = 1 / 3
# Fewer seeds or members have no interval.
FEWEST = 3


class Correlation(NamedTuple):
    """Pearson's r over ``n`` points with Student's t and its two-sided p-value; NaN where undefined."""

    r: float
    t: float
    p: float
    n: int


class Interval(NamedTuple):
    """A statistic over all seeds or members, and the bounds of its interval."""

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
    correlation = stats.pearsonr(x, y)
    r, n = float(correlation.statistic), len(x)
    t = math.copysign(math.inf, r) if abs(r) >= 1 else r * math.sqrt(n - 2) / math.sqrt(1 - r * r)
    return Correlation(r, t, float(2 * stats.t.sf(abs(t), n - 2)), n)


def fisher_comparison(r: np.ndarray, n: int, *, samples: Literal[1, 2] = 2) -> np.ndarray:
    """Whether correlations differ: one-sided p-values ``[c, c]``, entry (a, b) for "a is greater than b".

    Fisher's transformation ``z = artanh r`` has variance ``1 / (n − 3)``; the difference of two independent ones has
    ``2 / (n − 3)``, the default.

    Args:
      r: correlations ``[c]``, each over ``n`` points.
      samples: 2 to test a difference; 1 for the paper's figures.

    Contract:

    - NaN for n ≤ 3 and for an undefined correlation.
    - Correlations between several metrics and one quantity over the same models are not independent, so that these
      p-values are only a guide.
    - Mahon et al. 2024, Appendix I and Figures 15 and 16, report differences as significant at .01 that are not
      significant by this test: SNC against MIG over 18 models is p = .05. Their statements (SNC beats all but NK, NK
      beats IRS alone) all follow from ``samples=1``, which takes one correlation's variance for the difference's.
    """
    r = np.clip(np.asarray(r, float), -1 + 1e-12, 1 - 1e-12)
    if n <= 3:
        return np.full((len(r), len(r)), math.nan)
    z = np.arctanh(r)
    return stats.norm.sf((z[:, None] - z[None, :]) / math.sqrt(samples / (n - 3)))


def spearman_of_columns(table: Table, names: Sequence[str], targets: Sequence[str] | None = None) -> np.ndarray:
    """Spearman's correlation between columns over members, ``[c, c]``, or between each of ``names`` and each of
    ``targets``.

    Members with an undefined score in either are left out; NaN for a constant column. Locatello et al. 2020: §6.1
    between metrics, §5.4.2 with unsupervised scores and losses, §7 with downstream tasks.
    """
    targets = names if targets is None else targets
    return np.array([[spearman(table[a], table[b]) for b in targets] for a in names]).reshape(len(names), len(targets))


def spearman(x: np.ndarray, y: np.ndarray) -> float:
    """Spearman's rank correlation over the pairs that are defined; NaN for fewer than three or a constant."""
    x, y = _both_known(x, y)
    # As scipy.stats.spearmanr, without its p-value, which takes longer and which nobody reads.
    return float(np.corrcoef(stats.rankdata(x), stats.rankdata(y))[0, 1]) if _varies(x, y) else math.nan


def over_seeds(
    table: Table, statistic: Callable[[Table], float], *, replicates: int = 1000, level: float = 0.95
) -> Interval:
    """Return a table's statistic with its interval over seeds, as :func:`student_interval` makes it from whole seeds.

    All members that share a seed are drawn together, since they start from the same weights.
    """
    rows_of = [np.flatnonzero(table["seed"] == each) for each in np.unique(table["seed"])]

    def of_seeds(seeds):
        rows = np.concatenate([rows_of[i] for i in seeds])
        return statistic({name: column[rows] for name, column in table.items()})

    return student_interval(len(rows_of), of_seeds, replicates=replicates, level=level)


def student_interval(
    count: int, statistic: Callable[[np.ndarray], float], *, replicates: int = 1000, level: float = 0.95
) -> Interval:
    """Return a statistic over ``count`` independent units, given by their numbers, with its interval.

    The interval is ``value ± t s √(count / (count − 1))``: ``s`` is the standard deviation of the statistic over draws
    of the units with replacement, ``t`` the quantile of Student's distribution with ``count − 1`` degrees of freedom.
    For a mean, this is Student's interval; the draws' percentiles would cover the mean over three units in 73 % of
    cases where 95 % are asked for.

    Contract:

    - NaN without units. No interval with fewer than three, or if the statistic is defined in less than a third of the
      draws. Deterministic.
    """
    if count == 0:
        return Interval(math.nan, math.nan, math.nan)
    value = float(statistic(np.arange(count)))
    if count < FEWEST:
        return Interval(value, math.nan, math.nan)
    rng = np.random.default_rng(0)
    draws = np.array([statistic(rng.integers(count, size=count)) for _ in range(replicates)], float)
    if np.isfinite(draws).mean() < MOSTLY:
        return Interval(value, math.nan, math.nan)
    reach = stats.t.isf((1 - level) / 2, count - 1) * np.nanstd(draws) * math.sqrt(count / (count - 1))
    return Interval(value, value - float(reach), value + float(reach))


def mean_over_seeds(values: np.ndarray, seeds: np.ndarray, *, level: float = 0.95) -> Interval:
    """Return the mean over defined values with Student's interval over the seeds' means; NaN below three seeds."""
    defined = np.isfinite(values)
    means = np.array([values[defined & (seeds == seed)].mean() for seed in np.unique(seeds[defined])])
    value = float(np.mean(values[defined])) if len(means) else math.nan
    if len(means) < FEWEST:
        return Interval(value, math.nan, math.nan)
    reach = stats.t.isf((1 - level) / 2, len(means) - 1) * stats.sem(means)
    return Interval(value, value - float(reach), value + float(reach))


def _both_known(x, y) -> tuple[np.ndarray, np.ndarray]:
    x, y = np.asarray(x, float), np.asarray(y, float)
    defined = np.isfinite(x) & np.isfinite(y)
    return x[defined], y[defined]


def _varies(x: np.ndarray, y: np.ndarray) -> bool:
    return len(x) > 2 and bool(np.ptp(x) > 0) and bool(np.ptp(y) > 0)
