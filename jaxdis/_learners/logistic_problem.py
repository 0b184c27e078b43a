"""The objective of multinomial logistic regression for every factor at once: its value, gradient and Hessian."""

import itertools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Num, Shaped

from jaxdis._core.arrays import safe_divide
from jaxdis._core.factorizations import eigh
from jaxdis._core.kernels.sums import of_own_class, spread_over_classes, sums_over_classes, thin_product
from jaxdis._core.loops import times
from jaxdis._core.platforms import on_cpu
from jaxdis._learners.classes import Groups

# Samples whose logits are held at one time: the fastest of 200 to 2,000 on a CPU.
ROWS = 1000
# Blocks of many rows have a multiple of so many: no operation ends with a part of a vector register.
LANES = 16
MANY = 8 * LANES
# Beyond this a float32 exponential overflows; logits are then taken from the largest of their factor.
LARGEST_LOGIT = 80.0
# The intercept of a class that does not occur: no probability, and no gradient.
ABSENT = -60.0


class Point(NamedTuple):
    """Parameters, the loss, the summed absolute true logits, which round, and the loss's gradient; class probabilities
    by blocks."""

    parameters: Float[Array, "s e"]
    loss: Float[Array, " k"]
    terms: Float[Array, " k"]
    slope: Float[Array, "s e"]
    probability: Float[Array, "b s r"]


class Problem(NamedTuple):
    """Samples in blocks, whose logits stay in a CPU's cache; zero samples, hence without weight, fill the last.

    Samples come last, to fill vector registers. ``longest``: the Euclidean length of each block's longest sample.
    ``class_weights`` and ``factor_weights`` hold one row for each of ``s`` classes and ``k`` factors, or one row. The
    objective covers ``count`` blocks from ``first`` on; the first block follows the last.
    """

    groups: Groups
    first: Int[Array, ""]
    count: Int[Array, ""]
    inputs: Float[Array, "b e r"]
    longest: Float[Array, " b"]
    hot: Float[Array, "b s r"]
    true_class: Int[Array, "b k r"]
    class_weights: Float[Array, "b u r"]
    factor_weights: Float[Array, "b v r"]
    penalty: Float[Array, "s e"]
    occurs: Bool[Array, " s"]
    contrast: Float[Array, " s"]

    def start(self) -> Float[Array, "s e"]:
        """Parameters of equal probabilities for the classes that occur."""
        return jnp.zeros_like(self.penalty).at[:, -1].set(jnp.where(self.occurs, 0.0, ABSENT))

    def weight(self) -> Float[Array, " v"]:
        """The total weight of the objective's samples, for each factor or for all."""
        blocks = len(self.inputs)
        counted = (jnp.arange(blocks, dtype=jnp.int32) - self.first) % blocks < self.count
        return jnp.where(counted[:, None], self.factor_weights.sum(axis=2), 0.0).sum(axis=0)

    def value(self, point: Point) -> Float[Array, " k"]:
        return point.loss + 0.5 * self.dot(self.penalty * point.parameters, point.parameters)

    def gradient(self, point: Point) -> Float[Array, "s e"]:
        return point.slope + self.penalty * point.parameters

    def over_blocks(self, add: Callable, total, arrays: tuple):
        """``total = add(total, block, number)`` for each block in the objective, with its part of the arrays."""
        blocks = len(self.inputs)
        if blocks == 1:
            return add(total, tuple(array[0] for array in arrays), 0)

        def one(place, total):
            number = (self.first + place) % blocks
            return add(total, tuple(jax.lax.dynamic_index_in_dim(a, number, keepdims=False) for a in arrays), number)

        return times("blocks", self.count, one, total)

    def dot(self, a: Float[Array, "s e"], b: Float[Array, "s e"]) -> Float[Array, " k"]:
        """One inner product per factor."""
        return (a * b).sum(axis=1) @ self.groups.member

    def spread(self, values: Shaped[Array, " k"]) -> Float[Array, "s 1"]:
        """Each factor's value for all its classes."""
        return (self.groups.member @ values.astype(jnp.float32))[:, None]

    def centered(self, vector: Float[Array, "s e"]) -> Float[Array, "s e"]:
        """Less its mean over the occurring classes of each factor, which moves no probability; 0 for other classes."""
        return _centered(vector, self.occurs[:, None], self.groups)

    def logits(self, parameters: Float[Array, "c e"]) -> Float[Array, "b c r"]:
        """The products of any vectors with the objective's samples, 0 for other samples."""

        def add(total, block, number):
            return jax.lax.dynamic_update_index_in_dim(total, parameters @ block[0], number, 0)

        blocks, _, rows = self.inputs.shape
        return self.over_blocks(add, jnp.zeros((blocks, len(parameters), rows)), (self.inputs,))

    def at(self, parameters: Float[Array, "s e"], logits: Float[Array, "b s r"] | None = None) -> Point:
        def add(totals, block, number):
            inputs, longest, hot, true_class, class_weights, factor_weights, *known = block
            logits = known[0] if known else parameters @ inputs
            true = of_own_class(logits, true_class, self.groups.sizes)
            exponentials, normalizer, shift = self._exponentials(logits, longest * steepest)
            probability = exponentials * spread_over_classes(1 / normalizer, self.groups.sizes)
            loss = (factor_weights * (jnp.log(normalizer) + (shift - true))).sum(axis=1)
            terms = (factor_weights * jnp.abs(true)).sum(axis=1)
            slope = jnp.einsum("sn,en->se", class_weights * (probability - hot), inputs)
            *sums, probabilities = totals
            sums = [total + term for total, term in zip(sums, (loss, terms, slope), strict=True)]
            return *sums, jax.lax.dynamic_update_index_in_dim(probabilities, probability, number, 0)

        none, slopes = jnp.zeros(len(self.groups.sizes)), jnp.zeros_like(parameters)
        # The longest parameter vector; those for absent classes underflow.
        steepest = jnp.sqrt(jnp.where(self.occurs, (parameters**2).sum(axis=1), 0.0).max())
        samples = (self.inputs, self.longest, self.hot, self.true_class)
        blocks = (*samples, self.class_weights, self.factor_weights, *(() if logits is None else (logits,)))
        return Point(parameters, *self.over_blocks(add, (none, none, slopes, jnp.zeros_like(self.hot)), blocks))

    def _exponentials(self, logits: Float[Array, "s r"], bound: Float[Array, ""]) -> tuple:
        """Exponentials of logits less a shift, their sums over the classes of each factor, and the shift ``[k, r]``.

        Only a block that would overflow, since its logits may reach the bound, pays for the largest of every factor.
        """
        shifted, shift = jax.lax.cond(
            bound > LARGEST_LOGIT,
            lambda: from_largest(logits, self.groups),
            lambda: (logits, jnp.zeros((len(self.groups.sizes), logits.shape[1]))),
        )
        exponentials = jnp.exp(shifted)
        return exponentials, sums_over_classes(exponentials, self.groups.sizes), shift

    def times_hessian(self, probability: Float[Array, "b s r"], vector: Float[Array, "s e"]) -> Float[Array, "s e"]:
        def add(total, block, _):
            inputs, probability, class_weights = block
            change = probability * thin_product(vector, inputs)
            sums = sums_over_classes(change, self.groups.sizes)
            if not on_cpu():  # two readers compute it sooner than one would store it for the other
                change = probability * thin_product(jax.lax.optimization_barrier(vector), inputs)
            change = change - probability * spread_over_classes(sums, self.groups.sizes)
            return total + jnp.einsum("sn,en->se", class_weights * change, inputs)

        return self.over_blocks(add, self.penalty * vector, (self.inputs, probability, self.class_weights))


def problem_of(codes, classes, sizes, inverse_penalty, weights, *, parts: int = 1) -> Problem:
    """The problem for samples, equally many in each part, one part after the other."""
    n, d = codes.shape
    groups = Groups.of(sizes)
    weights = jnp.ones((n, 1)) if weights is None else weights.reshape(n, -1)
    by_class = weights @ groups.member.T if weights.shape[1] > 1 else weights
    inputs = jnp.concatenate([codes, jnp.ones((n, 1))], axis=1)
    true_class = classes.astype(jnp.int32) + np.array(groups.offsets, np.int32)[None]
    inputs, true_class, by_class, weights = (
        _in_blocks(array, parts) for array in (inputs, true_class, by_class, weights)
    )
    # Samples that fill the last block have the first factor's first class, and no weight.
    of_class = jnp.repeat(true_class, np.array(sizes), axis=1, total_repeat_length=sum(sizes))
    hot = (of_class == np.arange(sum(sizes), dtype=np.int32)[None, :, None]).astype(jnp.float32)
    sums = jnp.einsum("bsn,ben->bse", by_class * hot, inputs).sum(axis=0)
    occurs = sums[:, -1] > 0
    penalty = penalties(inverse_penalty, occurs, groups, d)
    longest = jnp.sqrt((inputs**2).sum(axis=1).max(axis=1))
    window = jnp.int32(0), jnp.int32(len(inputs))
    # The first principal component of the mean inputs of each factor's classes, with length 1.
    means = _centered(safe_divide(sums, sums[:, -1:]), sums[:, -1:] > 0, groups)
    scatter = jnp.einsum("sk,sd,se->kde", groups.member, means, means)
    direction = eigh(scatter)[1][:, :, -1]
    contrast = (means * (groups.member @ direction)).sum(axis=1)
    contrast = safe_divide(contrast, groups.member @ jnp.sqrt(groups.member.T @ contrast**2))
    return Problem(groups, *window, inputs, longest, hot, true_class, by_class, weights, penalty, occurs, contrast)


def penalties(inverse_penalty, occurs, groups: Groups, d: int) -> Float[Array, "s e"]:
    """What multiplies half of each squared parameter when the objective is divided by ``inverse_penalty``.

    Two classes share one vector in scikit-learn; ours are its two halves, and twice the penalty makes them equal.
    """
    member = jnp.asarray(groups.member)
    double = jnp.where(occurs.astype(jnp.float32) @ member == 2, 2.0, 1.0)
    per_factor = jnp.broadcast_to(1 / jnp.asarray(inverse_penalty, jnp.float32), double.shape) * double
    free_intercept = jnp.concatenate([jnp.ones(d), jnp.zeros(1)])
    return (member @ per_factor)[:, None] * free_intercept[None, :]


def _centered(vector: Float[Array, "s e"], occurs: Bool[Array, "s 1"], groups: Groups) -> Float[Array, "s e"]:
    share = occurs.astype(jnp.float32)
    means = (groups.member.T @ (vector * share)) / (groups.member.T @ share)
    return (vector - groups.member @ means) * share


def from_largest(logits, groups: Groups):
    """Logits minus the largest logit of their factor, ``[s, n]``, and these largest logits, ``[k, n]``."""
    largest = jnp.stack([logits[part].max(axis=0) for part in groups.slices()])
    return logits - jnp.repeat(largest, np.array(groups.sizes), axis=0, total_repeat_length=sum(groups.sizes)), largest


def _in_blocks(array: Num[Array, "n c"], parts: int) -> Num[Array, "b c r"]:
    """Into blocks of samples, which come last; zeros, hence samples without weight, fill the last rows.

    The samples of a part are dealt like cards, so that every block is much like the part. How many blocks there are is
    prime, since factors that cycle through their values along the samples would otherwise show few values in a block.
    """
    n = array.shape[0] // parts
    numbers = itertools.count(-(-n // ROWS) if on_cpu() else 1)
    blocks = next(number for number in numbers if all(number % divisor for divisor in range(2, int(number**0.5) + 1)))
    rows = -(-n // blocks)
    rows = rows if rows < MANY else -(-rows // LANES) * LANES
    dealt = jnp.pad(array.reshape(parts, n, -1), ((0, 0), (0, blocks * rows - n), (0, 0)))
    return dealt.reshape(parts, rows, blocks, -1).transpose(0, 2, 3, 1).reshape(parts * blocks, -1, rows)
