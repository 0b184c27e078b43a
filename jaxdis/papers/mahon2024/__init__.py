"""Mahon et al. 2024: SNC and NK, and what metrics miss on new combinations of factors."""

from jaxdis.papers.harness import Paper, Scale
from jaxdis.papers.mahon2024 import _page, _run
from jaxdis.papers.mahon2024._run import PRESET, Combinations, mahon2024
from jaxdis.papers.mahon2024._tables import CombinationsWork
from jaxdis.study import WORKS

WORKS[Combinations] = CombinationsWork
SIZES = {"hour": Scale(updates=11_500, seeds=3), "day": Scale(updates=280_000, seeds=3)}
PAPER = Paper(__name__, _run.runs, _page.content, _run.pieces, {"mahon2024": mahon2024}, PRESET, SIZES)
__all__ = ["PAPER"]
