"""Members as they are during training: kept after given updates, in files beside the checkpoints."""

from collections.abc import Callable, Sequence
from pathlib import Path

from jaxdis._core.options import Natural, checked_value, listed, shown
from jaxdis.models._zoo import Zoo, load
from jaxdis.models.methods._method import Method


class Kept:
    """One run's zoos after given updates; read from its directory where it is resumed."""

    def __init__(self, directory: str | Path | None, method: Method, keep: Sequence[int], done: int):
        """Read what was kept before ``done`` updates.

        Raises:
          ValueError: if the run went on from there without keeping its members.
        """
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
    """Ascending counts of updates before the last, each where a block ends.

    Raises:
      ValueError: for anything else.
    """
    numbers = listed(keep)
    if numbers is None:
        raise ValueError(f"keep: must be numbers of updates, got {shown(keep)}")
    numbers = sorted({checked_value("keep", Natural, number) for number in numbers} - {steps})
    for number in numbers:
        if number > steps or number % log_every:
            raise ValueError(f"keep: must be multiples of {log_every} (log_every) up to {steps}, got {number}")
    return tuple(numbers)
