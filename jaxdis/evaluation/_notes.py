"""Notes on scores that do not mean what they seem to: constant factors, chance, few samples and bins, ceilings."""

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from jaxdis._core.lookup import MOST_NAMED, some_of
from jaxdis.evaluation._score_table import mean
from jaxdis.factors import Factors
from jaxdis.metrics import METRICS, Metric
from jaxdis.metrics._metric import is_error
from jaxdis.metrics._plan import Plan

# The chance of a metric says something of a score only if codes without information score about the same everywhere.
WIDEST_CHANCE = 0.2
# Of chance and of ceilings, which were measured with 2,000 samples.
FEW_SAMPLES = 500
FEW_PER_CLASS = 10
# A score this near to 1 (an error, to 0) is at its end, where members differ by rounding.
ROUNDING = 5e-4
# More of a factor's entropy than this, and the bias of estimated information is noted.
LARGE_BIAS = 0.1
_OF_BINS = ("mutual_information", "mutual_information_sampled", "mutual_information_equal_count")


class Known(NamedTuple):
    """What notes ask about a factor: its name, size (None if continuous), how many values it takes, and entropy in
    nats."""

    name: str
    size: int | None
    values: int
    entropy: float


def known(factors: Factors) -> list[Known]:
    """What notes ask about each factor on some samples."""
    found = []
    for name, size, column in zip(factors.names, factors.sizes, np.asarray(factors.values).T, strict=True):
        shares = np.unique(column, return_counts=True)[1] / len(column)
        found.append(Known(name, size, len(shares), float(-(shares * np.log(shares)).sum())))
    return found


def notes_of(plan: Plan, columns: Mapping, factors: list[Known], samples: int) -> tuple[tuple[str, str], ...]:
    """Pairs: a metric's name and a note.

    Args:
      columns: scores by column name, ``[]`` or ``[m]``.
      samples: how many samples the scores were computed with.
    """
    found = []
    for name, metric in plan:
        if metric.about is not None and not metric.about.reads_factors:
            continue
        texts = [*_of_factors(metric, factors), *_of_samples(metric, factors, samples)]
        texts += _of_scores(name, metric, columns, dict(plan), samples)
        found += [(name, text) for text in texts]
    return tuple(found)


def _of_factors(metric: Metric, factors: list[Known]) -> Iterator[str]:
    constant = [factor.name for factor in factors if factor.values == 1]
    if constant:
        yield f"{_listed(constant)} has one value alone, of which codes can know nothing; it is left out"
    continuous = [factor.name for factor in factors if factor.size is None and factor.values > 1]
    if metric.source.needs_classes and continuous:
        yield f"{_listed(continuous)} is continuous and left out; Factors.binned cuts it into classes"
    bins = metric.all_options.get("bins") if metric.source.name in _OF_BINS else None
    limited = [factor for factor in factors if bins and factor.size is not None and factor.entropy > math.log(bins)]
    if len(limited) > MOST_NAMED:
        listed = some_of(factor.name for factor in limited)
        yield f"{listed} have more classes than {bins} bins hold: mutual information does not reach their entropy"
    else:
        for factor in limited:
            share = math.log(bins) / factor.entropy
            yield (
                f"{factor.name} has {factor.values} classes in {bins} bins: mutual information reaches at most "
                f"{share:.2f} of its entropy; choose bins={factor.values}"
            )


def _of_samples(metric: Metric, factors: list[Known], samples: int) -> Iterator[str]:
    bins = metric.all_options.get("bins") if metric.source.name in _OF_BINS else None
    varied = [factor for factor in factors if factor.size is not None and factor.values > 1]
    if not varied:
        return
    most = max(varied, key=lambda factor: factor.values)
    if bins:
        bias = (bins - 1) * (most.values - 1) / (2 * samples)
        if bias > LARGE_BIAS * most.entropy:
            yield (
                f"{samples:,} samples are few for {bins} bins and the {most.values} classes of {most.name}: codes of "
                f"noise seem to have about {bias:.1g} of its {most.entropy:.1g} nats"
            )
    elif samples < FEW_PER_CLASS * most.values:
        each = f"{samples / most.values:.0f} each"
        yield f"{samples:,} samples are few for the {most.values} classes of {most.name}, {each}"
    elif samples < FEW_SAMPLES:
        yield f"{samples:,} samples are few: codes of noise may score far above chance"


def _of_scores(name: str, metric: Metric, columns: Mapping, plan: Mapping, samples: int) -> Iterator[str]:
    row = next((row.about for row in METRICS.values() if row == metric), None)
    for field, (low, high) in row.chance.items() if row is not None and samples >= FEW_SAMPLES else ():
        column = name if field == "score" else f"{name}.{field}"
        if field == "train" or column not in columns:
            continue
        scores = columns[column]
        values, error = np.atleast_1d(scores), is_error(column, plan)
        values = values[np.isfinite(values)]
        whose = "" if field == "score" else f"{field}: "
        by_chance = values >= low if error else values <= high
        if high - low <= WIDEST_CHANCE and by_chance.any():
            who = f"{by_chance.sum()} of {values.size} members score" if np.ndim(scores) else f"{mean(values):.2f} is"
            yield f"{whose}{who} what codes score that know nothing of the factors ({low:g} to {high:g})"
        at_end = values <= ROUNDING if error else np.abs(values - 1) <= ROUNDING
        if values.size and at_end.all():
            who = "all members reach" if values.size > 1 else "the score reaches"
            yield f"{whose}{who} the best possible value, beyond which this metric tells nothing apart"
        if not error and high <= 1 and (values > 1 + ROUNDING).any():
            yield f"{whose}scores above 1 occur with continuous factors, whose information has no upper limit"


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"each of {some_of(names)}"
