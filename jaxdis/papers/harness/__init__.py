"""What all papers share: printed numbers, studies and pieces, verdicts, and the page made of them."""

from jaxdis.papers.harness._paper import Finished, Paper, Piece, Reproduction
from jaxdis.papers.harness._presets import Preset, Run
from jaxdis.papers.harness._reproduce import reproduce

__all__ = ["Finished", "Paper", "Piece", "Preset", "Reproduction", "Run", "reproduce"]
