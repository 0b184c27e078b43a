"""The harness: which cores, what is recorded, and the ratio to each peer at the end.

    python -m pytest benchmarks -o addopts= --benchmark-timer=time.process_time       one core, CPU time
    BENCHMARK_CORES=2 python -m pytest benchmarks -o addopts=                         two cores, wall time

Every group has a peer that ran in the same session on the same cores; compare ratios, not seconds.
"""

import os

CORES = int(os.environ.get("BENCHMARK_CORES", "1"))
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, str(CORES))

import time  # noqa: E402

import jax  # noqa: E402
import pytest  # noqa: E402
from threadpoolctl import threadpool_limits  # noqa: E402

# The variables come too late for libraries that plugins of pytest have imported. Two threads of linear algebra that
# wait for each other on one core can double the time of a peer.
threadpool_limits(CORES)
jax.config.update("jax_num_cpu_devices", CORES)


@pytest.fixture
def measure(benchmark):
    """``measure(function, rounds=…, each=…, **facts)``: time a call that ends with its result; compile time apart.

    ``each``: how many units (members, say) a call does; the summary divides by it.
    """

    def run(function, *, rounds=5, each=1, compiled=True, **facts):
        started = time.perf_counter()
        jax.block_until_ready(function())
        first = time.perf_counter() - started
        benchmark.pedantic(lambda: jax.block_until_ready(function()), rounds=rounds, iterations=1)
        steady = benchmark.stats.stats.median
        benchmark.extra_info.update(facts, each=each, cores=CORES, backend=jax.default_backend(), jax=jax.__version__)
        if compiled:
            benchmark.extra_info["compile_seconds"] = round(first - steady, 3)
        return steady / each

    return run


def pytest_terminal_summary(terminalreporter, config):
    session = getattr(config, "_benchmarksession", None)
    groups: dict[str, list] = {}
    for bench in session.benchmarks if session else []:
        if bench.stats:
            groups.setdefault(bench.group or "", []).append(bench)
    for name, members in groups.items():
        terminalreporter.write_line(f"\n{name}")
        peers = {bench.name: bench.stats.median / bench.extra_info.get("each", 1) for bench in members}
        peer = next((seconds for label, seconds in peers.items() if "peer" in label), None)
        largest = max(peers.values())
        if peer is None:  # the dearest first
            members = sorted(members, key=lambda bench: -peers[bench.name])
        for bench in members:
            seconds = peers[bench.name]
            ratio = f"  {peer / seconds:8.1f} × peer" if peer else f"  {seconds / largest:8.3f} × largest"
            compiled, peak = (bench.extra_info.get(name) for name in ("compile_seconds", "peak_megabytes"))
            compiled = f"  compile {compiled:.2f} s" if compiled is not None else ""
            peak = f"  peak {peak:.0f} MB" if peak is not None else ""
            terminalreporter.write_line(f"  {bench.name:<58} {seconds * 1e3:10.3f} ms{ratio}{compiled}{peak}")
