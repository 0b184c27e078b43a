"""Columns from whatever holds a table: a file, a data frame, an Arrow table, or a mapping from names to columns."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxdis._core.files import open_regular
from jaxdis._core.lookup import printable, some_of
from jaxdis._core.options import shown
from jaxdis._core.tables.arrow_files import ARROW_SUFFIXES, check_plain, read_arrow
from jaxdis._core.tables.cell_files import CELL_SUFFIXES, is_cells, read_annotations
from jaxdis._core.tables.column_files import (
    TEXT_SUFFIXES,
    check_file,
    check_format,
    parsed,
    read_columns,
    selected,
    suffix_of,
)
from jaxdis._core.tables.numpy_files import ARRAY_SUFFIXES, read_arrays, read_npy

# Files of tables, and all kinds of files that hold factors.
SUFFIXES = (*TEXT_SUFFIXES, *ARROW_SUFFIXES)
FACTOR_SUFFIXES = (*SUFFIXES, ".json", *ARRAY_SUFFIXES, *CELL_SUFFIXES)
# How pandas marks a missing value among others, besides NaN and None.
_NO_VALUE = ("NAType", "NaTType")


class Column(NamedTuple):
    """``entries``: numbers, text, truth values, or None where one is missing; ``order``: all classes, if declared;
    ``continuous``: whether the column is declared to hold a continuous factor; ``ordered``: whether its categories are
    declared to be in order, None where the source says nothing."""

    entries: list
    order: tuple | None = None
    continuous: bool = False
    ordered: bool | None = None


def columns_of(table, wanted: Sequence[str] = ()) -> dict[str, Column]:
    """A table's columns by name; those wanted in their order, or all but an index.

    Raises:
      ValueError: for something that is no table, an unknown column, or columns that cannot be factors.
    """
    if isinstance(table, str | os.PathLike):
        return _columns_of_file(Path(table), wanted)
    given = _as_mapping(table, wanted)
    names = [name if isinstance(name, str) else f"factor_{name}" for name in given]
    if len(set(names)) < len(names):
        raise ValueError(f"table: must have columns of distinct names, got {some_of(names)}")
    columns = dict(zip(names, given.values(), strict=True))
    unknown = [name for name in wanted if name not in columns]
    if unknown:
        raise ValueError(f"columns: must be among {some_of(columns)}, got {shown(unknown[0])}")
    columns = {name: _column(name, values) for name, values in columns.items() if name in wanted or not wanted}
    lengths = [f"{len(column.entries):,} in {name}" for name, column in columns.items()]
    if len({len(column.entries) for column in columns.values()}) != 1:
        raise ValueError(f"table: must have columns of equal length, got {some_of(lengths) or 'none'}")
    return selected(columns, wanted, "table")


def _columns_of_file(path: Path, wanted: Sequence[str]) -> dict[str, Column]:
    suffix = suffix_of(path)
    if suffix in TEXT_SUFFIXES:
        return {name: Column(entries) for name, entries in read_columns(path, wanted).items()}
    if suffix in ARROW_SUFFIXES:
        table = read_arrow(path, wanted)
        check_plain(path, table)
        return selected(_arrow_columns(table), wanted, path.name)
    if is_cells(path):
        return columns_of(read_annotations(path), wanted)
    check_file(path)
    if suffix == ".json":
        return columns_of(_read_json(path), wanted)
    check_format(path, FACTOR_SUFFIXES, "factors")
    if suffix not in FACTOR_SUFFIXES:
        raise ValueError(f"{printable(path)}: must be {', '.join(FACTOR_SUFFIXES)}, got {suffix or 'no suffix'}")
    arrays = {"factors": read_npy(path)} if suffix == ".npy" else read_arrays(path, ("factors", "names", "sizes"))
    if arrays.get("factors") is None:
        columns = {name: array for name, array in read_arrays(path, tuple(arrays)).items() if array.ndim == 1}
        return columns_of(columns, wanted)
    factors = arrays["factors"]
    factors = factors[:, None] if factors.ndim == 1 else factors
    if factors.ndim != 2:
        raise ValueError(f"factors: must have shape [n, k] (samples, factors), got {factors.shape}")
    names, sizes = names_of(arrays.get("names")), sizes_of(arrays.get("sizes"))
    names = names or [f"factor_{j}" for j in range(factors.shape[1])]
    k = factors.shape[1]
    if len(set(names)) != k or len(names) != k or (sizes is not None and len(sizes) != k):
        raise ValueError(f"names, sizes: must have {k} entries, one per factor, got {shown(names)}, {shown(sizes)}")
    columns = columns_of(dict(zip(names, factors.T, strict=True)), wanted)
    for name, size in zip(names, sizes or (), strict=bool(sizes)):
        if name in columns:
            columns[name] = columns[name]._replace(order=size and tuple(range(size)), continuous=size is None)
    return columns


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
    return dict(_arrow_columns(table.select(wanted) if wanted and set(wanted) <= set(table.column_names) else table))


def _arrow_columns(table) -> dict[str, Column]:
    """An Arrow table's columns, with what pandas wrote about categories: their order, also where Arrow sees none."""
    said = json.loads((table.schema.metadata or {}).get(b"pandas", b"{}")).get("columns", ())
    declared = {each["field_name"]: each["metadata"] for each in said if each.get("pandas_type") == "categorical"}
    columns = {}
    for name, values in zip(table.column_names, table.columns, strict=True):
        column = columns[name] = _column(name, values)
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


def _column(name: str, values) -> Column:
    if isinstance(values, Column):
        return values
    kind = getattr(values, "dtype", None) or getattr(values, "type", None)
    if getattr(kind, "kind", "") in tuple("mMcV"):
        raise ValueError(_refusal(name, kind))
    if getattr(values, "ndim", 1) != 1:
        raise ValueError(f"table: column {shown(name)} must have one entry per row, got shape {values.shape}")
    read = next((getattr(values, name) for name in ("to_pylist", "to_list", "tolist") if hasattr(values, name)), None)
    if read is None and not isinstance(values, Sequence) or isinstance(values, str | bytes):
        raise ValueError(f"table: column {shown(name)} must hold one entry per row, got {shown(values)}")
    entries = [entry.item() if isinstance(entry, np.generic) else entry for entry in (read() if read else values)]
    entries = [None if type(entry).__name__ in _NO_VALUE else entry for entry in entries]
    odd = next((entry for entry in entries if not isinstance(entry, str | int | float | None)), None)
    if odd is not None:
        raise ValueError(_refusal(name, type(odd).__name__))
    categories = getattr(kind, "categories", None)
    # A Categorical of polars numbers its categories as they come; an Enum declares them in order.
    ordered = getattr(kind, "ordered", None if categories is None else type(kind).__name__ == "Enum")
    listed = categories is not None and (ordered or hasattr(kind, "ordered"))
    return Column(parsed(entries), _categories(categories) if listed else None, ordered=ordered)


def _refusal(name: str, kind) -> str:
    return (
        f"table: column {shown(name)} must hold numbers, text or truth values, got {kind}; convert it, or leave it out "
        "by columns="
    )


def _read_json(path: Path):
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


def sizes_of(sizes: np.ndarray | None) -> tuple[int | None, ...] | None:
    """Numbers of values, None for 0.

    Raises:
      ValueError: for anything but one whole number per factor.
    """
    if sizes is None:
        return None
    if sizes.ndim > 1 or sizes.dtype.kind not in "fiu":
        raise ValueError(f"sizes: must have one number per factor (0 for a continuous one), got {shown(sizes)}")
    sizes = np.atleast_1d(sizes)
    if not np.isfinite(sizes).all() or (sizes % 1 != 0).any() or (sizes < 0).any():
        raise ValueError(f"sizes: must be whole numbers of at least 0, got {shown(sizes.tolist())}")
    return tuple(int(size) or None for size in sizes)


def names_of(names: np.ndarray | None) -> list[str] | None:
    """Names of factors.

    Raises:
      ValueError: for anything but one text per factor.
    """
    if names is None:
        return None
    if names.ndim > 1 or names.dtype.kind not in "US":
        raise ValueError(f"names: must have one text per factor, got {shown(names)}")
    return np.atleast_1d(np.char.decode(names, "utf-8", "replace") if names.dtype.kind == "S" else names).tolist()
