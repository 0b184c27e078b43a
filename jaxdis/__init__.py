"""Score thousands of representations at once with the metrics of the literature, and train zoos of models.

Every name is loaded on first use: ``import jaxdis`` is immediate, and scoring arrays loads no model.

Axis letters are the same everywhere:

====  =====================================
m     members (representations) of a zoo
n     samples
d     codes (latent coordinates)
k     ground-truth factors
b     bins
v     values of a factor
s     slots of an object-centric representation
====  =====================================

A *code* is one latent coordinate, a *factor* one ground-truth factor of variation. A *relation* is a matrix ``[d, k]``
of how strongly each code (row) encodes each factor (column); information is in nats. A *score* reduces a relation to
numbers, and a *metric* is a score of a relation or a function of the samples. An *option* is a static argument of any
of these. A *zoo* is a set of models, its *members*. A *method* is a kind of model together with its training; a
*variant* of a method is what a zoo sweeps under one name, such as an objective, and a *setting* is a variant with
values of its hyperparameters. A *slot* is one of several code vectors of an image, whose order has no meaning.
*Held-out* samples are those of the argument ``test``, on which learners are evaluated; *validation* samples are those
on which options are chosen. A *cell* is one result of a study, such as a trained member; in a space of factors it is
one combination of their values.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jaxdis import codes as codes
    from jaxdis import data as data
    from jaxdis import encoders as encoders
    from jaxdis import evaluation as evaluation
    from jaxdis import factors as factors
    from jaxdis import metrics as metrics
    from jaxdis import models as models
    from jaxdis import papers as papers
    from jaxdis import plots as plots
    from jaxdis import relations as relations
    from jaxdis import scores as scores
    from jaxdis import structured as structured
    from jaxdis import study as study
    from jaxdis._core.runtime import use_compilation_cache as use_compilation_cache
    from jaxdis._core.runtime import use_cpu_devices as use_cpu_devices
    from jaxdis._core.spec import Spec as Spec
    from jaxdis.encoders import evaluate_encoder as evaluate_encoder
    from jaxdis.evaluation import Scores as Scores
    from jaxdis.evaluation import blend_table as blend_table
    from jaxdis.evaluation import evaluate as evaluate
    from jaxdis.evaluation import relate as relate
    from jaxdis.evaluation import sample_curve as sample_curve
    from jaxdis.evaluation import sweep as sweep
    from jaxdis.factors import Factors as Factors
    from jaxdis.factors import Sample as Sample
    from jaxdis.metrics import METRICS as METRICS
    from jaxdis.metrics import Blend as Blend
    from jaxdis.metrics import Direct as Direct
    from jaxdis.relations import RELATIONS as RELATIONS
    from jaxdis.relations import Relation as Relation
    from jaxdis.scores import SCORES as SCORES
    from jaxdis.structured import evaluate_structured as evaluate_structured

__version__ = "0.1.0"

_SUBPACKAGES = frozenset(
    [
        "codes",
        "data",
        "encoders",
        "evaluation",
        "factors",
        "metrics",
        "models",
        "papers",
        "plots",
        "relations",
        "scores",
        "structured",
        "study",
    ]
)
# Where each public name comes from; the imports above are for type checkers.
_NAMES = {
    "jaxdis._core.runtime": ("use_compilation_cache", "use_cpu_devices"),
    "jaxdis._core.spec": ("Spec",),
    "jaxdis.encoders": ("evaluate_encoder",),
    "jaxdis.evaluation": ("Scores", "blend_table", "evaluate", "relate", "sample_curve", "sweep"),
    "jaxdis.factors": ("Factors", "Sample"),
    "jaxdis.metrics": ("METRICS", "Blend", "Direct"),
    "jaxdis.relations": ("RELATIONS", "Relation"),
    "jaxdis.scores": ("SCORES",),
    "jaxdis.structured": ("evaluate_structured",),
}
_HOME_OF = {name: home for home, names in _NAMES.items() for name in names}
__all__ = ["__version__", *_HOME_OF]

if not TYPE_CHECKING:  # to a type checker, a module with __getattr__ has every name

    def __getattr__(name: str):
        if name in _SUBPACKAGES:
            return importlib.import_module(f"jaxdis.{name}")
        if name in _HOME_OF:
            value = getattr(importlib.import_module(_HOME_OF[name]), name)
            globals()[name] = value
            return value
        raise AttributeError(f"module 'jaxdis' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Public names and subpackages, not the modules that happen to be loaded."""
    return sorted({*__all__, *_SUBPACKAGES})
