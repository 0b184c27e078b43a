"""Columns and arrays in users' files: text, JSON, NumPy, safetensors, Arrow and annotated cells.

Nothing is unpickled, and nothing becomes larger in memory than the file allows.
"""

import collections
import csv
import functools
import glob
import gzip
import io
import json
import math
import re
import types
import zipfile
import zlib
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import ml_dtypes
import numpy as np

from jaxdis._core.files import open_regular
from jaxdis._core.options import printable, shown, some_of
from jaxdis._core.store import scored

# What separates the columns of each kind of text; of .txt, what its first line holds.
SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": ""}
TEXT_SUFFIXES = (*SEPARATORS, *(f"{suffix}.gz" for suffix in SEPARATORS))
ARRAY_SUFFIXES = (".npz", ".npy", ".safetensors")
CELL_SUFFIXES = (".h5ad", ".zarr")
# Files that hold several arrays, one of which is named after a colon.
_WITH_PARTS = re.compile(r"(.+\.(?:h5ad|zarr|npz|safetensors|parquet|feather|arrow)):(.+)", re.DOTALL)
_PACKED = (".gz", ".bz2", ".xz", ".zip", ".zst")
# What only another library reads, as an array, a frame of columns or cells, and how to load it in Python; some of these
# are pickles, which can run anything.
_CONVERSIONS = json.loads(Path(__file__).with_name("conversions.json").read_text())
MISSING = frozenset(("", "NA", "N/A", "n/a", "<NA>", "#N/A", "NULL", "null", "None", "?", "-", "nan", "NaN", "NaT"))
_WORDS = {",": "comma", "\t": "tab", " ": "blank"}
# Of cells, the matrix itself, and matrices beside it.
_MATRIX, _LAYERS = "X", "layers/"


def read_text(path: Path, wanted: Sequence[str] = ()) -> dict[str, list[int | float | str | None]]:
    """Read a table: its columns' names, and each one's entries as numbers, text, or None where one is missing.

    Args:
      path: ``.csv``, ``.tsv``, or ``.txt`` (separated by commas, tabs or blanks), or the same packed as ``.gz``.
      wanted: as :func:`to_read`.

    Contract:

    - Text need not begin with its columns' names: a first line with numbers alone is a row.
    - In text separated by blanks or tabs, a first line that is one entry short leaves the first column without a name;
      this column is dropped. So is a line before it that holds nothing but how many rows follow, as in CelebA's lists.
    """
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
    return {name: parsed(columns[name]) for name in to_read(columns, wanted)}


def to_read(names: Iterable[str], wanted: Sequence[str]) -> list[str]:
    """The columns that are wanted; all if none are, or if one is not there, of which others tell."""
    return list(wanted) if wanted and set(wanted) <= set(names) else list(names)


def check_file(path: Path, advice: str = "") -> None:
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


def format_of(path: Path, read: Collection[str], array: str, advice: str = "") -> str:
    """Which of the formats that are read a file has; another one is refused, with Python lines that convert it."""
    check_file(path, advice)
    suffix, name = suffix_of(path), path.name
    if suffix in read:
        return suffix
    words = "; unpack it" if path.suffix in _PACKED else ""
    if suffix in _CONVERSIONS:
        load, kind = _CONVERSIONS[suffix]
        save = f"numpy.save('{array}.npy', x)"
        if kind == "frame" and array != "codes":
            save = f"x.to_csv('{array}.csv', index=False)"
        if kind == "cells":
            save = f"x.write_h5ad({path.stem + '.h5ad'!r})"
        words = f"; convert it in Python: x = {load.format(name=name, array=array)}; {save}"
    raise ValueError(f"{printable(path)}: must be {', '.join(read)}, got {suffix or 'no suffix'}{words}")


def matching(texts: Sequence[str | Path]) -> list[Path]:
    """Paths, those that match patterns, and those whose scores a folder holds, each listed once; at least one."""
    paths = [path for text in map(str, texts) for path in (sorted(glob.glob(text)) or [text])]
    paths = [file for path in paths for file in (scored(Path(path)) or {"files": {0: path}})["files"].values()]
    if not paths:
        raise ValueError("files: must have at least one file, got none")
    return list(dict.fromkeys(map(Path, paths)))


def named_files(paths: Sequence[Path]) -> dict[str, Path]:
    """Files by their names, or by their paths where names repeat."""
    parts = [file_and_part(path) for path in paths]
    names = [file.name if part is None else f"{file.name}:{part}" for file, part in parts]
    counts = collections.Counter(names)
    return {name if counts[name] == 1 else str(path): path for name, path in zip(names, paths, strict=True)}


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


# Arrays in NumPy and safetensors files: checked, never unpickled, never larger in memory than the file allows.
# NumPy forgets the type bfloat16, in which JAX and torch keep activations: two bytes without a type (``V2``) are
# read as bfloat16.

MAKE_ONE = "numpy.savez('codes.npz', codes=codes, factors=factors)"
# Deflate packs at most 1,032 to 1; arrays of numbers are nowhere near that unless they are constant.
MOST_PACKED = 200
# A larger .npy file is memory-mapped; a smaller one is read, which is faster.
AT_ONCE = 1 << 20
SMALL = 64 << 20


def read_arrays(path: Path, known: Sequence[str]) -> dict[str, np.ndarray | None]:
    """The arrays with these names; if there are none, all others' names, each with None.

    The one array in an ``.npy`` file, which is memory-mapped, has the first of the names.
    """
    if suffix_of(path) == ".npy":
        return {known[0]: read_npy(path)}
    if suffix_of(path) == ".safetensors":
        return _read_safetensors(path, known)
    try:
        with zipfile.ZipFile(path) as archive:
            members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
            wanted = [name for name in known if name in members]
            return {name: _member(archive, members[name]) for name in wanted} or dict.fromkeys(members)
    except (zipfile.BadZipFile, OSError) as error:
        if zipfile.is_zipfile(path):
            raise ValueError(f"{printable(path)}: {_reason(error)}") from None
        raise ValueError(
            f"{printable(path)}: must be a .npz file, got another file or one that is cut short; make one "
            f"with {MAKE_ONE}"
        ) from None
    except Exception as error:  # of a damaged file, the modules that read it raise nearly everything
        raise ValueError(f"{printable(path)}: {_reason(error)}") from None


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    """One array in an archive, after comparing its declared size with what the file holds."""
    if member.file_size > max(SMALL, MOST_PACKED * member.compress_size):
        raise ValueError(
            f"{member.filename} claims {member.file_size:,} bytes, packed in {member.compress_size:,}; use savez"
        )
    with archive.open(member) as stream:
        shape, by_columns, dtype = _header(stream, member.file_size)
        return _typed(np.ndarray(shape, dtype, stream.read(), order="F" if by_columns else "C"))


def read_npy(path: Path) -> np.ndarray:
    """The array in an .npy file, memory-mapped if it is large."""
    try:
        with path.open("rb") as stream:
            size = path.stat().st_size
            shape, by_columns, dtype = _header(stream, size)
            if size <= AT_ONCE:
                return _typed(np.ndarray(shape, dtype, stream.read(), order="F" if by_columns else "C"))
        return _typed(np.load(path, mmap_mode="r", allow_pickle=False))
    except Exception as error:
        reason = f"must be a plain .npy array, got another file or one that is cut short ({_reason(error)})"
        raise ValueError(f"{printable(path)}: {reason}") from None


def _read_safetensors(path: Path, known: Sequence[str]) -> dict[str, np.ndarray | None]:
    from safetensors import safe_open

    try:
        with safe_open(path, framework="np") as file:
            wanted = [name for name in known if name in file.keys()]  # noqa: SIM118, since it is no mapping
            return {name: file.get_tensor(name) for name in wanted} or dict.fromkeys(file.keys())
    except AttributeError as error:  # "module 'numpy' has no attribute 'float8_e4m3fn'"
        raise ValueError(f"{printable(path)}: must hold types that NumPy has, got {error}; save float32") from None
    except Exception as error:  # the library's own
        raise ValueError(f"{printable(path)}: {_reason(error)}") from None


def _typed(array: np.ndarray) -> np.ndarray:
    """Two bytes that have lost their type as bfloat16."""
    return array.view(ml_dtypes.bfloat16) if array.dtype == np.dtype("V2") else array


def _header(stream, size: int) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, order and dtype of the array that follows, unless the bytes cannot hold it or hold pickled objects."""
    version = np.lib.format.read_magic(stream)
    length = stream.read(2 if version == (1, 0) else 4)
    shape, by_columns, dtype = _parsed(version, length + stream.read(int.from_bytes(length, "little")))
    if dtype.hasobject:
        raise ValueError("holds pickled Python objects, which are never loaded; save plain arrays")
    if any(isinstance(length, bool) or length < 0 for length in shape):
        raise ValueError(f"is damaged: an array claims the shape {shape}")
    if math.prod(shape) * dtype.itemsize > size:
        raise ValueError(f"is damaged or cut short: an array claims the shape {shape}, in {size:,} bytes")
    return shape, by_columns, dtype


@functools.lru_cache(maxsize=8)
def _parsed(version: tuple[int, int], header: bytes) -> tuple[tuple[int, ...], bool, np.dtype]:
    """What a header says, which many files have in common."""
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    return read(io.BytesIO(header))


def _reason(error: Exception) -> str:
    reason = " ".join(str(error).split())[:200] or type(error).__name__
    return reason if isinstance(error, ValueError) and reason.startswith(("holds", "is ")) else f"is damaged ({reason})"


_TITLES = {".parquet": "a Parquet file", ".feather": "a Feather file", ".arrow": "an Arrow file"}
ARROW_SUFFIXES = tuple(_TITLES)


def read_arrow(path: Path, wanted: Sequence[str] = ()):
    """The table in a file: the columns of :func:`to_read` among all but the index that a data frame was saved with."""
    try:
        import pyarrow as arrow
        from pyarrow import ipc, parquet
    except ImportError:
        raise ValueError(f"{path.name}: needs pyarrow (pip install pyarrow), or the same table as .csv") from None
    try:
        with open_regular(path) as file:
            table = None
            if suffix_of(path) != ".parquet":
                try:
                    table = ipc.open_file(file).read_all()
                except arrow.ArrowInvalid:  # Arrow's stream, which some libraries keep under the same ending
                    file.seek(0)
                    table = ipc.open_stream(file).read_all()
            schema = parquet.read_schema(file) if table is None else table.schema
            index = json.loads((schema.metadata or {}).get(b"pandas", b'{"index_columns": []}'))["index_columns"]
            names = to_read(schema.names, wanted)
            names = names if set(names) == set(wanted) else [name for name in names if name not in index]
            return parquet.read_table(file, columns=names) if table is None else table.select(names)
    except (arrow.ArrowException, OSError, json.JSONDecodeError, LookupError) as error:
        reason = f"must be {_TITLES[suffix_of(path)]}, got another file or one that is damaged ({str(error)[:200]})"
        raise ValueError(f"{path.name}: {reason}") from None


def codes_in_lists(path: Path, name: str | None = None) -> np.ndarray | None:
    """Codes ``[n, d]`` that a column holds as equally long lists; None for a file without such a column."""
    table = read_arrow(path, () if name is None else (name,))
    found = [field.name for field in table.schema if is_list(field.type)]
    if name is not None and name not in found:
        kind = table.schema.field(name).type if name in table.schema.names else "no such column"
        raise ValueError(f"{path.name}: column {shown(name)} must hold lists of numbers, got {kind}")
    if name is None and len(found) > 1:
        known = some_of([f"{path.name}:{each}" for each in found])
        raise ValueError(f"{path.name}: must name the column of codes, got {len(found)} of lists; there is {known}")
    name = name or (found[0] if found else None)
    if name is None:
        return None
    from pyarrow import types

    where, rows = f"{path.name}: column {shown(name)}", table.column(name).combine_chunks()
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


def is_list(kind) -> bool:
    from pyarrow import types

    kind = getattr(kind, "storage_type", kind)
    return types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)


def is_cells(path: Path) -> bool:
    """Whether a path is ``cells.h5ad`` or ``cells.zarr``, alone or with a representation: ``cells.h5ad:X_pca``."""
    return suffix_of(file_and_part(path)[0]) in CELL_SUFFIXES


def read_cells(path: Path):
    """Codes ``[n, d]`` and the data frame of the cells.

    Args:
      path: ``cells.h5ad:KEY`` with a key in ``obsm``, ``cells.h5ad:X``, or ``cells.h5ad:layers/NAME``. The file alone
        has one representation, or nothing but the matrix ``X``.
    """
    file, key = file_and_part(path)
    cells = _opened(file)
    keys = sorted(cells.obsm)
    if getattr(cells, "X", None) is not None:
        keys.append(_MATRIX)
    keys += [f"{_LAYERS}{layer}" for layer in sorted(getattr(cells, "layers", {}).keys())]
    if key is None and (len(cells.obsm) == 1 or len(keys) == 1 or (not cells.obsm and _MATRIX in keys)):
        key = keys[0]
    if key not in keys:
        known = some_of([f"{file.name}:{known}" for known in keys]) or "no representation (obsm, X, layers) in it"
        raise ValueError(f"{printable(path)}: must name a representation, got {shown(key)}; there is {known}")
    if key in cells.obsm:
        codes = cells.obsm[key]
    else:
        codes = cells.X if key == _MATRIX else cells.layers[key.removeprefix(_LAYERS)]
    # Numbers from what anndata reads: an array, a data frame, or the same in a file, sparse ones included.
    if type(codes).__module__.startswith("zarr"):
        from anndata.io import read_elem

        codes = read_elem(codes)
    codes = codes.to_memory() if hasattr(codes, "to_memory") else codes
    codes = np.asarray(codes.toarray() if hasattr(codes, "toarray") else codes)
    if codes.ndim != 2 or codes.dtype.kind not in "fiub":
        raise ValueError(f"{printable(path)}: must hold numbers [cells, codes], got {shown(codes)}")
    return codes, cells.obs


def read_annotations(path: Path):
    return _opened(file_and_part(path)[0]).obs


def _opened(file: Path):
    """The cells in a file, whose matrix and layers are not read."""
    check_file(file)
    import anndata

    try:
        return _store(file) if suffix_of(file) == ".zarr" else anndata.read_h5ad(file, backed="r")
    except (OSError, KeyError) as error:
        raise ValueError(f"{printable(file)}: must be a whole {suffix_of(file)} file, got {error}") from None


def _store(folder: Path) -> types.SimpleNamespace:
    import zarr
    from anndata.io import read_elem

    try:
        root = zarr.open(str(folder), mode="r")
        names = set(root.keys()) if hasattr(root, "keys") else ()
    except Exception as error:  # zarr's own, of several kinds
        raise ValueError(f"{printable(folder)}: must be a .zarr store, got another folder ({error})") from None
    if "obs" not in names:
        lines = f"x = zarr.open({folder.name!r})[…][:]; numpy.save('codes.npy', x)"
        raise ValueError(f"{printable(folder)}: must hold AnnData, got another store; convert it in Python: {lines}")
    obsm = read_elem(root["obsm"]) if "obsm" in names else {}
    layers = root["layers"] if "layers" in names else {}
    matrix = root[_MATRIX] if _MATRIX in names else None
    return types.SimpleNamespace(obs=read_elem(root["obs"]), obsm=obsm, X=matrix, layers=layers)
