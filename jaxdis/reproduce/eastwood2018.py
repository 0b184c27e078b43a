"""What the reproduction of Eastwood & Williams 2018 runs: four models on teapots, trained without a part of them."""

from jaxdis.reproduce.paper import Piece, Size, Sources
from jaxdis.study.definition import Study
from jaxdis.study.eastwood2018.study import eastwood2018 as whole_study

SMALL = {"seeds": 3, "steps": 2000, "train_samples": 10_000, "test_samples": 2000, "validation_samples": 2000}


def studies(size: Size, sources: Sources) -> dict[str, Study]:
    """The paper's study, or a small one: narrow networks on images of 32 × 32 pixels, three seeds."""
    sizes = {} if size == "paper" else {**SMALL, "network": "narrow"}
    return {"teapots": whole_study(**sizes, sources=sources)}


def pieces(size: Size) -> dict[str, Piece]:
    """None: everything is in the study."""
    return {}
