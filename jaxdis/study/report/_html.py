"""The HTML of a report: pictures inlined, text escaped, nothing fetched."""

import base64
import html
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

_STYLE = """
:root{color-scheme:light dark;--ink:#1a1a1a;--paper:#fff;--link:#14507a;--line:#ddd;--code:#f6f6f6}
@media(prefers-color-scheme:dark){:root{--ink:#e6e6e6;--paper:#161616;--link:#8ec5f0;--line:#444;--code:#242424}
img{background:#fff}}
body{font:16px/1.5 system-ui,sans-serif;margin:0 auto;max-width:62rem;padding:1rem;color:var(--ink);
background:var(--paper);overflow-wrap:break-word}
h1{line-height:1.2}a{color:var(--link)}dt{font-weight:600;margin-top:.6rem}dd{margin:0}
.side{display:flex;flex-wrap:wrap;gap:1rem;align-items:start}.side>*{margin:0;flex:1 1 18rem}
details{margin:.6rem 0}summary{cursor:pointer;font-weight:600}
h2{margin-top:2.5rem;border-top:1px solid var(--line);padding-top:1rem}
img{max-width:100%;height:auto}.wide{overflow-x:auto}
table{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .6rem;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}
td .text{white-space:normal;min-width:min(18rem,38vw);max-width:30rem;text-align:left}
th{white-space:normal;vertical-align:bottom;cursor:pointer;position:sticky;top:0;background:var(--paper)}td:first-child,th:first-child,.words{text-align:left}
nav ul{columns:2;padding-left:1.2rem}pre{background:var(--code);padding:1rem;overflow-x:auto;font-size:.8rem}
@media(max-width:40rem){nav ul{columns:1}body{font-size:15px}}
@media print{nav{display:none}h2{break-after:avoid}img,table{break-inside:avoid}.wide{overflow:visible}
th,td{white-space:normal;padding:.15rem .3rem}pre{white-space:pre-wrap}}
"""

# Tables are sorted by a click on a head; what is folded away is printed.
_SCRIPT = """
for(const head of document.querySelectorAll('th'))head.onclick=()=>{const body=head.closest('table').tBodies[0],
i=head.cellIndex,sign=head.dataset.sign=-(head.dataset.sign||1);[...body.rows].sort((a,b)=>{
const x=a.cells[i].innerText,y=b.cells[i].innerText;
return sign*(isNaN(x)||isNaN(y)?y.localeCompare(x):y-x)}).forEach(row=>body.append(row))};
onbeforeprint=()=>document.querySelectorAll('details').forEach(part=>part.open=true);
"""


class Html(str):
    """Text that is HTML already."""


class Picture(NamedTuple):
    """A figure with what it shows."""

    caption: str
    figure: Any


RESULTS_NOTE = '<p>All numbers: <a href="results.csv">results.csv</a>, a row for each member.</p>'


def page(title: str, sections: Sequence[tuple[str, str]], opening: str = "", note: str = RESULTS_NOTE) -> str:
    """A whole document from sections of (heading, HTML), with a table of contents and a note after its opening.

    Titles and headings are escaped, ``opening`` and ``note`` are HTML.
    """
    links = "".join(f'<li><a href="#s{i}">{html.escape(name)}</a></li>' for i, (name, _) in enumerate(sections))
    bodies = "".join(f'<h2 id="s{i}">{html.escape(name)}</h2>{body}' for i, (name, body) in enumerate(sections))
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style><main><h1>{html.escape(title)}</h1>"
        f"{opening}"
        f"<nav><ul>{links}</ul></nav>{note}"
        f"{bodies}"
        f"</main><script>{_SCRIPT}</script></html>\n"
    )


def table(names: Sequence[str], columns: Mapping[str, Sequence | np.ndarray]) -> str:
    """Columns as a table that is sorted by clicking a head; all text is escaped."""
    kinds = [' class="words"' if _has_words(columns[name]) else "" for name in names]
    head = "".join(f'<th scope="col"{kind}>{_cell(name)}</th>' for name, kind in zip(names, kinds, strict=True))
    rows = zip(*(columns[name] for name in names), strict=True)
    body = "".join(
        f"<tr>{''.join(f'<td{kind}>{_cell(value)}</td>' for value, kind in zip(row, kinds, strict=True))}</tr>"
        for row in rows
    )
    return f'<div class="wide" tabindex="0"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _has_words(values: Sequence | np.ndarray) -> bool:
    """Whether a column holds text, which is aligned to the left, under a head that is too."""
    return any('class="text"' in value if isinstance(value, Html) else isinstance(value, str) for value in values)


def _cell(value) -> str:
    if isinstance(value, Html):
        return value
    if isinstance(value, float | np.floating):
        return "" if np.isnan(value) else f"{value:.3g}"
    return html.escape(str(value))


def image(figure, alt: str) -> str:
    """A figure of matplotlib, or PNG bytes that were read from a file, inlined."""
    from jaxdis.plots._canvas import png  # matplotlib is not needed for tables

    content = figure if isinstance(figure, bytes) else png(figure)
    source = f"data:image/png;base64,{base64.b64encode(content).decode()}"
    return f'<p class="wide" tabindex="0"><img alt="{html.escape(alt)}" src="{source}"></p>'


def pictures(drawn: Sequence[Picture], shown: int = 1) -> str:
    """Pictures under their captions; all but the first few are folded away."""
    parts = [
        f"<p>{html.escape(picture.caption)}.</p>{image(picture.figure, picture.caption)}" for picture in drawn[:shown]
    ]
    rest = [folded(picture.caption, image(picture.figure, picture.caption)) for picture in drawn[shown:]]
    return "".join(parts + rest)


def side_by_side(*parts: str) -> str:
    """Parts in one row, or below one another where the window is narrow."""
    return f'<div class="side">{"".join(parts)}</div>'


def folded(title: str, body: str) -> str:
    """A part that opens on a click."""
    return f"<details><summary>{html.escape(title)}</summary>{body}</details>"
