"""Permutation-invariant probing and segmentation scores against loops in NumPy and scikit-learn.

Peer: for each of the 120 orders, permute the codes and predict (NumPy). ``bench_hundred_iterations`` has random codes
and targets, on which orders go on changing for long; a group still stops early when none does any more.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from jaxdis.factors import Factors
from jaxdis.structured import ari, best_orders, probe

SAMPLES, SLOTS, DIMS, FACTORS, GROUPS = 5000, 5, 16, 32, 10


def data(groups=1):
    rng = np.random.default_rng(0)
    codes = rng.normal(size=(groups, SAMPLES, SLOTS, DIMS)).astype(np.float32)
    values = rng.integers(0, 10, (groups, SAMPLES, FACTORS))
    return codes, values


def iterate(codes, values):
    """One M-step and one E-step, from the order that comes."""
    factors = Factors(values, (10,) * FACTORS, tuple(map(str, range(FACTORS))))
    return probe(codes, factors, start="given", iterations=1)


def numpy_iteration(codes, targets):
    inputs = codes.reshape(SAMPLES, -1)
    mean = inputs.mean(axis=0)
    inputs = inputs - mean
    weights = np.linalg.solve(inputs.T @ inputs + np.eye(inputs.shape[1], dtype=np.float32), inputs.T @ targets)
    least, best = np.full(SAMPLES, np.inf), np.zeros((SAMPLES, SLOTS), int)
    for order in itertools.permutations(range(SLOTS)):
        says = (codes[:, order].reshape(SAMPLES, -1) - mean) @ weights
        error = ((targets - says) ** 2).sum(axis=1)
        better = error < least
        least[better], best[better] = error[better], order
    return best


GROUP_ITERATION = "one iteration: 5,000 samples × 5 slots × 32 factors"
GROUP_MASKS = "ARI of 320 masks of 64 × 64"


@pytest.mark.benchmark(group=GROUP_ITERATION)
def bench_iteration(measure):
    codes, values = data()
    one = jax.jit(iterate)
    measure(lambda: one(codes[0], jnp.asarray(values[0], jnp.int32)), rounds=10)


@pytest.mark.benchmark(group=GROUP_ITERATION)
def bench_orders_alone(measure):
    codes, _ = data()
    rng = np.random.default_rng(1)
    given = jnp.asarray(codes[0]), jnp.asarray(rng.normal(size=(SAMPLES, FACTORS)), jnp.float32)
    weights = jnp.asarray(rng.normal(size=(SLOTS, DIMS, FACTORS)), jnp.float32)
    current = jnp.tile(jnp.arange(SLOTS, dtype=jnp.int32), (SAMPLES, 1))
    one = jax.jit(best_orders)
    measure(lambda: one(*given, weights, current), rounds=10)


@pytest.mark.benchmark(group=GROUP_ITERATION)
def bench_peer_numpy(measure):
    codes, values = data()
    targets = values[0].astype(np.float32)
    targets = (targets - targets.mean(axis=0)) / targets.std(axis=0)
    measure(lambda: numpy_iteration(codes[0], targets), rounds=5, compiled=False)


@pytest.mark.benchmark(group="100 iterations × 10 groups")
def bench_hundred_iterations(measure):
    codes, values = data(GROUPS)
    factors = Factors(jnp.asarray(values, jnp.int32), (10,) * FACTORS, tuple(map(str, range(FACTORS))))
    many = jax.jit(lambda c, f: jax.lax.map(lambda given: probe(given[0], given[1], start="given"), (c, f)))
    found = many(codes, factors)
    measure(lambda: many(codes, factors), rounds=1, iterations=int(found.iterations.sum()))
    temporary = many.lower(codes, factors).compile().memory_analysis().temp_size_in_bytes
    assert temporary < 64 << 20
    print(f"{found.iterations.sum()} iterations in all, {temporary >> 20} MB of temporaries")


def masks():
    rng = np.random.default_rng(0)
    true = rng.integers(0, 6, (320, 64, 64))
    return true, np.where(rng.random(true.shape) < 0.7, true, rng.integers(0, 6, true.shape))


@pytest.mark.benchmark(group=GROUP_MASKS)
def bench_ari(measure):
    true, predicted = (jnp.asarray(mask, jnp.int32) for mask in masks())
    one = jax.jit(lambda a, b: ari(a, b, true_segments=6, predicted_segments=6))
    measure(lambda: one(true, predicted), rounds=10)


@pytest.mark.benchmark(group=GROUP_MASKS)
def bench_peer_scikit_learn(measure):
    true, predicted = masks()

    def loop():
        return [adjusted_rand_score(t.ravel(), p.ravel()) for t, p in zip(true, predicted, strict=True)]

    measure(loop, rounds=3, compiled=False)
