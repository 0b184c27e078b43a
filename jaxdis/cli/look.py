"""``jaxdis list`` and ``jaxdis data``: what there is."""

import dataclasses
from pathlib import Path
from typing import Literal

import tyro

from jaxdis.cli import terminal


@dataclasses.dataclass(frozen=True)
class List:
    """Show what there is: each name with what it is and its options."""

    what: tyro.conf.Positional[Literal["metrics", "relations", "scores", "models", "data", "studies"]]
    """Which table."""

    def run(self) -> None:
        from rich.table import Table
        from rich.text import Text

        from jaxdis.listing import listing

        heads, rows = listing(self.what)
        table = Table(*heads, title=self.what)
        for row in rows:
            table.add_row(*map(Text, row))
        terminal.console().print(table)


@dataclasses.dataclass(frozen=True)
class Data:
    """Look at a data set: a contact sheet with one row for each factor, traversed."""

    action: tyro.conf.Positional[Literal["show"]]
    """Draw the sheet."""
    name: tyro.conf.Positional[str]
    """As `jaxdis list data` shows it."""
    out: Path = Path("sheet.png")
    """The picture to write."""
    source: Path | None = None
    """The official file, for sets that are read."""
    seed: int = 0
    """Of the point from which factors are traversed."""
    zoom: int = 2
    """Screen pixels a pixel."""

    def run(self) -> None:
        from jaxdis.options import Seed, checked_value

        checked_value("--seed", Seed, self.seed)
        terminal.start(None)
        from jaxdis.data.show import save_sheet

        save_sheet(self.name, self.out, self.source, self.seed, self.zoom)
        terminal.console().print(f"wrote {self.out}", markup=False)
