"""What all papers share: printed numbers, studies and pieces, verdicts, and the page made of them."""

from jaxdis.papers.harness._page import Beside, Content, Figure, Measured
from jaxdis.papers.harness._paper import Finished, Paper, Piece, Preset, Reproduction, Run, reproduce
from jaxdis.papers.harness._printed import Printed, printed_in
from jaxdis.papers.harness._scale import Fact, Level, Scale
from jaxdis.papers.harness._verdict import Finding, Part, exact

__all__ = ["Beside", "Content", "Fact", "Figure", "Finished", "Finding", "Level", "Measured", "Paper", "Part", "Piece"]
__all__ += ["Preset", "Printed", "Reproduction", "Run", "Scale", "exact", "printed_in", "reproduce"]
