"""Splits at quantile bins' edges, from gradients' histograms, and at every threshold between sorted values."""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Shaped, UInt

from jaxdis._core.arrays import along_rows, ordered_keys, sort_columns, stable_order
from jaxdis._core.kernels.entries import at_places, placed_at
from jaxdis._core.kernels.sums import even_bins, running_sums, sums_in_bins
from jaxdis._core.loops import each, repeat
from jaxdis._core.platforms import adds_in_place, on_cpu
from jaxdis._learners.trees import NEVER, RESOLUTION, TIE, Splits, Totals, gain_of, lanes, pick

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


# Splits at every threshold between sorted values. For each code the sorted samples are divided into runs. Sums over
# runs give the gain by cuts between them, and bound the gain by cuts within. Only the few percent of runs whose bound
# reaches the best gain are searched; no cut is missed. With few samples, every sample is a run.

# With this many samples or fewer, runs are single samples, and no run is searched.
FEW = 128
# Samples in a run per square root of all samples, a multiple of lanes(). Fewer make more bounds, more a longer search.
LENGTH = 0.79
# Runs searched together, on CPU and on accelerators.
TOGETHER = 512, 1 << 12
# Entries of a mask counted together.
ROW = 32
# More than any number of entries.
NEITHER = np.iinfo(np.int32).max
# The gradient of a sample outside of the node.
OUTSIDE = float("inf")
# Rounding may put a bound below the best gain by up to this share.
SLACK = 1e-3


class Exact(NamedTuple):
    """A split finder over samples sorted by each code and divided into ``r`` runs with ``s`` samples.

    - ``order [d, r, s]``: the samples of each run.
    - ``allowed [d, r, s]``: whether a cut after a sample separates different values.
    - ``runs [d, n]``: the run of each sample.
    - ``weights [n]``: sample weights; ``least``: half of the smallest weight, below which a side counts as empty;
      ``alike``: whether all weights are 1.
    - ``values [d, n]``: the codes in sorted order.
    - ``own [n, k]``: for each sample, the columns in which its gradient may be positive.
    """

    order: Int[Array, "d r s"]
    allowed: Bool[Array, "d r s"]
    runs: Int[Array, "d n"]
    weights: Float[Array, " n"]
    least: Float[Array, ""]
    values: Float[Array, "d n"]
    own: Int[Array, "n k"]
    alike: bool

    def __call__(self, state, gradient, node, totals: Totals, priority):
        """``state``: summed gradients and weights in each run, each ``[d, r, q, c]``."""
        sums = jax.lax.optimization_barrier(self._sums(state, gradient, node))  # read many times, computed once
        # From one code: rounding errors of differences of sums must not look like a side with samples.
        totals = Totals(sums[0][0].sum(axis=0), sums[1][0].sum(axis=0))
        ends = jax.lax.optimization_barrier(Totals(running_sums(sums[0]), running_sums(sums[1])))
        steps = self.order.shape[2]

        def between(parts):
            """The gain by cuts between one code's runs."""
            ends, allowed = parts
            parent = Totals(*(part[None] for part in totals))
            return jnp.where(allowed[:, -1, None, None], gain_of(*ends, parent, self.least), -1.0)

        def within(parts):
            """Which runs of one code may hold the best cut."""
            sums, ends, allowed, runs = parts
            rise = self._rise(runs, gradient, node, len(totals.weight))
            bound = self._bound(sums, ends, rise, allowed, totals, steepest)
            # Where no cut between runs is possible, any cut is accepted.
            sought = (bound > RESOLUTION) | (best < 0)[None]
            promising = (bound >= (best * (1 - SLACK))[None]) & sought & allowed.any(axis=1)[:, None, None]
            return promising.astype(jnp.float32)  # counted as numbers, and bytes are converted slowly

        # Code by code: XLA would otherwise compute gains along a flattened array, number by number.
        gain = each(between, (ends, self.allowed))
        place = jnp.full(gain.shape, steps - 1, jnp.int32)
        if steps > 1:
            best, steepest = gain.max(axis=(0, 1)), self._steepest(gradient)
            promising = each(within, (sums, ends, self.allowed, self.runs))
            gain, place = self._walk(promising, gain, place, ends, sums, gradient, node, totals)
        best = gain.max(axis=1)
        index = jnp.arange(gain.shape[1], dtype=jnp.int32)[None, :, None, None] * steps
        rank = jnp.where(gain >= best[:, None] * (1 - TIE), index + place, self.order[0].size).min(axis=1)
        return self._halfway(node, pick(best, rank.astype(jnp.float32) + 0.5, priority), sums[1]), None, sums

    def _sums(self, state, gradient, node):
        """Only left children are summed; their siblings are the parent minus the left child."""
        number = self.order.shape[1]
        columns = gradient.shape[1]
        if state is None:
            mass = sums_in_bins(self.runs, self.weights[:, None], number)
            sums = sums_in_bins(self.runs, gradient, number), jnp.broadcast_to(mass, (*mass.shape[:2], columns))
            return tuple(part[:, :, None] for part in sums)
        left = range(0, 2 * state[0].shape[2], 2)
        halves = (
            [sums_in_bins(self.runs, jnp.where(node == q, gradient, 0.0), number) for q in left],
            weights_of_nodes(self.runs, self.weights, node, left, number, alike=self.alike, most=self.order.shape[2]),
        )
        sums = tuple(siblings(jnp.stack(half, axis=2), parent) for half, parent in zip(halves, state, strict=True))
        # Without weight there is no gradient; what remains is a rounding error.
        empty = sums[1] < self.least
        return tuple(jnp.where(empty, 0.0, part) for part in sums)

    def _rise(self, runs: Int[Array, " n"], gradient, node, nodes: int) -> Float[Array, "r q c"]:
        """Positive gradients summed in each of one code's runs; a sample has them in its own columns only."""
        if not adds_in_place():
            rise = jnp.maximum(gradient, 0.0)
            parts = [rise] if node is None else [jnp.where(node == q, rise, 0.0) for q in range(nodes)]
            return jnp.stack([sums_in_bins(runs[None], part, self.order.shape[1])[0] for part in parts], axis=1)
        columns = gradient.shape[1]
        sample = jnp.arange(len(runs), dtype=jnp.int32)[:, None]
        at = 0 if node is None else node[sample, self.own].astype(jnp.int32)
        place = (runs[:, None] * nodes + at) * columns + self.own
        rise = jnp.zeros(self.order.shape[1] * nodes * columns)
        rise = rise.at[place].add(jnp.maximum(gradient[sample, self.own], 0.0), mode="promise_in_bounds")
        return rise.reshape(-1, nodes, columns)

    def _steepest(self, gradient):
        """The largest gradient per unit of weight, upward and downward, ``[c]`` each."""
        unit = jnp.where(self.weights > 0, 1 / jnp.where(self.weights > 0, self.weights, 1.0), 0.0)[:, None]
        each = gradient * unit
        return jnp.maximum(each.max(axis=0), 1e-12), jnp.maximum(-each.min(axis=0), 1e-12)

    def _bound(self, sums, ends: Totals, rise, allowed: Bool[Array, "r s"], totals: Totals, steepest):
        """An upper bound on the gain by any cut within one code's run, ``[r, q, c]``.

        The gain is convex in the gradient and the weight of the left side. Along a run these start at the run's start
        and end at its end; they rise by at most its positive gradients and fall by at most its negative ones, no faster
        than the steepest gradient. This confines them to a hexagon, at whose corners a convex function is largest.
        """
        total, weight = sums
        fall = jnp.maximum(rise - total, 0.0)
        up, down = (slope[None, None] for slope in steepest)
        parent = Totals(*(part[None] for part in totals))
        start = Totals(ends.gradient - total, ends.weight - weight)
        fewest, most = 2 * self.least, parent.weight - 2 * self.least
        top, bottom = start.gradient + rise, start.gradient - fall
        corners = [
            (top, start.weight + rise / up),
            (top, ends.weight - fall / down),
            (bottom, start.weight + fall / down),
            (bottom, ends.weight - rise / up),
        ]
        bound = jnp.maximum(gain_of(*start, parent, self.least), gain_of(*ends, parent, self.least))
        for gradient, left in corners:
            bound = jnp.maximum(bound, gain_of(gradient, jnp.clip(left, fewest, most), parent, self.least))
        # A run without samples of the node changes nothing; the cut before it is equivalent.
        open_before = jnp.pad(allowed[:-1, -1], (1, 0), constant_values=True)[:, None, None]
        return jnp.where((weight < self.least) & open_before, -1.0, bound)

    def _walk(self, promising, gain, place, ends: Totals, sums, gradient, node, totals: Totals):
        """The best cut of every promising run, and its place in the run."""
        runs, steps = self.order.shape[1:]
        nodes, columns = totals.weight.shape
        count, listed = _numbered(promising.reshape(-1))
        order, allowed = self.order.reshape(-1, steps), self.allowed.reshape(-1, steps)
        flat, where = gradient.reshape(-1), None if node is None else node.reshape(-1)
        within = jnp.triu(jnp.ones((lanes(), lanes())))
        before = jnp.triu(jnp.ones((steps // lanes(), steps // lanes())), 1)
        product = functools.partial(jnp.dot, precision=jax.lax.Precision.HIGHEST)
        together = TOGETHER[0 if on_cpu() else 1]
        place_in_run = jnp.arange(1, steps + 1, dtype=jnp.float32)[None]

        def running(parts):
            rows = product(parts.reshape(len(parts), -1, lanes()), within)
            return (rows + product(rows[:, :, -1], before)[:, :, None]).reshape(parts.shape)

        def some(carry):
            done, gain, place = carry
            cell = listed(done + jnp.arange(together, dtype=jnp.int32))
            at = jnp.minimum(cell, promising.size - 1)
            run, of_node, column = at // (nodes * columns), at // columns % nodes, at % columns
            samples = at_places(order, run)
            entry = samples * columns + column[:, None]
            held = at_places(flat, entry)
            if where is not None:
                held = jnp.where(at_places(where, entry) == of_node[:, None].astype(node.dtype), held, OUTSIDE)
            held = jax.lax.optimization_barrier(held)
            inside = held < OUTSIDE
            weight = jnp.where(inside, 1.0 if self.alike else at_places(self.weights, samples), 0.0)
            # At the root, samples of equal weight are counted by their place.
            counted = place_in_run if node is None and self.alike else running(weight)
            rising = running(jnp.where(inside, held, 0.0)), counted
            cells = run // runs, run % runs, of_node, column
            before = (at_places(end, cells) - at_places(own, cells) for end, own in zip(ends, sums, strict=True))
            left = Totals(*(start[:, None] + part for start, part in zip(before, rising, strict=True)))
            parent = Totals(*(at_places(part, cells[2:])[:, None] for part in totals))
            gains = jnp.where(at_places(allowed, run), gain_of(*left, parent, self.least), -1.0)
            most = gains.max(axis=1)
            first = _first(gains >= most[:, None] * (1 - TIE))
            return done + together, gain.at[cell].set(most, mode="drop"), place.at[cell].set(first, mode="drop")

        start = (jnp.int32(0), gain.reshape(-1), place.reshape(-1))
        # Beyond the last promising run, nothing is written.
        _, gains, first = repeat("runs", lambda carry: carry[0] < count, some, start, harmless=True)
        return gains.reshape(gain.shape), first.reshape(gain.shape)

    def _halfway(self, node, splits: Splits, weight: Float[Array, "d r q c"]) -> Splits:
        """Thresholds halfway between the two samples of a node next to its cut, as in scikit-learn."""
        n, (runs, steps) = self.weights.shape[0], self.order.shape[1:]
        feature = splits.feature
        rank = jnp.clip(splits.cut, 0, n - 1).astype(jnp.int32)
        run = rank // steps
        index = jnp.arange(runs, dtype=jnp.int32)[None, None]
        held = weight[feature, :, jnp.arange(feature.shape[0])[:, None], jnp.arange(feature.shape[1])[None]]
        later = jnp.minimum(_first((held > self.least) & (index > run[:, :, None])), runs - 1)

        def nearest(run):
            """The first sample of the node behind the cut, in this run; n when there is none."""
            ranks = run[:, :, None] * steps + jnp.arange(steps, dtype=jnp.int32)[None, None]
            inside = (ranks > rank[:, :, None]) & (ranks < n)
            samples = self.order[feature, run]
            inside = inside & (at_places(self.weights, samples) > 0)
            if node is not None:
                columns = node.shape[1]
                entry = samples * columns + jnp.arange(columns, dtype=jnp.int32)[None, :, None]
                inside = inside & (
                    at_places(node.reshape(-1), entry) == jnp.arange(len(rank), dtype=node.dtype)[:, None, None]
                )
            return jnp.where(inside, ranks, n).min(axis=2)

        high = jnp.minimum(jnp.minimum(nearest(run), nearest(later)), n - 1)
        low, high = self.values[feature, rank], self.values[feature, high]
        middle = low / 2 + high / 2
        middle = jnp.where(middle < high, middle, low)
        return splits._replace(threshold=jnp.where(splits.cut < NEVER, middle, NEVER))


def _numbered(mask: Float[Array, " x"]):
    """How many entries are 1, and a function from 0, 1, … to the places of the first, the second, … of them.

    Entries are counted by rows of ``ROW``, rows by rows of rows, and so on: a place is found from the last level to the
    first, which needs no list as long as the mask and no search of many steps.
    """
    rows = _by_rows(mask, 0.0)
    counts = rows.sum(axis=1).astype(jnp.int32)
    last = jnp.cumsum(counts)
    levels = [_by_rows(last, NEITHER)]
    while len(levels[-1]) > 1:
        levels.append(_by_rows(levels[-1][:, -1], NEITHER))
    prefix = jnp.triu(jnp.ones((ROW, ROW)))

    def place(number):
        row = jnp.zeros_like(number)
        for ends in reversed(levels):
            row = jnp.minimum(row, len(ends) - 1)
            passed = (at_places(ends, row) <= number[:, None]).astype(jnp.float32)  # added faster than integers
            row = row * ROW + passed.sum(axis=1).astype(jnp.int32)
        bounded_row = jnp.minimum(row, len(rows) - 1)
        within = (number - at_places(last, bounded_row) + at_places(counts, bounded_row)).astype(jnp.float32)
        column = (jnp.dot(at_places(rows, bounded_row), prefix) <= within[:, None]).astype(jnp.float32).sum(axis=1)
        return jnp.where(row < len(rows), bounded_row * ROW + column.astype(jnp.int32), mask.shape[0])

    return last[-1], place


def _by_rows(entries: Shaped[Array, " x"], filling) -> Shaped[Array, "r w"]:
    """Entries in rows of ``ROW``, the last one filled."""
    return jnp.pad(entries, (0, -entries.shape[0] % ROW), constant_values=filling).reshape(-1, ROW)


def _first(true: Bool[Array, "... x"]) -> Int[Array, "..."]:
    """The first true place along the last axis; the length of the axis where there is none."""
    size = true.shape[-1]
    index = jax.lax.broadcasted_iota(jnp.float32, true.shape, true.ndim - 1)  # compared faster than integers
    return jnp.where(true, index, float(size)).min(axis=-1).astype(jnp.int32)


def exact_order(
    codes: Float[Array, "n d"],
    weights: Float[Array, " n"] | None,
    held_out: Float[Array, "m d"],
    own: Int[Array, "n k"],
) -> tuple[Exact, Float[Array, "d n"], Float[Array, "d m"]]:
    """A finder over every threshold, the training samples as ranks, and the held-out samples unchanged.

    ``own``: the columns in which the gradient of each sample may be positive.
    """
    n, d = codes.shape
    order = stable_order(ordered_keys(codes.T))
    values = along_rows(codes.T, order)
    rank = jax.vmap(lambda order: placed_at(jnp.arange(n, dtype=jnp.int32), order, n))(order)
    steps = 1 if n <= FEW else math.ceil(LENGTH * math.sqrt(n) / lanes()) * lanes()
    runs = even_bins(-(-n // steps))
    padding = ((0, 0), (0, steps * runs - n))
    allowed = jnp.pad(values[:, 1:] > values[:, :-1], ((0, 0), (0, steps * runs - n + 1)))
    alike = weights is None
    weights = jnp.ones(n) if alike else weights
    least = jnp.where(weights > 0, weights, jnp.inf).min() / 2
    finder = Exact(
        jnp.pad(order, padding).reshape(d, runs, steps),
        allowed.reshape(d, runs, steps),
        rank // steps,
        weights,
        least,
        values,
        own,
        alike,
    )
    return finder, rank.astype(jnp.float32), held_out.T
