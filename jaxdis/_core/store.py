"""Results on disk: one file per cell, written entirely or not at all by the first writer. Nothing is ever unpickled."""

import contextlib
import hashlib
import io
import itertools
import json
import math
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from jaxdis._core import files
from jaxdis._core.options import checked, shown

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

KINDS = ("train", "encode", "score")
_ID = re.compile(r"[0-9a-f]{16}")
_ADVICE = "`jaxdis study verify` removes it, and running the study again makes it anew"
# Stands for the id of a parent in a specification; no other text of it has these letters.
_PARENT = "<the id of the parent>"
# In a folder with scores: the files whose codes its table lists.
FILES = "files.json"


class StoreError(ValueError):
    """A directory or a record is not what it should be."""


def canonical(value: Any) -> str:
    """The unique JSON text for plain data: sorted keys, no spaces, whole floats as integers, NaN as null."""
    return json.dumps(_plain(value), sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)


def cell_id(spec: dict) -> str:
    """The first 16 hexadecimal digits of the hash over a cell's specification."""
    return _hash(canonical(spec))[:16]


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def ids_of_children(spec: Callable[[str], dict]) -> Callable[[str], str]:
    """The ids for specifications that differ only in a parent's id: a study has hundreds of thousands."""
    before, after = canonical(spec(_PARENT)).split(_PARENT)
    return lambda parent: _hash(before + parent + after)[:16]


class Store:
    """A study's directory: ``{train,encode,score}/ab/abcd….{json,npz}`` and ``study.json``.

    A record (JSON) is published after its arrays (NPZ) and holds their hash, so that an existing record is complete.
    Arrays without a record were left by a killed process: they are never read, and are written again. All methods raise
    :class:`StoreError` for what is missing, damaged, or another study's.
    """

    @checked
    def __init__(self, root: str | Path):
        self.root = Path(root)

    @checked
    def open(self, description: Mapping[str, Any], *, extend: bool = False) -> None:
        """Claim the directory for a study, or check that it belongs to this study and to nothing else.

        With ``extend``, another study's description is replaced (see :meth:`check_smaller`): cells that both share are
        kept, since they are found by content.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        foreign = sorted(path.name for ending in ("csv", "html") for path in self.root.glob(f"*.{ending}"))
        if foreign and not self.begun:
            other = f"one with {foreign[0]}, which is of none"
            raise StoreError(f"{self.root}: must be a directory of the study alone, got {other}")
        path = self.root / "study.json"
        text = json.dumps(_plain(description), indent=1, sort_keys=True, ensure_ascii=False) + "\n"
        for folder in (self.root, *(path for kind in KINDS for path in self.root.glob(f"{kind}/*/"))):
            files.remove_leftovers(folder)
        if publish(path, text.encode()):
            return
        if extend:
            self.description()  # raises where that is no study's
            publish(path, text.encode(), replace=True)
            return
        self.check(description, "Choose another directory, or extend this one")

    @checked
    def check(
        self,
        description: Mapping[str, Any],
        advice: str = "Give the options that it was run with, or extend it by `study run --extend`",
    ) -> None:
        """Check that the directory holds this study; the error names the first differences."""
        faults = list(map(" ".join, files.differences(self.description(), _plain(description))))
        if faults:
            raise StoreError(f"{self.root}: holds a study that differs: {'; '.join(faults[:3])}. {advice}")

    @checked
    def check_smaller(self, description: Mapping[str, Any], trained: Collection[str]) -> None:
        """Check that the directory holds a smaller version of this study: extending it loses no row and no column.

        The study may add members, metrics, and parts that the stored description leaves empty. ``trained`` are the ids
        of its training cells.
        """
        stored, wanted = self.description(), _plain(description)
        metrics = {name: wanted.get("metrics", {}).get(name) for name in stored.get("metrics", {})}
        kept = {key: value for key, value in stored.items() if key != "trainings" and value not in ([], 0)}
        compared = {**wanted, "metrics": metrics}
        faults = [" ".join(pair) for key in kept for pair in files.differences(kept[key], compared.get(key), key)]
        if lost := len(self.ids("train").difference(trained)):
            faults.append(f"{lost} of its trained members are not in the study")
        if faults:
            words = f"holds a study that is not a smaller version of this one: {'; '.join(faults[:3])}"
            raise StoreError(f"{self.root}: {words}. Choose another directory")

    def description(self) -> dict:
        """The description that :meth:`open` stored."""
        if not self.described:
            raise StoreError(f"{self.root}: holds no study (no study.json)")
        return read_object(self.root / "study.json")

    @property
    def described(self) -> bool:
        """Whether the directory says which study it holds."""
        return os.path.lexists(self.root / "study.json")

    @property
    def begun(self) -> bool:
        """Whether the directory holds anything from a study."""
        return any(os.path.lexists(self.root / name) for name in ("study.json", *KINDS))

    def path(self, kind: str, name: str, suffix: str = ".json") -> Path:
        if kind not in KINDS or not (isinstance(name, str) and _ID.fullmatch(name)):
            raise StoreError(f"cell: must be one of {KINDS} and 16 hexadecimal digits, got {kind!r}, {name!r}")
        return self.root / kind / name[:2] / f"{name}{suffix}"

    def ids(self, kind: str) -> set[str]:
        """All published cells in one kind of :data:`KINDS`."""
        if kind not in KINDS:
            raise StoreError(f"kind: must be one of {', '.join(KINDS)}, got {shown(kind)}")
        ids, root = set(), self.root / kind
        for folder in [entry for entry in os.scandir(root) if entry.is_dir()] if root.is_dir() else ():
            records = (entry.name[:-5] for entry in os.scandir(folder.path) if entry.name.endswith(".json"))
            ids |= {name for name in records if _ID.fullmatch(name) and name[:2] == folder.name}
        return ids

    @checked
    def publish(
        self,
        kind: str,
        spec: Mapping[str, Any],
        result: Mapping[str, Any],
        arrays: Mapping[str, np.ndarray] | None = None,
    ) -> bool:
        """Write a cell's result under its own id; False if another writer was first.

        Arrays of Python objects, and anything else that JSON cannot hold, are refused with a ``ValueError``.
        """
        for argument, value in (("spec", spec), ("result", result)):
            try:
                canonical(_plain(value))
            except (TypeError, ValueError, RecursionError) as error:
                raise ValueError(f"{argument}: must hold numbers, text, lists and mappings, got {error}") from None
        name = cell_id(spec)
        record, content = {"cell": _plain(spec), "result": _plain(result)}, None
        if arrays is not None:
            buffer = io.BytesIO()
            np.savez(buffer, **files.without_objects(arrays))
            content = buffer.getvalue()
            record["arrays"] = hashlib.sha256(content).hexdigest()
        record["hash"] = _hash(canonical(record))
        # The arrays and the record of a cell come from one writer. Without locks, its hash tells of another's arrays.
        with locked(self.root / ".lock"):
            if os.path.lexists(self.path(kind, name)):
                return False
            if content is not None:
                publish(self.path(kind, name, ".npz"), content, replace=True)
            return publish(self.path(kind, name), canonical(record).encode())

    def adopt(self, other: "Store", wanted: Mapping[str, Collection[str]]) -> int:
        """Copy cells that any study's directory holds and this one lacks, each after reading it; returns how many.

        ``wanted`` are ids by kind: cells are found by what they compute.
        """
        copied = 0
        for kind in KINDS:
            for name in sorted(other.ids(kind).intersection(wanted.get(kind, ())) - self.ids(kind)):
                record = other.record(kind, name)
                arrays = other.arrays(kind, name) if "arrays" in record else None
                copied += self.publish(kind, record["cell"], record["result"], arrays)
        return copied

    def result(self, kind: str, name: str) -> dict:
        return self.record(kind, name)["result"]

    def score(self, cell: str, name: str) -> dict:
        """A score's ``columns`` and ``parts``, under the name that a study gives to the metric.

        Cells know metrics by what they compute. If a study has a metric under two names, or another name than when the
        cell was made, the cell has the other name in its columns.
        """
        result = self.result("score", cell)
        columns = [*result["columns"], *result["parts"]]
        # The names that all may belong to: ``mig.per_factor`` to ``mig`` and ``mig.per_factor``.
        owners = [set(itertools.accumulate(column.split("."), "{}.{}".format)) for column in columns]
        shared = set.intersection(*owners) if columns else {name}
        if name in shared:
            return result
        other = max(shared, key=len) if len(columns) > 1 else columns[0].split(".")[0]
        kinds = {kind: result[kind].items() for kind in ("columns", "parts")}
        return {kind: {name + column.removeprefix(other): v for column, v in row} for kind, row in kinds.items()}

    def record(self, kind: str, name: str) -> dict:
        """A record, checked against its own hash and its id."""
        path = self.path(kind, name)
        record = read_object(path)
        try:
            body = {key: value for key, value in record.items() if key != "hash"}
            sound = record["hash"] == _hash(canonical(body)) and "result" in body
            its_name = cell_id(record["cell"])
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
            sound, its_name = False, ""
        if not sound:
            raise StoreError(f"{path}: is damaged (its hash does not fit); {_ADVICE}")
        if its_name != name:
            raise StoreError(f"{path}: holds another cell than its name implies; {_ADVICE}")
        return record

    def arrays(self, kind: str, name: str) -> dict[str, np.ndarray]:
        """A cell's arrays, checked against the record's hash."""
        path, wanted = self.path(kind, name, ".npz"), self.record(kind, name).get("arrays")
        try:
            with files.open_regular(path) as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != wanted:
                    raise StoreError(f"{path}: is damaged (its hash does not fit); {_ADVICE}")
                file.seek(0)
                with np.load(file, allow_pickle=False) as archive:
                    return dict(archive)
        except (StoreError, MemoryError):
            raise
        except Exception as error:  # NumPy and zipfile have many words for damage
            raise StoreError(f"{path}: is damaged ({type(error).__name__}: {error}); {_ADVICE}") from None

    def verify(self) -> Iterator[tuple[str, str, str]]:
        """Read everything again; yield (kind, id, problem) and remove what is damaged, so that it is computed again.

        Arrays are removed before their record, and so is a file in another folder than its name implies. A damaged
        ``study.json`` has the kind ``study``; the next run writes it again.
        """
        if self.described:
            try:
                self.description()
            except StoreError as error:
                yield "study", "study.json", _removed(error, self.root / "study.json")
        for kind in KINDS:
            named = (path for path in sorted(self.root.glob(f"{kind}/*/*")) if _ID.fullmatch(path.stem))
            strays = [path for path in named if path.suffix in (".json", ".npz") and path.parent.name != path.name[:2]]
            for path in strays:
                yield kind, path.name, _removed(f"{path}: lies in the wrong folder", path)
            for name in sorted(self.ids(kind)):
                try:
                    if "arrays" in self.record(kind, name):
                        self.arrays(kind, name)
                except MemoryError:
                    raise
                except Exception as error:  # whatever is wrong with it, it is to be made again
                    yield kind, name, _removed(error, self.path(kind, name, ".npz"), self.path(kind, name))


def publish(path: Path, content: bytes, *, replace: bool = False) -> bool:
    """Write a file entirely under its name, or not at all. False if the name was taken (and ``replace`` is not set)."""
    if not replace and os.path.lexists(path):
        return False
    return files.write_whole(path, lambda file: file.write(content), replace=replace)


def read_object(path: Path) -> dict:
    try:
        return files.read_json(path)
    except files.DamagedFile as error:
        raise StoreError(f"{error}; {_ADVICE}") from None


def scored(folder: Path) -> dict | None:
    """What `jaxdis score --out` says of a folder; None for anything else.

    ``files``: paths by name; ``metrics``: as in the shell, with their ``preset``; ``reading``: arguments that read each
    file; ``test``: the file of held-out samples; ``seed``.
    """
    path = folder / FILES
    if not path.is_file():
        return None
    try:
        record = read_object(path)
        found = {name: Path(place) for name, (place, _) in record["files"].items()}
        return {name: record[name] for name in ("metrics", "preset", "reading", "test", "seed")} | {"files": found}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StoreError(f"{path}: is damaged ({error}); `jaxdis score --out` writes it again") from None


def _removed(fault: object, *paths: Path) -> str:
    """The problem, after removing the paths; if that fails, that problem as well."""
    try:
        for path in paths:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
    except OSError as error:
        return f"{fault}; it cannot be removed: {error}"
    return f"{fault}"


def number(value: float | int | str | None) -> float:
    """A stored number back as a float: null is NaN."""
    return math.nan if value is None else float(value)


def _plain(value: Any) -> Any:
    """JSON's own types: no dataclasses, 1.0 as 1, NaN as None."""
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, float):
        if not math.isfinite(value):
            return None if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
        return int(value) if value == int(value) and abs(value) < 2**53 else value
    return value


# Processes that share a study's directory wait for each other by file locks, and train no batch twice. No result
# depends on them: without locks, processes may train the same batch in one folder, where each file is written
# whole, and each cell's first record counts.
@contextlib.contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[bool]:
    """Hold a file's lock, which ends with the process; False while another holds it, unless this one waits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "ab") as file:
        taken = True
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                taken = False
            except OSError:  # a file system without locks
                pass
        yield taken


def lock_of(folder: Path) -> Path:
    """Name the file that locks a batch's folder."""
    return folder.with_name(f"{folder.name}.lock")


def clear(folder: Path) -> None:
    """Remove a finished batch's folder, and its lock: whoever still waits for it finds every cell published."""
    shutil.rmtree(folder, ignore_errors=True)
    lock_of(folder).unlink(missing_ok=True)


def clear_all(folder: Path) -> None:
    """Remove all batch folders that nobody holds, in a study that has nothing left to train."""
    if not folder.is_dir():
        return
    files.remove_leftovers(folder)
    for name in {path.name.removesuffix(".lock") for path in folder.iterdir()}:
        with locked(lock_of(folder / name), wait=False) as taken:
            if taken:
                clear(folder / name)
