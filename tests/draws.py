"""Random arrays of any shape without a program for each, as drawing by JAX would compile."""

import jax.numpy as jnp
import numpy as np


def normal(seed: int, shape):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)


def uniform(seed: int, shape):
    return jnp.asarray(np.random.default_rng(seed).random(shape), jnp.float32)
