"""The way to near the optimum in multinomial logistic regression with many inputs: limited-memory steps (L-BFGS)."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxdis._core.arrays import safe_divide
from jaxdis._core.loops import repeat
from jaxdis._learners.logistic_memory import Memory
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
        moved, logits = _moved(problem, point, logits, decrease, expected)
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


def _moved(problem: Problem, point: Point, logits, decrease, expected) -> tuple[Point, Float[Array, "b s r"]]:
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
