"""Columns of a table that a user gives, and what they are as factors.

Which are classes, their numbers, and which samples lack a value.
"""

import json
import math
import os
import re
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from jaxdis._core import table_files
from jaxdis._core.files import open_regular
from jaxdis._core.options import Positive, checked_value, listed, shown, some_of
from jaxdis._core.table_files import parsed, read_arrays, to_read

# Files of tables.
SUFFIXES = (*table_files.TEXT_SUFFIXES, *table_files.ARROW_SUFFIXES)
# How pandas marks a missing value among others, besides NaN and None.
_NO_VALUE = ("NAType", "NaTType")
# What pandas, pyarrow and others call an index that has no name.
_INDEX = re.compile(r"(Unnamed: \d+(\.\d+)*|__index_level_\d+__)?")


class Column(NamedTuple):
    """``entries``: numbers, text, truth values, or None where one is missing; ``order``: all classes, if declared;
    ``continuous``: whether the column is declared to hold a continuous factor; ``ordered``: whether its categories are
    declared to be in order, None where the source says nothing."""

    entries: list
    order: tuple | None = None
    continuous: bool = False
    ordered: bool | None = None


def columns_of(table, wanted: Sequence[str] = ()) -> dict[str, Column]:
    """A table's columns by name; those wanted in their order, or all but an index."""
    where = "table"
    if isinstance(table, str | os.PathLike):
        path, (file, _) = Path(table), table_files.file_and_part(table)
        where, suffix = path.name, table_files.format_of(file, FACTOR_SUFFIXES, "factors")
        table = _READERS[suffix](path, wanted)
    given = _as_mapping(table, wanted)
    names = [name if isinstance(name, str) else f"factor_{name}" for name in given]
    if len(set(names)) < len(names):
        raise ValueError(f"{where}: must have columns of distinct names, got {some_of(names)}")
    columns = dict(zip(names, given.values(), strict=True))
    for name in wanted:
        if name not in columns:
            raise ValueError(f"columns: must be among {some_of(columns)}, got {shown(name)}")
    if len(set(wanted)) < len(wanted):
        raise ValueError(f"columns: must be named once each, got {some_of(wanted)}")
    columns = {name: _column(where, name, columns[name]) for name in wanted or columns}
    lengths = [f"{len(column.entries):,} in {name}" for name, column in columns.items()]
    if len({len(column.entries) for column in columns.values()}) != 1:
        raise ValueError(f"{where}: must have columns of equal length, got {some_of(lengths) or 'none'}")
    if wanted:
        return columns
    kept = {name: each for name, each in columns.items() if not (_INDEX.fullmatch(name) and differ(each.entries))}
    if not kept:
        raise ValueError(f"{where}: must have columns besides an index, got none; name the index to read it")
    return kept


def differ(entries: Sequence) -> bool:
    """Whether a column holds whole numbers, no two of which are equal, as an index does."""
    return len(set(entries)) == len(entries) and all(isinstance(entry, int) for entry in entries)


def _read_arrays(path: Path, _wanted) -> Mapping:
    """The array ``factors``, whose names and sizes may stand beside it, or else one array for each column."""
    arrays = read_arrays(path, ("factors", "names", "sizes"))
    if arrays.get("factors") is None:
        return {name: array for name, array in read_arrays(path, tuple(arrays)).items() if array.ndim == 1}
    factors = arrays["factors"]
    factors = factors[:, None] if factors.ndim == 1 else factors
    if factors.ndim != 2:
        raise ValueError(f"factors: must have shape [n, k] (samples, factors), got {factors.shape}")
    k, names, sizes = factors.shape[1], names_of(arrays.get("names")), sizes_of(arrays.get("sizes"))
    names = names or [f"factor_{j}" for j in range(k)]
    if len(set(names)) != k or len(names) != k or (sizes is not None and len(sizes) != k):
        raise ValueError(f"names, sizes: must have {k} entries, one per factor, got {shown(names)}, {shown(sizes)}")
    columns = {name: _column("table", name, column) for name, column in zip(names, factors.T, strict=True)}
    for name, size in zip(names, sizes or (), strict=bool(sizes)):
        columns[name] = columns[name]._replace(order=size and tuple(range(size)), continuous=size is None)
    return columns


def _read_json(path: Path, _wanted) -> Mapping:
    """A mapping from names to columns: as such in a file, or a list of rows."""
    try:
        with open_regular(path) as file:
            table = json.loads(file.read().decode("utf-8-sig"))
    except ValueError as error:
        raise ValueError(f"{path.name}: must be JSON, got another file or one that is cut short ({error})") from None
    if isinstance(table, list) and table and all(isinstance(row, dict) for row in table):
        names = dict.fromkeys(name for row in table for name in row)
        return {name: [row.get(name) for row in table] for name in names}
    if not isinstance(table, dict):
        raise ValueError(f"{path.name}: must be a list of rows or an object of columns, got {type(table).__name__}")
    return table


# What reads the factors, or the table that holds them, in each kind of file.
_READERS = {
    **dict.fromkeys(
        table_files.TEXT_SUFFIXES,
        lambda path, names: {n: Column(e) for n, e in table_files.read_text(path, names).items()},
    ),
    **dict.fromkeys(
        table_files.ARROW_SUFFIXES, lambda path, names: _arrow_columns(table_files.read_arrow(path, names), path.name)
    ),
    ".json": _read_json,
    **dict.fromkeys(table_files.ARRAY_SUFFIXES, _read_arrays),
    **dict.fromkeys(table_files.CELL_SUFFIXES, lambda path, _wanted: table_files.read_annotations(path)),
}
FACTOR_SUFFIXES = tuple(_READERS)


def _as_mapping(table, wanted: Sequence[str]) -> dict[Any, Any]:
    """Names and columns, without a library that the table does not come from, as far as that is possible."""
    if hasattr(table, "iloc") and hasattr(table, "items"):  # pandas, whose index is no column
        return dict(table.items())
    if hasattr(table, "obs") and hasattr(table, "obsm"):  # of AnnData, what is known about each cell
        return dict(table.obs.items())
    if hasattr(table, "get_columns"):  # polars
        return {column.name: column for column in table.get_columns()}
    if isinstance(table, Mapping):
        return dict(table)
    arrow, exchanged = hasattr(table, "__arrow_c_stream__"), hasattr(table, "__dataframe__")
    if not arrow and not exchanged and callable(getattr(table, "to_pandas", None)):  # as Hugging Face's Dataset
        return dict(table.to_pandas().items())
    if not arrow and not exchanged:
        raise ValueError(
            "table: must be a data frame, an Arrow table, a mapping of names to columns, or a path "
            f"({', '.join(FACTOR_SUFFIXES)}), got {shown(table)}; of an array, use Factors.of"
        )
    try:
        import pyarrow
        from pyarrow import interchange
    except ImportError:
        kind = type(table).__name__
        raise ValueError(f"table: {kind} needs pyarrow (pip install pyarrow), or give a mapping of columns") from None
    table = pyarrow.table(table) if arrow else interchange.from_dataframe(table)
    return _arrow_columns(table.select(to_read(table.column_names, wanted)) if wanted else table)


def _arrow_columns(table, where: str = "table") -> dict[str, Column]:
    """An Arrow table's columns, with what pandas wrote about categories: their order, also where Arrow sees none."""
    said = json.loads((table.schema.metadata or {}).get(b"pandas", b"{}")).get("columns", ())
    declared = {each["field_name"]: each["metadata"] for each in said if each.get("pandas_type") == "categorical"}
    columns = {}
    for name, values in zip(table.column_names, table.columns, strict=True):
        column = columns[name] = _column(where, name, values)
        of_pandas = declared.get(name)
        if hasattr(values.type, "ordered") and (values.type.ordered or of_pandas):
            values = values.unify_dictionaries()
            parts = [values.chunk(0).dictionary.to_pylist()] if values.num_chunks else []
            columns[name] = column._replace(order=_categories(parts[0] if parts else ()))
        if of_pandas:
            columns[name] = columns[name]._replace(ordered=bool(of_pandas["ordered"]))
    return columns


def _categories(values) -> tuple:
    return tuple(value for value in dict.fromkeys(parsed(list(values))) if value is not None)


def _column(where: str, name: str, values) -> Column:
    if isinstance(values, Column):
        return values
    kind = getattr(values, "dtype", None) or getattr(values, "type", None)
    if getattr(values, "ndim", 1) != 1:
        raise ValueError(f"{where}: column {shown(name)} must have one entry per row, got shape {values.shape}")
    read = next((getattr(values, name) for name in ("to_pylist", "to_list", "tolist") if hasattr(values, name)), None)
    if read is None and not isinstance(values, Sequence) or isinstance(values, str | bytes):
        raise ValueError(f"{where}: column {shown(name)} must hold one entry per row, got {shown(values)}")
    entries = [entry.item() if isinstance(entry, np.generic) else entry for entry in (read() if read else values)]
    entries = [None if type(entry).__name__ in _NO_VALUE else entry for entry in entries]
    odd = next((type(entry).__name__ for entry in entries if not isinstance(entry, str | int | float | None)), None)
    odd = kind if getattr(kind, "kind", "") in tuple("mMcV") else odd
    if odd is not None:
        raise ValueError(
            f"{where}: column {shown(name)} must hold numbers, text or truth values, got {odd}; convert it, or "
            "leave it out by columns= (--columns)"
        )
    categories = getattr(kind, "categories", None)
    # A Categorical of polars numbers its categories as they come; an Enum declares them in order.
    ordered = getattr(kind, "ordered", None if categories is None else type(kind).__name__ == "Enum")
    listed = categories is not None and (ordered or hasattr(kind, "ordered"))
    return Column(parsed(entries), _categories(categories) if listed else None, ordered=ordered)


def sizes_of(sizes: np.ndarray | None) -> tuple[int | None, ...] | None:
    if sizes is None:
        return None
    if sizes.ndim > 1 or sizes.dtype.kind not in "fiu":
        raise ValueError(f"sizes: must have one number per factor (0 for a continuous one), got {shown(sizes)}")
    sizes = np.atleast_1d(sizes)
    if not np.isfinite(sizes).all() or (sizes % 1 != 0).any() or (sizes < 0).any():
        raise ValueError(f"sizes: must be whole numbers of at least 0, got {shown(sizes.tolist())}")
    return tuple(int(size) or None for size in sizes)


def names_of(names: np.ndarray | None) -> list[str] | None:
    if names is None:
        return None
    if names.ndim > 1 or names.dtype.kind not in "US":
        raise ValueError(f"names: must have one text per factor, got {shown(names)}")
    return np.atleast_1d(np.char.decode(names, "utf-8", "replace") if names.dtype.kind == "S" else names).tolist()


Kind = Literal["classes", "nominal", "ordered", "continuous", "circular"]
Missing = Literal["error", "drop", "each"]
KINDS = typing.get_args(Kind)
# As many different values may be classes in a table of any length.
FEW_CLASSES = 10


class Numbered(NamedTuple):
    """A table's columns as numbers.

    ``values [n, k]`` of the kept rows; ``sizes``, None for a continuous factor; ``periods``, None for all but circular
    ones; ``classes``, the values that class numbers stand for, or None; ``rows [n]``, the kept rows; ``num_rows`` of
    the table; ``present [n, k]``, which values there are, or None for all; ``nominal``, whether a factor's classes have
    no order.
    """

    values: np.ndarray
    sizes: tuple[int | None, ...]
    periods: tuple[float | None, ...]
    classes: tuple[tuple | None, ...]
    rows: np.ndarray
    num_rows: int
    present: np.ndarray | None
    nominal: tuple[bool, ...]


class _Wanted(NamedTuple):
    """What a column is said to hold: the kind, a circular factor's period, and all classes in order."""

    kind: Kind | None = None
    period: float | None = None
    order: tuple | None = None


def numbered(columns: Mapping[str, Column], kinds: Mapping, missing: Missing) -> Numbered:
    """Number the columns' classes, by the rules in :meth:`jaxdis.Factors.from_table`."""
    missing = checked_value("missing", Missing, missing)
    kinds = {name: _wanted(name, kind) for name, kind in kinds.items()}
    for name in kinds:
        if name not in columns:
            raise ValueError(f"kinds: must name columns among {', '.join(columns)}, got {shown(name)}")
    if not all(columns):
        raise ValueError("needs a name for every column, got none for one; give the names of the others")
    present = np.array([[entry is not None for entry in column.entries] for column in columns.values()], bool).T
    lacking = ~present.all(axis=1)
    if lacking.any() and missing == "error":
        listing = ", ".join(name for name, there in zip(columns, present.T, strict=True) if not there.all())
        raise ValueError(
            f"must have a value in every row, got none in {lacking.sum()} of {len(lacking)} rows of {listing} (first "
            f"in row {lacking.argmax() + 1}); missing='drop' (--missing drop) leaves these rows out, of codes too, and "
            "missing='each' scores every factor on the rows that have it"
        )
    rows = np.arange(len(present)) if missing == "each" else np.flatnonzero(~lacking)
    values = np.zeros(present.shape)
    sizes, periods, classes, nominal = [], [], [], []
    for j, (name, column) in enumerate(columns.items()):
        there = rows[present[rows, j]]
        if len(there) < 2:
            where = f" of column {shown(name)}" if missing == "each" else ""
            raise ValueError(
                f"must have at least 2 rows{where} in which no value is missing, got {len(there)} of {len(present)}"
            )
        kind, period, order = kinds.get(name, _Wanted("continuous" if column.continuous else None))
        entries = [column.entries[row] for row in there]
        values[there, j], of_numbers = _factor(name, entries, kind, there, order or column.order)
        classes.append(of_numbers)
        sizes.append(None if of_numbers is None else len(of_numbers))
        if kind == "circular" and period is None:
            # The range and one grid step: 360 for the angles 0, 90, 180 and 270, and for measured ones their range.
            distinct = np.unique(values[there, j])
            period = float(np.ptp(distinct) + np.diff(distinct).min()) if len(distinct) > 1 else 1.0
        periods.append(period if kind == "circular" else None)
        nominal.append(_is_nominal(name, kind, column, of_numbers, order))
    present = None if present[rows].all() else present[rows]
    facts = tuple(map(tuple, (sizes, periods, classes)))
    return Numbered(values[rows], *facts, rows, len(values), present, tuple(nominal))


def columns_and_kinds(texts: Sequence[str]) -> tuple[list[str], dict[str, Kind | tuple]]:
    """Columns as they are named in the shell: ``shape``, ``angle:continuous``, ``size:ordered=low,medium,high``."""
    names, kinds = [], {}
    for text in texts:
        found = re.fullmatch(rf"(.+):(?:({'|'.join(KINDS)})|ordered=(.+))", text)
        name, kind, order = found.groups() if found else (text, None, None)
        names.append(name)
        if found:
            kinds[name] = kind or ("ordered", tuple(order.split(",")))
    return names, kinds


def _wanted(name: str, kind) -> _Wanted:
    """``"circular"``, ``("circular", 360.0)`` with the period, ``("ordered", ("low", "high"))`` with all classes."""
    where = f"kinds: the {{}} of {shown(name)}"
    if isinstance(kind, tuple | list) and len(kind) == 2 and kind[0] == "circular":
        return _Wanted("circular", checked_value(where.format("period"), Positive, kind[1]))
    if isinstance(kind, tuple | list) and len(kind) == 2 and kind[0] == "ordered":
        order = listed(kind[1])
        once = order and len(set(order)) == len(order) and all(isinstance(value, str | int | float) for value in order)
        if not once:
            raise ValueError(f"{where.format('classes')} must be listed in order, once each, got {shown(kind[1])}")
        return _Wanted("ordered", order=tuple(parsed(order)))
    return _Wanted(checked_value(f"kinds of {shown(name)}", Kind, kind))


def _is_nominal(name: str, kind: Kind | None, column: Column, classes: tuple | None, order: tuple | None) -> bool:
    """Whether classes have no order: they are declared so, or are text whose order nobody declared."""
    texts = classes is not None and any(isinstance(value, str) for value in classes)
    if kind == "ordered" and texts and (order or column.order) is None:
        raise ValueError(
            f"column {shown(name)} must have its classes listed in order, got text; kinds={{{name!r}: ('ordered', "
            f"({', '.join(map(repr, classes[:3]))}{', …' if len(classes) > 3 else ''}))}} with the least first "
            f"({name}:ordered=…,… in the shell)"
        )
    if classes is None or kind == "ordered" or (kind is None and column.ordered):
        return False
    return kind == "nominal" or texts or column.ordered is False


def _factor(
    name: str, entries: Sequence, kind: Kind | None, rows: np.ndarray, order: tuple | None
) -> tuple[np.ndarray, tuple | None]:
    """Class numbers and the values that they stand for, or real numbers and None."""
    distinct, where = set(entries), f"column {shown(name)}"
    texts = {value for value in distinct if isinstance(value, str)}
    infinite = {value for value in distinct - texts if isinstance(value, float) and not math.isfinite(value)}
    measured = kind in ("continuous", "circular")
    if texts and (measured or (kind is None and len(texts) < len(distinct))):
        row, text = next(pair for pair in zip(rows, entries, strict=True) if pair[1] in texts)
        raise ValueError(
            f"{where} must hold numbers alone or text alone, got {shown(text)} in row {row + 1} among numbers; correct "
            f"it, or say that these are classes: kinds={{{name!r}: 'classes'}} ({name}:classes in the shell)"
        )
    if infinite:
        row, number = next(pair for pair in zip(rows, entries, strict=True) if pair[1] in infinite)
        raise ValueError(f"{where} must hold finite numbers, got {number} in row {row + 1}")
    declared = order is not None and not measured
    if measured or (not texts and not declared and kind is None and any(value % 1 for value in distinct)):
        return np.array(entries, np.float64), None
    if declared:
        odd = distinct - set(order)
        if odd:
            raise ValueError(f"{where} must be among its declared classes {shown(order)}, got {shown(odd.pop())}")
        values = order
    # Values of which most occur once are ids or measurements.
    elif kind is None and (len(distinct) > max(FEW_CLASSES, len(rows) / 2) or len(texts) == len(rows)):
        raise ValueError(
            f"{where} must hold classes that repeat, got {len(distinct)} different "
            f"{'texts' if texts else 'whole numbers'} in {len(rows)} rows; choose others by columns= "
            f"(--columns), or say what it is: kinds={{{name!r}: 'continuous'}} or 'classes' ({name}:continuous in the "
            "shell)"
        )
    else:
        values = tuple(sorted(distinct, key=str if texts else None))
    numbers = {value: number for number, value in enumerate(values)}
    return np.array([numbers[entry] for entry in entries], np.float64), values
