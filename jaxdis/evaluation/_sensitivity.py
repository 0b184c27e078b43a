"""How far scores and a zoo's ranking depend on options, sample sizes and seeds, and which choice matters most."""

import dataclasses
import itertools
import math
import numbers
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from jaxdis._core import random
from jaxdis._core.display import Progress, html_table, reported
from jaxdis._core.files import csv_text
from jaxdis._core.options import Count, Seed, checked_value, shown, some_of
from jaxdis._core.precision import single_precision
from jaxdis.evaluation._evaluate import check_arguments
from jaxdis.evaluation._request import Request
from jaxdis.evaluation._run import run
from jaxdis.metrics import Metric
from jaxdis.metrics._metric import metric_seed
from jaxdis.metrics._plan import plan_of

SEED, CURVE_SEED = metric_seed("sensitivity"), metric_seed("sample curve")
SAMPLES, SEEDS = "samples", "seed"
# A share, or a rank correlation below 1, up to this may come from rounding alone.
ROUNDING = 1e-9


class Setting(NamedTuple):
    """The ranking by a metric when one choice is changed, beside the ranking by its default.

    Attributes:
      metric: the metric.
      choice: a metric's option, ``"samples"`` or ``"seed"``.
      value: what was chosen instead of the default; all other choices are at their defaults.
      tau: Kendall's rank correlation between the members' scores and those by default (τ-b).
      flipped: the share of member pairs whose order is reversed.
      shift: the members' mean score minus that by default.
    """

    metric: str
    choice: str
    value: object
    tau: float
    flipped: float
    shift: float


class Choice(NamedTuple):
    """How much a choice matters for the ranking by a metric.

    Attributes:
      metric: the metric.
      choice: a metric's option, ``"samples"`` or ``"seed"``.
      default: the value with which others are compared.
      share: how much of the variance between members comes from this choice, alone or with other choices (Sobol's total
        effect). What shifts all members alike does not count.
      tau, flipped: for the value that changes the ranking most.
    """

    metric: str
    choice: str
    default: object
    share: float
    tau: float
    flipped: float


@dataclasses.dataclass(frozen=True)
class Sensitivity:
    """What :func:`sensitivity` returns; it prints as a table, in notebooks too.

    Attributes:
      choices: one :class:`Choice` per metric and choice.
      settings: one :class:`Setting` per value that is no default.
      scores: for each metric, all scores ``[m, *choices]``, ordered as in ``axes``.
      axes: for each metric, the values that its choices took, ordered like the axes of ``scores``.
    """

    choices: tuple[Choice, ...]
    settings: tuple[Setting, ...]
    scores: dict[str, np.ndarray]
    axes: dict[str, dict[str, tuple]]

    def sentences(self) -> list[str]:
        """Say for each metric which choice matters most: which one alone reverses most pairs."""
        return [
            _sentence(name, [row for row in self.choices if row.metric == name], _changing(scores, self.axes[name]))
            if _defined(scores).sum() > 1
            else f"{name}: fewer than two members have a number under all choices"
            for name, scores in self.scores.items()
        ]

    def to_csv(self, path: str | Path | None = None) -> str:
        """The settings as comma-separated text, a row for each; written to ``path`` if given."""
        return csv_text(Setting._fields, self.settings, path)

    def to_pandas(self):
        """The settings as a data frame; needs pandas."""
        import pandas

        return pandas.DataFrame(self.settings)

    def plot(self, *, ax=None):
        """Draw each choice's share under each metric, on a new figure or on matplotlib axes; return the figure."""
        from jaxdis import plots

        names = list(dict.fromkeys(row.choice for row in self.choices))
        shares = {(row.metric, row.choice): row.share for row in self.choices}
        matrix = [[shares.get((metric, name), math.nan) for name in names] for metric in self.axes]
        return plots.heat_map(np.array(matrix), list(self.axes), names, most=1.0, form=".1%", ax=ax)

    def _repr_html_(self) -> str:
        return html_table("Which choices move the ranking", Choice._fields, self.choices, self.sentences())

    def __repr__(self) -> str:
        return "\n".join(self.sentences())


@single_precision
def sensitivity(
    codes,
    factors,
    metrics: str | Sequence | Mapping = "standard",
    key: PRNGKeyArray | int | None = None,
    *,
    options: Mapping | None = None,
    samples: Sequence[int] | None = None,
    seeds: Sequence[int] | int = 1,
    groups=None,
    arguments: Mapping | None = None,
    progress: Progress = False,
) -> Sensitivity:
    """Compute how far a zoo's ranking by each metric depends on options, samples and seeds.

    All choices are combined, and each combination costs one evaluation, in which metrics share what they read.

    Args:
      codes: ``[m, n, d]``, at least three members.
      factors: as :func:`jaxdis.evaluate`.
      metrics: as in :func:`jaxdis.evaluate`; the first field is ranked.
      key: PRNG key, or a seed.
      options: values to try for the metrics' options, ``{"bins": (10, 20, 50)}``; a metric without the option keeps
        what it has. The metric's default is tried as well.
      samples: sample sizes to try, each from 2 to n; the largest is the default. All samples when None.
      seeds: how many seeds to try, or which. Each draws other samples, if there are fewer than all, and other random
        numbers for stochastic metrics; the first is the default.
      groups: which samples belong together, ``[n]``, as in :func:`jaxdis.evaluate`. Smaller sample sizes take whole
        groups, the last of which is cut.
      arguments: passed to :func:`jaxdis.evaluate`; arrays with a row per sample are refused.
      progress: True draws a bar over evaluations; a function is called with how many are finished and how many there
        are.

    Returns:
      A :class:`Sensitivity`. A metric ranks the members for which it is a number under all choices.

    Raises:
      ValueError: for fewer than three members, an option that no metric has, or nothing to choose.

    Reference: Locatello et al. 2020, §6.2; Sobol 2001 (total effects); Kendall 1945 (τ-b).

    Example:
      >>> codes, factors, _ = jaxdis.data.example()
      >>> choices = {"options": {"bins": (10, 40)}, "samples": (500, 2000)}
      >>> jaxdis.sensitivity(codes, factors, ["mig", "sap_r2"], **choices)
      mig: bins matters most: it reverses up to 5.5% of pairs (τ = 0.89), with 1.2% of the members' variance
      sap_r2: samples matters most: it reverses up to 4.8% of pairs (τ = 0.90), with 0.5% of the members' variance
    """
    plan = plan_of(metrics)
    arguments = _without_samples(arguments, "test", "weights", "variances", "validation", "groups")
    options = {name: values_to_try(name, values) for name, values in (options or {}).items()}
    choices = {name: _choices(metric, options) for name, metric in plan}
    for option in options:
        if not any(option in own for own in choices.values()):
            known = sorted(set().union(*(metric.all_options for _, metric in plan)))
            raise ValueError(f"options: must be among {', '.join(known)} for these metrics, got {shown(option)}")
    settings = [
        (name, metric.with_options(**dict(zip(choices[name], values, strict=True))))
        for name, metric in plan
        for values in itertools.product(*choices[name].values())
    ]
    columns = tuple((str(place), metric) for place, (_, metric) in enumerate(settings))
    request = Request.of(codes, factors, key=key, plan=columns, groups=groups, **arguments)
    m, n, _ = request.members.codes.shape
    if m < 3:
        raise ValueError(f"codes: must have at least three members, to be ranked, got {m}")
    sizes = (n,) if samples is None else check_sizes("samples", samples, n)
    sizes = tuple(sorted(set(map(int, sizes)), reverse=True))
    seeds = range(checked_value("seeds", Count, seeds)) if isinstance(seeds, int) else values_to_try("seeds", seeds)
    seeds = tuple(dict.fromkeys(checked_value("seeds", Seed, seed) for seed in seeds))
    if not seeds:
        raise ValueError("seeds: must be at least one, got none")
    if len(sizes) * len(seeds) == 1 and not any(choices.values()):
        raise ValueError("options: must be given, or several samples or seeds, got nothing to choose from")
    tables = {name: [] for name, _ in plan}
    with reported(progress, "scoring", "evaluations") as show:
        for done, (size, seed) in enumerate(itertools.product(sizes, seeds), 1):
            seed_key, rows = jax.random.fold_in(jax.random.fold_in(request.shared.key, SEED), seed), np.arange(n)
            if size < n:  # smaller samples are subsets of larger ones
                rows = np.sort(np.asarray(random.shuffled_rows(seed_key, request.shared.groups, n))[:size])
            results = run(request.at(rows, seed_key)).metrics
            for (name, _), (place, _) in zip(settings, request.plan, strict=True):
                tables[name].append(next(iter(numbers_of(results[place]).values())))  # a metric's first field
            show(done, len(sizes) * len(seeds), f"{size:,} samples, seed {seed}")
    axes, arrays, rows = {}, {}, ([], [])
    for name, _ in plan:
        counts = [len(values) for values in choices[name].values()]
        table = np.array(tables[name], float).reshape(len(sizes), len(seeds), *counts, m)
        order = (-1, *range(2, 2 + len(counts)), 0, 1)
        arrays[name], axes[name] = table.transpose(order), choices[name] | {SAMPLES: sizes, SEEDS: seeds}
        for kept, new in zip(rows, _rows(name, arrays[name], axes[name]), strict=True):
            kept += new
    return Sensitivity(tuple(rows[0]), tuple(rows[1]), arrays, axes)


def _choices(metric: Metric, options: Mapping[str, tuple]) -> dict[str, tuple]:
    """Values, as Python's own types, for the options that the metric has; its own value first."""
    kept = {}
    for name in (name for name in options if name in metric.all_options):
        tried = (metric.with_options(**{name: value}).all_options[name] for value in options[name])
        kept[name] = tuple(dict.fromkeys([metric.all_options[name], *tried]))
    return kept


def _rows(name: str, scores: np.ndarray, axes: Mapping[str, tuple]) -> tuple[list[Choice], list[Setting]]:
    """What each choice does to the members' scores ``[m, *choices]``, whose defaults come first."""
    defined = _defined(scores)
    scores = scores[defined] if defined.any() else np.full((1, *scores.shape[1:]), np.nan)
    default = scores[(slice(None), *[0] * len(axes))]
    gaps = scores - scores.mean(axis=0)  # what shifts all members alike does not rank them
    total = (gaps**2).mean()
    choices, settings = [], []
    for axis, (choice, values) in enumerate(axes.items(), 1):
        if len(values) == 1:
            continue
        along = np.moveaxis(scores, axis, 0)
        others = along[(slice(1, None), slice(None), *[0] * (len(axes) - 1))]
        rows = [
            Setting(name, choice, value, *order_of(default, changed), float((changed - default).mean()))
            for value, changed in zip(values[1:], others, strict=True)
        ]
        share = float(gaps.var(axis=axis).mean() / total) if total > 0 else math.nan
        worst = max(rows, key=lambda row: (row.flipped, -row.tau))
        choices.append(Choice(name, choice, values[0], share, worst.tau, worst.flipped))
        settings += rows
    return choices, settings


def _defined(scores: np.ndarray) -> np.ndarray:
    """Which members ``[m]`` have a number under all choices."""
    return np.isfinite(scores).all(axis=tuple(range(1, scores.ndim)))


def order_of(first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
    """Kendall's τ-b between two arrays ``[m]``, and the share of pairs whose order is reversed.

    Both are NaN for fewer than two members, and τ for scores that are all equal.
    """
    from scipy import stats

    pairs = math.comb(len(first), 2)
    if pairs == 0:
        return math.nan, math.nan
    both = first, second, np.stack([first, second], axis=1)
    counts = (np.unique(values, axis=0, return_counts=True)[1] for values in both)
    tied = [int((count * (count - 1) // 2).sum()) for count in counts]
    if max(tied[:2]) == pairs:
        return math.nan, 0.0
    tau = float(stats.kendalltau(first, second).statistic)
    untied = pairs - tied[0] - tied[1] + tied[2]  # in both
    agreed = tau * math.sqrt((pairs - tied[0]) * (pairs - tied[1]))  # less those that are reversed
    return tau, round((untied - agreed) / 2) / pairs


def _changing(scores: np.ndarray, axes: Mapping[str, tuple]) -> set[str]:
    """The choices that alone, all others at their defaults, change any member's score ``[m, *choices]``."""
    default = scores[(slice(None), *[slice(1)] * len(axes))]
    found = set()
    for axis, choice in enumerate(axes, 1):
        alone = scores[(slice(None), *(slice(None) if each == axis else slice(1) for each in range(1, scores.ndim)))]
        if (alone != default).any():
            found.add(choice)
    return found


def _sentence(metric: str, rows: Sequence[Choice], changing: Collection[str]) -> str:
    """Which choice matters most for a metric: the one that reverses most pairs, of those that change scores alone.

    A seed draws nothing where all samples are the default and no random number is read, whatever share it has among
    smaller samples.
    """
    if not any(row.share > ROUNDING or row.flipped > 0 for row in rows):
        return f"{metric}: no choice changes the ranking"
    rows = [row for row in rows if row.choice in changing]
    if not rows:
        return f"{metric}: no choice alone changes a score, only several together"
    worst = max(rows, key=lambda row: (row.flipped, -np.nan_to_num(row.tau, nan=-1.0), row.share))
    share = f"{worst.share:.1%} of the members' variance"
    if worst.flipped > 0:
        found = f"it reverses up to {worst.flipped:.1%} of pairs (τ = {worst.tau:.2f})"
        return f"{metric}: {worst.choice} matters most: {found}, with {share}"
    alone = "leaves the ranking unchanged" if worst.tau > 1 - ROUNDING else "makes ties or breaks them"
    return f"{metric}: no choice alone reverses a pair; {worst.choice} comes nearest, with {share}: alone it {alone}"


class SampleCurve(NamedTuple):
    """Scores from two runs, on separate samples, per sample size.

    Attributes:
      sizes: ``[s]``, how many samples were taken.
      score: ``[s, 2, m]``, both runs' headline field.
      rank_correlation: ``[s, s]``, over members, between one run at a size and the other run at another; on the
        diagonal, between both runs at one size.
      overlap: ``[s]``, what share of samples both runs use.
      columns: the metric's columns, ``[s, 2, m]`` each.
    """

    sizes: np.ndarray
    score: np.ndarray
    rank_correlation: np.ndarray
    overlap: np.ndarray
    columns: dict[str, np.ndarray]

    def plot(self, *, ax=None):
        """Draw a line per member, the mean over its runs, against the sample size; return the figure."""
        from jaxdis import plots

        return plots.member_lines(self.score.mean(axis=1), [f"{size:,} samples" for size in self.sizes], ax=ax)


@single_precision
def sample_curve(
    codes,
    factors,
    metric: str | Metric,
    key: PRNGKeyArray | int | None = None,
    *,
    sizes: Sequence[int] = (100, 1000, 10000),
    groups=None,
    column: str | None = None,
    arguments: Mapping[str, Any] | None = None,
    progress: Progress = False,
) -> SampleCurve:
    """Compute one metric against the sample size, twice per size: how many samples does a ranking need?

    The two runs at a size share no samples as long as twice that many samples are available; otherwise they overlap,
    which inflates their agreement, and ``overlap`` is the share in common. Within a run, smaller samples are subsets of
    larger ones.

    Args:
      codes: ``[m, n, d]`` (or ``[n, d]``, one member).
      factors: as :func:`jaxdis.evaluate`.
      metric: a name or a metric.
      key: also determines the samples.
      sizes: how many samples to take, each from 2 to n.
      groups: which samples belong together, ``[n]``, as in :func:`jaxdis.evaluate`. Whole groups are taken, the last of
        which is cut, and ``overlap`` counts the samples whose group both runs use.
      column: the metric's field to take as headline; the first one when None.
      arguments: passed to :func:`jaxdis.evaluate`; other arrays with a row per sample (``test``, ``weights``,
        ``variances``) are refused.
      progress: True draws a bar; a function is called with how many runs are finished and how many there are.

    Raises:
      ValueError: for a size outside that range.

    Reference: Locatello et al. 2020, §6.2 (rank correlation between two runs at 100 and at 10,000 samples).
    """
    arguments = _without_samples(arguments, "test", "weights", "variances", "groups")
    ((_, metric),) = plan_of([metric] if isinstance(metric, str) else {"metric": metric})
    request = Request.of(codes, factors, {"0": metric}, key, groups=groups, **arguments)
    n, key, groups = request.members.codes.shape[1], request.shared.key, request.shared.groups
    sizes = check_sizes("sizes", sizes, n)
    groups = None if groups is None else np.asarray(groups)
    order = np.asarray(random.shuffled_rows(jax.random.fold_in(key, CURVE_SEED), groups, n))
    both, overlap = [], []
    with reported(progress, "scoring", "runs") as show:
        for size in map(int, sizes):
            runs, taken = [], (order[:size], order[::-1][:size])
            together = taken if groups is None else [groups[rows] for rows in taken]
            overlap.append(float(np.isin(*together).mean()))
            for number, rows in enumerate(taken):
                results = run(request.at(rows, jax.random.fold_in(key, number)))
                runs.append(numbers_of(results.metrics["0"]))
                show(2 * len(both) + number + 1, 2 * len(sizes), f"{size:,} samples")
            both.append({field: np.stack([numbers[field] for numbers in runs]) for field in runs[0]})
    columns = {field: np.stack([numbers[field] for numbers in both]) for field in both[0]}
    if column is not None and (not isinstance(column, str) or column not in columns):
        raise ValueError(f"column: must be one of {some_of(list(columns))}, got {shown(column)}")
    score = columns[column or next(iter(columns))]
    across = rank_correlation(score[:, 0], score[:, 1])
    return SampleCurve(np.array(sizes), score, (across + across.T) / 2, np.array(overlap), columns)


def _without_samples(arguments: Mapping | None, *refused: str) -> dict:
    """Check what is passed on to :func:`jaxdis.evaluate`, less arrays with a row per sample."""
    arguments = check_arguments(arguments)
    for name in refused:
        if arguments.get(name) is not None:
            raise ValueError(f"arguments: must have no `{name}`, since subsets of the samples are drawn, got one")
    return arguments


def numbers_of(result: tuple) -> dict[str, np.ndarray]:
    """The fields ``[m]`` of a metric's result."""
    return {field: values for field, values in result._asdict().items() if values is not None and values.ndim == 1}


def rank_correlation(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Spearman's correlation between each row of ``[a, m]`` and each of ``[b, m]``: ``[a, b]``.

    Ties share the middle rank; NaN for a row that is constant or not finite, and for fewer than two members.
    """

    from scipy.stats import rankdata

    def standardized(rows):
        rows = np.asarray(rows, float)
        ranks = np.where(np.isfinite(rows).all(axis=1, keepdims=True), rankdata(rows, axis=1), np.nan)
        ranks = ranks - ranks.mean(axis=1, keepdims=True)
        size = np.sqrt((ranks**2).sum(axis=1, keepdims=True))
        return np.divide(ranks, size, out=np.full_like(ranks, np.nan), where=size > 0)

    return np.clip(standardized(left) @ standardized(right).T, -1, 1)


def values_to_try(name: str, values) -> tuple:
    values = values.tolist() if isinstance(values, np.ndarray) and values.ndim == 1 else values
    if isinstance(values, str | bytes) or not isinstance(values, Sequence | range):
        raise ValueError(f"{name}: must be a sequence of values to try, got {shown(values)}")
    return tuple(values)


def check_sizes(name: str, sizes, n: int) -> tuple[int, ...]:
    sizes = values_to_try(name, sizes)
    if not sizes or not all(isinstance(size, numbers.Integral) and 2 <= size <= n for size in sizes):
        raise ValueError(f"{name}: must have numbers of samples from 2 to {n}, got {shown(sizes)}")
    return sizes
