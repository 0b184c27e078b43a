"""What replaces the Hessian of multinomial logistic regression where it is inverted.

With many inputs it is exact along their main directions, and limited-memory steps (L-BFGS) add what they have seen.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxdis._core import random
from jaxdis._core.arrays import safe_divide
from jaxdis._core.factorizations import cholesky, eigh, orthonormal, solve_factorized, solve_lower
from jaxdis._core.loops import each
from jaxdis._learners.logistic_problem import Problem

# The principal directions of the codes that are told apart.
DIRECTIONS = 128
# Times that all samples are passed over to find them.
PASSES = 2
# Classes are coupled along the first so many of these, as far as the matrices of all factors have at most so many
# numbers.
COUPLED, NUMBERS = 8, 2_000_000
# In other directions, the curvature along a code counts as at least this share of their mean.
LEAST = 0.05
# Steps that are remembered.
REMEMBERED = 10
# With more inputs, steps of limited memory from the Hessian along their main directions replace it.
WIDE = 65


class Directions(NamedTuple):
    """Orthonormal ``vectors [e, q]``: the intercept, and principal directions of the codes, the largest first.

    ``along [b, q, r]``: the samples along these; ``rest [b, r]``: the mean square of a sample in other directions;
    ``outside []``: of all squares, the share in other directions.
    """

    vectors: Float[Array, "e q"]
    along: Float[Array, "b q r"]
    rest: Float[Array, "b r"]
    outside: Float[Array, ""]

    @classmethod
    def of(cls, problem: Problem) -> "Directions":
        """Found by orthogonal iteration, from sums of the samples with random weights."""
        blocks, e, rows = problem.inputs.shape
        count = min(DIRECTIONS, e - 1)
        drawn = random.normal(jax.random.key(0), (blocks, count, rows))

        def spread(total, block, _):
            inputs, vectors = block
            return total + jnp.einsum("en,qn->eq", inputs, vectors)

        def basis(total):
            return jnp.pad(orthonormal(total[:-1]), ((0, 1), (0, 0)))

        def passed(_, total):
            vectors = basis(total)

            def add(total, block, number):
                return spread(total, (block[0], vectors.T @ block[0]), number)

            return problem.over_blocks(add, jnp.zeros_like(total), (problem.inputs,))

        total = problem.over_blocks(spread, jnp.zeros((e, count)), (problem.inputs, drawn))
        vectors = basis(jax.lax.fori_loop(0, PASSES, passed, total))
        along = problem.logits(vectors.T)
        products = problem.over_blocks(lambda t, block, _: t + block[0] @ block[0].T, jnp.zeros((count,) * 2), (along,))
        turned = eigh(products)[1][:, ::-1]
        along = jnp.concatenate([problem.inputs[:, -1:], jnp.einsum("qp,bqn->bpn", turned, along)], axis=1)
        vectors = jnp.concatenate([jnp.zeros((e, 1)).at[-1].set(1.0), vectors @ turned], axis=1)
        squares = (problem.inputs**2).sum(axis=1)
        lengths = jnp.maximum(squares - (along**2).sum(axis=1), 0.0)
        return cls(vectors, along, lengths / max(e - 1 - count, 1), safe_divide(lengths.sum(), squares.sum()))


class Subspace(NamedTuple):
    """The Hessian where directions are taken to be independent of each other, but for the first few of them.

    ``coupled [k, p, p]``: the inverse of each factor's Hessian along the first directions; ``diagonal [s, q]`` of the
    Hessian along all of them; ``others [s, 1]``: its mean in all other directions, or ``[s, e]`` along each code.
    """

    coupled: Float[Array, "k p p"]
    diagonal: Float[Array, "s q"]
    others: Float[Array, "s c"]

    @classmethod
    def of(cls, problem: Problem, directions: Directions, probability: Float[Array, "b s r"]) -> "Subspace":
        s, q, (places, occupied, first) = len(problem.penalty), directions.along.shape[1], _coupled(problem)
        k, v = places.shape
        same = np.eye(v, dtype=np.float32)[None, :, None, :, None]

        def add(totals, block, _):
            coupled, diagonal, others = totals
            along, rest, probability, class_weights = block
            variance = class_weights * probability * (1 - probability)
            weighted = occupied[:, :, None] * (jnp.sqrt(class_weights) * probability)[places]
            weighted = weighted[:, :, None] * along[None, None, :first]
            # On the diagonal, p (1 − p): the sums of p and of p² differ by little where p is nearly 1.
            own = occupied[:, :, None] * variance[places]
            own = jnp.einsum("kvn,abn->kvab", own, along[:first, None] * along[None, :first])[:, :, :, None]
            coupled = coupled + same * own - (1 - same) * jnp.einsum("kvan,kwbn->kvawb", weighted, weighted)
            return coupled, diagonal + jnp.einsum("sn,qn->sq", variance, along**2), others + variance @ rest

        arrays = directions.along, directions.rest, probability, problem.class_weights
        empty = jnp.zeros((k, v, first, v, first)), jnp.zeros((s, q)), jnp.zeros(s)
        coupled, diagonal, others = problem.over_blocks(add, empty, arrays)
        penalty = jnp.concatenate([problem.penalty[:, -1:], jnp.repeat(problem.penalty[:, :1], q - 1, axis=1)], axis=1)
        ridge = 1e-4 * diagonal + 1e-7 * diagonal.mean() + 1e-12
        penalized = (occupied[:, :, None] * penalty[places][:, :, :first]).reshape(k, -1)
        inverses = each(lambda pair: _inverse(*pair), (coupled.reshape(k, v * first, v * first), penalized))
        others = (others + ridge.mean(axis=1))[:, None]
        # About as many codes as samples, as after the decomposition of more codes: each such coordinate is mostly that
        # of one sample, whose probabilities decide how the objective curves along it. There, 1,667 samples of 4,096
        # codes take 112 steps; with the mean curvature, they were not done in two minutes.
        blocks, e, rows = problem.inputs.shape
        if 10 * e > 9 * blocks * rows:
            others = directions.outside * _by_code(problem, probability) + LEAST * others
        others = others + problem.penalty[:, :1]
        return cls(inverses, diagonal + penalty + ridge, others)

    def solve(self, problem: Problem, directions: Directions, right: Float[Array, "s e"]) -> Float[Array, "s e"]:
        """The inverse times ``right``, whose sum over the classes of each factor is 0."""
        vectors, (places, occupied, first) = directions.vectors, _coupled(problem)
        along = right @ vectors
        rights = (occupied[:, :, None] * along[places][:, :, :first]).reshape(len(places), -1)
        known = jnp.einsum("kpr,kr->kp", self.coupled, rights).reshape(*places.shape, first)
        # The places of classes that a factor does not have are beyond the last.
        beyond = np.where(occupied > 0, places, len(right))
        solved = (along / self.diagonal).at[beyond, :first].set(known, mode="drop")
        if vectors.shape[0] == vectors.shape[1]:
            return problem.centered(solved @ vectors.T)
        outside = (right - along @ vectors.T) / self.others
        if self.others.shape[1] > 1:
            outside = outside - (outside @ vectors) @ vectors.T
        return problem.centered(outside + solved @ vectors.T)


def _by_code(problem: Problem, probability: Float[Array, "b s r"]) -> Float[Array, "s e"]:
    """The diagonal of the Hessian, without the penalty."""

    def add(total, block, _):
        inputs, probability, class_weights = block
        return total + jnp.einsum("sn,en->se", class_weights * probability * (1 - probability), inputs**2)

    arrays = problem.inputs, probability, problem.class_weights
    return problem.over_blocks(add, jnp.zeros_like(problem.penalty), arrays)


def _coupled(problem: Problem) -> tuple:
    """The places ``[k, v]`` of each factor's classes, whether there is one, and how many directions couple them."""
    groups = problem.groups
    values = np.arange(max(groups.sizes), dtype=np.int32)
    occupied = values < np.array(groups.sizes)[:, None]
    places = np.where(occupied, np.array(groups.offsets, np.int32)[:, None] + values, 0)
    first = int(np.sqrt(NUMBERS / len(places)) / len(values))
    return places, occupied.astype(np.float32), min(COUPLED, first, problem.inputs.shape[1])


def _inverse(gram: Float[Array, "e e"], penalty: Float[Array, " e"]) -> Float[Array, "e e"]:
    lower = factorized(gram, penalty)
    inverse = solve_lower(lower, jnp.eye(len(lower)))
    return inverse.T @ inverse


def factorized(gram: Float[Array, "e e"], penalty: Float[Array, " e"]) -> Float[Array, "e e"]:
    """The Cholesky factor of a Gram matrix and a penalty, made invertible; of its diagonal where rounding hides it."""
    diagonal = jnp.diag(gram)
    ridge = 1e-4 * diagonal + 1e-7 * diagonal.mean() + 1e-12
    factor = cholesky(gram + jnp.diag(penalty + ridge))
    return jnp.where(jnp.isfinite(factor).all(), factor, jnp.diag(jnp.sqrt(diagonal + penalty + ridge)))


class Memory(NamedTuple):
    """The last ``m`` steps, how the gradient changed along them, and the products of both; 0 before there are any.

    ``subspace``: what stands for the Hessian before there are steps. ``scale``: what multiplies its inverse, so that it
    fits the last step. ``count``: the number of steps so far.
    """

    directions: Directions
    subspace: Subspace
    steps: Float[Array, "m s e"]
    changes: Float[Array, "m s e"]
    products: Float[Array, "m k"]
    scale: Float[Array, " k"]
    count: Int[Array, ""]

    @classmethod
    def empty(cls, problem: Problem) -> "Memory":
        directions = Directions.of(problem)
        nothing, k = jnp.zeros((REMEMBERED, *problem.penalty.shape)), len(problem.groups.sizes)
        shapes = jax.eval_shape(lambda: Subspace.of(problem, directions, problem.hot))
        subspace = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        return cls(directions, subspace, nothing, nothing, jnp.zeros((REMEMBERED, k)), jnp.ones(k), jnp.int32(0))

    def renewed(self, problem: Problem, probability: Float[Array, "b s r"], where) -> "Memory":
        """With the subspace at other probabilities, if ``where`` is true."""
        again = jax.lax.cond(where, lambda: Subspace.of(problem, self.directions, probability), lambda: self.subspace)
        return self._replace(subspace=again)

    def with_step(self, problem: Problem, step, change) -> "Memory":
        """With one more step in place of the oldest."""
        product, bounded = problem.dot(step, change), self.subspace.solve(problem, self.directions, change)
        scale = jnp.where(product > 0, safe_divide(product, problem.dot(change, bounded)), self.scale)
        place = self.count % REMEMBERED
        steps, changes, products = (
            jax.lax.dynamic_update_index_in_dim(table, new, place, 0)
            for table, new in zip(self[2:5], (step, change, product), strict=True)
        )
        return Memory(self.directions, self.subspace, steps, changes, products, scale, self.count + 1)

    def solve(self, problem: Problem, right: Float[Array, "s e"]) -> Float[Array, "s e"]:
        """The remembered inverse of the Hessian times ``right``."""
        weights = safe_divide(1.0, self.products)

        def back(age, state):
            right, shares = state
            place = (self.count - 1 - age) % REMEMBERED
            share = weights[place] * problem.dot(self.steps[place], right)
            return right - problem.spread(share) * self.changes[place], shares.at[place].set(share)

        def forth(age, solved):
            place = (self.count + age) % REMEMBERED
            share = shares[place] - weights[place] * problem.dot(self.changes[place], solved)
            return solved + problem.spread(share) * self.steps[place]

        right, shares = jax.lax.fori_loop(0, REMEMBERED, back, (right, jnp.zeros_like(weights)))
        solved = problem.spread(self.scale) * self.subspace.solve(problem, self.directions, right)
        return jax.lax.fori_loop(0, REMEMBERED, forth, solved)


class Curvature(NamedTuple):
    """Cholesky factors for parts of the Hessian: its blocks that belong to single classes, and its restriction to one
    contrast between each factor's classes; with many inputs, what limited-memory steps remember instead."""

    classes: Float[Array, "s e e"] | None
    contrasts: Float[Array, "k e e"] | None
    memory: Memory | None


def is_wide(problem: Problem) -> bool:
    return problem.inputs.shape[1] > WIDE


def curvature_of(problem: Problem, probability: Float[Array, "b s r"]) -> Curvature:
    """The preconditioner at class probabilities; with many inputs, an empty memory."""
    if is_wide(problem):
        return Curvature(None, None, Memory.empty(problem))
    e, (s, k) = problem.inputs.shape[1], problem.groups.member.shape
    contrasts = problem.contrast[:, None] * problem.groups.member
    powers = jnp.concatenate([contrasts, contrasts**2], axis=1).T
    rows, columns = np.triu_indices(e)
    place = np.zeros((e, e), np.int32)
    place[rows, columns] = place[columns, rows] = np.arange(len(rows))

    def add(total, block, _):
        inputs, probability, class_weights, factor_weights = block
        mean, square = jnp.split(powers @ probability, 2)
        of_classes = class_weights * probability * (1 - probability)
        of_contrasts = factor_weights * jnp.maximum(square - mean**2, 0.0)
        products = inputs[rows] * inputs[columns]
        return total + jnp.einsum("sn,pn->sp", jnp.concatenate([of_classes, of_contrasts]), products)

    arrays = problem.inputs, probability, problem.class_weights, problem.factor_weights
    total = problem.over_blocks(add, jnp.zeros((s + k, len(rows))), arrays)
    penalty = jnp.concatenate([problem.penalty, (contrasts**2).T @ problem.penalty])
    factors = jax.vmap(factorized)(total[:, place], penalty)
    return Curvature(factors[:s], factors[s:], None)


def solve(problem: Problem, curvature: Curvature, right: Float[Array, "s e"]) -> Float[Array, "s e"]:
    """An approximate inverse of the Hessian times ``right``, which sums to 0 over each factor's classes."""
    if curvature.memory is not None:
        return curvature.memory.solve(problem, right)
    contrasts = problem.contrast[:, None] * problem.groups.member
    by_class = solve_factorized(curvature.classes, right[:, :, None])[:, :, 0]
    along = (contrasts.T @ right)[:, :, None]
    by_contrast = contrasts @ solve_factorized(curvature.contrasts, along)[:, :, 0]
    return problem.centered(by_class) + by_contrast
