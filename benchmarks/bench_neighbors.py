"""Nearest-neighbor information of one member of 10,000 × 10 with five factors, beside scikit-learn's."""

import jax
import numpy as np
import pytest
from sklearn.feature_selection import mutual_info_classif, mutual_info_regression
from workload import DSPRITES, make_zoo

from jaxdis._learners.neighbors import continuous_information, discrete_information, joint_discrete_information

CODES, CLASSES = make_zoo(1)
CODES = CODES[0]
VALUES = (CLASSES / np.array(DSPRITES) + 0.1 * np.random.default_rng(0).random(CLASSES.shape)).astype(np.float32)

discrete = jax.jit(discrete_information, static_argnames=("sizes", "neighbors"))
continuous = jax.jit(continuous_information, static_argnames=("neighbors", "method"))
joint = jax.jit(joint_discrete_information, static_argnames=("sizes",))


def by_column(estimate, targets):
    return np.stack([estimate(CODES, targets[:, j], random_state=0) for j in range(targets.shape[1])], axis=1)


def bench_discrete_peer(measure, benchmark):
    benchmark.group = "neighbors, 50 pairs with discrete factors"
    measure(lambda: by_column(mutual_info_classif, CLASSES), rounds=3, compiled=False)


def bench_discrete(measure, benchmark):
    benchmark.group = "neighbors, 50 pairs with discrete factors"
    measure(lambda: discrete(CODES, CLASSES, sizes=DSPRITES))
    np.testing.assert_allclose(
        discrete(CODES, CLASSES, sizes=DSPRITES), by_column(mutual_info_classif, CLASSES), atol=1e-3
    )


def bench_continuous_peer(measure, benchmark):
    benchmark.group = "neighbors, 50 pairs with continuous factors"
    measure(lambda: by_column(mutual_info_regression, VALUES), rounds=3, compiled=False)


@pytest.mark.parametrize("method", ["sorted", "brute"])
def bench_continuous(measure, method, benchmark):
    benchmark.group = "neighbors, 50 pairs with continuous factors"
    measure(lambda: continuous(CODES, VALUES, method=method), rounds=3 if method == "sorted" else 1)
    np.testing.assert_allclose(
        continuous(CODES, VALUES, method=method), by_column(mutual_info_regression, VALUES), atol=1e-3
    )


def bench_joint(measure, benchmark):
    benchmark.group = "neighbors, ten codes together with five discrete factors"
    measure(lambda: joint(CODES, CLASSES, sizes=DSPRITES), rounds=1)
