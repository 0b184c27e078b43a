"""Descent to the optimum of multinomial logistic regression: limited-memory steps (L-BFGS), then Newton steps."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxdis._core.arrays import safe_divide
from jaxdis._core.loops import repeat
from jaxdis._learners.logistic_hessian import Curvature, Memory, curvature_of, is_wide, solve
from jaxdis._learners.logistic_problem import Point, Problem

ITERATIONS = 500
# Steps of limited memory expect some twentieth of what is there to gain.
SEEMING = 0.01
# The slope of intercepts at the end, per sample: with strong penalties, they decide which class is named.
LEVEL = 1e-5
# A step ends where the slope along it is at most the first share of that at its beginning, or has risen to at most the
# second.
SHORT, LONG = 0.9, 0.5
# A trial is at most so many times as long as the one before it.
FARTHER = 4.0
TRIALS = 10
# What stands for the Hessian is renewed when an objective has fallen below this share of where it was then.
LOWER = 0.8


def approach(
    problem: Problem, point: Point, memory: Memory, still: float | Float[Array, ""], nats: Float[Array, " v"]
) -> tuple[Point, Memory, Bool[Array, " k"]]:
    """Go downhill until no objective can fall by more than its share ``still`` and ``nats``, or steps seem to.

    The objective curves at least as much as its penalty, hence its distance from the optimum is at most ``½ Σ g² /
    penalty``; the slope of intercepts, which are free, is compared with ``LEVEL``. Also returned: what was remembered,
    and the factors for which this was not reached. An iteration is two products with all samples, a Newton step dozens:
    a point's logits are the last one's plus a multiple of the direction's.
    """

    def iteration(state):
        number, point, logits, memory, decrease, expected, level, *_ = state
        moved, logits = _moved_along(problem, point, logits, decrease, expected)
        gradient, value = problem.gradient(moved), problem.value(moved)
        lower = (value < LOWER * level).any()
        level = jnp.where(lower, value, level)
        memory = memory.renewed(problem, moved.probability, lower)
        step, change = moved.parameters - point.parameters, gradient - problem.gradient(point)
        memory = memory.with_step(problem, step, change)
        decrease = memory.solve(problem, gradient)
        expected = problem.dot(gradient, decrease)
        enough = still * value + nats
        # Without a penalty, nothing is known.
        of_penalized = safe_divide(gradient, jnp.sqrt(problem.penalty))
        known = (problem.penalty[:, 0] > 0).astype(jnp.float32) @ problem.groups.member > 0
        free = problem.dot(gradient, jnp.where(problem.penalty > 0, 0.0, gradient))
        near = (0.5 * problem.dot(of_penalized, of_penalized) <= enough) & (free <= (LEVEL * problem.weight()) ** 2)
        far = ~(known & near)
        falling = far & ((number == 0) | (problem.dot(step, step) > 0)) & (expected > SEEMING * enough)
        decrease, expected = problem.spread(falling) * decrease, jnp.where(falling, expected, 0.0)
        return number + 1, moved, logits, memory, decrease, expected, level, falling, far

    # The first iteration goes nowhere: what finds a direction is compiled once.
    logits, none = problem.logits(point.parameters), jnp.zeros(len(problem.groups.sizes))
    begin = jnp.int32(0), point, logits, memory, jnp.zeros_like(point.parameters), none, none + jnp.inf
    begin = *begin, jnp.ones(len(none), bool), jnp.ones(len(none), bool)
    end = repeat("approach", lambda state: (state[0] < ITERATIONS) & state[-2].any(), iteration, begin)
    return end[1], end[3], end[-1]


def _moved_along(problem: Problem, point: Point, logits, decrease, expected) -> tuple[Point, Float[Array, "b s r"]]:
    """The point to which each factor goes, and its logits; where no length is found, the factor stays."""
    change, k = problem.logits(decrease), len(expected)

    def trial(state):
        number, share, low, high, *_ = state
        spread = problem.spread(share)
        tried = logits - spread[None] * change
        moved = problem.at(point.parameters - spread * decrease, tried)
        left = problem.dot(problem.gradient(moved), decrease)
        short, long = left > SHORT * expected, ~(left >= -LONG * expected)
        low, high = jnp.where(short, share, low), jnp.where(long, share, high)
        # Where the line through the slopes at 0 and here crosses 0, within bounds: the slope falls along the step.
        farthest = jnp.minimum(low + 0.9 * (high - low), FARTHER * share)
        guess = jnp.where(left < expected, safe_divide(share * expected, expected - left), jnp.inf)
        guess = jnp.clip(guess, jnp.minimum(low + 0.1 * (high - low), farthest), farthest)
        undecided = (short | long) & (expected > 0)
        share = jnp.where(undecided, jnp.where(number < TRIALS, guess, 0.0), share)
        return number + 1, share, low, high, undecided.any(), moved, tried

    begin = jnp.int32(0), jnp.ones(k), jnp.zeros(k), jnp.full(k, jnp.inf), jnp.array(True), point, logits
    return repeat("trials", lambda state: (state[0] <= TRIALS + 1) & state[4], trial, begin)[5:]


# Conjugate gradients end when they have reduced the preconditioned residual to the first share; to the second near the
# optimum, so that little depends on the step at which descent ends.
RESIDUALS = (0.6, 0.1)
# A factor is done after a step that is expected to lower its objective by less than this share of its value, or by less
# than this many nats per sample.
STILL = 1e-6
STILL_PER_SAMPLE = 1e-8
# After steps that are expected to lower every objective by less than this share, the preconditioner is kept.
CLOSE = 0.1
# A step may leave a slope of this share of the first one where rounding hides whether the objective has fallen.
SLOPE = 0.8
HALVINGS = 12
# Of a term of the objective: differences of logits of hundreds round by as much.
ROUNDING = 3e-7


def descend(
    problem: Problem,
    point: Point,
    steps: int | Int[Array, ""],
    products: int,
    *,
    still: float | Float[Array, ""] = STILL,
) -> Point:
    """Take at most ``steps`` Newton steps from a point, each with at most so many products with the Hessian."""
    nats, falling = STILL_PER_SAMPLE * problem.weight(), jnp.ones(len(problem.groups.sizes), bool)
    renewed = not is_wide(problem)  # the memory that many inputs have is filled on the way here
    if not renewed:
        curvature = curvature_of(problem, point.probability)
        point, memory, falling = approach(problem, point, curvature.memory, still, nats)
        curvature = curvature._replace(memory=memory)
    else:
        shapes = jax.eval_shape(lambda: curvature_of(problem, point.probability))
        curvature = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)

    def step(state):
        number, point, falling, gain, curvature = state
        if renewed:
            curvature = jax.lax.cond(gain > CLOSE, lambda: curvature_of(problem, point.probability), lambda: curvature)
        decrease = _newton_direction(problem, point, falling, curvature, products)
        expected = problem.dot(problem.gradient(point), decrease)
        moved, accepted = _moved(problem, point, decrease, expected)
        value = problem.value(moved)
        falling = falling & accepted & (expected > still * value + nats)
        gain = jnp.where(falling, safe_divide(expected, value), 0.0).max()
        return number + 1, moved, falling, gain, curvature

    begin = (jnp.int32(0), point, falling, jnp.float32(jnp.inf), curvature)
    # Where nothing falls, a direction is 0, and the point the same.
    return repeat("newton", lambda state: (state[0] < steps) & state[2].any(), step, begin, harmless=True)[1]


def _newton_direction(
    problem: Problem, point: Point, falling, curvature: Curvature, products: int
) -> Float[Array, "s e"]:
    """Inverse Hessian times gradient by conjugate gradients for the factors that are falling, 0 for the others."""
    gradient = problem.gradient(point)
    solved = solve(problem, curvature, gradient)
    size = problem.dot(gradient, solved)
    far, near = RESIDUALS
    goal = jnp.clip(safe_divide(size, problem.value(point)), near**2, far**2) * size

    def product(state):
        number, total, residual, search, size, running = state
        curved = problem.times_hessian(point.probability, search)
        length = problem.dot(search, curved)
        running = running & (length > 0)
        share = jnp.where(running, safe_divide(size, length), 0.0)
        total, residual = total + problem.spread(share) * search, residual - problem.spread(share) * curved
        solved = solve(problem, curvature, residual)
        left = problem.dot(residual, solved)
        search = solved + problem.spread(safe_divide(left, size)) * search
        return number + 1, total, residual, search, left, running & (left > goal)

    begin = (jnp.int32(0), jnp.zeros_like(solved), gradient, solved, size, falling & (size > 0))
    going = lambda state: (state[0] < products) & state[-1].any()  # noqa: E731
    return repeat("products", going, product, begin, harmless=True)[1]


def _moved(problem: Problem, point: Point, decrease, expected) -> tuple[Point, Bool[Array, " k"]]:
    """The point after the longest of the step, its half, its quarter, … that lowers each factor's objective.

    Where rounding hides the decrease, the slope at the new point decides. A factor for which no step does stays.
    """
    before = problem.value(point)
    rounding = ROUNDING * (before + point.terms)

    def shorter(state):
        number, share, _, accepted = state
        share = jnp.where(accepted, share, jnp.where(number < HALVINGS, share / 2, 0.0))
        moved = problem.at(point.parameters - problem.spread(share) * decrease)
        value = problem.value(moved)
        lower = value <= before - 1e-4 * share * expected
        flat = problem.dot(problem.gradient(moved), decrease) >= -SLOPE * expected
        return number + 1, share, moved, lower | (flat & (value <= before + rounding))

    def undecided(state):
        return (state[0] <= HALVINGS) & ~state[3].all()

    twice = jnp.full_like(expected, 2.0)
    _, share, moved, _ = repeat(
        "shorter", undecided, shorter, (jnp.int32(-1), twice, point, jnp.zeros(len(expected), bool)), harmless=True
    )
    return moved, share > 0
