"""Which samples of a table to compare: batches that share the value of a factor, drawn once for a whole zoo.

The draws are most of the work, and members compared on the same draws differ by less noise.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray

from jaxdis.typing import Factors


class Draws(NamedTuple):
    """``factor [t]``, the factor held in each batch (as a number among the discrete ones that vary); ``rows [t, b]``,
    the samples of a batch; ``partners [t, b]``, the samples that they are compared with, or None."""

    factor: Int[Array, " t"]
    rows: Int[Array, "t b"]
    partners: Int[Array, "t b"] | None


def draw_batches(
    key: PRNGKeyArray, factors: Factors, *, num_train: int = 10_000, num_eval: int = 5_000, batch: int = 64
) -> Draws:
    """Batches of samples that share the value of one random factor, the value being that of a random sample."""
    which, first, rest = jax.random.split(key, 3)
    count = num_train + num_eval
    factor, table = _varying(which, factors, count)
    one = jax.random.randint(first, (count,), 0, factors.num_samples)
    rows = _given(rest, table, factor[:, None], jnp.broadcast_to(one[:, None], (count, batch)))
    return Draws(factor, rows, None)


def draw_pairs(
    key: PRNGKeyArray, factors: Factors, *, num_train: int = 10_000, num_eval: int = 5_000, batch: int = 64
) -> Draws:
    """Batches of pairs of samples: the first of a pair is random, the second shares the value of one factor with it."""
    which, first, rest = jax.random.split(key, 3)
    count = num_train + num_eval
    factor, table = _varying(which, factors, count)
    rows = jax.random.randint(first, (count, batch), 0, factors.num_samples)
    return Draws(factor, rows, _given(rest, table, factor[:, None], rows))


class _Table(NamedTuple):
    """For each factor: samples sorted by value ``[k, n]``, each sample's value's start and number among them."""

    order: Int[Array, "k n"]
    start: Int[Array, "k n"]
    count: Int[Array, "k n"]


def _varying(key, factors: Factors, count: int) -> tuple[Int[Array, " t"], _Table]:
    """A random factor for each batch among the discrete ones with more than one value, and where its values are."""
    orders, starts, counts, varies = [], [], [], []
    for j, size in enumerate(factors.sizes):
        values = (
            factors.values[:, j].astype(jnp.int32) if size is not None else jnp.zeros(factors.num_samples, jnp.int32)
        )
        number = jnp.zeros(size or 1, jnp.int32).at[values].add(1)
        orders.append(jnp.argsort(values).astype(jnp.int32))
        starts.append((jnp.cumsum(number) - number)[values])
        counts.append(number[values])
        varies.append(values.max() > values.min())
    varies = jnp.stack(varies)
    place = jnp.nonzero(varies, size=len(orders), fill_value=0)[0].astype(jnp.int32)
    number = jnp.maximum(varies.sum(), 1).astype(jnp.float32)
    chosen = jnp.floor(jax.random.uniform(key, (count,)) * number).astype(jnp.int32)
    return place[chosen], _Table(jnp.stack(orders), jnp.stack(starts), jnp.stack(counts))


def num_varying(factors: Factors) -> Int[Array, ""]:
    varies = [
        factors.values[:, j].max() > factors.values[:, j].min()
        for j, size in enumerate(factors.sizes)
        if size is not None
    ]
    return jnp.stack(varies).sum()


def _given(key, table: _Table, factor, rows) -> Int[Array, "t b"]:
    """For each row, a random sample with the same value of the factor."""
    factor = jnp.broadcast_to(factor, rows.shape)
    count = table.count[factor, rows]
    step = jnp.floor(jax.random.uniform(key, rows.shape) * count.astype(jnp.float32)).astype(jnp.int32)
    return table.order[factor, table.start[factor, rows] + jnp.minimum(step, count - 1)]
