"""Many representations × many metrics: inputs, execution, results, uncertainty, sensitivity, comparison."""

from jaxdis.evaluation._comparison import Comparison, compare
from jaxdis.evaluation._evaluate import blend_table, evaluate
from jaxdis.evaluation._monitor import Monitor
from jaxdis.evaluation._relate import relate
from jaxdis.evaluation._scores import Scores
from jaxdis.evaluation._sensitivity import Sensitivity, sensitivity
from jaxdis.evaluation._sweeps import sample_curve, sweep

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
    "sweep",
]
