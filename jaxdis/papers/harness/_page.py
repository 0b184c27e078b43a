"""The page of a paper: verdicts first, then tables printed beside measured, figures, and what differs in protocol."""

import html
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxdis.papers.harness._printed import Flag, Printed, Row, read_text, words_in
from jaxdis.papers.harness._printed import Table as PrintedTable
from jaxdis.papers.harness._scale import Fact, Level
from jaxdis.papers.harness._verdict import FAILS, HOLDS, OPEN, UNSEEN, Finding, Part, counts
from jaxdis.study.report._html import Html, folded, image, page, table

SIGNS = {HOLDS: "✓", FAILS: "✗", UNSEEN: "○", OPEN: "?"}


class Measured(NamedTuple):
    """A number with its spread (as the table's ``statistic`` says; NaN if unknown)."""

    value: float
    spread: float = math.nan

    @classmethod
    def over(cls, values: Sequence[float] | np.ndarray) -> "Measured":
        """The mean and the standard deviation over runs, NaN for a single one."""
        values = np.asarray(values, float)
        return cls(float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else math.nan)


class Beside(NamedTuple):
    """A printed table, and measured numbers by (row number, column).

    ``remark`` states how the measured numbers were computed where that differs from the paper, a paragraph per line.
    """

    printed: PrintedTable
    measured: Mapping[tuple[int, str], Measured]
    remark: str = ""

    @classmethod
    def of(cls, printed: PrintedTable, measure: Callable[[Row, str], Measured | None], remark: str = "") -> "Beside":
        """Measure what can be of a table: ``measure(row, column)`` is None for what cannot."""
        places = [(place, row, column) for place, row in enumerate(printed.rows) for column in row.values]
        numbers = {(place, column): measure(row, column) for place, row, column in places}
        return cls(printed, {place: number for place, number in numbers.items() if number is not None}, remark)

    def entries(self) -> Iterator[tuple[Row, str, Measured]]:
        """Every number that was measured, with its place."""
        for place, row in enumerate(self.printed.rows):
            for column in row.values:
                if (number := self.measured.get((place, column))) is not None:
                    yield row, column, number


class Figure(NamedTuple):
    """A picture with the printed figure that it redraws."""

    label: str
    caption: str
    figure: Any


class Content(NamedTuple):
    """What a page shows: what was run, in words (``size``), claims with verdicts, and printed numbers next to measured
    ones.

    ``differences`` say how the protocol differs from the paper's, besides what studies lack at its size. ``figures``
    are in the paper's order; of several with the same label (before a colon), only the first is shown unfolded. Further
    ``sections`` are (title, HTML); ``levels`` tell whether models are trained.
    """

    size: str
    differences: Sequence[str | Fact]
    claims: Sequence[Finding]
    tables: Sequence[Beside]
    figures: Sequence[Figure]
    sections: Sequence[tuple[str, str]] = ()
    levels: Sequence[Level] = ()


def differences_in(package: str, key: str = "differences") -> list[str | Fact]:
    """How the protocol differs from a paper's, by its ``page.json``."""
    return [text if isinstance(text, str) else Fact(**text) for text in words_in(package)[key]]


def render(paper: Printed, content: Content, studies: Sequence[str]) -> str:
    """The whole page; ``studies`` are the folders of the studies behind it, whose reports it links."""
    sections = [
        ("What differs from the paper", _differences(content.differences)),
        ("Are the models trained?", _levels(content.levels)),
        ("Claims", _claims(content.claims)),
        *((beside.printed.label, section(beside)) for beside in content.tables),
        *content.sections,
        ("Figures", _figures(content.figures)),
        ("What the paper leaves open", _list(paper.open)),
        ("How verdicts are found", read_text("jaxdis.papers.harness", "verdicts.html").rstrip()),
    ]
    links = ", ".join(f'<a href="{html.escape(name)}/report.html">{html.escape(name)}</a>' for name in studies)
    numbers = 'Numbers as CSV: <a href="tables.csv">tables.csv</a>, <a href="claims.csv">claims.csv</a>'
    note = f"<p>{numbers}{'; studies: ' + links if links else ''}.</p>"
    return page(f"{paper.key}, printed and measured", sections, _opening(paper, content), note)


def _opening(paper: Printed, content: Content) -> str:
    verdicts = counts(content.claims)
    numbers = sum(len(beside.measured) for beside in content.tables)
    summary = ", ".join(f"{n} {in_number(verdict, n)}" for verdict, n in verdicts.items())
    things = {"table": len(content.tables), "figure": len(content.figures)}
    tables, figures = (f"{count} {name}{'' if count == 1 else 's'}" for name, count in things.items())
    return (
        f"<p>{html.escape(paper.citation)}</p><p>{html.escape(content.size)}</p>"
        f"<p><strong>Of {len(content.claims)} claims checked, {summary}.</strong> {tables} with"
        f" {numbers:,} measured numbers beside the printed ones, {figures}.</p>"
    )


def in_number(verdict: str, count: int) -> str:
    """The verdict on so many claims: ``holds`` or ``hold``."""
    plural = {HOLDS: "hold", FAILS: "do not hold"}
    return verdict if count == 1 else plural.get(verdict, verdict)


def _differences(differences: Sequence[str | Fact]) -> str:
    def cell(text: str) -> Html:
        return Html(f'<div class="text">{html.escape(text)}</div>' if len(text) > 30 else html.escape(text))

    facts = [fact for fact in differences if isinstance(fact, Fact)]
    heads = ("where", "in the paper", "here", "effect")
    columns = {head: [cell(fact[place]) for fact in facts] for place, head in enumerate(heads)}
    others = [text for text in differences if not isinstance(text, Fact)]
    return (table(list(columns), columns) if facts else "") + _list(others)


def _levels(levels: Sequence[Level]) -> str:
    if not levels:
        return ""
    names, printed, measured = zip(*levels, strict=True)
    columns = {"": names, "printed": list(map(float, printed)), "measured": list(map(float, measured))}
    text = "<p>Claims about trained models say nothing where these numbers are far from the printed ones.</p>"
    return text + table(list(columns), columns)


def _claims(claims: Sequence[Finding]) -> str:
    if not claims:
        return ""
    columns = {
        "": [Html(f'<span title="{one.verdict}">{SIGNS[one.verdict]}</span>') for one in claims],
        "claim": [Html(f'<div class="text">{html.escape(one.claim.says)}{_remark(one)}</div>') for one in claims],
        "verdict and statistics": [Html(_parts(one)) for one in claims],
    }
    return table(list(columns), columns)


def _remark(finding: Finding) -> str:
    """Where the paper says it, and what is to be known about it."""
    where = f"({finding.claim.where})" if finding.claim.where else ""
    unmet = f"Lacks {'; '.join(finding.unmet)}." if finding.verdict == UNSEEN else ""
    words = " ".join(part for part in (where, finding.remark, finding.claim.note, unmet) if part)
    return f"<br><small>{html.escape(words)}</small>" if words else ""


def _parts(finding: Finding) -> str:
    """The statistics, those that decide first; many are folded away."""
    judged = [(finding.verdict_of(part), part) for part in finding.parts]
    order = sorted(judged, key=lambda pair: (FAILS, UNSEEN, OPEN, HOLDS).index(pair[0]))
    lines = [f"{SIGNS[verdict]} {html.escape(statistic_in_words(part))}" for verdict, part in order]
    text = "<br>".join(lines[:4])
    more = folded(f"{len(lines) - 4} more", "<br>".join(lines[4:])) if len(lines) > 4 else ""
    return f'<div class="text"><strong>{html.escape(finding.verdict)}</strong><br>{text}{more}</div>'


def statistic_in_words(part: Part) -> str:
    value, low, high = part.interval
    shown = "undefined" if math.isnan(value) else f"{value:.3g}"
    if math.isnan(low) and not math.isnan(value):
        shown += " (too few for an interval)"
    elif low < high:
        shown += f" [{low:.3g}, {high:.3g}]"
    bounds = ((sign, bound) for sign, bound in ((">", part.above), ("<", part.below)) if math.isfinite(bound))
    wanted = " and ".join(f"{sign}\N{NO-BREAK SPACE}{bound:.3g}" for sign, bound in bounds)
    return f"{part.name}: {shown}, expected\N{NO-BREAK SPACE}{wanted}" if wanted else f"{part.name}: {shown}"


def _figures(figures: Sequence[Figure]) -> str:
    """Figures by what stands before the colon of their labels: the first of each is open, the others are folded."""
    alike: dict[str, list[Figure]] = {}
    for figure in figures:
        alike.setdefault(figure.label.partition(":")[0], []).append(figure)
    parts = []
    for label, (first, *rest) in alike.items():
        parts.append(_figure(first))
        if rest:
            parts.append(folded(f"{label}: {len(rest)} more", "".join(map(_figure, rest))))
    return "".join(parts)


def _figure(figure: Figure) -> str:
    title = f"<h3>{html.escape(figure.label)}</h3><p>{html.escape(figure.caption)}</p>"
    return title + image(figure.figure, f"{figure.label}: {figure.caption}")


def _list(items: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{html.escape(item)}</li>" for item in items) + "</ul>" if items else ""


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
    rows = []
    for row, column, measured in beside.entries():
        printed, spread = row.values[column], _plain(row.spread.get(column))
        pair = ("", "") if printed is None else (printed, _plain(measured.value - printed))
        ours = _plain(measured.value), _plain(measured.spread)
        distance = _plain(in_spreads(row, column, measured, beside.printed.rounding))
        rows.append(CsvRow(beside.printed.id, key_in_words(row.key), column, pair[0], spread, *ours, pair[1], distance))
    return rows


def section(beside: Beside) -> str:
    """The table as HTML: printed | measured ± spread, and the difference in spreads; with a list of errors in print."""
    printed, measured = beside.printed, beside.measured
    rows = {
        place: row for place, row in enumerate(printed.rows) if any((place, name) in measured for name in row.values)
    }
    columns: dict[str, list] = {"": [key_in_words(row.key) for row in rows.values()]}
    for name in printed.columns:
        if any((place, name) in measured for place in rows):
            columns[name.replace("_", " ")] = [
                _cell(row, name, measured.get((place, name)), printed.rounding) if name in row.values else Html("")
                for place, row in rows.items()
            ]
    runs = key_in_words(printed.runs) if isinstance(printed.runs, dict) else printed.runs
    statistic = printed.statistic if runs is None else f"{printed.statistic}; {runs} runs"
    facts = html.escape(f"Unit: {printed.unit}. Printed: {statistic}. {printed.protocol}")
    remark = "".join(f"<p>{html.escape(line)}</p>" for line in beside.remark.splitlines())
    left_out, missing = len(printed.rows) - len(rows), ""
    if left_out:
        missing = f"<p><small>{left_out} of {len(printed.rows)} printed rows were not measured here.</small></p>"
    opening = f"<p>{html.escape(printed.title)}. <small>{facts}</small></p>{remark}"
    return opening + table(list(columns), columns) + missing + flags(printed.flags)


def flags(marked: tuple[Flag, ...]) -> str:
    """Errors and open questions in print, folded away."""
    if not marked:
        return ""
    items = []
    for flag in marked:
        where = f"{key_in_words(flag.where)}: " if flag.where else ""
        items.append(f"<li><em>{html.escape(where)}</em>{html.escape(flag.issue)}</li>")
    return folded(f"Remarks on the print ({len(marked)})", f"<ul>{''.join(items)}</ul>")


def key_in_words(key: Mapping) -> str:
    """``dsprites, beta vae``."""
    words = []
    for name, value in key.items():
        flag = ("" if value else "not ") + name if isinstance(value, bool) else str(value)
        words.append(" ".join(map(str, value)) if isinstance(value, list) else flag)
    return ", ".join(words).replace("_", " ")


def _cell(row: Row, name: str, number: Measured | None, rounding: float) -> Html:
    """Printed number, measured one with its spread, and their difference in spreads."""
    value, spread = row.values[name], row.spread.get(name)
    printed = "–" if value is None else f"{value:g}" + ("" if spread is None else f" ± {spread:g}")
    if number is None or not math.isfinite(number.value):
        return Html(f"<small>{printed}</small>")
    size = f" ± {_short(number.spread)}" if math.isfinite(number.spread) else ""
    distance = in_spreads(row, name, number, rounding)
    far = f"<br><small>{distance:+.1f} spreads</small>" if math.isfinite(distance) else ""
    return Html(f"<small>{printed}</small><br><strong>{_short(number.value)}{size}</strong>{far}")


def _short(value: float) -> str:
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}" if abs(value) >= 1 else f"{value:.3f}"


def _plain(value: float | None) -> str:
    return "" if value is None or not math.isfinite(value) else f"{value:.6g}"
