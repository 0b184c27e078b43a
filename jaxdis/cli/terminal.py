"""What all commands share: the start of a program, the console, the progress bar."""

import contextlib
import os
import sys
from pathlib import Path


def start(cache: Path | None) -> None:
    """All cores as devices and compiled programs kept, before JAX makes its first array."""
    from jaxdis import runtime

    runtime.use_cpu_devices()
    runtime.use_compilation_cache(cache)


def console(*, error: bool = False):
    from rich.console import Console

    return Console(stderr=error, highlight=False)


def show(what, **options) -> None:
    """Print for the user; letters that the terminal's encoding lacks become question marks.

    Raises:
      ValueError: if nothing can be printed (a full device, a closed pipe), in one line.
    """
    screen = console()
    with contextlib.suppress(AttributeError, ValueError):  # a stream without an encoding
        sys.stdout.reconfigure(errors="replace")
    try:
        with screen.capture() as printed:
            screen.print(what, **options)
        sys.stdout.write(printed.get())
        sys.stdout.flush()
    except OSError as error:
        # The interpreter flushes once more when it ends: give it a device that takes everything.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise ValueError(f"standard output: cannot be written ({error.strerror}); all files are written") from None


def warn(message) -> None:
    console(error=True).print(f"warning: {message}", style="yellow", markup=False)


class members_bar:
    """A progress bar over members, as the ``progress`` callback of :func:`jaxdis.evaluate`."""

    def __enter__(self):
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = TextColumn("scoring"), BarColumn(), MofNCompleteColumn(), TextColumn("members"), TimeRemainingColumn()
        self._bar = Progress(*columns, console=console(error=True), transient=True)
        self._bar.start()
        self._task = self._bar.add_task("scoring", total=None)
        return lambda done, total: self._bar.update(self._task, completed=done, total=total)

    def __exit__(self, *_):
        self._bar.stop()
