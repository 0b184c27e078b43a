"""Accelerators: how fast one that is not here scores, estimated, and what to measure first on a new one.

Estimates come from programs compiled for it, by the model told in :data:`MODEL`. How often loops turn that stop when
the data say so was counted on two members of the workload (``python -m tests.aot.turns``).

The first measurements take an hour, can be resumed, and make one file of results. Each step writes a file of its own
when it is done, so that a run which is stopped goes on with the next step. Several processes compile the programs
first, since compiling takes longer than running them; those that measure find them in the cache on disk. Meanwhile
other processes compute the scores of a few members on the CPU.
"""

import contextlib
import functools
import json
import multiprocessing
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxdis._core import batches, runtime
from jaxdis._core.accelerators import TARGETS, Cost, Target, cost_of, placed, sums_in_any_order
from jaxdis._core.display import tell_now_and_then
from jaxdis._core.executor import AXIS, Layout, _run, most_in_a_chunk
from jaxdis._core.files import read_json, write_text
from jaxdis._core.loops import MARK
from jaxdis._core.version import __version__
from jaxdis.cli import _terminal as terminal
from jaxdis.cli import _throughput as throughput
from jaxdis.evaluation._inputs import bind
from jaxdis.evaluation._member import MemberCodes, Shared, score_member_often
from jaxdis.evaluation._run import seconds_of, shared_by, stages_of
from jaxdis.factors import Factors
from jaxdis.metrics import METRICS, Metric
from jaxdis.models import Config, Genesis, InfoGan, Iodine, Mlp, Monet, ResnetVae, Vae, locatello
from jaxdis.models import members as zoo_of
from jaxdis.models._members import checked_members
from jaxdis.models.methods._method import Method
from jaxdis.models.training._image_source import as_source
from jaxdis.models.training._train import Runner, _advance, _begin, begin, resolved_config

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
    (codes, factors), test = throughput.zoo(1, samples, seed=0), throughput.zoo(1, max(2, samples // 2), seed=1)
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
        memory = batches.memory_of(compiled)
        if memory <= batches.SHARE * target.memory or members == rungs[0]:
            text = compiled.as_text()
            row = judged(name, cost_of(text, turns), seconds, memory, bytes_each, members, target)
            return row._replace(atomic=sums_in_any_order(text))
    raise ValueError("members: must be at least 1")


def _repeated(one, members: int, layout: Layout):
    count = members * len(layout.devices)
    many = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((count, *leaf.shape[1:]), leaf.dtype), one)
    return placed(many, layout, AXIS)


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


# Zoo sizes: in a small one the time goes into starting kernels. A metric of many seconds on CPU fills a device sooner.
SMALL, LARGE, OF_SLOW_METRICS, SLOW = 8, 1024, 256, 0.3
# Members of which no two are equal; larger zoos repeat them.
DISTINCT = 64
# Members that the CPU scores, too.
CPU_MEMBERS = 2
# The share of the time that compiling may take.
SHARE = 0.5
# Updates of the two runs whose difference gives the time of an update, and the seconds that the longer one may take.
UPDATES, SECONDS = (10, 1000), 3.0
COPIED_BYTES = 1 << 30


class Scored(NamedTuple):
    name: str
    members: int
    samples: int

    def __str__(self) -> str:
        return f"{self.name}, {self.members} members"

    def prepared(self) -> functools.partial:
        """The program with its arguments on the first device; on CPU, members run one after another."""
        device = jax.devices()[0]
        (stage,) = stages_of(((self.name, METRICS[self.name]),))
        many = batches.together(self.members, device.platform, seconds_of(stage))
        layout = Layout((device,), 1 if device.platform == "cpu" else many)
        placed, shared = _placed(self.members, self.samples, layout)
        counts = np.full(1, self.members, np.int32)
        return functools.partial(_run, score_member_often, (stage, 0), layout, placed, counts, shared_by(stage, shared))


class Trained(NamedTuple):
    """A zoo of a method, of which ``at_once`` members run together."""

    name: str
    method: Method
    channels: int
    members: int
    at_once: int

    def __str__(self) -> str:
        return f"{self.name}, {self.members} members, {self.at_once} together"

    def runner(self) -> Runner:
        source = as_source(np.random.default_rng(0).integers(0, 256, (512, 64, 64, self.channels), np.uint8))
        method = self.method.resolved(source.image_shape)
        zoo = zoo_of({method.trained[0]: {}}, self.members, method)
        keys, hyperparameters, _ = checked_members(method, *zoo)
        together = self.at_once > 1
        how = {"execution": "vmap" if together else "map", "members_at_once": self.at_once if together else None}
        return Runner(method, keys, hyperparameters, source, jax.devices()[:1], **how)


@functools.lru_cache(maxsize=1)
def _placed(count: int, samples: int, layout: Layout) -> tuple[MemberCodes, Shared]:
    rows = np.arange(count) % DISTINCT
    (codes, factors), (test_codes, test_factors) = _distinct(samples)
    inputs = bind(codes[rows], factors, test=(test_codes[rows], test_factors))
    numbered = inputs.members._replace(number=inputs.members.number % DISTINCT)
    return layout.place(numbered), inputs.shared


@functools.cache
def _distinct(samples: int) -> list[tuple[np.ndarray, Factors]]:
    return [throughput.zoo(DISTINCT, count, seed=seed) for seed, count in enumerate((samples, samples // 2))]


def plan(samples: int) -> list[Scored]:
    """Every metric at two sizes of zoo, the fastest first."""
    large = {name: OF_SLOW_METRICS if throughput.expected(METRICS[name]) > 2 * SLOW else LARGE for name in METRICS}
    names = sorted(METRICS, key=lambda name: throughput.expected(METRICS[name]))
    return [Scored(name, large[name], samples) for name in names] + [Scored(name, SMALL, samples) for name in names]


def trainings() -> list[Trained]:
    """Zoos that show what the kind of convolution, the precision, and running together cost."""
    rows = []
    for precision in ("float32", "tensorfloat32"):
        for compute in ("matmul", "conv"):
            method = Vae(network=locatello(as_released=False, compute=compute), precision=precision)
            rows += [Trained(f"vae_{compute}, {precision}", method, 1, 16, at_once) for at_once in (16, 1)]
    rows += [Trained("vae_mlp", Vae(network=Mlp()), 1, count, count) for count in (16, 128)]
    return [*rows, Trained("infogan", InfoGan(), 3, 8, 8), Trained("monet", Monet(), 3, 8, 8)]


def differences(one: Any, other: Any) -> float:
    """The largest absolute difference of any number of two results; numbers that are both missing do not differ."""
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    gaps = [np.abs(np.subtract(a, b, dtype=np.float64)[~(np.isnan(a) & np.isnan(b))]) for a, b in pairs]
    return max((float(gap.max()) for gap in gaps if gap.size), default=0.0)


@contextlib.contextmanager
def _processes(workers: int, platform: str | None, share: float | None) -> Iterator[ProcessPoolExecutor]:
    """Processes that end with what they do when the time is over."""
    # Started anew, because a fork of a process in which JAX runs stands still.
    how = {"mp_context": multiprocessing.get_context("spawn"), "initializer": _begin_process}
    pool = ProcessPoolExecutor(workers, initargs=(platform, share), **how)
    try:
        yield pool
    finally:
        running = list((pool._processes or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for process in running:
            process.terminate()
            process.join()


def _begin_process(platform: str | None, share: float | None) -> None:
    if share is not None:  # of the memory of the device, in which the compiler tries out kernels
        os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
        os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = f"{share:.3f}"
    if platform is not None:
        jax.config.update("jax_platforms", platform)
    runtime.use_compilation_cache()


def compile_scoring(scored: Scored) -> dict[str, Any]:
    """Compile, and estimate the speed from the program's text."""
    run = scored.prepared()
    start, cpu = time.perf_counter(), time.process_time()
    compiled = _run.lower(*run.args).compile()
    seconds, cpu, memory = time.perf_counter() - start, time.process_time() - cpu, batches.memory_of(compiled)
    kind = jax.devices()[0].device_kind.lower()
    target = next((one for key, one in TARGETS.items() if key in kind), TARGETS["h100"])
    cost = cost_of(compiled.as_text(), turns_of(scored.name))
    # The inputs are on the device before the clock starts.
    estimate = judged(scored.name, cost, cpu, memory, 0, scored.members, target)
    return {**estimate._asdict(), "wall_seconds": seconds}


def compile_training(trained: Trained) -> dict[str, Any]:
    """Compile one update, and say how much memory it needs."""
    runner = trained.runner()
    members = runner._keys, runner._hyperparameters
    real = np.full(1, trained.members, np.int32)
    start = time.perf_counter()
    _begin.lower(runner.method, runner.layout, runner._keys).compile()
    state = jax.eval_shape(functools.partial(_begin, runner.method, runner.layout), runner._keys)
    lowered = _advance.lower(runner.method, runner.layout, state, members, runner._source, np.int32(1), real)
    analysis = lowered.compile().memory_analysis()
    seconds = time.perf_counter() - start
    return {"memory": analysis.temp_size_in_bytes / trained.at_once, "wall_seconds": seconds}


def score(scored: Scored) -> list:
    """The numbers of a metric on this process's device, as lists."""
    results = jax.device_get(scored.prepared()())
    return [np.asarray(leaf).tolist() for leaf in jax.tree.leaves(results)]


def measure_first(folder: Path, *, samples: int = 10_000, minutes: float = 60.0) -> Path:
    """Measure what has not been measured yet, and write ``first_hour.json``; return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + 60 * minutes
    finished, missing = {}, []
    for name, step in STEPS.items():
        path = folder / f"{name}.json"
        finished[name] = read_json(path) if path.exists() else {}
        if not finished[name].get("finished") and time.monotonic() < end:
            tell_now_and_then(f"first hour: {name}")
            for contents in step(samples, end, finished):
                finished[name] = contents
                _write(path, contents)
        if not finished[name].get("finished"):
            missing.append(name)
    result = folder / "first_hour.json"
    _write(result, {"machine": throughput.machine(), **finished, "missing": missing})
    return result


def _write(path: Path, contents: object) -> None:
    write_text(path, json.dumps(contents, indent=1) + "\n")


def _programs(samples: int, end: float, finished: dict) -> Iterator[dict]:
    """What compiling each program takes, and estimates from its text; scores on the CPU.

    What fails says why, and what was not finished in time is left out.
    """
    until, cores = time.monotonic() + SHARE * (end - time.monotonic()), os.cpu_count() or 1
    found: dict[str, Any] = {"compiled": {}, "on_cpu": {}}
    workers = max(1, 3 * cores // 8)
    with _processes(workers, None, 0.9 / workers) as compiling, _processes(max(1, cores // 4), "cpu", None) as scoring:
        slowest_first = sorted(plan(samples), key=lambda row: -throughput.expected(METRICS[row.name]))
        few = sorted({row._replace(members=CPU_MEMBERS) for row in slowest_first})
        jobs = [("compiled", str(row), compiling.submit(compile_scoring, row)) for row in slowest_first]
        jobs += [("compiled", str(row), compiling.submit(compile_training, row)) for row in trainings()]
        jobs += [("on_cpu", row.name, scoring.submit(score, row)) for row in few]
        for number, (kind, name, job) in enumerate(jobs):
            tell_now_and_then(f"{number} of {len(jobs)} programs compiled")
            try:
                found[kind][name] = job.result(timeout=max(0.0, until - time.monotonic()))
            except TimeoutError:
                continue
            except Exception as error:  # whatever a process raised: others are measured nevertheless
                found["failed"] = {**found.get("failed", {}), name: str(error).partition("\n")[0]}
        yield {**found, "finished": True}


def _copies(samples: int, end: float, finished: dict) -> Iterator[dict]:
    """Bytes per second from the host to the device."""
    array = np.ones(COPIED_BYTES // 4, np.float32)
    jax.block_until_ready(jax.device_put(array))
    start = time.perf_counter()
    jax.block_until_ready(jax.device_put(array))
    yield {"bytes_per_second": array.nbytes / (time.perf_counter() - start), "finished": True}


def _scores(samples: int, end: float, finished: dict) -> Iterator[dict]:
    return _rows(finished["scores"], plan(samples), functools.partial(_scored, programs=finished["programs"]), end)


def _training(samples: int, end: float, finished: dict) -> Iterator[dict]:
    return _rows(finished["training"], trainings(), _trained, end)


def _rows(before: dict, wanted: list, measured: Callable[[Any], dict], end: float) -> Iterator[dict]:
    """What is measured of each row, after that of each further one, as long as there is time.

    A row that fails says why.
    """
    rows = dict(before.get("rows", {}))
    for number, row in enumerate(wanted):
        if time.monotonic() > end:
            return
        if str(row) not in rows:
            tell_now_and_then(f"first hour: {row}")
            try:
                rows[str(row)] = measured(row)
            except (jax.errors.JaxRuntimeError, ValueError) as error:  # others are measured nevertheless
                rows[str(row)] = {"error": str(error).partition("\n")[0]}
        yield {"rows": rows, "finished": number == len(wanted) - 1}


def _scored(scored: Scored, programs: dict) -> dict:
    """Two runs, of fewer members together if the memory of the device does not hold so many.

    Beside the time and its estimate stands what differs at most in any number that the metric returns: between the
    runs, whose sums may take another order, and from the CPU.
    """
    try:
        run = scored.prepared()
        results, seconds = zip(*(_timed(run) for _ in range(2)), strict=True)  # the first run loads the program
    except jax.errors.JaxRuntimeError as error:
        fewer = [rung for rung in batches.RUNGS if rung < scored.members]
        if "RESOURCE_EXHAUSTED" not in str(error) or not fewer:
            raise
        return _scored(scored._replace(members=max(fewer)), programs)
    first, second = (jax.device_get(jax.tree.map(lambda leaf: leaf[:CPU_MEMBERS], result)) for result in results)
    estimate = programs["compiled"].get(str(scored), {})
    on_cpu = programs["on_cpu"].get(scored.name)
    ms = 1e3 * seconds[1] / scored.members
    return {
        "members": scored.members,
        "first_seconds": seconds[0],
        "measured_ms": ms,
        "ratio": ms / estimate["ms"] if "ms" in estimate else None,
        "between_runs": differences(first, second),
        "from_cpu": None if on_cpu is None else differences(second, list(map(np.asarray, on_cpu))),
    }


def _timed(run: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    return jax.block_until_ready(run()), time.perf_counter() - start


def _trained(trained: Trained) -> dict:
    runner = trained.runner()
    state = runner.begin()
    seconds, counts = [], [UPDATES[0], UPDATES[0]]
    while len(seconds) < 3:  # the first run loads the program
        start = time.perf_counter()
        state, losses = runner.advance(state, counts[len(seconds)])
        seconds.append(time.perf_counter() - start)
        counts.append(max(UPDATES[0] + 1, min(UPDATES[1], int(SECONDS / seconds[-1] * UPDATES[0]))))
    ms = 1e3 * (seconds[2] - seconds[1]) / (counts[2] - counts[1])
    finite = all(bool(np.isfinite(leaf).all()) for leaf in jax.tree.leaves(losses))
    return {"ms_per_update": ms, "finite": finite, "first_seconds": seconds[0]}


STEPS = {"programs": _programs, "copies": _copies, "scores": _scores, "training": _training}
