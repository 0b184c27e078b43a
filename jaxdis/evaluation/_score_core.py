"""What a score table holds: numbers by column, members, and what replicates and permutations say about both.

Table tools get it wide, with a row per member, or long, with a row per number.
"""

import dataclasses
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, overload

import numpy as np

from jaxdis._core.display import html_table
from jaxdis._core.finite import finite, mean
from jaxdis._core.options import Level, checked, listed, shown, some_of
from jaxdis.metrics._metric import Column

Numbers = np.ndarray | np.generic
# Where members' names stand.
NAME = "member"
# The fields that hold arrays by name.
ARRAYS = ("columns", "parts", "replicates", "nulls", "relations")
# Sums in another order differ by less, relative to scores near 1.
ROUNDING = 1e-5


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class ScoreCore(dict[str, Numbers]):
    """What :class:`~jaxdis.Scores` holds; tables, text, files and pictures are made from it."""

    columns: dict[str, Numbers]
    parts: dict[str, np.ndarray]
    factor_names: tuple[str, ...] = ()
    replicates: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    members: tuple[dict[str, Any], ...] = ()
    axes: dict[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    notes: tuple[tuple[str, str], ...] = ()
    evaluation: dict[str, Any] = dataclasses.field(default_factory=dict)
    nulls: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    errors: tuple[str, ...] = ()
    relations: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        metrics = self.evaluation.get("metrics", ())
        for field in (*ARRAYS, "axes"):
            given = getattr(self, field)
            if any(type(name) is not Column for name in given):  # from a file, or made by hand
                named = {Column.read(name, metrics): array for name, array in given.items()}
                object.__setattr__(self, field, named)
        # Table tools only read dicts: of any other mapping, pandas makes a table of its keys.
        super().update(self.columns)
        if not self.members:
            count = max((np.size(column) for column in self.columns.values()), default=0)
            object.__setattr__(self, "members", tuple({NAME: row} for row in range(count)))

    def _refuse(self, *_, **__):
        raise TypeError("Scores: must stay as computed; dict(scores) is a copy that can be changed")

    __setitem__ = __delitem__ = __ior__ = update = setdefault = pop = popitem = clear = _refuse

    def __dir__(self):
        return sorted({*super().__dir__()} - {"update", "setdefault", "pop", "popitem", "clear", "fromkeys"})

    def __reduce__(self):
        return type(self), tuple(getattr(self, field.name) for field in dataclasses.fields(self))

    @overload
    def __getitem__(self, which: str) -> Numbers: ...
    @overload
    def __getitem__(self, which: int | list[str]) -> "ScoreCore": ...
    def __getitem__(self, which):
        """A column, a table with some metrics, or one member's table."""
        if isinstance(which, list | tuple):
            return self._of_metrics(which)
        names = () if isinstance(which, str) and which in self.columns else [str(row[NAME]) for row in self.members]
        if isinstance(which, str) and which in names:
            return self._of_member(names.index(which))
        if isinstance(which, int | np.integer) and not isinstance(which, bool):
            if not -len(names) <= which < len(names):
                raise IndexError(f"member: must be a place among {len(names)} members, got {which}")
            return self._of_member(int(which) % len(names))
        return self._column(which)

    def _column(self, which) -> Numbers:
        if isinstance(which, str) and which in self.columns:
            return self.columns[which]
        arrays = [part for part in (which, f"{which}.score") if part in self.parts] if isinstance(which, str) else []
        hint = f"; it is an array: part({arrays[0]!r})" if arrays else ""
        raise KeyError(f"no column {shown(which)}{hint}; the columns are {some_of(self.columns)}")

    def _of_metrics(self, names: Sequence[str]) -> "ScoreCore":
        kept = {}
        if not names:
            raise KeyError(f"no column in an empty list; the columns are {some_of(self.columns)}")
        for name in names:
            found = {column: values for column, values in self.columns.items() if name in (column, column.metric)}
            if not isinstance(name, str) or not found:
                raise KeyError(f"no column {shown(name)}; the columns are {some_of(self.columns)}")
            kept |= found
        owners = {column.metric for column in kept}
        return dataclasses.replace(
            self,
            columns=kept,
            parts={name: part for name, part in self.parts.items() if name.metric in owners},
            **{
                field: {name: drawn for name, drawn in getattr(self, field).items() if name in kept}
                for field in ("replicates", "nulls")
            },
            notes=tuple(note for note in self.notes if note[0] in owners),
        )

    def _of_member(self, row: int) -> "ScoreCore":
        tables = {field: getattr(self, field) for field in ARRAYS}
        if not self.single:
            tables = {field: {name: each[row] for name, each in table.items()} for field, table in tables.items()}
        return dataclasses.replace(self, members=(self.members[row],), **tables)

    @property
    def single(self) -> bool:
        """Whether these score one representation, ``[]``, not a zoo, ``[m]``."""
        return not any(np.ndim(column) for column in self.columns.values())

    def part(self, name: str) -> np.ndarray:
        """The array behind a score, such as ``"mig.per_factor"``: ``[…]``, or ``[m, …]`` for a zoo."""
        if not isinstance(name, str) or name not in self.parts:
            hint = f"; it is a column: scores[{name!r}]" if isinstance(name, str) and name in self.columns else ""
            raise KeyError(f"no part {shown(name)}{hint}; the parts are {some_of(self.parts)}")
        return self.parts[name]

    def error(self, name: str) -> Numbers:
        """Return a column's bootstrap standard error, ``[]`` or ``[m]``.

        For most metrics it is within a fifth of the standard deviation over fresh samples. For FactorVAE it is 1.2 to
        1.4 times as large, since every replicate also draws new votes among fewer distinct samples, and for IRS 0.8
        times, since maxima have no bootstrap.
        """
        return self._replicates(name).std(axis=-1, ddof=1)

    def bias(self, name: str) -> Numbers:
        """Return the replicates' mean minus the score, ``[]`` or ``[m]``: the bias as the bootstrap estimates it.

        A redrawn sample has 63 % distinct rows, from which learners learn less, and plug-in estimates of information,
        biased upwards by about ``(b − 1)(v − 1) / 2n`` nats, are biased once more. Where the bias exceeds the error,
        more samples would give another score. It is 0 for metrics that need distinct samples, such as those based on
        nearest neighbors, whose replicates are centered.
        """
        return self._replicates(name).mean(axis=-1) - self[name]

    @checked
    def interval(
        self, name: str, level: Level = 0.95, kind: Literal["normal", "basic", "percentile"] = "normal"
    ) -> np.ndarray:
        """Return bounds around a column at a confidence level, ``[2]`` or ``[m, 2]``; they always include the score.

        The interval covers the mean score over equally many fresh samples, not the value that infinitely many samples
        would give: a plug-in bias is not covered. See :meth:`bias`.

        Args:
          level: what share of the intervals cover that mean.
          kind: ``"normal"``: score ± error, times a quantile from Student's distribution. ``"percentile"`` and
            ``"basic"``: the replicates' quantiles, shifted to the mean score, and these reflected about it.

        Nominal 95 % intervals covered the mean in 91 to 98 % of 200 trials with 600 samples, 300 held-out ones and 60
        replicates, and IRS's in 88 % (``tests/evaluation/test_coverage.py`` prints the table). With codes mixed
        otherwise, modularity's did in 86 %. Those for linear R² and MCC, the gaps for dependent factors, monotonicity,
        smoothness and UniBound did in 88 to 100 % of 40 trials; the errors for axis alignment and monotonicity are 1.3
        and 1.4 times the scores' spread. In 200 trials, those for SEPIN and its kin did in 92 %, for kernel R² in 98 %,
        and for DCI-ES by small forests in 90 to 99 %; the errors for its completeness are 0.8 times the spread.

        Reference: Davison & Hinkley 1997, §5.2 and §5.3.
        """
        return interval(self[name], self._replicates(name), level, kind)

    def _replicates(self, name: str) -> np.ndarray:
        self._column(name)  # an unknown one is refused as such
        if not self.replicates:
            raise ValueError("bootstrap: needs replicates; ask for them by evaluate(..., bootstrap=200)")
        if name not in self.replicates:
            raise ValueError(f"bootstrap: needs a metric of samples, got {name}, which intervened in a simulator")
        return self.replicates[name]

    def null(self, name: str) -> Numbers:
        """Return a column's mean over permuted factors, ``[]`` or ``[m]``: its value by chance."""
        return self._nulls(name).mean(axis=-1)

    def above_null(self, name: str) -> Numbers:
        """Return a column minus :meth:`null`, ``[]`` or ``[m]``; below 0 for an error, which is best when it is low."""
        return self[name] - self.null(name)

    def p_value(self, name: str) -> Numbers:
        """Return how often permuted factors score at least as well as the given ones, ``[]`` or ``[m]``.

        With N permutations that is ``(1 + number at least as good) / (1 + N)``, 1 / 21 or more with ``null=20``. A tie
        counts as at least as good: where a metric gives noise its lowest score, as ``unibound`` does, p is 1.

        Reference: Phipson & Smyth 2010.
        """
        return p_value(self[name], self._nulls(name), error=name in self.errors)

    def _nulls(self, name: str) -> np.ndarray:
        self._column(name)  # an unknown one is refused as such
        if not self.nulls:
            raise ValueError("null: needs permutations; ask for them by evaluate(..., null=20)")
        if name not in self.nulls:
            raise ValueError(f"null: needs a metric that read factors, got {name}")
        return self.nulls[name]


def interval(score: np.ndarray | np.generic, replicates: np.ndarray, level: float, kind: str) -> np.ndarray:
    """Return bounds ``[…, 2]`` around ``score […]`` from ``replicates […, count]``; see :meth:`Scores.interval`."""
    tail = (1 - level) / 2
    deviations = replicates - replicates.mean(axis=-1, keepdims=True)
    if kind == "normal":
        from scipy.special import stdtrit

        reach = -stdtrit(deviations.shape[-1] - 1, tail) * deviations.std(axis=-1, ddof=1)
        below, above = -reach, reach
    else:
        below, above = np.quantile(deviations, [tail, 1 - tail], axis=-1)
        below, above = (-above, -below) if kind == "basic" else (below, above)
    # Quantiles of few skewed replicates may all lie on one side of their mean.
    return np.stack([score + np.minimum(below, 0), score + np.maximum(above, 0)], axis=-1)


def p_value(score, nulls: np.ndarray, *, error: bool) -> np.ndarray:
    """One plus how many nulls ``[…, count]`` are at least as good as ``score […]``, over one plus how many there are.

    An undefined null counts as one as good; an undefined score's p value is NaN.
    """
    sign = -1 if error else 1
    worse = sign * nulls < sign * np.asarray(score)[..., None] - ROUNDING
    return np.where(np.isnan(score), np.nan, (1 + (~worse).sum(axis=-1)) / (1 + nulls.shape[-1]))


def member_rows(members, count: int, metrics: Collection[str] = ()) -> tuple[dict, ...]:
    """One dict per member, which begins with its name under ``member``.

    Args:
      members: names; a dict with metadata per member, such as a zoo's labels; a mapping or a data frame whose column
        ``member`` holds the names. Without names, members are numbered.
      metrics: names that metadata may not have, since they are columns of scores.
    """
    rows = [{} for _ in range(count)] if members is None else column_rows(members)
    if rows is None or len(rows) != count:
        got = shown(members) if rows is None else len(rows)
        raise ValueError(
            f"members: must be {count} names, dicts, or columns of as many entries, one per member, got {got}"
        )
    named = [{NAME: row.get(NAME, number), **row} for number, row in enumerate(rows)]
    names = [str(row[NAME]) for row in named]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"members: must have names that differ, got {shown(twice)} more than once")
    for name in named[0]:
        if Column.read(str(name), metrics).metric in metrics:
            raise ValueError(f"members: must have columns that are no scores, got {shown(name)}; rename it")
    return tuple({str(name): _plain(value) for name, value in row.items()} for row in named)


def column_rows(members) -> list[dict] | None:
    """One dict per member from names, dicts or columns; None for anything else."""
    if isinstance(members, str):
        return [{NAME: members}]
    names = getattr(members, "column_names", None) or getattr(members, "columns", None)  # pyarrow; pandas, polars
    if names is not None or isinstance(members, Mapping):
        heads, columns = list(members) if names is None else list(names), []
        for column in (members[name] for name in heads):
            one = isinstance(column, str) or not isinstance(column, Iterable)  # which stands for one entry
            columns.append([column] if one else column.to_pylist() if hasattr(column, "to_pylist") else list(column))
        if len(set(map(len, columns))) != 1:
            return None
        return [dict(zip(heads, row, strict=True)) for row in zip(*columns, strict=True)]
    entries = listed(members) or []
    if entries and all(isinstance(entry, Mapping) for entry in entries):
        return [dict(entry) for entry in entries]
    if entries and all(isinstance(entry, str | int | np.integer) for entry in entries):
        return [{NAME: entry} for entry in entries]
    return None


def _plain(value):
    """Metadata as a file can hold it: numbers, text, truth values or nothing."""
    value = value.item() if isinstance(value, np.generic) else value
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


SPREAD = "± is the standard deviation over members"
INTERVAL = "[low, high] is the 95 % interval by bootstrap"
CHANCE = "null is the mean over permuted factors, p how often they are as good"


def wide(scores: ScoreCore, *, per_factor: bool = False) -> dict[str, Sequence]:
    """A table's columns, with one row per member: name, metadata, scores; after a bootstrap ``.error``, ``.bias``,
    ``.low`` and ``.high``, with permutations ``.null``, ``.above_null``, ``.p``; on request ``metric.part[factor]``."""
    columns = metadata(scores.members) | {name: np.atleast_1d(column) for name, column in numbers(scores).items()}
    if per_factor:
        for name, part in scores.parts.items():
            if scores.axes.get(name) == ("k",):
                each = np.moveaxis(part, -1, 0)
                columns |= {
                    f"{name}[{factor}]": np.atleast_1d(values)
                    for factor, values in zip(scores.factor_names, each, strict=True)
                }
    return columns


def numbers(scores: ScoreCore) -> dict[str, np.ndarray | np.generic]:
    """Columns, each followed by its error, bias and 95 % interval if it has replicates, and by what chance gives."""
    found = {}
    for name, column in scores.items():
        found[name] = column
        found |= {f"{name}.{field}": values for field, values in chance(scores, name).items()}
        if name in scores.replicates:
            bounds = scores.interval(name)
            fields = {"error": scores.error(name), "bias": scores.bias(name)}
            fields |= {"low": bounds[..., 0], "high": bounds[..., 1]}
            found |= {f"{name}.{field}": values for field, values in fields.items()}
    return found


def chance(scores: ScoreCore, name: str) -> dict[str, np.ndarray | np.generic]:
    """What permuted factors say about a column; nothing if it has none."""
    if name not in scores.nulls:
        return {}
    return {"null": scores.null(name), "above_null": scores.above_null(name), "p": scores.p_value(name)}


def metadata(members: Sequence[dict]) -> dict[str, list]:
    """What is known about the members, as columns; None where a member lacks an entry."""
    names = dict.fromkeys(name for row in members for name in row)
    return {name: [row.get(name) for row in members] for name in names}


def long(scores: ScoreCore) -> dict[str, Sequence]:
    """A table's columns, with one row per number: ``member``, metadata, ``metric``, ``field``, ``factor``, ``code``,
    ``index`` and ``value``.

    ``factor`` is a factor's name, ``code`` a number, and ``index`` a number along any other axis that a part has; each
    is None where the number has none.
    """
    blocks = [_block(scores, name, column, ()) for name, column in scores.items()]
    for name, part in scores.parts.items():
        rank = part.ndim - (not scores.single)
        blocks.append(_block(scores, name, part, scores.axes.get(name) or ("",) * rank))
    heads = list(dict.fromkeys(head for block in blocks for head in block))
    return {head: [value for block in blocks for value in block[head]] for head in heads}


def _block(scores: ScoreCore, column: Column, values, letters: Sequence[str]) -> dict[str, list]:
    values = np.asarray(values)[None] if scores.single else np.asarray(values)
    each = int(np.prod(values.shape[1:]))
    places = np.indices(values.shape[1:]).reshape(len(letters), each)
    axes = {"factor": [None] * each, "code": [None] * each, "index": [None] * each}
    for letter, place in zip(letters, places.tolist(), strict=True):
        kind = {"k": "factor", "d": "code"}.get(letter, "index")
        kind = kind if axes[kind][:1] in ([], [None]) else "index"  # of a square of codes, the second one
        axes[kind] = [scores.factor_names[at] for at in place] if kind == "factor" else place
    members = {name: np.repeat(np.array(column, object), each) for name, column in metadata(scores.members).items()}
    size = values.size
    repeated = {name: column * len(values) for name, column in axes.items()}
    return {
        **{name: column.tolist() for name, column in members.items()},
        **{
            "metric": [column.metric] * size,
            "field": [column.field] * size,
            **repeated,
            "value": values.ravel().tolist(),
        },
    }


def as_html(scores: ScoreCore) -> str:
    """A row per score for a single member, with its factors beside it; a row per member for a zoo."""
    notes = together(scores.notes)
    if not scores.single:
        known, columns = metadata(scores.members), {}
        for name, values in scores.items():
            columns |= {name: values} | {f"{name}.{field}": each for field, each in chance(scores, name).items()}
        head = [*known, *columns]
        ends = [
            [label, *[None] * (len(known) - 1), *map(reduce, columns.values())]
            for label, reduce in (("mean", mean), ("±", spread))
        ]
        rows = zip(*known.values(), *(column.tolist() for column in columns.values()), strict=True)
        title = f"Scores of {len(scores.members):,} members; {'; '.join([SPREAD, *[CHANCE] * bool(scores.nulls)])}"
        return html_table(title, head, [*ends, *rows], notes)
    factors = {name: part for name, part in scores.parts.items() if scores.axes.get(name) == ("k",)}
    shown = scores.factor_names if any(f"{name}.per_factor" in factors for name in scores) else ()
    drawn = ("low", "high") if scores.replicates else ()
    judged = ("null", "above_null", "p") if scores.nulls else ()
    rows = []
    for name, value in scores.items():
        bounds = [*scores.interval(name).tolist()] if name in scores.replicates else [None] * len(drawn)
        part = factors.get(f"{name}.per_factor")
        bounds += [chance(scores, name).get(field) for field in judged]
        rows.append([name, value, *bounds, *([None] * len(shown) if part is None else part.tolist())])
    title = "; ".join(["Scores of one representation", *[INTERVAL] * bool(drawn), *[CHANCE] * bool(judged)])
    return html_table(title, ["metric", "score", *drawn, *judged, *shown], rows, notes)


def spread(values: np.ndarray) -> float:
    """The standard deviation over members whose score is defined; NaN if there is none."""
    defined = finite(values)
    return float(defined.std()) if defined.size else float("nan")


def as_text(scores: ScoreCore) -> str:
    """One line per score, under a head that says what stands beside it."""
    width = max(map(len, scores), default=0)
    heads = {True: "one representation", False: f"{len(scores.members):,} members"}
    beside = [INTERVAL] * bool(scores.replicates) if scores.single else [SPREAD]
    lines = ["; ".join([f"Scores of {heads[scores.single]}", *beside, *[CHANCE] * bool(scores.nulls)])]
    for name, values in scores.items():
        if not scores.single:
            text = f"{mean(values):.4f} ± {spread(values):.4f}"
        elif name in scores.replicates:
            text = "{:.4f} [{:.4f}, {:.4f}]".format(values, *scores.interval(name))
        else:
            text = f"{values:.4f}"
        if name in scores.nulls:
            text += f"; null {mean(np.atleast_1d(scores.null(name))):.4f}"
            text += f", p = {scores.p_value(name):.3f}" if scores.single else ""
        lines.append(f"  {name:<{width}}  {text}")
    return "\n".join(lines + together(scores.notes))


def together(notes: tuple[tuple[str, str], ...]) -> list[str]:
    """Lines for a reader: each note once, after the metrics that it is about."""
    metrics: dict[str, list[str]] = {}
    for metric, note in notes:
        metrics.setdefault(note, []).append(metric)
    return [f"{some_of(names)}: {note}" for note, names in metrics.items()]


_COUNTED = re.compile(r"(.*?)([\d,]+) of [\d,]+ members (.*)", re.DOTALL)
_OF_ONE = re.compile(r"((?:\w+: )?)-?[\d.]+ is (at chance level .*)", re.DOTALL)
_OF_ALL = re.compile(r"((?:\w+: )?)(?:all members are|the score is) (at the best .*)", re.DOTALL)


def added(tables: Sequence[tuple[Sequence[tuple[str, str]], int]]) -> tuple[tuple[str, str], ...]:
    """Notes on several tables' members together: ``25 of 672 members`` and 1 of 8 are ``26 of 680 members``.

    Args:
      tables: each one's notes, and how many members it has.
    """
    total = sum(count for _, count in tables)
    counts: dict[tuple[str, str, str], int | None] = {}
    for notes, count in tables:
        for metric, text in notes:
            if found := _COUNTED.fullmatch(text):
                key, number = (metric, found[1], found[3]), int(found[2].replace(",", ""))
            elif found := _OF_ONE.fullmatch(text):
                key, number = (metric, found[1], f"are {found[2]}"), 1
            elif found := _OF_ALL.fullmatch(text):
                key, number = (metric, found[1], f"are {found[2]}"), count
            else:
                key, number = (metric, text, ""), None
            counts[key] = None if number is None else (counts.get(key) or 0) + number
    if len(tables) == 1:
        return tuple(dict.fromkeys(tables[0][0]))
    return tuple((metric, _counted(before, number, total, after)) for (metric, before, after), number in counts.items())


def _counted(before: str, number: int | None, total: int, after: str) -> str:
    if number is None:
        return before
    who = (
        "all members"
        if number == total and after.startswith("are at the best ")
        else f"{number:,} of {total:,} members"
    )
    return f"{before}{who} {after}"


def csv_columns(scores: ScoreCore, *, long_form: bool = False) -> dict[str, Sequence]:
    """A CSV file's columns; the last one, ``evaluation``, holds JSON in the first row that says how the scores were
    computed: any reader takes a column, unlike a comment line, and rows from several files can be joined."""
    columns = long(scores) if long_form else wide(scores, per_factor=True)
    if not scores.evaluation:
        return columns
    # Of metrics, their names: what else is known about one is long, and mostly its defaults.
    brief = {**scores.evaluation, "metrics": list(scores.evaluation.get("metrics", ()))}
    others = [""] * (len(next(iter(columns.values()))) - 1)
    return {**columns, "evaluation": [json.dumps(brief, ensure_ascii=False), *others]}


def as_json(scores: ScoreCore) -> dict[str, Any]:
    """Columns by name; then ``members``, ``parts``, ``notes`` and ``evaluation``. None marks an undefined number, since
    JSON has no NaN."""
    found = {name: _or_null(np.asarray(column).tolist()) for name, column in numbers(scores).items()}
    parts = {name: _or_null(part.tolist()) for name, part in scores.parts.items()}
    return found | {
        "members": [{name: _or_null(value) for name, value in row.items()} for row in scores.members],
        "parts": parts,
        "notes": [list(note) for note in scores.notes],
        "evaluation": scores.evaluation,
    }


def _or_null(value):
    if isinstance(value, list):
        return [_or_null(entry) for entry in value]
    finite = not isinstance(value, float) or (value == value and abs(value) != float("inf"))
    return value if finite else None
