"""What the reproduction of Eastwood & Williams 2018 runs: four models on teapots, trained without a part of them."""

from jaxdis.papers.eastwood2018._study import eastwood2018 as whole_study
from jaxdis.papers.harness._paper import Size, Sources
from jaxdis.study._definition import Study

SMALL = {"seeds": 3, "steps": 2000, "train_samples": 10_000, "test_samples": 2000, "validation_samples": 2000}


def runs(size: Size, sources: Sources) -> dict[str, Study]:
    """The paper's study, or a small one: narrow networks on images of 32 × 32 pixels, three seeds."""
    # One run, as in the paper, has no interval, and would decide no claim.
    sizes = {"seeds": 3} if size == "paper" else {**SMALL, "network": "narrow"}
    return {"teapots": whole_study(**sizes, sources=sources)}
