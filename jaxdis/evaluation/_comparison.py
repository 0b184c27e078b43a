"""Which representations score higher than others, by how much, and how sure that is."""

import collections
import dataclasses
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxdis._core.display import html_table
from jaxdis._core.files import csv_text, read_csv_columns
from jaxdis._core.finite import finite, mean
from jaxdis._core.options import Level, checked, shown, some_of
from jaxdis._core.table_columns import columns_of
from jaxdis.evaluation._score_core import NAME, column_rows, metadata
from jaxdis.evaluation._scores import Scores
from jaxdis.metrics._metric import Column
from jaxdis.metrics._plan import lower_is_better

# With fewer members, or pairs of them, there is neither an interval nor a test.
FEWEST = 3
# A difference counts as sure below this p-value; members to come should show it this often.
SURE, POWER = 0.05, 0.8
MOST_MEMBERS = 1000
# Draws of a permutation test; with few members all orders are tried.
SHUFFLES = 2000
# Numbers that are shuffled at once, for thousands of members.
AT_ONCE = 2_000_000
# Scores are float32: what differs by less than this share of the largest is equal, and its variance is rounding.
ROUNDING = 2.0**-22
# What tables of scores hold beside scores; those of single factors end in a bracket.
_BESIDE = (".error", ".bias", ".low", ".high")
# Below it, sums of floating-point numbers decide.
SMALLEST_P = 1e-15
_OF_JSON = ("members", "parts", "notes", "evaluation", "factors")
_ENDINGS = (".csv", ".json", ".npz", ".parquet")
# Columns in which tables hold names of members. In a table of several files, members are numbered in each file.
_NAMES = ("file", NAME, "name")


class ScoreSet(NamedTuple):
    """``scores``: numeric columns ``[m]``. ``metadata``: columns with m entries, scores among them where a file does
    not tell them apart. ``drawn``: one member's bootstrap replicates and what they were drawn from."""

    name: str
    scores: dict[str, np.ndarray]
    metadata: dict[str, list]
    drawn: tuple[dict[str, np.ndarray], Any] = ({}, None)

    def take(self, name: str, rows: Sequence[int]) -> "ScoreSet":
        scores = {column: values[list(rows)] for column, values in self.scores.items()}
        metadata = {column: [values[row] for row in rows] for column, values in self.metadata.items()}
        return ScoreSet(name, scores, metadata)


def score_sets(given: Sequence, names: Sequence[str] | None, by: str | None, meta) -> list[ScoreSet]:
    """One set for each that is given, or for each value in the column ``by``."""
    names = [f"{chr(ord('a') + place)}" for place in range(len(given))] if names is None else list(names)
    sets = [_set(name, each) for name, each in zip(names, given, strict=True)]
    if meta is not None:
        rows = _by_name(meta)
        sets = [one._replace(metadata=one.metadata | _found(one, rows)) for one in sets]
    if by is None:
        return sets
    divided: dict[str, list[ScoreSet]] = {}
    for one in sets:
        values = column_of(one, by, "by")
        for value in dict.fromkeys(values):
            name = (
                value if isinstance(value, str) else f"{by}={value:g}" if isinstance(value, float) else f"{by}={value}"
            )
            part = one.take(name, [row for row, own in enumerate(values) if own == value])
            divided.setdefault(part.name, []).append(part)
    return [_joined(parts) for parts in divided.values()]


def p_in_words(p: float) -> str:
    """``p = 0.012``; a test's p value is never 0."""
    return f"p = {p:.2g}" if not p < SMALLEST_P else f"p < {SMALLEST_P:g}"


def column_of(one: ScoreSet, name: str, argument: str) -> list:
    """What is known about the members under a name."""
    if name not in one.metadata:
        raise ValueError(
            f"{argument}: must be one of {some_of(sorted(one.metadata))}, got {shown(name)} for {one.name}; meta= "
            "(--meta FILE) adds columns"
        )
    return one.metadata[name]


def _set(name: str, given) -> ScoreSet:
    """Numeric columns ``[m]``, and all columns by which members can be told apart."""
    if isinstance(given, str | Path) and Path(given).is_dir():
        return _of_folder(name, Path(given))
    if isinstance(given, str | Path):
        given = _read(Path(given))
    if isinstance(given, Scores):
        scores = {column: np.atleast_1d(np.asarray(values, float)) for column, values in given.items()}
        origin = [given.evaluation.get(part) for part in ("samples", "held_out", "key", "bootstrap", "groups")]
        drawn = (given.replicates, origin) if given.single else ({}, None)
        return ScoreSet(name, scores, metadata(given.members), drawn)
    if not isinstance(given, Mapping) or not given:
        raise ValueError(f"{name}: must be Scores, a file, or a mapping of columns, got {shown(given)}")
    columns = {str(column): np.asarray(values) for column, values in given.items()}
    if len({values.shape for values in columns.values()}) > 1 or next(iter(columns.values())).ndim != 1:
        raise ValueError(f"{name}: must have columns of one length, got {[each.shape for each in columns.values()]}")
    try:  # a table that says how its rows were computed names their metrics
        said = [json.loads(text)["metrics"] for text in dict.fromkeys(columns["evaluation"].tolist()) if text]
    except (KeyError, TypeError, ValueError):
        said = []
    scored = {metric for metrics in said for metric in metrics}
    scores = {
        column: values.astype(float)
        for column, values in columns.items()
        if column not in _NAMES
        and values.dtype.kind in "fiu"
        and not column.endswith((*_BESIDE, "]"))
        and (not scored or Column.read(column, scored).metric in scored)
    }
    return ScoreSet(name, scores, {column: values.tolist() for column, values in columns.items()})


def _of_folder(name: str, folder: Path) -> ScoreSet:
    """The members from all score files in a folder, with the files' names."""
    paths = sorted(path for path in folder.iterdir() if path.suffix in _ENDINGS)
    if not paths:
        raise ValueError(f"{name}: must be a folder with files of scores ({', '.join(_ENDINGS)}), got none in {folder}")
    parts = [_set(name, path) for path in paths]
    counts = [len(next(iter(part.scores.values()))) for part in parts]
    named = [
        part._replace(metadata={**part.metadata, "file": [path.name] * count})
        for part, path, count in zip(parts, paths, counts, strict=True)
    ]
    return _joined(named)


def _read(path: Path) -> Scores | dict[str, Any]:
    if path.suffix == ".npz":
        return Scores.load(path)
    if path.suffix == ".csv":
        return read_csv_columns(path)
    if path.suffix == ".parquet":
        return {name: _numbered(column.entries) for name, column in columns_of(path).items()}
    if path.suffix != ".json":
        kinds = "Scores.save (.npz), or .csv, .json or .parquet"
        raise ValueError(f"{path}: must be a file written by {kinds}, got {path.suffix or path}")
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: must be JSON of scores, got what cannot be read ({error})") from None
    if not isinstance(content, dict) or not content:
        raise ValueError(f"{path}: must be JSON of scores, got {shown(content)}")
    of_files = all(isinstance(table, dict) and "members" in table for table in content.values())
    tables = [{"file": file} | table for file, table in content.items()] if of_files else [content]
    columns = metadata([row for table in tables for row in _json_rows(table)])
    return {name: _numbered(values) for name, values in columns.items()}


def _numbered(values: list) -> np.ndarray | list:
    """Numbers, NaN for None, where all are; else the values."""
    numbers = (each is None or (isinstance(each, int | float) and not isinstance(each, bool)) for each in values)
    return np.array(values, float) if all(numbers) else values


def _json_rows(table: dict) -> list[dict]:
    """A row per member from what :func:`~jaxdis.evaluation._score_core.as_json` made."""
    columns = {name: column for name, column in table.items() if name not in _OF_JSON and name != "file"}
    columns = {name: column if isinstance(column, list) else [column] for name, column in columns.items()}
    known = table.get("members") or [{}] * max(map(len, columns.values()), default=0)
    file = {"file": table["file"]} if "file" in table else {}
    file |= {"evaluation": json.dumps(table["evaluation"])} if table.get("evaluation") else {}
    scores = ({name: column[place] for name, column in columns.items()} for place in range(len(known)))
    return [{**file, **row, **own} for row, own in zip(known, scores, strict=True)]


class _Known(NamedTuple):
    """Metadata: ``rows`` by names of members, which stand in the columns ``heads``."""

    heads: tuple[str, ...]
    rows: dict[tuple[str, ...], dict]


def _by_name(meta) -> _Known:
    """Metadata rows by member name, and by those without folder and ending if these differ."""
    columns = read_csv_columns(meta) if isinstance(meta, str | Path) else meta
    rows = column_rows(columns)
    heads = [name for name in _NAMES if rows and name in rows[0]]
    if not heads:
        raise ValueError(f"meta: must have a column {' or '.join(_NAMES)} with names of members, got {shown(meta)}")
    for chosen in (*((head,) for head in heads), tuple(heads)):
        names = [tuple(_text(row[head]) for head in chosen) for row in rows]
        if len(set(names)) == len(names):
            break
    else:
        twice = collections.Counter(names).most_common(1)[0][0]
        raise ValueError(f"meta: must have one row for each member, got several for {', '.join(twice)}")
    named = {
        name: {head: value for head, value in row.items() if head not in chosen}
        for name, row in zip(names, rows, strict=True)
    }
    stems = [(Path(name[0]).stem, *name[1:]) for name in named]
    counts = collections.Counter(stems)
    return _Known(chosen, {s: row for s, row in zip(stems, named.values(), strict=True) if counts[s] == 1} | named)


def _text(name) -> str:
    """A member's name; a number as it is counted, ``0`` for 0.0."""
    return str(int(name)) if isinstance(name, float) and name.is_integer() else str(name)


def with_metadata(members: Sequence[dict], meta) -> list[dict]:
    """Members' dicts, which begin with their names, and each one's metadata."""
    matched = _matched([(member[NAME],) for member in members], _by_name(meta))
    return [member | row | {NAME: member[NAME]} for member, row in zip(members, matched, strict=True)]


def _found(one: ScoreSet, known: _Known) -> dict[str, list]:
    """Metadata columns for a set's members, by the column of names in which all have a row."""
    heads = [head for head in _NAMES if head in one.metadata]
    if not heads:
        raise ValueError(f"meta: must go with named members, got {one.name} without names")
    tried = sorted(((head,) for head in heads), key=lambda each: each != known.heads)
    if len(known.heads) > 1:
        tried = [known.heads]
        if lacking := [head for head in known.heads if head not in heads]:
            raise ValueError(f"meta: must name members by columns of {one.name}, got {', '.join(lacking)} besides")
    errors = []
    for each in tried:
        try:
            return metadata(_matched(list(zip(*(one.metadata[head] for head in each), strict=True)), known))
        except ValueError as error:
            errors.append(error)
    raise errors[0]


def _matched(names: Sequence[tuple], known: _Known) -> list[dict]:
    texts = [tuple(map(_text, name)) for name in names]
    matched = [known.rows.get(text, known.rows.get((Path(text[0]).stem, *text[1:]))) for text in texts]
    if None in matched:
        missing = names[matched.index(None)]
        missing = shown(missing[0] if len(missing) == 1 else missing)
        raise ValueError(f"meta: must have a row for every member, got none for {missing} (column {known.heads[0]})")
    return matched


def _joined(parts: Sequence[ScoreSet]) -> ScoreSet:
    """Several sets' members as one set, with the columns that they all have."""
    first, *others = parts
    if not others:
        return first
    scored = [name for name in first.scores if all(name in part.scores for part in others)]
    known = [name for name in first.metadata if all(name in part.metadata for part in others)]
    scores = {name: np.concatenate([part.scores[name] for part in parts]) for name in scored}
    return ScoreSet(first.name, scores, {name: [v for part in parts for v in part.metadata[name]] for name in known})


class MeanRanks(NamedTuple):
    """Sets ranked by a column, over data sets.

    Attributes:
      metric: the column.
      ranks: each set's mean rank by name; 1 is best, NaN for fewer than two data sets.
      p: p-value by Friedman's test that all sets are alike.
      critical: sets whose mean ranks are at least this far apart differ, at .05 for all pairs together (Nemenyi).
      blocks: how many data sets; those for which all sets have a number.
    """

    metric: str
    ranks: dict[str, float]
    p: float
    critical: float
    blocks: int

    def sentence(self) -> str:
        """Say which sets are best across data sets."""
        if self.blocks < 2:
            return f"{self.metric}: no ranks; fewer than two data sets have a number in every set"
        order = sorted(self.ranks, key=self.ranks.get)
        ranks = some_of([f"{name} {self.ranks[name]:.2g}" for name in order])
        far = [name for name in order if self.ranks[name] - self.ranks[order[0]] >= self.critical]
        verdict = f"{some_of(far)} surely behind {order[0]}" if far and self.p < SURE else "no sure difference"
        return f"{self.metric}: mean ranks over {self.blocks} data sets: {ranks} ({p_in_words(self.p)}; {verdict})"


def mean_ranks(sets: Sequence[ScoreSet], columns: Sequence[str], across: str) -> tuple[MeanRanks, ...]:
    """Rank the sets by their means at each value in a metadata column."""
    values = [column_of(one, across, "across") for one in sets]
    blocks = [value for value in dict.fromkeys(values[0]) if all(value in own for own in values)]
    if len(sets) < 3 or len(blocks) < 2:
        raise ValueError(
            f"across: must have at least three sets and two values that all have, got {len(sets)} and {len(blocks)}"
        )
    rows = [[[place for place, each in enumerate(own) if each == block] for block in blocks] for own in values]
    from scipy import stats

    found = []
    for column in columns:
        means = np.array(
            [[mean(one.scores[column][places]) for places in own] for one, own in zip(sets, rows, strict=True)]
        )
        means = means[:, np.isfinite(means).all(axis=0)]
        count, p, critical, ranks = means.shape[1], math.nan, math.nan, np.full(len(sets), math.nan)
        if count > 1:
            sign = 1 if lower_is_better(column) else -1
            ranks = np.stack([stats.rankdata(sign * block) for block in means.T], axis=1).mean(axis=1)
            # Where all sets tie everywhere, Friedman's statistic is 0 / 0.
            p = float(stats.friedmanchisquare(*means).pvalue) if np.ptp(means, axis=0).any() else 1.0
            quantile = stats.studentized_range.isf(SURE, len(sets), np.inf) / math.sqrt(2)
            critical = float(quantile * math.sqrt(len(sets) * (len(sets) + 1) / (6 * count)))
        names = [one.name for one in sets]
        found.append(MeanRanks(column, dict(zip(names, ranks.tolist(), strict=True)), p, critical, count))
    return tuple(found)


class Row(NamedTuple):
    """How two sets compare in one column; NaN where too few members have a score.

    Attributes:
      metric: the column.
      sets: names, first and second.
      first, second: each set's mean.
      difference, low, high: second mean minus first, and its interval.
      p: two-sided p-value by Student's test for pairs, or Welch's test.
      adjusted: ``p`` corrected for how many columns and pairs of sets are tested (Holm).
      permutation: two-sided p-value when the difference is tested by permutations, which takes no distribution for
        granted; with few members it cannot be small.
      effect: the difference in standard deviations: of the pairs' differences, or of the members of both sets.
      members: how many members (or pairs) each set needs for a difference this large to be found in four out of five
        comparisons, at p < .05 without correction; 1,000 stands for that or more.
    """

    metric: str
    sets: tuple[str, str]
    first: float
    second: float
    difference: float
    low: float
    high: float
    p: float
    adjusted: float
    permutation: float
    effect: float
    members: float


@dataclasses.dataclass(frozen=True)
class Comparison:
    """What :func:`compare` returns; it prints as a table, in notebooks too.

    Attributes:
      rows: one :class:`Row` per column.
      test: what was computed, in words.
      ranks: all sets' mean ranks across data sets, if they were asked for.
    """

    rows: tuple[Row, ...]
    test: str
    ranks: tuple[MeanRanks, ...] = ()

    def sentences(self) -> list[str]:
        """Say for each column what is known, and what would be needed to know more."""
        several = len({row.sets for row in self.rows}) > 1
        return [_sentence(row, several) for row in self.rows] + [ranks.sentence() for ranks in self.ranks]

    @property
    def _table(self) -> list[Row]:
        """The rows, whose sets are one text."""
        return [row._replace(sets=" / ".join(row.sets)) for row in self.rows]

    def to_csv(self, path: str | Path | None = None) -> str:
        """Comma-separated text, a row per column; written to ``path`` if given."""
        return csv_text(Row._fields, self._table, path)

    def to_pandas(self):
        """The rows as a data frame; needs pandas."""
        import pandas

        return pandas.DataFrame(self.rows)

    def _repr_html_(self) -> str:
        return html_table(self.test, Row._fields, self._table, self.sentences())

    def __repr__(self) -> str:
        return "\n".join([self.test, *self.sentences()])


@checked
def compare(
    *sets,
    paired: str | None = None,
    metrics: Sequence[str] | None = None,
    by: str | None = None,
    meta=None,
    across: str | None = None,
    names: Sequence[str] | None = None,
    level: Level = 0.95,
) -> Comparison:
    """Compare scores between sets, such as models under several seeds.

    Args:
      sets: each set's scores: a :class:`~jaxdis.Scores`, a file that :meth:`Scores.save` wrote, a CSV or JSON file with
        a row per member, or a mapping from names to columns ``[m]``.
      paired: a column in the members' metadata, such as ``"seed"``, whose equal values make pairs. None: the sets are
        independent.
      metrics: the columns to compare; None: all that all sets have.
      by: a metadata column, such as ``"objective"``: members that share a value are a set.
      meta: the members' metadata, ``{"member": names, "seed": …}``, a data frame or a CSV file; its rows are matched by
        the names of members or of their files.
      across: a metadata column, such as ``"data"``: sets are also ranked at each of its values.
      names: what the sets are called; a, b, … when None.
      level: how often the intervals should hold.

    Returns:
      A :class:`Comparison`. Two sets are compared with each other; among more, the best, by its mean, is compared with
      each other one. Means are compared by Student's test for pairs, or by Welch's test, which does not assume equal
      variances. A set's members must be independent, as models with different seeds are; several codes from one model
      are not. Two representations on the same samples, each with bootstrap replicates under one :func:`jaxdis.evaluate`
      key, are compared replicate by replicate.

    Raises:
      ValueError: for sets without a common column, for unknown columns, and for pairs that are not unique.

    Reference: Welch 1947; Holm 1979; for ``across`` Friedman 1937; Nemenyi 1963; Demšar 2006, §3.2.

    Example:
      >>> narrow = {"seed": [0, 1, 2, 3], "mig": [0.21, 0.24, 0.19, 0.23]}
      >>> wide = {"seed": [0, 1, 2, 3], "mig": [0.31, 0.33, 0.30, 0.33]}
      >>> print(jaxdis.compare(narrow, wide, paired="seed"))
      second minus first, 4 pairs of the same seed, Student's test
      mig: higher by 0.1 (0.087 to 0.113), p = 0.00015
    """
    if names is not None and len(names) != len(sets):
        raise ValueError(f"names: must be {len(sets)}, one for each set, got {shown(names)}")
    divided = score_sets(sets, names, by, meta)
    if len(divided) < 2:
        raise ValueError(f"sets: must be at least two, or one that `by` divides, got {len(divided)}")
    known = {NAME, "seed", paired, by, across}
    shared = [name for name in divided[0].scores if all(name in one.scores for one in divided) and name not in known]
    for name in metrics or ():
        if name not in shared:
            raise ValueError(f"metrics: must be columns of all sets, {some_of(shared)}, got {shown(name)}")
    columns = list(shared if metrics is None else metrics)
    if not columns:
        raise ValueError("sets: must have a column of scores in common, got none")
    ranks = () if across is None else mean_ranks(divided, columns, across)
    if all(one.drawn[0] for one in divided):
        compared, how = _by_replicates(divided, columns, level)
    else:
        divided = divided if paired is None else _in_pairs(divided, paired)
        compared = [
            _compared(first, second, column, paired is not None, level)
            for column in columns
            for first, second in itertools.combinations(divided, 2)
        ]
        counts = [len(one.scores[columns[0]]) for one in divided]
        welch = f"{' and '.join(map(str, counts))} members, Welch's test"
        how = welch if paired is None else f"{counts[0]} pairs of the same {paired}, Student's test"
    adjusted = holm([row.p for row in compared])
    rows = [row._replace(adjusted=p) for row, p in zip(compared, adjusted, strict=True)]
    if len(divided) == 2:
        first, second = ("first", "second") if by is names is None else (one.name for one in divided)
        return Comparison(tuple(rows), f"{second} minus {first}, {how}", ranks)
    return Comparison(tuple(_beside_the_best(rows, columns)), f"others minus best, {how}", ranks)


def _in_pairs(sets: Sequence[ScoreSet], paired: str) -> list[ScoreSet]:
    """All sets' members that agree in a column, in the same order."""
    places = []
    for one in sets:
        values = column_of(one, paired, "paired")
        if len(set(values)) < len(values):
            twice = next(value for value in values if values.count(value) > 1)
            raise ValueError(f"paired: must have values that differ in {one.name}, got {shown(twice)} more than once")
        places.append({value: place for place, value in enumerate(values)})
    common = [value for value in places[0] if all(value in place for place in places)]
    if not common:
        raise ValueError(f"paired: must have values that occur in all sets, got none of {shown(paired)}")
    return [one.take(one.name, [place[value] for value in common]) for one, place in zip(sets, places, strict=True)]


def _by_replicates(sets: Sequence[ScoreSet], columns: Sequence[str], level: float) -> tuple[list[Row], str]:
    """Single representations, compared by bootstrap replicates that drew the same samples."""
    drawn, origins = zip(*(one.drawn for one in sets), strict=True)
    if any(origin != origins[0] for origin in origins):
        raise ValueError("sets: must be scores of the same samples with the same key and bootstrap, got others")
    rows = []
    for column in (column for column in columns if all(column in replicates for replicates in drawn)):
        for first, second in itertools.combinations(range(len(sets)), 2):
            means = [float(sets[place].scores[column][0]) for place in (first, second)]
            error = float((drawn[second][column] - drawn[first][column]).std(ddof=1))
            names = sets[first].name, sets[second].name
            rows.append(_row(column, names, means, error, math.inf, math.nan, math.nan, level, max(map(abs, means))))
    return rows, f"{origins[0][0]:,} samples, bootstrap of both at once"


def _beside_the_best(rows: Sequence[Row], columns: Sequence[str]) -> list[Row]:
    """Of all pairs those with the set that is best in the column, first."""
    chosen = []
    for column in columns:
        pairs = [row for row in rows if row.metric == column]
        means = {name: mean for row in pairs for name, mean in zip(row.sets, (row.first, row.second), strict=True)}
        sign = -1 if lower_is_better(column) else 1
        best = max(means, key=lambda name: -math.inf if math.isnan(means[name]) else sign * means[name])
        turned = (row if row.sets[0] == best else _turned(row) for row in pairs if best in row.sets)
        chosen += sorted(turned, key=lambda row: math.inf if math.isnan(row.second) else -sign * row.second)
    return chosen


def _turned(row: Row) -> Row:
    return row._replace(
        sets=row.sets[::-1], first=row.second, second=row.first, difference=-row.difference,
        low=-row.high, high=-row.low, effect=-row.effect,
    )  # fmt: skip


def holm(p: Sequence[float]) -> list[float]:
    """Correct p-values so that the chance that any finding among them is false stays what it was for one; NaN stays."""
    p = np.asarray(p, float)
    order = np.argsort(p)  # NaN last
    count = int(np.isfinite(p).sum())
    steps = np.maximum.accumulate(np.minimum(1.0, p[order[:count]] * np.arange(count, 0, -1)))
    corrected = np.full(len(p), math.nan)
    corrected[order[:count]] = steps
    return corrected.tolist()


def _compared(first: ScoreSet, second: ScoreSet, column: str, paired: bool, level: float) -> Row:
    from scipy import stats

    x, y = first.scores[column], second.scores[column]
    if paired:
        both = np.isfinite(x) & np.isfinite(y)
        x, y = x[both], y[both]
    x, y = finite(x), finite(y)
    means = [mean(x), mean(y)]
    if min(len(x), len(y)) < FEWEST:
        return Row(column, (first.name, second.name), *means, means[1] - means[0], *[math.nan] * 7)
    if paired:
        gaps = y - x
        error, freedom, spread = stats.sem(gaps), len(gaps) - 1, gaps.std(ddof=1)
    else:
        parts = np.array([each.var(ddof=1) / len(each) for each in (x, y)])
        error = math.sqrt(parts.sum())
        freedom = parts.sum() ** 2 / (parts**2 / [len(x) - 1, len(y) - 1]).sum() if error > 0 else math.inf
        spread = math.sqrt((x.var(ddof=1) + y.var(ddof=1)) / 2)
    shuffled = stats.permutation_test(
        (x, y), lambda x, y, axis: y.mean(axis) - x.mean(axis), vectorized=True, rng=0,
        permutation_type="samples" if paired else "independent", n_resamples=SHUFFLES,
        batch=max(1, AT_ONCE // (len(x) + len(y))),
    ).pvalue  # fmt: skip
    effect = (means[1] - means[0]) / float(spread) if error > 0 else 0.0
    largest = np.abs(np.concatenate([x, y])).max()
    row = _row(
        column, (first.name, second.name), means, float(error), float(freedom), effect, float(shuffled), level, largest
    )
    return row._replace(members=_members_needed(abs(row.effect), paired))


def _row(column, names, means, error: float, freedom: float, effect: float, shuffled: float, level, largest) -> Row:
    """A row from a difference, its standard error and its degrees of freedom; ``largest`` is that of the scores."""
    from scipy import stats

    rounding = ROUNDING * largest
    difference, error = (0.0 if abs(number) <= rounding else number for number in (means[1] - means[0], error))
    reach = float(stats.t.isf((1 - level) / 2, freedom) * error)
    if error > 0:
        p = float(2 * stats.t.sf(abs(difference) / error, freedom))
    else:  # every member has the same score
        p, effect = (0.0, math.copysign(math.inf, difference)) if difference else (1.0, 0.0)
    bounds = difference - reach, difference + reach
    return Row(column, names, *means, difference, *bounds, p, p, shuffled, effect, math.nan)


def _members_needed(effect: float, paired: bool) -> float:
    """How many members each set needs, or how many pairs, for the test to find an effect with probability .8."""
    from scipy import stats

    if not math.isfinite(effect):
        return float(FEWEST)
    n = np.arange(FEWEST, MOST_MEMBERS + 1)
    freedom, shift = (n - 1, effect * np.sqrt(n)) if paired else (2 * (n - 1), effect * np.sqrt(n / 2))
    found = stats.nct.sf(stats.t.isf(SURE / 2, freedom), freedom, shift) >= POWER
    return float(n[found.argmax()]) if found.any() else float(MOST_MEMBERS)


def _sentence(row: Row, several: bool) -> str:
    if unknown := [name for name, mean in zip(row.sets, (row.first, row.second), strict=True) if math.isnan(mean)]:
        return f"{row.metric}: no score in {' and '.join(unknown)} is a number"
    if row.difference == row.low == row.high == 0:
        return f"{row.metric}: {' and '.join(row.sets) + ' are ' if several else ''}equal, p = 1"
    size = f"{'higher' if row.difference > 0 else 'lower'} by {abs(row.difference):.3g}"
    size = f"{row.metric}: {row.sets[1]} {size} than {row.sets[0]}" if several else f"{row.metric}: {size}"
    if math.isnan(row.p):
        return f"{size}; a test needs {FEWEST} members of each"
    within = f"{size} ({min(row.low, row.high):.3g} to {max(row.low, row.high):.3g}), {p_in_words(row.adjusted)}"
    if row.adjusted < SURE:
        return within
    if math.isnan(row.members):
        return f"{within}: not sure"
    more = f"{row.members:.0f}" if row.members < MOST_MEMBERS else f"{MOST_MEMBERS:,} or more"
    return f"{within}: not sure; {more} members of each would show a difference of this size"
