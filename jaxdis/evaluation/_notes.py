"""Notes on scores that do not mean what they seem to: constant factors, chance, few samples and bins, ceilings."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from jaxdis._core.finite import mean
from jaxdis._core.options import MOST_NAMED, some_of
from jaxdis.evaluation._groups import notes_on_dependence
from jaxdis.evaluation._member import MemberCodes, Shared
from jaxdis.evaluation._request import Request
from jaxdis.factors import Factors
from jaxdis.metrics import METRICS, Metric
from jaxdis.metrics._metric import Column
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
# Functions of values to which their order matters little.
_BY_SPLITS = ("random_forest", "dci_es")
_SAMPLED = "mutual_information_sampled"
_OF_BINS = ("mutual_information", _SAMPLED, "mutual_information_equal_count", "dependent_information", "unibound")
# Whole numbers of which each occurs so often are not counts of something, but may name it.
MOST_DISTINCT = 4
# Members that notes look at.
MOST_MEMBERS = 8
# The share of samples outside of the bins from which on it is noted.
FEW_OUTSIDE = 0.01
# Of a code this many times its range from 0, float32 keeps 2^14 levels, as many as a histogram of 20 bins needs.
FAR = 2.0**10


class Known(NamedTuple):
    """What notes ask about a factor: its name, size (None if continuous), how many values it takes, entropy in nats,
    and whether its classes have no order."""

    name: str
    size: int | None
    values: int
    entropy: float
    nominal: bool = False


def known(factors: Factors) -> list[Known]:
    """What notes ask about each factor on some samples."""
    found = []
    nominal = factors.nominal or (False,) * len(factors.sizes)
    columns = zip(factors.names, factors.sizes, nominal, np.asarray(factors.values).T, strict=True)
    for name, size, each, column in columns:
        shares = np.unique(column, return_counts=True)[1] / len(column)
        found.append(Known(name, size, len(shares), float(-(shares * np.log(shares)).sum()), each))
    return found


def unjudged(shared: Shared) -> list[str]:
    """The factors that vary, but not in one of the sample sets that metrics learn from and judge by."""
    values = np.asarray(shared.factors.values)
    sets = [values, *(values[np.asarray(rows)] for rows in (shared.train_rows, shared.test_rows) if rows is not None)]
    sets += [] if shared.test_factors is None else [np.asarray(shared.test_factors.values)]
    varies, *among = (np.ptp(each, axis=0) > 0 for each in sets)
    missed = varies & ~np.all([varies, *among], axis=0)
    return [name for name, each in zip(shared.factors.names, missed, strict=True) if each]


def notes_of_request(request: Request, scores) -> tuple[tuple[str, str], ...]:
    """Pairs: a metric's name and a note; the parts of ``scores`` say which factors were left out."""
    shared, plan, lacking = request.shared, request.plan, (*request.left_out.items(), *request.reasons.items())
    apart = () if request.parts or shared.test_rows is shared.test_factors is None else unjudged(shared)
    of_factors = known(shared.factors), shared.factors.num_samples, apart, "variances" in request.given
    found = [*notes_of(plan, scores, *of_factors), *notes_on_codes(plan, request.members)]
    if shared.groups is None and not request.parts:
        redraws, splits = bool(request.bootstrap or request.null.count), "test" not in request.given
        sources = {name: metric.source for name, metric in plan if metric.reads_factors}
        independent = [n for n, of in sources.items() if redraws or of.distinct_samples or (splits and of.reads.test)]
        if independent:
            found += notes_on_dependence(independent, request.members, shared.factors, redraws)
    return (*found, *lacking)


def notes_of(
    plan: Plan, columns: Mapping, factors: list[Known], samples: int, unjudged: Sequence[str] = (), variances=True
) -> tuple[tuple[str, str], ...]:
    """Pairs: a metric's name and a note, by scores of each column, ``[]`` or ``[m]``.

    With factors that are :func:`unjudged`, ``columns`` has ``parts`` as well. ``variances``: whether any are given.
    """
    found = []
    for name, metric in plan:
        texts, noise = [], metric.all_options.get("noise")
        if metric.source.reads.variances and not variances and noise is not None:
            texts.append(
                f"without variances, posteriors deviate by {noise:g} of each code's own deviation, which decides which "
                "representation leads; give variances, or choose noise"
            )
        if metric.reads_factors:
            texts += [*_of_factors(metric, factors), *_of_samples(metric, factors, samples)]
            if metric.source.reads.test and unjudged:
                texts += _of_held_out(name, metric, columns.parts, [factor.name for factor in factors], unjudged)
            texts += _of_scores(name, metric, columns, samples)
        found += [(name, text) for text in texts]
    return tuple(found)


def bounds(codes: np.ndarray, rows: int = 64) -> list[np.ndarray]:
    """Each code's least and largest value, ``[m, d]``; NumPy compares few long rows sooner than many short ones."""
    m, n, d = codes.shape
    long, rest = codes[:, : n // rows * rows].reshape(m, rows, n // rows, d), codes[:, n // rows * rows :]
    return [of.reduce(np.concatenate([of.reduce(long, 1), rest], 1), 1) for of in (np.minimum, np.maximum)]


def notes_on_codes(plan: Plan, members: MemberCodes) -> list[tuple[str, str]]:
    """Pairs: a metric's name and a note on limits of codes, as the first members have them."""
    codes, offset = members.few(MOST_MEMBERS)
    low, high = bounds(codes)
    found, whole = [], np.zeros(codes.shape[2], int)
    with np.errstate(invalid="ignore", over="ignore"):  # codes that are not finite are warned of
        far = ((np.maximum(np.abs(low), np.abs(high)) > FAR * (high - low)) & (high > low)).any(axis=0)
        far &= codes.dtype.itemsize <= 4  # others are shifted before they are rounded
        steps = codes[:, :100] - low[:, None, :]  # codes may have been shifted; few have whole numbers to the end
        are_whole = (steps == np.round(steps)).all(axis=1) & (high > low)
        for member, code in zip(*np.nonzero(are_whole), strict=True):  # how many values, of numbers that repeat
            steps = codes[member, :, code] - low[member, code]
            distinct = len(np.unique(steps)) if (steps == np.round(steps)).all() else 0
            whole[code] = max(whole[code], distinct if distinct <= codes.shape[1] / MOST_DISTINCT else 0)
    for name, metric in plan:
        bins, source = metric.all_options.get("bins"), metric.source.name
        if bins and source == _SAMPLED:
            limit = metric.all_options["limit"]
            placed = codes if offset is None else codes + offset[:, None, :]
            outside = (np.abs(placed) > limit).mean(axis=(0, 1))
            if (outside > FEW_OUTSIDE).any():
                text = (
                    f"{_codes(outside > FEW_OUTSIDE)}: up to {outside.max():.0%} of samples lie beyond the bins from "
                    f"−{limit:g} to {limit:g} and count in the outermost ones; standardize codes, or choose limit="
                )
                found.append((name, text))
        elif bins and source in (*_OF_BINS, "code_information") and (whole > bins).any():
            most = whole.max()
            text = (
                f"{_codes(whole > bins)}: {bins} bins merge up to {most} whole numbers; choose bins={most} if "
                "neighbors among them mean different things, as indices of a code book do"
            )
            found.append((name, text))
        if far.any() and (metric.reads_factors):
            text = "so far from 0 that float32 keeps few digits; subtract the mean before codes become float32"
            found.append((name, f"{_codes(far)}: {text}"))
    return found


def _codes(which: np.ndarray) -> str:
    return some_of(f"code {code}" for code in np.flatnonzero(which))


def _of_factors(metric: Metric, factors: list[Known]) -> Iterator[str]:
    constant = [factor.name for factor in factors if factor.values == 1]
    if constant:
        yield f"{_listed(constant)} has one value alone, of which codes can know nothing; it is left out"
    continuous = [factor.name for factor in factors if factor.size is None and factor.values > 1]
    if metric.source.needs_classes and continuous:
        yield f"{_listed(continuous)} is continuous and left out; Factors.binned cuts it into classes"
    nominal = [factor.name for factor in factors if factor.nominal and factor.values > 1]
    if metric.source.needs_order and nominal:
        yield (
            f"{_listed(nominal)} has classes without an order and is left out; declare one by kinds={{{nominal[0]!r}: "
            "('ordered', …)}"
        )
    elif metric.source.traits.of_values and metric.source.name not in _BY_SPLITS and nominal:
        yield (
            f"{_listed(nominal)} has classes without an order, which are read as indicators; if they have one, declare "
            f"it by kinds={{{nominal[0]!r}: ('ordered', …)}}"
        )
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


def _of_held_out(name: str, metric: Metric, parts: Mapping, names: list[str], unjudged) -> Iterator[str]:
    """Whether a metric left out factors that do not vary in held-out samples, as a part says by NaN."""
    fields = [Column(name, field) for field, letters in metric.axes.items() if letters[-1] == "k"]
    found = [parts[field] for field in fields if field in parts]
    left = [factor for factor in unjudged if any(np.isnan(part[..., names.index(factor)]).all() for part in found)]
    if left:
        yield (
            f"{_listed(left)} has one value alone in the samples that are learned from or held out; what is judged "
            "there leaves it out"
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


def _of_scores(name: str, metric: Metric, columns: Mapping, samples: int) -> Iterator[str]:
    row = next((row.about for row in METRICS.values() if row == metric), None)
    for field, (low, high) in row.chance.items() if row is not None and samples >= FEW_SAMPLES else ():
        column = Column(name, field)
        if field == "train" or column not in columns:
            continue
        scores = columns[column]
        values, error = np.atleast_1d(scores), field in metric.errors
        values = values[np.isfinite(values)]
        whose = "" if field == "score" else f"{field}: "
        by_chance = values >= low if error else values <= high
        if high - low <= WIDEST_CHANCE and by_chance.any():
            who = f"{by_chance.sum()} of {values.size} members are" if np.ndim(scores) else f"{mean(values):.2f} is"
            yield f"{whose}{who} at chance level ({low:g} to {high:g})"
        at_end = values <= ROUNDING if error else np.abs(values - 1) <= ROUNDING
        if values.size and at_end.all():
            who = "all members are" if values.size > 1 else "the score is"
            yield f"{whose}{who} at the best possible value; this metric cannot rank better representations"
        if not error and high <= 1 and (values > 1 + ROUNDING).any():
            yield f"{whose}scores above 1 occur with continuous factors, whose information has no upper limit"


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"each of {some_of(names)}"
