"""How much a score depends on its options and sample size, over a zoo."""

import itertools
import numbers
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from jaxdis._core import random
from jaxdis._core.display import Progress, reported
from jaxdis._core.lookup import some_of
from jaxdis._core.options import shown
from jaxdis._core.precision import single_precision
from jaxdis.evaluation._evaluate import check_arguments
from jaxdis.evaluation._request import Request
from jaxdis.evaluation._run import run
from jaxdis.metrics import Metric
from jaxdis.metrics._metric import metric_seed
from jaxdis.metrics._plan import plan_of

SEED = metric_seed("sample curve")


class Sweep(NamedTuple):
    """A metric's scores under several settings.

    Attributes:
      settings: one dict with options per setting.
      score: ``[settings, m]``, the headline field.
      rank_correlation: ``[settings, settings]``, Spearman's over members; NaN for fewer than two members.
      columns: the metric's columns, ``[settings, m]`` each.
    """

    settings: tuple[dict[str, Any], ...]
    score: np.ndarray
    rank_correlation: np.ndarray
    columns: dict[str, np.ndarray]

    def plot(self, *, ax=None):
        """Draw a line per member over the settings, on a new figure or on matplotlib axes; return the figure."""
        from jaxdis import plots

        names = [", ".join(f"{name}={value}" for name, value in setting.items()) for setting in self.settings]
        return plots.member_lines(self.score, names, ax=ax)


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
def sweep(
    codes,
    factors,
    metric: str | Metric,
    key: PRNGKeyArray | int | None = None,
    *,
    column: str | None = None,
    arguments: Mapping[str, Any] | None = None,
    progress: Progress = False,
    **options: Sequence,
) -> Sweep:
    """Compute one metric under all combinations of option values, in one program.

    ``sweep(codes, factors, "mig", bins=[10, 20, 50])`` shows whether a zoo's ranking depends on how many bins there
    are.

    Args:
      codes: ``[m, n, d]`` (or ``[n, d]``, one member).
      factors: as :func:`jaxdis.evaluate`.
      metric: a name or a metric.
      key: shared by all settings.
      column: the metric's field to take as headline, such as ``"completeness"``; the first one when None.
      arguments: passed to :func:`jaxdis.evaluate`.
      progress: as :func:`jaxdis.evaluate`.
      options: the values to try for each option; the last varies fastest.

    Raises:
      ValueError: for an option that the metric does not have, or none at all.

    Reference: Locatello et al. 2020, §6.2; Mahon et al. 2024, §5 (how much metrics depend on their settings).
    """
    metric, arguments = _one(metric), check_arguments(arguments)
    options = {name: values_to_try(name, values) for name, values in options.items()}
    if not options or not all(options.values()):
        names = sorted(metric.all_options)
        raise ValueError(f"options: must have at least one with values to try; the options are {names}")
    settings = tuple(dict(zip(options, values, strict=True)) for values in itertools.product(*options.values()))
    plan = {str(row): metric.with_options(**setting) for row, setting in enumerate(settings)}
    results = run(Request.of(codes, factors, plan, key, **{"progress": progress, **arguments})).metrics
    each = [numbers_of(results[name]) for name in plan]
    columns = {field: np.stack([numbers[field] for numbers in each]) for field in each[0]}
    score = columns[_headline(column, list(columns))]
    return Sweep(settings, score, rank_correlation(score, score), columns)


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
    arguments = check_arguments(arguments)
    for name in ("test", "weights", "variances", "groups"):
        if arguments.get(name) is not None:
            raise ValueError(f"arguments: `{name}` cannot be used with sample_curve, which draws its own subsets")
    request = Request.of(codes, factors, {"0": _one(metric)}, key, groups=groups, **arguments)
    n, key, groups = request.members.codes.shape[1], request.shared.key, request.shared.groups
    sizes = check_sizes("sizes", sizes, n)
    groups = None if groups is None else np.asarray(groups)
    order = np.asarray(random.shuffled_rows(jax.random.fold_in(key, SEED), groups, n))
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
    score = columns[_headline(column, list(columns))]
    across = rank_correlation(score[:, 0], score[:, 1])
    return SampleCurve(np.array(sizes), score, (across + across.T) / 2, np.array(overlap), columns)


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
    """Values to try."""
    values = values.tolist() if isinstance(values, np.ndarray) and values.ndim == 1 else values
    if isinstance(values, str | bytes) or not isinstance(values, Sequence | range):
        raise ValueError(f"{name}: must be a sequence of values to try, got {shown(values)}")
    return tuple(values)


def check_sizes(name: str, sizes, n: int) -> tuple[int, ...]:
    """Sample sizes from 2 to n."""
    sizes = values_to_try(name, sizes)
    if not sizes or not all(isinstance(size, numbers.Integral) and 2 <= size <= n for size in sizes):
        raise ValueError(f"{name}: must have numbers of samples from 2 to {n}, got {shown(sizes)}")
    return sizes


def _one(metric: str | Metric) -> Metric:
    return plan_of([metric] if isinstance(metric, str) else {"metric": metric})[0][1]


def _headline(column: str | None, fields: list[str]) -> str:
    if column is not None and (not isinstance(column, str) or column not in fields):
        raise ValueError(f"column: must be one of {some_of(fields)}, got {shown(column)}")
    return fields[0] if column is None else column
