"""The command line: ``jaxdis score``, ``jaxdis list``, …; ``jaxdis COMMAND --help`` explains each.

``jaxdis --debug COMMAND …`` shows where in the program an error arose; ``jaxdis --version`` prints the version.
"""

import contextlib
import functools
import importlib
import io
import os
import re
import shutil
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import NamedTuple

from jaxdis._core import interrupts
from jaxdis._core.display import without_controls
from jaxdis._core.version import __version__
from jaxdis.cli import _terminal as terminal

EXIT_BAD_INPUT = 2
EXIT_STOPPED = 130
EXIT_UNREAD = 141  # as a program that SIGPIPE ends
# Errors whose own words are for users; of others, the kind is told as well.
_SPEAKING = (ValueError, OSError, RuntimeError)
# Which extra brings a library.
_EXTRAS = {"matplotlib": "plots", "distributed": "cluster", "safetensors": "files", "anndata": "omics", "zarr": "omics"}
_EXTRAS |= dict.fromkeys(("PIL", "h5py", "tensorflow_datasets"), "data")
_USAGE = "usage: jaxdis [-h] [--version] [--debug] COMMAND …"
_EXAMPLE = """Example, with arrays `codes` and `factors` in a file:

  jaxdis score codes.npz --metrics mig sap"""
_MORE = """`jaxdis COMMAND --help` explains a command.

`jaxdis --debug COMMAND …` shows where in the program an error arose; `jaxdis --version` prints the version."""


class Command(NamedTuple):
    module: str
    name: str

    def load(self) -> type:
        return getattr(importlib.import_module(f"jaxdis.cli.{self.module}"), self.name)

    @property
    def summary(self) -> str:
        """The first sentence of its docstring, read from its file: to import it takes as long as all else."""
        source = Path(__file__).with_name(f"{self.module}.py").read_text(encoding="utf-8")
        first = re.search(rf'^class {self.name}:\n    """(.*?)(?:"""|\n\n)', source, re.MULTILINE | re.DOTALL)
        return " ".join(first[1].split())


COMMANDS = {
    "quickstart": Command("_study_commands", "Quickstart"),
    "score": Command("_score_command", "Score"),
    "show": Command("_codes_commands", "Show"),
    "compare": Command("_codes_commands", "Compare"),
    "report": Command("_codes_commands", "Report"),
    "sensitivity": Command("_codes_commands", "Sensitivity"),
    "train": Command("_zoo_commands", "Train"),
    "encode": Command("_zoo_commands", "Encode"),
    "study": Command("_study_commands", "Study"),
    "reproduce": Command("_study_commands", "Reproduce"),
    "benchmark": Command("_benchmark_command", "Benchmark"),
    "data": Command("_listing", "Data"),
    "list": Command("_listing", "List"),
}


def main(arguments: list[str] | None = None) -> int:
    """Run a command.

    Returns:
      0 on success; after a one-line message, 2 on failure and 130 on Ctrl-C; 141 if nobody reads the output.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in arguments
    try:
        if arguments[:1] == ["--version"]:
            terminal.write(f"jaxdis {__version__}")
        else:
            _run([argument for argument in arguments if argument != "--debug"])
    except terminal.ReaderGone:
        return EXIT_UNREAD
    except KeyboardInterrupt as stop:
        _tell(str(stop) or interrupts.STOPPED)
        return EXIT_STOPPED
    except Exception as error:
        if debug and sys.stderr is not None:
            sys.stderr.write(without_controls(traceback.format_exc()))
        _tell(in_one_line(error))
        return EXIT_BAD_INPUT
    return 0


def in_one_line(error: BaseException) -> str:
    """What an error says, for a terminal: on one line, not too long, and without control characters."""
    words = str(error)
    if isinstance(error, ModuleNotFoundError) and error.name in _EXTRAS:
        words = f'{error.name}: is not installed; install it by pip install "jaxdis[{_EXTRAS[error.name]}]"'
    elif isinstance(error, MemoryError):
        words = f"memory: needs more than there is ({words or 'an array does not fit'})"
    elif isinstance(error, OSError) and error.strerror:
        words = error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    elif not isinstance(error, _SPEAKING) or not words:
        words = f"{type(error).__name__}: {words}"
    return terminal.one_line(words)


def _run(arguments: list[str]) -> None:
    # The compiler's remarks are not for users; its errors arrive as exceptions.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if arguments[:2] == ["study", "sensitivity"]:  # where some look for it
        arguments = arguments[1:]
    for stream in (sys.stdout, sys.stderr):  # letters that the terminal's encoding lacks become question marks
        with contextlib.suppress(AttributeError, OSError, ValueError):
            stream.reconfigure(errors="replace")
    began = time.time()
    try:
        if not arguments or arguments[0] in ("-h", "--help"):
            width, column = shutil.get_terminal_size().columns, max(map(len, COMMANDS)) + 4
            rows = (terminal.entry(f"  {name}", command.summary, column, width) for name, command in COMMANDS.items())
            parts = _EXAMPLE, _USAGE, "Commands:", "\n".join(rows), terminal.wrapped(_MORE, width)
            print("\n\n".join(parts))  # noqa: T201, since loading rich takes as long as all else
            raise SystemExit(0 if arguments else EXIT_BAD_INPUT)
        command = _parsed(arguments)
    except SystemExit:  # after its help
        _print_what_waits()
        raise
    except BrokenPipeError as error:
        raise _unwritable(error) from None
    interrupts.say_last(lambda: terminal.one_line(terminal.kept(command, began)))
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        # An import that is interrupted leaves its file open, and a user can do nothing about it.
        warnings.simplefilter("ignore", ResourceWarning)
        warnings.showwarning = lambda message, *_: terminal.warn(message)
        try:
            command.run()
        except KeyboardInterrupt:
            raise KeyboardInterrupt(terminal.one_line(terminal.kept(command, began))) from None
        finally:
            _print_what_waits()


def _parsed(arguments: list[str]):
    """The command with its options; only its own module is loaded, unless a shell's completions are asked for."""
    name, *options = arguments
    completions = any(argument.startswith("--tyro-") for argument in arguments)
    if name not in COMMANDS and not completions:
        from jaxdis._core.options import look_up

        look_up(name, COMMANDS, "command")
    import tyro

    from jaxdis.cli import _options as help

    with help.paragraphs_wrapped():
        if completions:
            commands = {name: help.with_plain_help(command.load()) for name, command in COMMANDS.items()}
            return tyro.extras.subcommand_cli_from_dict(commands, args=arguments, prog="jaxdis")
        parse = functools.partial(tyro.cli, help.with_plain_help(COMMANDS[name].load()), prog=f"jaxdis {name}")
        clean = [without_controls(option) for option in options]
        if clean != options:  # what is refused is repeated on the terminal
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                try:
                    return parse(args=options)
                except SystemExit:
                    options = clean
        return parse(args=options)


def _print_what_waits() -> None:
    """Flush the output; if it cannot be written, say so, whatever else failed."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except OSError as error:
        raise _unwritable(error) from None


def _unwritable(error: OSError) -> Exception:
    """The error to raise for an output that cannot be written; Python does not try once more when it ends."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return terminal.unwritable(error)


def _tell(line: str) -> None:
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            sys.stderr.write(f"jaxdis: {line}\n")
            sys.stderr.flush()


__all__ = ["main"]
