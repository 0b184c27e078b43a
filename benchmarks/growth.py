"""Measure how the time and memory of metrics grow with samples, codes, factors, classes and members, on one core.

    taskset -c 0 python -m benchmarks.growth growth.json [NAME …] [--most 20]
    python -m benchmarks.growth growth.json --page notebooks/growth.md

Names are those of functions that read samples, each of which serves several metrics. One size grows tenfold or so from
cell to cell while the others stay; an axis ends at a cell that is expected to take more than ``--most`` CPU seconds.
Compilation is apart. The same command resumes. A metric may grow no faster than its algorithm must, which
:data:`MUST` states; what does is marked on the page.
"""

import argparse
import ctypes
import json
import math
import time
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

import jaxdis
from benchmarks.measure_seconds import sources
from jaxdis._core import programs
from jaxdis._core.files import write_text


class Size(NamedTuple):
    """Samples, codes, factors, classes of each factor, members."""

    n: int = 2000
    d: int = 10
    k: int = 5
    classes: int = 10
    m: int = 1


AXES = {
    "n": (1000, 10_000, 100_000, 1_000_000),
    "d": (10, 100, 1000, 10_000),
    "k": (2, 10, 40),
    "classes": (2, 30, 300, 1000),
    "m": (1, 10, 100, 1000, 10_000),
}
# Powers of an algorithm at large sizes where they are not 1 for samples, codes, factors, members, and 0 for classes.
MUST = {
    "boosted_trees": {"classes": 1},
    "code_information": {"d": 2},  # pairs of codes
    "dci_es": {"classes": 1},
    "downstream_trees": {"classes": 1},
    "explicitness": {"classes": 1},
    "beta_vae": {"d": 2},  # logistic regression
    "impact_intensity": {"n": 2},  # all samples are compared
    "infoe": {"classes": 1},
    "kernel_prediction": {"classes": 1},
    "lasso_importance": {"d": 2},
    "linear_prediction": {"d": 2, "classes": 1},
    "linear_probe": {"classes": 1},
    "logistic_accuracy": {"classes": 1},
    "logistic_importance": {"classes": 1},
    "mlp_probe": {"classes": 1},
    "mutual_information": {"classes": 1},
    "mutual_information_equal_count": {"classes": 2},  # as many bins as classes
    "mutual_information_sampled": {"d": 2, "classes": 1},  # JEMMIG's largest pairs
    "dependent_information": {"k": 2, "classes": 2},  # pairs of factors
    "neighbor_alignment": {"classes": 1},
    "nk": {"classes": 1},
    "separation": {"d": 2},  # all codes but one
    "snc": {"classes": 3},  # bins are matched to classes
    "svm_accuracy": {"classes": 2},  # where the lines of any two classes cross
    "threshold_accuracy": {"classes": 2},  # as many bins as classes
    "total_correlation": {"d": 3},  # eigenvalues
    "unibound": {"d": 2, "classes": 1},
}
# What noise and caches add to a measured power.
TOLERANCE = 0.3


def powers(name: str) -> dict[str, int]:
    return {"n": 1, "d": 1, "k": 1, "classes": 0, "m": 1} | MUST.get(name, {})


def measured(metric, size: Size) -> dict[str, float]:
    """CPU seconds of a call, those of compiling, and megabytes beyond what the process holds before."""
    rng = np.random.default_rng(0)
    values = rng.integers(0, size.classes, (size.n, size.k))
    codes = rng.normal(size=(size.m, size.n, size.d)).astype(np.float32)
    codes += values[:, np.arange(size.d) % size.k]
    factors = jaxdis.Factors.of(values, (size.classes,) * size.k)

    def seconds() -> float:
        start = time.process_time()
        jaxdis.evaluate(codes, factors, {"metric": metric})
        return time.process_time() - start

    first = seconds()
    ctypes.CDLL(None).malloc_trim(0)  # freed memory goes back, or a call would not have to ask for it
    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again
    spent = [seconds()]
    peak = status("VmHWM") - before
    while len(spent) < 3 and sum(spent) < 1:
        spent.append(seconds())
    return {"seconds": min(spent), "compile": first - min(spent), "megabytes": peak}


def status(name: str) -> float:
    return int(Path("/proc/self/status").read_text().split(f"{name}:")[1].split()[0]) / 1e3


def measure(record: dict, path: Path, names, most: float) -> None:
    programs.keep_in(None)
    for name, metric in sources().items():
        if names and name not in names:
            continue
        for axis, sizes in AXES.items():
            cells = record.setdefault(name, {}).setdefault(axis, {})
            expected = 0.0
            for size in sizes:
                if expected > most:
                    break
                if str(size) not in cells:
                    try:
                        cells[str(size)] = measured(metric, Size()._replace(**{axis: size}))
                    except (ValueError, MemoryError) as refused:
                        cells[str(size)] = {"refused": str(refused)[:200]}
                    write_text(path, json.dumps(record, indent=1, sort_keys=True) + "\n")
                    print(name, axis, size, cells[str(size)], flush=True)
                    jax.clear_caches()
                if "refused" in cells[str(size)]:
                    break
                expected = cells[str(size)]["seconds"] * 10 ** max(powers(name)[axis], 1)


def power(cells: dict) -> float | None:
    """Between the two largest sizes that were measured."""
    done = sorted((int(size), cell["seconds"]) for size, cell in cells.items() if "seconds" in cell)
    if len(done) < 2:
        return None
    (less, few), (more, many) = done[-2:]
    return math.log(many / few) / math.log(more / less)


def page(record: dict) -> str:
    lines = [PAGE, f"| function | {' | '.join(TITLES[axis] for axis in AXES)} | MB at most |", "| --- " * 7 + "|"]
    for name, axes in sorted(record.items()):
        cells = [cell_text(axes.get(axis, {}), powers(name)[axis]) for axis in AXES]
        peak = max(cell["megabytes"] for sizes in axes.values() for cell in sizes.values() if "seconds" in cell)
        lines.append(f"| `{name}` | {' | '.join(cells)} | {peak:.0f} |")
    return "\n".join(lines) + "\n"


def cell_text(cells: dict, must: int) -> str:
    found = power(cells)
    if found is None:
        return ""
    largest = max(int(size) for size, cell in cells.items() if "seconds" in cell)
    mark = " (!)" if found > must + TOLERANCE else ""
    return f"{found:.2f} of {must}{mark}; {duration(cells[str(largest)]['seconds'])} at {largest:,}"


def duration(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds >= 0.1 else f"{1e3 * seconds:.2g} ms"


TITLES = {"n": "samples", "d": "codes", "k": "factors", "classes": "classes", "m": "members"}
PAGE = """# How cost grows

Each row is a function that reads samples, which may serve several metrics (`jaxdis list metrics NAME` names it). One
size grows while the others stay at 2,000 samples, 10 codes, 5 factors of 10 classes, and one member. The cells have
the measured power between the two largest sizes, the power with which the algorithm must grow in the end, and the CPU
seconds at the largest size, without compilation, on one core. A power below the algorithm's means that fixed costs
still count; (!) marks one that is above it by more than 0.3. The last column is the largest memory of any cell, beyond
that of the process. An axis ends at a cell that would take more than some ten seconds. The machine ran other work as
well. `benchmarks/growth.py` measures and writes this page.

Where a power is marked:

- With more samples or codes, arrays outgrow a cache: `correlation`, `r2` and `consistency` of 10,000 codes,
  `linear_probe` with the moments of its optimizer, `irs` of a million samples, `z_max`. Probes train together for all
  factors, and those of many (`mlp_probe`, `nk`) outgrow it as well.
- Lasso and logistic regression take more steps where codes or classes are many. `infoe` has no penalty:
  near separable classes (with 60 codes it scores 1.00 here) its fit has no optimum, and takes many more.
- `mutual_information_neighbors` of 100,000 samples finds many equal codes in float32, which it counts exactly in three
  times the time.
- Milliseconds that grow with the number of classes in `irs`, `correlation` and `mutual_information_sampled` have not
  been looked into.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("record", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--most", type=float, default=20.0)
    parser.add_argument("--page", type=Path)
    given = parser.parse_intermixed_args()
    record = json.loads(given.record.read_text()) if given.record.exists() else {}
    if given.page is None:
        measure(record, given.record, given.names, given.most)
    else:
        write_text(given.page, page(record))


if __name__ == "__main__":
    main()
