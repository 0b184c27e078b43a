"""A printed table next to a measured one: as HTML for the page, and as rows for CSV."""

import html
import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from jaxdis.papers.harness._printed import Flag, Row, Table
from jaxdis.study.report._html import Html, folded
from jaxdis.study.report._html import table as html_table


class Measured(NamedTuple):
    """A number with its spread (as the table's ``statistic`` says; NaN if unknown)."""

    value: float
    spread: float = math.nan


class Beside(NamedTuple):
    """A printed table, and measured numbers by (row number, column).

    ``remark`` states how the measured numbers were computed where that differs from the paper, a paragraph per line.
    """

    printed: Table
    measured: Mapping[tuple[int, str], Measured]
    remark: str = ""

    def entries(self) -> Iterator[tuple[Row, str, Measured]]:
        """Every number that was measured, with its place."""
        for place, row in enumerate(self.printed.rows):
            for column in row.values:
                if (number := self.measured.get((place, column))) is not None:
                    yield row, column, number


def in_spreads(row: Row, column: str, number: Measured, rounding: float = 0.0) -> float:
    """The measured minus the printed number, in units of their combined spread.

    NaN if neither spread is known, or if both together are smaller than what rounding took from the printed number.
    """
    printed = row.values[column]
    spreads = [spread for spread in (row.spread.get(column), number.spread) if spread is not None]
    size = math.hypot(*(spread for spread in spreads if math.isfinite(spread)))
    return (number.value - printed) / size if printed is not None and size > rounding else math.nan


class CsvRow(NamedTuple):
    """A number that was measured, next to the printed one; empty where there is none."""

    table: str
    row: str
    column: str
    printed: float | str
    printed_spread: str
    measured: str
    spread: str
    difference: str
    difference_in_spreads: str


def csv_rows(beside: Beside) -> list[CsvRow]:
    """One row per number that was measured."""
    rows = []
    for row, column, measured in beside.entries():
        printed = row.values[column]
        rows.append(
            CsvRow(
                table=beside.printed.id,
                row=in_words(row.key),
                column=column,
                printed="" if printed is None else printed,
                printed_spread=_plain(row.spread.get(column)),
                measured=_plain(measured.value),
                spread=_plain(measured.spread),
                difference="" if printed is None else _plain(measured.value - printed),
                difference_in_spreads=_plain(in_spreads(row, column, measured, beside.printed.rounding)),
            )
        )
    return rows


def section(beside: Beside) -> str:
    """The table as HTML: printed | measured ± spread, and the difference in spreads; with a list of errors in print."""
    printed = beside.printed
    rows = [
        row for place, row in enumerate(printed.rows) if any((place, name) in beside.measured for name in row.values)
    ]
    places = {id(row): place for place, row in enumerate(printed.rows)}
    names = [name for name in printed.columns if any((places[id(row)], name) in beside.measured for row in rows)]
    columns: dict[str, list] = {"": [in_words(row.key) for row in rows]}
    for name in names:
        columns[name.replace("_", " ")] = [
            _cell(printed, row, name, beside.measured.get((places[id(row)], name))) if name in row.values else Html("")
            for row in rows
        ]
    facts = f"<p>{html.escape(printed.title)}. <small>{html.escape(_facts(printed))}</small></p>"
    remark = "".join(f"<p>{html.escape(line)}</p>" for line in beside.remark.splitlines())
    left_out = len(printed.rows) - len(rows)
    missing = f"<p><small>{left_out} of {len(printed.rows)} printed rows were not measured here.</small></p>" * (
        left_out > 0
    )
    return facts + remark + html_table(list(columns), columns) + missing + flags(printed.flags)


def flags(marked: tuple[Flag, ...]) -> str:
    """Errors and open questions in print, folded away."""
    if not marked:
        return ""
    items = "".join(f"<li><em>{html.escape(_where(flag))}</em>{html.escape(flag.issue)}</li>" for flag in marked)
    return folded(f"Remarks on the print ({len(marked)})", f"<ul>{items}</ul>")


def in_words(key: Mapping) -> str:
    """``dsprites, beta vae``."""
    words = [
        ("" if value else "not ") + name if isinstance(value, bool) else _said(value) for name, value in key.items()
    ]
    return ", ".join(words).replace("_", " ")


def _said(value) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _where(flag: Flag) -> str:
    return f"{in_words(flag.where)}: " if flag.where else ""


def _facts(table: Table) -> str:
    runs = table.runs
    runs = "" if runs is None else f"; {in_words(runs) if isinstance(runs, dict) else runs} runs"
    return f"Unit: {table.unit}. Printed: {table.statistic}{runs}. {table.protocol}"


def _cell(table: Table, row: Row, name: str, number: Measured | None) -> Html:
    """Printed number, measured one with its spread, and their difference in spreads."""
    value, spread = row.values[name], row.spread.get(name)
    printed = "–" if value is None else f"{value:g}" + ("" if spread is None else f" ± {spread:g}")
    if number is None or not math.isfinite(number.value):
        return Html(f"<small>{printed}</small>")
    size = f" ± {_short(number.spread)}" if math.isfinite(number.spread) else ""
    distance = in_spreads(row, name, number, table.rounding)
    far = f"<br><small>{distance:+.1f} spreads</small>" if math.isfinite(distance) else ""
    return Html(f"<small>{printed}</small><br><strong>{_short(number.value)}{size}</strong>{far}")


def _short(value: float) -> str:
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}" if abs(value) >= 1 else f"{value:.3f}"


def _plain(value: float | None) -> str:
    return "" if value is None or not math.isfinite(value) else f"{value:.6g}"
