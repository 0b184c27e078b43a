"""Splits at every threshold between sorted values, by running sums along each code's order."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxdis.arrays import from_keys, ordered_keys
from jaxdis.learners.trees import NEVER, TIE, Numbers, Splits, Totals, above, as_numbers, gain_of, pick

# Rows of running sums that advance together, times trees: the sums of four nodes then stay in the second-level cache.
WIDTH = 12_000
# Fewest steps a run has; shorter ones are all overhead.
STEPS = 16


class Exact(NamedTuple):
    """Samples in the order of each code, cut into ``r`` runs of ``s`` samples: a finder of splits.

    ``order [d, s, r]``: the sample at each step of each run. ``allowed [d, s, r]``: whether a cut behind it separates
    different values. ``weights [n]``; ``least``: half of the smallest weight, under which a side counts as empty.
    ``ranks``: samples as numbers; ``values [d, n]``: the codes of each rank.
    """

    order: Int[Array, "d s r"]
    allowed: Bool[Array, "d s r"]
    weights: Float[Array, " n"]
    least: Float[Array, ""]
    ranks: Numbers
    values: Float[Array, "d n"]

    def __call__(self, state, gradient, node, totals: Totals, priority):
        """All runs of a code advance together, a sample a step: sums per node, and the best cut so far.

        A first pass gives each run the sums of the runs before it. ``state`` is not used.
        """
        nodes, columns = totals.weight.shape
        steps, runs = self.order.shape[1:]
        shape = (nodes, runs, columns)
        which = jnp.arange(nodes, dtype=jnp.int32)[:, None, None]
        whole = Totals(*(part[:, None] for part in totals))

        def parts(rows):
            inside = True if node is None else node[rows][None] == which
            weight = jnp.broadcast_to(self.weights[rows][None, :, None], shape)
            return jnp.where(inside, gradient[rows][None], 0.0), jnp.where(inside, weight, 0.0)

        def one_code(_, code):
            order, allowed = code

            def add(sums, rows):
                return jax.tree.map(jnp.add, sums, parts(rows)), None

            zero = (jnp.zeros(shape), jnp.zeros(shape))
            ends, _ = jax.lax.scan(add, zero, order)
            before = jax.tree.map(lambda end: jnp.cumsum(end, axis=1) - end, ends)

            def advance(carry, step):
                sums, best, place = carry
                rows, open_here, number = step
                sums = jax.tree.map(jnp.add, sums, parts(rows))
                gain = jnp.where(open_here[None, :, None], gain_of(*sums, whole, self.least), -1.0)
                better = gain > best * (1 + TIE)  # so that the first of equals wins whatever the rounding
                return (sums, jnp.where(better, gain, best), jnp.where(better, number, place)), None

            start = (before, jnp.full(shape, -1.0), jnp.zeros(shape, jnp.int32))
            numbers = jnp.arange(steps, dtype=jnp.int32)
            (_, best, place), _ = jax.lax.scan(advance, start, (order, allowed, numbers))
            gain = best.max(axis=1)
            index = jnp.arange(runs, dtype=jnp.int32)[None, :, None]
            rank = jnp.where(best >= gain[:, None] * (1 - TIE), index * steps + place, steps * runs).min(axis=1)
            return None, (gain, rank.astype(jnp.float32) + 0.5)

        _, (gain, cut) = jax.lax.scan(one_code, None, (self.order, self.allowed))
        return self._halfway(node, pick(gain, cut, priority)), None, None

    def _halfway(self, node, splits: Splits) -> Splits:
        """Thresholds halfway between the samples of a node next to its cut, as in scikit-learn; others have no say."""
        n = self.weights.shape[0]
        reach = []
        for q in range(splits.cut.shape[0]):
            distance = above(self.ranks, splits.feature[q], splits.cut[q])
            beyond = (distance > 0) if node is None else (distance > 0) & (node == q)
            reach.append(jnp.where(beyond, distance, jnp.float32(n)).min(axis=0))
        low = self.values[splits.feature, jnp.clip(splits.cut, 0, n - 1).astype(jnp.int32)]
        high = self.values[splits.feature, jnp.clip(splits.cut + jnp.stack(reach), 0, n - 1).astype(jnp.int32)]
        middle = low / 2 + high / 2
        middle = jnp.where(middle < high, middle, low)
        return splits._replace(threshold=jnp.where(splits.gain > 0, middle, NEVER))


def exact_order(
    codes: Float[Array, "n d"], weights: Float[Array, " n"] | None, held_out: Float[Array, "m d"], columns: int
) -> tuple[Exact, Numbers, Numbers]:
    """A finder over every threshold, training samples as ranks, and held-out samples as they are."""
    n, d = codes.shape
    keys = ordered_keys(codes.T)
    samples = jnp.broadcast_to(jnp.arange(n, dtype=jnp.int32), (d, n))
    ordered, order = jax.lax.sort((keys, samples), dimension=1, is_stable=True, num_keys=1)
    values = from_keys(ordered)
    rank = jnp.zeros((d, n), jnp.int32).at[jnp.arange(d)[:, None], order].set(samples)
    runs = max(1, min(n // STEPS, WIDTH // columns))
    steps = -(-n // runs)
    padding = ((0, 0), (0, steps * runs - n))
    allowed = jnp.pad(values[:, 1:] > values[:, :-1], ((0, 0), (0, steps * runs - n + 1)))

    def cut(array):
        return array.reshape(d, runs, steps).transpose(0, 2, 1)

    weights = jnp.ones(n) if weights is None else weights
    least = jnp.where(weights > 0, weights, jnp.inf).min() / 2
    # What pads the last run stands behind every sample, where no cut is allowed.
    ranks = as_numbers(rank)
    finder = Exact(cut(jnp.pad(order, padding)), cut(allowed), weights, least, ranks, values)
    return finder, ranks, as_numbers(held_out.T)
