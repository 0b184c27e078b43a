"""``jaxdis show``: what each code encodes, in the terminal and as a picture."""

import dataclasses
from pathlib import Path
from typing import Literal

import tyro

from jaxdis.cli import _terminal as terminal
from jaxdis.cli._options import Cache
from jaxdis.cli._outputs import check_not_input, check_pictures, make_room, write_figure

# From nothing to all of a factor's entropy.
SHADES = " ▁▂▃▄▅▆▇█"
LONGEST_NAME = 10


@dataclasses.dataclass(frozen=True)
class Show:
    """Show which code encodes which factor: a table with bars in the terminal, and on request a picture.

    Bars show mutual information as a share of the factor's entropy, or another relation.
    """

    file: tyro.conf.Positional[Path]
    """File of codes and factors, as for `jaxdis score`."""
    factors: Path | None = None
    """Factors, if FILE holds codes alone, as for `jaxdis score`."""
    columns: tuple[str, ...] = ()
    """Columns of a table of factors, and what they hold, as for `jaxdis score`; all by default."""
    missing: Literal["error", "drop", "each"] = "error"
    """What becomes of rows in which a value is missing: drop leaves them out, and the same rows of the codes.
    With each, every factor is taken on the rows that have it."""
    member: int = 0
    """The member to show, for a file with several."""
    out: Path | None = None
    """PNG file to write: a Hinton diagram, and each code against each factor."""
    relation: str = "mutual_information"
    """A name of `jaxdis list relations`."""
    cache: Cache = None

    def run(self) -> None:
        if self.out is not None:
            check_pictures()
            check_not_input("--out", self.out, (self.file, self.factors))
        terminal.start(self.cache)
        import numpy as np

        from jaxdis.evaluation._arrays_file import in_words, load_arrays
        from jaxdis.evaluation._relate import relate

        arrays = load_arrays(self.file, self.factors, self.columns, self.missing)
        terminal.write_sentence(f"factors: {in_words(arrays.factors)}")
        codes = np.asarray(arrays.codes)
        codes = codes if codes.ndim == 3 else codes[None]
        if not 0 <= self.member < len(codes):
            raise ValueError(f"--member: must be a number from 0 to {len(codes) - 1}, got {self.member}")
        codes = codes[self.member]
        relation = relate(codes, arrays.factors, self.relation)
        with np.errstate(invalid="ignore", divide="ignore"):
            shares = np.nan_to_num(np.asarray(relation.strength) / np.asarray(relation.ceiling))
        if self.out is not None:
            from jaxdis import plots

            factors = arrays.factors
            there = True if factors.present is None else factors.present
            values = np.where(there, np.asarray(factors.values), np.nan)  # what is missing is not drawn
            picture = plots.codes_and_factors(shares, codes, values, factors.names, factors.classes)
            make_room("--out", self.out)
            write_figure(self.out, picture)
        shares[~np.isfinite(codes).all(axis=0)] = np.nan
        self._print(shares, arrays.factors.names)

    def _print(self, shares, names) -> None:
        from rich.table import Table
        from rich.text import Text

        table = Table("code", box=None, caption="share of each factor that a code tells")
        for name in names:
            table.add_column(Text(terminal.one_line(name)[:LONGEST_NAME]))
        for code, row in enumerate(shares):
            cells = ("nan" if share != share else f"{bar(share)} {share:.2f}" for share in row.tolist())
            table.add_row(str(code), *cells)
        terminal.console().print(table)
        if self.out is not None:
            terminal.write_line(f"wrote {self.out}")


def bar(share: float) -> str:
    """A block whose height is a share from 0 to 1; a digit where the terminal has no blocks."""
    import sys

    place = round(min(max(share, 0.0), 1.0) * (len(SHADES) - 1))
    try:
        SHADES.encode(getattr(sys.stdout, "encoding", None) or "ascii")
    except UnicodeEncodeError:
        return "#" if place > (len(SHADES) - 1) // 2 else "."
    return SHADES[place]
