"""Training into one directory, for the command line: run again, it resumes or reports that it is complete."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from jaxdis._core.files import DamagedFile, read_arrays
from jaxdis.models._config import Config
from jaxdis.models._members import members
from jaxdis.models._zoo import Zoo
from jaxdis.models.training._checkpoint import saved_updates
from jaxdis.models.training._train import train


class Finished(NamedTuple):
    """The zoo, and one sentence that says what was done (trained, resumed, or already complete)."""

    zoo: Zoo
    message: str


def train_to_directory(
    config: Config,
    sweep: Mapping[str, Mapping],
    seeds: int | Sequence[int],
    out: str | Path,
    *,
    progress: bool = True,
    **arguments,
) -> Finished:
    """Train every combination of settings and seeds into ``out``: ``run.json``, ``checkpoints/`` and ``zoo.npz``."""
    keys, hyperparameters, labels = members(sweep, seeds, config.method)
    out = Path(out)
    before = saved_updates(out)
    zoo = train(config, keys, hyperparameters, labels=labels, directory=out, progress=progress, **arguments)
    file = out / "zoo.npz"
    whole = before >= config.steps and _is_whole(file)
    if not whole:
        zoo.save(file)
    return Finished(zoo, f"{_what(before, config.steps, whole)}: {len(zoo)} members in {file}{_stopped(zoo)}")


def _is_whole(file: Path) -> bool:
    try:
        read_arrays(file)
    except (DamagedFile, FileNotFoundError):
        return False
    return True


def _what(before: int, steps: int, whole: bool) -> str:
    if before >= steps:
        return f"already complete, {steps} updates" if whole else f"written again from the checkpoint of update {steps}"
    return f"resumed from update {before} to {steps}" if before else f"trained for {steps} updates"


def _stopped(zoo: Zoo) -> str:
    rows = [i for i, step in enumerate(zoo.stopped) if step >= 0]
    if not rows:
        return ""
    return "; stopped by a number that is not finite: " + ", ".join(f"{i} at update {zoo.stopped[i]}" for i in rows)
