"""The table of results, and how much of the scores' variance the settings explain."""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from jaxdis._core.finite import finite
from jaxdis.models import Variant
from jaxdis.study.report._seed_statistics import Table


class Explained(NamedTuple):
    """Shares of a score's variance over members: by model alone, and by model × regularization."""

    model: float
    model_and_regularization: float


def variance_explained(table: Table, name: str, regularization: np.ndarray) -> Explained:
    """Shares of a score's variance that ordinary least squares on one-hot groups explains (Locatello et al. 2020,
    Table 5): the variance of the groups' means over that of the scores; NaN where every group has one member.
    ``regularization`` is that of each member."""
    scores = table[name]
    model = np.asarray(table["model"]).astype(str)
    both = np.array([f"{m} {s:g}" for m, s in zip(model, regularization, strict=True)])
    return Explained(_between(scores, model), _between(scores, both))


def regularizations(table: Table, variants: Mapping[str, Variant]) -> np.ndarray:
    """The value of the setting over which each member's model is swept; 0 for models without such a setting."""
    swept = [variants[str(name)].swept for name in table["model"]]
    return np.array([float(table[setting][row]) if setting in table else 0.0 for row, setting in enumerate(swept)])


def varies(column: np.ndarray) -> bool:
    """Whether at least two numbers are defined and differ."""
    defined = finite(column)
    return len(defined) > 1 and bool(np.ptp(defined) > 0)


def _between(scores: np.ndarray, groups: np.ndarray) -> float:
    defined = np.isfinite(scores)
    scores, groups = scores[defined], groups[defined]
    names = np.unique(groups)
    if len(names) == len(scores) or np.ptp(scores) == 0:
        return math.nan
    means = np.zeros_like(scores)
    for group in names:
        means[groups == group] = scores[groups == group].mean()
    return float(means.var() / scores.var())
