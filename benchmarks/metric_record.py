"""Measure what the table of all metrics shows, one part per command, and keep it in ``benchmarks/metric_record.json``.

    taskset -c 0 python -m benchmarks.metric_record time      # CPU seconds of metrics
    taskset -c 0 python -m benchmarks.metric_record peers     # and of other libraries, beside the same of jaxdis
    taskset -c 0 python -m benchmarks.metric_record newer     # CPU seconds that newer metrics add to the example zoo
    python -m benchmarks.metric_record estimate               # an H100, with the compilers of the extra aot

Names of metrics after ``time`` and ``estimate`` measure these alone anew. Other libraries are found as in
``benchmarks/agreement.py``. ``python -m benchmarks.metric_table`` then writes the page.
"""

import functools
import json
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import jax
import numpy as np

import jaxdis
from benchmarks import agreement
from benchmarks.workload import DSPRITES, make_zoo
from jaxdis._core import programs
from jaxdis._core.files import write_text
from jaxdis.cli._metric_texts import plan_of_texts
from jaxdis.metrics._plan import NOT_IN_STUDIES, preset_metrics

RECORD = Path(__file__).with_suffix(".json")
# Of a zoo; beside other libraries, which take one after the other, so many that a call costs little.
MEMBERS, MANY = 4, 64
# With the relation that no metric reads, by one of the scores with which its authors report it.
ROWS = jaxdis.METRICS | {"neighbor_alignment": jaxdis.metrics.Blend("neighbor_alignment", "gap")}
# Metrics of Carbonneau et al. that draw at random, with as many draws: timed, but not compared number by number.
DRAWN = (
    agreement.Row("carbonneau", "z_max_var", "carbonneau/z_max"),
    agreement.Row("carbonneau", "z_min_var", "factor_vae:num_train=800:num_eval=800:batch=200"),
    agreement.Row("carbonneau", "z_diff", "beta_vae:batch=200"),
)
# The columns of one row of jaxdis: timed together.
BOTH = tuple(row for row in agreement.ROWS if row.library == "disent" and "total_correlation" in row.jaxdis)


def both_of(codes) -> Callable:
    """disent's total correlation and Wasserstein distance of one covariance, as its own metric computes them."""
    module, codes = sys.modules["disent.metrics._unsupervised"], codes.astype(float)

    def call():
        covariance = np.cov(codes.T)
        return module._gaussian_total_correlation(covariance), module._gaussian_wasserstein_correlation(covariance)

    return call


def seconds(call: Callable) -> tuple[float, float]:
    """CPU seconds of the first call less those of others, and the least of up to three others."""
    spent = []
    while len(spent) < 2 or (len(spent) < 4 and sum(spent[1:]) < 2):
        start = time.process_time()
        call()
        spent.append(time.process_time() - start)
    return spent[0] - min(spent[1:]), min(spent[1:])


# What XLA moves or repeats without compiling a loop of its own for it.
NO_KERNELS = {"bitcast", "call", "conditional", "constant", "get-tuple-element", "parameter", "tuple", "while"}


def executables() -> set:
    """What this process has compiled and still keeps."""
    return set(jax.local_devices()[0].client.live_executables())


def kernels_of(program: str) -> int:
    """How many loops over arrays XLA compiles, each by itself, which is most of the time that a first call takes.

    ``program`` is what XLA prints; what its fusions consist of is not counted apart.
    """
    within = set(re.findall(r"(?:calls|to_apply)=%?([\w.-]+)", program))
    count, inside = 0, ""
    for line in program.splitlines():
        if opened := re.match(r"(?:ENTRY )?%?([\w.-]+) \(.*\{$", line):
            inside = opened[1]
        elif inside not in within and (operation := re.match(r"\s+(?:ROOT )?%?[\w.-]+ = .*? ([a-z][\w-]*)\(", line)):
            count += operation[1] not in NO_KERNELS
    return count


def workload(members: int) -> tuple:
    """Codes ``[m, 10,000, 10]``, factors, and 5,000 held-out ones."""
    codes, values = make_zoo(members, n=15_000)
    factors, held_out = (jaxdis.Factors.of(part, DSPRITES) for part in np.split(values, [10_000]))
    return codes[:, :10_000], factors, (codes[:, 10_000:], held_out)


def scored(codes, factors, test, metric) -> jaxdis.Scores:
    return jaxdis.evaluate(codes, factors, {"metric": metric}, test=test if metric.source.reads.test else None)


def time_rows(record: dict, names: Sequence[str]) -> None:
    codes, factors, test = workload(MEMBERS)
    first = codes[0], factors, (test[0][0], test[1])
    for name in names:
        jax.clear_caches()
        before = executables()
        compiling, zoo = seconds(lambda metric=ROWS[name]: scored(codes, factors, test, metric))
        modules = (module for executable in executables() - before for module in executable.hlo_modules())
        count = sum(kernels_of(module.to_string()) for module in modules)
        _, alone = seconds(lambda metric=ROWS[name]: scored(*first, metric))
        record["cpu"][name] = {"compile": compiling, "kernels": count, "zoo": zoo / MEMBERS, "alone": alone}
        keep(record, name, record["cpu"][name])


def time_peers(record: dict) -> None:
    codes, factors, test = workload(MANY)
    cells = jaxdis.Factors.of(np.asarray(factors.values)[:, 1:2]).one_hot()
    for row, call in peers(codes[0], factors, (test[0][0], test[1])):
        metric = metric_of(row)
        if (name := name_of(row, metric)) is not None:
            given = cells if row.library == "drvi" else factors
            _, ours = seconds(lambda metric=metric, given=given: scored(codes, given, test, metric))
            times = {"row": name, "theirs": seconds(call)[1], "ours": ours / MANY}
            record["peers"][f"{row.library} {row.metric}"] = times
            keep(record, row.library, row.metric, times)


def peers(codes, factors, test):
    """The rows of the libraries that are here, each with a call that computes its metric of one member."""
    given = codes.astype(float), np.asarray(factors.values), test[0].astype(float), np.asarray(test[1].values)
    for library in ("disent", "carbonneau", "latte", "drvi"):
        try:
            calls = agreement.LIBRARIES[library][0](*given)
        except (AttributeError, KeyError):  # not installed
            continue
        for row in agreement.ROWS:
            if row.library == library and row not in BOTH:
                yield row, calls[row.metric]
        if library == "disent":
            yield agreement.Row(library, " and ".join(row.metric for row in BOTH), BOTH[0].jaxdis), both_of(codes)
        if library == "carbonneau":
            for row in DRAWN:
                found = getattr(__import__(row.metric), row.metric)
                yield row, functools.partial(found, given[1], given[0], continuous_factors=False)


@functools.cache
def metric_of(row: agreement.Row) -> jaxdis.metrics.Metric:
    preset, _, text = row.jaxdis.removesuffix(".wasserstein").rpartition("/")
    return preset_metrics(preset, [text])[text] if preset else plan_of_texts([text])[text]


def name_of(row: agreement.Row, metric) -> str | None:
    """The row of the table to which a metric with any options belongs, by what it computes."""
    named = row.jaxdis.rpartition("/")[2].partition(":")[0].partition(".")[0]
    alike = [name for name, other in ROWS.items() if parts(other) == parts(metric)]
    return alike[0] if alike else named if named in ROWS else None


def parts(metric) -> tuple[str, ...]:
    return (metric.source.name, getattr(getattr(metric, "score", None), "name", ""))


def shares(name: str, source) -> bool:
    return jaxdis.METRICS[name].source in (source, source.base)


def time_newer(record: dict) -> None:
    """What each function that newer metrics read adds to all metrics of the example zoo, by the names of these."""
    codes, factors, _ = jaxdis.data.example()
    read_by: dict = {}
    for name in (name for name in jaxdis.METRICS if name in NOT_IN_STUDIES):
        read_by.setdefault(jaxdis.METRICS[name].source, []).append(name)

    def spent(names) -> float:
        return seconds(lambda: jaxdis.evaluate(codes, factors, names))[1] / len(codes) if names else 0.0

    record["newer"] = {}
    for source, names in read_by.items():
        # An older metric whose fit they share.
        base = [name for name in jaxdis.METRICS if name not in NOT_IN_STUDIES and shares(name, source)][:1]
        record["newer"][names[0]] = {"names": names, "base": base, "seconds": spent(base + names) - spent(base)}
        keep(record, names, record["newer"][names[0]])


def estimate(record: dict, names: Sequence[str]) -> None:
    from jaxdis._core.accelerators import TARGETS
    from jaxdis.cli._accelerators import estimates

    for row in estimates({name: ROWS[name] for name in names}, TARGETS["h100"], 1024):
        record["h100"][row.name] = getattr(row, "ms", None)
        keep(record, row)


def keep(record: dict, *said) -> None:
    write_text(RECORD, json.dumps(record, indent=1, sort_keys=True) + "\n")
    print(*said, flush=True)


def main(command: str, *names: str) -> None:
    record = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    for part in ("cpu", "peers", "h100", "newer"):
        record.setdefault(part, {})
    programs.keep_in(None)
    if command == "time":
        time_rows(record, names or tuple(ROWS))
    elif command == "peers":
        time_peers(record)
    elif command == "newer":
        time_newer(record)
    elif command == "estimate":
        estimate(record, names or tuple(ROWS))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(*sys.argv[1:] or ("",))
