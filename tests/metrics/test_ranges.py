"""Codes that equal the factors, of every kind: each metric stays within the range of its row."""

import functools

import jax
import numpy as np
import pytest

from jaxdis import METRICS, Factors, Scores, evaluate
from tests.metrics.test_contracts import family, of_metric, shortened, shortened_plan

# Fields that may leave [0, 1], and where they lie.
RANGES = {
    "amari": (0, np.inf),
    "code_information": (0, np.inf),
    "total_correlation": (0, np.inf),
    "total_correlation.wasserstein": (0, np.inf),
    "total_correlation.wasserstein_normalized": (0, 2),
    # Errors and losses in units of those of a constant; probes lose or win by chance on few samples.
    "dci_forest.informativeness": (-np.inf, 1),
    "dci_es.informativeness": (-np.inf, 1),
    "dci_es.explicitness": (-1, 1 + 1e-5),
    "dci_es.size": (0, np.inf),
    "dci_lasso.informativeness": (-np.inf, 1),
    "dci.informativeness": (-np.inf, 1),
    "nk": (-1, 1),
    **dict.fromkeys(("sepin", "wsepin", "indin", "windin"), (-0.1, np.inf)),
    **dict.fromkeys(("xmig", "dmig", "dlig"), (-1, 1 + 1e-5)),
    "r2_linear": (-np.inf, 1),
    "r2_kernel": (-np.inf, 1),
    "downstream_trees.efficiency": (0, np.inf),
}


@functools.cache
def identity(kind: str) -> tuple[np.ndarray, Factors]:
    rng = np.random.default_rng(0)
    sizes = {"mixed": (3, None, 2), "continuous": (None,) * 3}[kind]
    free = rng.uniform(size=(300, 3))
    values = np.stack([np.floor(free[:, j] * v) if v else free[:, j] for j, v in enumerate(sizes)], axis=1)
    return np.c_[values, rng.normal(size=300)].astype(np.float32), Factors.of(values, sizes)


@functools.cache
def scores_of_family(names: tuple[str, ...], kind: str) -> Scores:
    codes, factors = identity(kind)
    plan = {
        name: metric
        for name, metric in shortened_plan(names).items()
        if kind != "continuous" or not metric.source.needs_classes
    }
    return evaluate(codes, factors, plan, devices=jax.devices()[:1])


@pytest.mark.parametrize("kind", ["mixed", "continuous"])
@pytest.mark.parametrize("name", METRICS)
def test_a_metric_stays_within_its_range(name, kind):
    if kind == "continuous" and METRICS[name].source.needs_classes:
        with pytest.raises(ValueError, match="discrete factor"):
            evaluate(*identity(kind), {name: shortened(METRICS[name])})
        return
    scores = of_metric(name, scores_of_family(family(name), kind))
    for column, value in scores.items():
        low, high = RANGES.get(column, (0, 1 + 1e-5))
        assert low <= value <= high, (column, value)  # and none is NaN


@pytest.mark.parametrize("name", ["mig_ksg", "mig_sup_ksg", "dcimig_ksg"])
def test_information_by_neighbors_does_not_grow_beyond_its_bound(name):
    """Of codes equal to continuous factors, it would grow as log n: 1.6 at 500 samples, 2.2 at 4,000."""
    values = np.random.default_rng(0).uniform(size=(4000, 2)).astype(np.float32)
    for n in (500, 4000):
        assert 0.95 < evaluate(values[:n], Factors.of(values[:n], (None, None)), name)[name] <= 1
