"""Columns of a user's table: comma-, tab- or blank-separated text, or Parquet."""

import csv
import glob
import io
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxdis._core.files import open_regular
from jaxdis._core.options import shown

# What separates the columns of each kind of text; of .txt, what its first line holds.
SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": ""}
SUFFIXES = (*SEPARATORS, ".parquet")
MISSING = frozenset(("", "NA", "N/A", "n/a", "<NA>", "#N/A", "NULL", "null", "None", "?", "-", "nan", "NaN", "NaT"))
# What pandas, pyarrow and others call an index that has no name.
_INDEX = re.compile(r"(Unnamed: \d+(\.\d+)*|__index_level_\d+__)?")
_WORDS = {",": "comma", "\t": "tab", " ": "blank"}

Columns = dict[str, list[int | float | str | None]]


def read_columns(path: str | Path, wanted: Sequence[str] = ()) -> Columns:
    """Read a table: its columns' names, and each one's entries as numbers, text, or None where one is missing.

    Args:
      path: ``.csv``, ``.tsv``, ``.txt`` (separated by commas, tabs or blanks), or ``.parquet``, for which pyarrow must
        be installed.
      wanted: column names, in the order wanted. If empty, all but the index that a data frame was saved with: what the
        file's own description calls one, and a nameless column that numbers the rows.

    Contract:

    - Text need not begin with its columns' names: a first line with numbers alone is a row.
    - In text separated by blanks or tabs, a first line that is one entry short leaves the first column without a name;
      this column is dropped. So is a line before it that holds nothing but how many rows follow, as in CelebA's lists.

    Raises:
      ValueError: for a file that is missing, damaged or without rows, other separators, or an unknown column.
    """
    path = Path(path)
    check_file(path)
    columns = {name: parsed(entries) for name, entries in _read(path, list(wanted)).items()}
    return selected(columns, wanted, path.name)


def selected(columns: Mapping[str, Any], wanted: Sequence[str], where: str) -> dict[str, Any]:
    """The columns wanted, in their order, or all but an index.

    Raises:
      ValueError: if there is nothing but an index, or a column is named twice.
    """
    if len(set(wanted)) < len(wanted):
        raise ValueError(f"columns: must be named once each, got {', '.join(wanted)}")
    if wanted:
        return {name: columns[name] for name in wanted}
    kept = {
        name: column
        for name, column in columns.items()
        if not _INDEX.fullmatch(name) or not differ(getattr(column, "entries", column))
    }
    if not kept:
        raise ValueError(f"{where}: must have columns besides an index, got none; name the index to read it")
    return kept


def check_file(path: Path, advice: str = "") -> None:
    """Check that a path is a regular file.

    Raises:
      ValueError: if it is not, with advice on how to make one.
    """
    name = printable(path)
    if not path.exists():
        raise ValueError(f"{name}: no such file{advice}")
    if not path.is_file():
        kind = "folder" if path.is_dir() else "pipe or a device"
        raise ValueError(f"{name}: must be a regular file, got a {kind}; save its content as one")


def matching(texts: Sequence[str | Path]) -> list[Path]:
    """Paths, and those that match patterns, each listed once.

    Raises:
      ValueError: if there are none.
    """
    paths = [path for text in map(str, texts) for path in (sorted(glob.glob(text)) or [text])]
    if not paths:
        raise ValueError("files: must have at least one file, got none")
    return list(dict.fromkeys(map(Path, paths)))


def named_files(paths: Sequence[Path]) -> dict[str, Path]:
    """Files by their names, or by their paths where names repeat."""
    names = [path.name for path in paths]
    return {path.name if names.count(path.name) == 1 else str(path): path for path in paths}


def printable(path) -> str:
    """A name, of a file or a class, without the control characters that would reach the terminal."""
    return "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in str(path))


def differ(entries: Sequence) -> bool:
    """Whether a column holds whole numbers, no two of which are equal, as an index does."""
    return len(set(entries)) == len(entries) and all(isinstance(entry, int) for entry in entries)


def _read(path: Path, wanted: list[str]) -> dict[str, list]:
    return _parquet(path, wanted) if path.suffix == ".parquet" else _text(path, wanted)


def _check_wanted(path: Path, names: Sequence[str], wanted: Sequence[str]) -> None:
    unknown = [name for name in wanted if name not in names]
    if unknown:
        raise ValueError(f"columns: {path.name} has {', '.join(names)}, got {shown(unknown[0])}")


def parsed(entries: Sequence) -> list[int | float | str | None]:
    """Entries as numbers where text spells one, and None where it says that a value is missing."""
    values = {entry: _value(entry) for entry in dict.fromkeys(entries)}
    return [values[entry] for entry in entries]


def _value(entry) -> int | float | str | None:
    """An entry as a number, if it is one; whole numbers, however long, stay exact."""
    if not isinstance(entry, str):
        return None if entry is None or entry != entry else entry
    entry = entry.strip()
    if entry in MISSING:
        return None
    # Python reads 1_000 as a number, and whole ones that no float holds.
    for kind in () if "_" in entry else (int, float) if len(entry) < 300 else (float,):
        try:
            return kind(entry)
        except ValueError:
            continue
    return entry


def _text(path: Path, wanted: list[str]) -> dict[str, list]:
    try:
        with open_regular(path) as file:
            lines = _lines(file.read().decode("utf-8-sig"), SEPARATORS[path.suffix])
    except (csv.Error, UnicodeDecodeError) as error:
        raise ValueError(
            f"{path.name}: must have text in columns with a head, got bytes or quotes that are none ({error})"
        ) from None
    for end in (-1, 0):
        while lines and len(lines[end]) < 2 and not "".join(lines[end]).strip():
            lines.pop(end)
    columns = _under_names(path, lines)
    _check_wanted(path, list(columns), wanted)
    return {name: columns[name] for name in wanted or columns}


def _lines(text: str, separator: str) -> list[list[str]]:
    first = text.split("\n", 2)[:2]
    separator = separator or next((letter for letter in "\t," if letter in "".join(first)), " ")
    if separator == " ":
        return list(csv.reader((line.strip() for line in text.splitlines()), delimiter=" ", skipinitialspace=True))
    return list(csv.reader(io.StringIO(text, newline=""), delimiter=separator))


def _under_names(path: Path, lines: list[list[str]]) -> dict[str, list]:
    separator = SEPARATORS[path.suffix] or " "
    if len(lines) > 1 and len(lines[0]) == 1 < len(lines[1]) and isinstance(_value(lines[0][0]), int):
        claimed = int(lines.pop(0)[0])
        if claimed != len(lines) - 1:
            raise ValueError(f"{path.name}: must have {claimed:,} rows, as its first line says, got {len(lines) - 1:,}")
    if not lines:
        raise ValueError(f"{path.name}: must have {_WORDS[separator]}-separated text with a head, got an empty file")
    if other := _other_separator(lines, separator):
        raise ValueError(f"{path.name}: must have {_WORDS[separator]}s between columns, got {shown(other)}")
    if _is_row(lines[0]) and not _numbers_columns(path, lines):
        head, first = [f"factor_{column}" for column in range(len(lines[0]))], 1
    else:
        head, first = [name.strip() for name in lines.pop(0)], 2
        head[0] = head[0].removeprefix("#").strip()  # as numpy.savetxt begins it
        head = head[1:] if not head[0] and lines and len(lines[0]) == len(head) - 1 else head
    if separator != "," and lines and all(len(row) == len(head) + 1 for row in lines):
        lines = [row[1:] for row in lines]
    odd = next((number for number, row in enumerate(lines, first) if len(row) != len(head)), None)
    if odd is not None or not lines or len(set(head)) < len(head):
        where = (
            f"line {odd} has {len(lines[odd - first])}" if odd else f"{len(lines)} rows of columns {', '.join(head)}"
        )
        raise ValueError(f"{path.name}: must have rows of {len(head)} distinct columns, got {where}")
    return {name: list(column) for name, column in zip(head, zip(*lines, strict=True), strict=True)}


def _other_separator(lines: list[list[str]], separator: str) -> str | None:
    """What separates the entries, if each line seems to hold one."""
    if any(len(line) != 1 for line in lines):
        return None
    (first,), (last,) = lines[0], lines[-1]
    if len(last.split(" ")) > 1 and all(isinstance(_value(entry), int | float) for entry in last.split(" ")):
        return " "
    return next((letter for letter in ",;\t|" if letter in first), None)


def _is_row(line: Sequence[str]) -> bool:
    """Whether a line holds numbers, and no text; a missing name in a head with numbers is an index's."""
    values = [_value(entry) for entry in line]
    numbers = [value for value in values if value is not None]
    real = any(isinstance(number, float) for number in numbers)
    return bool(numbers) and not any(isinstance(number, str) for number in numbers) and (real or "" not in line)


def _numbers_columns(path: Path, lines: list[list[str]]) -> bool:
    """Whether a first line 0, 1, 2, … is a head, as pandas writes one for columns without names."""
    if lines[0] != [str(column) for column in range(len(lines[0]))]:
        return False
    if len(lines) > 1 and all(isinstance(_value(entry), int) for entry in lines[1]):
        raise ValueError(
            f"{path.name}: must begin with names of columns, got {', '.join(lines[0][:5])}, which may be a head or a "
            "row; write names into the first line"
        )
    return True


def _parquet(path: Path, wanted: list[str]) -> dict[str, list]:
    try:
        from pyarrow import ArrowException, parquet, types
    except ImportError:
        raise ValueError(f"{path.name}: needs pyarrow (pip install pyarrow), or the same table as .csv") from None
    try:
        with open_regular(path) as file:
            schema = parquet.read_schema(file)
            index = json.loads((schema.metadata or {}).get(b"pandas", b'{"index_columns": []}'))["index_columns"]
            _check_wanted(path, schema.names, wanted)
            names = wanted or [name for name in schema.names if name not in index]
            _check_columns(path, schema, names, types)
            return parquet.read_table(file, columns=names).to_pydict()
    except (ArrowException, OSError, json.JSONDecodeError, LookupError) as error:
        reason = f"must be a Parquet file, got another file or one that is damaged ({str(error)[:200]})"
        raise ValueError(f"{path.name}: {reason}") from None


def _check_columns(path: Path, schema, names: Sequence[str], types) -> None:
    if len(set(names)) < len(names):
        raise ValueError(f"{path.name}: must have columns of distinct names, got {', '.join(names)}")
    for name in names:
        kind = schema.field(name).type
        kind = kind.value_type if types.is_dictionary(kind) else kind
        if not any(fits(kind) for fits in _plain(types)):
            raise ValueError(
                f"{path.name}: column {shown(name)} must hold numbers or text, got {kind}; convert it, or choose other "
                "columns (--columns)"
            )


def _plain(types) -> tuple:
    return types.is_integer, types.is_floating, types.is_boolean, types.is_string, types.is_large_string, types.is_null
