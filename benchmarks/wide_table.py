"""Many codes: CPU seconds and peak memory of metrics and of peers on one core, each in a process of its own.

    python -m benchmarks.wide_table 1000 4096              # all rows, 10,000 samples, the factors of dSprites
    python -m benchmarks.wide_table 16384 65536 --rows mig snc

Seconds include compilation, and nothing is cached on disk. Gigabytes are memory that is not the pages of a file, beyond
what the process held when it began to score. From 65,536 codes on, codes stay on disk and the address space is limited
to 8 GB. What takes a part of its work says so: ``× 25`` is time for a 25th.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from benchmarks.workload import DSPRITES

SAMPLES, ON_DISK, LIMIT = 10_000, 65_536, 8 << 30
STAGES, PEER_CODES = 10, 200
# The metrics of each row.
ROWS = {
    **{name: (name,) for name in ("mig", "sap_r2", "mcc", "snc", "sap", "explicitness", "dci_logistic")},
    "code_information, total_correlation": ("code_information", "total_correlation"),
    "dci by histograms": ("dci",),
}
PEERS = ("peer mutual_info_score", "peer f_classif", "peer HistGradientBoosting, one factor")


def write_codes(path: Path, codes: int) -> np.ndarray:
    """Write noisy copies of factors as codes ``[n, d]``, a block at a time; returns class numbers ``[n, k]``."""
    values = np.random.default_rng(0).integers(0, DSPRITES, (SAMPLES, len(DSPRITES)))
    scaled = (values / (np.array(DSPRITES) - 1) * 2 - 1).astype(np.float32)
    file = np.lib.format.open_memmap(path, "w+", np.float32, (SAMPLES, codes))
    for start in range(0, codes, 1024):
        draw = np.random.default_rng([1, start])
        width = min(1024, codes - start)
        mixed = scaled @ (draw.normal(size=(len(DSPRITES), width)) * (draw.random(width) < 0.5)).astype(np.float32)
        file[:, start : start + width] = mixed + draw.standard_normal((SAMPLES, width), np.float32)
    file.flush()
    return values


def score(row: str, codes, values) -> float:
    """Compute one row; returns how many times longer all of the work takes."""
    if row == "peer f_classif":
        from sklearn.feature_selection import f_classif

        for column in values.T:
            f_classif(codes, column)
        return 1.0
    if row == "peer mutual_info_score":
        from sklearn.metrics import mutual_info_score

        few = min(PEER_CODES, codes.shape[1])
        for code in codes[:, :few].T:
            bins = np.digitize(code, np.histogram_bin_edges(code, 20)[:-1])
            for column in values.T:
                mutual_info_score(bins, column)
        return codes.shape[1] / few
    if row.startswith("peer"):
        from sklearn.ensemble import HistGradientBoostingClassifier

        HistGradientBoostingClassifier(max_iter=STAGES, early_stopping=False).fit(codes, values[:, 1])
        return 100 / STAGES
    from jaxdis import METRICS, evaluate

    metrics = {name: METRICS[name] for name in ROWS[row]}
    if "dci" in metrics:
        metrics["dci"] = metrics["dci"].with_options(splitter="histogram", stages=STAGES)
    evaluate(codes, values, metrics)
    return 100 / STAGES if "dci" in metrics else 1.0


def measure(row: str, path: Path) -> None:
    """Print seconds, gigabytes and how many times longer all of the work takes."""
    import jax

    import jaxdis.metrics  # noqa: F401

    jax.devices()
    codes = np.load(path / "codes.npy", mmap_mode="r")
    codes, limited = (codes, True) if codes.shape[1] >= ON_DISK else (np.array(codes), False)
    values = np.load(path / "values.npy")
    if limited:
        resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))
    before, over, peaks = own_gigabytes(), threading.Event(), []

    def watch():
        while not over.wait(0.02):
            peaks.append(own_gigabytes())

    watching, start = threading.Thread(target=watch), time.process_time()
    watching.start()
    try:
        times = score(row, codes, values)
    finally:
        over.set()
    print("measured", time.process_time() - start, max(peaks) - before, times)


def own_gigabytes() -> float:
    """Memory of this process that is not the pages of a file."""
    return int(Path("/proc/self/status").read_text().split("RssAnon:")[1].split()[0]) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("codes", type=int, nargs="+")
    parser.add_argument("--rows", nargs="+", default=[*ROWS, *PEERS])
    parser.add_argument("--seconds", type=int, default=600, help="wall time after which a row is stopped")
    given = parser.parse_args()
    environment = {**os.environ, "JAXDIS_CACHE": "off", "OMP_NUM_THREADS": "1"}
    one_core = ["taskset", "-c", str(min(os.sched_getaffinity(0)))]
    for codes in given.codes:
        with tempfile.TemporaryDirectory() as folder:
            np.save(Path(folder) / "values.npy", write_codes(Path(folder) / "codes.npy", codes))
            for row in given.rows:
                run = [*one_core, sys.executable, "-m", "benchmarks.wide_table", "--measure", row, folder]
                try:
                    done = subprocess.run(run, env=environment, capture_output=True, text=True, timeout=given.seconds)
                    found = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("measured")]
                except subprocess.TimeoutExpired:
                    found, done = None, None
                if found:
                    seconds, gigabytes, times = map(float, found[0])
                    words = f"{seconds:.1f} s{f' × {times:g}' if times > 1 else ''}, {gigabytes:.2f} GB"
                else:
                    words = f"over {given.seconds} s" if done is None else done.stderr.strip().splitlines()[-1][:300]
                print(f"{codes:>6}  {row:<36}  {words}", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "--measure":
        measure(sys.argv[2], Path(sys.argv[3]))
    else:
        main()
