"""Measure how long each metric takes with few and with many codes, on one core, without compilation.

``taskset -c 0 python -m benchmarks.measure_seconds [NAME …]`` writes ``jaxdis/evaluation/seconds.json``: seconds of
10,000 samples × 1,000 codes with 100 classes, and the powers with which these grow. That of codes is measured; time is
taken to grow in proportion to samples but for two, and to classes where a model is fitted to each. A name that ends
with ", many codes" stands for what is measured with thousands of codes: other forms are used there than with hundreds.
One that ends with ", histogram" stands for trees with this splitter, whose time hardly falls with few samples.
"""

import json
import math
import sys
import time
from pathlib import Path

import jax
import numpy as np

from jaxdis.evaluation import evaluate
from jaxdis.factors import Factors
from jaxdis.metrics import METRICS, Blend
from jaxdis.relations import RELATIONS

PATH = Path(__file__).parent.parent / "jaxdis" / "evaluation" / "seconds.json"
SAMPLES, CODES, SIZES = 2000, (64, 256), (3, 6, 11, 40, 40)  # 100 classes
FEW_CODES = {"mutual_information_neural": (2, 4), "impact_intensity": (8, 24)}  # seconds for each pair, or to compile
OF_MANY = ", many codes"
MANY_SAMPLES, MANY_CODES = 10_000, (1000, 4096)
BY_HISTOGRAMS = ", histogram"
WITH_SPLITTER = ("boosted_trees", "downstream_trees")
OF_MANY_CODES = ("code_information", "explicitness", "logistic_importance", "total_correlation")
# All samples are compared with one another; covariances are decomposed.
POWER_OF_SAMPLES = {"impact_intensity": 2.0, "total_correlation": 0.0}
PER_CLASS = ("boosted_trees", "downstream_trees", "explicitness", "infoe", "logistic_importance", "svm_accuracy")


def sources() -> dict:
    """A metric for each function that reads samples."""
    metrics = [*METRICS.values(), *(Blend(spec, "gap") for spec in RELATIONS.values())]
    return {metric.source.name: metric for metric in reversed(metrics)}


def seconds(metric, samples: int, codes: int, sizes) -> float:
    """CPU seconds of the process, the least of three runs if they are short."""
    rng = np.random.default_rng(0)
    factors = Factors.of(rng.integers(0, sizes, (samples, len(sizes))), sizes)
    array = (rng.normal(size=(samples, codes)) + np.asarray(factors.values)[:, np.arange(codes) % len(sizes)]).astype(
        np.float32
    )
    evaluate(array, factors, {"metric": metric})
    spent = []
    while len(spent) < 3 and sum(spent) < 2:
        start = time.process_time()
        evaluate(array, factors, {"metric": metric})
        spent.append(time.process_time() - start)
    return min(spent)


def measured(name: str, metric) -> list[float]:
    of_many = name.endswith(OF_MANY)
    samples = MANY_SAMPLES if of_many or name.endswith(BY_HISTOGRAMS) else SAMPLES
    less, more = MANY_CODES if of_many else FEW_CODES.get(name, CODES)
    few, many = (seconds(metric, samples, codes, SIZES) for codes in (less, more))
    power = round(max(math.log(many / few) / math.log(more / less), 1.0), 2)
    by_samples = POWER_OF_SAMPLES.get(name.removesuffix(OF_MANY), 1.0)
    reference = many * (10_000 / samples) ** by_samples * (1000 / more) ** power
    return [float(f"{reference:.3g}"), by_samples, power, float(name.startswith(PER_CLASS))]


def main(names) -> None:
    table = json.loads(PATH.read_text())
    rows = sources() | {name + OF_MANY: sources()[name] for name in OF_MANY_CODES}
    rows |= {name + BY_HISTOGRAMS: rows[name].with_options(splitter="histogram") for name in WITH_SPLITTER}
    for name, metric in rows.items():
        if names and name not in names:
            continue
        table[name] = measured(name, metric)
        print(name, table[name], flush=True)
        jax.clear_caches()
        lines = (f'  "{name}": {json.dumps(table[name])}' for name in sorted(table))
        PATH.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
