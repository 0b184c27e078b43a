"""Measure how long each metric takes with few and with many codes, on one core, without compilation.

``taskset -c 0 python -m benchmarks.measure_seconds [NAME …]`` writes ``jaxdis/evaluation/seconds.json``: seconds of
10,000 samples × 1,000 codes with five factors of 100 classes together, the powers with which these grow in samples,
codes, classes and factors, and the number of codes if it is another. The power of codes is measured; time is taken to
grow in proportion to samples but for two, and to classes or factors where a model is fitted to each.

A name that ends with ", many codes" stands for what is measured with thousands of codes: other forms are used there
than with hundreds. One with ", few codes" is measured with ten, where its powers of classes and of factors are those of
three sets of factors, that of samples is seen from 2,000 to 10,000, and that of codes from ten to a hundred: most of
the time of a probe of ten codes goes into its hidden units and classes. One with ", histogram" stands for trees with
this splitter, whose time hardly falls with few samples.
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
from jaxdis.evaluation._costs import Size
from jaxdis.factors import Factors
from jaxdis.metrics import METRICS, Blend
from jaxdis.relations import RELATIONS

PATH = Path(__file__).parent.parent / "jaxdis" / "evaluation" / "seconds.json"
SAMPLES, CODES, SIZES = 2000, (64, 256), (3, 6, 11, 40, 40)  # 100 classes
OTHER_CODES = {"mutual_information_neural": (2, 4), "impact_intensity": (8, 24)}  # seconds for each pair, or to compile
# Probes of more codes learn sooner.
OTHER_CODES |= dict.fromkeys(("linear_probe", "mlp_probe", "nk"), (256, 1000))
OF_MANY = ", many codes"
MANY_SAMPLES, MANY_CODES = 10_000, (1000, 4096)
BY_HISTOGRAMS = ", histogram"
WITH_SPLITTER = ("boosted_trees", "downstream_trees")
OF_FEW = ", few codes"
# Two factors, ten, and dSprites'.
TEN_CODES, FEW_SIZES = 10, ((4, 4), (4,) * 10, (3, 6, 40, 32, 32))
OF_FEW_CODES = (
    "beta_vae", "boosted_trees", "code_information", "consistency", "dci_es", "downstream_trees", "explicitness",
    "factor_paths", "factor_vae", "impact_intensity", "infoe", "kernel_prediction", "lasso_importance",
    "linear_prediction", "linear_probe", "logistic_accuracy", "logistic_importance", "mlp_probe",
    "mutual_information_neighbors", "mutual_information_sampled", "neighbor_alignment", "nk", "random_forest",
    "restrictiveness", "separation", "snc", "svm_accuracy", "unibound", "z_max",
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
    less, more = MANY_CODES if of_many else OTHER_CODES.get(name, CODES)
    few, many = (seconds(metric, samples, codes, SIZES) for codes in (less, more))
    power = round(max(math.log(many / few) / math.log(more / less), 1.0), 2)
    by_samples = POWER_OF_SAMPLES.get(name.removesuffix(OF_MANY), 1.0)
    reference = many * (10_000 / samples) ** by_samples * (1000 / more) ** power
    powers = by_samples, power, float(name.startswith(PER_CLASS)), float(name.startswith(PER_FACTOR))
    return [float(f"{reference:.3g}"), *powers]


def measured_few(metric) -> list[float]:
    """With ten codes, with a hundred, and with fewer samples."""
    found = [seconds(metric, MANY_SAMPLES, TEN_CODES, sizes) for sizes in FEW_SIZES]
    of_fewer = seconds(metric, SAMPLES, TEN_CODES, FEW_SIZES[-1])
    of_more = seconds(metric, MANY_SAMPLES, 10 * TEN_CODES, FEW_SIZES[-1])
    print([float(f"{value:.3g}") for value in (*found, of_fewer, of_more)], flush=True)
    return fitted_few(found, of_fewer, of_more)


def fitted_few(found, of_fewer: float, of_more: float) -> list[float]:
    """The form by seconds for each of :data:`FEW_SIZES`; for the last one also with fewer samples, with more codes."""
    at = [Size.of(MANY_SAMPLES, TEN_CODES, sizes) for sizes in FEW_SIZES]
    powers = np.log([(size.classes / 100, size.factors / 5) for size in at])
    constant, by_classes, by_factors = optimize.lsq_linear(
        np.c_[np.ones(len(at)), powers], np.log(found), ([-np.inf, 0, 0], np.inf)
    ).x
    by_samples = max(math.log(found[-1] / of_fewer) / math.log(MANY_SAMPLES / SAMPLES), 0.0)
    by_codes = max(math.log10(of_more / found[-1]), 0.0)
    found = math.exp(constant), by_samples, by_codes, by_classes, by_factors
    return [*(float(f"{value:.3g}") if value > 1e-3 else 0.0 for value in found), TEN_CODES]


def main(names) -> None:
    table = json.loads(PATH.read_text())
    rows = sources() | {name + OF_MANY: sources()[name] for name in OF_MANY_CODES}
    rows |= {name + OF_FEW: rows[name] for name in OF_FEW_CODES}
    rows |= {name + BY_HISTOGRAMS: rows[name].with_options(splitter="histogram") for name in WITH_SPLITTER}
    for name, metric in rows.items():
        if names and name not in names:
            continue
        table[name] = measured_few(metric) if name.endswith(OF_FEW) else measured(name, metric)
        print(name, table[name], flush=True)
        jax.clear_caches()
        lines = (f'  "{name}": {json.dumps(table[name])}' for name in sorted(table))
        PATH.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
