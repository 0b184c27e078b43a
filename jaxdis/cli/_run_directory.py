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
    out, steps = Path(out), config.steps
    before, file = saved_updates(out), out / "zoo.npz"
    zoo = train(config, keys, hyperparameters, labels=labels, directory=out, progress=progress, **arguments)
    done = f"resumed from update {before} to {steps}" if before else f"trained for {steps} updates"
    if before >= steps:
        try:
            read_arrays(file)
            done = f"already complete, {steps} updates"
        except (DamagedFile, FileNotFoundError):
            done = f"written again from the checkpoint of update {steps}"
    if not done.startswith("already"):
        zoo.save(file)
    stopped = ", ".join(f"{row} at update {step}" for row, step in enumerate(zoo.stopped) if step >= 0)
    remark = f"; stopped by a number that is not finite: {stopped}" if stopped else ""
    return Finished(zoo, f"{done}: {len(zoo)} members in {file}{remark}")
