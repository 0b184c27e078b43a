"""What a table's columns are as factors: which are classes, their numbers, and which samples lack a value."""

import math
import re
import typing
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from jaxdis._core.options import Positive, checked_value, listed, shown
from jaxdis._core.tables.column_files import parsed
from jaxdis._core.tables.columns import Column

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
    """Number the columns' classes, by the rules in :meth:`jaxdis.Factors.from_table`.

    Raises:
      ValueError: for an unknown column or kind, missing values, text among numbers, or classes that hardly repeat.
    """
    missing = checked_value("missing", Missing, missing)
    kinds = {name: _wanted(name, kind) for name, kind in kinds.items()}
    for name in kinds:
        if name not in columns:
            raise ValueError(f"kinds: must name columns among {', '.join(columns)}, got {shown(name)}")
    if not all(columns):
        raise ValueError("needs a name for every column, got none for one; give the names of the others")
    present = np.array([[entry is not None for entry in column.entries] for column in columns.values()], bool).T
    rows = np.arange(len(present)) if missing == "each" else _whole_rows(present, tuple(columns), missing)
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
        periods.append((period or _period(values[there, j])) if kind == "circular" else None)
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


def _period(values: np.ndarray) -> float:
    """The range and one grid step: 360 for the angles 0, 90, 180 and 270, and for measured ones their range."""
    distinct = np.unique(values)
    return float(np.ptp(distinct) + np.diff(distinct).min()) if len(distinct) > 1 else 1.0


def _whole_rows(present: np.ndarray, names: Sequence[str], missing: Missing) -> np.ndarray:
    """The rows in which no value is missing."""
    lacking = ~present.all(axis=1)
    if lacking.any() and missing == "error":
        listing = ", ".join(name for name, there in zip(names, present.T, strict=True) if not there.all())
        raise ValueError(
            f"must have a value in every row, got none in {lacking.sum()} of {len(lacking)} rows of {listing} (first "
            f"in row {lacking.argmax() + 1}); missing='drop' (--missing drop) leaves these rows out, of codes too, and "
            "missing='each' scores every factor on the rows that have it"
        )
    return np.flatnonzero(~lacking)


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
