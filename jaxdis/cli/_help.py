"""What ``--help`` shows: kinds of values in words, one default per option, and paragraphs wrapped."""

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

_WORDS = {Path: "PATH", int: "N", float: "NUMBER", str: "TEXT"}


def in_words(command: type) -> type:
    """The command, whose help names the kinds of its options and no default that says nothing."""
    if not hasattr(command, "in_words"):
        command.__annotations__ = {
            field.name: Annotated[
                field.type, tyro.conf.arg(metavar=_metavar(field), help_behavior_hint=_default_in_words)
            ]
            for field in dataclasses.fields(command)
        }
        command.in_words = True
    return command


def _default_in_words(default: str) -> str:
    return "" if default in ("", "()", "None", "False") else f"(default: {default})"


def _metavar(field: dataclasses.Field) -> str | None:
    """What stands for a value, such as ``PATH`` or ``{paper,mlp}``; None for flags."""
    kind, *markers = typing.get_args(field.type) if typing.get_origin(field.type) is Annotated else (field.type,)
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        kind = next(part for part in typing.get_args(kind) if part is not type(None))
    parts = typing.get_args(kind) if typing.get_origin(kind) is tuple else (kind,)
    words = [_word(part) for part in parts if part is not ...]
    if not all(words):
        return None
    if tyro.conf.Positional in markers and words[0] in _WORDS.values():
        words = [field.name.upper()]
    several = ... in parts and tyro.conf.UseAppendAction not in markers
    return " ".join(words) + " ..." * several


def _word(kind) -> str | None:
    if typing.get_origin(kind) is typing.Literal:
        return f"{{{','.join(typing.get_args(kind))}}}"
    return _WORDS.get(kind)


@contextlib.contextmanager
def paragraphs_wrapped() -> Iterator[None]:
    """Within, long lines of plain text are wrapped; tyro prints each paragraph on one."""
    stream = sys.stdout
    if stream is None:
        yield
        return
    with contextlib.redirect_stdout(_Wrapping(stream)):
        yield


class _Wrapping:
    """A stream that wraps long lines of text."""

    def __init__(self, stream):
        self._stream, self._width = stream, shutil.get_terminal_size().columns

    def __getattr__(self, name):
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        return self._stream.write("\n".join(map(self._wrapped, text.split("\n"))))

    def _wrapped(self, line: str) -> str:
        plain = line[:1].isalpha() and not line.startswith("usage: ")
        return textwrap.fill(line, self._width) if plain else line
