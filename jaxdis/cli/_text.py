"""Text for a terminal: numbers, and docstrings without markup, wrapped to its width."""

import math
import re
import textwrap

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
        wrapped_lines += textwrap.wrap(
            " ".join([first.strip(), *rest]),
            width,
            initial_indent=" " * indent,
            subsequent_indent=" " * hang,
            break_on_hyphens=False,
        )
    return wrapped_lines
