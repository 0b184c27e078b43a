"""Every metric alone and all of them together: time and peak memory per member, what the first call costs beyond that.

    python -m pytest benchmarks/bench_all.py -o addopts= --benchmark-timer=time.process_time

At the end they are listed by their time, with its ratio to the time of all together, which is less than the sum:
metrics that read the same relation, or the same fit, share it. There is no peer that has all of them; each part is
beside its own peer in the other files. Set ``JAX_ENABLE_COMPILATION_CACHE=false`` to see what compiling costs without a
cache. On Linux, ``peak_megabytes`` is what a call needs beyond what the process holds before it.
"""

import ctypes
from pathlib import Path

import jax
import numpy as np
import pytest
from workload import DSPRITES, make_zoo

from jaxdis import METRICS, Factors, evaluate

TRAIN, HELD_OUT = 10_000, 5000
STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@pytest.mark.benchmark(group="one member under each metric")
@pytest.mark.parametrize("name", [*METRICS, "all"])
def test_metric(name, measure, benchmark):
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
