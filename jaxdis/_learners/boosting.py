"""Gradient boosting of all factors at once: the trees for all factors' values are columns in one program."""

import functools
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Num

from jaxdis._core import random
from jaxdis._core.arrays import moments, power_of_two_below, safe_divide, weighted_mean
from jaxdis._core.kernels.sums import sums_in_nodes
from jaxdis._learners.splits import exact_order, quantile_histogram
from jaxdis._learners.trees import Totals, by_blocks, canonical_order, choose, grow, lanes, leaves

Splitter = Literal["exact", "histogram"]

# Beyond this a float32 exponential overflows; probabilities there are 0 or 1 to 26 digits.
LARGEST_LOGIT = 60.0
# Initial probability of a class that does not occur.
ABSENT = 1e-7
ROUNDING = 2.0**16
# With this many samples or more, 64 bins are as good as 128, and cheaper.
MANY = 4000


class Columns(NamedTuple):
    """Which column belongs to which factor.

    ``member [c, k]`` is 1 where column ``c`` belongs to factor ``k``; ``factor [c]`` is the factor and ``value [c]``
    the class that the column stands for. A factor with ``v > 2`` values has ``v`` columns; one with two values has one,
    for the second value; a continuous factor (``regression [c]``) has one. Columns without a factor pad the number to a
    multiple of :func:`~jaxdis._learners.trees.lanes`; no sample is in their class.
    """

    member: np.ndarray
    factor: np.ndarray
    value: np.ndarray
    local: np.ndarray
    regression: np.ndarray
    parts: tuple[slice, ...]

    @classmethod
    def of(cls, sizes: tuple[int | None, ...]) -> "Columns":
        counts = [1 if size is None or size <= 2 else size for size in sizes]
        factor = np.repeat(np.arange(len(sizes)), counts)
        local = np.concatenate([np.arange(count) for count in counts])
        value = np.where(np.repeat(counts, counts) == 1, 1, local)
        starts = np.cumsum([0, *counts])
        rest = -len(factor) % lanes()
        return cls(
            np.pad(np.eye(len(sizes), dtype=np.float32)[factor], ((0, rest), (0, 0))),
            np.pad(factor, (0, rest)),
            np.pad(value, (0, rest)),
            np.pad(local, (0, rest)),
            np.pad([sizes[j] is None for j in factor], (0, rest)),
            tuple(slice(int(a), int(b)) for a, b in zip(starts[:-1], starts[1:], strict=True)),
        )

    def own(self, values: Num[Array, "n k"]) -> Int[Array, "n k"]:
        """For each sample, its class's column, or the factor's only one."""
        several = np.array([part.stop - part.start > 1 for part in self.parts])
        starts = np.array([part.start for part in self.parts], np.int32)
        return jnp.where(several[None], values.astype(jnp.int32), 0) + starts[None]


class Boosted(NamedTuple):
    """The result of boosting.

    ``importance [d, k]``: how much of the decrease in squared error by a factor's trees each code makes; a column sums
    to 1, or to 0 if no tree has a split. ``train [n, c]`` and ``test [m, c]``: raw scores, ordered as :class:`Columns`;
    a continuous factor's are in its own unit.
    """

    importance: Float[Array, "d k"]
    train: Float[Array, "n c"]
    test: Float[Array, "m c"]


def bins_for(samples: int) -> int:
    """Bins per code where none are asked for."""
    return 64 if samples >= MANY else 128


# Compiled also when called eagerly: rounding, and hence the choice among nearly equal splits, is then the same.
@functools.partial(jax.jit, static_argnames=("sizes", "splitter", "max_bins", "stages", "rate", "depth"))
def fit_boosting(
    codes: Float[Array, "n d"],
    values: Num[Array, "n k"],
    sizes: tuple[int | None, ...],
    held_out: Float[Array, "m d"],
    *,
    splitter: Splitter = "exact",
    max_bins: int | None = None,
    stages: int = 100,
    rate: float = 0.1,
    depth: int = 3,
    weights: Float[Array, " n"] | None = None,
) -> Boosted:
    """Gradient-boosted trees from all codes to each factor: multinomial log-loss, or squared error if continuous.

    Each stage fits one tree per class to the residuals ``y − p`` by the decrease of squared error, gives its leaves the
    Newton step ``(v − 1) / v · Σ (y − p) / Σ p (1 − p)`` and adds ``rate`` times this step. Two classes share one tree,
    without the coefficient ``(v − 1) / v``; a regression's leaves hold the mean residual. This is scikit-learn's
    ``GradientBoostingClassifier`` and ``GradientBoostingRegressor`` with the friedman_mse criterion, whose importances
    are the summed decreases.

    Args:
      sizes: how many values each factor has, None for a continuous one; ``v`` counts the values that occur.
      held_out: codes ``[m, d]`` to predict besides the training samples.
      splitter: ``"exact"`` considers every threshold between neighboring values, ``"histogram"`` the edges of
        ``max_bins`` equally heavy bins.
      max_bins: bins per code (64 when None; 128 with fewer than 4,000 samples).
      stages: trees per class.
      weights: ``[n]`` ≥ 0; samples with weight 0 are left out, whatever their codes. Cuts with equal gain may then be
        chosen otherwise than among the other samples alone (disentanglement moved by .002 with 240 samples).

    Contract:

    - All codes must be finite. A constant code has importance 0.
    - A node is split wherever two values differ in it, even without a gain, because the gain of an interaction such as
      a parity only shows at deeper levels.
    - Equal gains are decided by fixed pseudo-random numbers that depend on codes only through the order of their
      values. The result is deterministic, permutes with the codes and, for ``"exact"``, is invariant under increasing
      maps of training codes.
    - Time is ``O(stages · depth · n · d · c)``; memory is about ``40 n c`` bytes with histograms and ``70 n c`` with
      ``"exact"``.

    Use ``"histogram"`` for speed, except when a factor is almost perfectly predictable, or has many values and is
    barely predictable: exact trees then isolate single samples, which bins cannot. Compare importances only at equally
    many samples and stages and with the same learner, since all three change the scores D and C of DCI (tables in
    ``benchmarks/NOTES.md``).

    Reference: Friedman 2001, §4.5–4.6 and algorithm 6 (importances: §8.1).
    """
    columns = Columns.of(sizes)
    max_bins = max_bins or bins_for(codes.shape[0])
    if weights is not None:
        weights = weights * ((weights > 0).astype(jnp.float32).sum() / weights.sum())
        codes = without_weightless(codes, weights)
    if splitter == "exact":
        finder, numbers, held_out_numbers = exact_order(codes, weights, held_out, columns.own(values))
    else:
        finder, numbers, held_out_numbers = quantile_histogram(codes, weights, held_out, max_bins, len(columns.factor))
    weights = finder.weights
    targets, shift, scale = _targets(values, columns, weights)
    start, newton = _start(targets, columns, weights)
    order = canonical_order(numbers, weights)
    rank = jnp.argsort(order)
    member, regression = jnp.asarray(columns.member), jnp.asarray(columns.regression)
    lone = jnp.asarray(np.array([float(part.stop - part.start == 1) for part in columns.parts], np.float32))
    d, nodes = codes.shape[1], 2**depth - 1
    total_weight = jnp.full((1, len(columns.factor)), weights.sum())

    def residual(target, scores):
        exponential = jnp.exp(jnp.clip(scores, -LARGEST_LOGIT, LARGEST_LOGIT))
        probabilities = exponential * ((1 / (exponential @ member + lone)) @ member.T)
        return target - jnp.where(regression, scores, probabilities)

    def stage(number, state):
        train, test, importance = state
        error = by_blocks(residual, targets, train)
        curvature = jnp.where(regression[None], 1.0, jnp.abs(error) * (1 - jnp.abs(error)))
        if not finder.alike:
            curvature, error = curvature * weights[:, None], error * weights[:, None]
        draws = random.uniform(jax.random.fold_in(jax.random.key(0), number), (max(columns.local) + 1, nodes, d))
        priority = draws[columns.local][:, :, rank].T
        # Trees are grown on gradients rescaled to order 1: equal gains are recognized by their size.
        unit = power_of_two_below(jnp.maximum(error.max(axis=0), -error.min(axis=0)))[None]
        scaled = by_blocks(lambda row: row / unit[0], error)
        levels, leaf = grow(finder, numbers, scaled, Totals(scaled.sum(axis=0)[None], total_weight), depth, priority)
        # Summed again: the sums of a nearly certain class are below the rounding errors of its ancestors' differences.
        sums, steps = sums_in_nodes(leaf, [error, curvature], 2**depth)
        leaf_values = rate * newton[None] * safe_divide(sums, jnp.where(steps > 1e-20, steps, 0.0))
        # Times the identity: XLA would otherwise repeat the division for every sample that reads it.
        leaf_values = jnp.dot(jnp.eye(len(leaf_values)), leaf_values, precision=jax.lax.Precision.HIGHEST)
        for splits in levels:
            chosen = splits.feature[None] == jnp.arange(d)[:, None, None]
            importance = importance + jnp.where(chosen, (splits.gain * unit**2)[None], 0.0).sum(axis=1)
        train = train + choose(leaf_values[:, None], leaf)
        test = test + choose(leaf_values[:, :, None], leaves(held_out_numbers, levels))
        return train, test, importance

    state = (
        jnp.broadcast_to(start, targets.shape),
        jnp.broadcast_to(start[:, None], (targets.shape[1], held_out.shape[0])),
        jnp.zeros((d, targets.shape[1])),
    )
    train, test, importance = jax.lax.fori_loop(0, stages, stage, state)
    importance = importance @ member
    importance = safe_divide(importance, importance.sum(axis=0)[None])
    last = columns.parts[-1].stop
    return Boosted(importance, *((scores * scale + shift)[:, :last] for scores in (train, test.T)))


def accuracy(
    scores: Float[Array, "n c"], values: Num[Array, "n k"], sizes: tuple[int | None, ...], weights=None
) -> Float[Array, " k"]:
    """Share of samples whose class has the largest score; ``1 − RMSE / σ`` for a continuous factor."""
    weights = jnp.ones(scores.shape[0]) if weights is None else weights
    results = []
    for j, (part, size) in enumerate(zip(Columns.of(sizes).parts, sizes, strict=True)):
        if size is None:
            results.append(one_minus_error(scores[:, part.start], values[:, j], weights))
            continue
        best = jnp.argmax(scores[:, part], axis=1) if size > 2 else scores[:, part.start] > 0
        right = (best.astype(jnp.int32) == values[:, j].astype(jnp.int32)).astype(jnp.float32)
        results.append(weighted_mean(right[:, None], weights)[0])
    return jnp.stack(results)


def one_minus_error(predicted: Float[Array, " n"], values: Float[Array, " n"], weights) -> Float[Array, ""]:
    """``1 − RMSE / σ``: 1 is perfect, 0 is no better than the mean; 0 for values that do not vary."""
    deviation = moments(values[:, None], weights)[1][0]
    unit = jnp.where(deviation > 0, deviation, 1.0)
    squared = weighted_mean((((predicted - values) / unit) ** 2)[:, None], weights)[0]
    return jnp.where(deviation > 0, 1 - jnp.sqrt(squared), 0.0)


def _targets(values, columns: Columns, weights):
    """Targets ``[n, c]``, 0/1 for classes and standardized for regression, with the shift and scale that undo this."""
    chosen = values[:, columns.factor]
    hot = (chosen.astype(jnp.int32) == jnp.asarray(columns.value, jnp.int32)[None]).astype(jnp.float32)
    hot = hot * jnp.asarray(columns.member.sum(axis=1))[None]
    real = chosen.astype(jnp.float32)
    mean, deviation = moments(real, weights)
    flat = deviation == 0
    regression = jnp.asarray(columns.regression)
    shift, scale = jnp.where(regression, mean, 0.0), jnp.where(regression & ~flat, deviation, 1.0)
    standardized = jnp.where(flat[None], 0.0, (real - shift[None]) / scale[None])
    return jnp.where(regression[None], standardized, hot), shift[None], scale[None]


def _start(targets, columns: Columns, weights):
    """Log frequencies (log odds of two classes, 0 for regression) and coefficient ``(v − 1) / v``, for each column."""
    share = jnp.clip(weighted_mean(targets, weights), ABSENT, 1 - ABSENT)
    member = jnp.asarray(columns.member)
    several = jnp.asarray((columns.member.sum(axis=0) > 1)[columns.factor])
    start = jnp.where(several, jnp.log(share), jnp.log(share) - jnp.log1p(-share))
    # The last bits of a logarithm differ between compilations and must not decide between equal splits.
    start = jnp.round(start * ROUNDING) / ROUNDING
    occurring = (share > 2 * ABSENT).astype(jnp.float32) @ member
    newton = jnp.where(several, 1 - 1 / jnp.maximum(occurring, 1.0)[columns.factor], 1.0)
    return jnp.where(jnp.asarray(columns.regression), 0.0, start), newton


def without_weightless(codes, weights):
    """Move samples with weight 0 onto the largest of the others' values, where they separate nothing."""
    counted = (weights > 0)[:, None]
    largest = jnp.where(counted, codes, -jnp.inf).max(axis=0)
    return jnp.where(counted, codes, largest[None])
