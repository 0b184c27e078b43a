"""Multinomial logistic regression of every factor at once, fitted to its regularized optimum."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Num

from jaxdis.arrays import exact_products, safe_divide
from jaxdis.learners.groups import Groups

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

    @classmethod
    def of(cls, parameters: Float[Array, "s e"]) -> "Logistic":
        """The model with these coefficients and, in the last column, intercepts."""
        return cls(parameters[:, :-1].T, parameters[:, -1])


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
    return Logistic.of(descend(problem, problem.start(), steps, PRODUCTS).parameters)


class Point(NamedTuple):
    """Parameters; value, rounding error and gradient of the objective at them; class probabilities by blocks."""

    parameters: Float[Array, "s e"]
    value: Float[Array, " k"]
    rounding: Float[Array, " k"]
    gradient: Float[Array, "s e"]
    probability: Float[Array, "b s r"]


class Problem(NamedTuple):
    """Samples in blocks, whose logits stay in cache; samples of zeros, hence of no weight, fill the last.

    Samples come last, to fill vector registers. ``longest``: the Euclidean length of each block's longest sample.
    ``class_weights`` and ``factor_weights`` hold one row for each of ``s`` classes and ``k`` factors, or one row.
    """

    groups: Groups
    inputs: Float[Array, "b e r"]
    longest: Float[Array, " b"]
    hot: Float[Array, "b s r"]
    true_class: Int[Array, "b k r"]
    class_weights: Float[Array, "b u r"]
    factor_weights: Float[Array, "b v r"]
    penalty: Float[Array, "s e"]
    occurs: Bool[Array, " s"]

    def start(self) -> Float[Array, "s e"]:
        """Parameters of equal probabilities for the classes that occur."""
        return jnp.zeros_like(self.penalty).at[:, -1].set(jnp.where(self.occurs, 0.0, ABSENT))

    def dot(self, a: Float[Array, "s e"], b: Float[Array, "s e"]) -> Float[Array, " k"]:
        """One inner product per factor."""
        return (a * b).sum(axis=1) @ self.groups.member

    def spread(self, values: Num[Array, " k"]) -> Float[Array, "s 1"]:
        """The value of each factor for all of its classes."""
        return (self.groups.member @ values.astype(jnp.float32))[:, None]

    def centered(self, vector: Float[Array, "s e"]) -> Float[Array, "s e"]:
        """Less its mean over the occurring classes of each factor, which moves no probability; 0 for other classes."""
        member, occurs = self.groups.member, self.occurs.astype(jnp.float32)[:, None]
        means = (member.T @ (vector * occurs)) / (member.T @ occurs)
        return (vector - member @ means) * occurs

    def at(self, parameters: Float[Array, "s e"]) -> Point:
        member = self.groups.member

        def add(sums, block):
            inputs, longest, hot, true_class, class_weights, factor_weights = block
            logits = parameters @ inputs
            true = jnp.take_along_axis(logits, true_class, axis=0, mode="clip")
            # Only a block that would overflow pays for the largest logit of every factor.
            shifted, shift = jax.lax.cond(
                longest * steepest > LARGEST_LOGIT,
                lambda: _from_largest(logits, self.groups),
                lambda: (logits, jnp.zeros_like(true)),
            )
            exponentials = jnp.exp(shifted)
            normalizer = member.T @ exponentials
            probability = exponentials * (member @ (1 / normalizer))
            value = (factor_weights * (jnp.log(normalizer) + (shift - true))).sum(axis=1)
            terms = (factor_weights * jnp.abs(true)).sum(axis=1)
            gradient = jnp.einsum("sn,en->se", class_weights * (probability - hot), inputs)
            return jax.tree.map(jnp.add, sums, (value, terms, gradient)), probability

        none = jnp.zeros(len(self.groups.sizes))
        # No logit exceeds the longest sample times the longest vector of parameters; those of absent classes underflow.
        steepest = jnp.sqrt(jnp.where(self.occurs, (parameters**2).sum(axis=1), 0.0).max())
        samples = (self.inputs, self.longest, self.hot, self.true_class)
        blocks = (*samples, self.class_weights, self.factor_weights)
        sums, probability = jax.lax.scan(add, (none, none, jnp.zeros_like(parameters)), blocks)
        value, terms, gradient = sums
        value = value + 0.5 * self.dot(self.penalty * parameters, parameters)
        rounding = ROUNDING * (value + terms)
        return Point(parameters, value, rounding, gradient + self.penalty * parameters, probability)

    def times_hessian(self, probability: Float[Array, "b s r"], vector: Float[Array, "s e"]) -> Float[Array, "s e"]:
        member = self.groups.member

        def add(total, block):
            inputs, probability, class_weights = block
            change = probability * (vector @ inputs)
            change = change - probability * (member @ (member.T @ change))
            return total + jnp.einsum("sn,en->se", class_weights * change, inputs), None

        return jax.lax.scan(add, self.penalty * vector, (self.inputs, probability, self.class_weights))[0]

    def bounds(self) -> Float[Array, "k e e"]:
        """Böhning's bound on the Hessian of each factor, factorized."""
        products = jnp.einsum("bdn,bkn,ben->kde", self.inputs, 0.5 * self.factor_weights, self.inputs)
        penalty = jnp.stack([self.penalty[part].max(axis=0) for part in self.groups.slices()])
        return jax.vmap(_factorized)(jnp.broadcast_to(products, (len(penalty), *products.shape[1:])), penalty)

    def precondition(self, probability, bounds: Float[Array, "k e e"] | None) -> Callable:
        """The inverse of the bounds, or of the blocks of the Hessian that belong to single classes, of ``[s, e]``."""
        if bounds is not None:
            parts = list(enumerate(self.groups.slices()))
            return lambda q: self.centered(jnp.concatenate([_solved(bounds[j], q[part].T).T for j, part in parts]))
        rows, columns = np.triu_indices(self.inputs.shape[1])
        place = np.zeros((rows.max() + 1,) * 2, np.int32)
        place[rows, columns] = place[columns, rows] = np.arange(len(rows))

        def add(total, block):
            inputs, probability, class_weights = block
            curvature = class_weights * probability * (1 - probability)
            return total + jnp.einsum("sn,pn->sp", curvature, inputs[rows] * inputs[columns]), None

        none = jnp.zeros((self.hot.shape[1], len(rows)))
        products = jax.lax.scan(add, none, (self.inputs, probability, self.class_weights))[0]
        blocks = jax.vmap(_factorized)(products[:, place], self.penalty)
        return lambda q: self.centered(jax.vmap(_solved)(blocks, q))


def problem_of(codes, classes, sizes, inverse_penalty, weights) -> Problem:
    n, d = codes.shape
    groups = Groups.of(sizes)
    weights = jnp.ones((n, 1)) if weights is None else weights.reshape(n, -1)
    by_class = weights @ groups.member.T if weights.shape[1] > 1 else weights
    inputs = jnp.concatenate([codes, jnp.ones((n, 1))], axis=1)
    true_class = classes.astype(jnp.int32) + np.array(groups.offsets, np.int32)[None]
    inputs, true_class, by_class, weights = (in_blocks(array) for array in (inputs, true_class, by_class, weights))
    # Samples that fill the last block have the first factor's first class, and no weight.
    of_class = jnp.repeat(true_class, np.array(sizes), axis=1, total_repeat_length=sum(sizes))
    hot = (of_class == np.arange(sum(sizes), dtype=np.int32)[None, :, None]).astype(jnp.float32)
    occurs = (by_class * hot).sum(axis=(0, 2)) > 0
    penalty = penalties(inverse_penalty, occurs, groups, d)
    longest = jnp.sqrt((inputs**2).sum(axis=1).max(axis=1))
    return Problem(groups, inputs, longest, hot, true_class, by_class, weights, penalty, occurs)


def descend(
    problem: Problem, start: Float[Array, "s e"], steps: int, products: int, precondition: Callable | None = None
) -> Point:
    """The point after Newton's steps; ``precondition``: that of a similar problem instead of one for each step."""
    bounds = problem.bounds() if start.shape[1] > WIDE + 1 and precondition is None else None
    nats = STILL_PER_SAMPLE * problem.factor_weights.sum(axis=(0, 2))

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
) -> Float[Array, "s e"]:
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


def penalties(inverse_penalty, occurs, groups: Groups, d: int) -> Float[Array, "s e"]:
    """What multiplies half of each squared parameter when the objective is divided by ``inverse_penalty``.

    Two classes share one vector in scikit-learn; ours are its two halves, and twice the penalty makes them equal.
    """
    member = jnp.asarray(groups.member)
    double = jnp.where(occurs.astype(jnp.float32) @ member == 2, 2.0, 1.0)
    per_factor = jnp.broadcast_to(1 / jnp.asarray(inverse_penalty, jnp.float32), double.shape) * double
    free_intercept = jnp.concatenate([jnp.ones(d), jnp.zeros(1)])
    return (member @ per_factor)[:, None] * free_intercept[None, :]


def _from_largest(logits, groups: Groups):
    """Logits minus the largest logit of their factor, ``[s, n]``, and these largest logits, ``[k, n]``."""
    largest = jnp.stack([logits[part].max(axis=0) for part in groups.slices()])
    return logits - jnp.repeat(largest, np.array(groups.sizes), axis=0, total_repeat_length=sum(groups.sizes)), largest


def in_blocks(array: Num[Array, "n c"]) -> Num[Array, "b c r"]:
    """Into blocks of samples, which come last; zeros, hence samples of no weight, fill the last block."""
    n = array.shape[0]
    blocks = -(-n // ROWS)
    rows = -(-n // blocks)
    return jnp.pad(array, ((0, blocks * rows - n), (0, 0))).reshape(blocks, rows, -1).transpose(0, 2, 1)


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
