"""The metrics of the literature: one table of all of them, METRICS, and those that are not a score of a relation."""

from jaxdis.metrics import (
    downstream,
    generalization,
    interventions,
    knockout,
    probes,
    single_neuron,
    unsupervised,
)
from jaxdis.metrics.metric import Blend, Direct, Metric
from jaxdis.metrics.table import METRICS

__all__ = [
    "METRICS",
    "Blend",
    "Direct",
    "Metric",
    "downstream",
    "generalization",
    "interventions",
    "knockout",
    "probes",
    "single_neuron",
    "unsupervised",
]
