"""Which metrics fit the memory that is free, and how long they will take: asked before anything is compiled."""

import contextlib
import contextvars
import dataclasses
import logging
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import jax
import numpy as np

from jaxdis._core import resources
from jaxdis._core.resources import in_words
from jaxdis.evaluation._costs import Size, bytes_of, seconds_at
from jaxdis.evaluation._results import Scores
from jaxdis.evaluation._wide import takes_blocks
from jaxdis.metrics._metric import Metric, scalar_fields, sources_of
from jaxdis.metrics._plan import Plan

OnMemory = Literal["refuse", "skip"]
# A program of fewer bytes is not compared with what is free.
SMALL = 64 << 20
# Longer times are said beforehand.
MANY_SECONDS = 60
log = logging.getLogger("jaxdis")
_SAID = contextvars.ContextVar("_SAID", default=False)


class Run(NamedTuple):
    """How members run: how many bytes one's arrays take, how many run at once on a device, and how often again."""

    size: Size
    member_bytes: int
    members: int = 1
    at_once: int = 1
    replicates: int = 0
    devices: tuple[jax.Device, ...] = ()
    block: int | None = None
    nulls: int = 0

    @classmethod
    def of(
        cls, size: Size, member_bytes: int, members: int, *, batch_size, devices, bootstrap, block=None, null=0, **_
    ) -> "Run":
        """``block``: a block's codes, which metrics read at a time, if they can."""
        devices = tuple(jax.devices()[:members] if devices is None else devices)
        return cls(size, member_bytes, members, min(batch_size or 1, members), bootstrap, devices, block, null)

    @property
    def on_cpu(self) -> bool:
        return self.devices[0].platform == "cpu"

    def bytes(self, metric: Metric) -> float:
        """What a metric's program needs on a device, or on all CPU devices together."""
        if self.block is not None and takes_blocks(metric.source):
            run = self._replace(size=self.size._replace(codes=self.block), block=None)
            return run._replace(member_bytes=self.member_bytes * self.block // self.size.codes).bytes(metric)
        drawn = self.member_bytes if self.replicates else 0
        each = bytes_of(metric.source, self.size) + self.member_bytes + drawn
        return each * self.at_once * (len(self.devices) if self.on_cpu else 1)


def affordable(plan: Plan, run: Run, on_memory: OnMemory) -> tuple[Plan, dict[str, str]]:
    """The metrics that fit into free memory, and why each of the others does not.

    Raises:
      ValueError: if one does not fit, unless ``on_memory`` is ``"skip"``.
    """
    needs = {name: run.bytes(metric) for name, metric in plan}
    free = resources.free_bytes(run.devices[0]) if max(needs.values(), default=0) > SMALL else float("inf")
    large = {name: need for name, need in needs.items() if need > free}
    if large and on_memory == "refuse":
        raise ValueError(_refusal(plan, large, free, run))
    reason = "it needs {} of memory, of which {} are free, and was left out"
    kept = tuple(each for each in plan if each[0] not in large)
    say_seconds(kept, run)
    return kept, {name: reason.format(in_words(need), in_words(free)) for name, need in large.items()}


def with_missing(scores: Scores, plan: Plan, missing: dict[str, str], single: bool) -> Scores:
    """The scores with NaN in the columns that left-out metrics would have, in the plan's order, and with the
    reasons."""
    if not missing:
        return scores
    nothing = np.float32(np.nan) if single else np.full(len(scores.members), np.nan, np.float32)
    columns = {}
    for name, metric in plan:
        if name in missing:
            fields = scalar_fields(metric)
            columns |= {name if field == "score" else f"{name}.{field}": nothing for field in fields}
        else:
            own = (column for column in scores.columns if column == name or column.startswith(f"{name}."))
            columns |= {column: scores.columns[column] for column in own}
    return dataclasses.replace(scores, columns=columns, notes=(*scores.notes, *missing.items()))


def _refusal(plan: Plan, large: dict[str, float], free: float, run: Run) -> str:
    needing = " and ".join(f"{name}, which needs {in_words(need)}" for name, need in large.items())
    metrics = [metric for name, metric in plan if name in large]
    ways = ["leave it out" if len(large) == 1 else "leave them out"]
    if others := [name for name, _ in plan if name not in large]:
        ways[0] += f" ({', '.join(others)} would fit)"
    ways.append('pass on_memory="skip"')
    if run.at_once > 1 and max(map(run._replace(at_once=1).bytes, metrics)) <= free:
        ways.append("pass batch_size=1")
    if fewer := _codes_that_fit(metrics, free, run._replace(at_once=1)):
        ways.append(f"take {fewer:,} codes at most")
    return (
        f"metrics: must fit the memory that is free, {in_words(free)}, got {needing} for {run.size.codes:,} codes; "
        + ", or ".join(ways)
    )


def _codes_that_fit(metrics: Sequence[Metric], free: float, run: Run) -> int:
    """The most codes with which all metrics would fit; 0 if none would."""

    def fits(codes: int) -> bool:
        fewer = run.size._replace(codes=codes)
        arrays = run.member_bytes * codes // run.size.codes
        return max(map(run._replace(size=fewer, member_bytes=arrays).bytes, metrics)) <= free

    low, high = 0, run.size.codes
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    digits = max(0, len(str(low)) - 2)
    return low // 10**digits * 10**digits


@contextlib.contextmanager
def said_before() -> Iterator[None]:
    """Within, no evaluation says how long it takes, since that was said for many together."""
    token = _SAID.set(True)
    try:
        yield
    finally:
        _SAID.reset(token)


def say_seconds(plan: Plan, run: Run) -> None:
    """Say how long a long evaluation will take on CPU, before it starts."""
    if not run.on_cpu or _SAID.get():
        return
    spent = {}
    for spec in sources_of(metric for _, metric in plan):
        name = next(name for name, metric in plan if metric.source == spec)
        spent[name] = seconds_at(spec, run.size) * run.members * (1 + run.replicates + run.nulls)
    total = sum(spent.values())
    if total > MANY_SECONDS:
        longest = sorted(spent, key=spent.get, reverse=True)[:3]
        shares = ", ".join(f"{name} {_in_words(spent[name])}" for name in longest if spent[name] > total / 20)
        log.warning("jaxdis: this takes about %s of one CPU core (%s)", _in_words(total), shares)


def _in_words(seconds: float) -> str:
    for unit, name in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:.0f} s"
