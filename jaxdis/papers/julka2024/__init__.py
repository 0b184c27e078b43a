"""Julka et al. 2024: EDI, which metrics agree, and what each responds to."""

from jaxdis.papers.harness import Paper, Scale
from jaxdis.papers.julka2024 import _page, _run
from jaxdis.papers.julka2024._run import PRESET, calibration, julka2024

SIZES = {"hour": Scale(updates=70_000, seeds=3), "day": Scale()}
STUDIES = {"julka2024": julka2024, "calibration": calibration}
PAPER = Paper(__name__, _run.runs, _page.content, studies=STUDIES, preset=PRESET, sizes=SIZES)
__all__ = ["PAPER"]
