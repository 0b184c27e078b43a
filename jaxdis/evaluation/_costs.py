"""What metrics cost: one member's bytes and seconds, by formulas that read how many samples, codes and classes there
are.

Bytes are what programs for CPUs take, as the compiler analyzes them; ``tests/evaluation/test_costs.py`` compares.
Seconds were measured on one core by ``python -m benchmarks.measure_seconds``, which writes the table.
"""

import bisect
import contextlib
import contextvars
import functools
import json
import logging
import math
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any, Literal, NamedTuple

import jax

from jaxdis._core import resources
from jaxdis._core.display import duration
from jaxdis._core.resources import in_words
from jaxdis._core.spec import Spec
from jaxdis._learners.boosting import bins_for
from jaxdis._learners.splits import BLOCK_NUMBERS
from jaxdis.evaluation._relation_parts import takes_blocks
from jaxdis.metrics._metric import LIGHT_SECONDS, Metric, sources_of
from jaxdis.metrics._plan import Plan
from jaxdis.relations._relation import width_of

OnMemory = Literal["refuse", "skip"]
# A program of fewer bytes is not compared with what is free.
SMALL = 64 << 20
# Longer times are said beforehand.
MANY_SECONDS = 60
log = logging.getLogger("jaxdis")
_SAID = contextvars.ContextVar("_SAID", default=False)
# Classes into which a continuous factor counts as cut.
CONTINUOUS = 20
# Bins that count where there are as many as classes.
BINS = 32
# From so many codes on, seconds are those measured with thousands where other forms are used than with hundreds; with
# fewer than FEW_CODES, those measured with ten and a hundred, where what does not depend on codes is most of the time.
MANY_CODES, FEW_CODES = 600, 160
# The stages of boosting that were measured.
STAGES = 100
# Functions that factor a matrix of samples where there are more codes.
_FACTORED = {"total_correlation", "linear_prediction"}


class Size(NamedTuple):
    train: int
    held_out: int
    codes: int
    factors: int
    classes: int

    @classmethod
    def of(cls, samples: int, codes: int, sizes, *, held_out: int | None = None) -> "Size":
        """``held_out`` samples are given; when None, a third is held out."""
        held = samples // 3 if held_out is None else held_out
        train = samples - held if held_out is None else samples
        return cls(train, held, codes, len(sizes), sum(size or CONTINUOUS for size in sizes))


# A common size, dSprites' factors: at this one the library says how long a metric takes.
USUAL = Size.of(10_000, 10, (3, 6, 40, 32, 32))


class Seconds(NamedTuple):
    """``seconds`` for 10,000 samples × ``of_codes`` codes with five factors of 100 classes together, and the powers
    with which they grow in these.
    """

    seconds: float
    samples: float
    codes: float
    classes: float
    factors: float = 0.0
    of_codes: int = 1000

    def of(self, size: Size) -> float:
        samples, classes = size.train + size.held_out, max(size.classes, 2)
        shares = samples / 10_000, size.codes / self.of_codes, classes / 100, size.factors / 5
        return self.seconds * math.prod(share**power for share, power in zip(shares, self[1:5], strict=True))


def bytes_of(spec: Spec, size: Size) -> float:
    """Bytes for one member, by the function's row in ``bytes.json``; outside the library, those of a few copies."""
    if not spec.reads.test:
        size = size._replace(train=size.train + size.held_out, held_out=0)
    options, table = spec.all_options, _table("bytes.json")
    # Training sets of downstream trees begin at a hundred samples.
    edges = bins_for(size.train if spec.name == "boosted_trees" else 0) if "splitter" in options else BINS
    form = f"{spec.name}, histogram" if options.get("splitter") == "histogram" else spec.name
    few = table.get(f"{spec.name}, few samples") if size.codes > size.train else None
    terms = {"millions": 1.0, **(few or table.get(form, {"nd": 4.0}))}
    return bytes_by(terms, size, options.get("bins") or options.get("max_bins") or edges)


def bytes_by(terms: Mapping[str, float], size: Size, bins: int = BINS) -> float:
    """What a formula gives: each unit in ``bytes.json`` stands for so many numbers with 4 bytes, and ``least`` for
    samples × codes if all else is less."""
    n, d, k, v = size.train, size.codes, size.factors, size.classes
    codes, width = (n + size.held_out) * d, width_of(n, d)  # of a block of codes
    numbers = {
        "nd": codes,
        "ndk": codes * k,
        "ndv": codes * v,
        "block": n * width,
        "blockk": n * width * k,
        "tables": width * bins * v,
        "dbv": d * bins * v,
        "few": min(d * bins * v, BLOCK_NUMBERS),
        "d": d,
        "dd": d * d,
        "ddk": d * d * k,
        "dv": d * v,
        "n": n,
        "nn": n * n,
        "nv": n * v,
        "millions": 1e6,
    }
    needed = sum(terms[unit] * number for unit, number in numbers.items() if unit in terms)
    return 4 * max(needed, terms.get("least", 0.0) * numbers["nd"])


def seconds_of(spec: Spec, codes: int = 0) -> Seconds | None:
    """None for a function that was not measured. Boosting takes as long as its stages."""
    form = "many codes" if codes >= MANY_CODES else "few codes" if 0 < codes < FEW_CODES else ""
    splitter, found = spec.all_options.get("splitter"), _table("seconds.json")
    names = [f"{spec.name}, {splitter}"] if splitter == "histogram" else [f"{spec.name}, {form}", spec.name]
    row = next((found[name] for name in names if name in found), None)
    stages = spec.all_options.get("stages", STAGES)
    return Seconds(row[0] * stages / STAGES, *row[1:]) if row else None


def seconds_at(spec: Spec, size: Size) -> float:
    """Seconds for one member; 0 for a function that was not measured.

    With more codes than samples, what factors a matrix of codes factors one of samples, whose products grow with codes.
    """
    seconds, samples = seconds_of(spec, size.codes), size.train + (0 if spec.reads.test else size.held_out)
    if seconds is None:
        return 0.0
    if spec.name in _FACTORED and size.codes > samples:
        return seconds.of(size._replace(codes=samples)) * size.codes / samples
    return seconds.of(size)


def usual_seconds(metric: Metric) -> float:
    """Seconds for one member of 10,000 samples × 10 codes with dSprites' factors, at least :data:`LIGHT_SECONDS`.

    For a metric outside the library, what its row states.
    """
    stated = metric.about.measured_seconds if metric.about is not None else None
    return max(LIGHT_SECONDS, stated or seconds_at(metric.source, USUAL))


@functools.cache
def _table(name: str) -> dict[str, Any]:
    return json.loads((files(__package__) / name).read_text())


class Load(NamedTuple):
    """What an evaluation asks of a device: how many bytes a member's arrays take, how many members run at once, and how
    often they run again."""

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
    ) -> "Load":
        """``block``: a block's codes, which metrics read at a time, if they can."""
        devices = tuple(jax.devices()[:members] if devices is None else devices)
        return cls(size, member_bytes, members, min(batch_size or 1, members), bootstrap, devices, block, null)

    def bytes(self, metric: Metric) -> float:
        """What a metric's program needs on a device, or on all CPU devices together."""
        if self.block is not None and takes_blocks(metric.source):
            load = self._replace(size=self.size._replace(codes=self.block), block=None)
            return load._replace(member_bytes=self.member_bytes * self.block // self.size.codes).bytes(metric)
        drawn = self.member_bytes if self.replicates else 0
        each = bytes_of(metric.source, self.size) + self.member_bytes + drawn
        return each * self.at_once * (len(self.devices) if self.devices[0].platform == "cpu" else 1)


def affordable(plan: Plan, load: Load, on_memory: OnMemory) -> tuple[Plan, dict[str, str]]:
    """The metrics that fit into free memory, and why each of the others does not."""
    needs = {name: load.bytes(metric) for name, metric in plan}
    free = resources.free_bytes(load.devices[0]) if max(needs.values(), default=0) > SMALL else float("inf")
    large = {name: need for name, need in needs.items() if need > free}
    if large and on_memory == "refuse":
        raise ValueError(_refusal(plan, large, free, load))
    reason = "it needs {} of memory, of which {} are free, and was left out"
    kept = tuple(each for each in plan if each[0] not in large)
    say_seconds(kept, load)
    return kept, {name: reason.format(in_words(need), in_words(free)) for name, need in large.items()}


def _refusal(plan: Plan, large: dict[str, float], free: float, load: Load) -> str:
    needing = " and ".join(f"{name}, which needs {in_words(need)}" for name, need in large.items())
    metrics = [metric for name, metric in plan if name in large]
    ways = ["leave it out" if len(large) == 1 else "leave them out"]
    if others := [name for name, _ in plan if name not in large]:
        ways[0] += f" ({', '.join(others)} would fit)"
    ways.append('pass on_memory="skip"')
    if load.at_once > 1 and max(map(load._replace(at_once=1).bytes, metrics)) <= free:
        ways.append("pass batch_size=1")
    if fewer := _codes_that_fit(metrics, free, load._replace(at_once=1)):
        ways.append(f"take {fewer:,} codes at most")
    return (
        f"metrics: must fit the memory that is free, {in_words(free)}, got {needing} for {load.size.codes:,} codes; "
        + ", or ".join(ways)
    )


def _codes_that_fit(metrics: list[Metric], free: float, load: Load) -> int:
    """The most codes with which all metrics would fit, to two digits; 0 if none would."""

    def fits(codes: int) -> bool:
        arrays = load.member_bytes * codes // load.size.codes
        fewer = load._replace(size=load.size._replace(codes=codes), member_bytes=arrays)
        return max(map(fewer.bytes, metrics)) <= free

    most = bisect.bisect_left(range(1, load.size.codes), True, key=lambda codes: not fits(codes))
    unit = 10 ** max(0, len(str(most)) - 2)
    return most // unit * unit


@contextlib.contextmanager
def said_before() -> Iterator[None]:
    """Within, no evaluation says how long it takes, since that was said for many together."""
    token = _SAID.set(True)
    try:
        yield
    finally:
        _SAID.reset(token)


def say_seconds(plan: Plan, load: Load) -> None:
    """Say how long a long evaluation will take on CPU, before it starts."""
    if load.devices[0].platform != "cpu" or _SAID.get():
        return
    spent = {}
    for spec in sources_of(metric for _, metric in plan):
        name = next(name for name, metric in plan if metric.source == spec)
        spent[name] = seconds_at(spec, load.size) * load.members * (1 + load.replicates + load.nulls)
    total = sum(spent.values())
    if total > MANY_SECONDS:
        longest = sorted(spent, key=spent.get, reverse=True)[:3]
        shares = ", ".join(f"{name} {duration(spent[name])}" for name in longest if spent[name] > total / 20)
        log.warning("jaxdis: this takes about %s of one CPU core (%s)", duration(total), shares)
