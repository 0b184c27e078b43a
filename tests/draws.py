"""Random arrays of any shape without a program for each, as drawing by JAX would compile."""

import jax
import numpy as np


def normal(seed: int, shape):
    return jax.device_put(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


def uniform(seed: int, shape):
    return jax.device_put(np.random.default_rng(seed).random(shape).astype(np.float32))
