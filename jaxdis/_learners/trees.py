"""Trees with fixed depth, one for each gradient column, grown together level by level, and the paths through them.

Trees see numbers, not values: each code of each sample is a number (a bin or a rank), and a split sends a sample right
when its number is above the cut. A finder finds the cuts: at every threshold between sorted values, or at the edges
of quantile bins (:mod:`jaxdis._learners.splits`). Held-out samples may be in other numbers, with thresholds instead of
cuts.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental.layout import Layout, with_layout_constraint
from jaxtyping import Array, Float, Int, Num, Shaped, UInt

from jaxdis._core.kernels.sums import sums_in_nodes
from jaxdis._core.platforms import on_cpu, traced_platform

# Gains within this relative distance of the best are ties: float32 sums in different orders differ by less.
TIE = 1e-5
# Gains within this absolute distance are ties too, and smaller gains are not searched for: gradients are of order 1.
RESOLUTION = 1e-7
# Samples that pass through a function together.
BLOCK = 1000
# Numbers per vector register of a CPU, where adding rows whose length is not a multiple of this takes up to twice as
# long; and of a TPU, where XLA fills up other rows, and takes seconds to compile a change of their shape.
LANES, LANES_OF_TPU = 8, 128
# The cut of a node that is not split: every number lies below it.
NEVER = float(jnp.finfo(jnp.float32).max)


class Splits(NamedTuple):
    """One level's splits, each ``[q, c]`` for ``q`` nodes in ``c`` trees.

    ``cut`` is in the training samples' numbers, ``threshold`` the same in the held-out samples'.
    """

    feature: Int[Array, "q c"]
    cut: Float[Array, "q c"]
    threshold: Float[Array, "q c"]
    gain: Float[Array, "q c"]


class Totals(NamedTuple):
    """Gradients and weights summed over nodes, ``[q, c]``."""

    gradient: Float[Array, "q c"]
    weight: Float[Array, "q c"]


def lanes() -> int:
    """The number of which the length of rows should be a multiple."""
    return LANES_OF_TPU if traced_platform() == "tpu" else LANES


def canonical_order(numbers: Num[Array, "d n"], weights: Float[Array, " n"]) -> Int[Array, " d"]:
    """Codes in an order independent of their input order: sorted by a sum over samples of scrambled numbers."""
    whole = numbers.astype(jnp.uint32) + jnp.uint32(1)
    multipliers = (jnp.arange(weights.shape[0], dtype=jnp.uint32) * jnp.uint32(2654435761)) | jnp.uint32(1)
    return jnp.argsort(jnp.where((weights > 0)[None], whole * multipliers[None], jnp.uint32(0)).sum(axis=1))


def gain_of(left_gradient, left_weight, totals: Totals, least):
    """Decrease of squared error by a cut: ``(G_l − W_l G / W)² W / (W_l W_r)``; −1 where a side has no sample.

    This is Friedman's improvement times the weights of both sides, the decrease that importances sum. It takes one
    division and no difference between large squares.
    """
    right_weight = totals.weight - left_weight
    sides = left_weight * right_weight
    valid = (left_weight > least) & (right_weight > least)
    difference = left_gradient - left_weight * (totals.gradient / jnp.maximum(totals.weight, least))
    return jnp.where(valid, difference * difference * totals.weight / jnp.where(valid, sides, 1.0), -1.0)


def pick(gain: Float[Array, "d q c"], cut: Float[Array, "d q c"], priority: Float[Array, "d q c"]) -> Splits:
    """The best feature of every node; ties are broken at random, as in scikit-learn, which shuffles the features.

    As in scikit-learn, a node is split wherever it can be, even without a gain: a parity only shows two levels further
    down.
    """
    best = gain.max(axis=0)
    tied = gain >= jnp.where(best >= 0, best * (1 - TIE) - RESOLUTION, best)[None]
    rank = jnp.where(tied, priority, -1.0)
    index = jnp.arange(gain.shape[0], dtype=jnp.int32)[:, None, None]
    feature = jnp.where(rank == rank.max(axis=0)[None], index, gain.shape[0] - 1).min(axis=0)
    split = best >= 0
    chosen = jnp.where(index == feature[None], cut, 0.0).sum(axis=0)
    chosen = jnp.where(split, chosen, NEVER)
    return Splits(jnp.where(split, feature, 0), chosen, chosen, jnp.where(split, best, 0.0))


def grow(
    find, numbers: Float[Array, "d n"], gradient: Float[Array, "n c"], totals: Totals, depth: int, priority
) -> tuple[list[Splits], UInt[Array, "n c"]]:
    """Grow one tree on every gradient column.

    Args:
      find: finds the splits of one level, ``find(state, gradient, node, totals, priority)``, and has sample ``weights
        [n]``. ``state`` is what it returned for the previous level (None at the root); it returns the splits, the
        totals of the left children (None if it does not compute them) and the new state.
      numbers: for each code of every sample, whole numbers as float32.
      totals: totals of the roots, ``[1, c]``.
      priority: ``[d, 2^depth − 1, c]`` in [0, 1); the largest wins a tie.

    Returns:
      each level's splits and every sample's leaf ``[n, c]``.
    """
    # About ``BLOCK`` samples in each block on CPU; zeros fill the last.
    n = numbers.shape[1]
    rows = -(-n // _blocks(n))
    rows = rows if traced_platform() != "tpu" else -(-rows // lanes()) * lanes()
    blocks = jnp.pad(numbers, ((0, 0), (0, _blocks(n) * rows - n))).reshape(-1, _blocks(n), rows).transpose(1, 0, 2)
    path, node, state, levels = None, None, None, []
    for level in range(depth):
        nodes = 2**level
        splits, left, state = find(state, gradient, node, totals, priority[:, nodes - 1 : 2 * nodes - 1])
        path, node = _descend_blocks(blocks, path, splits)
        node = node[: gradient.shape[0]]
        levels.append(splits)
        if level == depth - 1:
            break
        if left is None:
            weights = jnp.broadcast_to(find.weights[:, None], gradient.shape)
            totals = Totals(*sums_in_nodes(node, [gradient, weights], 2 * nodes))
        else:
            sides = [jnp.stack([part, total - part], axis=1) for part, total in zip(left, totals, strict=True)]
            totals = Totals(*(side.reshape(-1, side.shape[2]) for side in sides))  # siblings side by side
    return levels, node


def leaves(numbers: Float[Array, "d n"], levels: list[Splits]) -> UInt[Array, "c n"]:
    """The leaf that every held-out sample reaches in every tree."""
    node, m = None, numbers.shape[1]
    if traced_platform() == "tpu":
        numbers = jnp.pad(numbers, ((0, 0), (0, -m % lanes())))
    for splits in levels:
        node = descend(numbers, node, splits.feature, splits.threshold)
    return node[:, :m]


def descend(numbers: Float[Array, "d n"], node: UInt[Array, "c n"] | None, feature, cut) -> UInt[Array, "c n"]:
    """Nodes one level down: ``2 q`` to the left, ``2 q + 1`` to the right.

    Samples come last: a tree then reads whole rows and compares them with one cut for each of its nodes.
    """
    kind = jnp.uint8 if 2 * len(cut) <= 256 else jnp.uint16

    def right(q):
        row = numbers.at[feature[q]].get(mode="promise_in_bounds")
        return jnp.where(row > cut[q][:, None], 1, 0)

    step = right(0)
    for q in range(1, len(cut)):
        step = jnp.where(node == q, right(q), step)
    step = step.astype(kind)
    return step if node is None else 2 * node.astype(kind) + step


def _descend_blocks(numbers: Float[Array, "b d r"], path: UInt[Array, "b c r"] | None, splits: Splits):
    """The nodes one level down, as a path ``[b, c, r]`` to go on from, and ``[b r, c]`` to sum by."""

    def down(block):
        node = descend(*block, splits.feature, splits.cut)
        # XLA would otherwise find the path in the order of its transpose, ten times slower.
        return node, with_layout_constraint(node, Layout(major_to_minor=(0, 1))).T

    path, node = jax.lax.map(down, (numbers, path))
    return path, node.reshape(-1, node.shape[2])


def by_blocks(function, *arrays: Shaped[Array, "n ..."]):
    """Apply a function of one sample to about ``BLOCK`` samples at a time on CPU.

    A block's arrays stay in cache, and the result is written once: XLA would otherwise fuse ``function`` into every
    reader of its result and compute it again for each.
    """
    n = arrays[0].shape[0]
    return jax.lax.map(lambda rows: function(*rows), arrays, batch_size=-(-n // _blocks(n)))


def _blocks(n: int) -> int:
    """How many blocks there are of so many samples; accelerators take all samples together."""
    return -(-n // BLOCK) if on_cpu() else 1


def choose(values: Float[Array, "l ..."], leaf: UInt[Array, "..."]) -> Float[Array, "..."]:
    """``values[leaf]`` by halving: a tree of selections, which runs in registers where a gather would not."""
    rows, bit = list(values), 1
    while len(rows) > 1:
        goes_right = (leaf & bit) > 0
        rows = [jnp.where(goes_right, right, left) for left, right in zip(rows[::2], rows[1::2], strict=True)]
        bit *= 2
    return rows[0]
