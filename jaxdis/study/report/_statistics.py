"""Statistics on a table with results: correlations, intervals and tests, explained variance, transfer of settings."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from scipy import stats

from jaxdis._core.finite import finite, mean, median
from jaxdis.models import Variant

Table = Mapping[str, np.ndarray]
# Parts of a label that a setting is not called by.
UNSAID = ("model", "seed", "held_out", "learning_rate", "discriminator_learning_rate", "warmup_steps", "capacity_steps")
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

    Fisher's transformation ``z = artanh r``, each over ``n`` points, has variance ``1 / (n − 3)``; the difference of
    two independent ones has ``2 / (n − 3)``. NaN for n ≤ 3 and for an undefined correlation.

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
    # As scipy.stats.spearmanr, without its p-value, which takes longer and which nobody reads.
    return coefficient(*map(stats.rankdata, _both_known(x, y)))


def coefficient(x: np.ndarray, y: np.ndarray) -> float:
    """Pearson's correlation alone, over the pairs that are defined; NaN for fewer than three or a constant."""
    x, y = _both_known(x, y)
    return float(np.corrcoef(x, y)[0, 1]) if _varies(x, y) else math.nan


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
    cases where 95 % are asked for. NaN without units; no interval with fewer than three, or if the statistic is defined
    in less than a third of the draws. Deterministic.
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


def explained(table: Table, name: str, by: np.ndarray | None = None, *, adjust: bool = False) -> float:
    """Share of a score's variance over members that the model explains, alone or with each member's setting ``by``.

    It is the variance of the groups' means over that of the scores, as of least squares on one-hot groups (Locatello et
    al. 2020, Table 5), and grows with more groups whatever they are. ``adjust``: for their number, so that 0 is
    expected by chance. NaN where all scores are equal, or every group has one member.
    """
    defined = np.isfinite(table[name])
    scores, groups = table[name][defined], np.asarray(table["model"]).astype(str)[defined]
    if by is not None:
        groups = np.array([f"{model} {setting:g}" for model, setting in zip(groups, by[defined], strict=True)])
    names, number = np.unique(groups, return_inverse=True)
    members, count = len(scores), len(names)
    if count == members or np.ptp(scores) == 0:
        return math.nan
    means = np.array([mean(scores[number == group]) for group in range(count)])
    share = float(means[number].var() / scores.var())
    return 1 - (1 - share) * (members - 1) / (members - count) if adjust else share


def regularizations(table: Table, variants: Mapping[str, Variant]) -> np.ndarray:
    """The value of the setting over which each member's model is swept; 0 for models without such a setting."""
    swept = [variants[str(name)].swept for name in table["model"]]
    return np.array([float(table[setting][row]) if setting in table else 0.0 for row, setting in enumerate(swept)])


def varies(column: np.ndarray) -> bool:
    """Whether at least two numbers are defined and differ."""
    defined = finite(column)
    return len(defined) > 1 and bool(np.ptp(defined) > 0)


class Transfer(NamedTuple):
    """Probability that a transferred setting does at least as well as a random one, by what stays the same."""

    same_data_same_metric: float
    other_data_same_metric: float
    same_data_other_metric: float
    other_data_other_metric: float


def transfer(table: Table, metrics: Sequence[str], *, trials: int = 10_000, seed: int = 0) -> Transfer:
    """How often a setting chosen elsewhere is at least as good as a random one (Locatello et al. 2020, Table 1).

    In each trial, a random seed, metric and data set choose the setting (model × regularization) with the highest
    score. It is compared, on the same or another data set and by the same or another metric, with a random setting,
    both under one seed other than the first. Chance is slightly above one half, since ties count.

    Of ``metrics``, higher is better. NaN if there is no other data set or metric, or with one seed. Undefined scores
    are never chosen, and a comparison with one is not counted. Members that are repeated, as in a bootstrap over seeds,
    count as often, but not against their own copies.
    """
    draws, rng = score_cube(table, metrics), np.random.default_rng(seed)
    kinds = ((False, False), (True, False), (False, True), (True, True))
    return Transfer(*(_share(draws, rng, trials, other_data=data, other_metric=by) for data, by in kinds))


def across_data(table: Table, metric: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """Rank correlation between data sets: a metric's median over seeds at each setting, ``[data, data]``, and names.

    Locatello et al. 2020, Figure 9.
    """
    medians, names = medians_by_data(table, metric)
    return np.array([[spearman(one, other) for other in medians] for one in medians]), names


def medians_by_data(table: Table, metric: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """A metric's median over seeds ``[data, settings]``, and the data sets' names."""
    cube, names, _ = score_cube(table, [metric])
    return np.array([[median(row) for row in rows] for rows in cube[:, :, :, 0]]), names


class Cube(NamedTuple):
    """Scores ``[data, settings, seeds, metrics]``, NaN where there is no member; data sets, and originals of seeds."""

    scores: np.ndarray
    data: tuple[str, ...]
    original: np.ndarray


def score_cube(table: Table, metrics: Sequence[str]) -> Cube:
    """The scores of a table as an array.

    Members that share a setting and a seed, but not the combination left out of training, have a place each among the
    seeds, and so have members that are repeated.
    """
    data, of_data = np.unique(np.asarray(table["data"]).astype(str), return_inverse=True)
    held_out = table.get("held_out", np.full(len(table["seed"]), ""))
    seeds = list(zip(map(float, table["seed"]), map(str, held_out), strict=True))
    settings, in_full = settings_of(table, without=UNSAID), settings_of(table)
    if len(set(zip(of_data, settings, seeds, strict=True))) < len(set(zip(of_data, in_full, seeds, strict=True))):
        settings = in_full  # which differ in nothing else
    met: Counter = Counter()
    copies = []
    for key in zip(of_data.tolist(), settings, seeds, strict=True):
        copies.append((key[2], met[key]))
        met[key] += 1
    settings, of_setting = _numbered(settings)
    draws, of_draw = _numbered(copies)
    cube = np.full((len(data), len(settings), len(draws), len(metrics)), math.nan)
    cube[of_data, of_setting, of_draw] = np.stack([np.asarray(table[name], float) for name in metrics], axis=-1)
    return Cube(cube, tuple(data), _numbered([seed for seed, _ in draws])[1])


def _numbered(values: Sequence) -> tuple[list, np.ndarray]:
    """Distinct values in the order they first occur, and each value's place among them."""
    places = {value: place for place, value in enumerate(dict.fromkeys(values))}
    return list(places), np.array([places[value] for value in values])


def settings_of(table: Table, without: Sequence[str] = ()) -> list[tuple]:
    """Each member's model and settings: the columns between ``model`` and ``seed``."""
    names = list(table)
    names = names[names.index("model") : names.index("seed")]
    rows = zip(*(table[name] for name in names if name == "model" or name not in without), strict=True)
    return [tuple("" if value != value else str(value) for value in row) for row in rows]


def _share(draws: Cube, rng, trials: int, *, other_data: bool, other_metric: bool) -> float:
    cube = draws.scores
    data, settings, seeds, metrics = cube.shape
    if seeds < 2 or (other_data and data < 2) or (other_metric and metrics < 2):
        return math.nan
    here, there = _pair(rng, data, trials, other_data)
    by, other = _pair(rng, metrics, trials, other_metric)
    chosen_on, fresh = _pair(rng, seeds, trials, True)
    scores = cube[here, :, chosen_on, by]  # [trials, settings]
    possible = np.isfinite(scores).any(axis=1)
    best = np.where(np.isfinite(scores), scores, -np.inf).argmax(axis=1)
    transferred = cube[there, best, fresh, other]
    random = cube[there, rng.integers(settings, size=trials), fresh, other]
    counted = possible & np.isfinite(transferred) & np.isfinite(random)
    counted &= draws.original[chosen_on] != draws.original[fresh]
    return float((transferred >= random)[counted].mean()) if counted.any() else math.nan


def _pair(rng, count: int, trials: int, other: bool) -> tuple[np.ndarray, np.ndarray]:
    """Two draws each, equal or certainly different."""
    first = rng.integers(count, size=trials)
    if not other:
        return first, first
    return first, (first + rng.integers(1, count, size=trials)) % count
