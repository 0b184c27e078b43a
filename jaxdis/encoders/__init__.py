"""Image encoders, scored: on samples that a data set renders, and by interventions in its simulator."""

from jaxdis.encoders._evaluate_encoder import evaluate_encoder
from jaxdis.encoders._evaluate_slots import Segmentation, Structured, evaluate_slots
from jaxdis.encoders._load import load
from jaxdis.encoders._simulated import (
    beta_vae,
    consistency,
    factor_vae,
    factored_components,
    flatness,
    irs,
    restrictiveness,
)

__all__ = ["Segmentation", "Structured", "beta_vae", "consistency", "evaluate_encoder", "evaluate_slots", "factor_vae"]
__all__ += ["factored_components", "flatness", "irs", "load", "restrictiveness"]
