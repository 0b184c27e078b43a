"""A request: what an evaluation is asked for, checked once; all passes of the run read this one value."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdis._core.display import Progress
from jaxdis._core.options import Count, checked_devices, checked_value
from jaxdis.codes import stack
from jaxdis.evaluation._costs import Load, OnMemory, Size, affordable
from jaxdis.evaluation._groups import check_groups
from jaxdis.evaluation._inputs import bind, is_pair
from jaxdis.evaluation._member import MemberCodes, Shared
from jaxdis.evaluation._member_rows import NAME, member_rows
from jaxdis.evaluation._missing_values import check_gaps, pieces_of
from jaxdis.evaluation._null import NO_NULL, Null, judged_by_chance
from jaxdis.evaluation._warnings import warn_of_constant
from jaxdis.metrics._metric import divided
from jaxdis.metrics._plan import Plan, check_circular, check_plan, left_out_of, plan_of
from jaxdis.metrics._presets import preset_metrics

MOST_REPLICATES = 10**6
# Numbers of relations, of all members and replicates together, that are kept: 64 MB.
MOST_KEPT = 1 << 24
# What arguments that are no arrays may be, and their defaults, which need no check.
_OPTIONS = {
    "batch_size": (Count | None, None),
    "bootstrap": (int, 0),
    "progress": (Progress, False),
    "arrived": (Callable | None, None),
    "ragged": (bool, False),
    "on_memory": (OnMemory, "refuse"),
    "deterministic": (bool, False),
}


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
        standard = plan is None and preset is None and isinstance(metrics, str) and metrics == "standard"
        if preset is not None:
            plan = plan_of(preset_metrics(preset, metrics if plan is None else dict(plan)))
        elif plan is None:
            plan = plan_of(metrics)
        options, null = _checked(options), Null.of(null, weights=weights) if null else NO_NULL
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
        if not any(np.ptp(np.asarray(factors.values), axis=0).any() for factors in scored):
            warn_of_constant(plan, scored)
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
        devices = self.how["devices"] or tuple(jax.devices()[:m])
        return Load(
            size,
            sum(array.size * array.dtype.itemsize for array in arrays) // m,
            m,
            min(self.how["batch_size"] or 1, m),
            self.bootstrap,
            devices,
            self.members.block(self.bootstrap),
            self.null.count,
        )

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
