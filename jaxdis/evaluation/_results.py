"""A zoo's scores as a table: one row per member, one column per number."""

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np

from jaxdis._core.files import csv_text, write_text
from jaxdis._core.lookup import some_of
from jaxdis._core.options import Count, Level, checked, shown
from jaxdis.evaluation import _score_file as score_file
from jaxdis.evaluation import _score_table as score_table
from jaxdis.evaluation._bootstrap import interval
from jaxdis.evaluation._member_rows import NAME, member_rows
from jaxdis.evaluation._null import p_value
from jaxdis.evaluation._top import best_codes

Column = np.ndarray | np.generic


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Scores(dict[str, Column]):
    """A dict from column names to numbers: ``[]`` for one representation, ``[m]`` for a zoo.

    A metric with one headline number has a column with its own name; one with several has a column ``metric.field`` for
    each. Arrays per code or per factor are not columns: :meth:`part` returns them. After a bootstrap, ``replicates``
    holds each column ``[…, count]``; :meth:`error`, :meth:`bias` and :meth:`interval` read it. With permutations,
    ``nulls`` holds what the columns are by chance, ``[…, count]``; :meth:`null`, :meth:`above_null` and :meth:`p_value`
    read it.

    ``scores["mig"]`` is a column, ``scores[["mig", "dci"]]`` a table with some metrics' columns, and ``scores[3]`` or
    ``scores["seed0"]`` one member's table, by its place or name.

    Attributes:
      columns: the numbers by column name.
      parts: the arrays by their names.
      factor_names: one per factor.
      replicates: the columns' bootstrap replicates.
      members: one dict per member: its name under ``member``, then its metadata, such as settings and seed.
      axes: the letters for the axes that parts have, such as ``("k",)`` for one number per factor.
      notes: pairs: a metric, and what keeps its score from meaning what it seems to mean.
      nulls: the columns' scores for permuted factors.
      errors: the columns that have nulls and are best when they are low.
      relations: the matrices that the metrics score, which :meth:`top` reads.
      evaluation: how the scores were computed: versions, metrics with their options, how many samples, key.

    Example:
      >>> values = np.random.default_rng(0).integers(0, 3, (200, 2))
      >>> scores = jaxdis.evaluate(np.stack([values, -values]), values, "mig", members=["plain", "negated"])
      >>> scores["negated"]["mig"] == scores[1]["mig"] == scores["mig"][1]
      np.True_
      >>> scores.to_pandas(long=True).factor.dropna().tolist()
      ['factor_0', 'factor_1', 'factor_0', 'factor_1']
    """

    columns: dict[str, Column]
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
        # Table tools only read dicts: of any other mapping, pandas makes a table of its keys.
        self.update(self.columns)
        if not self.members:
            count = max((np.size(column) for column in self.columns.values()), default=0)
            object.__setattr__(self, "members", member_rows(None, count))

    @overload
    def __getitem__(self, which: str) -> Column: ...
    @overload
    def __getitem__(self, which: int | list[str]) -> "Scores": ...
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

    def _column(self, which) -> Column:
        if isinstance(which, str) and which in self.columns:
            return self.columns[which]
        arrays = [part for part in (which, f"{which}.score") if part in self.parts] if isinstance(which, str) else []
        hint = f"; it is an array: part({arrays[0]!r})" if arrays else ""
        raise KeyError(f"no column {shown(which)}{hint}; the columns are {some_of(self.columns)}")

    def _of_metrics(self, names: Sequence[str]) -> "Scores":
        kept = {}
        if not names:
            raise KeyError(f"no column in an empty list; the columns are {some_of(self.columns)}")
        for name in names:
            found = {column: values for column, values in self.columns.items() if name in _owners(column)}
            if not isinstance(name, str) or not found:
                raise KeyError(f"no column {shown(name)}; the columns are {some_of(self.columns)}")
            kept |= found
        owners = {owner for column in kept for owner in _owners(column)}
        return dataclasses.replace(
            self,
            columns=kept,
            parts={name: part for name, part in self.parts.items() if name.rpartition(".")[0] in owners},
            **{
                field: {name: drawn for name, drawn in getattr(self, field).items() if name in kept}
                for field in ("replicates", "nulls")
            },
            notes=tuple(note for note in self.notes if note[0] in owners),
        )

    def _of_member(self, row: int) -> "Scores":
        tables = {field: getattr(self, field) for field in score_file.ARRAYS}
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

    def error(self, name: str) -> Column:
        """Return a column's bootstrap standard error, ``[]`` or ``[m]``.

        For most metrics it is within a fifth of the standard deviation over fresh samples. For FactorVAE it is 1.2 to
        1.4 times as large, since every replicate also draws new votes among fewer distinct samples, and for IRS 0.8
        times, since maxima have no bootstrap.
        """
        return self._replicates(name).std(axis=-1, ddof=1)

    def bias(self, name: str) -> Column:
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

    def null(self, name: str) -> Column:
        """Return a column's mean over permuted factors, ``[]`` or ``[m]``: its value by chance."""
        return self._nulls(name).mean(axis=-1)

    def above_null(self, name: str) -> Column:
        """Return a column minus :meth:`null`, ``[]`` or ``[m]``; an error, which is best when it is low, should be
        below 0."""
        return self[name] - self.null(name)

    def p_value(self, name: str) -> Column:
        """Return how often permuted factors score at least as well as the given ones, ``[]`` or ``[m]``.

        With N permutations that is ``(1 + number at least as good) / (1 + N)``, 1 / 21 or more with ``null=20``. A tie
        counts as at least as good: where a metric gives noise its lowest score, as ``unibound`` does, p is 1.

        Reference: Phipson & Smyth 2010.
        """
        return p_value(self[name], self._nulls(name), error=name in self.errors)

    @checked
    def top(self, factor: str | int, count: Count = 10, relation: str | None = None) -> list[dict[str, Any]]:
        """List the codes that tell most about a factor in one representation, best first.

        Args:
          factor: its name or number.
          count: how many codes to list.
          relation: one that a metric scored, such as ``"mutual_information"`` for MIG; the first when None.

        Returns:
          Rows that ``pandas.DataFrame`` takes and :func:`jaxdis.plots.top_codes` draws: ``rank``, ``code``, ``value``
          in the relation's unit, and its ``share`` of a perfect code's value. After a bootstrap, ``low`` and ``high``
          are a 95 % interval for this code's value; the best among many has one that is too high. With permutations,
          ``p`` is how often the best code is as good by chance. Constant codes have the value 0; codes that are not
          finite are left out.

        Raises:
          ValueError: for an unknown factor or relation, for a zoo (take a member: ``scores[0].top(…)``), and if the
            scores keep no relation: no metric scores one, factors lack values, or codes × factors × members (×
            replicates) are more than 16 million.

        Example:
          >>> values = np.random.default_rng(0).integers(0, 3, (200, 2))
          >>> codes = np.stack([values[:, 1], values[:, 0]], axis=1)
          >>> [row["code"] for row in jaxdis.evaluate(codes, values, "mig").top("factor_0", 1)]
          [1]
        """
        return best_codes(self, factor, count, relation)

    def _nulls(self, name: str) -> np.ndarray:
        self._column(name)  # an unknown one is refused as such
        if not self.nulls:
            raise ValueError("null: needs permutations; ask for them by evaluate(..., null=20)")
        if name not in self.nulls:
            raise ValueError(f"null: needs a metric that read factors, got {name}")
        return self.nulls[name]

    def to_dict(self, prefix: str | None = None) -> dict[str, Any]:
        """Columns as plain numbers, or, for a zoo, lists; after a bootstrap also ``name.error``, ``.bias``, ``.low``
        and ``.high``, with permutations ``name.null``, ``.above_null`` and ``.p``.

        Args:
          prefix: written before each name, as in ``"val/mig"``. With a prefix, all values are numbers, as experiment
            loggers take them: a zoo has an entry for each member, ``"val/seed0/mig"``.
        """
        numbers = {name: np.asarray(column).tolist() for name, column in score_table.numbers(self).items()}
        if prefix is None:
            return numbers
        if self.single:
            return {f"{prefix}{name}": value for name, value in numbers.items()}
        names = [row[NAME] for row in self.members]
        return {
            f"{prefix}{member}/{name}": value
            for row, member in enumerate(names)
            for name, value in zip(numbers, (column[row] for column in numbers.values()), strict=True)
        }

    def to_pandas(self, long: bool = False):
        """A data frame: a row per member with its metadata, and columns as :meth:`to_dict`; needs pandas.

        Args:
          long: a row per number instead, parts included, with the columns ``member``, metadata, ``metric``, ``field``,
            ``factor`` (a name), ``code`` and ``index`` (numbers), and ``value``.

        ``pandas.DataFrame(scores)`` is a zoo's scores alone; polars and other libraries that read Arrow take ``scores``
        itself.
        """
        import pandas

        return pandas.DataFrame((score_table.long if long else score_table.wide)(self))

    def __arrow_c_stream__(self, requested_schema=None):
        """Hand out the wide table to libraries that read Arrow; needs pyarrow."""
        import pyarrow

        return pyarrow.table(score_table.wide(self)).__arrow_c_stream__(requested_schema)

    def plot(self, by: str | None = None, *, ax=None):
        """A point per member over each column's name, with bootstrap intervals if there are any.

        Args:
          by: a column in the members' metadata, such as ``"model"``, whose values are told apart by color.
          ax: matplotlib axes to draw on; a new figure when None.

        Returns:
          The figure; ``figure.savefig("scores.svg")`` writes it. Select columns before: ``scores[["mig", "dci"]]``.

        Raises:
          ValueError: for metadata that the members do not have.
        """
        from jaxdis import plots

        known = score_table.metadata(self.members)
        if by is not None and by not in known:
            raise ValueError(f"by: must be one of {some_of(known)}, got {shown(by)}")
        columns = {name: np.atleast_1d(column) for name, column in self.items()}
        bounds = {name: np.atleast_2d(self.interval(name)) for name in self.replicates}
        return plots.score_points(columns, () if by is None else known[by], bounds, ax=ax)

    def to_csv(self, path: str | Path | None = None, long: bool = False) -> str:
        """Comma-separated text; written to ``path`` if given.

        One row per member: name, metadata, columns as :meth:`to_dict`, one more column for each part and factor, as in
        ``mig.per_factor[shape]``, and ``evaluation``, JSON that says how the scores were computed.

        Args:
          long: a row per number instead, with all parts, as :meth:`to_pandas`.
        """
        columns = score_table.csv_columns(self, long_form=long)
        text = csv_text(list(columns), zip(*(np.asarray(c, object).tolist() for c in columns.values()), strict=True))
        if path is not None:
            write_text(path, text)
        return text

    def save(self, path: str | Path) -> None:
        """Write everything to one npz file, atomically; :meth:`load` reads it."""
        score_file.save(path, dataclasses.asdict(self))

    @classmethod
    def load(cls, path: str | Path) -> "Scores":
        """Read scores that :meth:`save` wrote; nothing is unpickled.

        Raises:
          ValueError: for a file that is damaged or holds something else.
        """
        return cls(**score_file.load(path))

    @classmethod
    def concat(cls, tables: Iterable["Scores"]) -> "Scores":
        """Join several tables' members that have the same columns.

        Members that have only numbers for names are numbered anew. Parts whose shapes differ, as between members with
        more or fewer codes, are left out, and so are replicates if a table has none.

        Raises:
          ValueError: for no tables, for other columns or factors, and for member names that repeat.
        """
        tables = list(tables)
        if not tables or not all(isinstance(table, Scores) for table in tables):
            raise ValueError(f"tables: must be at least one Scores, got {[type(table).__name__ for table in tables]}")
        first = tables[0]
        for table in tables[1:]:
            if odd := sorted(first.keys() ^ table.keys()):
                raise ValueError(f"tables: must have the same columns, got {odd[0]} in some; select by scores[[…]]")
            if table.factor_names != first.factor_names:
                raise ValueError(f"tables: must have the same factors, got {first.factor_names}, {table.factor_names}")
        rows = [row for table in tables for row in table.members]
        if not any(isinstance(row[NAME], str) for row in rows):
            rows = [{name: value for name, value in row.items() if name != NAME} for row in rows]
        same = {name: value for name, value in first.evaluation.items() if all(_has(t, name, value) for t in tables)}
        return cls(
            **{field: _stacked(tables, field) for field in score_file.ARRAYS},
            errors=first.errors,
            factor_names=first.factor_names,
            members=member_rows(rows, len(rows)),
            axes=first.axes,
            notes=score_table.added([(table.notes, len(table.members)) for table in tables]),
            evaluation=same,
        )

    def _repr_html_(self) -> str:
        return score_table.as_html(self)

    def __repr__(self) -> str:
        return score_table.as_text(self)


def _owners(column: str) -> tuple[str, str]:
    """A column, and the metric whose field it may be."""
    return column, column.rpartition(".")[0] or column


def _stacked(tables: Sequence[Scores], field: str) -> dict[str, np.ndarray]:
    """The arrays that all tables have in one shape, with all members."""
    found = {}
    for name in getattr(tables[0], field):
        arrays = [getattr(table, field).get(name) for table in tables]
        if any(array is None for array in arrays):
            continue
        arrays = [np.asarray(a)[None] if table.single else a for a, table in zip(arrays, tables, strict=True)]
        if len({array.shape[1:] for array in arrays}) == 1:
            found[name] = np.concatenate(arrays)
    return found


def _has(table: Scores, name: str, value) -> bool:
    return name in table.evaluation and table.evaluation[name] == value
