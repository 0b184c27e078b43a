"""Splits at the edges of quantile bins, from histograms of gradients."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, UInt

from jaxdis._core.arrays import ordered_keys, sort_columns, stable_order
from jaxdis._core.kernels.sums import running_sums, sums_in_bins
from jaxdis._core.loops import each
from jaxdis._core.platforms import adds_in_place
from jaxdis._learners.trees import NEVER, TIE, Totals, gain_of, pick

# Numbers of a block of codes, or of its table for one node. Temporaries are 7 or 16 times as large.
BLOCK_NUMBERS = 1 << 21


class Histogram(NamedTuple):
    """A finder of splits over samples in quantile bins.

    - ``bins [d, n]``: the bin of each sample, filled up to even blocks of codes; ``weights [n]``: sample weights.
    - ``left_weight [d, b]``: the weight in each bin and below.
    - ``least``: half of the smallest weight, below which a side counts as empty.
    - ``alike``: whether all weights are 1.
    - ``blocks``: how many blocks of codes are taken one after another.
    """

    bins: Int[Array, "d n"]
    weights: Float[Array, " n"]
    left_weight: Float[Array, "d b"]
    least: Float[Array, ""]
    alike: bool
    blocks: int

    def __call__(self, state, gradient, node, totals: Totals, priority):
        """Only left children are summed; their siblings are the parent minus the left child.

        ``state``: gradients and weights summed in each bin and below, ``[d, b, q, c]`` both.
        """
        codes, (num_bins, columns) = len(priority), (self.left_weight.shape[1], gradient.shape[1])
        nodes = range(0, totals.gradient.shape[0], 2)
        rows = [gradient if node is None else jnp.where(node == q, gradient, 0.0) for q in nodes]
        index = jnp.arange(num_bins, dtype=jnp.int32)[None, :, None, None]

        def of_codes(bins, left_weight, parents):
            sums = running_sums(jnp.stack([sums_in_bins(bins, row, num_bins) for row in rows], axis=2))
            if parents is None:
                counts = jnp.broadcast_to(left_weight[:, :, None, None], (*left_weight.shape, 1, 1))
            else:
                most = len(self.weights)
                counts = weights_of_nodes(bins, self.weights, node, nodes, num_bins, alike=self.alike, most=most)
                counts = siblings(running_sums(jnp.stack(counts, axis=2)), parents[1])
                sums = siblings(sums, parents[0])
            gain = gain_of(sums, counts, Totals(*(part[None, None] for part in totals)), self.least)
            best = gain.max(axis=1, keepdims=True)
            cut = jnp.where(gain >= best * (1 - TIE), index, num_bins).min(axis=1, keepdims=True)
            at = jnp.minimum(cut, num_bins - 1)
            left = [
                jnp.take_along_axis(jnp.broadcast_to(table, (*table.shape[:3], columns)), at, axis=1)[:, 0]
                for table in (sums, counts)
            ]
            return (best[:, 0], cut[:, 0], *left), (sums, counts)

        found, state = _by_blocks(of_codes, self.blocks, self.bins, self.left_weight, state)
        best, cut, *left = (array[:codes] for array in found)
        splits = pick(best, cut.astype(jnp.float32) + 0.5, priority)
        chosen = (jnp.take_along_axis(table, splits.feature[None], axis=0)[0] for table in left)
        kept = splits.cut < NEVER
        return splits, Totals(*(jnp.where(kept, *both) for both in zip(chosen, totals, strict=True))), state


def quantile_histogram(
    codes: Float[Array, "n d"],
    weights: Float[Array, " n"] | None,
    held_out: Float[Array, "m d"],
    max_bins: int,
    columns: int,
) -> tuple[Histogram, Float[Array, "d n"], Float[Array, "d m"]]:
    """A finder over quantile bins of trees for so many columns; training and held-out samples as bin numbers."""
    alike = weights is None
    bins, held_out_bins, weights, least = quantile_bins(codes, weights, held_out, max_bins)
    blocks = -(-codes.shape[1] // max(1, BLOCK_NUMBERS // (max_bins * columns)))
    filled = jnp.pad(bins, ((0, -codes.shape[1] % blocks), (0, 0)))
    mass = running_sums(sums_in_bins(filled, weights[:, None], max_bins))[:, :, 0]
    numbers = bins.astype(jnp.float32), held_out_bins.astype(jnp.float32)
    return Histogram(filled, weights, mass, least, alike, blocks), *numbers


def quantile_bins(
    codes: Float[Array, "n d"], weights: Float[Array, " n"] | None, held_out: Float[Array, "m d"], max_bins: int
) -> tuple[Int[Array, "d n"], Int[Array, "d m"], Float[Array, " n"], Float[Array, ""]]:
    """About equally heavy bins: training and held-out samples as bin numbers, weights, half the smallest weight.

    The sorted samples fall into ``max_bins − 1`` equally heavy windows, and each window has one edge, in the middle of
    its widest gap. This separates clusters, such as the values of a factor that a code copies, and outliers, which the
    quantiles themselves would cut through. Ties share a bin.
    """
    alike, windows = weights is None, max_bins - 1
    n, d = codes.shape
    weights = jnp.ones(n) if alike else weights

    def edges_of(code, window):
        gap = code[1:] - code[:-1]
        widest = jnp.zeros(windows + 1).at[window].max(gap)
        middle = code[:-1] + gap / 2
        # −∞ for a window without a gap: every sample is above, so that nothing is cut.
        edges = jnp.full(windows + 1, -jnp.inf).at[window].max(jnp.where(gap == widest[window], middle, -jnp.inf))
        return edges[:windows]

    def of_codes(codes, held_out):
        if alike:
            ordered = sort_columns(codes.T).T
            window = np.broadcast_to(np.arange(1, n, dtype=np.int32) * windows // n, (len(codes), n - 1))
        else:
            order = stable_order(ordered_keys(codes))
            ordered = jnp.take_along_axis(codes, order, axis=1)
            below = jnp.cumsum(weights[order], axis=1)
            # The last window holds samples without weight.
            window = jnp.floor(below[:, :-1] * windows / below[:, -1:]).astype(jnp.int32)
        edges = jax.vmap(edges_of)(ordered, window)
        return _number(codes, edges), _number(held_out, edges)

    blocks = -(-n * d // BLOCK_NUMBERS)
    filled = (jnp.pad(array.T, ((0, -d % blocks), (0, 0))) for array in (codes, held_out))
    bins = (array[:d] for array in _by_blocks(of_codes, blocks, *filled))
    return *bins, weights, jnp.where(weights > 0, weights, jnp.inf).min() / 2


def _number(codes: Float[Array, "d n"], edges: Float[Array, "d e"]) -> Int[Array, "d n"]:
    """How many edges lie below each code."""

    def of_code(code_and_edges):
        code, edges = code_and_edges

        def count(number, edge):
            return number + jnp.greater(code, edge).astype(jnp.int32), None

        return jax.lax.scan(count, jnp.zeros(code.shape, jnp.int32), edges)[0]

    return each(of_code, (codes, edges))


def _by_blocks(function: Callable, blocks: int, *arrays):
    """``function(*arrays)`` for blocks of codes, the leading axis, so that its temporaries are those of a block."""
    if blocks == 1:
        return function(*arrays)
    parts = jax.tree.map(lambda array: array.reshape(blocks, -1, *array.shape[1:]), arrays)
    return jax.tree.map(lambda part: part.reshape(-1, *part.shape[2:]), jax.lax.map(lambda x: function(*x), parts))


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
    Sums that are products hold no larger integers exactly.
    """
    kind, bits = (jnp.uint16, 8) if most < 1 << 8 else (jnp.int32, 15)
    if not alike or most >= 1 << bits or (kind == jnp.int32 and not adds_in_place()):
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
