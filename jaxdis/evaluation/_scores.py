"""A zoo's scores as a table: one row per member, one column per number."""

import dataclasses
import json
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np

from jaxdis._core.files import DamagedFile, csv_text, read_arrays, write_arrays
from jaxdis._core.options import Count, checked, checked_value, shown, some_of
from jaxdis._core.version import __version__
from jaxdis.evaluation import _score_core as score_table
from jaxdis.evaluation._member import Results
from jaxdis.evaluation._notes import notes_of_request
from jaxdis.evaluation._request import Request
from jaxdis.evaluation._score_core import ARRAYS, NAME, ScoreCore, member_rows, p_value
from jaxdis.metrics._metric import Column
from jaxdis.metrics._plan import Plan, lower_is_better

# Of the files that :meth:`Scores.save` writes.
_FORMAT = 1


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Scores(ScoreCore):
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
      >>> values, names = np.arange(200)[:, None] % [2, 3], ["plain", "negated"]
      >>> scores = jaxdis.evaluate(np.stack([values, -values]), values, "mig", members=names)
      >>> scores["negated"]["mig"] == scores[1]["mig"] == scores["mig"][1]
      np.True_
      >>> scores.to_pandas(long=True).factor.dropna().tolist()
      ['factor_0', 'factor_1', 'factor_0', 'factor_1']
    """

    @classmethod
    def of(cls, request: Request, results: Results) -> "Scores":
        """Dress the numbers of a run with names, members, notes, and how they were computed."""
        scores = cls.named(request, request.plan, results)
        nulls = [cls.named(request, request.plan, each).columns for each in results.nulls]
        nulls = {name: np.stack([each[name] for each in nulls], axis=-1) for name in (nulls[0] if nulls else ())}
        metrics = dict(request.plan)
        scores = dataclasses.replace(
            scores,
            members=request.rows,
            nulls=nulls,
            errors=tuple(name for name in nulls if name.field in metrics[name.metric].errors),
            relations=_relations(request, results),
            evaluation=described(request),
        )
        notes = notes_of_request(request, scores)
        # NaN for metrics that did not fit into memory, and all columns in the order of the metrics.
        columns, nothing = {}, np.float32(np.nan) if request.single else np.full(len(request.rows), np.nan, np.float32)
        for name, metric in request.asked:
            if name in request.reasons:
                columns |= {Column(name, field): nothing for field in metric.scalar_fields}
            else:
                columns |= {column: values for column, values in scores.items() if column.metric == name}
        return dataclasses.replace(scores, notes=notes, columns=columns)

    @classmethod
    def arriving(cls, request: Request) -> Callable[[Plan, Results], None]:
        """What tells a request's caller of some metrics' scores as soon as they are computed."""
        return lambda plan, results: request.arrived(cls.named(request, plan, results))

    @classmethod
    def named(cls, request: Request, plan: Plan, results: Results) -> "Scores":
        """Some metrics' numbers under their names: those ``[m]`` as columns, others as parts."""
        columns, parts, replicates, axes = {}, {}, {}, {}
        for name, metric in plan:  # a compiled program returns its results in alphabetical order
            for field, values in results.metrics[name]._asdict().items() if name in results.metrics else ():
                if values is None:
                    continue
                column = Column(name, field, None if values.ndim == 1 else f"{name}.{field}")
                (columns if values.ndim == 1 else parts)[column] = values[0] if request.single else values
                if values.ndim > 1 and field in metric.axes:
                    axes[column] = metric.axes[field]
                if values.ndim == 1 and name in results.replicates:
                    drawn = results.replicates[name][field]
                    replicates[column] = drawn[0] if request.single else drawn
        return cls(columns, parts, request.shared.factors.names, replicates, axes=axes)

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

        Example:
          >>> values = np.random.default_rng(0).integers(0, 3, (200, 2))
          >>> codes = np.stack([values[:, 1], values[:, 0]], axis=1)
          >>> [row["code"] for row in jaxdis.evaluate(codes, values, "mig").top("factor_0", 1)]
          [1]
        """
        from scipy.special import stdtrit

        labels = list(dict.fromkeys(name.metric for name in self.relations))
        if not labels:
            raise ValueError(
                "top: must have a relation that a metric scores, of complete factors and at most 16,777,216 codes × "
                "factors × members (× replicates), got none; score mig, or fewer members"
            )
        if not self.single:
            raise ValueError("top: must be asked of one member, got a zoo; take one by scores[0]")
        label = checked_value("relation", Literal[tuple(labels)], labels[0] if relation is None else relation)
        names = self.factor_names
        column = names.index(factor) if factor in names else factor
        if isinstance(column, str) or not 0 <= column < len(names):
            raise ValueError(f"factor: must be one of {some_of(names)}, or its number from 0, got {shown(factor)}")
        fields = ("strength", "ceiling", "error", "null")
        strength, ceiling, error, null = (self.relations.get(f"{label}.{field}") for field in fields)
        values, rows = strength[:, column].astype(float), []
        for code in np.argsort(-values, kind="stable")[:count].tolist():
            if np.isnan(value := values[code].item()):
                break
            row = {"rank": len(rows) + 1, "code": code, "value": value, "share": value / ceiling[column].item()}
            if error is not None:
                reach = -stdtrit(self.evaluation["bootstrap"] - 1, 0.025).item() * error[code, column].item()
                row |= {"low": value - reach, "high": value + reach}
            if null is not None:
                row["p"] = p_value(value, null[column], error=False).item()
            rows.append(row)
        return rows

    def rank(self, by: str | None = None) -> list[dict[str, Any]]:
        """List the members from best to worst: their ``rank``, name, metadata, and the number that decides.

        Members that score the same share the best of their ranks; undefined scores come last.

        Args:
          by: a column; one that is an error is best when it is low. When None, ``mean_rank`` over all columns decides.

        Example:
          >>> true, names = np.arange(200)[:, None] % [2, 3], ["constant", "true"]
          >>> scores = jaxdis.evaluate(np.stack([0 * true, true]), true, "mcc", members=names)
          >>> [(row["rank"], row["member"]) for row in scores.rank("mcc")]
          [(1, 'true'), (2, 'constant')]
        """
        from scipy.stats import rankdata

        wanted = self if by is None else [by]
        columns = {name: np.atleast_1d(np.asarray(self._column(name), float)) for name in wanted}
        falling = [column if lower_is_better(name) else -column for name, column in columns.items()]
        ranks = np.mean([rankdata(np.nan_to_num(column, nan=np.inf), method="min") for column in falling], axis=0)
        decides, numbers = ("mean_rank", ranks) if by is None else (by, columns[by])
        places = rankdata(ranks, method="min").astype(int).tolist()
        rows = zip(places, self.members, numbers.tolist(), strict=True)
        found = [{"rank": place, **member, decides: number} for place, member, number in rows]
        return sorted(found, key=lambda row: row["rank"])

    def best(self, by: str) -> "Scores":
        """Take the scores of the member that is best by a column; ``best("mig").members[0]`` says which it is.

        Example:
          >>> true, names = np.arange(200)[:, None] % [2, 3], ["constant", "true"]
          >>> scores = jaxdis.evaluate(np.stack([0 * true, true]), true, "mcc", members=names)
          >>> scores.best("mcc").members[0]["member"]
          'true'
        """
        first = self.rank(by)[0]
        if np.isnan(first[by]):
            raise ValueError(f"by: must be a column that some member has, got {by!r}, which is NaN for all")
        return self[[row[NAME] for row in self.members].index(first[NAME])]

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
        """
        from jaxdis import plots

        known = score_table.metadata(self.members)
        if by is not None and by not in known:
            raise ValueError(f"by: must be one of {some_of(known)}, got {shown(by)}")
        columns = {name: np.atleast_1d(column) for name, column in self.items()}
        bounds = {name: np.atleast_2d(self.interval(name)) for name in self.replicates}
        counts = {"members": None if self.single else len(self.members), "samples": self.evaluation.get("samples")}
        title = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
        return plots.score_points(columns, () if by is None else known[by], bounds, title=title, ax=ax)

    def to_csv(self, path: str | Path | None = None, long: bool = False) -> str:
        """Comma-separated text; written to ``path`` if given.

        One row per member: name, metadata, columns as :meth:`to_dict`, one more column for each part and factor, as in
        ``mig.per_factor[shape]``, and ``evaluation``, whose first row has JSON that says how the scores were computed.

        Args:
          long: a row per number instead, with all parts, as :meth:`to_pandas`.
        """
        columns = score_table.csv_columns(self, long_form=long)
        rows = zip(*(np.asarray(column, object).tolist() for column in columns.values()), strict=True)
        return csv_text(list(columns), rows, path)

    def save(self, path: str | Path) -> None:
        """Write everything to one npz file, atomically; :meth:`load` reads it."""
        fields = dataclasses.asdict(self)
        arrays = {f"{kind}/{name}": np.asarray(array) for kind in ARRAYS for name, array in fields[kind].items()}
        others = {name: value for name, value in fields.items() if name not in ARRAYS}
        # As text, since a header is written with sorted keys, and columns of metadata have an order.
        write_arrays(path, {"scores": _FORMAT, "fields": json.dumps({"order": list(arrays), **others})}, arrays)

    @classmethod
    def load(cls, path: str | Path) -> "Scores":
        """Read scores that :meth:`save` wrote; nothing is unpickled."""
        header, arrays = read_arrays(path)
        if header.get("scores") != _FORMAT:
            raise DamagedFile(f"{path}: must be a file written by Scores.save, got another file of jaxdis")
        try:
            fields, header = {kind: {} for kind in ARRAYS}, json.loads(header["fields"])
            for key in header["order"]:
                kind, _, name = key.partition("/")
                fields[kind][name] = arrays[key] if arrays[key].ndim else arrays[key][()]
            fields |= {
                "factor_names": tuple(map(str, header["factor_names"])),
                "members": tuple(map(dict, header["members"])),
                "axes": {name: tuple(letters) for name, letters in header["axes"].items()},
                "notes": tuple((metric, note) for metric, note in header["notes"]),
                "evaluation": dict(header["evaluation"]),
                "errors": tuple(map(str, header.get("errors", ()))),
            }
            counts = {np.shape(column)[:1] for column in fields["columns"].values()}
            if counts not in ({()}, {(len(fields["members"]),)}):
                raise ValueError(f"{len(fields['members'])} members and columns of shapes {sorted(counts)}")
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            words = f"{type(error).__name__}: {error}"
            raise DamagedFile(f"{path}: must be a file written by Scores.save, got {words}") from None
        return cls(**fields)

    @classmethod
    def concat(cls, tables: Iterable["Scores"]) -> "Scores":
        """Join several tables' members that have the same columns.

        Members that have only numbers for names are numbered anew. Parts whose shapes differ, as between members with
        more or fewer codes, are left out, and so are replicates if a table has none.
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
        records = [table.evaluation for table in tables]
        same = {n: value for n, value in records[0].items() if all(n in r and r[n] == value for r in records)}
        return cls(
            **{field: _stacked(tables, field) for field in ARRAYS},
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


def described(request: Request) -> dict[str, Any]:
    """Versions, how many samples and codes, the factors' sizes, the key, replicates, and metrics with all options.

    ``options`` are those that differ from the version's defaults. A checksum tells groups apart.
    """
    shared, null = request.shared, request.null
    factors, groups = shared.factors, shared.groups
    without_order = [name for name, each in zip(factors.names, factors.nominal or (), strict=False) if each]
    test, held_out, belonging = request.members.test_codes, None, {}
    if groups is not None:
        groups = np.asarray(groups).astype(np.int32)
        belonging = {"groups": {"count": int(groups.max()) + 1, "checksum": zlib.crc32(groups.tobytes())}}
    if not request.parts and (test is not None or shared.test_rows is not None):
        held_out = len(shared.test_rows) if test is None else test.shape[1]
    options = {name: {k: v for spec in metric.specs for k, v in spec.options} for name, metric in request.asked}
    found = {
        "versions": {"jaxdis": __version__, "jax": jax.__version__},
        "samples": request.members.codes.shape[1],
        "held_out": held_out,
        "codes": request.members.codes.shape[2],
        "sizes": dict(zip(factors.names, factors.sizes, strict=True)),
        **({"without_order": without_order} if without_order else {}),
        "key": jax.random.key_data(shared.key).tolist(),
        "bootstrap": request.bootstrap,
        **({"null": null.count if null.kind == "permutation" else {null.kind: null.count}} if null.count else {}),
        **belonging,
        "options": {name: changed for name, changed in options.items() if changed},
        "metrics": {name: metric.describe() for name, metric in request.asked},
    }
    return json.loads(json.dumps(found, default=str))


def _relations(request: Request, results: Results) -> dict[Column, np.ndarray]:
    """The relations that were kept: strength, ceiling, after a bootstrap their error, and with permutations the largest
    strength that any code has for each factor, ``[…, k, count]``."""
    found = {}
    for label, relation in results.relations.items():
        fields = {field: array for field, array in relation._asdict().items() if array is not None}
        if results.nulls:
            strengths = [null.relations[label].strength for null in results.nulls]
            fields["null"] = np.stack([np.fmax.reduce(each, axis=1) for each in strengths], axis=-1)
        found |= {Column(label, field): array[0] if request.single else array for field, array in fields.items()}
    return found


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
