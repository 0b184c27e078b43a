"""The page of a paper: verdicts first, then tables printed beside measured, figures, and what differs in protocol."""

import html
from collections.abc import Sequence
from math import isnan
from typing import Any, NamedTuple

from jaxdis.papers.harness._beside import Beside, section
from jaxdis.papers.harness._differences import Fact, Level
from jaxdis.papers.harness._printed import Printed
from jaxdis.papers.harness._verdict import FAILS, HOLDS, OPEN, UNSEEN, Finding, Part, counts
from jaxdis.study.report._html import Html, folded, image, page, table

SIGNS = {HOLDS: "✓", FAILS: "✗", UNSEEN: "○", OPEN: "?"}


class Figure(NamedTuple):
    """A picture with the printed figure that it redraws."""

    label: str
    caption: str
    figure: Any


class Content(NamedTuple):
    """What a page shows.

    Attributes:
      size: what was run, in words.
      differences: how the protocol differs from the paper's, besides what studies lack at its size.
      claims: with their verdicts.
      tables: printed numbers next to measured ones.
      figures: in the paper's order. Of several with the same label (before a colon), only the first is shown unfolded.
      sections: further sections, as (title, HTML).
      levels: printed numbers that tell whether models are trained, next to the measured ones.
    """

    size: str
    differences: Sequence[str | Fact]
    claims: Sequence[Finding]
    tables: Sequence[Beside]
    figures: Sequence[Figure]
    sections: Sequence[tuple[str, str]] = ()
    levels: Sequence[Level] = ()


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
        ("How verdicts are found", _rule()),
    ]
    links = ", ".join(f'<a href="{html.escape(name)}/report.html">{html.escape(name)}</a>' for name in studies)
    numbers = 'Numbers as CSV: <a href="tables.csv">tables.csv</a>, <a href="claims.csv">claims.csv</a>'
    note = f"<p>{numbers}{'; studies: ' + links if links else ''}.</p>"
    body = [(title, text) for title, text in sections if text]
    return page(f"{paper.key}, printed and measured", body, _opening(paper, content), note)


def _opening(paper: Printed, content: Content) -> str:
    verdicts = counts(content.claims)
    numbers = sum(len(beside.measured) for beside in content.tables)
    summary = ", ".join(f"{n} {in_number(verdict, n)}" for verdict, n in verdicts.items())
    return (
        f"<p>{html.escape(paper.citation)}</p><p>{html.escape(content.size)}</p>"
        f"<p><strong>Of {len(content.claims)} claims checked, {summary}.</strong> {_count(content.tables, 'table')}"
        f" with {numbers:,} measured numbers beside the printed ones, {_count(content.figures, 'figure')}.</p>"
    )


def _count(things: Sequence, name: str) -> str:
    return f"{len(things)} {name}{'' if len(things) == 1 else 's'}"


def in_number(verdict: str, count: int) -> str:
    """The verdict on so many claims: ``holds`` or ``hold``."""
    plural = {HOLDS: "hold", FAILS: "do not hold"}
    return verdict if count == 1 else plural.get(verdict, verdict)


def _differences(differences: Sequence[str | Fact]) -> str:
    facts = [fact for fact in differences if isinstance(fact, Fact)]
    heads = {"where": "where", "printed": "in the paper", "here": "here", "effect": "effect"}
    columns = {head: [Html(_text(getattr(fact, name))) for fact in facts] for name, head in heads.items()}
    others = [text for text in differences if not isinstance(text, Fact)]
    return (table(list(columns), columns) if facts else "") + _list(others)


def _text(text: str) -> Html:
    return Html(f'<div class="text">{html.escape(text)}</div>') if len(text) > 30 else Html(html.escape(text))


def _levels(levels: Sequence[Level]) -> str:
    if not levels:
        return ""
    columns = {
        "": [level.name for level in levels],
        "printed": [float(level.printed) for level in levels],
        "measured": [float(level.measured) for level in levels],
    }
    text = "<p>Claims about trained models say nothing where these numbers are far from the printed ones.</p>"
    return text + table(list(columns), columns)


def _claims(claims: Sequence[Finding]) -> str:
    rows = [
        {
            "": Html(f'<span title="{checked.verdict}">{SIGNS[checked.verdict]}</span>'),
            "claim": Html(f'<div class="text">{html.escape(checked.claim.says)}{_remark(checked)}</div>'),
            "verdict and statistics": Html(_parts(checked)),
        }
        for checked in claims
    ]
    if not rows:
        return ""
    return table(list(rows[0]), {name: [row[name] for row in rows] for name in rows[0]})


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
    lines = [f"{SIGNS[verdict]} {html.escape(_in_words(part))}" for verdict, part in order]
    text = "<br>".join(lines[:4])
    more = folded(f"{len(lines) - 4} more", "<br>".join(lines[4:])) if len(lines) > 4 else ""
    return f'<div class="text"><strong>{html.escape(finding.verdict)}</strong><br>{text}{more}</div>'


def _in_words(part: Part) -> str:
    value, low, high = part.interval
    shown = "undefined" if isnan(value) else f"{value:.3g}"
    if isnan(low) and not isnan(value):
        shown += " (too few for an interval)"
    elif low < high:
        shown += f" [{low:.3g}, {high:.3g}]"
    wanted = " and ".join(
        f"{sign}\N{NO-BREAK SPACE}{bound:.3g}"
        for sign, bound in ((">", part.above), ("<", part.below))
        if abs(bound) != float("inf")
    )
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


def _rule() -> str:
    return (
        "<p>The statistics and their thresholds are those of the paper where it states any, and otherwise ours, chosen"
        " for what the paper claims; some were corrected after earlier runs. Each statistic has a 90 % bootstrap"
        " interval: over seeds for statistics of settings, over members for those of members. A claim <em>holds</em> if"
        " the intervals of all its statistics lie on the expected side of their thresholds, <em>does not hold</em> if"
        " one lies on the other side, and <em>cannot be decided at this size</em> otherwise. If one lies on the other"
        " side, but models were trained or scored with less than the paper's protocol, it is <em>not seen at this"
        " size</em>: a small run never refutes a paper.</p>"
    )
