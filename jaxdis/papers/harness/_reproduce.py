"""Reproducing a paper: its studies, then its pieces, then its page. Everything that is finished is kept."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from jaxdis._core import runtime
from jaxdis._core.files import write_csv
from jaxdis._core.precision import single_precision
from jaxdis.papers.harness._beside import CsvRow, csv_rows
from jaxdis.papers.harness._differences import Fact, shortfalls
from jaxdis.papers.harness._paper import Paper, Reproduction, Size, Sources, kept
from jaxdis.papers.harness._paper_page import Content, render
from jaxdis.papers.harness._printed import printed_in
from jaxdis.papers.harness._scale import Scale
from jaxdis.study._run_study import run
from jaxdis.study._store import Store, publish
from jaxdis.study._work import work_of

Step = Callable[[str, str, Any], None]


class ClaimRow(NamedTuple):
    """A claim's statistic, what is expected from it, the verdicts on both, and what its models lack."""

    claim: str
    verdict: str
    statistic: str
    value: float
    low: float
    high: float
    above: float
    below: float
    part_verdict: str
    unmet: str


@single_precision
def reproduce(
    paper: Paper,
    out: str | Path,
    *,
    size: Size = "minutes",
    sources: Sources = None,
    scale: Scale | None = None,
    step: Step | None = None,
) -> Path:
    """Run what is missing and write ``page.html``, ``tables.csv`` and ``claims.csv``; returns the path of the page.

    Args:
      paper: a row in :data:`jaxdis.papers.PAPERS`.
      out: folder; studies are in folders of their own below. Run again after any failure: finished cells and pieces are
        kept.
      size: ``minutes`` for small forms, ``paper`` for the published protocol; ``hour`` and ``day`` for as much of it as
        one H100 is estimated to run in that time.
      sources: official files by data set.
      scale: what changes in that size, such as ``Scale(updates=10_000, seeds=1)``.
      step: ``step("study", name, study)`` runs one study in ``out / name``; None: :func:`jaxdis.study.run`
        and the study's report. It is also called with ``"piece"`` and the piece, before that is computed.

    Raises:
      StoreError: if a folder below holds another study.
      ValueError: for a data set that the paper does not have.
    """
    out = Path(out)
    studies, planned_pieces = paper.planned(size, sources, scale or Scale())
    for name, study in studies.items():
        (step or _plain_step(out))("study", name, study)
    pieces = {}
    for name, piece in planned_pieces.items():
        if step is not None:
            step("piece", name, piece)
        pieces[name] = kept(piece, out / "pieces" / f"{name}.json", studies, out)
        runtime.forget_programs_if_many()
    published = studies if size == "paper" and scale is None else paper.runs("paper", sources)
    return write(paper, Reproduction(size, out, studies, pieces, published))


def write(paper: Paper, made: Reproduction) -> Path:
    """The page and its numbers, from what is finished."""
    content = judged(paper.content(made), made)
    path = made.out / "page.html"
    page = render(printed_in(paper.package), content, list(made.studies))
    write_csv(made.out / "tables.csv", CsvRow._fields, (row for beside in content.tables for row in csv_rows(beside)))
    write_csv(made.out / "claims.csv", ClaimRow._fields, _claims(content))
    publish(path, page.encode(), replace=True)
    return path


def judged(content: Content, made: Reproduction) -> Content:
    """The content with what each study lacks of the published one, as differences and as its claims' needs."""
    lacking = {name: shortfalls(study, made.published.get(name)) for name, study in made.studies.items()}
    many = sum(map(bool, lacking.values())) > 1
    facts = [
        fact._replace(where=f"{name}: {fact.where}" if many else fact.where)
        for name, found in lacking.items()
        for fact in found
    ]
    claims = [
        finding._replace(unmet=(*finding.unmet, *map(_unmet, lacking.get(finding.study, ()))))
        for finding in content.claims
    ]
    return content._replace(differences=[*facts, *content.differences], claims=claims)


def _unmet(fact: Fact) -> str:
    return f"{fact.where}: {fact.here} for {fact.printed}"


def _plain_step(out: Path) -> Step:
    def step(kind: str, name: str, study) -> None:
        work = work_of(study)
        run(work, out / name, extend=Store(out / name).described)
        work.report(Store(out / name))

    return step


def _claims(content: Content) -> Iterator[ClaimRow]:
    for finding in content.claims:
        for part in finding.parts:
            verdicts = finding.verdict_of(part), "; ".join(finding.unmet)
            yield ClaimRow(
                finding.claim.id, finding.verdict, part.name, *part.interval, part.above, part.below, *verdicts
            )
