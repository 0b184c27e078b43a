"""A table that a package above completes: it is loaded at the first look-up, and adds its rows."""

import importlib
from collections.abc import Iterator, MutableMapping
from typing import TypeVar

Row = TypeVar("Row")


class Registry(MutableMapping[str, Row]):
    """Rows by name. The table stands below the package that fills it, and need not import it to be defined.

    Args:
      package: the module that adds rows when it is imported.
      rows: the first rows.
    """

    def __init__(self, package: str, rows: dict[str, Row] | None = None):
        self._package, self._rows = package, dict(rows or {})

    def __getitem__(self, name: str) -> Row:
        return self._complete()[name]

    def __setitem__(self, name: str, row: Row) -> None:
        self._rows[name] = row

    def __delitem__(self, name: str) -> None:
        del self._rows[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._complete())

    def __len__(self) -> int:
        return len(self._complete())

    def _complete(self) -> dict[str, Row]:
        importlib.import_module(self._package)
        return self._rows
