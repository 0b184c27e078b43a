"""A run's checkpoints: all members' full state at regular intervals, of which the last two are kept.

Beside them are members as they were after updates that the user chose.
"""

import contextlib
import json
import os
import re
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from jaxdis._core import files
from jaxdis._core.options import Natural, checked_value, listed, shown
from jaxdis.models._zoo import Zoo, load
from jaxdis.models.methods._method import Method
from jaxdis.models.training._runner import State

_KEPT = 2
# Differences named in the refusal of another run's directory.
_MOST_SHOWN = 5
# What differs where a fingerprint does, whose digits say nothing.
_FINGERPRINTS = {"data": "other images", "numbers": "other seeds or settings of members"}
_NAME = re.compile(r"step_[0-9]{9,18}\.npz")


class OtherRunError(ValueError):
    """A directory that holds a run with another identity."""


class Checkpoints:
    """One run's checkpoints in one directory; if ``directory`` is None, nothing is kept."""

    def __init__(self, directory: Path | None, identity: dict):
        self._directory = directory
        self._identity = identity

    @classmethod
    def of(cls, directory: str | Path | None, identity: dict) -> "Checkpoints":
        """Open or create a run directory, whose ``run.json`` records its identity."""
        if directory is None:
            return cls(None, identity)
        directory = Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        for folder in (directory, directory / "checkpoints"):
            files.remove_leftovers(folder)
        record = directory / "run.json"
        if (directory / "study.json").exists():
            raise ValueError(f"directory: must be a directory of its own, got {directory}, which holds a study")
        if not record.exists():
            files.write_json(record, identity)
        try:
            stored = files.read_json(record)
        except FileNotFoundError:  # another process has removed the folder meanwhile
            return cls(directory, identity)
        except files.DamagedFile as error:
            raise ValueError(
                f"directory: {record} needs the JSON of a run ({error}); remove it to start over"
            ) from None
        identity = json.loads(json.dumps(identity))
        if stored != identity:
            pairs = files.differences(stored, identity)
            faults = [_FINGERPRINTS.get(place, f"{place} {difference}") for place, difference in pairs]
            more = f", and {len(faults) - _MOST_SHOWN} more" if len(faults) > _MOST_SHOWN else ""
            words = "; ".join(faults[:_MOST_SHOWN]) + more
            raise OtherRunError(f"directory: {directory} holds another run ({words}); choose another directory")
        return cls(directory, identity)

    def save(self, state: State, losses: list, done: int) -> None:
        """Write a state with leaves ``[m, …]`` and each block's losses ``[m]``, and remove all but the last two
        checkpoints."""
        if self._directory is None:
            return
        fields = zip(losses[0]._fields, zip(*losses, strict=True), strict=True)
        curves = {f"losses/{name}": np.stack(field) for name, field in fields}
        arrays = {f"state/{name}": leaf for name, leaf in files.named_leaves(state).items()} | curves
        files.write_arrays(self._path(done), {"identity": self._identity, "done": done}, arrays)
        for path in _paths(self._directory)[_KEPT:]:
            path.unlink(missing_ok=True)

    def last(self, shapes: State, kind: type) -> tuple[State, list, int] | None:
        """What :meth:`save` wrote last; damaged checkpoints and other runs' are skipped with a warning."""
        for path in _paths(self._directory):
            try:
                return self._read(path, shapes, kind)
            except files.DamagedFile as error:
                warnings.warn(f"checkpoint skipped: {error}", stacklevel=3)
            except FileNotFoundError:  # another process has removed it meanwhile
                continue
        return None

    def _read(self, path: Path, shapes: State, kind: type):
        header, arrays = files.read_arrays(path)
        if header.get("identity") != json.loads(json.dumps(self._identity)):
            raise files.DamagedFile(f"{path}: belongs to another run")
        done = header.get("done")
        if done != _updates(path) or type(done) is not int:
            raise files.DamagedFile(f"{path}: must have the number of updates in its name, got {done!r}")
        state = {name.removeprefix("state/"): a for name, a in arrays.items() if name.startswith("state/")}
        members, blocks = self._identity["members"], -(-done // self._identity["log_every"])
        curves = [arrays.get(f"losses/{name}") for name in kind._fields]
        if any(curve is None or curve.shape != (blocks, members) for curve in curves):
            raise files.DamagedFile(f"{path}: must have losses of shape {(blocks, members)}")
        losses = [kind(*block) for block in zip(*curves, strict=True)]
        return files.with_leaves(shapes, state, str(path)), losses, done

    def _path(self, done: int) -> Path:
        return self._directory / "checkpoints" / f"step_{done:09d}.npz"


def saved_updates(directory: str | Path) -> int:
    """Updates done according to the newest undamaged checkpoint; 0 without any."""
    for path in _paths(Path(directory)):
        with contextlib.suppress(files.DamagedFile, FileNotFoundError):
            if files.read_arrays(path)[0].get("done") == _updates(path):
                return _updates(path)
    return 0


def _paths(directory: Path | None) -> list[Path]:
    """Checkpoints, newest first."""
    if directory is None:
        return []
    try:
        names = os.listdir(directory / "checkpoints")
    except (FileNotFoundError, NotADirectoryError):
        return []
    paths = [directory / "checkpoints" / name for name in names if _NAME.fullmatch(name)]
    return sorted(paths, key=_updates, reverse=True)


def _updates(path: Path) -> int:
    return int(path.stem.removeprefix("step_"))


class Kept:
    """One run's zoos after given updates; read from its directory where it is resumed."""

    def __init__(self, directory: str | Path | None, method: Method, keep: Sequence[int], done: int):
        """Read what was kept before ``done`` updates."""
        self._directory = None if directory is None else Path(directory)
        self._keep = [number for number in keep if number >= done]
        self.zoos = [load(self._found(number), method) for number in keep if number < done]

    def add(self, done: int, zoo_now: Callable[[dict], Zoo]) -> None:
        """Keep the zoo if it shall be kept after this many updates."""
        if done not in self._keep:
            return
        self.zoos.append(zoo_now({"updates": done}))
        if self._directory is not None:
            self.zoos[-1].save(self._path(done))

    def _path(self, done: int) -> Path:
        return self._directory / f"kept_{done:09}.npz"

    def _found(self, done: int) -> Path:
        path = self._path(done)
        if not path.exists():
            raise ValueError(f"keep: must be given from the start, got {done}, which {self._directory} has passed")
        return path


def checked_keep(keep, steps: int, log_every: int) -> tuple[int, ...]:
    """Ascending counts of updates before the last, each where a block ends."""
    numbers = listed(keep)
    if numbers is None:
        raise ValueError(f"keep: must be numbers of updates, got {shown(keep)}")
    numbers = sorted({checked_value("keep", Natural, number) for number in numbers} - {steps})
    for number in numbers:
        if number > steps or number % log_every:
            raise ValueError(f"keep: must be multiples of {log_every} (log_every) up to {steps}, got {number}")
    return tuple(numbers)
