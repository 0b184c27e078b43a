"""Many representations × many metrics: inputs, execution, results, uncertainty, sensitivity, comparison."""

from jaxdis.evaluation._comparison import Comparison, compare
from jaxdis.evaluation._evaluate import Monitor, blend_table, evaluate, relate
from jaxdis.evaluation._scores import Scores
from jaxdis.evaluation._sensitivity import Sensitivity, sample_curve, sensitivity

__all__ = [
    "Comparison",
    "Monitor",
    "Scores",
    "Sensitivity",
    "blend_table",
    "compare",
    "evaluate",
    "relate",
    "sample_curve",
    "sensitivity",
]
