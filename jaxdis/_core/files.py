"""Files that are written entirely or not at all, and read only if they are regular files.

Bytes, text, CSV, JSON, arrays as npz with a JSON header and a checksum, and where a trained zoo is; nothing is
unpickled.
"""

import contextlib
import csv
import errno
import hashlib
import io
import itertools
import json
import os
import re
import secrets
import stat
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from jaxdis._core import interrupts

_HEADER = "header"
MOST_JSON_BYTES = 2**28

# A temporary file of this age was left by a writer that was killed.
LEFT_AFTER_SECONDS = 3600.0
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{16}\.tmp")
# Another process may remove an emptied folder between its creation and the first file in it.
_ATTEMPTS = 3
# Text that begins so is a formula to a spreadsheet.
_FORMULAS = ("=", "+", "-", "@", "\t", "\r")


def write_whole(path: str | Path, write: Callable[[BinaryIO], object], *, replace: bool = True) -> bool:
    """Write a file under a temporary name, flush it to disk and rename it, or leave nothing.

    Without ``replace`` the first writer wins: False if the name was taken. The error of a full disk says what to do.
    """
    path = Path(path)
    for attempt in range(_ATTEMPTS):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            return _write(path, write, replace)
        except FileNotFoundError:
            if attempt + 1 == _ATTEMPTS:
                raise
        except OSError as error:
            if is_full(error):
                raise full(error, path.parent, "make room and run again") from error
            raise
    raise AssertionError("unreachable")


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary name for a new version of a file, which is flushed to disk and renamed at the end.

    After an exception, the file is as before, and nothing is left of the new version.
    """
    with _temporary(path) as temporary:
        yield temporary
        with open(temporary, "r+b") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)


def full(error: OSError, folder: str | Path, advice: str) -> OSError:
    """The error for a full disk, naming the folder and what to do."""
    return OSError(error.errno, f"{os.strerror(error.errno)} in {folder}; {advice}")


def is_full(error: BaseException | None) -> bool:
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def remove_leftovers(folder: str | Path) -> None:
    """Remove the temporary files of a folder whose writers were killed at least an hour ago."""
    with contextlib.suppress(OSError):
        for name in filter(_TEMPORARY.fullmatch, os.listdir(folder)):
            path = os.path.join(folder, name)
            with contextlib.suppress(OSError):
                if time.time() - os.lstat(path).st_mtime > LEFT_AFTER_SECONDS:
                    os.unlink(path)


@contextlib.contextmanager
def open_regular(path: str | Path, most: int | None = None) -> Iterator[BinaryIO]:
    """Open a regular file for reading; anything else, such as a pipe without a writer, is an error."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    status = os.fstat(descriptor)
    if stat.S_ISDIR(status.st_mode):  # of which Python makes no file
        os.close(descriptor)
        raise OSError(errno.EINVAL, "must be a regular file, got a folder", str(path))
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "must be a regular file, got something else", str(path))
        if most is not None and status.st_size > most:
            raise OSError(errno.EFBIG, f"must have at most {most:,} bytes, got {status.st_size:,}", str(path))
        yield file


class DamagedFile(ValueError):
    """A file that jaxdis did not write, or that is incomplete."""


def write_arrays(path: str | Path, header: dict, arrays: dict[str, np.ndarray]) -> None:
    """Write a file entirely or not at all, replacing an existing one."""
    contents = packed(header, arrays)
    write_whole(path, lambda file: np.savez(file, **contents))


def packed(header: dict, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What a file with arrays contains: the arrays, and the header with a checksum as bytes."""
    without_objects(arrays)
    full = {**header, "checksum": _checksum(arrays)}
    encoded = np.frombuffer(json.dumps(full, sort_keys=True).encode(), np.uint8)
    return {_HEADER: encoded, **{f"a/{name}": array for name, array in arrays.items()}}


def without_objects(arrays: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
    """The arrays, none of which holds Python objects: NumPy would pickle these, and nothing is ever unpickled."""
    for name, array in arrays.items():
        if np.asarray(array).dtype.hasobject:
            raise ValueError(f"arrays: must hold numbers or text, got Python objects in {name!r}")
    return arrays


def write_text(path: str | Path, text: str) -> None:
    """Write text where a user wants it: atomically, following links; directly into a pipe or a device."""
    path = Path(path).resolve()
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")
        return
    write_whole(path, lambda file: file.write(text.encode()))


def csv_text(head: Sequence[str], rows: Iterable[Sequence | Mapping], path: str | Path | None = None) -> str:
    """Comma-separated values under a head, from rows of cells or mappings, in which a missing name is an empty cell;
    also written to ``path`` as by :func:`write_text` if given.

    Text that a spreadsheet would take for a formula, since it begins with =, +, - or @, gets an apostrophe before it.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    cells = ([row.get(name, "") for name in head] if isinstance(row, Mapping) else row for row in rows)
    writer.writerows(map(_harmless, row) for row in itertools.chain([head], cells))
    if path is not None:
        write_text(path, text.getvalue())
    return text.getvalue()


def read_csv(path: str | Path) -> list[dict[str, str]]:
    """Read what :func:`csv_text` wrote, a row each; apostrophes that it put before text are taken away."""
    with open(path, newline="", encoding="utf-8") as file:
        head, *rows = [*csv.reader(file)] or [[]]
    names = list(map(_as_given, head))
    return [dict(zip(names, map(_as_given, row), strict=True)) for row in rows]


def read_csv_columns(path: str | Path) -> dict[str, np.ndarray]:
    """As :func:`read_csv`, by columns: floats where every entry is a number (or empty, which is NaN), else text."""
    rows = read_csv(path)
    return {name: column_of_texts([row[name] for row in rows]) for name in (rows[0] if rows else {})}


def column_of_texts(texts: list[str]) -> np.ndarray:
    """Floats where every text is a number or empty (NaN), else the texts."""
    try:
        return np.array([float(text or "nan") for text in texts])
    except ValueError:
        return np.array(texts)


def _as_given(cell: str) -> str:
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(_FORMULAS) else cell


def _harmless(cell):
    """A cell that no spreadsheet takes for a formula: text that begins like one gets an apostrophe before it."""
    if not isinstance(cell, str) or not cell.startswith(_FORMULAS):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def write_json(path: str | Path, value) -> None:
    text = json.dumps(value, indent=2, sort_keys=True) + "\n"
    write_whole(path, lambda file: file.write(text.encode()))


def read_json(path: str | Path) -> dict:
    """Read a JSON object; DamagedFile for a file that holds none, is too large or is not regular."""
    try:
        with open_regular(path, MOST_JSON_BYTES) as file:
            value = json.loads(file.read().decode())
    except FileNotFoundError:
        raise
    except RecursionError:
        raise DamagedFile(f"{path}: is damaged (nested too deep)") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise DamagedFile(f"{path}: is damaged ({reason})") from None
    if not isinstance(value, dict):
        raise DamagedFile(f"{path}: is damaged (must be a JSON object, got {type(value).__name__})")
    return value


def differences(stored: Any, wanted: Any, where: str = "") -> Iterator[tuple[str, str]]:
    """Yield the places at which two plain values differ, and how: ``("steps", "is 3, asked for 4")``."""
    if isinstance(stored, dict) and isinstance(wanted, dict):
        for key in sorted(stored.keys() | wanted.keys()):
            yield from differences(stored.get(key), wanted.get(key), f"{where}.{key}" if where else key)
    elif isinstance(stored, list) and isinstance(wanted, list) and len(stored) == len(wanted):
        for place, (old, new) in enumerate(zip(stored, wanted, strict=True)):
            yield from differences(old, new, f"{where}.{place}")
    elif stored != wanted:
        old, new = (json.dumps(value, ensure_ascii=False) for value in (stored, wanted))
        old, new = (text if len(text) < 60 else text[:57] + "…" for text in (old, new))
        yield where, f"is {old}, asked for {new}"


def read_arrays(path: str | Path) -> tuple[dict, dict[str, np.ndarray]]:
    """The header and the arrays; DamagedFile for a file that is truncated, altered, or was not written here."""
    try:
        with open_regular(path) as raw, np.load(raw, allow_pickle=False) as file:
            contents = {name: file[name] for name in file.files}
        header = json.loads(contents.pop(_HEADER).tobytes())
        arrays = {name.removeprefix("a/"): array for name, array in contents.items()}
        intact = header.pop("checksum") == _checksum(arrays)
    except (FileNotFoundError, MemoryError):
        raise
    except Exception as error:  # NumPy, zipfile and zlib have many words for damage
        raise DamagedFile(
            f"{path}: must be a whole npz file written by jaxdis, got {type(error).__name__}: {error}"
        ) from None
    if not intact:
        raise DamagedFile(f"{path}: the checksum does not agree with the contents")
    return header, arrays


def named_leaves(tree) -> dict[str, np.ndarray]:
    import jax

    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="/"): np.asarray(leaf) for path, leaf in leaves}


def with_leaves(template, arrays: dict[str, np.ndarray], what: str):
    """The template's tree with the arrays as leaves, after checking names, shapes and dtypes."""
    import jax

    leaves, treedef = jax.tree_util.tree_flatten_with_path(template)
    names = [jax.tree_util.keystr(path, simple=True, separator="/") for path, _ in leaves]
    if set(names) != set(arrays):
        odd = sorted(set(names) ^ set(arrays))
        raise DamagedFile(f"{what}: needs the arrays of this model, {odd[0]!r} is missing or too much")
    for name, (_, leaf) in zip(names, leaves, strict=True):
        if arrays[name].shape != leaf.shape or arrays[name].dtype != leaf.dtype:
            raise DamagedFile(
                f"{what}: {name} must be {leaf.dtype} {leaf.shape}, got {arrays[name].dtype} {arrays[name].shape}"
            )
    return jax.tree_util.tree_unflatten(treedef, [arrays[name] for name in names])


@contextlib.contextmanager
def _temporary(path: Path) -> Iterator[Path]:
    """A new name in the folder of a path, where nothing is left at the end, or by :func:`remove_leftovers`."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    interrupts.unfinished.add(str(temporary))
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)
        interrupts.unfinished.discard(str(temporary))


def _write(path: Path, write: Callable[[BinaryIO], object], replace: bool) -> bool:
    with _temporary(path) as temporary:
        with open(temporary, "xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            os.replace(temporary, path)
            return True
        try:
            os.link(temporary, path)  # fails if the name is taken: the first writer wins
        except FileNotFoundError:
            raise
        except FileExistsError:
            return False
        except OSError:  # a file system without hard links: the last writer wins, with the same content
            os.replace(temporary, path)
        return True


def _checksum(arrays: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name}|{array.dtype.str}|{array.shape}|".encode())
        digest.update(array.data)
    return digest.hexdigest()


ZOO_FILE = "zoo.npz"


def is_zoo(path: Path) -> bool:
    """Whether a path is a run's folder or a file that holds a zoo."""
    if path.is_dir():
        return path.suffix != ".zarr"
    try:
        with open_regular(path) as file, zipfile.ZipFile(file) as archive:
            return any(name.startswith("a/params/") for name in archive.namelist())
    except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile):  # those who read codes say what is wrong
        return False


def zoo_file(path: Path) -> Path:
    file = path / ZOO_FILE if path.is_dir() else path
    if not file.is_file():
        raise ValueError(f"{path}: must be a folder that `jaxdis train` completed, with {ZOO_FILE}, got none there")
    return file
