"""Score thousands of representations at once with the metrics of the literature, and train zoos of models.

Every name is loaded on first use: ``import jaxdis`` is immediate, and scoring arrays loads no model.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jaxdis import benchmark as benchmark
    from jaxdis import codes as codes
    from jaxdis import data as data
    from jaxdis import evaluation as evaluation
    from jaxdis import learners as learners
    from jaxdis import metrics as metrics
    from jaxdis import models as models
    from jaxdis import plots as plots
    from jaxdis import references as references
    from jaxdis import relations as relations
    from jaxdis import reproduce as reproduce
    from jaxdis import runtime as runtime
    from jaxdis import scores as scores
    from jaxdis import structured as structured
    from jaxdis import study as study
    from jaxdis.evaluation.encoder import evaluate_encoder
    from jaxdis.evaluation.evaluate import blend_table, evaluate, relate
    from jaxdis.evaluation.results import Scores
    from jaxdis.evaluation.sensitivity import sample_curve, sweep
    from jaxdis.metrics import METRICS, Blend, Direct
    from jaxdis.relations import RELATIONS, Relation
    from jaxdis.scores import SCORES
    from jaxdis.spec import Spec
    from jaxdis.structured.evaluate import evaluate_structured
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
    "evaluate_encoder",
    "evaluate_structured",
    "relate",
    "sample_curve",
    "sweep",
]


ROOMS = frozenset(
    {
        "benchmark",
        "codes",
        "data",
        "evaluation",
        "learners",
        "metrics",
        "models",
        "plots",
        "references",
        "relations",
        "reproduce",
        "runtime",
        "scores",
        "structured",
        "study",
    }
)

# Where each public name is defined; the imports above are for type checkers.
HOMES = {
    "jaxdis.evaluation.encoder": ("evaluate_encoder",),
    "jaxdis.evaluation.evaluate": ("blend_table", "evaluate", "relate"),
    "jaxdis.evaluation.results": ("Scores",),
    "jaxdis.evaluation.sensitivity": ("sample_curve", "sweep"),
    "jaxdis.metrics": ("METRICS", "Blend", "Direct"),
    "jaxdis.relations": ("RELATIONS", "Relation"),
    "jaxdis.scores": ("SCORES",),
    "jaxdis.spec": ("Spec",),
    "jaxdis.structured.evaluate": ("evaluate_structured",),
    "jaxdis.typing": ("Factors", "Sample"),
}
_HOME_OF = {name: home for home, names in HOMES.items() for name in names}


if not TYPE_CHECKING:  # to a type checker, a module with __getattr__ has every name

    def __getattr__(name: str):
        if name in ROOMS:
            return importlib.import_module(f"jaxdis.{name}")
        if name in _HOME_OF:
            value = getattr(importlib.import_module(_HOME_OF[name]), name)
            globals()[name] = value
            return value
        raise AttributeError(f"module 'jaxdis' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Public names and subpackages, not the modules that happen to be loaded."""
    return sorted({*__all__, *ROOMS})
