"""Eastwood & Williams 2018: DCI, and zero-shot transfer of PCA, VAEs and InfoGAN on teapots."""

from jaxdis.papers.eastwood2018 import _page, _run
from jaxdis.papers.eastwood2018._run import Teapots, TeapotsWork, eastwood2018
from jaxdis.papers.harness import Paper, Scale
from jaxdis.study import WORKS

WORKS[Teapots] = TeapotsWork
SIZES = {"hour": Scale(updates=1_500), "day": Scale(updates=45_000)}
PAPER = Paper(__name__, _run.runs, _page.content, studies={"eastwood2018": eastwood2018}, sizes=SIZES)
__all__ = ["PAPER"]
