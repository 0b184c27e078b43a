"""Representations with structure: slots, objects, and what each level of a hierarchy says."""

from jaxdis.structured.projection import (
    StructuredScore,
    background,
    completeness,
    disentanglement,
    drop_small,
    informativeness,
    project,
    score_of,
    structured_score,
)
from jaxdis.structured.structure import Structure
from jaxdis.structured.theorems import lower_bound, two_levels, upper_bound

__all__ = [
    "Structure",
    "StructuredScore",
    "background",
    "completeness",
    "disentanglement",
    "drop_small",
    "informativeness",
    "lower_bound",
    "project",
    "score_of",
    "structured_score",
    "two_levels",
    "upper_bound",
]
