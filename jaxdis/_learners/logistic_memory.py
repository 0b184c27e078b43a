"""What limited-memory steps (L-BFGS) have seen of the Hessian in multinomial logistic regression."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxdis._core.arrays import safe_divide
from jaxdis._learners.logistic_problem import Problem
from jaxdis._learners.logistic_subspace import Directions, Subspace

REMEMBERED = 10


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
