"""Progress of what takes longer: a bar, lines in a log, or a user's own function."""

import contextlib
from collections.abc import Callable, Iterator

from jaxdis._core.bars import bar
from jaxdis._core.options import checked_value

# What the argument ``progress`` of functions may be: True for a bar, or a function of what is done and of all.
Progress = Callable[[int, int], None] | bool | None


@contextlib.contextmanager
def reported(progress: Progress, what: str, of: str) -> Iterator[Callable]:
    """Yield a function ``(done, total, words="")`` that tells the user's function, moves a bar, or does nothing.

    Args:
      progress: the user's argument.
      what, of: what is done, and with what: ``"encoding"``, ``"images"``.
    """
    checked_value("progress", Progress, progress)
    if progress is True:
        with bar(what, of) as show:
            yield show
    else:
        yield lambda done, total, words="": progress(done, total) if progress else None
