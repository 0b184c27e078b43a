"""Splits at the edges of quantile bins, from histograms of gradients."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, UInt

from jaxdis._core.arrays import ordered_keys, sort_columns, stable_order
from jaxdis._core.kernels.sums import running_sums, sums_in_bins
from jaxdis._core.loops import each
from jaxdis._learners.trees import NEVER, TIE, Totals, gain_of, pick


class Histogram(NamedTuple):
    """A finder of splits over samples in quantile bins.

    - ``bins [d, n]``: the bin of each sample; ``weights [n]``: sample weights.
    - ``left_weight [d, b]``: the weight in each bin and below.
    - ``least``: half of the smallest weight, below which a side counts as empty.
    - ``alike``: whether all weights are 1.
    """

    bins: Int[Array, "d n"]
    weights: Float[Array, " n"]
    left_weight: Float[Array, "d b"]
    least: Float[Array, ""]
    alike: bool

    def __call__(self, state, gradient, node, totals: Totals, priority):
        """Only left children are summed; their siblings are the parent minus the left child.

        ``state``: gradients and weights summed in each bin and below, ``[d, b, q, c]`` both.
        """
        num_bins, columns = self.left_weight.shape[1], gradient.shape[1]
        if state is None:
            sums = running_sums(sums_in_bins(self.bins, gradient, num_bins))[:, :, None]
            counts = jnp.broadcast_to(self.left_weight[:, :, None, None], (*self.left_weight.shape, 1, 1))
        else:
            left = range(0, 2 * state[0].shape[2], 2)
            sums = [sums_in_bins(self.bins, jnp.where(node == q, gradient, 0.0), num_bins) for q in left]
            halves = (
                sums,
                weights_of_nodes(
                    self.bins, self.weights, node, left, num_bins, alike=self.alike, most=len(self.weights)
                ),
            )
            sums, counts = (
                siblings(running_sums(jnp.stack(half, axis=2)), parent)
                for half, parent in zip(halves, state, strict=True)
            )
        gain = gain_of(sums, counts, Totals(*(part[None, None] for part in totals)), self.least)
        best = gain.max(axis=1)
        index = jnp.arange(num_bins, dtype=jnp.int32)[None, :, None, None]
        cut = jnp.where(gain >= best[:, None] * (1 - TIE), index, num_bins).min(axis=1)
        splits = pick(best, cut.astype(jnp.float32) + 0.5, priority)
        row = splits.feature * num_bins + jnp.clip(splits.cut, 0, num_bins - 1).astype(jnp.int32)

        def left(cumulated, total):
            cells = jnp.broadcast_to(cumulated, (*cumulated.shape[:3], columns)).reshape(-1, *row.shape)
            return jnp.where(splits.cut < NEVER, jnp.take_along_axis(cells, row[None], axis=0)[0], total)

        return splits, Totals(left(sums, totals.gradient), left(counts, totals.weight)), (sums, counts)


def quantile_histogram(
    codes: Float[Array, "n d"], weights: Float[Array, " n"] | None, held_out: Float[Array, "m d"], max_bins: int
) -> tuple[Histogram, Float[Array, "d n"], Float[Array, "d m"]]:
    """A finder over quantile bins, and training and held-out samples as bin numbers."""
    alike = weights is None
    bins, held_out_bins, weights, least = quantile_bins(codes, weights, held_out, max_bins)
    mass = running_sums(sums_in_bins(bins, weights[:, None], max_bins))[:, :, 0]
    return Histogram(bins, weights, mass, least, alike), bins.astype(jnp.float32), held_out_bins.astype(jnp.float32)


def quantile_bins(
    codes: Float[Array, "n d"], weights: Float[Array, " n"] | None, held_out: Float[Array, "m d"], max_bins: int
) -> tuple[Int[Array, "d n"], Int[Array, "d m"], Float[Array, " n"], Float[Array, ""]]:
    """About equally heavy bins: training and held-out samples as bin numbers, weights, half the smallest weight.

    The sorted samples fall into ``max_bins − 1`` equally heavy windows, and each window has one edge, in the middle of
    its widest gap. This separates clusters, such as the values of a factor that a code copies, and outliers, which the
    quantiles themselves would cut through. Ties share a bin.
    """
    if weights is None:
        ordered = sort_columns(codes)
        n, weights = len(codes), jnp.ones(codes.shape[0])
        window = (np.arange(1, n) * (max_bins - 1) // n).astype(np.int32)
        window = jnp.broadcast_to(window[:, None], (n - 1, codes.shape[1]))
    else:
        order = stable_order(ordered_keys(codes.T)).T
        ordered = jnp.take_along_axis(codes, order, axis=0)
        below = jnp.cumsum(weights[order], axis=0)
        # The last window holds samples without weight.
        window = jnp.floor(below[:-1] * (max_bins - 1) / below[-1:]).astype(jnp.int32)
    windows = max_bins - 1

    def edges_of(column, window):
        gap = column[1:] - column[:-1]
        widest = jnp.zeros(windows + 1).at[window].max(gap)
        middle = column[:-1] + gap / 2
        # −∞ for a window without a gap: every sample is above, so that nothing is cut.
        return jnp.full(windows + 1, -jnp.inf).at[window].max(jnp.where(gap == widest[window], middle, -jnp.inf))

    edges = jax.vmap(edges_of, 1, 1)(ordered, window)[:windows]
    least = jnp.where(weights > 0, weights, jnp.inf).min() / 2
    return _number(codes, edges), _number(held_out, edges), weights, least


def _number(codes, edges) -> Int[Array, "d n"]:
    """How many edges lie below each code."""

    def of_code(code_and_edges):
        code, edges = code_and_edges

        def count(number, edge):
            return number + jnp.greater(code, edge).astype(jnp.int32), None

        return jax.lax.scan(count, jnp.zeros(code.shape, jnp.int32), edges)[0]

    return each(of_code, (codes.T, edges.T))


def weights_of_nodes(
    bins: Int[Array, "d n"],
    weights: Float[Array, " n"],
    node: UInt[Array, "n c"],
    nodes: range,
    num_bins: int,
    *,
    alike: bool,
    most: int,
) -> list[Float[Array, "d b c"]]:
    """Weight in each bin at each of these nodes. If all weights are 1 (``alike``), two nodes share an integer.

    ``most``: no bin has more samples. Up to 255, integers of two bytes hold two counts, and are added twice as fast.
    """
    kind, bits = (jnp.uint16, 8) if most < 1 << 8 else (jnp.int32, 15)
    if not alike or most >= 1 << bits:
        return [sums_in_bins(bins, jnp.where(node == q, weights[:, None], 0.0), num_bins) for q in nodes]
    counts = []
    for q in nodes[::2]:
        both = jnp.where(node == q, kind(1), jnp.where(node == q + 2, kind(1 << bits), kind(0)))
        both = sums_in_bins(bins, both, num_bins)
        counts += [both & kind((1 << bits) - 1), both >> bits]
    return [count.astype(jnp.float32) for count in counts[: len(nodes)]]


def siblings(left, parent):
    """Combine ``[d, b, q, c]`` from left children and their parents into ``[d, b, 2 q, c]``."""
    both = jnp.stack([left, parent - left], axis=3)
    return both.reshape(*both.shape[:2], -1, both.shape[4])
