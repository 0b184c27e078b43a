"""The table of results, and how much of the scores' variance the settings explain."""

import csv
import math
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jaxdis.study.report.correlation import Table


class Explained(NamedTuple):
    """Shares of a score's variance over members: by objective alone, and by objective × strength."""

    objective: float
    objective_and_strength: float


def read_results(path: str | Path) -> dict[str, np.ndarray]:
    """``results.csv`` as columns: floats where every entry is a number (or empty, which is NaN), else text."""
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {name: _column([row[name] for row in rows]) for name in (rows[0] if rows else {})}


def variance_explained(table: Table, name: str) -> Explained:
    """Shares of a score's variance that ordinary least squares on one-hot groups explains (Locatello et al. 2020,
    Table 5): the variance of the groups' means over that of the scores."""
    scores = table[name]
    objective = np.asarray(table["objective"]).astype(str)
    both = np.array([f"{o} {s:g}" for o, s in zip(objective, strengths(table), strict=True)])
    return Explained(_between(scores, objective), _between(scores, both))


def strengths(table: Table) -> np.ndarray:
    """The value of the setting over which each member's objective is swept."""
    from jaxdis.models import OBJECTIVES

    return np.array([float(table[OBJECTIVES[str(name)].swept][row]) for row, name in enumerate(table["objective"])])


def _between(scores: np.ndarray, groups: np.ndarray) -> float:
    known = np.isfinite(scores)
    scores, groups = scores[known], groups[known]
    if len(scores) < 2 or np.ptp(scores) == 0:
        return math.nan
    means = np.zeros_like(scores)
    for group in np.unique(groups):
        means[groups == group] = scores[groups == group].mean()
    return float(means.var() / scores.var())


def _column(texts: list[str]) -> np.ndarray:
    try:
        return np.array([float(text) if text else math.nan for text in texts])
    except ValueError:
        return np.array(texts)
