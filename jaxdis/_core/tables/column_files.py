"""Columns of a user's table in text separated by commas, tabs or blanks, and what files are called."""

import collections
import csv
import glob
import gzip
import io
import re
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxdis._core.files import open_regular
from jaxdis._core.lookup import printable, some_of
from jaxdis._core.options import shown

# What separates the columns of each kind of text; of .txt, what its first line holds.
SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": ""}
TEXT_SUFFIXES = (*SEPARATORS, *(f"{suffix}.gz" for suffix in SEPARATORS))
# Files that hold several arrays, one of which is named after a colon.
_WITH_PARTS = re.compile(r"(.+\.(?:h5ad|zarr|npz|safetensors|parquet|feather|arrow)):(.+)", re.DOTALL)
_PACKED = (".gz", ".bz2", ".xz", ".zip", ".zst")
# How to load, in Python, what only another library reads; some of these are pickles, which can run anything.
_ARRAYS = {
    **dict.fromkeys((".pt", ".pth", ".ckpt", ".bin"), "torch.load({name!r}).numpy()"),
    **dict.fromkeys((".pkl", ".pickle"), "pickle.load(open({name!r}, 'rb'))"),
    ".mat": "scipy.io.loadmat({name!r})[{array!r}]",
    **dict.fromkeys((".h5", ".hdf5"), "h5py.File({name!r})[{array!r}][:]"),
    ".nc": "xarray.open_dataset({name!r})[{array!r}].to_numpy()",
}
_FRAMES = {
    **dict.fromkeys((".xlsx", ".xls", ".ods"), "pandas.read_excel({name!r})"),
    **dict.fromkeys((".jsonl", ".ndjson"), "pandas.read_json({name!r}, lines=True)"),
    **{
        f"{text}{packed}": "pandas.read_csv({name!r}, sep=None, engine='python')"
        for text in SEPARATORS
        for packed in _PACKED[1:]
    },
    ".orc": "pandas.read_orc({name!r})",
    ".dta": "pandas.read_stata({name!r})",
    ".sav": "pandas.read_spss({name!r})",
}
_CELLS = {
    ".h5mu": "mudata.read_h5mu({name!r})['rna']",
    ".loom": "anndata.read_loom({name!r})",
}
MISSING = frozenset(("", "NA", "N/A", "n/a", "<NA>", "#N/A", "NULL", "null", "None", "?", "-", "nan", "NaN", "NaT"))
# What pandas, pyarrow and others call an index that has no name.
_INDEX = re.compile(r"(Unnamed: \d+(\.\d+)*|__index_level_\d+__)?")
_WORDS = {",": "comma", "\t": "tab", " ": "blank"}

Columns = dict[str, list[int | float | str | None]]


def read_columns(path: str | Path, wanted: Sequence[str] = ()) -> Columns:
    """Read a table: its columns' names, and each one's entries as numbers, text, or None where one is missing.

    Args:
      path: ``.csv``, ``.tsv``, or ``.txt`` (separated by commas, tabs or blanks), or the same packed as ``.gz``.
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
    columns = {name: parsed(entries) for name, entries in _text(path, list(wanted)).items()}
    return selected(columns, wanted, path.name)


def selected(columns: Mapping[str, Any], wanted: Sequence[str], where: str) -> dict[str, Any]:
    """The columns wanted, in their order, or all but an index.

    Raises:
      ValueError: if there is nothing but an index, or a column is named twice.
    """
    if len(set(wanted)) < len(wanted):
        raise ValueError(f"columns: must be named once each, got {some_of(wanted)}")
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
    if not path.is_file() and suffix_of(path) != ".zarr":
        kind = "folder" if path.is_dir() else "pipe or a device"
        raise ValueError(f"{name}: must be a regular file, got a {kind}; save its content as one")


def suffix_of(path: Path) -> str:
    """How a file's name ends, in small letters: ``.csv``, and ``.csv.gz`` if it is packed."""
    last = path.suffix.lower()
    return Path(path.stem).suffix.lower() + last if last in _PACKED else last


def file_and_part(path: str | Path) -> tuple[Path, str | None]:
    """The file ``cells.h5ad`` and the part ``X_pca`` in ``cells.h5ad:X_pca``; None for a file alone."""
    found = _WITH_PARTS.fullmatch(str(path))
    return (Path(path), None) if found is None or Path(path).exists() else (Path(found[1]), found[2])


def check_format(path: Path, read: Sequence[str], array: str) -> None:
    """Refuse a file in a format that only another library reads, with Python lines that convert it.

    Args:
      read: endings that are read here.
      array: what is wanted: ``"codes"`` or ``"factors"``.

    Raises:
      ValueError: for a known format, or one that is packed.
    """
    suffix, name = suffix_of(path), path.name
    load = (_ARRAYS | _FRAMES | _CELLS).get(suffix)
    if suffix in read or (load is None and path.suffix not in _PACKED):
        return
    words = "unpack it"
    if load is not None:
        save = f"numpy.save('{array}.npy', x)"
        if suffix in _FRAMES and array != "codes":
            save = f"x.to_csv('{array}.csv', index=False)"
        if suffix in _CELLS:
            save = f"x.write_h5ad({path.stem + '.h5ad'!r})"
        words = f"convert it in Python: x = {load.format(name=name, array=array)}; {save}"
    raise ValueError(f"{printable(path)}: must be {', '.join(read)}, got {suffix}; {words}")


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
    parts = [file_and_part(path) for path in paths]
    names = [file.name if part is None else f"{file.name}:{part}" for file, part in parts]
    counts = collections.Counter(names)
    return {name if counts[name] == 1 else str(path): path for name, path in zip(names, paths, strict=True)}


def differ(entries: Sequence) -> bool:
    """Whether a column holds whole numbers, no two of which are equal, as an index does."""
    return len(set(entries)) == len(entries) and all(isinstance(entry, int) for entry in entries)


def check_wanted(path: Path, names: Sequence[str], wanted: Sequence[str]) -> None:
    unknown = [name for name in wanted if name not in names]
    if unknown:
        raise ValueError(f"columns: {path.name} has {some_of(names)}, got {shown(unknown[0])}")


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
            text = gzip.decompress(file.read()) if path.suffix.lower() == ".gz" else file.read()
        lines = _lines(text.decode("utf-8-sig"), _separator(path))
    except (csv.Error, UnicodeDecodeError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(
            f"{path.name}: must have text in columns with a head, got bytes or quotes that are none ({error})"
        ) from None
    for end in (-1, 0):
        while lines and len(lines[end]) < 2 and not "".join(lines[end]).strip():
            lines.pop(end)
    columns = _under_names(path, lines)
    check_wanted(path, list(columns), wanted)
    return {name: columns[name] for name in wanted or columns}


def _separator(path: Path) -> str:
    return SEPARATORS[suffix_of(path).removesuffix(".gz")]


def _lines(text: str, separator: str) -> list[list[str]]:
    first = text.split("\n", 2)[:2]
    separator = separator or next((letter for letter in "\t," if letter in "".join(first)), " ")
    if separator == " ":
        return list(csv.reader((line.strip() for line in text.splitlines()), delimiter=" ", skipinitialspace=True))
    return list(csv.reader(io.StringIO(text, newline=""), delimiter=separator))


def _under_names(path: Path, lines: list[list[str]]) -> dict[str, list]:
    separator = _separator(path) or " "
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
        where = f"line {odd} has {len(lines[odd - first])}" if odd else f"{len(lines)} rows of columns {some_of(head)}"
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
