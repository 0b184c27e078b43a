"""Tables as HTML for notebooks, and bars and lines in a log that tell how far something is; texts are escaped."""

import contextlib
import html
import numbers
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

# Rows of a table in a notebook.
MOST_ROWS = 30


def html_table(title: str, head: Sequence[str], rows: Iterable[Sequence], notes: Iterable[str] = ()) -> str:
    """A title, a table, and notes in a list below it; at most ``MOST_ROWS`` rows, and how many more there are."""
    rows = list(rows)
    if len(rows) > MOST_ROWS:
        notes = [f"{len(rows) - MOST_ROWS:,} more rows are not shown.", *notes]
    words = [any(isinstance(row[place], str) for row in rows) for place in range(len(head))]
    cells = "".join(_row("td", row, words) for row in rows[:MOST_ROWS])
    below = "".join(f"<li>{html.escape(note)}</li>" for note in notes)
    return (
        f'<div style="overflow-x:auto"><p>{html.escape(title)}</p><table><thead>{_row("th", head, words)}</thead>'
        f"<tbody>{cells}</tbody></table>{below and f'<ul>{below}</ul>'}</div>"
    )


def _row(tag: str, cells: Sequence, words: Sequence[bool]) -> str:
    sides = ["left" if left else "right" for left in words]
    texts = [html.escape(cell_text(cell)) for cell in cells]
    marked = [
        f'<{tag} style="text-align:{side};padding:.1em .5em">{text}</{tag}>'
        for side, text in zip(sides, texts, strict=True)
    ]
    return f"<tr>{''.join(marked)}</tr>"


def cell_text(cell) -> str:
    """Three digits of a real number, nothing for NaN and None, and anything else as it prints."""
    if cell is None or cell != cell:
        return ""
    real = isinstance(cell, numbers.Real) and not isinstance(cell, numbers.Integral)
    return f"{float(cell):.3f}" if real else str(cell)


def duration(seconds: float) -> str:
    """About how long, in one unit."""
    for unit, length in (("days", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.0f} {unit}"
    return f"{seconds:.0f} s"


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
        from IPython.display import HTML, display

        shown = display(HTML(""), display_id=True)

        def show(done: int, total: int, words: str = ""):
            line = html.escape(_line(what, of, done, total, words))
            shown.update(HTML(f'<progress value="{done}" max="{total}"></progress> {line}'))

        yield show
    elif not console.is_terminal:
        yield lambda done, total, words="": tell_now_and_then(_line(what, of, done, total, words))
    else:
        columns = TextColumn(what), BarColumn(), MofNCompleteColumn(), TextColumn(of), TimeRemainingColumn()
        with Bar(*columns, TextColumn("{task.fields[words]}", markup=False), console=console, transient=True) as drawn:
            task = drawn.add_task(what, total=None, words="")
            yield lambda done, total, words="": drawn.update(task, completed=done, total=total, words=words)


def _line(what: str, of: str, done: int, total: int, words: str) -> str:
    return f"{what}: {done:,} of {total:,} {of}{words and '; ' + words}"


# What the argument ``progress`` of functions may be: True for a bar, or a function of what is done and of all.
Progress = Callable[[int, int], None] | bool | None


@contextlib.contextmanager
def reported(progress: Progress, what: str, of: str) -> Iterator[Callable]:
    """Yield a function ``(done, total, words="")`` that tells the user's function, moves a bar, or does nothing."""
    from jaxdis._core.options import checked_value  # which loads JAX; `jaxdis --help` does without

    checked_value("progress", Progress, progress)
    if progress is True:
        with bar(what, of) as show:
            yield show
    else:
        yield lambda done, total, words="": progress(done, total) if progress else None
