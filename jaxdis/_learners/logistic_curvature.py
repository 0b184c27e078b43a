"""What replaces the Hessian in multinomial logistic regression where it is inverted: the preconditioner for descent."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxdis._core.factorizations import solve_factorized
from jaxdis._learners.logistic_memory import Memory
from jaxdis._learners.logistic_problem import Problem
from jaxdis._learners.logistic_subspace import factorized

# With more inputs, steps of limited memory from the Hessian along their main directions replace it.
WIDE = 65


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
