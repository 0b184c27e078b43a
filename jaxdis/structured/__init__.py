"""Representations with structure: slots, objects, and what each level of a hierarchy says."""

from jaxdis.structured.permutations import best_orders, take_slots
from jaxdis.structured.probing import Probe, probe
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
from jaxdis.structured.segmentation import (
    Covering,
    OrderAgreement,
    ari,
    contingency,
    match_slots,
    mean_segmentation_covering,
    order_agreement,
)
from jaxdis.structured.structure import Structure
from jaxdis.structured.theorems import lower_bound, two_levels, upper_bound

__all__ = [
    "Covering",
    "OrderAgreement",
    "Probe",
    "Structure",
    "StructuredScore",
    "ari",
    "background",
    "best_orders",
    "completeness",
    "contingency",
    "disentanglement",
    "drop_small",
    "informativeness",
    "lower_bound",
    "match_slots",
    "mean_segmentation_covering",
    "order_agreement",
    "probe",
    "project",
    "score_of",
    "structured_score",
    "take_slots",
    "two_levels",
    "upper_bound",
]
