"""What chance gives: what the same codes score for factors whose samples are permuted."""

import jax
import numpy as np

from jaxdis._core.options import checked_value
from jaxdis.evaluation._member import Shared
from jaxdis.metrics._metric import metric_seed
from jaxdis.metrics._plan import Plan

SEED = metric_seed("null")
MOST_PERMUTATIONS = 10**5
# Sums in another order differ by less, relative to scores near 1.
ROUNDING = 1e-5


def check_null(count, *, weights) -> int:
    """How many permutations to draw.

    Raises:
      ValueError: for another value, or with weights, which belong to a sample's codes and factors together.
    """
    count = checked_value("null", int, count)
    if not 0 <= count <= MOST_PERMUTATIONS:
        raise ValueError(f"null: must be a number of permutations from 0 to {MOST_PERMUTATIONS:,}, got {count}")
    if count and weights is not None:
        raise ValueError("null: must be left out with weights; draw samples in proportion to them, and score these")
    return count


def judged_by_chance(plan: Plan, null: int) -> Plan:
    """The metrics that have a null: those that read factors.

    Raises:
      ValueError: naming the metrics, if none does.
    """
    judged = tuple((name, metric) for name, metric in plan if metric.about is None or metric.about.reads_factors)
    if null and not judged:
        raise ValueError(f"null: must have a metric that reads factors, got {', '.join(name for name, _ in plan)}")
    return judged


def permuted(shared: Shared, number: int) -> Shared:
    """Give samples other samples' factors: all of a sample's factors together, within training and test samples."""
    key = jax.random.fold_in(jax.random.fold_in(shared.key, SEED), number)
    found = {}
    for place, role in enumerate(("factors", "test_factors", "validation_factors")):
        if (factors := getattr(shared, role)) is not None:
            found[role] = factors.take(jax.random.permutation(jax.random.fold_in(key, place), factors.num_samples))
    return shared._replace(**found)


def p_value(score, nulls: np.ndarray, *, error: bool) -> np.ndarray:
    """One plus how many nulls ``[…, count]`` are at least as good as ``score […]``, over one plus how many there are.

    An undefined null counts as one as good; an undefined score's p value is NaN.
    """
    sign = -1 if error else 1
    worse = sign * nulls < sign * np.asarray(score)[..., None] - ROUNDING
    return np.where(np.isnan(score), np.nan, (1 + (~worse).sum(axis=-1)) / (1 + nulls.shape[-1]))
