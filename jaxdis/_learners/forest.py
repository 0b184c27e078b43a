"""Random forests: deep trees on bootstrapped samples, one tree at a time, all factors in one program."""

import functools
import math
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Num, PRNGKeyArray, UInt

from jaxdis._core import random
from jaxdis._core.arrays import along_rows, moments, power_of_two_below, running_in_runs, safe_divide, stable_order
from jaxdis._core.kernels.entries import at_places, placed_at
from jaxdis._core.loops import each
from jaxdis._learners.splits import quantile_bins
from jaxdis._learners.trees import RESOLUTION, TIE, canonical_order, lanes

# Larger than any bin number.
NO_BIN = jnp.iinfo(jnp.int32).max
# Places summed by one product: the fastest of 8, 16, 32 and 64 on CPU; on TPUs, those of a register.
RUN = 32

Criterion = Literal["variance", "gini", "entropy"]


class Forest(NamedTuple):
    """The result of a forest at every depth ``l`` from 1 on.

    ``importance [k, l, d]``: each code's mean share, over trees, of the decrease in impurity. ``test [k, l, m, p]``:
    what leaves predict, summed over trees, where ``p`` runs over the mean (variance) or the frequency of each class.
    ``unseen [k, l, n, p]``: the same for each training sample over the ``left_out [n]`` trees that did not see it
    (out-of-bag predictions).
    """

    importance: Float[Array, "k l d"]
    unseen: Float[Array, "k l n p"]
    test: Float[Array, "k l m p"]
    left_out: Float[Array, " n"]


@functools.partial(
    jax.jit, static_argnames=("classes", "criterion", "trees", "depth", "features", "bootstrap", "max_bins")
)
def fit_forest(
    key: PRNGKeyArray,
    codes: Float[Array, "n d"],
    targets: Num[Array, "n k"],
    held_out: Float[Array, "m d"],
    *,
    classes: int | None = None,
    criterion: Criterion = "variance",
    trees: int = 10,
    depth: int = 12,
    features: int | Literal["sqrt"] | None = None,
    bootstrap: bool = True,
    max_bins: int = 256,
    weights: Float[Array, " n"] | None = None,
) -> Forest:
    """Forests from all codes to each target: regression (``"variance"``) or classification (``"gini"``, ``"entropy"``).

    Each tree is grown on samples drawn with replacement and splits each node where impurity falls most, among
    ``features`` codes drawn from those that vary in it, at the edges of ``max_bins`` equally heavy bins. Except for the
    bins, this is scikit-learn's ``RandomForestRegressor`` and ``RandomForestClassifier``. A tree cut off at a smaller
    depth is the tree of that depth, so one fit serves every depth.

    Args:
      targets: values, or class numbers below ``classes`` for classification.
      held_out: codes ``[m, d]`` to predict besides the training samples.
      classes: how many classes; None for regression.
      features: codes tried per node, ``"sqrt"`` for the square root of ``d`` (scikit-learn's default for classifiers),
        or None for all.
      bootstrap: whether each tree sees samples drawn with replacement; otherwise it sees all samples.
      weights: ``[n]`` ≥ 0, as in :func:`jaxdis._learners.boosting.fit_boosting`.

    Contract:

    - Deterministic given the key. A constant code has importance 0; targets that do not vary give no split.
    - Integer targets are summed exactly up to 2²⁴. A regression is invariant under affine maps of its targets.
    - Time is ``O(trees · k · depth · d · n · p)``, however many nodes there are.

    Reference: Breiman 2001.
    """
    n, d = codes.shape
    features = math.isqrt(d) if features == "sqrt" else features or d
    alike = weights is None
    bins, held_out_bins, weights, _ = quantile_bins(codes, weights, held_out, max_bins)
    order = canonical_order(bins, weights)  # the random choices must not depend on the order of the codes
    bins, held_out_bins = bins[order], held_out_bins[order]
    columns, middle, unit = _unit_targets(targets.astype(jnp.float32), weights, classes)
    draws, choices = jax.random.split(key, (2, trees))
    times = jax.vmap(_bootstrap, (0, None))(draws, weights) if bootstrap else jnp.broadcast_to(weights, (trees, n))
    sorted_bins = stable_order(bins)
    kind = jnp.uint8 if max_bins <= 256 else jnp.int32  # bytes stay in cache
    bins, held_out_bins = bins.astype(kind), held_out_bins.astype(kind)
    judged = jnp.concatenate([bins, held_out_bins], axis=1)
    whole = classes is not None or jnp.issubdtype(targets.dtype, jnp.integer)
    exact = whole and (bootstrap or alike)
    grow = functools.partial(_grow, judged=judged, criterion=criterion, depth=depth, features=features, exact=exact)

    def one_factor(column):
        targets = column[:, None] if classes is None else jax.nn.one_hot(column.astype(jnp.int32), classes)

        def one_tree(sums, tree):
            choice, times = tree
            drawn = _drawn(times, sorted_bins, bins, _most_drawn(n) if bootstrap else _filled(n))
            importance, means = grow(choice, targets, drawn)
            importance = safe_divide(importance, importance.sum(axis=1, keepdims=True))
            unseen = jnp.where((times == 0)[None, :, None], means[:, :n], 0.0)
            return jax.tree.map(jnp.add, sums, (importance / trees, unseen, means[:, n:])), None

        width = targets.shape[1]
        start = (jnp.zeros((depth, d)), jnp.zeros((depth, n, width)), jnp.zeros((depth, held_out.shape[0], width)))
        return jax.lax.scan(one_tree, start, (choices, times))[0]

    importance, unseen, test = each(one_factor, columns)
    left_out = (times == 0).sum(axis=0).astype(jnp.float32)
    middle, unit = middle[:, None, None, None], unit[:, None, None, None]
    unseen = unseen * unit + left_out[None, None, :, None] * middle
    return Forest(importance[:, :, jnp.argsort(order)], unseen, test * unit + trees * middle, left_out)


def _unit_targets(targets, weights, classes):
    """Targets ``[k, n]`` around their mean in units of their deviation, with mean and unit ``[k]``; classes unchanged.

    Units are powers of two and means are rounded to multiples of them, so that sums of integers stay exact.
    """
    if classes is not None:
        return targets.T, jnp.zeros(targets.shape[1]), jnp.ones(targets.shape[1])
    mean, deviation = moments(targets, weights)
    unit = power_of_two_below(deviation)
    middle = jnp.round(mean / unit) * unit
    return ((targets - middle[None]) / unit[None]).T, middle, unit


def _bootstrap(key, weights):
    """How often each sample is drawn, in as many draws as there are samples with weight."""
    n = weights.shape[0]
    total = jnp.cumsum(weights)
    drawn = jnp.searchsorted(total, random.uniform(key, (n,)) * total[-1], side="right")
    counted = (jnp.arange(n) < (weights > 0).sum()).astype(jnp.float32)
    return jnp.zeros(n).at[jnp.minimum(drawn, n - 1)].add(counted, mode="promise_in_bounds")


def _most_drawn(n: int) -> int:
    """How many of ``n`` samples are among ``n`` draws at most, but for a chance below 1e-17 (McDiarmid's inequality).

    Weights only make the same samples be drawn more often.
    """
    return _filled(min(n, math.ceil((1 - math.exp(-1)) * n + 4.5 * math.sqrt(n)) + 1))


def _run() -> int:
    return max(RUN, lanes())


def _filled(n: int) -> int:
    return -(-n // _run()) * _run()


class _Drawn(NamedTuple):
    """The samples that a tree draws, in a list of ``r``, a multiple of ``_run()``, which samples of weight 0 fill up.

    ``sample [r]``: which sample each of them is; ``times [r]``: how often it is drawn, or its weight; ``bins [d, r]``;
    ``order [d, r]``: for each code, their places in this list by bin.
    """

    sample: Int[Array, " r"]
    times: Float[Array, " r"]
    bins: Int[Array, "d r"]
    order: Int[Array, "d r"]


def _drawn(times, sorted_bins, bins, most: int) -> _Drawn:
    counted = times > 0
    place = jnp.arange(most, dtype=jnp.int32)

    def places(counted):
        """Where the drawn ones go, in their order; all others beyond the list."""
        return jnp.where(counted, jnp.cumsum(counted.astype(jnp.int32)) - 1, most)

    number = places(counted)
    samples = jnp.arange(len(times), dtype=jnp.int32)
    sample = jnp.zeros(most, jnp.int32).at[number].set(samples, mode="drop", wrap_negative_indices=False)
    times = jnp.where(place < counted.sum(dtype=jnp.int32), at_places(times, sample), 0.0)

    def one_code(order):
        to = places(at_places(counted, order))
        return place.at[to].set(at_places(number, order), mode="drop", wrap_negative_indices=False)

    return _Drawn(sample, times, each(lambda bins: at_places(bins, sample), bins), each(one_code, sorted_bins))


def _into(array, index, values, method: str):
    """Add values to an array of zeros, or the like, at places within it."""
    return getattr(array.at[index], method)(values, mode="promise_in_bounds", wrap_negative_indices=False)


class _Layout(NamedTuple):
    """The samples that one tree draws, grouped by node: a node occupies the same places in every code's order.

    A node is identified by its first place. ``order [d, r]``: for each code, samples by node, then by bin. By place:
    ``first [r]`` and ``last [r]``, the bounds of its node, and ``draw [r]``, the random number that its node reads.
    """

    order: Int[Array, "d r"]
    first: Int[Array, " r"]
    last: Int[Array, " r"]
    draw: Int[Array, " r"]


class _Cut(NamedTuple):
    """How each node is split, at its first place: ``code [r]``; ``bin [r]``, the last bin to go left; ``gain [r]``."""

    code: Int[Array, " r"]
    bin: Int[Array, " r"]
    gain: Float[Array, " r"]


def _grow(key, targets, drawn: _Drawn, *, judged, criterion, depth, features, exact):
    """One tree: importances ``[l, d]`` and predictions for all ``judged`` samples, ``[l, n + m, p]``, by depth.

    A level costs ``d r p``, however many nodes it has: every node keeps its samples sorted by each code, and a split
    divides each of these lists in two without changing the order within the halves. Sums of nodes are computed once for
    all codes if sums are ``exact``; otherwise they would round differently from the sums that they are compared with.
    """
    d, r = drawn.bins.shape
    n = len(targets)
    payload = jnp.concatenate([drawn.times[:, None], drawn.times[:, None] * at_places(targets, drawn.sample)], axis=1)
    place, sample = jnp.arange(r, dtype=jnp.int32), jnp.arange(judged.shape[1], dtype=jnp.int32)
    weighty = drawn.times > 0
    count = weighty.sum(dtype=jnp.int32)

    def sums_of(node):
        return _into(jnp.zeros_like(payload), node, payload, "add")

    def level(state, key):
        layout, own, node, sums, importance = state
        cut = _best_cuts(key, drawn.bins, layout, payload, sums if exact else None, criterion, features, n)
        split = cut.gain > RESOLUTION
        importance = _into(importance, cut.code, jnp.where(split, cut.gain, 0.0), "add")
        number = at_places(judged, (at_places(cut.code, node), sample)).astype(jnp.int32)
        right = at_places(split, node) & (number > at_places(cut.bin, node))
        own_right = weighty & at_places(right, drawn.sample)
        # How many samples of each node go left, of those that are drawn and of all.
        left, all_left = (
            _into(jnp.zeros(r, jnp.int32), at, (~moves).astype(jnp.int32), "add")
            for at, moves in ((own, own_right), (node[:n], right[:n]))
        )
        layout = _divide(layout, own_right, left, all_left, place)
        own, node = (at + jnp.where(moves, at_places(left, at), 0) for at, moves in ((own, own_right), (node, right)))
        sums = sums_of(own)
        means = safe_divide(sums[:, 1:], sums[:, :1])
        return (layout, own, node, sums, importance), (importance, at_places(means, node))

    # Samples of weight 0 are in a node of their own, behind the root.
    first = jnp.where(place < count, 0, count)
    layout = _Layout(drawn.order, first, jnp.where(place < count, count - 1, r - 1), first)
    state = (layout, first, jnp.zeros(judged.shape[1], jnp.int32), sums_of(first), jnp.zeros(d))
    return jax.lax.scan(level, state, jax.random.split(key, depth))[1]


def _divide(layout: _Layout, right, left, all_left, place) -> _Layout:
    """The layout after each sample of a split node has gone left or ``right``; how many go ``left``, by node."""
    border = layout.first + at_places(left, layout.first)
    behind = place >= border
    gone = _before(layout, (layout.last + 1 - border).astype(jnp.float32)[None])
    gone, start, stay = (part.reshape(-1, _run()) for part in (gone, border, place))

    def one_code(order):
        moves = at_places(right, order).reshape(-1, _run())
        counted = moves.astype(jnp.float32)
        rank = (running_in_runs((counted - gone).reshape(1, -1), _run())[0] - counted).astype(jnp.int32)
        to = jnp.where(moves, start + rank, stay - rank).reshape(-1)
        return placed_at(order, to, len(order))

    first = jnp.where(behind, border, layout.first)
    last = jnp.where(behind, layout.last, jnp.minimum(border - 1, layout.last))
    draw = jnp.where(behind, layout.draw + at_places(all_left, layout.first), layout.draw)
    return _Layout(each(one_code, layout.order), first, last, draw)


def _before(layout: _Layout, totals):
    """At each node's first place the total ``[c, r]`` of the node before; 0 elsewhere.

    Running sums of columns less these begin anew in each node.
    """
    shifted = jnp.pad(totals[:, :-1], ((0, 0), (1, 0)))
    return jnp.where((layout.first == jnp.arange(totals.shape[1], dtype=jnp.int32))[None], shifted, 0.0)


def _best_cuts(key, bins, layout: _Layout, payload, sums, criterion, features: int, n: int) -> _Cut:
    """The best cut of every node over ``features`` random codes that vary in it; ties are broken at random.

    ``sums [r, 1 + p]``: those of nodes, or None where each code has to sum for itself.
    """
    d, r = bins.shape
    draws = random.bits(key, (d + n,), jnp.uint32)
    first, last, rows = layout.first, layout.last, at_places(draws, d + jnp.minimum(layout.draw, n - 1))
    inner = last > jnp.arange(r, dtype=jnp.int32)
    shared = None if sums is None else at_places(sums, first).T
    before = 0.0 if sums is None else _before(layout, shared)

    def in_runs(columns):
        return columns.reshape(len(columns), -1, _run())  # XLA's loops over these have no divisions of indices

    def one_code(code):
        order, bins = code
        number = at_places(bins, order)
        apart = inner & jnp.pad(number[1:] != number[:-1], (0, 1))
        left = running_in_runs(at_places(payload, order).T - before, _run())
        if sums is None:
            below = left.reshape(-1, r)
            start = jnp.where((first > 0)[None], below[:, jnp.maximum(first - 1, 0)], 0.0)
            left, total = in_runs(below - start), in_runs(below[:, last] - start)
        else:
            total = in_runs(shared)
        valid = in_runs(apart[None])[0] & (left[0] > 0) & (total[0] > left[0])
        return jnp.where(valid, _gain(left, total, criterion), -1.0)

    gain = each(one_code, (layout.order, bins)).reshape(d, r)
    chance = _scrambled(rows[None] ^ draws[:d, None])
    if features < d:
        number = along_rows(bins, layout.order)
        chance = jnp.where(number[:, first] != number[:, last], chance, -1.0)
        least = -jnp.sort(-chance, axis=0)[features - 1]
        gain = jnp.where(chance >= least[None], gain, -1.0)

    def by_node(values, start, method):
        return at_places(_into(jnp.full(r, start, values.dtype), first, values, method), first)

    def largest_of(codes):
        # Compared, not by a maximum, which XLA hands to a library that takes ten times as long over so few rows.
        return jax.lax.reduce(codes, np.float32(-2), lambda a, b: jnp.where(b > a, b, a), (0,))

    largest = by_node(largest_of(gain), -1.0, "max")
    tied = jnp.where(gain >= (largest * (1 - TIE))[None], chance, -2.0)
    code, chance = jnp.argmax(tied, axis=0).astype(jnp.int32), largest_of(tied)
    code = by_node(jnp.where(chance == by_node(chance, -2.0, "max"), code, d - 1), d - 1, "min")
    place = jnp.arange(r, dtype=jnp.int32)
    gain, sample = at_places(gain, (code, place)), at_places(layout.order, (code, place))
    tied = gain >= by_node(gain, -1.0, "max") * (1 - TIE)
    number = jnp.where(tied, at_places(bins, (code, sample)).astype(jnp.int32), NO_BIN)
    return _Cut(code, by_node(number, NO_BIN, "min"), jnp.where(place == first, largest, -1.0))


def _scrambled(bits: UInt[Array, "d r"]) -> Float[Array, "d r"]:
    """Hash integers to numbers in [0, 1), so that nearby integers end up far apart."""
    bits = (bits ^ (bits >> 16)) * jnp.uint32(0x7FEB352D)
    bits = (bits ^ (bits >> 15)) * jnp.uint32(0x846CA68B)
    return (bits >> 8).astype(jnp.float32) * jnp.float32(2.0**-24)


def _gain(left, total, criterion):
    """Decrease of impurity by a cut, times the weight: ``left`` and ``total`` are ``[1 + p, …]``, weights first.

    For the variance and Gini's index this is ``Σ_c (S_lc − W_l S_c / W)² W / (W_l W_r)``, without a difference of
    squares.
    """
    if criterion == "entropy":
        return _purity(left) + _purity(total - left) - _purity(total)
    weight, part = total[0], left[0]
    share = safe_divide(part, weight)
    difference = left[1:] - share[None] * total[1:]
    return (difference**2).sum(axis=0) * safe_divide(weight, part * (weight - part))


def _purity(sums):
    """Minus the entropy times the weight, up to a term that both sides of a split share; ``sums [1 + p, …]``."""
    weight, totals = sums[0], jnp.maximum(sums[1:], 0.0)
    logarithm = jnp.log(jnp.where(totals > 0, totals, 1.0))
    return (totals * logarithm).sum(axis=0) - weight * jnp.log(jnp.where(weight > 0, weight, 1.0))
