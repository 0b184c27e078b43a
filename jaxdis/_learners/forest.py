"""Random forests: deep trees on bootstrapped samples, one tree at a time, all factors in one program."""

import functools
import math
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Num, PRNGKeyArray, UInt

from jaxdis._core import random
from jaxdis._core.arrays import moments, power_of_two_below, running_sums, safe_divide, stable_order
from jaxdis._core.loops import each
from jaxdis._learners.splits_histogram import quantile_bins
from jaxdis._learners.trees import RESOLUTION, TIE, canonical_order

# Larger than any bin number.
NO_BIN = jnp.iinfo(jnp.int32).max

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
      criterion: measure of impurity.
      trees: how many trees.
      depth: largest depth of a tree.
      features: codes tried per node, ``"sqrt"`` for the square root of ``d`` (scikit-learn's default for classifiers),
        or None for all.
      bootstrap: whether each tree sees samples drawn with replacement; otherwise it sees all samples.
      max_bins: bins per code.
      weights: ``[n]`` ≥ 0, as in :func:`jaxdis._learners.boosting.fit_boosting`.

    Contract:

    - Deterministic given the key. A constant code has importance 0; targets that do not vary give no split.
    - Integer targets are summed exactly up to 2²⁴. A regression is invariant under affine maps of its targets.
    - Time is ``O(trees · k · depth · d · n · p)``, however many nodes there are.

    Reference: Breiman 2001.
    """
    n, d = codes.shape
    features = math.isqrt(d) if features == "sqrt" else features or d
    bins, held_out_bins, weights, _ = quantile_bins(codes, weights, held_out, max_bins)
    order = canonical_order(bins, weights)  # the random choices must not depend on the order of the codes
    bins, held_out_bins = bins[order], held_out_bins[order]
    columns, middle, unit = _unit_targets(targets.astype(jnp.float32), weights, classes)
    draws, choices = jax.random.split(key, (2, trees))
    times = jax.vmap(_bootstrap, (0, None))(draws, weights) if bootstrap else jnp.broadcast_to(weights, (trees, n))
    grow = functools.partial(
        _grow,
        sorted_bins=stable_order(bins),
        bins=bins,
        held_out_bins=held_out_bins,
        criterion=criterion,
        depth=depth,
        features=features,
    )

    def one_factor(column):
        targets = column[:, None] if classes is None else jax.nn.one_hot(column.astype(jnp.int32), classes)

        def one_tree(sums, tree):
            choice, times = tree
            importance, train, test = grow(choice, targets, times)
            importance = safe_divide(importance, importance.sum(axis=1, keepdims=True))
            unseen = jnp.where((times == 0)[None, :, None], train, 0.0)
            return jax.tree.map(jnp.add, sums, (importance / trees, unseen, test)), None

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


class _Layout(NamedTuple):
    """The samples of one tree, grouped by node: a node occupies the same places in every code's order.

    A node is identified by its first place. ``order [d, n]``: for each code, samples by node, then by bin; ``first
    [n]`` and ``last [n]``: the bounds of the node that a place belongs to.
    """

    order: Int[Array, "d n"]
    first: Int[Array, " n"]
    last: Int[Array, " n"]


class _Cut(NamedTuple):
    """How each node is split, at its first place: ``code [n]``; ``bin [n]``, the last bin to go left; ``gain [n]``."""

    code: Int[Array, " n"]
    bin: Int[Array, " n"]
    gain: Float[Array, " n"]


def _grow(key, targets, times, *, sorted_bins, bins, held_out_bins, criterion, depth, features):
    """One tree: importances ``[l, d]`` and predictions for training and held-out samples, ``[l, n, p]``, at each depth.

    A level costs ``d n p``, however many nodes it has: every node keeps its samples sorted by each code, and a split
    divides each of these lists in two without changing the order within the halves.
    """
    d, n = bins.shape
    payload = jnp.concatenate([times[:, None], times[:, None] * targets], axis=1)
    place = jnp.arange(n, dtype=jnp.int32)

    def level(state, key):
        layout, node, other, importance = state
        cut = _best_cuts(key, bins, layout, payload, criterion, features)
        split = cut.gain > RESOLUTION
        importance = importance.at[cut.code].add(jnp.where(split, cut.gain, 0.0))

        def goes_right(node, bins):
            return split[node] & (bins[cut.code[node], jnp.arange(bins.shape[1])] > cut.bin[node])

        right, other_right = goes_right(node, bins), goes_right(other, held_out_bins)
        number = jnp.zeros(n, jnp.int32).at[node].add((~right).astype(jnp.int32))  # of samples that go left, by node
        layout = _divide(layout, right, number, place)
        node, other = (at + jnp.where(moves, number[at], 0) for at, moves in ((node, right), (other, other_right)))
        sums = jnp.zeros_like(payload).at[node].add(payload)
        means = safe_divide(sums[:, 1:], sums[:, :1])
        return (layout, node, other, importance), (importance, means[node], means[other])

    zero = jnp.zeros(n, jnp.int32)
    layout = _Layout(sorted_bins, zero, zero + n - 1)
    state = (layout, zero, jnp.zeros(held_out_bins.shape[1], jnp.int32), jnp.zeros(d))
    return jax.lax.scan(level, state, jax.random.split(key, depth))[1]


def _divide(layout: _Layout, right, number, place) -> _Layout:
    """The layout after each sample of a split node has gone left or ``right``."""
    left_count = number[layout.first]  # by place

    def one_code(order):
        moves = right[order]
        moved = running_sums(moves[:, None].astype(jnp.float32))[:, 0].astype(jnp.int32) - moves.astype(jnp.int32)
        rank = moved - moved[layout.first]  # samples before this one in its node that go right
        to = jnp.where(moves, layout.first + left_count + rank, place - rank)
        return jnp.zeros_like(order).at[to].set(order, unique_indices=True, mode="promise_in_bounds")

    border = layout.first + left_count
    first = jnp.where(place >= border, border, layout.first)
    last = jnp.where(place >= border, layout.last, jnp.minimum(border - 1, layout.last))
    return _Layout(each(one_code, layout.order), first, last)


def _best_cuts(key, bins, layout: _Layout, payload, criterion, features: int) -> _Cut:
    """The best cut of every node over ``features`` random codes that vary in it; ties are broken at random."""
    d, n = bins.shape
    lines, row_bits = random.bits(key, (d + n,), jnp.uint32)[:d], random.bits(key, (d + n,), jnp.uint32)[d:]
    next_place = jnp.minimum(jnp.arange(1, n + 1), layout.last)

    def one_code(code):
        order, bins, line = code
        number = bins[order]
        below = running_sums(payload[order])
        before = jnp.where((layout.first > 0)[:, None], below[jnp.maximum(layout.first - 1, 0)], 0.0)
        left, total = below - before, below[layout.last] - before
        gain = _gain(left, total, criterion)
        gain = jnp.where((number[next_place] != number) & (left[:, 0] > 0) & (total[:, 0] > left[:, 0]), gain, -1.0)
        best = jnp.full(n, -1.0).at[layout.first].max(gain)
        tied = gain >= best[layout.first] * (1 - TIE)
        cut = jnp.full(n, NO_BIN, jnp.int32).at[layout.first].min(jnp.where(tied, number, NO_BIN))
        return best, cut, _scrambled(row_bits ^ line)

    best, cut, chance = each(one_code, (layout.order, bins, lines))
    chance = jnp.where(best >= 0, chance, -1.0)
    if features < d:
        least = -jnp.sort(-chance, axis=0)[features - 1]
        best = jnp.where(chance >= least[None], best, -1.0)
    largest = best.max(axis=0)
    code = jnp.argmax(jnp.where(best >= (largest * (1 - TIE))[None], chance, -2.0), axis=0).astype(jnp.int32)
    return _Cut(code, jnp.take_along_axis(cut, code[None], axis=0)[0], largest)


def _scrambled(bits: UInt[Array, " n"]) -> Float[Array, " n"]:
    """Hash integers to numbers in [0, 1), so that nearby integers end up far apart."""
    bits = (bits ^ (bits >> 16)) * jnp.uint32(0x7FEB352D)
    bits = (bits ^ (bits >> 15)) * jnp.uint32(0x846CA68B)
    return (bits >> 8).astype(jnp.float32) * jnp.float32(2.0**-24)


def _gain(left, total, criterion):
    """Decrease of impurity by a cut, times the weight: ``left`` and ``total`` are ``[n, 1 + p]``, weights first.

    For the variance and Gini's index this is ``Σ_c (S_lc − W_l S_c / W)² W / (W_l W_r)``, without a difference of
    squares.
    """
    if criterion == "entropy":
        return _purity(left) + _purity(total - left) - _purity(total)
    weight, part = total[:, 0], left[:, 0]
    share = safe_divide(part, weight)
    difference = left[:, 1:] - share[:, None] * total[:, 1:]
    return (difference**2).sum(axis=1) * safe_divide(weight, part * (weight - part))


def _purity(sums):
    """Minus the entropy times the weight, up to a term that both sides of a split share; ``sums [..., 1 + p]``."""
    weight, totals = sums[..., 0], jnp.maximum(sums[..., 1:], 0.0)
    logarithm = jnp.log(jnp.where(totals > 0, totals, 1.0))
    return (totals * logarithm).sum(axis=-1) - weight * jnp.log(jnp.where(weight > 0, weight, 1.0))
