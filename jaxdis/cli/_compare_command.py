"""``jaxdis compare``: which of two sets of scores is higher, and how sure that is."""

import dataclasses
from pathlib import Path

import tyro

from jaxdis.cli import _terminal as terminal
from jaxdis.cli._outputs import check_not_input, make_room


@dataclasses.dataclass(frozen=True)
class Compare:
    """Compare the scores of two sets of models: differences of means, their intervals, and tests.

    Each file holds a row per model, such as one per seed: a CSV file of `jaxdis score --csv`, or what `Scores.save`
    wrote.
    """

    a: tyro.conf.Positional[Path]
    """Scores of the first set: .csv or .npz."""
    b: tyro.conf.Positional[Path]
    """Scores of the second set."""
    paired: str | None = None
    """A column whose equal values make pairs, such as seed.
    Without it, the sets are independent."""
    metrics: tuple[str, ...] = ()
    """Columns to compare; all that both files have by default."""
    csv: Path | None = None
    """CSV file to write, with a row per column."""
    out: Path | None = None
    """Page to write."""

    def run(self) -> None:
        from rich.table import Table

        from jaxdis._core.files import write_text
        from jaxdis.evaluation._comparison import compare

        for option, path in (("--csv", self.csv), ("--out", self.out)):
            if path is not None:
                check_not_input(option, path, (self.a, self.b))
            make_room(option, path)
        found = compare(self.a, self.b, paired=self.paired, metrics=self.metrics or None)
        table = Table("", "first", "second", "difference", "interval", "p", "adjusted", title=found.test, box=None)
        for row in found.rows:
            numbers = row.first, row.second, row.difference
            within = f"{row.low:.3f} to {row.high:.3f}"
            table.add_row(row.metric, *(f"{x:.3f}" for x in numbers), within, f"{row.p:.2g}", f"{row.adjusted:.2g}")
        terminal.console().print(table)
        for sentence in found.sentences():
            terminal.write(sentence)
        if self.csv is not None:
            found.to_csv(self.csv)
        if self.out is not None:
            write_text(self.out, _PAGE.format(found._repr_html_()))


_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>Comparison of scores</title>
<style>body {{ font-family: sans-serif; margin: 1em }} td, th {{ padding: .2em .7em }}</style>
<body>
<h1>Comparison of scores</h1>
{}
</body>
</html>
"""
