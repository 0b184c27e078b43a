"""Locatello et al. 2020: six objectives, six strengths, fifty seeds, and what their metrics measure."""

from jaxdis.papers.harness import Paper, Scale
from jaxdis.papers.locatello2020 import _page, _run
from jaxdis.papers.locatello2020._run import PRESET, locatello2020

SIZES = {"hour": Scale(updates=7_000, seeds=3), "day": Scale(updates=170_000, seeds=3)}
PAPER = Paper(__name__, _run.runs, _page.content, _run.pieces, {"locatello2020": locatello2020}, PRESET, SIZES)
__all__ = ["PAPER"]
