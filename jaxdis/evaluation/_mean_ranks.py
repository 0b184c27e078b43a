"""How sets rank across data sets, and how far they must lie apart: Friedman's and Nemenyi's tests."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxdis._core.finite import mean
from jaxdis._core.lookup import some_of
from jaxdis.evaluation._score_sets import ScoreSet, column_of, lower_is_better

LEVEL = 0.05


class MeanRanks(NamedTuple):
    """Sets ranked by a column, over data sets.

    Attributes:
      metric: the column.
      ranks: each set's mean rank by name; 1 is best, NaN for fewer than two data sets.
      p: p-value by Friedman's test that all sets are alike.
      critical: sets whose mean ranks are at least this far apart differ, at .05 for all pairs together (Nemenyi).
      blocks: how many data sets; those for which all sets have a number.
    """

    metric: str
    ranks: dict[str, float]
    p: float
    critical: float
    blocks: int

    def sentence(self) -> str:
        """Say which sets are best across data sets."""
        if self.blocks < 2:
            return f"{self.metric}: no ranks; fewer than two data sets have a number in every set"
        order = sorted(self.ranks, key=self.ranks.get)
        ranks = some_of([f"{name} {self.ranks[name]:.2g}" for name in order])
        far = [name for name in order if self.ranks[name] - self.ranks[order[0]] >= self.critical]
        verdict = f"{some_of(far)} surely behind {order[0]}" if far and self.p < LEVEL else "no sure difference"
        return f"{self.metric}: mean ranks over {self.blocks} data sets: {ranks} (p = {self.p:.2g}; {verdict})"


def mean_ranks(sets: Sequence[ScoreSet], columns: Sequence[str], across: str) -> tuple[MeanRanks, ...]:
    """Rank the sets by their means at each value in a metadata column."""
    values = [column_of(one, across, "across") for one in sets]
    blocks = [value for value in dict.fromkeys(values[0]) if all(value in own for own in values)]
    if len(sets) < 3 or len(blocks) < 2:
        raise ValueError(
            f"across: must have at least three sets and two values that all have, got {len(sets)} and {len(blocks)}"
        )
    rows = [[[place for place, each in enumerate(own) if each == block] for block in blocks] for own in values]
    from scipy import stats

    found = []
    for column in columns:
        means = np.array(
            [[mean(one.scores[column][places]) for places in own] for one, own in zip(sets, rows, strict=True)]
        )
        means = means[:, np.isfinite(means).all(axis=0)]
        count, p, critical, ranks = means.shape[1], math.nan, math.nan, np.full(len(sets), math.nan)
        if count > 1:
            sign = 1 if lower_is_better(column) else -1
            ranks = np.stack([stats.rankdata(sign * block) for block in means.T], axis=1).mean(axis=1)
            # Where all sets tie everywhere, Friedman's statistic is 0 / 0.
            p = float(stats.friedmanchisquare(*means).pvalue) if np.ptp(means, axis=0).any() else 1.0
            quantile = stats.studentized_range.isf(LEVEL, len(sets), np.inf) / math.sqrt(2)
            critical = float(quantile * math.sqrt(len(sets) * (len(sets) + 1) / (6 * count)))
        names = [one.name for one in sets]
        found.append(MeanRanks(column, dict(zip(names, ranks.tolist(), strict=True)), p, critical, count))
    return tuple(found)
