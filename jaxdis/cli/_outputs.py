"""What a command is asked to write: checks before anything is computed, and what is there when it is stopped."""

import importlib.util
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from jaxdis._core.interrupts import STOPPED

KINDS_OF_CELLS = ("train", "encode", "score")


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
    """Check that pictures can be drawn."""
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
    if words := getattr(command, "kept", ""):
        return words
    outputs = (getattr(command, option, None) for option in ("csv", "json", "out", "plot"))
    written = [str(path) for path in outputs if path is not None and path.is_file() and path.stat().st_mtime >= began]
    return f"stopped; what was computed until then is in {' and '.join(written)}" if written else STOPPED


def kept_cells(out: Path, place: str = "") -> str:
    """The message of a study that is stopped, or of several in the folders that a pattern matches."""
    if any(any(out.glob(f"{place}{kind}/??/*.json")) for kind in KINDS_OF_CELLS):
        return f"stopped; {out} keeps all finished cells: run the same command again to go on"
    return "stopped; no cell was finished: run the same command again"
