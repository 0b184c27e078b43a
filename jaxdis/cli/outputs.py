"""Checks of the files that a command is asked to write, before anything is computed."""

from collections.abc import Iterable
from pathlib import Path


def check_not_input(option: str, out: Path, inputs: Iterable[Path | None]) -> None:
    """Refuse to overwrite a file that the command reads."""
    if any(given is not None and out.resolve() == given.resolve() for given in inputs):
        raise ValueError(f"{option}: needs another file than the input, got {out}")
