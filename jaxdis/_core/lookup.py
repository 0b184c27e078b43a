"""Names in messages: a few of many, and rows of a table by name, with the nearest one for a name that is unknown."""

import difflib
from collections.abc import Iterable, Mapping

from jaxdis._core.options import listed, shown

# Names that a text lists, and letters of each: users have thousands of columns, factors and files.
MOST_NAMED = 8
LONGEST_NAME = 80


def some_of(names: Iterable, most: int = MOST_NAMED) -> str:
    """Names in a text, however many there are: all if few, else the first ones and how many more.

    >>> some_of(range(1380), most=2)
    '0, 1 and 1,378 more'
    """
    names = [name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…" for name in map(printable, names)]
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {len(names) - most:,} more"


def printable(name) -> str:
    """A name, of a file or a class, without the control characters that would reach the terminal."""
    return "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in str(name))


def names_of(names, table: Mapping, kind: str, elsewhere: Mapping[str, str] | None = None) -> list[str]:
    """Return distinct row names in a table, in the order given; all for ``"all"``."""
    if isinstance(names, str):
        names = list(table) if names == "all" else [names]
    given, names = names, listed(names)
    if names is None:
        raise ValueError(f"{kind}s: must be names, got {shown(given)}")
    if not names:
        raise ValueError(f"{kind}s: must have at least one {kind}, got none; the {kind}s are {', '.join(table)}")
    for name in names:
        look_up(name, table, kind, elsewhere=elsewhere)
    return list(dict.fromkeys(names))


def look_up(name, table: Mapping, kind: str, kinds: str | None = None, elsewhere: Mapping[str, str] | None = None):
    """Return the row with this name in a table.

    Args:
      elsewhere: names that users may expect in the table, and what to do instead.
    """
    kinds = kinds or f"{kind}s"
    if not isinstance(name, str):
        raise ValueError(
            f"{kinds}: must be names, got {shown(name)}; give {kinds} of your own as a mapping name → {kind}"
        )
    if name in (elsewhere or ()):
        raise ValueError(f"{kinds}: must be {kinds} of the codes of one member, got {name!r}, which {elsewhere[name]}")
    if name not in table:
        stem, _, options = name.partition(":")
        near = difflib.get_close_matches(name.lower(), table, n=1, cutoff=0.3)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        if options and stem in table:
            options = options.replace(":", ", ")
            hint = f"; give options by {kinds.upper()}[{stem!r}].with_options({options}), in a mapping from names"
        raise ValueError(f"{kinds}: unknown {kind} {shown(name)}{hint}; the {kinds} are {', '.join(table)}")
    return table[name]
