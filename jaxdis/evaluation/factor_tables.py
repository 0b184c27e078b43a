"""Factors from the columns of a CSV or Parquet file."""

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from jaxdis.options import shown
from jaxdis.typing import Factors

SUFFIXES = (".csv", ".parquet")


def read_factors(path: str | Path, columns: Sequence[str] = ()) -> Factors:
    """Read factors from a table with a header.

    Args:
      path: ``.csv``, or ``.parquet``, for which pyarrow must be installed.
      columns: names of columns, in the order wanted; all columns if empty.

    Contract:

    - A column of whole numbers or of text is a discrete factor, whose classes are its distinct values in order.
    - A column of other numbers is a continuous factor.

    Raises:
      ValueError: for a file that is missing or damaged, columns separated otherwise than by commas, an unknown column,
        one without a name, text without repetitions, or an empty entry.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"{path.name}: no such file")
    table = _parquet(path) if path.suffix == ".parquet" else _csv(path)
    unknown = [name for name in columns if name not in table]
    if unknown:
        raise ValueError(f"columns: {path.name} has {', '.join(table)}, got {shown(unknown[0])}")
    names = list(columns) or list(table)
    if not all(names):
        raise ValueError(f"{path.name}: needs a name for every column, got none for one; give the names of the others")
    factors = [_factor(f"{path.name}: column {shown(name)}", table[name]) for name in names]
    sizes = tuple(size for _, size in factors)
    stacked = np.stack([values for values, _ in factors], axis=1)
    return Factors.of(stacked if None in sizes else stacked.astype(np.int32), sizes, names)


def _csv(path: Path) -> dict[str, list]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            head, *rows = list(csv.reader(file))
    except (csv.Error, UnicodeDecodeError, ValueError) as error:
        raise ValueError(f"{path.name}: needs comma-separated text with a head ({error})") from None
    separator = next((letter for letter in ";\t|" if len(head) == 1 and letter in head[0]), None)
    if separator:
        raise ValueError(f"{path.name}: needs commas between columns, got {shown(separator)}")
    odd = next((number for number, row in enumerate(rows, 2) if len(row) != len(head)), None)
    if odd is not None or not rows or len(set(head)) < len(head):
        where = f"line {odd} has {len(rows[odd - 2])}" if odd else f"{len(rows)} rows of columns {', '.join(head)}"
        raise ValueError(f"{path.name}: needs rows of {len(head)} distinct columns, got {where}")
    return {name: list(column) for name, column in zip(head, zip(*rows, strict=True), strict=True)}


def _parquet(path: Path) -> dict[str, list]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise ValueError(f"{path.name}: needs pyarrow (pip install pyarrow), or the same table as .csv") from None
    try:
        return parquet.read_table(path).to_pydict()
    except (ArrowException, OSError) as error:
        reason = f"needs a Parquet file, got another file or one that is damaged ({str(error)[:200]})"
        raise ValueError(f"{path.name}: {reason}") from None


def _factor(where: str, column: list) -> tuple[np.ndarray, int | None]:
    """Class numbers and how many there are, or real values and None."""
    empty = next((row for row, value in enumerate(column, 1) if value is None or value == ""), None)
    if empty is not None:
        raise ValueError(f"{where} needs a value in every row, got an empty one in row {empty}")
    try:
        numbers = np.array(column, np.float64)
    except ValueError:
        distinct, classes = np.unique(np.array(column, str), return_inverse=True)
        if len(distinct) == len(column):
            reason = f"needs classes that repeat, got {len(column)} different texts; choose columns"
            raise ValueError(f"{where} {reason}") from None
        return classes.astype(np.float32), len(distinct)
    if not np.isfinite(numbers).all():
        raise ValueError(f"{where} needs finite numbers, got {shown(float(numbers[~np.isfinite(numbers)][0]))}")
    if (numbers % 1 != 0).any():
        return numbers.astype(np.float32), None
    distinct, classes = np.unique(numbers, return_inverse=True)
    return classes.astype(np.float32), len(distinct)
