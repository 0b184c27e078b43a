"""Score thousands of representations at once with the metrics of the literature; train the zoos they come from."""

import importlib

from jaxdis.evaluation.evaluate import blend_table, evaluate, relate
from jaxdis.evaluation.results import Scores
from jaxdis.evaluation.sensitivity import sample_curve, sweep
from jaxdis.metrics import METRICS, Blend, Direct
from jaxdis.relations import RELATIONS, Relation
from jaxdis.scores import SCORES
from jaxdis.spec import Spec
from jaxdis.typing import Factors, Sample

__version__ = "0.1.0"
__all__ = [
    "METRICS",
    "RELATIONS",
    "SCORES",
    "Blend",
    "Direct",
    "Factors",
    "Relation",
    "Sample",
    "Scores",
    "Spec",
    "__version__",
    "blend_table",
    "evaluate",
    "evaluate_structured",
    "relate",
    "sample_curve",
    "sweep",
]


ROOMS = frozenset(
    {
        "codes",
        "data",
        "evaluation",
        "learners",
        "metrics",
        "models",
        "plots",
        "relations",
        "runtime",
        "scores",
        "structured",
        "study",
    }
)


def __getattr__(name: str):
    """``jaxdis.data``, ``jaxdis.models``, … on first use: scoring arrays needs none of them."""
    if name in ROOMS:
        return importlib.import_module(f"jaxdis.{name}")
    if name == "evaluate_structured":
        return importlib.import_module("jaxdis.structured.evaluate").evaluate_structured
    raise AttributeError(f"module 'jaxdis' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Public names and rooms, not the modules that happen to be loaded."""
    return sorted({*__all__, *ROOMS})
