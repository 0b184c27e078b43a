"""Bars on a terminal or in a notebook, and lines in a log, that tell how far something is."""

import contextlib
import html
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

# Seconds between lines, and before the first.
EVERY = 30.0
_told = time.monotonic()
# What moves a terminal's cursor, colors it or turns the direction of writing, but for tabs and ends of lines.
_CONTROLS = dict.fromkeys([*range(9), *range(11, 32), *range(127, 160), 0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F)])
_CONTROLS |= dict.fromkeys(range(0x2066, 0x206A))


def without_controls(text: str) -> str:
    """A text without the control characters that a terminal obeys; lines and tabs stay."""
    return text.translate(_CONTROLS)


def tell_now_and_then(words: str, *, now: bool = False) -> bool:
    """Write a line to standard error, unless there was one not long ago; returns whether it was written."""
    global _told
    if sys.stderr is None or (time.monotonic() - _told < EVERY and not now):
        return False
    _told = time.monotonic()
    with contextlib.suppress(OSError):
        sys.stderr.write(f"{without_controls(words)}\n")
        sys.stderr.flush()
    return True


@contextlib.contextmanager
def bar(what: str, of: str, console: Any = None) -> Iterator[Callable]:
    """Draw a bar on standard error or in a notebook; elsewhere, write lines; yields ``(done, total, words="")``."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True) if console is None else console
    if console.is_jupyter:  # rich would need ipywidgets, and warn of their absence
        yield _in_notebook(what, of)
    elif not console.is_terminal:
        yield lambda done, total, words="": tell_now_and_then(_line(what, of, done, total, words))
    else:
        columns = TextColumn(what), BarColumn(), MofNCompleteColumn(), TextColumn(of), TimeRemainingColumn()
        with Bar(*columns, TextColumn("{task.fields[words]}", markup=False), console=console, transient=True) as drawn:
            task = drawn.add_task(what, total=None, words="")
            yield lambda done, total, words="": drawn.update(task, completed=done, total=total, words=words)


def _in_notebook(what: str, of: str) -> Callable:
    from IPython.display import HTML, display

    shown = display(HTML(""), display_id=True)

    def show(done: int, total: int, words: str = ""):
        line = html.escape(_line(what, of, done, total, words))
        shown.update(HTML(f'<progress value="{done}" max="{total}"></progress> {line}'))

    return show


def _line(what: str, of: str, done: int, total: int, words: str) -> str:
    return f"{what}: {done:,} of {total:,} {of}{words and '; ' + words}"
