"""A progress bar with losses."""

import numpy as np
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from jaxdis._core.progress import tell_now_and_then


class Progress:
    """A context that draws a bar of updates with the members' median losses; silent unless ``shown``."""

    def __init__(self, steps: int, done: int = 0, *, shown: bool):
        columns = (TextColumn("training"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._bar = Bar(*columns, TextColumn("{task.fields[losses]}"), disable=not shown)
        self._told = shown and not self._bar.console.is_terminal
        self._steps = steps
        self._task = self._bar.add_task("training", total=steps, completed=done, losses="")

    def __enter__(self) -> "Progress":
        self._bar.start()
        return self

    def __exit__(self, *exception) -> None:
        self._bar.stop()

    def show(self, done: int, losses) -> None:
        """Update the bar after a block; ``losses`` has fields ``[m]``."""
        self._bar.update(self._task, completed=done, losses=summary(losses))
        if self._told:
            tell_now_and_then(f"training: {done:,} of {self._steps:,} updates; {summary(losses)}")


def summary(losses) -> str:
    """``loss 61.2, reconstruction 40.1``: medians over finite members, and how many have stopped."""
    finite = np.isfinite(np.stack(losses)).all(0)
    if not finite.any():
        return "no member has a finite loss"
    medians = {name: np.median(field[finite]) for name, field in losses._asdict().items() if np.any(field[finite])}
    stopped = [f"{(~finite).sum()} stopped"] if (~finite).any() else []
    return ", ".join([f"{name} {median:.4g}" for name, median in medians.items()] + stopped)
