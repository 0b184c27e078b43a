"""Many codes: seconds and memory of metrics at growing numbers of codes, beside scikit-learn in the same run.

``taskset -c 0 python -m benchmarks.bench_wide [CODES …]`` prints a table for ``NOTES.md``: CPU seconds of the first
call with compilation, 10,000 samples and 5 factors, and gigabytes at the peak beyond those before the call. Each cell
is a process of its own, which keeps no compiled programs.
"""

import json
import os
import resource
import subprocess
import sys
import time

SAMPLES, SIZES = 10_000, (3, 6, 40, 32, 32)
ROWS = {
    "MI family, SAP R², MCC": ("mig", "modularity", "mig_sup", "dcimig", "sap_r2", "mcc"),
    "SNC": ("snc",),
    "SAP": ("sap",),
    "total correlation": ("total_correlation",),
    "code information": ("code_information",),
    "explicitness": ("explicitness",),
}
PEERS = {"scikit-learn: mutual_info_score of 20 bins": "information", "scikit-learn: f_classif": "f_classif"}
# Longer ones are not run.
MOST_SECONDS = 400


def inputs(codes: int):
    import numpy as np

    rng = np.random.default_rng(0)
    values = rng.integers(0, SIZES, (SAMPLES, len(SIZES)))
    array = np.empty((SAMPLES, codes), np.float32)
    for start in range(0, codes, 1024):  # random numbers of float64 would be the peak
        stop = min(start + 1024, codes)
        array[:, start:stop] = rng.normal(size=(SAMPLES, stop - start)) * 8
        array[:, start:stop] += values[:, np.arange(start, stop) % len(SIZES)]
    return array, values


def cell(row: str, codes: int) -> None:
    """Measure one cell in this process, and print it."""
    array, values = inputs(codes)
    peak, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, None
    if row in ROWS:
        from jaxdis import evaluate

        start = time.process_time()
        evaluate(array, values, ROWS[row])
    elif PEERS[row] == "f_classif":
        from sklearn.feature_selection import f_classif

        start = time.process_time()
        for column in values.T:
            f_classif(array, column)
    else:
        import numpy as np
        from sklearn.metrics import mutual_info_score

        start = time.process_time()
        for code in array.T:
            bins = np.digitize(code, np.histogram(code, 20)[1][1:-1])
            for column in values.T:
                mutual_info_score(bins, column)
    seconds = time.process_time() - start
    beyond = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak
    print(json.dumps([seconds, beyond / 1e6]))


def main(all_codes) -> None:
    print(f"| metric | {' | '.join(f'{codes:,}' for codes in all_codes)} |\n|{' --- |' * (1 + len(all_codes))}")
    for row in (*ROWS, *PEERS):
        cells = []
        for codes in all_codes:
            code = f"from benchmarks.bench_wide import cell; cell({row!r}, {codes})"
            environment = {**os.environ, "JAXDIS_CACHE": "off"}
            try:
                run = [sys.executable, "-c", code]
                done = subprocess.run(run, capture_output=True, text=True, timeout=MOST_SECONDS, env=environment)
                seconds, gigabytes = json.loads(done.stdout.splitlines()[-1])
                cells.append(f"{seconds:.3g} / {gigabytes:.2g}")
            except subprocess.TimeoutExpired:
                cells.append(f"over {MOST_SECONDS} s")
            except (IndexError, ValueError):
                cells.append("refused" if "must fit the memory" in done.stderr else "failed")
        print(f"| {row} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]] or [1000, 4096, 16_384])
