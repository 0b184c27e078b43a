"""Random forests: deep trees on bootstrapped samples, one tree at a time, every factor in one program."""

import functools
import math
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Num

from jaxdis.arrays import safe_divide
from jaxdis.learners.splits_histogram import quantile_bins
from jaxdis.learners.trees import RESOLUTION, TIE, as_numbers, canonical_order

Criterion = Literal["variance", "gini", "entropy"]


class Forest(NamedTuple):
    """What a forest found, at every depth ``l`` from 1 on.

    ``importance [k, l, d]``: mean over trees of each code's share of the decrease of impurity. ``unseen [k, l, n, p]``
    and ``test [k, l, m, p]``: sums over trees of what their leaves say, of each training sample those trees alone that
    did not see it, ``left_out [n]`` many; ``p`` runs over the mean (variance) or the frequency of each class.
    """

    importance: Float[Array, "k l d"]
    unseen: Float[Array, "k l n p"]
    test: Float[Array, "k l m p"]
    left_out: Float[Array, " n"]


@functools.partial(
    jax.jit, static_argnames=("classes", "criterion", "trees", "depth", "features", "bootstrap", "max_bins")
)
def fit_forest(
    key: jax.Array,
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
    max_bins: int = 64,
    weights: Float[Array, " n"] | None = None,
) -> Forest:
    """Forests from all codes to each target: regression (``"variance"``) or classification (``"gini"``, ``"entropy"``).

    Each tree sees a sample with replacement and splits each node by the largest decrease of impurity over ``features``
    codes drawn among those that vary in it (all when None), at the edges of ``max_bins`` bins of equal weight. That is
    scikit-learn's ``RandomForestRegressor`` and ``RandomForestClassifier`` but for the bins. A tree cut off at a lesser
    depth is the tree of that depth, so that one fit serves every depth.

    Args:
      targets: values, or class numbers under ``classes`` for classification.
      features: a number, ``"sqrt"`` for the square root of ``d`` (scikit-learn's default for classifiers), or None.
      weights: ``[n]`` ≥ 0, as in :func:`jaxdis.learners.boosting.fit_boosting`.

    Contract: deterministic given the key; a constant code has importance 0; targets that do not vary give no split.
    Whole targets are summed exactly up to 2²⁴. Time ``O(trees · k · depth · d · (n + 2^depth max_bins) p)``.

    Reference: Breiman 2001.
    """
    n, d = codes.shape
    features = math.isqrt(d) if features == "sqrt" else features or d
    bins, others, weights, _ = quantile_bins(codes, weights, held_out, max_bins)
    order = canonical_order(as_numbers(bins), weights)  # chance must not know in which order codes came
    bins, others = bins[order], others[order]
    columns = targets.T.astype(jnp.float32)
    draws, choices = jax.random.split(key, (2, trees))
    times = jax.vmap(_bootstrap, (0, None))(draws, weights) if bootstrap else jnp.broadcast_to(weights, (trees, n))
    grow = functools.partial(
        _grow, bins=bins, others=others, criterion=criterion, depth=depth, max_bins=max_bins, features=features
    )

    def one_factor(column):
        known = column[:, None] if classes is None else jax.nn.one_hot(column.astype(jnp.int32), classes)

        def one_tree(sums, tree):
            choice, times = tree
            importance, train, test = grow(choice, known, times)
            importance = safe_divide(importance, importance.sum(axis=1, keepdims=True))
            unseen = jnp.where((times == 0)[None, :, None], train, 0.0)
            return jax.tree.map(jnp.add, sums, (importance / trees, unseen, test)), None

        width = known.shape[1]
        start = (jnp.zeros((depth, d)), jnp.zeros((depth, n, width)), jnp.zeros((depth, held_out.shape[0], width)))
        return jax.lax.scan(one_tree, start, (choices, times))[0]

    importance, unseen, test = jax.lax.map(one_factor, columns)
    left_out = (times == 0).sum(axis=0).astype(jnp.float32)
    return Forest(importance[:, :, jnp.argsort(order)], unseen, test, left_out)


def _bootstrap(key, weights):
    """How often each sample is drawn, in as many draws as samples have weight."""
    n = weights.shape[0]
    total = jnp.cumsum(weights)
    drawn = jnp.searchsorted(total, jax.random.uniform(key, (n,)) * total[-1], side="right")
    counted = (jnp.arange(n) < (weights > 0).sum()).astype(jnp.float32)
    return jnp.zeros(n).at[jnp.minimum(drawn, n - 1)].add(counted, mode="promise_in_bounds")


def _grow(key, known, times, *, bins, others, criterion, depth, max_bins, features):
    """One tree: importances ``[l, d]`` and what it says of training and held-out samples, ``[l, n, p]``, by depth."""
    d, n = bins.shape
    # Nodes that may still be split; samples in others carry the number beyond the last. Two samples make a split.
    room = min(2 ** (depth - 1), n // 2 + 1)
    payload = jnp.concatenate([times[:, None], times[:, None] * known], axis=1)

    def level(state, key):
        node, other, importance = state
        totals = jnp.zeros((room + 1, payload.shape[1])).at[node].add(payload)[:room]
        gain, cut = _best_cuts(bins, node, payload, totals, room, max_bins, criterion)
        chosen, best = _draw(key, gain, features)
        split = best > RESOLUTION
        where = jnp.take_along_axis(cut, chosen[None], axis=0)[0]
        first = 2 * jnp.cumsum(split.astype(jnp.int32)) - 2
        importance = importance.at[chosen].add(jnp.where(split, best, 0.0))

        def down(node, bins):
            """The child's number among all children of this level; 2 · room for a sample that stays."""
            at = jnp.minimum(node, room - 1)
            moves = (node < room) & split[at]
            right = bins[chosen[at], jnp.arange(bins.shape[1])] > where[at]
            return jnp.where(moves, first[at] + right.astype(jnp.int32), 2 * room)

        child, other_child = down(node, bins), down(other, others)
        sums = jnp.zeros((2 * room + 1, payload.shape[1])).at[child].add(payload)
        means = safe_divide(sums[:, 1:], sums[:, :1])
        return (jnp.minimum(child, room), jnp.minimum(other_child, room), importance), (
            importance,
            child,
            other_child,
            means,
        )

    zero = (jnp.zeros(n, jnp.int32), jnp.zeros(others.shape[1], jnp.int32), jnp.zeros(d))
    _, (importance, child, other_child, means) = jax.lax.scan(level, zero, jax.random.split(key, depth))
    root = safe_divide(payload[:, 1:].sum(axis=0), times.sum())

    def say(child):
        """What leaves say: a sample that stays keeps what was last said of it."""

        def step(last, given):
            child, means = given
            now = jnp.where((child < 2 * room)[:, None], means[child], last)
            return now, now

        return jax.lax.scan(step, jnp.broadcast_to(root, (child.shape[1], root.shape[0])), (child, means))[1]

    return importance, say(child), say(other_child)


def _best_cuts(bins, node, payload, totals, room, max_bins, criterion):
    """Largest decrease of impurity of every node by every code, ``[d, q]``, and the bin behind which to cut."""

    def one_code(number):
        place = node * max_bins + number
        table = jnp.zeros(((room + 1) * max_bins, payload.shape[1])).at[place].add(payload)
        left = jnp.cumsum(table.reshape(room + 1, max_bins, -1)[:room], axis=1)
        right = totals[:, None] - left
        valid = (left[:, :, 0] > 0) & (right[:, :, 0] > 0)
        gain = _purity(left, criterion) + _purity(right, criterion) - _purity(totals[:, None], criterion)
        gain = jnp.where(valid, gain, -1.0)
        best = gain.max(axis=1)
        index = jnp.arange(max_bins, dtype=jnp.int32)[None]
        return best, jnp.where(gain >= best[:, None] * (1 - TIE), index, max_bins).min(axis=1)

    return jax.lax.map(one_code, bins)


def _purity(sums, criterion):
    """Minus the impurity times the weight, up to what both sides of a split share; ``sums [..., 1 + p]``."""
    weight, known = sums[..., 0], sums[..., 1:]
    if criterion == "entropy":
        logarithm = jnp.log(jnp.where(known > 0, known, 1.0))
        return (known * logarithm).sum(axis=-1) - weight * jnp.log(jnp.where(weight > 0, weight, 1.0))
    return safe_divide((known**2).sum(axis=-1), weight)


def _draw(key, gain: Float[Array, "d q"], features: int) -> tuple[Int[Array, " q"], Float[Array, " q"]]:
    """The best of ``features`` codes drawn among those that vary in a node; chance decides between equals."""
    d = gain.shape[0]
    # Nodes first: the draws of a node do not depend on how many nodes there is room for.
    chance = jnp.where(gain >= 0, jax.random.uniform(key, gain.T.shape).T, -1.0)
    if features < d:
        least = -jnp.sort(-chance, axis=0)[features - 1]
        gain = jnp.where(chance >= least[None], gain, -1.0)
    best = gain.max(axis=0)
    return jnp.argmax(jnp.where(gain >= (best * (1 - TIE))[None], chance, -2.0), axis=0).astype(jnp.int32), best
