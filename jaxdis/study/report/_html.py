"""The HTML of a report: pictures inlined, text escaped, nothing fetched."""

import base64
import html
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, NamedTuple

import numpy as np


class Html(str):
    """Text that is HTML already."""


class Picture(NamedTuple):
    caption: str
    figure: Any


RESULTS_NOTE = '<p>All numbers: <a href="results.csv">results.csv</a>, a row for each member.</p>'


def page(title: str, sections: Sequence[tuple[str, str]], opening: str = "", note: str = RESULTS_NOTE) -> str:
    """A whole document from sections of (heading, HTML), with a table of contents and a note after its opening.

    Titles and headings are escaped, ``opening`` and ``note`` are HTML. Sections without text are left out.
    """
    sections = [(name, body) for name, body in sections if body]
    links = "".join(f'<li><a href="#s{i}">{html.escape(name)}</a></li>' for i, (name, _) in enumerate(sections))
    bodies = "".join(f'<h2 id="s{i}">{html.escape(name)}</h2>{body}' for i, (name, body) in enumerate(sections))
    # Tables are sorted by a click on a head; what is folded away is printed.
    style, script = (resources.files(__package__).joinpath(name).read_text() for name in ("page.css", "page.js"))
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>\n{style}</style><main><h1>{html.escape(title)}</h1>{opening}"
        f"<nav><ul>{links}</ul></nav>{note}{bodies}</main><script>\n{script}</script></html>\n"
    )


def table(names: Sequence[str], columns: Mapping[str, Sequence | np.ndarray]) -> str:
    """Columns as a table that is sorted by clicking a head; all text is escaped."""
    # Text is aligned to the left, under a head that is too.
    kinds = [' class="words"' if any(map(_is_words, columns[name])) else "" for name in names]
    head = "".join(f'<th scope="col"{kind}>{_cell(name)}</th>' for name, kind in zip(names, kinds, strict=True))
    rows = zip(*(columns[name] for name in names), strict=True)
    cells = ("".join(f"<td{kind}>{_cell(value)}</td>" for value, kind in zip(row, kinds, strict=True)) for row in rows)
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    return f'<div class="wide" tabindex="0"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def table_of(rows: Sequence) -> str:
    """Named tuples of one kind as :func:`table`."""
    names = rows[0]._fields if rows else ()
    return table(names, {name: [getattr(row, name) for row in rows] for name in names})


def listed(sentences: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{html.escape(sentence)}.</li>' for sentence in sentences)}</ul>"


def _is_words(value) -> bool:
    return 'class="text"' in value if isinstance(value, Html) else isinstance(value, str)


def _cell(value) -> str:
    if isinstance(value, Html):
        return value
    if isinstance(value, float | np.floating):
        return "" if np.isnan(value) else f"{value:.3g}"
    return html.escape(str(value))


def image(figure, alt: str) -> str:
    """A figure of matplotlib, or PNG bytes that were read from a file, inlined.

    On a dark page, figures are shown with their lightness inverted, but for those that hold photographs.
    """
    from jaxdis.plots import png  # matplotlib is not needed for tables

    content = figure if isinstance(figure, bytes) else png(figure)
    source = f"data:image/png;base64,{base64.b64encode(content).decode()}"
    shown = [] if isinstance(figure, bytes) else [image for axes in figure.axes for image in axes.images]
    photographs = any(np.ndim(image.get_array()) == 3 or image.get_cmap().name == "gray" for image in shown)
    kind = "" if isinstance(figure, bytes) or photographs else ' class="drawn"'
    return f'<p class="wide" tabindex="0"><img{kind} alt="{html.escape(alt)}" src="{source}"></p>'


def pictures(drawn: Sequence[Picture], shown: int = 1) -> str:
    """Pictures under their captions; all but the first few are folded away."""
    parts = [f"<p>{html.escape(caption)}.</p>{image(figure, caption)}" for caption, figure in drawn[:shown]]
    rest = [folded(caption, image(figure, caption)) for caption, figure in drawn[shown:]]
    return "".join(parts + rest)


def folded(title: str, body: str) -> str:
    """A part that opens on a click."""
    return f"<details><summary>{html.escape(title)}</summary>{body}</details>"
