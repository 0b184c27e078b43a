"""Assignment inside the program (optax) against a callback to scipy, by side: the rule of ``method="auto"``."""

import functools

import jax
import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from jaxdis._core.kernels.assignment import assign

MEMBERS = 64
SIDES = (5, 10, 16, 24, 32, 40)


@functools.partial(jax.jit, static_argnums=0)
def solve(method, costs):
    return jax.lax.map(lambda cost: assign(cost, method=method).column, costs)


def costs_of(side):
    return np.random.default_rng(0).random((MEMBERS, side, side)).astype(np.float32)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("method", ["optax", "scipy"])
def bench_assign(measure, method, side, benchmark):
    benchmark.group = f"assignment {side} × {side}: ms a matrix"
    costs = jax.device_put(costs_of(side))
    measure(lambda: solve(method, costs), rounds=10, each=MEMBERS)


@pytest.mark.parametrize("side", SIDES)
def bench_peer(measure, side, benchmark):
    benchmark.group = f"assignment {side} × {side}: ms a matrix"
    costs = costs_of(side)
    measure(lambda: [linear_sum_assignment(cost)[1] for cost in costs], rounds=10, each=MEMBERS, compiled=False)
