"""Random arrays, drawn as one line of numbers and then shaped; random rows, alone or in groups.

The values are those of :mod:`jax.random`. There, a generator computes every number's place in an array with several
dimensions, with divisions that take seconds to compile for each shape; along a line, a place is a number.
"""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from jaxdis._core.arrays import stable_order

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


def drawn_rows(key, groups: Int[Array, " n"] | None, n: int) -> Int[Array, " n"]:
    """Draw ``n`` row numbers with replacement; whole groups, if there are any, and the last one is cut.

    Reference: Davison & Hinkley 1997, §3.8 (resampled groups).
    """
    if groups is None:
        return randint(key, (n,), 0, n)
    rows, number = _by_group(groups)
    sizes = jnp.zeros(n, jnp.int32).at[number].add(1)
    starts, drawn = jnp.cumsum(sizes) - sizes, randint(key, (n,), 0, number[-1] + 1)
    # Drawn groups follow one another. Of as many draws as rows, lengths may add up to more than an integer holds.
    ends = jax.lax.associative_scan(lambda left, right: jnp.minimum(left + right, 2 * n), sizes[drawn])
    place = jnp.arange(n, dtype=jnp.int32)
    turn = jnp.searchsorted(ends, place, side="right").astype(jnp.int32)
    group = drawn[turn]
    return rows[starts[group] + place - (ends[turn] - sizes[group])]


def shuffled_rows(key, groups: Int[Array | np.ndarray, " n"] | None, n: int) -> Int[Array, " n"]:
    """List all row numbers in random order; if there are groups, one group after another."""
    order = jax.random.permutation(key, n)
    if groups is None:
        return order
    rows, number = _by_group(jnp.asarray(groups))
    turn = jax.random.permutation(jax.random.fold_in(key, 0), n).astype(jnp.int32)
    return order[stable_order(jnp.zeros(n, jnp.int32).at[rows].set(turn[number])[order])]


def divided_rows(key, groups: Int[Array, " n"], n: int, cut: int) -> tuple[Array, Array]:
    """Divide rows, in random order, into ``cut`` and ``n − cut`` others, without a group in both.

    Where the cut divides a group, the others repeat rows to replace that group's; a single group is divided.
    """
    order = shuffled_rows(key, groups, n)
    first, others = order[:cut], order[cut:]
    whole = groups[others] != groups[first[-1]]
    kept = others[stable_order((~whole).astype(jnp.int32))]
    count = jnp.where(whole.any(), whole.sum(dtype=jnp.int32), n - cut)
    return first, kept[jnp.arange(n - cut, dtype=jnp.int32) % count]


def _by_group(groups: Int[Array, " n"]) -> tuple[Array, Array]:
    """Row numbers group by group, and for each of these its group's number among those that occur."""
    rows = stable_order(groups)
    ordered = groups[rows]
    return rows, jnp.cumsum(jnp.pad(ordered[1:] != ordered[:-1], (1, 0)), dtype=jnp.int32)
