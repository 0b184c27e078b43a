"""Structured representations: slots in any order, objects, and scores at each level of a hierarchy."""

from jaxdis.scores._structure import Structure
from jaxdis.scores._structured_score import (
    StructuredScore,
    background,
    completeness,
    disentanglement,
    drop_small,
    informativeness,
    lower_bound,
    project,
    score_of,
    structured_score,
    two_levels,
    upper_bound,
)
from jaxdis.structured._evaluate_structured import evaluate_structured
from jaxdis.structured._identifiability import Identified, block_identifiability, slot_identifiability
from jaxdis.structured._probing import Probe, best_orders, probe, take_slots
from jaxdis.structured._segmentation import (
    Covering,
    OrderAgreement,
    ari,
    contingency,
    match_slots,
    mean_segmentation_covering,
    order_agreement,
)

__all__ = ["Covering", "Identified", "OrderAgreement", "Probe", "Structure", "StructuredScore", "ari", "background"]
__all__ += ["block_identifiability", "best_orders", "completeness", "contingency", "disentanglement", "drop_small"]
__all__ += ["evaluate_structured", "informativeness", "lower_bound", "match_slots", "mean_segmentation_covering"]
__all__ += ["order_agreement", "probe", "project", "score_of", "slot_identifiability", "structured_score", "take_slots"]
__all__ += ["two_levels", "upper_bound"]
