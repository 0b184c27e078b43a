"""Large zoos: 10,000 members of 10,000 samples from a memory-mapped file, two devices, two processes.

    python -m pytest benchmarks/bench_scale.py -o addopts= -s
    BENCHMARK_CORES=2 python -m pytest benchmarks/bench_scale.py -o addopts= -s -k "devices or processes"

The file takes 4 GB of the temporary folder. The time per member should not depend on the number of members, and the
memory that is not the file's own pages (``RssAnon`` on Linux, sampled while scoring) should not grow with it. The
floor is one read of the file, which the same run measures.
"""

import contextlib
import functools
import os
import subprocess
import sys
import threading
from pathlib import Path

import jax
import numpy as np
import pytest
from conftest import CORES
from workload import make_zoo

from jaxdis import Factors, evaluate

FAMILY = ("mig", "mig_sup", "med", "dcimig", "modularity")
STATUS = Path("/proc/self/status")
MEMBERS = 10_000
# Metrics and numbers of members: the lightest, where reading codes counts, and a heavier one.
WORK = {"family": (FAMILY, 1024), "sap": (("sap",), 64)}
# A process on one core that scores its members whenever it reads a line.
PROCESS = """
import os, sys
os.sched_setaffinity(0, {{{core}}})
sys.path.insert(0, {folder!r})
import jax
from workload import make_zoo
from jaxdis import Factors, evaluate
codes, values = make_zoo({members})
factors = Factors.of(values)
for _ in sys.stdin:
    jax.block_until_ready(dict(evaluate(codes, factors, {names!r})))
    print("done", flush=True)
"""


@pytest.fixture(scope="module")
def zoo(tmp_path_factory):
    """A file of 16 different members, over and over."""
    path = tmp_path_factory.mktemp("zoo") / "codes.npy"
    codes, values = make_zoo(16)
    file = np.lib.format.open_memmap(path, "w+", np.float32, (MEMBERS, *codes.shape[1:]))
    for start in range(0, MEMBERS, len(codes)):
        file[start : start + len(codes)] = codes[: MEMBERS - start]
    file.flush()
    del file
    yield path, Factors.of(values)
    path.unlink()


@pytest.mark.parametrize("members", [16, 256, MEMBERS])
def bench_file(zoo, members, measure, benchmark):
    """The mutual-information family of the first members of the file."""
    benchmark.group = "scoring a memory-mapped file: ms per member"
    path, factors = zoo
    codes = np.load(path, mmap_mode="r")[:members]
    with Anonymous() as memory:
        measure(lambda: dict(evaluate(codes, factors, FAMILY)), rounds=1 if members == MEMBERS else 5, each=members)
    benchmark.extra_info["peak_megabytes"] = memory.most


def bench_read(zoo, measure, benchmark):
    """The floor: every number of the file is read once."""
    benchmark.group = "scoring a memory-mapped file: ms per member"
    codes = np.load(zoo[0], mmap_mode="r")
    measure(lambda: [float(codes[i : i + 64].sum()) for i in range(0, MEMBERS, 64)], rounds=1, each=MEMBERS)


@pytest.mark.skipif(CORES < 2, reason="set BENCHMARK_CORES=2")
@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("metrics", WORK)
def bench_devices(metrics, devices, measure, benchmark):
    """Wall time with one CPU device, which may use both cores, and with two."""
    benchmark.group = f"devices, {metrics}: ms per member"
    names, members = WORK[metrics]
    codes, values = make_zoo(members)
    factors = Factors.of(values)
    chosen = jax.devices()[:devices]
    measure(lambda: dict(evaluate(codes, factors, names, devices=chosen)), rounds=5, each=members)


@pytest.mark.skipif(CORES < 2, reason="set BENCHMARK_CORES=2")
@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("metrics", WORK)
def bench_processes(metrics, processes, benchmark):
    """Wall time of one process on one core, and of two processes that score half of the members each."""
    benchmark.group = f"processes, {metrics}: ms per member"
    names, members = WORK[metrics]
    program = functools.partial(
        PROCESS.format, folder=str(Path(__file__).parent), names=names, members=members // processes
    )
    cores = sorted(os.sched_getaffinity(0))[:processes]
    with contextlib.ExitStack() as stack:
        jobs = [stack.enter_context(started(program(core=core))) for core in cores]

        def score():
            for job in jobs:
                job.stdin.write("score\n")
                job.stdin.flush()
            return [job.stdout.readline() for job in jobs]

        score()
        benchmark.pedantic(score, rounds=5, iterations=1)
    benchmark.extra_info["each"] = members


def started(program: str) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


class Anonymous:
    """The largest growth of this process's own memory in a block, in megabytes; without Linux's table, nothing."""

    def __enter__(self):
        self.most, self._over = None, threading.Event()
        if STATUS.exists():
            self._before = _own_megabytes()
            self.most = 0.0
            self._thread = threading.Thread(target=self._watch)
            self._thread.start()
        return self

    def _watch(self):
        while not self._over.wait(0.02):
            self.most = max(self.most, round(_own_megabytes() - self._before, 1))

    def __exit__(self, *_):
        self._over.set()
        if STATUS.exists():
            self._thread.join()


def _own_megabytes() -> float:
    return int(STATUS.read_text().split("RssAnon:")[1].split()[0]) / 1e3
