"""The statistics on results that claims are about: trends over regularization, shares, agreement."""

import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from jaxdis._core.finite import finite
from jaxdis._core.finite import mean as mean  # read as readings.mean and readings.median by the claims of papers
from jaxdis._core.finite import median as median
from jaxdis.study.report._statistics import Table, spearman, spearman_of_columns


def of(table: Table, **wanted) -> Table:
    """The rows in which columns have these values, or one of several."""
    keep = np.ones(len(table["model"]), bool)
    for name, value in wanted.items():
        values = value if isinstance(value, tuple | list) else (value,)
        keep &= np.isin(np.asarray(table[name]), np.asarray(values))
    return {name: column[keep] for name, column in table.items()}


def data_of(table: Table) -> list[str]:
    return list(dict.fromkeys(map(str, table["data"])))


def models_of(table: Table) -> list[str]:
    return list(dict.fromkeys(map(str, table["model"])))


def each_data(table: Table) -> Iterator[tuple[str, Table]]:
    for name in data_of(table):
        yield name, of(table, data=name)


def medians(table: Table, column: str) -> tuple[np.ndarray, np.ndarray]:
    """Strengths and the median over members at each; of one model on one data set."""
    levels = np.unique(table["regularization"])
    return levels, np.array([median(table[column][table["regularization"] == level]) for level in levels])


def trend(table: Table, column: str) -> float:
    """Spearman's correlation between regularization strengths and medians, for one model on one data set."""
    return spearman(*medians(table, column))


def slope(table: Table, column: str) -> float:
    """Slope of the log median against the log regularization strength."""
    levels, middles = medians(table, column)
    usable = np.isfinite(middles) & (middles > 0) & (levels > 0)
    return (
        float(np.polyfit(np.log(levels[usable]), np.log(middles[usable]), 1)[0]) if usable.sum() > 1 else float("nan")
    )


def by_model(table: Table, column: str) -> dict[str, float]:
    """Median over settings and seeds of each model, on one data set."""
    return {model: median(of(table, model=model)[column]) for model in models_of(table)}


def lead_of(model: str, scores: dict[str, float], best: Callable = max) -> float:
    """By how much a model exceeds the best (``max``) of the others, or stays below it (``min``: negative).

    NaN if the model is missing or undefined, or all others are, as in some draws of a few members."""
    rivals = [value for name, value in scores.items() if name != model and np.isfinite(value)]
    return scores[model] - best(rivals) if model in scores and rivals else float("nan")


def share_above(values: np.ndarray, limits: np.ndarray | float) -> float:
    """Share of members whose value exceeds a limit, among those with both; NaN if there are none."""
    values, limits = np.broadcast_arrays(np.asarray(values, float), np.asarray(limits, float))
    defined = np.isfinite(values) & np.isfinite(limits)
    return float(np.mean(values[defined] > limits[defined])) if defined.any() else float("nan")


def beats(table: Table, column: str) -> float:
    """Probability that a random seed at the worst regularization strength beats one at the best, of one model."""
    levels, middles = medians(table, column)
    if not np.isfinite(middles).all() or len(levels) < 2:
        return float("nan")
    worst, best = (table[column][table["regularization"] == levels[pick(middles)]] for pick in (np.argmin, np.argmax))
    return share_above(worst[:, None], best[None, :])


def overlaps(table: Table, column: str) -> Iterator[float]:
    """For each pair of models with defined values: what part of the narrower range both share."""
    columns = (of(table, model=model)[column] for model in models_of(table))
    ranges = [defined for column in columns if len(defined := finite(column))]
    for a, b in itertools.combinations(ranges, 2):
        low, high = max(a.min(), b.min()), min(a.max(), b.max())
        narrower = min(np.ptp(a), np.ptp(b))
        yield max(0.0, high - low) / narrower if narrower > 0 else float(high >= low)


def pairs_of(table: Table, names: Sequence[str]) -> np.ndarray:
    """Rank correlations between all columns, ``[pairs]``, ordered as by ``itertools.combinations``."""
    matrix = spearman_of_columns(table, names)
    return matrix[np.triu_indices(len(names), 1)]


def discordant(x: np.ndarray, y: np.ndarray) -> float:
    """How often two scores put a pair of members in opposite order; pairs that tie in one do not count."""
    defined = np.isfinite(x) & np.isfinite(y)
    signs = [np.sign(np.subtract.outer(v[defined], v[defined]))[np.triu_indices(defined.sum(), 1)] for v in (x, y)]
    product = signs[0] * signs[1]
    return float(np.mean(product[product != 0] < 0)) if (product != 0).any() else float("nan")
