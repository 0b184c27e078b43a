"""Ctrl-C, SIGTERM and a closed terminal end a program at once, whatever it is in the middle of.

No KeyboardInterrupt is raised: the main thread may be inside the compiler for a minute, an import that is interrupted
raises another error, and the garbage collector's callback swallows it. A separate thread says the last words, removes
what is unfinished and ends the process without Python's usual end, in which JAX 0.10 destroys its devices while a
program is still being compiled. With JAX alone, this mostly ends in a segmentation fault::

    import os, signal, threading
    import jax, jax.numpy as jnp

    def slow(x):
        for i in range(400):
            x = jnp.sin(x @ x) + jnp.sort(x, axis=i % 2)
        return x

    threading.Timer(2.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()  # while the compiler runs
    jax.jit(slow)(jnp.ones((8, 8)))
"""

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable

STOPPED = "stopped; nothing was written: run the same command again"
# Seconds that the last words may take; neither a full pipe nor a slow disk holds up the end.
LONGEST = 0.7
_NUMBERS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
_CLEAR_LINE_AND_SHOW_CURSOR = "\r\x1b[2K\x1b[?25h"

# Temporary files and folders of this process, which nobody else would remove.
unfinished: set[str] = set()
_last_words: Callable[[], str] = STOPPED.__str__


def say_last(words: Callable[[], str]) -> None:
    """Choose what is said when a signal ends the program.

    Args:
      words: called in another thread, while the main thread may hold any lock: it must import nothing.
    """
    global _last_words
    _last_words = words


def end_at_once() -> None:
    """Let SIGINT, SIGTERM and SIGHUP end the process with code 128 + number; for the main thread of a program.

    A signal that is ignored, as by ``nohup``, stays so. On Windows, all are left to Python.
    """
    if os.name != "posix":
        return
    numbers = [number for number in _NUMBERS if signal.getsignal(number) != signal.SIG_IGN]
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    threading.Thread(target=_wait_and_end, args=(reader, numbers), daemon=True).start()
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in numbers:
        signal.signal(number, _stand_still)


def _stand_still(*_, sleep=time.sleep, seconds=2 * LONGEST) -> None:
    """Let the main thread do nothing while the other one ends the process."""
    sleep(seconds)


def _wait_and_end(reader: int, numbers: list[int]) -> None:
    number = 0
    while number not in numbers:  # others that have a handler are announced as well
        number = os.read(reader, 1)[0]
    last = threading.Thread(target=_say_and_remove, daemon=True)
    last.start()
    last.join(LONGEST)
    os._exit(128 + number)


def _say_and_remove() -> None:
    try:
        words = _last_words()
    except Exception:  # it looks at files, and the end must come
        words = "stopped"
    stream = sys.__stderr__  # a progress bar stands in for sys.stderr
    with contextlib.suppress(AttributeError, OSError, ValueError):  # None, gone or closed
        drawn = stream.isatty() and os.environ.get("TERM") != "dumb"
        line = f"{_CLEAR_LINE_AND_SHOW_CURSOR if drawn else ''}jaxdis: {words}\n"
        # Not through its buffer, whose lock the main thread may hold.
        os.write(stream.fileno(), line.encode(stream.encoding, "replace"))
    while unfinished:
        path = unfinished.pop()
        if os.path.isdir(path):
            import shutil

            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                os.unlink(path)
