"""Reproducing a paper: its studies, then its pieces, then its page. Everything that is finished is kept."""

import csv
import io
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from jaxdis.reproduce.beside import csv_rows
from jaxdis.reproduce.page import Content, render
from jaxdis.reproduce.paper import Reproducible, Reproduction, Size, Sources, kept
from jaxdis.study.published import published
from jaxdis.study.store import Store, publish

Step = Callable[[str, str, Any], None]


def reproduce(
    paper: Reproducible,
    out: str | Path,
    *,
    size: Size = "minutes",
    sources: Sources = None,
    step: Step | None = None,
) -> Path:
    """Run what is missing and write ``page.html``, ``tables.csv`` and ``claims.csv``; returns the path of the page.

    Args:
      paper: a row of :data:`jaxdis.reproduce.papers.REPRODUCTIONS`.
      out: folder; studies are in folders of their own below. Run again after any failure: finished cells and pieces are
        kept.
      size: ``minutes`` for small forms, ``paper`` for the published protocol.
      sources: official files by data set.
      step: ``step("study", name, study)`` runs one study in ``out / name``; None: :func:`jaxdis.study.run.run` and the
        study's report. It is also called with ``"piece"`` and the piece, before that is computed.

    Raises:
      StoreError: if a folder below holds another study.
    """
    out = Path(out)
    studies = paper.studies(size, sources)
    for name, study in studies.items():
        (step or _plain_step(out))("study", name, study)
    pieces = {}
    for name, piece in paper.pieces(size).items():
        if step is not None:
            step("piece", name, piece)
        pieces[name] = kept(piece, out / "pieces" / f"{name}.json", studies, out)
    return write(paper, Reproduction(size, out, studies, pieces))


def write(paper: Reproducible, made: Reproduction) -> Path:
    """The page and its numbers, from what is finished."""
    content = paper.content(made)
    path = made.out / "page.html"
    files = {
        "tables.csv": _csv([row for beside in content.tables for row in csv_rows(beside)]),
        "claims.csv": _csv(list(_claims(content))),
        "page.html": render(published(paper.key), content, list(made.studies)).encode(),
    }
    for name, text in files.items():
        publish(made.out / name, text, replace=True)
    return path


def _plain_step(out: Path) -> Step:
    from jaxdis.study.run import run

    def step(kind: str, name: str, study) -> None:
        run(study, out / name)
        study.work().report(Store(out / name))

    return step


def _claims(content: Content) -> Iterator[dict]:
    for one in content.claims:
        for part in one.parts:
            yield {
                "claim": one.claim.id,
                "verdict": one.verdict,
                "statistic": part.name,
                "value": part.found.value,
                "low": part.found.low,
                "high": part.found.high,
                "above": part.above,
                "below": part.below,
                "part_verdict": part.verdict,
            }


def _csv(rows: list[Mapping]) -> bytes:
    text = io.StringIO()
    if rows:
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return text.getvalue().encode()
