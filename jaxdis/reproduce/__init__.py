"""Reproductions of papers: every table next to the printed one, every claim with a verdict, on one page per paper.

``reproduce(REPRODUCTIONS["locatello2020"], "papers/locatello2020")`` does what ``jaxdis reproduce locatello2020 --out
papers`` does. For each paper, one module states what is run, one what its claims are, and one what is on its page.
"""

from jaxdis.reproduce.paper import Piece, Reproducible, Reproduction
from jaxdis.reproduce.papers import REPRODUCTIONS
from jaxdis.reproduce.run import reproduce

__all__ = ["REPRODUCTIONS", "Piece", "Reproducible", "Reproduction", "reproduce"]
