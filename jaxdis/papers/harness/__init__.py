"""What all papers share: printed numbers, studies and pieces, verdicts, and the page made of them."""

from jaxdis.papers.harness._beside import Beside, Measured
from jaxdis.papers.harness._differences import Fact, Level
from jaxdis.papers.harness._paper import Finished, Paper, Piece, Reproduction
from jaxdis.papers.harness._paper_page import Content, Figure
from jaxdis.papers.harness._presets import Preset, Run
from jaxdis.papers.harness._printed import Printed, printed_in
from jaxdis.papers.harness._reproduce import reproduce
from jaxdis.papers.harness._scale import Scale
from jaxdis.papers.harness._verdict import Finding, Part, exact

__all__ = [
    "Beside",
    "Content",
    "Fact",
    "Figure",
    "Finished",
    "Finding",
    "Level",
    "Measured",
    "Paper",
    "Part",
    "Piece",
    "Preset",
    "Printed",
    "Reproduction",
    "Run",
    "Scale",
    "exact",
    "printed_in",
    "reproduce",
]
