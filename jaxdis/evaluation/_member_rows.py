"""What is known about a zoo's members besides their codes: a name, and metadata such as settings and seeds."""

from collections.abc import Collection, Iterable, Mapping

import numpy as np

from jaxdis._core.options import listed, shown
from jaxdis.metrics._metric import Column

NAME = "member"


def member_rows(members, count: int, metrics: Collection[str] = ()) -> tuple[dict, ...]:
    """One dict per member, which begins with its name under ``member``.

    Args:
      members: names; a dict with metadata per member, such as a zoo's labels; a mapping or a data frame whose column
        ``member`` holds the names. Without names, members are numbered.
      count: how many members there are.
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
        columns = [_entries(members[name]) for name in (list(members) if names is None else names)]
        if len(set(map(len, columns))) != 1:
            return None
        heads = list(members) if names is None else list(names)
        return [dict(zip(heads, row, strict=True)) for row in zip(*columns, strict=True)]
    entries = listed(members) or []
    if entries and all(isinstance(entry, Mapping) for entry in entries):
        return [dict(entry) for entry in entries]
    if entries and all(isinstance(entry, str | int | np.integer) for entry in entries):
        return [{NAME: entry} for entry in entries]
    return None


def _entries(column) -> list:
    """A column as a list; one value stands for a column with one entry."""
    if isinstance(column, str) or not isinstance(column, Iterable):
        return [column]
    return column.to_pylist() if hasattr(column, "to_pylist") else list(column)


def _plain(value):
    """Metadata as a file can hold it: numbers, text, truth values or nothing."""
    value = value.item() if isinstance(value, np.generic) else value
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)
