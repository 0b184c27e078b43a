"""The measurements to make first on a new accelerator: within an hour, resumable, one file of results.

Each step writes a file of its own when it is done, so that a run which is stopped goes on with the next step. Several
processes compile the programs first, since compiling takes longer than running them; those that measure find them in
the cache on disk. Meanwhile other processes compute the scores of a few members on the CPU.
"""

import contextlib
import functools
import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxdis._core import batches, runtime
from jaxdis._core.accelerators import TARGETS, cost_of
from jaxdis._core.display import tell_now_and_then
from jaxdis._core.executor import Layout, _run
from jaxdis._core.files import read_json, write_text
from jaxdis.cli import _throughput as throughput
from jaxdis.cli._estimates import judged, memory_of, turns_of
from jaxdis.evaluation._inputs import bind
from jaxdis.evaluation._member import MemberCodes, Shared, score_member_often
from jaxdis.evaluation._run import seconds_of, shared_by, stages_of
from jaxdis.factors import Factors
from jaxdis.metrics import METRICS
from jaxdis.models import InfoGan, Mlp, Monet, Vae, locatello, members
from jaxdis.models._members import checked_members
from jaxdis.models.methods._method import Method
from jaxdis.models.training._image_source import as_source
from jaxdis.models.training._runner import Runner, _advance, _begin

# Zoo sizes: in a small one the time goes into starting kernels. A metric of many seconds on CPU fills a device sooner.
SMALL, LARGE, OF_SLOW_METRICS, SLOW = 8, 1024, 256, 0.3
# Members of which no two are equal; larger zoos repeat them.
DISTINCT = 64
# Members that the CPU scores, too.
CPU_MEMBERS = 2
IMAGES = 512
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
        source = as_source(np.random.default_rng(0).integers(0, 256, (IMAGES, 64, 64, self.channels), np.uint8))
        method = self.method.resolved(source.image_shape)
        zoo = members({method.trained[0]: {}}, self.members, method)
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
    seconds, cpu, memory = time.perf_counter() - start, time.process_time() - cpu, memory_of(compiled)
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
