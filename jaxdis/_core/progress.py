"""Progress where no terminal shows a bar: a line now and then, as in the log of a job."""

import contextlib
import sys
import time

# Seconds between lines, and before the first.
EVERY = 30.0
_told = time.monotonic()


def tell_now_and_then(words: str) -> None:
    """Write a line to standard error, unless there was one not long ago."""
    global _told
    if sys.stderr is None or time.monotonic() - _told < EVERY:
        return
    _told = time.monotonic()
    with contextlib.suppress(OSError):
        sys.stderr.write(f"{words}\n")
        sys.stderr.flush()
