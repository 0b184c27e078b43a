"""A table of any text and numbers as HTML for notebooks; everything in it is escaped."""

import html
import numbers
from collections.abc import Iterable, Sequence

# Rows of a table in a notebook.
MOST_ROWS = 30


def html_table(title: str, head: Sequence[str], rows: Iterable[Sequence], notes: Iterable[str] = ()) -> str:
    """A title, a table, and notes in a list below it; at most ``MOST_ROWS`` rows, and how many more there are."""
    rows = list(rows)
    if len(rows) > MOST_ROWS:
        notes = [f"{len(rows) - MOST_ROWS:,} more rows are not shown.", *notes]
    words = [any(isinstance(row[place], str) for row in rows) for place in range(len(head))]
    cells = "".join(_row("td", row, words) for row in rows[:MOST_ROWS])
    below = "".join(f"<li>{html.escape(note)}</li>" for note in notes)
    return (
        f'<div style="overflow-x:auto"><p>{html.escape(title)}</p><table><thead>{_row("th", head, words)}</thead>'
        f"<tbody>{cells}</tbody></table>{below and f'<ul>{below}</ul>'}</div>"
    )


def _row(tag: str, cells: Sequence, words: Sequence[bool]) -> str:
    """A row whose text columns are aligned to the left."""
    sides = ["left" if left else "right" for left in words]
    texts = [html.escape(cell_text(cell)) for cell in cells]
    marked = [
        f'<{tag} style="text-align:{side};padding:.1em .5em">{text}</{tag}>'
        for side, text in zip(sides, texts, strict=True)
    ]
    return f"<tr>{''.join(marked)}</tr>"


def cell_text(cell) -> str:
    """Three digits of a real number, nothing for NaN and None, and anything else as it prints."""
    if cell is None or cell != cell:
        return ""
    real = isinstance(cell, numbers.Real) and not isinstance(cell, numbers.Integral)
    return f"{float(cell):.3f}" if real else str(cell)
