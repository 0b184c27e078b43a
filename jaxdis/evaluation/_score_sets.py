"""Sets of scores as comparisons take them: from memory or from files, with what is known about their members."""

import collections
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxdis._core.files import read_csv_columns
from jaxdis._core.lookup import some_of
from jaxdis._core.options import shown
from jaxdis._core.table_columns import columns_of
from jaxdis.evaluation._member_rows import NAME, column_rows
from jaxdis.evaluation._scores import Scores
from jaxdis.metrics import METRICS
from jaxdis.metrics._metric import Column

# What tables of scores hold beside scores; those of single factors end in a bracket.
_BESIDE = (".error", ".bias", ".low", ".high")
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
        """Some members under another name."""
        scores = {column: values[list(rows)] for column, values in self.scores.items()}
        metadata = {column: [values[row] for row in rows] for column, values in self.metadata.items()}
        return ScoreSet(name, scores, metadata)


def score_sets(given: Sequence, names: Sequence[str] | None, by: str | None, meta) -> list[ScoreSet]:
    """One set for each that is given, or for each value in the column ``by``."""
    names = [f"{chr(ord('a') + place)}" for place in range(len(given))] if names is None else list(names)
    rows = None if meta is None else _by_name(meta)
    sets = []
    for name, each in zip(names, given, strict=True):
        one = _set(name, each)
        sets.append(one if rows is None else one._replace(metadata=one.metadata | _found(one, rows)))
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


def column_of(one: ScoreSet, name: str, argument: str) -> list:
    """What is known about the members under a name."""
    if name not in one.metadata:
        raise ValueError(
            f"{argument}: must be one of {some_of(sorted(one.metadata))}, got {shown(name)} for {one.name}; meta= "
            "(--meta FILE) adds columns"
        )
    return one.metadata[name]


def lower_is_better(column: str) -> bool:
    """Whether a column from the library's metrics is best when low; others are taken as best when high."""
    column = Column.read(column, METRICS)
    return column.metric in METRICS and column.field in METRICS[column.metric].errors


def _set(name: str, given) -> ScoreSet:
    """Numeric columns ``[m]``, and all columns by which members can be told apart."""
    if isinstance(given, str | Path) and Path(given).is_dir():
        return _of_folder(name, Path(given))
    if isinstance(given, str | Path):
        given = _read(Path(given))
    if isinstance(given, Scores):
        heads = dict.fromkeys(head for row in given.members for head in row)
        metadata = {head: [row.get(head) for row in given.members] for head in heads}
        scores = {column: np.atleast_1d(np.asarray(values, float)) for column, values in given.items()}
        origin = [given.evaluation.get(part) for part in ("samples", "held_out", "key", "bootstrap", "groups")]
        return ScoreSet(name, scores, metadata, (given.replicates, origin) if given.single else ({}, None))
    if not isinstance(given, Mapping) or not given:
        raise ValueError(f"{name}: must be Scores, a file, or a mapping of columns, got {shown(given)}")
    columns = {str(column): np.asarray(values) for column, values in given.items()}
    if len({values.shape for values in columns.values()}) > 1 or next(iter(columns.values())).ndim != 1:
        raise ValueError(f"{name}: must have columns of one length, got {[each.shape for each in columns.values()]}")
    scored = _metrics(columns)
    scores = {
        n: c.astype(float)
        for n, c in columns.items()
        if n not in _NAMES and c.dtype.kind in "fiu" and _is_score(n, scored)
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


def _metrics(columns: Mapping) -> list[str] | None:
    """The metrics in a table that tells how it was computed."""
    try:
        return list(json.loads(columns["evaluation"][0])["metrics"])
    except (KeyError, IndexError, TypeError, ValueError):
        return None


def _is_score(column: str, scored: list[str] | None) -> bool:
    known = scored is None or Column.read(column, scored).metric in scored
    return known and not column.endswith((*_BESIDE, "]"))


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
    tables = [{"file": file} | table for file, table in content.items()] if _of_files(content) else [content]
    rows = [row for table in tables for row in _json_rows(table)]
    columns = {name: [row.get(name) for row in rows] for name in dict.fromkeys(name for row in rows for name in row)}
    return {name: _numbered(values) for name, values in columns.items()}


def _numbered(values: list) -> np.ndarray | list:
    """Numbers, NaN for None, where all are; else the values."""
    return np.array(values, float) if _numbers(values) else values


def _of_files(content: dict) -> bool:
    return all(isinstance(table, dict) and "members" in table for table in content.values())


def _json_rows(table: dict) -> list[dict]:
    """A row per member from what :func:`~jaxdis.evaluation._score_table.as_json` made."""
    columns = {name: column for name, column in table.items() if name not in _OF_JSON and name != "file"}
    columns = {name: column if isinstance(column, list) else [column] for name, column in columns.items()}
    count = max(map(len, columns.values()), default=0)
    known = table.get("members") or [{}] * count
    file = {"file": table["file"]} if "file" in table else {}
    return [
        {**file, **row, **{name: column[place] for name, column in columns.items()}} for place, row in enumerate(known)
    ]


def _numbers(values: list) -> bool:
    return all(value is None or (isinstance(value, int | float) and not isinstance(value, bool)) for value in values)


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
    if len(known.heads) > 1:
        lacking = [head for head in known.heads if head not in heads]
        if lacking:
            raise ValueError(f"meta: must name members by columns of {one.name}, got {', '.join(lacking)} besides")
        tried = [known.heads]
    else:
        tried = sorted(((head,) for head in heads), key=lambda each: each != known.heads)
    matched, errors = None, []
    for each in tried:
        try:
            matched = _matched(list(zip(*(one.metadata[head] for head in each), strict=True)), known)
            break
        except ValueError as error:
            errors.append(error)
    if matched is None:
        raise errors[0]
    return {column: [row[column] for row in matched] for column in matched[0]}


def _matched(names: Sequence[tuple], known: _Known) -> list[dict]:
    """Every member's row."""
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
