"""Random arrays of any shape without a program for each, as drawing by JAX would compile."""

import jax
import numpy as np


def normal(seed: int, shape):
    return jax.device_put(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


def uniform(seed: int, shape):
    return jax.device_put(np.random.default_rng(seed).random(shape).astype(np.float32))


SIZES = (3, 4)


def representations(*members: int, noise=0.5, seed: int = 0):
    """Codes ``[*members, 200, 3]`` that know two factors of ``SIZES``, and these.

    Tests of evaluations score this shape: files share the programs of a metric.
    """
    rng = np.random.default_rng(seed)
    values = np.stack([rng.integers(0, size, 200) for size in SIZES], axis=1)
    return (values[:, [0, 1, 0]] + noise * rng.normal(size=(*members, 200, 3))).astype(np.float32), values
