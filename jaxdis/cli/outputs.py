"""Checks of what a command is asked to write, before anything is computed."""

import importlib.util
import os
from collections.abc import Iterable
from pathlib import Path

from jaxdis.cli.zoos import ZOO_FILE


def check_not_input(option: str, out: Path, inputs: Iterable[Path | None]) -> None:
    """Refuse to overwrite a file that the command reads, or the zoo and the settings of a run whose zoo it reads."""
    for given in inputs:
        if given is None:
            continue
        folder = given if given.is_dir() else given.parent if given.name == ZOO_FILE else None
        files = [given] if folder is None else [given, folder / ZOO_FILE, folder / "run.json"]
        if any(out.resolve() == file.resolve() for file in files):
            raise ValueError(f"{option}: needs another file than the input, got {out}")


def check_pictures() -> None:
    """Check that pictures can be drawn.

    Raises:
      RuntimeError: if matplotlib is not installed.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise RuntimeError("pictures: need matplotlib, which is not installed (pip install matplotlib)")


def make_room(option: str, out: Path | None) -> None:
    """Make the folder of a file, and check that the file can be written there.

    Raises:
      ValueError: if it cannot.
    """
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
