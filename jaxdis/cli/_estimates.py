"""Estimate how fast an accelerator that is not here scores, from programs compiled for it.

The model is told in :data:`MODEL`. How often loops turn that stop when the data say so was counted on two members of
the workload (``python -m tests.aot.turns``).
"""

import functools
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.resources import files
from typing import NamedTuple

import jax
import numpy as np

from jaxdis._core import batches
from jaxdis._core.accelerators import Cost, Target, cost_of, placed, sums_in_any_order
from jaxdis._core.executor import AXIS, Layout, _run, most_in_a_chunk
from jaxdis._core.lookup import look_up
from jaxdis._core.loops import MARK
from jaxdis._core.version import __version__
from jaxdis.cli import _terminal as terminal
from jaxdis.cli._throughput import zoo
from jaxdis.evaluation._inputs import bind
from jaxdis.evaluation._member import score_member_often
from jaxdis.evaluation._run import seconds_of, shared_by, stages_of
from jaxdis.metrics import Metric
from jaxdis.models import Config, Genesis, InfoGan, Iodine, Mlp, Monet, ResnetVae, Vae, locatello
from jaxdis.models import members as zoo_of
from jaxdis.models._members import checked_members
from jaxdis.models.methods._method import Method
from jaxdis.models.training._image_source import as_source
from jaxdis.models.training._runner import _advance, begin
from jaxdis.models.training._train import resolved_config

SECONDS_PER_LAUNCH, SECONDS_PER_SYNC = 3e-6, 10e-6
# What trains: a method and the shape of its images.
TRAINED = {
    "vae_mlp": (Vae(network=Mlp()), (64, 64, 1)),
    "vae_conv": (Vae(network=locatello(as_released=False, compute="matmul")), (64, 64, 1)),
    "resnet_vae": (ResnetVae(), (64, 64, 3)),
    "infogan": (InfoGan(), (64, 64, 3)),
    "monet": (Monet(), (64, 64, 3)),
    "genesis": (Genesis(), (64, 64, 3)),
    "iodine": (Iodine(), (64, 64, 3)),
}
# Members that train together, from few to many.
TRAINED_TOGETHER = (1, 4, 8, 16, 32, 64, 128)
# A loop that was never observed.
UNKNOWN_TURNS = 10.0


class Estimate(NamedTuple):
    """What one program costs on a target, estimated from the compiled program and not measured.

    ``members`` in a call; ``ms`` per member; ``bound``: by what; ``memory`` in bytes per member; ``fits``: members
    that the device holds; ``half``: members of which starting kernels takes as long as their work; ``atomic``: how many
    kernels add floats to places in any order, so that last digits may differ from run to run.
    """

    name: str
    members: int
    compile_seconds: float
    launches: float
    syncs: float
    bytes: float
    flops: float
    collectives: float
    memory: float
    fits: int
    ms: float
    bound: str
    half: int
    atomic: int = 0


class Failure(NamedTuple):
    """A program that does not compile."""

    name: str
    error: str


def estimates(
    plan: Mapping[str, Metric],
    target: Target,
    members: int,
    samples: int = 10_000,
    deterministic: bool = False,
    chips: int = 1,
) -> Iterator[Estimate | Failure]:
    """Compile each metric for a target, as :func:`jaxdis.evaluate` does there in its chunks, and add up its cost.

    ``members`` run on each of so many ``chips``.
    """
    devices = tuple(target.devices()[:chips])
    (codes, factors), test = zoo(1, samples, seed=0), zoo(1, max(2, samples // 2), seed=1)
    for name, metric in plan.items():
        inputs = bind(codes, factors, test=test if metric.source.reads.test else None)
        (stage,) = stages_of(((name, metric),))
        shared = shared_by(stage, inputs.shared)
        most = max(batches.rungs_of(members, most_in_a_chunk(1, inputs.members, 1, batches.INPUT_BYTES)))

        def lowered(members: int, one=inputs.members, stage=stage, shared=shared):
            layout = Layout(devices, batches.together(members, target.platform, seconds_of(stage)), deterministic)
            arguments = _repeated(one, members, layout), placed(np.zeros(chips, np.int32), layout, AXIS)
            return _run.trace(score_member_often, (stage, 0), layout, *arguments, placed(shared, layout))

        bytes_each = sum(leaf.nbytes for leaf in jax.tree.leaves(inputs.members))
        rungs = [rung for rung in batches.RUNGS if rung <= most]
        yield _estimated(name, lowered, rungs, bytes_each, target, turns_of(name))


def together(plan: Mapping[str, Metric], rows: Sequence[Estimate | Failure]) -> tuple[float, float]:
    """The least and most milliseconds of all metrics that compile, per member.

    Metrics that share what they compute run in one program, which takes at least as long as the longest of them, and at
    most as long as each alone.
    """
    alone = {row.name: row.ms for row in rows if isinstance(row, Estimate) and row.name in plan}
    stages = [[alone[name] for name, _ in stage] for stage in stages_of(tuple((name, plan[name]) for name in alone))]
    return sum(map(max, stages)), sum(map(sum, stages))


def updates(
    methods: Mapping[str, tuple[Method, tuple[int, ...]]], target: Target, members: int, *, chips: int = 1
) -> Iterator[Estimate | Failure]:
    """Compile one update of each method for a target, with as many members together as fit each of its ``chips``."""
    devices = tuple(target.devices()[:chips])
    for name, (method, shape) in methods.items():
        source = as_source(np.zeros((512, *shape), np.uint8))
        method = resolved_config(Config(method=method), source).method.tuned(target.platform)
        keys, hyperparameters, _ = checked_members(method, *zoo_of({method.trained[0]: {}}, 1, method))

        def lowered(at_once: int, one=(keys, hyperparameters), method=method, source=source):
            layout = Layout(devices, at_once)
            many, whole = _repeated(one, at_once, layout), functools.partial(placed, layout=layout)
            state = jax.eval_shape(jax.vmap(functools.partial(begin, method)), many[0])
            split = placed(state, layout, AXIS), many
            counts = placed(np.zeros(chips, np.int32), layout, AXIS)
            return _advance.trace(method, layout, *split, whole(source), whole(np.int32(0)), counts)

        rungs = [rung for rung in TRAINED_TOGETHER if rung <= members]
        yield _estimated(name, lowered, rungs, 0, target, lambda scope: 1.0)


def _estimated(
    name: str, traced: Callable, rungs: list[int], bytes_each: int, target: Target, turns: Callable[[str], float]
) -> Estimate | Failure:
    """Compile with the most members that fit the memory of the target."""
    for members in reversed(rungs):
        start = time.process_time()
        try:
            compiled = traced(members).lower(lowering_platforms=(target.lowering,)).compile()
        except jax.errors.JaxRuntimeError as error:
            if "RESOURCE_EXHAUSTED" in str(error) and members != rungs[0]:
                continue
            return Failure(name, str(error).partition("\n")[0])
        seconds = time.process_time() - start
        memory = memory_of(compiled)
        if memory <= batches.SHARE * target.memory or members == rungs[0]:
            text = compiled.as_text()
            row = judged(name, cost_of(text, turns), seconds, memory, bytes_each, members, target)
            return row._replace(atomic=sums_in_any_order(text))
    raise ValueError("members: must be at least 1")


def memory_of(compiled) -> int:
    analysis = compiled.memory_analysis()
    return analysis.temp_size_in_bytes + analysis.output_size_in_bytes


def _repeated(one, members: int, layout: Layout):
    count = members * len(layout.devices)
    many = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((count, *leaf.shape[1:]), leaf.dtype), one)
    return placed(many, layout, AXIS)


def methods_of(names: Sequence[str]) -> dict[str, tuple[Method, tuple[int, ...]]]:
    return {name: look_up(name, TRAINED, "method") for name in (TRAINED if tuple(names) == ("all",) else names)}


def turns_of(metric: str) -> Callable[[str], float]:
    """How often a metric's loop of a scope turns, as counted on CPU in the forms of accelerators."""
    counted = json.loads((files("jaxdis.cli") / "turns.json").read_text()).get(metric, {})

    def of_scope(scope: str) -> float:
        found = re.search(rf".*{MARK}(\w+)(.*)", scope)
        inside = found is not None and found[2].count("while/body") > 0  # a loop without a name, inside the named one
        return UNKNOWN_TURNS if found is None or inside else counted.get(found[1], UNKNOWN_TURNS)

    return of_scope


def judged(
    name: str, cost: Cost, seconds: float, memory: float | int, bytes_each: float | int, members: int, target: Target
) -> Estimate:
    """The estimate of a call of so many members, which takes as long as what bounds it."""
    times = {
        "launches": cost.launches * SECONDS_PER_LAUNCH + cost.syncs * SECONDS_PER_SYNC,
        "memory": cost.bytes / target.bytes_per_second,
        "products": cost.flops / target.flops_per_second,
        "copy": members * bytes_each / target.copied_per_second,
    }
    bound = max(times, key=times.get)
    work = max(times["memory"], times["products"]) / members
    fits = int(batches.SHARE * target.memory / (memory / members + bytes_each))
    half = max(1, round(times["launches"] / work)) if work else 1
    counts = cost.launches, cost.syncs, cost.bytes / members, cost.flops / members, cost.collectives
    return Estimate(name, members, seconds, *counts, memory / members, fits, 1e3 * times[bound] / members, bound, half)


TITLE = "Estimated from programs compiled for {}, not measured"
MODEL = (
    "A call takes the longest of: its kernels, 3 µs each, and 10 µs for each wait of the host; the bytes it moves, at "
    "the bandwidth of the memory; its operations, at the peak of float32; its inputs, copied from the host. The model "
    "ignores caches and faster sorts of the device (too slow), lets the three overlap fully (too fast), and counts "
    "loops that end when the data say so on two members. Sums that are added "
    "in place count as bytes alone (too fast). On an H200, most metrics took 0.7 to 3 times as long, SAP 24 times."
)
COLUMNS: Mapping[str, Callable[[Estimate], str]] = {
    "ms per member": lambda row: f"{row.ms:.3g}",
    "bound by": lambda row: row.bound,
    "together": lambda row: f"{row.members:,}",
    "fit": lambda row: f"{row.fits:,}",
    "half": lambda row: f"{row.half:,}",
    "kernels": lambda row: f"{row.launches:,.0f}",
    "MB": lambda row: f"{row.bytes / 1e6:,.3g}",
    "MFLOP": lambda row: f"{row.flops / 1e6:,.3g}",
    "memory MB": lambda row: f"{row.memory / 1e6:,.3g}",
    "compile s": lambda row: f"{row.compile_seconds:.1f}",
}
# Of these, as many as fit a terminal.
SHOWN = 6
MEANINGS = (
    "together: members in one call; fit: members that the memory holds; half: members of which starting kernels takes "
    "as long as their work; MB moved, MFLOP and MB of memory per member; compile: seconds of CPU"
)


def cells(row: Estimate | Failure) -> list[str]:
    if isinstance(row, Failure):
        return [row.name, "does not compile", row.error[:60], *[""] * (len(COLUMNS) - 2)]
    return [row.name, *(text(row) for text in COLUMNS.values())]


def print_estimates(target: Target, plan: Mapping[str, Metric], rows: Sequence[Estimate | Failure]) -> None:
    heads, texts = ["", *COLUMNS][: SHOWN + 1], [cells(row)[: SHOWN + 1] for row in rows]
    terminal.print_table(heads, texts, title=TITLE.format(target.title), caption=MEANINGS)
    least, most = together(plan, rows)
    shared = f"{least:.3g} to {most:.3g}" if least < most else f"{most:.3g}"
    failures = sum(isinstance(row, Failure) for row in rows)
    terminal.write(f"all together: {shared} ms per member; {failures} do not compile")


def to_json(target: Target, rows: Sequence[Estimate | Failure]) -> str:
    contents = {"measured": False, "target": target.title, "model": MODEL, "jaxdis": __version__}
    return json.dumps({**contents, "rows": [row._asdict() for row in rows]}, indent=1, allow_nan=False) + "\n"


def to_page(target: Target, rows: Sequence[Estimate | Failure]) -> str:
    from jaxdis import plots
    from jaxdis.study.report import _html as html

    finished = [row for row in rows if isinstance(row, Estimate)]
    of = [[getattr(row, name) for row in finished] for name in ("name", "flops", "bytes")]
    seconds = [row.ms / 1e3 for row in finished]
    drawn = plots.roofline(*of, seconds, target.bytes_per_second, target.flops_per_second)
    names = ["", *COLUMNS]
    columns = dict(zip(names, zip(*map(cells, rows), strict=True), strict=True))
    picture = html.image(drawn, "operations per second of each program against its operations per byte")
    sections = [("Table", html.table(names, columns) + f"<p>{MEANINGS}.</p>"), ("Roofline", picture)]
    return html.page(TITLE.format(target.title), sections, opening=f"<p>{MODEL}</p>", note="")
