"""What all commands share: the start of a program, the console, progress bars, and checks of what is written."""

import contextlib
import functools
import gc
import importlib.util
import math
import os
import re
import textwrap
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from jaxdis._core.display import bar as bar_on
from jaxdis._core.display import tell_now_and_then, without_controls
from jaxdis._core.interrupts import STOPPED

# What stays as it is: examples and tables.
_VERBATIM = re.compile(r"^\s*(>>>|====|\|)")
_BULLET = re.compile(r"^\s*- ")
# An entry under "Options:", "Args:" or "Raises:".
_ENTRY = re.compile(r"^  (?! )[\w`*, ]+: ")


def number(value: float, digits: str) -> str:
    """A number in a table, in a format such as ``.2f``; a dash for NaN."""
    return "–" if math.isnan(value) else format(value, digits)


def plain(docstring: str) -> str:
    """A docstring without the markup of its roles and literals."""
    text = re.sub(r":\w+:`~?(?:[\w.]+\.)?(\w+)`", r"\1", docstring)
    return text.replace("``", "")


def wrapped(text: str, width: int) -> str:
    """Paragraphs, bullets and entries wrapped to a width, with hanging indents."""
    return "\n\n".join("\n".join(_block(block.split("\n"), width)) for block in re.split(r"\n\s*\n", text))


def entry(name: str, title: str, column: int, width: int) -> str:
    """``name`` and, from ``column`` on, its title; below the name if that is too long."""
    if len(name) >= column:
        return f"{name}\n" + textwrap.fill(title, width, initial_indent=" " * column, subsequent_indent=" " * column)
    return textwrap.fill(title, width, initial_indent=name.ljust(column), subsequent_indent=" " * column)


def _block(lines: list[str], width: int) -> list[str]:
    if any(_VERBATIM.match(line) for line in lines):
        return lines
    is_list = lines[0].endswith(":") and len(lines) > 1 and lines[1].startswith("  ")
    items: list[list[str]] = []
    for position, line in enumerate(lines):
        starts = not items or _BULLET.match(line) or (is_list and (position == 1 or _ENTRY.match(line)))
        items.append([line]) if starts else items[-1].append(line.strip())
    wrapped_lines = []
    for first, *rest in items:
        indent = len(first) - len(first.lstrip())
        hang = indent + 2 if _BULLET.match(first) or (is_list and indent) else indent
        how = {"initial_indent": " " * indent, "subsequent_indent": " " * hang, "break_on_hyphens": False}
        wrapped_lines += textwrap.wrap(" ".join([first.strip(), *rest]), width, **how)
    return wrapped_lines


# Longer names stand on a line of their own.
LONGEST_NAME = 30
# Tables of numbers are empty below this width; a narrower terminal wraps them.
NARROWEST = 40
# Letters of a message.
LONGEST = 1000
_OF_THE_CACHE = re.compile(r"Error (?:reading|writing) persistent compilation cache entry for '.*?': (.*)")


def start(cache: Path | None) -> None:
    """Use all cores as devices and keep compiled programs; call it before JAX makes its first array."""
    from jaxdis._core import runtime

    runtime.use_cpu_devices()
    runtime.use_compilation_cache(cache)
    # Tracing makes millions of objects, hardly any of which is garbage: looking for it takes a seventh of the time.
    gc.freeze()
    gc.set_threshold(20_000)


def console(*, error: bool = False):
    """The one door to a terminal: what it prints holds no markup, and no control characters but its own."""
    from rich.console import Console

    class Strict(Console):
        def render(self, renderable, options=None):
            for segment in super().render(renderable, options):
                yield segment if segment.control else segment._replace(text=without_controls(segment.text))

        def print(self, *what, **how):
            try:
                super().print(*what, **how)
            except OSError as error:
                raise unwritable(error, "standard error" if self.stderr else "standard output") from None

        def on_broken_pipe(self):
            raise  # rich would end the program here, with a code of its own

    rich_console = Strict(stderr=error, highlight=False, markup=False, emoji=False)
    if rich_console.width < NARROWEST:
        rich_console.width = NARROWEST
    return rich_console


def write(text: str, *, wrap: bool = True) -> None:
    target = console()
    target.print(wrapped(text, target.width) if wrap else text, soft_wrap=True)


def write_sentence(text: str) -> None:
    """Print a sentence in which names from files may stand: as one paragraph, whatever they hold."""
    write(" ".join(text.split()))


def write_line(text: str, *, error: bool = False) -> None:
    """Print a line as it is, however long: a path can be copied from it."""
    console(error=error).print(" ".join(text.splitlines()), soft_wrap=True)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, numbers=False, no_wrap=False, **how):
    """Texts under their heads; ``numbers`` after the first column are aligned to the right."""
    from rich.table import Table
    from rich.text import Text

    made = Table(**how)
    for place, head in enumerate(heads):
        made.add_column(Text(head), justify="right" if place and numbers else "left", no_wrap=no_wrap)
    for row in rows:
        made.add_row(*map(Text, row))
    return made


def print_table(heads: Sequence[str], rows: Iterable[Sequence[str]], **how) -> None:
    console().print(table(heads, rows, **how))


class ReaderGone(Exception):
    """Whoever read standard output has closed it, as ``head`` does; nobody is to be told."""


def unwritable(error: OSError, stream: str = "standard output") -> Exception:
    if isinstance(error, BrokenPipeError) and stream == "standard output":
        return ReaderGone()
    return ValueError(f"{stream}: cannot be written ({error.strerror}); files are written")


def warn(message) -> None:
    line = one_line(str(message))
    if fault := _OF_THE_CACHE.search(line):
        _warn_of_the_cache(fault[1])
    else:
        console(error=True).print(f"warning: {line}", style="yellow")


@functools.cache
def _warn_of_the_cache(fault: str) -> None:
    """Say once what is wrong with the folder of compiled programs; JAX says it of every program."""
    line = f"compiled programs are not kept ({fault}); make room, or choose another folder by JAXDIS_CACHE or --cache"
    console(error=True).print(f"warning: {line}", style="yellow")


@contextlib.contextmanager
def naming(name: str, said: set[str]):
    """Begin warnings with a name, and give each once, though metrics are computed in several calls."""

    def show(message, *_):
        line = f"{name}: {message}"
        if line not in said:
            said.add(line)
            warn(line)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def one_line(text: str) -> str:
    """A text on one line, not too long, and without control characters."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"


def first_sign(what: str) -> None:
    """Show a line on a terminal before the first program is compiled, which may take a while."""
    shown = console(error=True)
    if shown.is_terminal:
        shown.print(f"{what}: compiling … (longest in the first run)", style="dim")


def bar(what: str, of: str):
    """A progress bar on a terminal, elsewhere lines; yields the callback ``(done, total)`` that moves it."""
    return bar_on(what, of, console(error=True))


@contextlib.contextmanager
def latest_scores(stages: Sequence[Sequence[str]], in_brief: Callable):
    """On a terminal, a bar over metrics beside the latest score and what is computed now; elsewhere lines.

    Yields the callback ``arrived`` of :func:`jaxdis.evaluate`, and a function that makes a callback ``(done, total)``
    for something else that is counted. ``stages`` are names of metrics that are computed together, in order;
    ``in_brief(scores, column)`` is the text of a column of scores.
    """
    known, told, count = set(), 0, sum(map(len, stages))
    with bar("scoring", "metrics") as show:

        def tell(words: str) -> None:
            nonlocal told
            told = len(known) if show(len(known), count, words) else told

        def arrived(scores):
            known.update(column.metric for column in scores)
            latest = next(iter(scores))
            now = [f"now {stage[0]}" for stage in stages if not known.issuperset(stage)]
            tell(one_line("; ".join([f"{latest} {in_brief(scores, latest)}", *now[:1]])))

        def counted(what):
            return lambda done, total: tell(f"{what}: {done:,} of {total:,}") if done < total else None

        yield arrived, counted
    if 0 < told < len(known):  # what was begun in a log is told to its end
        tell_now_and_then(f"scoring: {len(known)} of {count} metrics", now=True)


# What a command is asked to write: checks before anything is computed, and what is there when it is stopped.


def check_not_input(option: str, out: Path, inputs: Iterable[Path | None]) -> None:
    """Refuse to overwrite a file that the command reads, or the zoo and the settings of a run whose zoo it reads."""
    from jaxdis._core.files import ZOO_FILE

    for given in inputs:
        if given is None:
            continue
        folder = given if given.is_dir() else given.parent if given.name == ZOO_FILE else None
        files = [given] if folder is None else [given, folder / ZOO_FILE, folder / "run.json"]
        if any(out.resolve() == file.resolve() for file in files):
            raise ValueError(f"{option}: must be another file than the input, got {out}")


def check_outputs(outputs: Mapping[str, Path | None], inputs: Iterable[Path | None]) -> None:
    """Check that files to write, by their options, are no inputs, and make room for them."""
    inputs = list(inputs)
    for option, path in outputs.items():
        if path is not None:
            check_not_input(option, path, inputs)
        make_room(option, path)


def check_pictures() -> None:
    if importlib.util.find_spec("matplotlib") is None:
        raise RuntimeError('pictures: need matplotlib; install it by pip install "jaxdis[plots]"')


def write_figure(path: Path, figure) -> None:
    """Write a figure as its name ends: .svg and .pdf are vectors, anything else is PNG."""
    from jaxdis._core.files import write_whole

    kind = path.suffix[1:].lower()
    kind = kind if kind in ("svg", "pdf") else "png"
    write_whole(path.resolve(), lambda file: figure.savefig(file, format=kind))


def make_room(option: str, out: Path | None) -> None:
    """Make the folder of a file, and check that the file can be written there."""
    if out is None:
        return
    if out.is_dir():
        raise ValueError(f"{option}: must be a file, got the folder {out}")
    folder = out.resolve().parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"{option}: cannot be written, since {folder} cannot be made ({error.strerror})") from None
    special = out.exists() and not out.is_file()  # a pipe, or the terminal
    if not os.access(out if special else folder, os.W_OK):
        raise ValueError(f"{option}: cannot be written in {folder}")


def kept(command, began: float) -> str:
    """The message of a command that is stopped: its own, or else which files it has written since it began.

    Messages are made while the process ends, so they look at names of files and import nothing.
    """
    if (place := getattr(command, "cells", None)) is not None:
        return kept_cells(command.out, place)
    if words := getattr(command, "kept", ""):
        return words
    outputs = (getattr(command, option, None) for option in ("csv", "json", "out", "plot"))
    written = [str(path) for path in outputs if path is not None and path.is_file() and path.stat().st_mtime >= began]
    return f"stopped; what was computed until then is in {' and '.join(written)}" if written else STOPPED


def kept_cells(out: Path, place: str = "") -> str:
    """The message of a study that is stopped, or of several in the folders that a pattern matches."""
    if any(any(out.glob(f"{place}{kind}/??/*.json")) for kind in ("train", "encode", "score")):
        return f"stopped; {out} keeps all finished cells: run the same command again to go on"
    return "stopped; no cell was finished: run the same command again"
