"""Random arrays, drawn as one line of numbers and then shaped.

The values are those of :mod:`jax.random`. There, a generator computes every number's place in an array with several
dimensions, with divisions that take seconds to compile for each shape; along a line, a place is a number.
"""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

Shape = tuple[int | np.integer, ...]


def bits(key, shape: Shape, dtype=None) -> Array:
    """Random bits, of the default unsigned type if ``dtype`` is None."""
    return jax.random.bits(key, (math.prod(shape),), dtype).reshape(shape)


def normal(key, shape: Shape = ()) -> Array:
    """Standard normal numbers, float32."""
    return jax.random.normal(key, (math.prod(shape),), jnp.float32).reshape(shape)


def uniform(key, shape: Shape = (), minval=0.0, maxval=1.0) -> Array:
    """Numbers from ``minval`` to below ``maxval``, float32."""
    return jax.random.uniform(key, (math.prod(shape),), jnp.float32, minval, maxval).reshape(shape)


def randint(key, shape: Shape, minval, maxval) -> Array:
    """Integers from ``minval`` to below ``maxval``, scalars or arrays in this shape, int32."""
    low, high = (jnp.broadcast_to(v, shape).reshape(-1) if jnp.ndim(v) else v for v in (minval, maxval))
    return jax.random.randint(key, (math.prod(shape),), low, high).reshape(shape)


@functools.partial(jax.jit, static_argnums=(1, 2, 3))
def split_rows(key, seed: int, n: int, cut: int) -> tuple[Array, Array]:
    """``n`` row numbers in random order, the first ``cut`` and the others; operation by operation, eight programs."""
    rows = jax.random.permutation(jax.random.fold_in(key, seed), n)
    return rows[:cut], rows[cut:]
