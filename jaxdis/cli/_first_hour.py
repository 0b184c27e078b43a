"""The measurements to make first on a new accelerator: within an hour, resumable, one file of results.

Each step writes a file of its own when it is done, so that a run which is stopped goes on with the next step. Several
processes compile the programs first, since compiling takes longer than running them; those that measure find them in
the cache on disk. Meanwhile other processes compute the scores of a few members on the CPU.
"""

import functools
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxdis._core.bars import tell_now_and_then
from jaxdis._core.files import read_json, write_whole
from jaxdis.cli import _throughput as throughput
from jaxdis.cli._first_hour_programs import CPU_MEMBERS, Pool, Scored, Trained, differences, plan, trainings

# The share of the time that compiling may take.
SHARE = 0.5
# Updates of the two runs whose difference gives the time of an update, and the seconds that the longer one may take.
UPDATES, SECONDS = (10, 1000), 3.0
COPIED_BYTES = 1 << 30


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
    write_whole(path.resolve(), lambda file: file.write((json.dumps(contents, indent=1) + "\n").encode()))


def _programs(samples: int, end: float, finished: dict) -> Iterator[dict]:
    """What compiling each program takes, and estimates from its text; scores on the CPU."""
    until = time.monotonic() + SHARE * (end - time.monotonic())
    with Pool(until) as pool:
        pool.compile(plan(samples), trainings())
        pool.score_on_cpu(plan(samples))
        yield {**pool.results(), "finished": True}


def _copies(samples: int, end: float, finished: dict) -> Iterator[dict]:
    """Bytes per second from the host to the device."""
    array = np.ones(COPIED_BYTES // 4, np.float32)
    jax.block_until_ready(jax.device_put(array))
    start = time.perf_counter()
    jax.block_until_ready(jax.device_put(array))
    yield {"bytes_per_second": array.nbytes / (time.perf_counter() - start), "finished": True}


def _scores(samples: int, end: float, finished: dict) -> Iterator[dict]:
    """Time per member of every metric in small and in large zoos, beside the estimate, and what differs between runs.

    Differences are the largest of any number that the metric returns: between two runs of the same program, whose sums
    may take another order, and from the CPU.
    """
    measured = functools.partial(_scored, programs=finished["programs"])
    return _rows(finished["scores"], plan(samples), measured, end)


def _training(samples: int, end: float, finished: dict) -> Iterator[dict]:
    """Time of an update of a zoo: one by one and together, at full and at fast precision, by kind of convolution."""
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
    """Two runs, of fewer members together if the memory of the device does not hold so many."""
    try:
        run = scored.prepared()
        results, seconds = zip(*(_timed(run) for _ in range(2)), strict=True)  # the first run loads the program
    except jax.errors.JaxRuntimeError as error:
        fewer = scored.with_fewer()
        if "RESOURCE_EXHAUSTED" not in str(error) or fewer is None:
            raise
        return _scored(fewer, programs)
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
