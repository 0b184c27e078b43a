"""Every metric alone and all of them together: time and peak memory per member, what the first call costs beyond that.

    python -m pytest benchmarks/bench_all.py -o addopts= --benchmark-timer=time.process_time -k "not new_process"
    python -m pytest benchmarks/bench_all.py -o addopts= -k new_process                            wall time

At the end they are listed by their time, with its ratio to the time of all together, which is less than the sum:
metrics that read the same relation, or the same fit, share it. There is no peer that has all of them; each part is
beside its own peer in the other files. Set ``JAX_ENABLE_COMPILATION_CACHE=false`` to see what compiling costs without a
cache. On Linux, ``peak_megabytes`` is what a call needs beyond what the process holds before it.
"""

import ctypes
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import CORES
from workload import DSPRITES, make_zoo

from jaxdis import METRICS, Factors, evaluate

TRAIN, HELD_OUT = 10_000, 5000
KERNELS = 200
STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@pytest.mark.benchmark(group="one member under each metric")
@pytest.mark.parametrize("name", [*METRICS, "all"])
def bench_metric(name, measure, benchmark):
    codes, values = make_zoo(1, n=TRAIN + HELD_OUT)
    factors, unseen = Factors.of(values[:TRAIN], DSPRITES), Factors.of(values[TRAIN:], DSPRITES)
    codes, held_out = codes[:, :TRAIN], codes[:, TRAIN:]
    variances = np.full_like(codes, 0.1)

    def call():
        return evaluate(codes, factors, name, test=(held_out, unseen), variances=variances)

    measure(call, rounds=2)
    if RESET.exists():
        ctypes.CDLL(None).malloc_trim(0)  # freed memory goes back, or a call would not have to ask for it
        before = megabytes("VmRSS")
        RESET.write_text("5")  # the peak starts again
        jax.block_until_ready(call())
        benchmark.extra_info["peak_megabytes"] = round(megabytes("VmHWM") - before, 1)


def megabytes(name: str) -> float:
    return int(STATUS.read_text().split(f"{name}:")[1].split()[0]) / 1e3


# Scores a member twice, and prints for how long.
PROCESS = """
import sys, time
from jaxdis.cli import terminal
terminal.start(sys.argv[1])
sys.path.insert(0, sys.argv[2])
import numpy as np
from bench_all import HELD_OUT, TRAIN
from workload import DSPRITES, make_zoo
from jaxdis import Factors, evaluate
codes, values = make_zoo(1, n=TRAIN + HELD_OUT)
test = codes[0, TRAIN:], Factors.of(values[TRAIN:], DSPRITES)
for _ in range(2):
    started = time.perf_counter()
    evaluate(codes[0, :TRAIN], Factors.of(values[:TRAIN], DSPRITES), "all", test=test, variances=codes[0, :TRAIN] ** 2)
    print(time.perf_counter() - started)
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.mark.benchmark(group="one member under all metrics in a new process")
@pytest.mark.parametrize("state", ["empty", "full"])
def bench_new_process(benchmark, cache, state):
    """What a process does before it computes (the column of compiling), with an empty cache and with a full one."""
    command = [sys.executable, "-c", PROCESS, str(cache), str(Path(__file__).parent)]
    times = []

    def run():
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        times.append([float(line) for line in done.stdout.split()])

    if state == "full" and not any(cache.iterdir()):
        run()
    benchmark.pedantic(run, rounds=1)
    first, second = times[-1]
    benchmark.extra_info.update(compile_seconds=round(first - second, 2), computing=round(second, 2), cores=CORES)


@pytest.mark.benchmark(group="compiling the smallest kernels")
def bench_kernels(benchmark):
    """XLA's time for each of the smallest loops over arrays, all of which differ."""

    def loops(array):
        parts = [jax.lax.optimization_barrier(array[: KERNELS + i] * (i + 1.0)) for i in range(KERNELS)]
        return [jnp.where(part > 3, part, 0.0) for part in parts]

    def lowered():
        return (jax.jit(lambda array: loops(array)).lower(jnp.ones(2 * KERNELS)),), {}

    kernels = []

    def compiled(lowered):
        kernels.append(lowered.compile().as_text().count(" fusion("))

    benchmark.pedantic(compiled, setup=lowered, rounds=3)
    benchmark.extra_info.update(each=kernels[-1], jax=jax.__version__)
