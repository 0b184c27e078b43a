"""Measure how long each metric takes with few and with many codes, on one core, without compilation.

``taskset -c 0 python -m benchmarks.measure_seconds [NAME …]`` writes ``jaxdis/evaluation/seconds.json``: seconds of
10,000 samples × 1,000 codes with five factors of 100 classes together, the powers with which these grow in samples,
codes, classes and factors, and the number of codes if it is another. The power of codes is measured; time is taken to
grow in proportion to samples but for two, and to classes or factors where a model is fitted to each.

A name that ends with ", many codes" stands for what is measured with thousands of codes: other forms are used there
than with hundreds. One with ", few codes" is measured with ten, where its powers of classes and of factors are those of
three sets of factors, and that of codes is such that it meets the other form at 256: most of the time of a probe of ten
codes goes into its hidden units and classes. One with ", histogram" stands for trees with this splitter, whose time
hardly falls with few samples.
"""

import json
import math
import sys
import time
from pathlib import Path

import jax
import numpy as np
from scipy import optimize

from jaxdis.evaluation import evaluate
from jaxdis.evaluation._costs import FEW_CODES, Seconds, Size
from jaxdis.factors import Factors
from jaxdis.metrics import METRICS, Blend
from jaxdis.relations import RELATIONS

PATH = Path(__file__).parent.parent / "jaxdis" / "evaluation" / "seconds.json"
SAMPLES, CODES, SIZES = 2000, (64, 256), (3, 6, 11, 40, 40)  # 100 classes
LEAST_CODES = {"mutual_information_neural": (2, 4), "impact_intensity": (8, 24)}  # seconds for each pair, or to compile
OF_MANY = ", many codes"
MANY_SAMPLES, MANY_CODES = 10_000, (1000, 4096)
BY_HISTOGRAMS = ", histogram"
WITH_SPLITTER = ("boosted_trees", "downstream_trees")
OF_FEW = ", few codes"
# Two factors, ten, and dSprites'.
TEN_CODES, FEW_SIZES = 10, ((4, 4), (4,) * 10, (3, 6, 40, 32, 32))
OF_FEW_CODES = (
    "beta_vae", "consistency", "explicitness", "factor_vae", "impact_intensity", "infoe", "lasso_importance",
    "linear_probe", "logistic_importance", "mlp_probe", "nk", "random_forest", "restrictiveness", "separation", "snc",
    "svm_accuracy", "z_max",
)  # fmt: skip
# Probes pass over few samples more often.
OF_ALL_SAMPLES = ("linear_probe", "mlp_probe", "nk", "random_forest")
OF_MANY_CODES = ("code_information", "explicitness", "logistic_importance", "total_correlation")
# All samples are compared with one another; covariances are decomposed.
POWER_OF_SAMPLES = {"impact_intensity": 2.0, "total_correlation": 0.0}
PER_CLASS = (
    "boosted_trees", "downstream_trees", "explicitness", "infoe", "linear_probe", "logistic_accuracy",
    "logistic_importance", "svm_accuracy",
)  # fmt: skip
PER_FACTOR = (
    "dci_es", "mlp_probe", "mutual_information_neighbors", "mutual_information_neural", "nk", "random_forest"
)  # fmt: skip


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
    samples = MANY_SAMPLES if of_many or name.endswith(BY_HISTOGRAMS) or name in OF_ALL_SAMPLES else SAMPLES
    less, more = MANY_CODES if of_many else LEAST_CODES.get(name, CODES)
    few, many = (seconds(metric, samples, codes, SIZES) for codes in (less, more))
    power = round(max(math.log(many / few) / math.log(more / less), 1.0), 2)
    by_samples = POWER_OF_SAMPLES.get(name.removesuffix(OF_MANY), 1.0)
    reference = many * (10_000 / samples) ** by_samples * (1000 / more) ** power
    powers = by_samples, power, float(name.startswith(PER_CLASS)), float(name.startswith(PER_FACTOR))
    return [float(f"{reference:.3g}"), *powers]


def measured_few(metric, other: Seconds) -> list[float]:
    """With ten codes; ``other`` is the form from :data:`FEW_CODES` codes on."""
    found = [seconds(metric, MANY_SAMPLES, TEN_CODES, sizes) for sizes in FEW_SIZES]
    print([float(f"{value:.3g}") for value in found], flush=True)
    return fitted_few(found, other, POWER_OF_SAMPLES.get(metric.source.name, 1.0))


def fitted_few(found, other: Seconds, by_samples: float) -> list[float]:
    at = [Size.of(MANY_SAMPLES, TEN_CODES, sizes) for sizes in FEW_SIZES]
    powers = np.log([(size.classes / 100, size.factors / 5) for size in at])
    constant, by_classes, by_factors = optimize.lsq_linear(
        np.c_[np.ones(len(at)), powers], np.log(found), ([-np.inf, 0, 0], np.inf)
    ).x
    # The two forms meet where one ends, with dSprites' factors.
    meeting = other.of(at[-1]._replace(codes=FEW_CODES))
    by_codes = max(math.log(meeting / found[-1]) / math.log(FEW_CODES / TEN_CODES), 0.0)
    found = math.exp(constant), by_samples, by_codes, by_classes, by_factors
    return [*(float(f"{value:.3g}") if value > 1e-6 else 0.0 for value in found), TEN_CODES]


def main(names) -> None:
    table = json.loads(PATH.read_text())
    rows = sources() | {name + OF_MANY: sources()[name] for name in OF_MANY_CODES}
    rows |= {name + OF_FEW: rows[name] for name in OF_FEW_CODES}
    rows |= {name + BY_HISTOGRAMS: rows[name].with_options(splitter="histogram") for name in WITH_SPLITTER}
    for name, metric in rows.items():
        if names and name not in names:
            continue
        few = name.endswith(OF_FEW)
        other = Seconds(*table[name.removesuffix(OF_FEW)]) if few else None
        table[name] = measured_few(metric, other) if few else measured(name, metric)
        print(name, table[name], flush=True)
        jax.clear_caches()
        lines = (f'  "{name}": {json.dumps(table[name])}' for name in sorted(table))
        PATH.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
