"""Splits at the edges of quantile bins, from histograms of gradients."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxdis.arrays import sort_columns
from jaxdis.learners.trees import TIE, Numbers, Totals, as_numbers, gain_of, pick


class Histogram(NamedTuple):
    """Samples cut into quantile bins: a finder of splits.

    ``bins [d, n]``; ``weights [n]``; ``left_weight [d, b]`` the weight in each bin and below; ``least`` half of the
    smallest weight, under which a side counts as empty.
    """

    bins: Int[Array, "d n"]
    weights: Float[Array, " n"]
    left_weight: Float[Array, "d b"]
    least: Float[Array, ""]

    def __call__(self, state, gradient, node, totals: Totals, priority):
        """Only left children are counted; their siblings are what is left of the parent.

        ``state``: sums of gradients and weights in each bin and below, ``[d, b, q, c]`` both.
        """
        num_bins, columns = self.left_weight.shape[1], gradient.shape[1]
        if state is None:
            sums = _cumulated(_row_histogram(self.bins, gradient, num_bins))[:, :, None]
            counts = jnp.broadcast_to(self.left_weight[:, :, None, None], (*self.left_weight.shape, 1, 1))
        else:
            halves = [[], []]
            for q in range(state[0].shape[2]):
                inside = node == 2 * q
                parts = (jnp.where(inside, gradient, 0.0), jnp.where(inside, self.weights[:, None], 0.0))
                for half, part in zip(halves, parts, strict=True):
                    half.append(_cumulated(_row_histogram(self.bins, part, num_bins)))
            sums, counts = (
                _siblings(jnp.stack(half, axis=2), whole) for half, whole in zip(halves, state, strict=True)
            )
        gain = gain_of(sums, counts, Totals(*(part[None, None] for part in totals)), self.least)
        best = gain.max(axis=1)
        index = jnp.arange(num_bins, dtype=jnp.int32)[None, :, None, None]
        cut = jnp.where(gain >= best[:, None] * (1 - TIE), index, num_bins).min(axis=1)
        splits = pick(best, cut.astype(jnp.float32) + 0.5, priority)
        row = splits.feature * num_bins + jnp.clip(splits.cut, 0, num_bins - 1).astype(jnp.int32)

        def left(cumulated, total):
            cells = jnp.broadcast_to(cumulated, (*cumulated.shape[:3], columns)).reshape(-1, *row.shape)
            return jnp.where(splits.gain > 0, jnp.take_along_axis(cells, row[None], axis=0)[0], total)

        return splits, Totals(left(sums, totals.gradient), left(counts, totals.weight)), (sums, counts)


def quantile_histogram(
    codes: Float[Array, "n d"], weights: Float[Array, " n"] | None, held_out: Float[Array, "m d"], max_bins: int
) -> tuple[Histogram, Numbers, Numbers]:
    """Bins of equal weight, and training and held-out samples as bin numbers. Ties share a bin.

    The edges are midpoints between neighbouring values, so that with no more samples than bins every split is there.
    """
    n, d = codes.shape
    if weights is None:
        ordered = sort_columns(codes)
        place = np.maximum(np.arange(1, max_bins) * n // max_bins, 1)
        edges = (ordered[place - 1] + ordered[place]) / 2
    else:
        order = jnp.argsort(codes, axis=0)
        ordered = jnp.take_along_axis(codes, order, axis=0)
        total = jnp.cumsum(weights[order], axis=0)
        goals = jnp.arange(1, max_bins, dtype=jnp.float32) / max_bins
        find = jax.vmap(lambda column: jnp.searchsorted(column, goals * column[-1], side="right"), 1, 1)
        place = jnp.clip(find(total), 1, n - 1)
        edges = (jnp.take_along_axis(ordered, place - 1, axis=0) + jnp.take_along_axis(ordered, place, axis=0)) / 2
    bins, others = _number(codes, edges), _number(held_out, edges)
    weights = jnp.ones(n) if weights is None else weights
    mass = _cumulated(_row_histogram(bins, weights[:, None], max_bins))[:, :, 0]
    least = jnp.where(weights > 0, weights, jnp.inf).min() / 2
    return Histogram(bins, weights, mass, least), as_numbers(bins), as_numbers(others)


def _number(codes, edges) -> Int[Array, "d n"]:
    """How many edges lie below each code."""

    def count(number, edge):
        return number + (codes.T > edge[:, None]).astype(jnp.int32), None

    return jax.lax.scan(count, jnp.zeros(codes.T.shape, jnp.int32), edges)[0]


def _row_histogram(bins: Int[Array, "d n"], rows: Float[Array, "n c"], num_bins: int) -> Float[Array, "d b c"]:
    """Sum of rows in each bin of each code: whole rows are added, one code at a time, whose table stays in cache."""
    zero = jnp.zeros((num_bins, rows.shape[1]), rows.dtype)
    return jax.lax.map(lambda number: zero.at[number].add(rows, mode="promise_in_bounds"), bins)


def _cumulated(histogram):
    return jax.lax.associative_scan(jnp.add, histogram, axis=1)


def _siblings(left, whole):
    """``[d, b, q, c]`` of left children and of their parents into ``[d, b, 2 q, c]``."""
    both = jnp.stack([left, whole - left], axis=3)
    return both.reshape(*both.shape[:2], -1, both.shape[4])
