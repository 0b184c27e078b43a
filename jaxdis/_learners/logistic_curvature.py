"""What replaces the Hessian of multinomial logistic regression where it is inverted: the preconditioner of descent."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxdis._learners.logistic_problem import Problem

# With more inputs, Böhning's bound replaces the Hessian.
WIDE = 65


class Curvature(NamedTuple):
    """Cholesky factors of parts of the Hessian: of its blocks that belong to single classes, and of its restriction to
    one contrast of the classes of each factor; with many inputs, of a bound for each factor instead."""

    classes: Float[Array, "s e e"] | None
    contrasts: Float[Array, "k e e"] | None
    bounds: Float[Array, "k e e"] | None


def is_wide(problem: Problem) -> bool:
    return problem.inputs.shape[1] > WIDE


def curvature_of(problem: Problem, probability: Float[Array, "b s r"]) -> Curvature:
    """The preconditioner at class probabilities; the bound with many inputs is that of all probabilities."""
    if is_wide(problem):
        return Curvature(None, None, _bounds(problem))
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
    factors = jax.vmap(_factorized)(total[:, place], penalty)
    return Curvature(factors[:s], factors[s:], None)


def solve(problem: Problem, curvature: Curvature, right: Float[Array, "s e"]) -> Float[Array, "s e"]:
    """An approximate inverse of the Hessian times ``right``, whose sum over the classes of each factor is 0."""
    if curvature.bounds is not None:
        parts = zip(curvature.bounds, problem.groups.slices(), strict=True)
        return problem.centered(jnp.concatenate([_solved(bound, right[part].T).T for bound, part in parts]))
    contrasts = problem.contrast[:, None] * problem.groups.member
    by_class = jax.vmap(_solved)(curvature.classes, right)
    by_contrast = contrasts @ jax.vmap(_solved)(curvature.contrasts, contrasts.T @ right)
    return problem.centered(by_class) + by_contrast


def _bounds(problem: Problem) -> Float[Array, "k e e"]:
    """Böhning's bound on the Hessian of each factor, factorized."""
    share = 0.5 * problem.count.astype(jnp.float32) / len(problem.inputs)
    products = jnp.einsum("bdn,bkn,ben->kde", problem.inputs, share * problem.factor_weights, problem.inputs)
    penalty = jnp.stack([problem.penalty[part].max(axis=0) for part in problem.groups.slices()])
    return jax.vmap(_factorized)(jnp.broadcast_to(products, (len(penalty), *products.shape[1:])), penalty)


def _factorized(gram: Float[Array, "e e"], penalty: Float[Array, " e"]) -> Float[Array, "e e"]:
    """The Cholesky factor of a Gram matrix and a penalty, made invertible; of its diagonal where rounding hides it."""
    diagonal = jnp.diag(gram)
    ridge = 1e-4 * diagonal + 1e-7 * diagonal.mean() + 1e-12
    factor = jnp.linalg.cholesky(gram + jnp.diag(penalty + ridge))
    return jnp.where(jnp.isfinite(factor).all(), factor, jnp.diag(jnp.sqrt(diagonal + penalty + ridge)))


def _solved(factor: Float[Array, "e e"], right: Float[Array, "e ..."]) -> Float[Array, "e ..."]:
    return jax.scipy.linalg.cho_solve((factor, True), right)
