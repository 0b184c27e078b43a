"""The command line: ``jaxdis score``, ``jaxdis list``, …; ``jaxdis COMMAND --help`` explains each.

``jaxdis --debug COMMAND …`` shows where in the program an error arose.
"""

import contextlib
import os
import signal
import sys
import threading
import traceback
import warnings

from jaxdis.cli import terminal
from jaxdis.cli.text import plain

EXIT_BAD_INPUT = 2
EXIT_STOPPED = 130
STOPPED = "stopped; nothing was written: run the same command again"
# Errors whose own words are for users; of others, the kind is told as well.
_SPEAKING = (ValueError, OSError, RuntimeError)


def main(arguments: list[str] | None = None) -> int:
    """Run a command; returns 0 on success, and after a message of one line 2 on failure and 130 on Ctrl-C."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in arguments
    try:
        _run([argument for argument in arguments if argument != "--debug"])
    except KeyboardInterrupt as stop:
        _tell(str(stop) or STOPPED)
        return EXIT_STOPPED
    except Exception as error:
        if debug:
            traceback.print_exc()
        _tell(in_one_line(error))
        return EXIT_BAD_INPUT
    return 0


def in_one_line(error: BaseException) -> str:
    """What an error says, for a terminal: on one line, not too long, and without control characters."""
    words = str(error)
    if isinstance(error, MemoryError):
        words = f"memory: needs more than there is ({words or 'an array does not fit'})"
    elif isinstance(error, OSError) and error.strerror:
        words = error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    elif not isinstance(error, _SPEAKING) or not words:
        words = f"{type(error).__name__}: {words}"
    return terminal.one_line(words)


@contextlib.contextmanager
def _interrupts_end_at_once():
    """End at once on Ctrl-C while libraries load: interrupting the import of an extension would raise another error."""

    def end(*_):
        _tell(STOPPED)
        os._exit(EXIT_STOPPED)

    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _run(arguments: list[str]) -> None:
    # The compiler's remarks are not for users; its errors arrive as exceptions.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with _interrupts_end_at_once(), terminal.sign_of_life("loading …"):
        import jax  # noqa: F401
        import tyro

        from jaxdis.cli.benchmark import Benchmark
        from jaxdis.cli.encode import Encode
        from jaxdis.cli.listing import Data, List
        from jaxdis.cli.reproduce import Reproduce
        from jaxdis.cli.score import Score
        from jaxdis.cli.show import Show
        from jaxdis.cli.study import Quickstart, Study
        from jaxdis.cli.train import Train

    commands = {
        "quickstart": Quickstart,
        "score": Score,
        "show": Show,
        "train": Train,
        "encode": Encode,
        "study": Study,
        "reproduce": Reproduce,
        "benchmark": Benchmark,
        "data": Data,
        "list": List,
    }
    terminal.print_anything()
    command = tyro.extras.subcommand_cli_from_dict(commands, args=arguments, prog="jaxdis", description=plain(__doc__))
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        # An import that is interrupted leaves its file open, and a user can do nothing about it.
        warnings.simplefilter("ignore", ResourceWarning)
        warnings.showwarning = lambda message, *_: terminal.warn(message)
        try:
            command.run()
        except KeyboardInterrupt:
            raise KeyboardInterrupt(getattr(command, "kept", "")) from None
        finally:
            _print_what_waits()


def _print_what_waits() -> None:
    """Flush the output; if it cannot be written, say so, whatever else failed."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except OSError as error:
        with contextlib.suppress(OSError, ValueError):  # else Python tries once more on leaving, and complains
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise terminal.unwritable(error) from None


def _tell(line: str) -> None:
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            sys.stderr.write(f"jaxdis: {line}\n")
            sys.stderr.flush()
