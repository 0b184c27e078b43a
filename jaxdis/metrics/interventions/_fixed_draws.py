"""Which samples in a table to compare: batches that share a factor's value, drawn once for a whole zoo.

Drawing takes most time, and differences between members that share the same draws are less noisy.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray

from jaxdis._core import random
from jaxdis._core.arrays import packed_order
from jaxdis._core.loops import each
from jaxdis.factors import Factors
from jaxdis.relations._binning import equal_width_bins


class Draws(NamedTuple):
    """Batches ``t``: the first ``num_train`` are drawn from one half, the others from the rest.

    ``factor [t]``, the factor held in each batch; ``rows [b, t]``, its samples; ``partners [b, t]``, the samples that
    they are compared with, or None; ``varying []``, how many factors can be held. A batch's samples come first, because
    sums over the first axis are faster on CPU.
    """

    factor: Int[Array, " t"]
    rows: Int[Array, "b t"]
    partners: Int[Array, "b t"] | None
    varying: Int[Array, ""]


def draw_batches(
    key: PRNGKeyArray,
    factors: Factors,
    *,
    num_train: int = 10_000,
    num_eval: int = 5_000,
    batch: int = 64,
    factor_bins: int | None = None,
) -> Draws:
    """Batches whose samples share the value of one random factor; a random sample gives the value.

    Continuous factors are cut into ``factor_bins`` equal-width bins, or are never held.
    """
    which, first, rest = jax.random.split(key, 3)
    factor, table, varying = _varying(which, factors, num_train, num_eval, factor_bins)
    first_row = _random_rows(first, table, num_train, num_eval, 1)
    rows = _given(rest, table, factor[:, None], jnp.broadcast_to(first_row, (len(first_row), batch)))
    return Draws(factor, rows.T, None, varying)


def draw_pairs(
    key: PRNGKeyArray,
    factors: Factors,
    *,
    num_train: int = 10_000,
    num_eval: int = 5_000,
    batch: int = 64,
    factor_bins: int | None = None,
) -> Draws:
    """Batches of sample pairs: the first is random, the second shares the value of one factor with it.

    Continuous factors are cut into ``factor_bins`` equal-width bins, or are never held.
    """
    which, first, rest = jax.random.split(key, 3)
    factor, table, varying = _varying(which, factors, num_train, num_eval, factor_bins)
    rows = _random_rows(first, table, num_train, num_eval, batch)
    return Draws(factor, rows.T, _given(rest, table, factor[:, None], rows).T, varying)


class _Table(NamedTuple):
    """Samples in random order, ``shuffled [n]``, whose first half is for training.

    For each factor: the samples sorted by half and value ``[k, n]``; for each sample, where the run with its half and
    value starts and how long it is, ``[k, n]``.
    """

    shuffled: Int[Array, " n"]
    order: Int[Array, "k n"]
    start: Int[Array, "k n"]
    count: Int[Array, "k n"]


def _varying(key, factors: Factors, num_train: int, num_eval: int, factor_bins: int | None):
    """A random factor per batch among those with several values, where values stand, and how many vary."""
    which, halves = jax.random.split(key)
    n = factors.num_samples
    shuffled = jax.random.permutation(halves, n).astype(jnp.int32)
    held_out = jnp.zeros(n, jnp.int32).at[shuffled[n // 2 :]].set(1)
    held = [held_values(factors, j, factor_bins) for j in range(factors.num_factors)]
    size = max(size for _, size in held)

    def positions(values):
        """For all factors alike, which compiles once."""
        cell = values + size * held_out
        number = jnp.zeros(2 * size, jnp.int32).at[cell].add(1)
        start = jnp.cumsum(number) - number
        return packed_order(cell, 2 * size), start[cell], number[cell], values.max() > values.min()

    *table, varies = each(positions, jnp.stack([values for values, _ in held]))
    place = jnp.nonzero(varies, size=len(held), fill_value=0)[0].astype(jnp.int32)
    number = jnp.maximum(varies.sum(), 1).astype(jnp.float32)
    chosen = jnp.floor(random.uniform(which, (num_train + num_eval,)) * number).astype(jnp.int32)
    return place[chosen], _Table(shuffled, *table), varies.sum()


def held_values(factors: Factors, j: int, factor_bins: int | None) -> tuple[Int[Array, " n"], int]:
    """A factor's class numbers that can be held, and how many there are; one for a continuous factor without bins."""
    values, size = factors.values[:, j], factors.sizes[j]
    if size is not None:
        return values.astype(jnp.int32), size
    if factor_bins is None:
        return jnp.zeros(factors.num_samples, jnp.int32), 1
    return equal_width_bins(values.astype(jnp.float32)[:, None], factor_bins)[:, 0], factor_bins


def _random_rows(key, table: _Table, num_train: int, num_eval: int, batch: int) -> Int[Array, "t b"]:
    """Random samples from the first half for training batches, from the second for held-out ones."""
    n = table.shuffled.shape[0]
    learned, evaluated = jax.random.split(key)
    first = random.randint(learned, (num_train, batch), 0, n // 2)
    second = random.randint(evaluated, (num_eval, batch), n // 2, n)
    return table.shuffled[jnp.concatenate([first, second])]


def _given(key, table: _Table, factor, rows) -> Int[Array, "t b"]:
    """For each row, a random sample from its half with the same factor value."""
    factor = jnp.broadcast_to(factor, rows.shape)
    count = table.count[factor, rows]
    step = jnp.floor(random.uniform(key, rows.shape) * count.astype(jnp.float32)).astype(jnp.int32)
    return table.order[factor, table.start[factor, rows] + jnp.minimum(step, count - 1)]
