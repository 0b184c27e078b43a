"""Dang-Nhu 2022: how disentangled representations by slots are, at every level of structure."""

from jaxdis.papers.dangnhu2022 import _page, _run
from jaxdis.papers.dangnhu2022._run import PRESET, dangnhu2022
from jaxdis.papers.harness import Paper, Scale

SIZES = {"hour": Scale(updates=1_000, seeds=1, data=("multi_dsprites",)), "day": Scale(updates=28_000, seeds=1)}
PAPER = Paper(__name__, _run.runs, _page.content, _run.pieces, {"dangnhu2022": dangnhu2022}, PRESET, SIZES)
__all__ = ["PAPER"]
