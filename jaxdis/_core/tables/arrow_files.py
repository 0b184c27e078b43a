"""Tables in Apache Arrow files: Parquet, Feather and Arrow's own format, whose columns may hold lists."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from jaxdis._core.files import open_regular
from jaxdis._core.lookup import some_of
from jaxdis._core.options import shown
from jaxdis._core.tables.column_files import check_file, check_wanted, suffix_of

_TITLES = {".parquet": "a Parquet file", ".feather": "a Feather file", ".arrow": "an Arrow file"}
ARROW_SUFFIXES = tuple(_TITLES)


def read_arrow(path: Path, wanted: Sequence[str] = (), *, lists: bool = True):
    """The table in a file: the columns wanted, or all but the index that a data frame was saved with.

    Args:
      lists: whether columns with lists may be among all; they are left out otherwise.

    Raises:
      ValueError: for a file that is missing or damaged, unknown columns, or columns that hold neither numbers nor text.
    """
    check_file(path)
    arrow, types = _arrow(path.name)
    try:
        with open_regular(path) as file:
            table, schema = None, None
            if suffix_of(path) == ".parquet":
                schema = arrow.parquet.read_schema(file)
            else:
                table = _read_ipc(arrow, file)
                schema = table.schema
            index = json.loads((schema.metadata or {}).get(b"pandas", b'{"index_columns": []}'))["index_columns"]
            check_wanted(path, schema.names, wanted)
            names = list(wanted) or [
                name
                for name in schema.names
                if name not in index and (lists or not _is_list(schema.field(name).type, types))
            ]
            if len(set(names)) < len(names):
                raise ValueError(f"{path.name}: must have columns of distinct names, got {some_of(names)}")
            return arrow.parquet.read_table(file, columns=names) if table is None else table.select(names)
    except (arrow.ArrowException, OSError, json.JSONDecodeError, LookupError) as error:
        reason = f"must be {_TITLES[suffix_of(path)]}, got another file or one that is damaged ({str(error)[:200]})"
        raise ValueError(f"{path.name}: {reason}") from None


def check_plain(path: Path, table) -> None:
    """Check that all columns hold numbers or text.

    Raises:
      ValueError: naming the column.
    """
    from pyarrow import types

    plain = types.is_integer, types.is_floating, types.is_boolean, types.is_string, types.is_large_string, types.is_null
    plain = (*plain, getattr(types, "is_string_view", types.is_null))
    for name, kind in zip(table.schema.names, table.schema.types, strict=True):
        kind = kind.value_type if types.is_dictionary(kind) else kind
        if not any(fits(kind) for fits in plain):
            raise ValueError(
                f"{path.name}: column {shown(name)} must hold numbers or text, got {kind}; convert it, or choose other "
                "columns (--columns)"
            )


def codes_in_lists(path: Path, name: str | None = None) -> np.ndarray | None:
    """Codes ``[n, d]`` that a column holds as equally long lists; None for a file without such a column.

    Args:
      name: the column; needed if several hold lists.

    Raises:
      ValueError: for an unknown column, or lists that are missing or differ in length.
    """
    table = read_arrow(path, [] if name is None else [name])
    _, types = _arrow(path.name)
    found = [each for each, kind in zip(table.schema.names, table.schema.types, strict=True) if _is_list(kind, types)]
    if name is not None and not found:
        kind = table.schema.types[0]
        raise ValueError(f"{path.name}: column {shown(name)} must hold lists of numbers, got {kind}")
    if len(found) > 1:
        known = some_of([f"{path.name}:{each}" for each in found])
        raise ValueError(f"{path.name}: must name the column of codes, got {len(found)} of lists; there is {known}")
    return _stacked(f"{path.name}: column {shown(found[0])}", table.column(found[0]), types) if found else None


def _stacked(where: str, column, types) -> np.ndarray:
    """A column with lists as one array."""
    rows = column.combine_chunks()
    rows = getattr(rows, "storage", rows)  # of tensors of one shape
    if rows.null_count:
        raise ValueError(f"{where} must have a list in every row, got none in {rows.null_count} of {len(rows)}")
    if not (types.is_floating(rows.type.value_type) or types.is_integer(rows.type.value_type)):
        raise ValueError(
            f"{where} must hold lists of numbers, got {rows.type}; convert it in Python: "
            "x = numpy.stack(table['…']); numpy.save('codes.npy', x)"
        )
    lengths = np.unique(rows.value_lengths().to_numpy(zero_copy_only=False))
    if len(lengths) > 1:
        raise ValueError(f"{where} must hold lists of one length, got {lengths[0]} to {lengths[-1]} entries")
    return rows.flatten().to_numpy(zero_copy_only=False).reshape(len(rows), *map(int, lengths))


def _is_list(kind, types) -> bool:
    kind = getattr(kind, "storage_type", kind)
    return types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)


def _read_ipc(arrow, file):
    """Feather and Arrow files, and Arrow's stream, which some libraries keep under the same ending."""
    try:
        return arrow.ipc.open_file(file).read_all()
    except arrow.ArrowInvalid:
        file.seek(0)
        return arrow.ipc.open_stream(file).read_all()


def _arrow(name: str):
    try:
        import pyarrow
        from pyarrow import ipc, parquet, types  # noqa: F401, which makes them attributes
    except ImportError:
        raise ValueError(f"{name}: needs pyarrow (pip install pyarrow), or the same table as .csv") from None
    return pyarrow, types
