"""What chance gives: what the same codes score for factors whose samples are permuted, or whose series are shifted."""

import re
from typing import Literal, NamedTuple

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from jaxdis._core import random
from jaxdis._core.options import shown
from jaxdis.evaluation._member import Shared
from jaxdis.metrics._metric import metric_seed
from jaxdis.metrics._plan import Plan

SEED = metric_seed("null")
MOST_NULLS = 10**5
# As many shifts as ``"shift"`` alone draws.
SHIFTS = 100
# A shift by less than this share of a series leaves each sample beside others that resemble its own.
LEAST_SHIFT = 0.1


class Null(NamedTuple):
    """How chance is drawn: how often, and whether samples (or groups) are permuted or series are shifted."""

    count: int = 0
    kind: Literal["permutation", "shift"] = "permutation"

    @classmethod
    def of(cls, null, *, weights) -> "Null":
        """Read 20, ``"shift"``, ``"shift:20"`` or ``("shift", 20)``."""
        text = ":".join(map(str, null)) if isinstance(null, tuple | list) else str(null)
        found = re.fullmatch(r"(?:(permutation|shift)(?::|$))?(\d+)?", text)
        count = int(found[2] or SHIFTS) if found and text else -1
        if not 0 <= count <= MOST_NULLS:
            raise ValueError(
                f"null: must be a number of permutations from 0 to {MOST_NULLS:,}, or of shifts, such as "
                f"('shift', {SHIFTS}), got {shown(null)}"
            )
        if count and weights is not None:
            raise ValueError("null: must be left out with weights; draw samples in proportion to them, and score these")
        return cls(count, found[1] or "permutation")

    def rows(self, key: PRNGKeyArray, groups: np.ndarray | None, n: int):
        """Choose for each sample the one whose factors it gets, by number.

        Permuted groups exchange their samples in order; a longer group's last samples are left out, and a shorter group
        begins again. Shifts turn each group around by another amount, at least a tenth of its length, so that
        neighbors in time stay neighbors.

        Reference: Winkler et al. 2015 (whole blocks are permuted); Harris 2020 (permuted sessions and circular shifts,
        which hold for stationary series alone).
        """
        if self.kind == "permutation" and groups is None:
            return jax.random.permutation(key, n)
        groups = np.zeros(n, np.int32) if groups is None else groups
        rows, sizes = np.argsort(groups, kind="stable"), np.bincount(groups)
        starts, own = np.cumsum(sizes) - sizes, np.repeat(np.arange(len(sizes)), sizes)
        place = np.arange(n) - starts[own]
        if self.kind == "permutation":
            other = np.asarray(jax.random.permutation(key, len(sizes)))[own]
            taken = starts[other] + place % sizes[other]
        else:
            least = np.maximum(1, (LEAST_SHIFT * sizes).astype(int))
            draw = np.asarray(random.uniform(key, (len(sizes),)), np.float64)
            shift = least + (draw * np.maximum(1, sizes - 2 * least + 1)).astype(int)
            taken = starts[own] + (place + shift[own]) % sizes[own]
        found = np.empty(n, np.int32)
        found[rows] = rows[taken]
        return found


NO_NULL = Null()


def judged_by_chance(plan: Plan, null: int) -> Plan:
    """The metrics that have a null: those that read factors."""
    judged = tuple((name, metric) for name, metric in plan if metric.reads_factors)
    if null and not judged:
        raise ValueError(f"null: must have a metric that reads factors, got {', '.join(name for name, _ in plan)}")
    return judged


def permuted(shared: Shared, null: Null, number: int) -> Shared:
    """Give samples other samples' factors: all of a sample's factors together, within training and test samples."""
    key = jax.random.fold_in(jax.random.fold_in(shared.key, SEED), number)
    groups, found = None if shared.groups is None else np.asarray(shared.groups), {}
    for place, role in enumerate(("factors", "test_factors", "validation_factors")):
        if (factors := getattr(shared, role)) is not None:
            rows = null.rows(jax.random.fold_in(key, place), groups, factors.num_samples)
            found[role] = factors.take(rows)
    return shared._replace(**found)
