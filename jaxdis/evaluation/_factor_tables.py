"""Factors from the columns of a table, and what was made of each column."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from jaxdis._core.options import checked_value, shown
from jaxdis.evaluation._column_files import read_columns
from jaxdis.factors import Factors

Kind = Literal["classes", "continuous"]
Missing = Literal["error", "drop"]
KINDS = ("classes", "continuous")
# As many different values may be classes in a table of any length.
FEW_CLASSES = 10


class FactorTable(NamedTuple):
    """What was read from a table.

    ``factors`` of the rows that were kept; ``classes``, the values that the class numbers of each factor stand for, in
    order, or None for a continuous one; ``rows [n]``, the positions of the kept rows; ``num_rows`` of the table.
    """

    factors: Factors
    classes: tuple[tuple | None, ...]
    rows: np.ndarray
    num_rows: int

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return tuple("continuous" if values is None else "classes" for values in self.classes)


def read_table(
    path: str | Path,
    columns: Sequence[str] = (),
    kinds: Mapping[str, Kind] | None = None,
    missing: Missing = "error",
) -> FactorTable:
    """Read factors from a file.

    Args:
      path: ``.csv``, ``.tsv``, ``.txt`` or ``.parquet``.
      columns: names of columns, in the order wanted; all columns if empty.
      kinds: whether a column holds classes or a continuous factor, by its name; for others, see below.
      missing: ``"drop"`` leaves out the rows in which one of the columns has no value. An entry that is empty, NaN, NA,
        N/A, null, None, ? or - is no value.

    Contract:

    - A column of whole numbers or of text is a discrete factor, whose classes are its distinct values in order.
    - A column of other numbers is a continuous factor.
    - The index of a data frame, a column without a name that numbers the rows, is no factor.

    Example: ``read_table("labels.csv", ("shape", "angle"), {"angle": "continuous"}, missing="drop").factors``.

    Raises:
      ValueError: for a file that is missing or damaged, an unknown column, one without a name, missing values, text
        among numbers, or classes that hardly repeat.
    """
    path = Path(path)
    kinds = dict(kinds or {})
    table = read_columns(path, columns)
    try:
        return table_of(table, kinds, missing)
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from None


def read_factors(path: str | Path, columns: Sequence[str] = (), **how) -> Factors:
    """Read the factors alone, by :func:`read_table`."""
    return read_table(path, columns, **how).factors


def table_of(columns: Mapping[str, Sequence], kinds: Mapping[str, Kind], missing: Missing = "error") -> FactorTable:
    """Number the classes of columns whose entries are numbers, text, or None where one is missing.

    Raises:
      ValueError: as :func:`read_table`, without the name of a file.
    """
    checked_value("missing", Missing, missing)
    for name, kind in kinds.items():
        checked_value(f"kinds of {shown(name)}", Kind, kind)
        if name not in columns:
            raise ValueError(f"kinds: must name columns among {', '.join(columns)}, got {shown(name)}")
    if not all(columns):
        raise ValueError("needs a name for every column, got none for one; give the names of the others")
    rows, num_rows = _kept(columns, missing)
    if len(rows) < 2:
        raise ValueError(f"must have at least 2 rows in which no value is missing, got {len(rows)} of {num_rows}")
    factors, classes = [], []
    for name, entries in columns.items():
        kept = entries if len(rows) == num_rows else [entries[row] for row in rows]
        numbers, values = _factor(name, kept, kinds.get(name), rows)
        factors.append(numbers)
        classes.append(values)
    sizes = tuple(None if values is None else len(values) for values in classes)
    return FactorTable(Factors.of(np.stack(factors, axis=1), sizes, list(columns)), tuple(classes), rows, num_rows)


def columns_and_kinds(texts: Sequence[str]) -> tuple[list[str], dict[str, Kind]]:
    """Columns as they are named in the shell: ``shape``, ``angle:continuous``."""
    parts = [text.rpartition(":") for text in texts]
    kinds = {name: kind for name, _, kind in parts if kind in KINDS and name}
    return [name if name and kind in KINDS else text for text, (name, _, kind) in zip(texts, parts, strict=True)], kinds


def in_words(factors: Factors, table: FactorTable | None = None) -> str:
    """What each factor is: ``shape (3 classes), angle (continuous)``, and how many rows were left out."""
    values = np.asarray(factors.values)
    counts = [None if size is None else np.unique(values[:, j]).size for j, size in enumerate(factors.sizes)]
    kinds = ("continuous" if count is None else f"{count} class{'es' * (count != 1)}" for count in counts)
    words = ", ".join(f"{name} ({kind})" for name, kind in zip(factors.names, kinds, strict=True))
    dropped = 0 if table is None else table.num_rows - len(table.rows)
    return words + (f"; {dropped} of {table.num_rows} rows lack a value and are left out" if dropped else "")


def _kept(columns: Mapping[str, Sequence], missing: Missing) -> tuple[np.ndarray, int]:
    """The rows in which no value is missing, and how many there are in all."""
    gone = {name: np.array([entry is None for entry in entries], bool) for name, entries in columns.items()}
    lacking = np.any(list(gone.values()), axis=0)
    if lacking.any() and missing == "error":
        names = ", ".join(name for name, rows in gone.items() if rows.any())
        raise ValueError(
            f"must have a value in every row, got none in {lacking.sum()} of {len(lacking)} rows of {names} (first in "
            f"row {lacking.argmax() + 1}); missing='drop' (--missing drop) leaves these rows out, of codes too"
        )
    return np.flatnonzero(~lacking), len(lacking)


def _factor(name: str, entries: Sequence, kind: Kind | None, rows: np.ndarray) -> tuple[np.ndarray, tuple | None]:
    """Class numbers and the values that they stand for, or real numbers and None."""
    distinct, where = set(entries), f"column {shown(name)}"
    texts = {value for value in distinct if isinstance(value, str)}
    infinite = {value for value in distinct - texts if isinstance(value, float) and not math.isfinite(value)}
    if texts and (kind == "continuous" or (kind is None and len(texts) < len(distinct))):
        row, text = next(pair for pair in zip(rows, entries, strict=True) if pair[1] in texts)
        raise ValueError(
            f"{where} must hold numbers alone or text alone, got {shown(text)} in row {row + 1} among numbers; correct "
            f"it, or say that these are classes ({name}:classes)"
        )
    if infinite:
        row, number = next(pair for pair in zip(rows, entries, strict=True) if pair[1] in infinite)
        raise ValueError(f"{where} needs finite numbers, got {number} in row {row + 1}")
    if not texts and (kind == "continuous" or (kind is None and any(value % 1 for value in distinct))):
        return np.array(entries, np.float64), None
    # Values of which most occur once are ids or measurements.
    if kind is None and (len(distinct) > max(FEW_CLASSES, len(rows) / 2) or len(texts) == len(rows)):
        raise ValueError(
            f"{where} needs classes that repeat, got {len(distinct)} different {'texts' if texts else 'whole numbers'} "
            f"in {len(rows)} rows; choose others by --columns, or say what it is ({name}:continuous, {name}:classes)"
        )
    values = sorted(distinct, key=str if texts else None)
    numbers = {value: number for number, value in enumerate(values)}
    return np.array([numbers[entry] for entry in entries], np.float64), tuple(values)
