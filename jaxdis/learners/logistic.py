"""Multinomial logistic regression of every factor at once, fitted to its regularized optimum."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Num

from jaxdis.arrays import exact_products, safe_divide
from jaxdis.learners.groups import Groups, one_hot_of

# The most Newton steps, and the most products with the Hessian in each.
STEPS = 100
PRODUCTS = 100
# Conjugate gradients end when they have reduced the preconditioned residual to the first share; to the second near the
# optimum, so that little depends on the step at which descent ends.
RESIDUALS = (0.6, 0.1)
# A factor is done after a step that is expected to lower its objective by less than this share of its value, or by less
# than this many nats per sample.
STILL = 1e-6
STILL_PER_SAMPLE = 1e-8
# A step may leave a slope of this share of the first one where rounding hides whether the objective has fallen.
SLOPE = 0.8
HALVINGS = 12
# Up to so many inputs the preconditioner is the Hessian's diagonal blocks; beyond it, Böhning's bound.
WIDE = 64
# Of a term of the objective: differences of logits of hundreds round by as much.
ROUNDING = 3e-7
# Samples whose logits are held at one time: the fastest of 250, 500 and 1,000 on a CPU.
ROWS = 500
# Beyond this a float32 exponential overflows; logits are then taken from the largest of their factor.
LARGEST_LOGIT = 80.0
# The intercept of a class that does not occur: no probability, and no gradient.
ABSENT = -60.0


class Logistic(NamedTuple):
    """``coefficients [d, s]`` and ``intercepts [s]``; ``s`` runs over the values of all factors."""

    coefficients: Float[Array, "d s"]
    intercepts: Float[Array, " s"]


@exact_products
def fit_logistic(
    codes: Float[Array, "n d"],
    classes: Int[Array, "n k"],
    sizes: tuple[int, ...],
    *,
    inverse_penalty: float | Float[Array, ""] | Float[Array, " k"] = 1.0,
    weights: Float[Array, " n"] | Float[Array, "n k"] | None = None,
    steps: int = STEPS,
) -> Logistic:
    """Minimize ``inverse_penalty · Σ_n w_n cross-entropy + ½ ‖W‖²`` for each factor; intercepts are not penalized.

    ``inverse_penalty`` may differ between factors (infinity means no penalty), and so may ``weights``. This is
    scikit-learn's ``LogisticRegression(C=inverse_penalty)``. All factors share one program, in which the logits
    ``[n, s]`` are a single product. The method is a truncated Newton method: conjugate gradients, preconditioned by the
    blocks of the Hessian that belong to single classes, solve for each step, which is halved until the objective falls.
    Each factor has its own step sizes and stops by itself, after ``steps`` at the latest.

    Contract:

    - A class that does not occur has probability 0 up to rounding; constant codes get coefficient 0.
    - Each factor is fitted independently of the others, and its parameters stay fixed once it has converged.
    - The relative distance of the objective from its optimum is at most 1e-5 where the penalty or the overlap of
      classes keeps parameters finite; areas under the ROC curve agree to 1e-4 for inverse penalties from 0.01 to
      100 and without a penalty.
    - Separable classes without a penalty have no optimum: descent ends where a step is expected to gain less than
      ``STILL_PER_SAMPLE`` nats per sample. Probabilities there are stable, coefficients are not.
    - Deterministic.

    Reference: Nocedal & Wright 2006, algorithm 7.1; Hager & Zhang 2005, §2 (when a step is accepted); Böhning 1992 (the
    preconditioner for more than ``WIDE`` codes).
    """
    problem = problem_of(codes, classes, sizes, inverse_penalty, weights)
    start = jnp.zeros((codes.shape[1] + 1, sum(sizes))).at[-1].set(jnp.where(problem.occurs, 0.0, ABSENT))
    parameters = descend(problem, start, steps, PRODUCTS).parameters
    return Logistic(parameters[:-1], parameters[-1])


class Point(NamedTuple):
    """Parameters; value, rounding error and gradient of the objective at them; class probabilities by blocks."""

    parameters: Float[Array, "e s"]
    value: Float[Array, " k"]
    rounding: Float[Array, " k"]
    gradient: Float[Array, "e s"]
    probability: Float[Array, "b r s"]


class Problem(NamedTuple):
    """Samples in blocks of rows, whose logits stay in cache; rows of zeros, hence of no weight, fill the last.

    ``column_weights`` and ``factor_weights`` hold one column for each of ``s`` logits and ``k`` factors, or one column.
    """

    groups: Groups
    inputs: Float[Array, "b r e"]
    hot: Float[Array, "b r s"]
    true_columns: Int[Array, "b r k"]
    column_weights: Float[Array, "b r u"]
    factor_weights: Float[Array, "b r v"]
    penalty: Float[Array, "e s"]
    occurs: Bool[Array, " s"]

    def dot(self, a: Float[Array, "e s"], b: Float[Array, "e s"]) -> Float[Array, " k"]:
        """One inner product per factor."""
        return (a * b).sum(axis=0) @ self.groups.member

    def spread(self, values: Num[Array, " k"]) -> Float[Array, "1 s"]:
        """The value of each factor in all of its columns."""
        return (values.astype(jnp.float32) @ self.groups.member.T)[None, :]

    def centered(self, vector: Float[Array, "e s"]) -> Float[Array, "e s"]:
        """Less its mean over the occurring classes of each factor, which moves no probability; 0 for other classes."""
        occurs = self.occurs.astype(jnp.float32)[None, :]
        means = ((vector * occurs) @ self.groups.member) / (occurs @ self.groups.member)
        return (vector - means @ self.groups.member.T) * occurs

    def at(self, parameters: Float[Array, "e s"]) -> Point:
        member = self.groups.member

        def add(sums, block):
            inputs, hot, true_columns, column_weights, factor_weights = block
            logits = inputs @ parameters
            true = jnp.take_along_axis(logits, true_columns, axis=1, mode="clip")
            # Only a block that would overflow pays for the largest logit of every factor.
            shifted, shift = jax.lax.cond(
                jnp.abs(logits).max() > LARGEST_LOGIT,
                lambda: _from_largest(logits, self.groups),
                lambda: (logits, jnp.zeros_like(true)),
            )
            exponentials = jnp.exp(shifted)
            normalizer = exponentials @ member
            probability = exponentials * ((1 / normalizer) @ member.T)
            value = (factor_weights * (jnp.log(normalizer) + (shift - true))).sum(axis=0)
            terms = (factor_weights * jnp.abs(true)).sum(axis=0)
            gradient = inputs.T @ (column_weights * (probability - hot))
            return jax.tree.map(jnp.add, sums, (value, terms, gradient)), probability

        none = jnp.zeros(len(self.groups.sizes))
        blocks = (self.inputs, self.hot, self.true_columns, self.column_weights, self.factor_weights)
        sums, probability = jax.lax.scan(add, (none, none, jnp.zeros_like(parameters)), blocks)
        value, terms, gradient = sums
        value = value + 0.5 * self.dot(self.penalty * parameters, parameters)
        rounding = ROUNDING * (value + terms)
        return Point(parameters, value, rounding, gradient + self.penalty * parameters, probability)

    def times_hessian(self, probability: Float[Array, "b r s"], vector: Float[Array, "e s"]) -> Float[Array, "e s"]:
        def add(total, block):
            inputs, probability, column_weights = block
            change = probability * (inputs @ vector)
            change = change - probability * ((change @ self.groups.member) @ self.groups.member.T)
            return total + inputs.T @ (column_weights * change), None

        return jax.lax.scan(add, self.penalty * vector, (self.inputs, probability, self.column_weights))[0]

    def bounds(self) -> Float[Array, "k e e"]:
        """Böhning's bound on the Hessian of each factor, factorized."""
        products = jnp.einsum("bnd,bnk,bne->kde", self.inputs, 0.5 * self.factor_weights, self.inputs)
        penalty = jnp.stack([self.penalty[:, part].max(axis=1) for part in self.groups.slices()])
        return jax.vmap(_factorized)(jnp.broadcast_to(products, (len(penalty), *products.shape[1:])), penalty)

    def precondition(self, probability, bounds: Float[Array, "k e e"] | None) -> Callable:
        """The inverse of the bounds, or of the blocks of the Hessian that belong to single classes, of ``[e, s]``."""
        if bounds is not None:
            parts = list(enumerate(self.groups.slices()))
            return lambda q: self.centered(
                jnp.concatenate([_solved(bounds[j], q[:, part]) for j, part in parts], axis=1)
            )
        rows, columns = np.triu_indices(self.inputs.shape[-1])
        place = np.zeros((rows.max() + 1,) * 2, np.int32)
        place[rows, columns] = place[columns, rows] = np.arange(len(rows))

        def add(total, block):
            inputs, probability, column_weights = block
            curvature = column_weights * probability * (1 - probability)
            return total + curvature.T @ (inputs[:, rows] * inputs[:, columns]), None

        none = jnp.zeros((self.hot.shape[-1], len(rows)))
        products = jax.lax.scan(add, none, (self.inputs, probability, self.column_weights))[0]
        blocks = products[:, place]
        blocks = jax.vmap(_factorized)(blocks, self.penalty.T)
        return lambda q: self.centered(jax.vmap(_solved, (0, 1), 1)(blocks, q))


def problem_of(codes, classes, sizes, inverse_penalty, weights) -> Problem:
    n, d = codes.shape
    groups = Groups.of(sizes)
    hot = one_hot_of(classes, sizes)
    weights = jnp.ones((n, 1)) if weights is None else weights.reshape(n, -1)
    by_column = weights @ groups.member.T if weights.shape[1] > 1 else weights
    occurs = (by_column * hot).sum(axis=0) > 0
    inputs = jnp.concatenate([codes, jnp.ones((n, 1))], axis=1)
    true_columns = classes.astype(jnp.int32) + np.array(groups.offsets, np.int32)[None]
    blocks = (in_blocks(array, n) for array in (inputs, hot, true_columns, by_column, weights))
    return Problem(groups, *blocks, penalties(inverse_penalty, occurs, groups, d), occurs)


def descend(
    problem: Problem, start: Float[Array, "e s"], steps: int, products: int, precondition: Callable | None = None
) -> Point:
    """The point after Newton's steps; ``precondition``: that of a similar problem instead of one for each step."""
    bounds = problem.bounds() if len(start) > WIDE + 1 and precondition is None else None
    nats = STILL_PER_SAMPLE * problem.factor_weights.sum(axis=(0, 1))

    def step(state):
        number, point, falling = state
        solve = precondition or problem.precondition(point.probability, bounds)
        decrease = _newton_direction(problem, point, falling, solve, products)
        expected = problem.dot(point.gradient, decrease)
        moved, accepted = _moved(problem, point, decrease, expected)
        return number + 1, moved, falling & accepted & (expected > STILL * moved.value + nats)

    begin = (jnp.int32(0), problem.at(start), jnp.ones(len(problem.groups.sizes), bool))
    return jax.lax.while_loop(lambda state: (state[0] < steps) & state[2].any(), step, begin)[1]


def _newton_direction(
    problem: Problem, point: Point, falling, precondition: Callable, products: int
) -> Float[Array, "e s"]:
    """Inverse Hessian times gradient by conjugate gradients for the factors that are falling, 0 for the others."""
    solved = precondition(point.gradient)
    size = problem.dot(point.gradient, solved)
    far, near = RESIDUALS
    goal = jnp.clip(safe_divide(size, point.value), near**2, far**2) * size

    def product(state):
        number, total, residual, search, size, running = state
        curved = problem.times_hessian(point.probability, search)
        curvature = problem.dot(search, curved)
        running = running & (curvature > 0)
        share = jnp.where(running, safe_divide(size, curvature), 0.0)
        total, residual = total + problem.spread(share) * search, residual - problem.spread(share) * curved
        solved = precondition(residual)
        left = problem.dot(residual, solved)
        search = solved + problem.spread(safe_divide(left, size)) * search
        return number + 1, total, residual, search, left, running & (left > goal)

    begin = (jnp.int32(0), jnp.zeros_like(solved), point.gradient, solved, size, falling & (size > 0))
    return jax.lax.while_loop(lambda state: (state[0] < products) & state[-1].any(), product, begin)[1]


def _moved(problem: Problem, point: Point, decrease, expected) -> tuple[Point, Bool[Array, " k"]]:
    """The point after the longest of the step, its half, its quarter, … that lowers each factor's objective.

    Where rounding hides the decrease, the slope at the new point decides. A factor for which no step does stays.
    """

    def at_share(number, share):
        moved = problem.at(point.parameters - problem.spread(share) * decrease)
        lower = moved.value <= point.value - 1e-4 * share * expected
        flat = problem.dot(moved.gradient, decrease) >= -SLOPE * expected
        return number, share, moved, lower | (flat & (moved.value <= point.value + point.rounding))

    def shorter(state):
        number, share, _, accepted = state
        return at_share(number + 1, jnp.where(accepted, share, jnp.where(number < HALVINGS, share / 2, 0.0)))

    def undecided(state):
        return (state[0] <= HALVINGS) & ~state[3].all()

    first = at_share(jnp.int32(0), jnp.ones_like(expected))
    _, share, moved, _ = jax.lax.while_loop(undecided, shorter, first)
    return moved, share > 0


def penalties(inverse_penalty, occurs, groups: Groups, d: int) -> Float[Array, "e s"]:
    """What multiplies half of each squared parameter when the objective is divided by ``inverse_penalty``.

    Two classes share one vector in scikit-learn; ours are its two halves, and twice the penalty makes them equal.
    """
    member = jnp.asarray(groups.member)
    double = jnp.where(occurs.astype(jnp.float32) @ member == 2, 2.0, 1.0)
    per_factor = jnp.broadcast_to(1 / jnp.asarray(inverse_penalty, jnp.float32), double.shape) * double
    free_intercept = jnp.concatenate([jnp.ones(d), jnp.zeros(1)])
    return free_intercept[:, None] * (per_factor @ member.T)[None, :]


def _from_largest(logits, groups: Groups):
    """Logits minus the largest logit of their factor, ``[n, s]``, and these largest logits, ``[n, k]``."""
    largest = jnp.stack([logits[:, part].max(axis=1) for part in groups.slices()], axis=1)
    return logits - jnp.repeat(largest, np.array(groups.sizes), axis=1, total_repeat_length=sum(groups.sizes)), largest


def in_blocks(array: Num[Array, "n c"], n: int) -> Num[Array, "b r c"]:
    """Into blocks of samples, whose logits stay in cache; rows of zeros, hence of no weight, fill the last."""
    blocks = -(-n // ROWS)
    rows = -(-n // blocks)
    return jnp.pad(array, ((0, blocks * rows - n), (0, 0))).reshape(blocks, rows, -1)


def _factorized(gram: Float[Array, "e e"], penalty: Float[Array, " e"]) -> Float[Array, "e e"]:
    """The Cholesky factor of a Gram matrix and a penalty, made invertible."""
    diagonal = jnp.diag(gram)
    ridge = 1e-5 * diagonal + 1e-7 * diagonal.mean() + 1e-12
    return jnp.linalg.cholesky(gram + jnp.diag(penalty + ridge))


def _solved(factor: Float[Array, "e e"], right: Float[Array, "e ..."]) -> Float[Array, "e ..."]:
    return jax.scipy.linalg.cho_solve((factor, True), right)


def log_probabilities(model: Logistic, codes: Float[Array, "n d"], sizes: tuple[int, ...]) -> Float[Array, "n s"]:
    """Log probability of every value of every factor."""
    logits = codes @ model.coefficients + model.intercepts[None, :]
    return jnp.concatenate([jax.nn.log_softmax(logits[:, part], axis=1) for part in Groups.of(sizes).slices()], axis=1)


def predict(model: Logistic, codes: Float[Array, "n d"], sizes: tuple[int, ...]) -> Int[Array, "n k"]:
    """The most probable value of every factor."""
    logits = codes @ model.coefficients + model.intercepts[None, :]
    best = [jnp.argmax(logits[:, part], axis=1) for part in Groups.of(sizes).slices()]
    return jnp.stack(best, axis=1).astype(jnp.int32)
