"""What limited-memory steps (L-BFGS) have seen of the Hessian in multinomial logistic regression."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxdis._core.arrays import safe_divide
from jaxdis._learners.logistic_problem import Problem

REMEMBERED = 20


class Memory(NamedTuple):
    """The last ``m`` steps, how the gradient changed along them, and the products of both; 0 before there are any.

    ``inverse``: that of a bound on the Hessian, and ``bounded``: this times the changes. ``scale``: what multiplies the
    inverse, so that it fits the last step. ``count``: how many steps so far.
    """

    inverse: Float[Array, "e e"]
    steps: Float[Array, "m s e"]
    changes: Float[Array, "m s e"]
    bounded: Float[Array, "m s e"]
    products: Float[Array, "m k"]
    scale: Float[Array, " k"]
    count: Int[Array, ""]

    @classmethod
    def empty(cls, inverse: Float[Array, "e e"], problem: Problem) -> "Memory":
        nothing, k = jnp.zeros((REMEMBERED, *problem.penalty.shape)), len(problem.groups.sizes)
        return cls(inverse, nothing, nothing, nothing, jnp.zeros((REMEMBERED, k)), jnp.ones(k), jnp.int32(0))

    def bound(self, problem: Problem, right: Float[Array, "s e"]) -> Float[Array, "s e"]:
        """The inverse of the bound times ``right``."""
        return problem.centered(right @ self.inverse)

    def with_step(self, problem: Problem, step, change, bounded) -> "Memory":
        """With one more step in place of the oldest."""
        product = problem.dot(step, change)
        scale = jnp.where(product > 0, safe_divide(product, problem.dot(change, bounded)), self.scale)
        place = self.count % REMEMBERED
        tables = [
            jax.lax.dynamic_update_index_in_dim(table, new, place, 0)
            for table, new in zip(self[1:5], (step, change, bounded, product), strict=True)
        ]
        return Memory(self.inverse, *tables, scale, self.count + 1)

    def solve(self, problem: Problem, right: Float[Array, "s e"], bounded: Float[Array, "s e"]) -> Float[Array, "s e"]:
        """The remembered inverse of the Hessian times ``right``, where that of the bound gives ``bounded``."""
        weights = safe_divide(1.0, self.products)

        def back(age, state):
            right, bounded, shares = state
            place = (self.count - 1 - age) % REMEMBERED
            share = weights[place] * problem.dot(self.steps[place], right)
            wide = problem.spread(share)
            return right - wide * self.changes[place], bounded - wide * self.bounded[place], shares.at[place].set(share)

        def forth(age, solved):
            place = (self.count + age) % REMEMBERED
            share = shares[place] - weights[place] * problem.dot(self.changes[place], solved)
            return solved + problem.spread(share) * self.steps[place]

        _, bounded, shares = jax.lax.fori_loop(0, REMEMBERED, back, (right, bounded, jnp.zeros_like(weights)))
        return jax.lax.fori_loop(0, REMEMBERED, forth, problem.spread(self.scale) * bounded)
