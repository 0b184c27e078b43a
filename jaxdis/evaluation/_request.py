"""A request: what an evaluation is asked for, checked once; all passes of the run read this one value."""

import dataclasses
import os
import re
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from jaxdis._core import random, runtime
from jaxdis._core.arrays import LARGEST, SMALLEST
from jaxdis._core.display import Progress
from jaxdis._core.executor import take
from jaxdis._core.options import Count, checked_devices, checked_value, shown, some_of
from jaxdis.codes import stack
from jaxdis.evaluation._costs import Load, OnMemory, Size, affordable
from jaxdis.evaluation._groups import check_groups
from jaxdis.evaluation._inputs import bind, is_pair
from jaxdis.evaluation._member import MemberCodes, Shared
from jaxdis.evaluation._relation_parts import check_gaps, pieces_of
from jaxdis.evaluation._score_core import NAME, member_rows
from jaxdis.metrics._metric import divided, metric_seed
from jaxdis.metrics._plan import Plan, check_circular, check_plan, left_out_of, plan_of, preset_metrics

PACKAGE = __name__.partition(".")[0]
# Numbers of codes that are looked at together for a warning.
AT_ONCE = 1 << 24
MOST_REPLICATES = 10**6
# Numbers of relations, of all members and replicates together, that are kept: 64 MB.
MOST_KEPT = 1 << 24
NULL_SEED = metric_seed("null")
MOST_NULLS = 10**5
# As many shifts as ``"shift"`` alone draws.
SHIFTS = 100
# A shift by less than this share of a series leaves each sample beside others that resemble its own.
LEAST_SHIFT = 0.1
# What arguments that are no arrays may be, and their defaults, which need no check.
_OPTIONS = {
    "batch_size": (Count | None, None),
    "bootstrap": (int, 0),
    "progress": (Progress, False),
    "arrived": (Callable | None, None),
    "ragged": (bool, False),
    "on_memory": (OnMemory, "refuse"),
    "deterministic": (bool, False),
    "store": (str | os.PathLike | None, None),
}


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


class Part(NamedTuple):
    """Factors that the same samples have, by number, and the arrays at these samples."""

    columns: Sequence[int]
    members: MemberCodes
    shared: Shared


@dataclasses.dataclass(frozen=True)
class Request:
    """One evaluation, checked.

    Attributes:
      asked: the metrics by the names of their columns, in order.
      plan: the metrics that are computed: those that fit into memory.
      reasons: by name, why a metric is not computed; ``left_out``: and why a standard one is not asked.
      members: the arrays that differ between members.
      shared: the arrays that all members share.
      parts: where factors lack values, the factors that the same samples have; empty for complete factors.
      rows: what is known about the members, and their names.
      single: whether one representation was given, not a zoo.
      bootstrap: how many replicates are drawn, and ``null``, how chance is.
      given: the names of arrays that were given.
      how: arguments of the executor.
      progress, arrived: whom to tell.
      store: the folder that keeps results.
    """

    asked: Plan
    plan: Plan
    reasons: Mapping[str, str]
    left_out: Mapping[str, str]
    members: MemberCodes
    shared: Shared
    parts: tuple[Part, ...]
    rows: tuple[dict[str, Any], ...]
    single: bool
    bootstrap: int
    null: Null
    given: frozenset[str]
    how: Mapping[str, Any]
    progress: Progress
    arrived: Callable | None
    store: Path | None

    @classmethod
    def of(
        cls,
        codes,
        factors,
        metrics: str | Sequence | Mapping = "standard",
        key=None,
        *,
        plan: Plan | None = None,
        preset: str | None = None,
        members=None,
        numbers=None,
        devices=None,
        null: Any = 0,
        test=None,
        validation=None,
        weights=None,
        variances=None,
        active=None,
        groups=None,
        **options,
    ) -> "Request":
        """Check what :func:`jaxdis.evaluate` is given; a ``plan``, in place of metrics, was checked."""
        runtime.keep_programs()  # the first is compiled here, to divide samples
        standard = plan is None and preset is None and isinstance(metrics, str) and metrics == "standard"
        if preset is not None:
            plan = plan_of(preset_metrics(preset, metrics if plan is None else dict(plan)))
        elif plan is None:
            plan = plan_of(metrics)
        options, null = _checked(options), Null.of(null, weights=weights) if null else Null()
        arrays = {"test": test, "validation": validation, "weights": weights, "variances": variances, "active": active}
        arrays["groups"] = groups
        if options.pop("ragged"):
            codes, arrays = _stacked(codes, arrays)  # which tells the codes that are there by ``active``
        given = frozenset(name for name, array in arrays.items() if array is not None)
        pairs = [arrays[role] for role in ("test", "validation") if role in given and is_pair(arrays[role])]
        gaps = any(getattr(each, "present", None) is not None for each in (factors, *(pair[1] for pair in pairs)))
        if gaps:
            factors = check_gaps(() if standard else plan, factors, options["bootstrap"], null.count)
        if not standard and getattr(factors, "periods", None):
            check_circular({name: metric.source for name, metric in plan}, factors)
        split = any(metric.source.reads.test for _, metric in plan)
        pieces, whole = pieces_of(codes, factors, arrays) if gaps else ((), (codes, factors, arrays))
        inputs = bind(*whole[:2], key, **whole[2], numbers=numbers, split=split)
        parts = [(columns, bind(*of[:2], key, **of[2], numbers=numbers, split=split)) for columns, of in pieces]
        shared, m = inputs.shared, len(inputs.members.codes)
        rows = tuple({NAME: row} for row in range(m)) if members is None else member_rows(members, m, dict(plan))
        left_out = left_out_of(plan, shared.factors.sizes, shared.factors.periods) if standard else {}
        plan = tuple(each for each in plan if each[0] not in left_out)
        for part in (inputs, *(part for _, part in parts)):
            n, sizes = part.shared.factors.num_samples, shared.factors.sizes
            check_plan(plan, n, sizes, given, halved=options["bootstrap"] > 0)
        scored = [part.shared.factors for _, part in parts] or [shared.factors]
        varies = any(np.ptp(np.asarray(factors.values), axis=0).any() for factors in scored)
        if not varies and any(metric.reads_factors for _, metric in plan):
            names = some_of(name for factors in scored for name in factors.names)
            warn(f"factors: must vary, got one value alone in {names}; scores that need a factor are NaN")
        if null.count:
            judged_by_chance(plan, null.count)  # refuses before anything is computed
        moved = {"bootstrap": options["bootstrap"], "permutations": null.count * (null.kind == "permutation")}
        for purpose in (name for name, count in moved.items() if count):
            check_groups(shared.groups, purpose, test, validation)
        devices = checked_devices(devices) if devices is not None else None
        request = cls(
            asked=plan,
            plan=plan,
            reasons={},
            left_out=left_out,
            members=inputs.members,
            shared=shared,
            parts=tuple(Part(columns, part.members, part.shared) for columns, part in parts),
            rows=rows,
            single=inputs.single,
            null=null,
            given=given,
            how={"batch_size": options["batch_size"], "devices": devices, "deterministic": options["deterministic"]},
            store=None if options["store"] is None else Path(options["store"]).resolve(),
            **{name: options[name] for name in ("bootstrap", "progress", "arrived")},
        )
        kept, reasons = affordable(plan, request.load, options["on_memory"])
        return dataclasses.replace(request, plan=kept, reasons=reasons)

    @property
    def load(self) -> Load:
        """What decides how much memory and time it takes."""
        test, factors, m = self.members.test_codes, self.shared.factors, len(self.rows)
        size = Size.of(*self.members.codes.shape[1:], factors.sizes, held_out=None if test is None else test.shape[1])
        arrays = [array for array in self.members if array is not None]
        how = {"bootstrap": self.bootstrap, "block": self.members.block(self.bootstrap), "null": self.null.count}
        return Load.of(size, sum(array.size * array.dtype.itemsize for array in arrays) // m, m, **self.how, **how)

    @property
    def relations(self) -> bool:
        """Whether relations behind scores are kept for :meth:`Scores.top`: if they are few numbers."""
        _, _, d = self.members.codes.shape
        return (
            not self.parts and d * len(self.shared.factors.names) * len(self.rows) * max(1, self.bootstrap) <= MOST_KEPT
        )

    def with_interventions(self, plan: Plan) -> "Request":
        """The same request with metrics that are not computed from its samples, in the order of ``plan``."""
        kept = tuple(each for each in plan if each[0] not in self.reasons)
        return dataclasses.replace(self, asked=plan, plan=kept)

    def some(self, members: np.ndarray, plan: Plan) -> "Request":
        """The same request for some members and metrics, told to nobody and kept nowhere."""

        def chosen(given: MemberCodes) -> MemberCodes:
            return jax.tree.map(lambda leaf: take(leaf, members), given)

        parts = tuple(part._replace(members=chosen(part.members)) for part in self.parts)
        rows = tuple(self.rows[member] for member in members)
        return dataclasses.replace(
            self,
            asked=plan,
            plan=plan,
            members=chosen(self.members),
            parts=parts,
            rows=rows,
            progress=False,
            arrived=None,
            store=None,
        )

    def at(self, rows: np.ndarray, key) -> "Request":
        """The same request for some of the samples, with another key; only for samples that nothing else describes."""
        factors, groups = self.shared.factors.take(jnp.asarray(rows)), self.shared.groups
        check_plan(self.plan, len(rows), factors.sizes, self.given, halved=False)
        if groups is not None:  # those that are left, numbered from 0
            groups = jnp.asarray(np.unique(np.asarray(groups)[rows], return_inverse=True)[1], jnp.int32)
        shared = self.shared._replace(key=key, factors=factors, groups=groups)
        if self.shared.train_rows is not None:
            check_groups(groups, "a split")
            train, test = divided(key, groups, len(rows))
            shared = shared._replace(train_rows=train, test_rows=test)
        codes = self.members.codes[:, rows]
        return dataclasses.replace(self, shared=shared, members=self.members._replace(codes=codes))


def _checked(options: Mapping) -> dict:
    """Arguments that are no arrays, each by name; defaults for those that are not given."""
    found = {name: default for name, (_, default) in _OPTIONS.items()}
    for name, value in options.items():
        kind, default = _OPTIONS[name]
        if value is not default:
            found[name] = checked_value(name, kind, value)
    if found["bootstrap"] == 1 or not 0 <= found["bootstrap"] <= MOST_REPLICATES:
        raise ValueError(f"bootstrap: must be a whole number of replicates, at least 2, got {found['bootstrap']}")
    return found


def _stacked(codes, arrays: dict) -> tuple[np.ndarray, dict]:
    """Codes that differ in width as one array, and all arrays beside them."""
    if arrays["active"] is not None:
        raise ValueError("active: must be left to ragged=True; to choose codes, stack them by jaxdis.stack")
    codes, active = stack(codes)
    variances = None if arrays["variances"] is None else stack(arrays["variances"]).codes
    pairs = {name: arrays[name] for name in ("test", "validation") if is_pair(arrays[name])}
    pairs = {name: (stack(given).codes, factors) for name, (given, factors) in pairs.items()}
    return codes, {**arrays, **pairs, "active": active, "variances": variances}


def warn(message: str) -> None:
    """Warn at the line that called this package."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals["__name__"].partition(".")[0] == PACKAGE:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, RuntimeWarning, stacklevel=level)


def warn_of_codes(members: MemberCodes, sound: np.ndarray) -> None:
    """Warn of codes and variances with values that are not finite or beyond float32, where ``sound [m]`` is False."""
    suspects = np.flatnonzero(~sound)
    roles = {"codes": members.codes, "test codes": members.test_codes, "validation codes": members.validation_codes}
    warn_of_non_finite({**roles, "variances": members.variances}, suspects)
    for name, array in roles.items():
        given = suspects if array is not None else ()
        largest = [_of_codes(lambda codes: np.abs(codes).max(axis=0), array[i]) for i in given]
        found = np.concatenate([np.empty(0), *largest])
        extremes = found[np.isfinite(found) & (found > 0) & ((found < SMALLEST) | (found > LARGEST))]
        if extremes.size:
            warn(
                f"{name}: must lie within {SMALLEST:g} … {LARGEST:g}, got {extremes[0]:.1e} as the largest value of a "
                "code; float32 loses the squares of such codes, and scores with them: multiply the codes by a constant"
            )


def warn_of_non_finite(roles: Mapping, suspects) -> None:
    """Warn about arrays ``[m, …]`` with non-finite values; only the members ``suspects`` are read."""
    for name, array in roles.items():
        given = suspects if array is not None else ()
        counts = {i: _of_codes(lambda codes: (~np.isfinite(codes)).sum(axis=0), array[i]) for i in given}
        if bad := [member for member, count in counts.items() if count.any()]:
            total = sum(int(count.sum()) for count in counts.values())
            codes = np.flatnonzero(np.any([counts[member] > 0 for member in bad], axis=0))
            warn(
                f"{name}: {total} non-finite values in {len(bad)} of {len(array)} members ({some_of(bad)}), in codes "
                f"{some_of(codes)}; scores that read them are NaN, other members are not touched"
            )


def _of_codes(function: Callable, member) -> np.ndarray:
    """``function`` of a member's codes, ``[n, d]``, which may be on disk: a few at a time."""
    width = max(1, AT_ONCE // len(member))
    starts = range(0, member.shape[1], width)
    return np.concatenate([function(np.asarray(member[:, start : start + width])) for start in starts])


def judged_by_chance(plan: Plan, null: int) -> Plan:
    """The metrics that have a null: those that read factors."""
    judged = tuple((name, metric) for name, metric in plan if metric.reads_factors)
    if null and not judged:
        raise ValueError(f"null: must have a metric that reads factors, got {', '.join(name for name, _ in plan)}")
    return judged


def permuted(shared: Shared, null: Null, number: int) -> Shared:
    """Give samples other samples' factors: all of a sample's factors together, within training and test samples."""
    key = jax.random.fold_in(jax.random.fold_in(shared.key, NULL_SEED), number)
    groups, found = None if shared.groups is None else np.asarray(shared.groups), {}
    for place, role in enumerate(("factors", "test_factors", "validation_factors")):
        if (factors := getattr(shared, role)) is not None:
            rows = null.rows(jax.random.fold_in(key, place), groups, factors.num_samples)
            found[role] = factors.take(rows)
    return shared._replace(**found)
