"""Results on disk: one file a cell, written whole or not at all, by whoever comes first. Nothing is ever unpickled."""

import hashlib
import io
import json
import math
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

KINDS = ("train", "encode", "score")
_ID = re.compile(r"[0-9a-f]{16}")


class StoreError(ValueError):
    """A directory or a record that is not what it should be."""


def canonical(value: Any) -> str:
    """The one JSON text of plain data: sorted keys, no spaces, whole floats as integers, NaN as null."""
    return json.dumps(_plain(value), sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)


def cell_id(spec: dict) -> str:
    """The first 16 hexadecimal digits of the hash of a cell's specification."""
    return hashlib.sha256(canonical(spec).encode()).hexdigest()[:16]


class Store:
    """The directory of a study: ``{train,encode,score}/ab/abcd….{json,npz}`` and ``study.json``.

    A record (JSON) is published after its arrays (NPZ) and names their hash, so a record that exists is complete.
    """

    def __init__(self, root: str | Path):
        self.root = Path(root)

    def open(self, description: dict, *, extend: bool = False) -> None:
        """Claim the directory for a study, or check that it is this study's.

        Raises:
          StoreError: when the directory holds another study, naming the first differences. With ``extend`` the stored
            description is replaced instead: cells that both have are kept, since they are found by content.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        path = self.root / "study.json"
        text = json.dumps(_plain(description), indent=1, sort_keys=True, ensure_ascii=False) + "\n"
        if not path.exists() and publish(path, text.encode()):
            return
        stored = read_json(path)
        differences = list(_differences(stored, _plain(description)))
        if not differences:
            return
        if not extend:
            shown = "; ".join(differences[:3])
            raise StoreError(
                f"{self.root}: holds a study that differs: {shown}. Choose another directory, or extend this one"
            )
        publish(path, text.encode(), replace=True)

    def description(self) -> dict:
        path = self.root / "study.json"
        if not path.is_file():
            raise StoreError(f"{self.root}: holds no study (no study.json)")
        return read_json(path)

    def path(self, kind: str, name: str, suffix: str = ".json") -> Path:
        if kind not in KINDS or not _ID.fullmatch(name):
            raise StoreError(f"cell: needs one of {KINDS} and 16 hexadecimal digits, got {kind!r}, {name!r}")
        return self.root / kind / name[:2] / f"{name}{suffix}"

    def ids(self, kind: str) -> set[str]:
        """All published cells of a kind."""
        found = set()
        if (self.root / kind).is_dir():
            for folder in os.scandir(self.root / kind):
                if folder.is_dir():
                    names = (entry.name for entry in os.scandir(folder.path))
                    found |= {name[:16] for name in names if name.endswith(".json") and _ID.fullmatch(name[:-5])}
        return found

    def publish(self, kind: str, spec: dict, result: dict, arrays: dict[str, np.ndarray] | None = None) -> bool:
        """Write a cell's result under its own id; False if somebody was first."""
        name = cell_id(spec)
        record = {"cell": _plain(spec), "result": _plain(result)}
        if arrays is not None:
            buffer = io.BytesIO()
            np.savez(buffer, **arrays)
            content = buffer.getvalue()
            if not publish(self.path(kind, name, ".npz"), content):
                content = self.path(kind, name, ".npz").read_bytes()
            record["arrays"] = hashlib.sha256(content).hexdigest()
        record["hash"] = hashlib.sha256(canonical(record).encode()).hexdigest()
        return publish(self.path(kind, name), canonical(record).encode())

    def result(self, kind: str, name: str) -> dict:
        return self.record(kind, name)["result"]

    def record(self, kind: str, name: str) -> dict:
        """A record, checked against its own hash and its id.

        Raises:
          StoreError: when it is damaged.
        """
        path = self.path(kind, name)
        record = read_json(path)
        body = {key: value for key, value in record.items() if key != "hash"} if isinstance(record, dict) else {}
        if not body or record.get("hash") != hashlib.sha256(canonical(body).encode()).hexdigest():
            raise StoreError(f"{path}: is damaged (its hash does not fit)")
        if cell_id(record["cell"]) != name:
            raise StoreError(f"{path}: holds another cell than its name says")
        return record

    def arrays(self, kind: str, name: str) -> dict[str, np.ndarray]:
        """The arrays of a cell, checked against the record's hash."""
        content = self.path(kind, name, ".npz").read_bytes()
        if hashlib.sha256(content).hexdigest() != self.record(kind, name).get("arrays"):
            raise StoreError(f"{self.path(kind, name, '.npz')}: is damaged (its hash does not fit)")
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            return dict(archive)

    def verify(self) -> Iterator[tuple[str, str, str]]:
        """Re-read everything; yield (kind, id, what is wrong) and remove what is damaged, so that it is made again."""
        for kind in KINDS:
            for name in sorted(self.ids(kind)):
                try:
                    if "arrays" in self.record(kind, name):
                        self.arrays(kind, name)
                except (StoreError, OSError) as error:
                    self.path(kind, name).unlink(missing_ok=True)
                    self.path(kind, name, ".npz").unlink(missing_ok=True)
                    yield kind, name, str(error)


def publish(path: Path, content: bytes, *, replace: bool = False) -> bool:
    """Write a whole file under its name, or nothing. False if the name was taken (and ``replace`` is not set)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not replace:
        return False
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            os.replace(temporary, path)
            return True
        try:
            os.link(temporary, path)  # fails if the name is taken: the first writer wins
        except FileExistsError:
            return False
        except OSError:  # a file system without hard links: the last writer wins, with the same content
            os.replace(temporary, path)
        return True
    finally:
        temporary.unlink(missing_ok=True)


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise StoreError(f"{path}: is damaged ({error})") from None


def number(value: float | int | str | None) -> float:
    """A stored number back as a float: null is NaN."""
    return math.nan if value is None else float(value)


def _plain(value: Any) -> Any:
    """JSON's own types: dataclass-free, 1.0 as 1, NaN as None."""
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


def _differences(stored: Any, wanted: Any, where: str = "") -> Iterator[str]:
    if isinstance(stored, dict) and isinstance(wanted, dict):
        for key in sorted(stored.keys() | wanted.keys()):
            yield from _differences(stored.get(key), wanted.get(key), f"{where}.{key}" if where else key)
    elif isinstance(stored, list) and isinstance(wanted, list) and len(stored) == len(wanted):
        for place, (old, new) in enumerate(zip(stored, wanted, strict=True)):
            yield from _differences(old, new, f"{where}.{place}")
    elif stored != wanted:
        yield f"{where} is {_short(stored)}, asked for {_short(wanted)}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) < 60 else text[:57] + "…"
