"""Options that several commands have, each described once."""

import contextlib
import dataclasses
import shutil
import sys
import textwrap
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import tyro

Sources = Annotated[
    tyro.conf.UseAppendAction[tuple[str, ...]],
    tyro.conf.arg(help="NAME=PATH: the official file of a data set that is read from one. May be repeated."),
]
DataOptions = Annotated[
    tyro.conf.UseAppendAction[tuple[str, ...]],
    tyro.conf.arg(
        help="NAME.OPTION=VALUE: an option of such a data set, for example mpi3d.variant=real. May be repeated."
    ),
]
Executor = Annotated[
    str | None,
    tyro.conf.arg(
        help="processes:COUNT for workers on this machine, or dask://HOST:PORT for those of a Dask scheduler. The "
        "latter must see the folder under the same path. By default everything runs in this process."
    ),
]
Cache = Annotated[Path | None, tyro.conf.arg(help="Folder for compiled programs; by default ~/.cache/jaxdis/programs.")]

_WORDS = {Path: "PATH", int: "N", float: "NUMBER", str: "TEXT"}


def with_plain_help(command: type) -> type:
    """The command, whose help names the kinds of its options and no default that says nothing."""
    if not hasattr(command, "has_plain_help"):
        said = lambda default: "" if default in ("", "()", "None", "False") else f"(default: {default})"  # noqa: E731
        for field in dataclasses.fields(command):
            shown = tyro.conf.arg(metavar=_metavar(field), help_behavior_hint=said)
            command.__annotations__[field.name] = Annotated[field.type, shown]
        command.has_plain_help = True
    return command


def _metavar(field: dataclasses.Field) -> str | None:
    """What stands for a value, such as ``PATH`` or ``{paper,mlp}``; None for flags."""
    kind, *markers = typing.get_args(field.type) if typing.get_origin(field.type) is Annotated else (field.type,)
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        kind = next(part for part in typing.get_args(kind) if part is not type(None))
    parts = typing.get_args(kind) if typing.get_origin(kind) is tuple else (kind,)
    choices = {part: typing.get_args(part) for part in parts if typing.get_origin(part) is typing.Literal}
    kinds = [part for part in parts if part is not ...]
    words = [f"{{{','.join(choices[kind])}}}" if kind in choices else _WORDS.get(kind) for kind in kinds]
    if not all(words):
        return None
    if tyro.conf.Positional in markers and words[0] in _WORDS.values():
        words = [field.name.upper()]
    several = ... in parts and tyro.conf.UseAppendAction not in markers
    return " ".join(words) + " ..." * several


@contextlib.contextmanager
def paragraphs_wrapped() -> Iterator[None]:
    """Within, long lines of plain text are wrapped; tyro prints each paragraph on one."""
    stream = sys.stdout
    with contextlib.nullcontext() if stream is None else contextlib.redirect_stdout(_Wrapping(stream)):
        yield


class _Wrapping:
    def __init__(self, stream):
        self._stream, self._width = stream, shutil.get_terminal_size().columns

    def __getattr__(self, name):
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        return self._stream.write("\n".join(map(self._wrapped, text.split("\n"))))

    def _wrapped(self, line: str) -> str:
        plain = line[:1].isalpha() and not line.startswith("usage: ")
        return textwrap.fill(line, self._width) if plain else line


def own_pictures(data: str | None, factors: Path | None):
    """``(space, render)`` of a folder; None for the name of a data set."""
    kind, _, place = (data or "").partition(":")
    if kind != "folder":
        if factors is not None:
            raise ValueError(f"--factors: goes with --data folder:PATH, got --data {data}")
        return None
    if factors is None:
        raise ValueError("--factors: must name a table with a row for each picture, got none beside --data folder:PATH")
    from jaxdis.data import folder

    return folder(place, factors)
