"""Whether one set of representations scores higher than another, by how much, and how sure that is."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import stats

from jaxdis._core.files import csv_text, read_csv_columns, write_text
from jaxdis._core.html_table import html_table
from jaxdis._core.options import Level, checked, shown
from jaxdis.evaluation._member_rows import NAME
from jaxdis.evaluation._results import Scores

# With fewer members, or pairs of them, there is neither an interval nor a test.
FEWEST = 3
# A difference counts as sure below this p-value; members to come should show it this often.
SURE, POWER = 0.05, 0.8
MOST_MEMBERS = 1000
# What the tables of scores hold beside scores.
_BESIDE = (".error", ".bias", ".low", ".high")


class Row(NamedTuple):
    """The comparison of one column; NaN where too few members have a score.

    Attributes:
      metric: the column.
      first, second: mean of each set.
      difference, low, high: mean of the second minus that of the first, and its interval.
      p: two-sided p-value of Student's test for pairs, or of Welch's.
      adjusted: ``p`` corrected for the number of columns (Holm).
      effect: the difference in standard deviations: of the pairs' differences, or of the members of both sets.
      members: members (or pairs) of each set with which a difference of this size would be found in four of five
        comparisons, at p < .05 without correction; 1,000 stands for that or more.
    """

    metric: str
    first: float
    second: float
    difference: float
    low: float
    high: float
    p: float
    adjusted: float
    effect: float
    members: float


@dataclasses.dataclass(frozen=True)
class Comparison:
    """What :func:`compare` returns; it prints as a table, in notebooks too.

    Attributes:
      rows: one :class:`Row` per column.
      test: what was computed, in words.
    """

    rows: tuple[Row, ...]
    test: str

    def sentences(self) -> list[str]:
        """Say for each column what is known, and what would be needed to know more."""
        return [_sentence(row) for row in self.rows]

    def to_csv(self, path: str | Path | None = None) -> str:
        """Comma-separated text, a row per column; written to ``path`` if given."""
        text = csv_text(list(Row._fields), self.rows)
        if path is not None:
            write_text(path, text)
        return text

    def to_pandas(self):
        """A data frame of the rows; needs pandas."""
        import pandas

        return pandas.DataFrame(self.rows)

    def _repr_html_(self) -> str:
        return html_table(self.test, Row._fields, self.rows, self.sentences())

    def __repr__(self) -> str:
        return "\n".join([self.test, *self.sentences()])


@checked
def compare(
    a, b, *, paired: str | None = None, metrics: Sequence[str] | None = None, level: Level = 0.95
) -> Comparison:
    """Compare the scores of two sets of members, such as two models under several seeds.

    Args:
      a, b: scores of each set: a :class:`~jaxdis.Scores`, a file that :meth:`Scores.save` wrote, a CSV file with a row
        per member, or a mapping of columns ``[m]``.
      paired: a column of the members' metadata, such as ``"seed"``, whose equal values make pairs. None: the sets are
        independent.
      metrics: the columns to compare; None: all that both have.
      level: of the intervals.

    Returns:
      A :class:`Comparison`. Means are compared by Student's test for pairs, or by Welch's test, which does not assume
      equal variances. The members of a set must be independent of each other, as models with different seeds are;
      several codes of one model are not.

    Raises:
      ValueError: for sets without a common column, for unknown columns, and for pairs that are not unique.

    Reference: Welch 1947; Holm 1979.

    Example:
      >>> narrow = {"seed": [0, 1, 2, 3], "mig": [0.21, 0.24, 0.19, 0.23]}
      >>> wide = {"seed": [0, 1, 2, 3], "mig": [0.31, 0.33, 0.30, 0.33]}
      >>> print(jaxdis.compare(narrow, wide, paired="seed"))
      second minus first, 4 pairs of the same seed, Student's test
      mig: higher by 0.1 (0.087 to 0.113), p = 0.00015
    """
    tables = [_table(name, given) for name, given in (("a", a), ("b", b))]
    columns = [name for name in tables[0][0] if name in tables[1][0] and name not in (paired, "seed", NAME)]
    for name in metrics or ():
        if name not in columns:
            raise ValueError(f"metrics: must be columns of both, {', '.join(columns)}, got {shown(name)}")
    columns = list(columns if metrics is None else metrics)
    if not columns:
        raise ValueError("a, b: must have a column of scores in common, got none")
    first, second = (np.stack([table[name] for name in columns], axis=1) for table, _ in tables)
    if paired is not None:
        places = [_places(side, metadata, paired) for side, (_, metadata) in zip("ab", tables, strict=True)]
        common = [value for value in places[0] if value in places[1]]
        if not common:
            raise ValueError(f"paired: must have values that occur in both sets, got none of {shown(paired)}")
        first, second = (rows[[place[v] for v in common]] for rows, place in zip((first, second), places, strict=True))
    found = [_compared(x, y, paired is not None, level) for x, y in zip(first.T, second.T, strict=True)]
    adjusted = holm([row.p for row in found])
    rows = [row._replace(metric=name, adjusted=p) for row, name, p in zip(found, columns, adjusted, strict=True)]
    how = f"{len(first)} pairs of the same {paired}, Student's test"
    how = how if paired is not None else f"{len(first)} and {len(second)} members, Welch's test"
    return Comparison(tuple(rows), f"second minus first, {how}")


def holm(p: Sequence[float]) -> list[float]:
    """Correct p-values so that the chance of any false finding among them stays what it was for one; NaN stays."""
    p = np.asarray(p, float)
    order = np.argsort(p)  # NaN last
    count = int(np.isfinite(p).sum())
    steps = np.maximum.accumulate(np.minimum(1.0, p[order[:count]] * np.arange(count, 0, -1)))
    corrected = np.full(len(p), math.nan)
    corrected[order[:count]] = steps
    return corrected.tolist()


def _compared(x: np.ndarray, y: np.ndarray, paired: bool, level: float) -> Row:
    """The comparison of one column, without its name."""
    if paired:
        both = np.isfinite(x) & np.isfinite(y)
        x, y = x[both], y[both]
    x, y = x[np.isfinite(x)], y[np.isfinite(y)]
    if min(len(x), len(y)) < FEWEST:
        means = [float(each.mean()) if len(each) else math.nan for each in (x, y)]
        return Row("", *means, means[1] - means[0], *[math.nan] * 6)
    if paired:
        gaps = y - x
        error, freedom, spread = stats.sem(gaps), len(gaps) - 1, gaps.std(ddof=1)
    else:
        parts = np.array([each.var(ddof=1) / len(each) for each in (x, y)])
        error = math.sqrt(parts.sum())
        freedom = parts.sum() ** 2 / (parts**2 / [len(x) - 1, len(y) - 1]).sum() if error > 0 else math.inf
        spread = math.sqrt((x.var(ddof=1) + y.var(ddof=1)) / 2)
    difference = float(y.mean() - x.mean())
    reach = float(stats.t.isf((1 - level) / 2, freedom) * error)
    if error > 0:
        p, effect = float(2 * stats.t.sf(abs(difference) / error, freedom)), difference / float(spread)
    else:  # every member has the same score
        p, effect = (0.0, math.copysign(math.inf, difference)) if difference else (1.0, 0.0)
    needed = _members_needed(abs(effect), paired)
    bounds = difference - reach, difference + reach
    return Row("", float(x.mean()), float(y.mean()), difference, *bounds, p, p, effect, needed)


def _members_needed(effect: float, paired: bool) -> float:
    """The least number of members of each set, or of pairs, whose test finds an effect with a probability of .8."""
    if not math.isfinite(effect):
        return float(FEWEST)
    n = np.arange(FEWEST, MOST_MEMBERS + 1)
    freedom, shift = (n - 1, effect * np.sqrt(n)) if paired else (2 * (n - 1), effect * np.sqrt(n / 2))
    found = stats.nct.sf(stats.t.isf(SURE / 2, freedom), freedom, shift) >= POWER
    return float(n[found.argmax()]) if found.any() else float(MOST_MEMBERS)


def _sentence(row: Row) -> str:
    size = f"{row.metric}: {'higher' if row.difference > 0 else 'lower'} by {abs(row.difference):.3g}"
    if math.isnan(row.p):
        return f"{size}; a test needs {FEWEST} members of each"
    within = f"{size} ({min(row.low, row.high):.3g} to {max(row.low, row.high):.3g}), p = {row.adjusted:.2g}"
    if row.adjusted < SURE:
        return within
    more = f"{row.members:.0f}" if row.members < MOST_MEMBERS else f"{MOST_MEMBERS:,} or more"
    return f"{within}: not sure; {more} members of each would show a difference of this size"


def _table(argument: str, given) -> tuple[dict[str, np.ndarray], dict[str, Sequence]]:
    """Columns of numbers ``[m]``, and all columns by which members can be paired.

    Raises:
      ValueError: for anything else than scores.
    """
    if isinstance(given, str | Path):
        given = _read(Path(given))
    if isinstance(given, Scores):
        known = {name for row in given.members for name in row}
        metadata = {name: [row.get(name) for row in given.members] for name in known}
        return {name: np.atleast_1d(np.asarray(column, float)) for name, column in given.items()}, metadata
    if not isinstance(given, Mapping) or not given:
        raise ValueError(f"{argument}: must be Scores, a file, or a mapping of columns, got {shown(given)}")
    columns = {str(name): np.asarray(column) for name, column in given.items()}
    if len({column.shape for column in columns.values()}) > 1 or next(iter(columns.values())).ndim != 1:
        raise ValueError(f"{argument}: must have columns of one length, got {[c.shape for c in columns.values()]}")
    numbers = {n: c.astype(float) for n, c in columns.items() if c.dtype.kind in "fiu" and not n.endswith(_BESIDE)}
    return numbers, {name: column.tolist() for name, column in columns.items()}


def _read(path: Path) -> Scores | dict[str, Any]:
    if path.suffix == ".npz":
        return Scores.load(path)
    if path.suffix != ".csv":
        raise ValueError(f"{path}: must be a file written by Scores.save (.npz) or a .csv, got {path.suffix or path}")
    return read_csv_columns(path)


def _places(side: Literal["a", "b"], metadata: Mapping[str, Sequence], name: str) -> dict[Any, int]:
    """Where each value of a column is."""
    if name not in metadata:
        raise ValueError(f"paired: must be one of {', '.join(sorted(metadata))}, got {shown(name)} for {side}")
    values = list(metadata[name])
    if len(set(values)) < len(values):
        twice = next(value for value in values if values.count(value) > 1)
        raise ValueError(f"paired: must have values that differ in {side}, got {shown(twice)} more than once")
    return {value: place for place, value in enumerate(values)}
