"""The table of results, and how much of the scores' variance the settings explain."""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from jaxdis._core.finite import finite, mean
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
    return Explained(*(between(table[name], groups_of(table["model"], by))[0] for by in (None, regularization)))


def groups_of(models, regularization) -> np.ndarray:
    """Each member's group: its model, or with ``regularization`` its model and that; None for the model alone."""
    if regularization is None:
        return np.asarray(models).astype(str)
    return np.array([f"{model} {setting:g}" for model, setting in zip(models, regularization, strict=True)])


def between(scores: np.ndarray, groups: np.ndarray) -> tuple[float, int, int]:
    """The share of the scores' variance that lies between groups, and how many groups and members have a score.

    NaN where all scores are equal, or every group has one member, so that groups would explain anything.
    """
    defined = np.isfinite(scores)
    scores, groups = scores[defined], groups[defined]
    names, number = np.unique(groups, return_inverse=True)
    if len(names) == len(scores) or np.ptp(scores) == 0:
        return math.nan, len(names), len(scores)
    means = np.array([mean(scores[number == group]) for group in range(len(names))])
    return float(means[number].var() / scores.var()), len(names), len(scores)


def regularizations(table: Table, variants: Mapping[str, Variant]) -> np.ndarray:
    """The value of the setting over which each member's model is swept; 0 for models without such a setting."""
    swept = [variants[str(name)].swept for name in table["model"]]
    return np.array([float(table[setting][row]) if setting in table else 0.0 for row, setting in enumerate(swept)])


def varies(column: np.ndarray) -> bool:
    """Whether at least two numbers are defined and differ."""
    defined = finite(column)
    return len(defined) > 1 and bool(np.ptp(defined) > 0)
