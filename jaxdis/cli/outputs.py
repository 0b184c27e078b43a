"""Checks of the files that a command is asked to write, before anything is computed."""

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
