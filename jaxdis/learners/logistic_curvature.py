"""What replaces the Hessian of multinomial logistic regression where it is inverted: the preconditioner of descent."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxdis.learners.groups import Groups
from jaxdis.learners.logistic_problem import Problem

# The Hessian of a factor with up to so many parameters is inverted as a whole.
WHOLE = 80
# With more inputs, Böhning's bound replaces the Hessian.
WIDE = 65


class Curvature(NamedTuple):
    """Cholesky factors: of the Hessian of each factor in ``whole_factors``, and of the blocks of the Hessian that
    belong to single classes, of which those of other factors are used; with many inputs, of a bound for each factor."""

    whole: tuple[Float[Array, "u u"], ...]
    classes: Float[Array, "s e e"] | None
    bounds: Float[Array, "k e e"] | None


def is_wide(problem: Problem) -> bool:
    return problem.inputs.shape[1] > WIDE


def whole_factors(groups: Groups, inputs: int) -> list[bool]:
    """Of each factor, whether its Hessian is inverted as a whole."""
    return [size * inputs <= WHOLE for size in groups.sizes]


def curvature_of(problem: Problem, probability: Float[Array, "b s r"]) -> Curvature:
    """The preconditioner at class probabilities; the bound with many inputs is that of all probabilities."""
    if is_wide(problem):
        return Curvature((), None, _bounds(problem))
    e, s = problem.inputs.shape[1], len(problem.groups.member)
    parts = [p for p, whole in zip(problem.groups.slices(), whole_factors(problem.groups, e), strict=True) if whole]
    pairs = [(a, b) for part in parts for a in range(part.start, part.stop) for b in range(a + 1, part.stop)]
    first, second = np.array(pairs, np.int32).reshape(-1, 2).T
    rows, columns = np.triu_indices(e)

    def add(totals, block, _):
        inputs, probability, class_weights = block
        products = inputs[rows] * inputs[columns]
        weighted = class_weights * probability
        curvatures = weighted * (1 - probability), -weighted[first] * probability[second]
        return tuple(t + jnp.einsum("sn,pn->sp", c, products) for t, c in zip(totals, curvatures, strict=True))

    none = jnp.zeros((s, len(rows))), jnp.zeros((len(pairs), len(rows)))
    totals = problem.over_blocks(add, none, (problem.inputs, probability, problem.class_weights))
    blocks = jnp.concatenate(totals)[:, _symmetric(rows, columns, e)]  # [s + pairs, e, e]
    of_pair = _symmetric(first, second, s, np.arange(s, s + len(pairs))) + np.diag(np.arange(s, dtype=np.int32))
    whole = tuple(_factorized(_joined(blocks[of_pair[p, p]]), problem.penalty[p].reshape(-1)) for p in parts)
    return Curvature(whole, jax.vmap(_factorized)(blocks[:s], problem.penalty), None)


def solve(problem: Problem, curvature: Curvature, right: Float[Array, "s e"]) -> Float[Array, "s e"]:
    """The inverse of the curvature times ``right``, whose sum over the classes of each factor is 0."""
    slices, whole = problem.groups.slices(), iter(curvature.whole)
    if curvature.bounds is not None:
        solved = [_solved(bound, right[part].T).T for bound, part in zip(curvature.bounds, slices, strict=True)]
    else:
        by_class = jax.vmap(_solved)(curvature.classes, right)
        known = whole_factors(problem.groups, right.shape[1])
        solved = [
            _solved(next(whole), right[part].reshape(-1)).reshape(right[part].shape) if is_whole else by_class[part]
            for part, is_whole in zip(slices, known, strict=True)
        ]
    return problem.centered(jnp.concatenate(solved))


def _bounds(problem: Problem) -> Float[Array, "k e e"]:
    """Böhning's bound on the Hessian of each factor, factorized."""
    share = 0.5 * problem.count.astype(jnp.float32) / len(problem.inputs)
    products = jnp.einsum("bdn,bkn,ben->kde", problem.inputs, share * problem.factor_weights, problem.inputs)
    penalty = jnp.stack([problem.penalty[part].max(axis=0) for part in problem.groups.slices()])
    return jax.vmap(_factorized)(jnp.broadcast_to(products, (len(penalty), *products.shape[1:])), penalty)


def _symmetric(rows, columns, size: int, numbers=None) -> np.ndarray:
    """``[size, size]``: at each row and column, and at the column and row, their number; 0 elsewhere."""
    table = np.zeros((size, size), np.int32)
    table[rows, columns] = table[columns, rows] = np.arange(len(rows)) if numbers is None else numbers
    return table


def _joined(blocks: Float[Array, "m m e e"]) -> Float[Array, "m*e m*e"]:
    """The Hessian of one factor from its blocks.

    It does not change a vector that is the same for all classes. There, where steps are 0, the mean block is added.
    """
    m, e = blocks.shape[1:3]
    mean = jnp.trace(blocks) / m**2
    return (blocks + (mean * jnp.eye(e))[None, None]).transpose(0, 2, 1, 3).reshape(m * e, m * e)


def _factorized(gram: Float[Array, "e e"], penalty: Float[Array, " e"]) -> Float[Array, "e e"]:
    """The Cholesky factor of a Gram matrix and a penalty, made invertible."""
    diagonal = jnp.diag(gram)
    ridge = 1e-4 * diagonal + 1e-7 * diagonal.mean() + 1e-12
    factor = jnp.linalg.cholesky(gram + jnp.diag(penalty + ridge))
    return jnp.where(jnp.isfinite(factor).all(), factor, jnp.diag(jnp.sqrt(diagonal + penalty + ridge)))


def _solved(factor: Float[Array, "e e"], right: Float[Array, "e ..."]) -> Float[Array, "e ..."]:
    return jax.scipy.linalg.cho_solve((factor, True), right)
