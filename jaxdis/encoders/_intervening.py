"""Metrics that intervene: their row in METRICS, computed with a simulator instead of given samples."""

import functools
import inspect
from collections.abc import Callable, Mapping

import jax
import numpy as np

from jaxdis.data import FactorSpace
from jaxdis.encoders import _simulated
from jaxdis.metrics import METRICS, Metric
from jaxdis.metrics._metric import metric_seed

# Metrics that change a factor and encode again, by the function of their row in METRICS.
INTERVENTIONS = {
    metric.source.function: vars(_simulated)[metric.source.name]
    for metric in METRICS.values()
    if metric.about is not None and metric.about.intervenes
}


def intervened(metric: Metric, options: Mapping, encode: Callable, space: FactorSpace, render, key) -> tuple:
    """Compute one metric of all members by interventions in the simulator."""
    judge = INTERVENTIONS[metric.source.function]
    judged = functools.partial(judge, space=space, render=render, **options)
    result = judged(jax.random.fold_in(key, metric_seed(metric.source.name)), encode=encode)
    return jax.tree.map(np.asarray, result)


def options_of(name: str, metric: Metric, limits: Mapping[str, int]) -> dict:
    """The options of a metric that intervenes, and how many images and batches it takes, within limits.

    Options that only apply to given samples, such as bins, are refused.
    """
    parameters = inspect.signature(INTERVENTIONS[metric.source.function]).parameters
    given = {option: value for option, value in metric.all_options.items() if value is not None}
    unread = [option for option in given if option not in parameters]
    if unread:
        raise ValueError(f"{unread[0]}: {name} holds the factors of the data set itself and has no such option")
    options = {option: each.default for option, each in parameters.items() if each.kind is each.KEYWORD_ONLY} | given
    for option in limits.keys() & options.keys() - dict(metric.source.options).keys():
        if limits[option] < options[option]:
            # Images are encoded in chunks of equal size: a prime number would be encoded one by one.
            options[option] = limits[option] // 32 * 32 or limits[option]
    return options


def images_of(options: Mapping, space: FactorSpace) -> int:
    """How many images a metric draws by interventions."""
    if "num_pairs" in options:  # consistency, restrictiveness
        return options["num_pairs"] * (1 + 2 * space.num_factors)
    if "num_samples" in options:  # IRS
        fixed = {position for position, _ in space.fixed}
        sizes = [size or options["factor_bins"] for j, size in enumerate(space.sizes) if size != 1 and j not in fixed]
        return options["num_samples"] + options["num_given"] * sum(sizes)
    batches = (options["num_train"] + options["num_eval"]) * options["batch"]
    return batches + options["num_variance"] if "num_variance" in options else 2 * batches
