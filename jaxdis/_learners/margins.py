"""Linear support vector machines on one code at a time, exactly and fast."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxdis._core.arrays import BLOCK, power_of_two_below, safe_divide, sort_columns
from jaxdis._core.kernels.sums import sums_in_classes
from jaxdis._core.loops import repeat

NEWTON_STEPS = 10
# Newton's method converges quadratically: after a step that moves no line by more than this, the next is rounding.
SETTLED = 1e-4
# Codes of less reach are scaled up to it, which changes no prediction: their slopes are not penalized against the loss
# (``C n x²`` is far below 1), and squares stay within float32.
LEAST_REACH = 2.0**-17
# A line that rises by less than this over all samples counts as flat; margins are resolved to about this much.
FLAT = 1e-7


class Margins(NamedTuple):
    """``slope [v, d]`` and ``intercept [v, d]``: each value of one factor against all others, by a single code.

    A value that does not occur has intercept −inf, so it is never predicted.
    """

    slope: Float[Array, "v d"]
    intercept: Float[Array, "v d"]


class Sorted(NamedTuple):
    """Codes in ascending order ``[d, n]``, and sums over their ``0 … n`` smallest values ``[d, 3, n + 1]``."""

    codes: Float[Array, "d n"]
    sums: Float[Array, "d 3 m"]


def lifted(codes: Float[Array, "n d"], others: Float[Array, "m d"]) -> tuple[Float[Array, "n d"], Float[Array, "m d"]]:
    """Scale codes with tiny reach to ``LEAST_REACH`` by a power of two, and the same codes on other samples alike."""
    reach = jnp.abs(codes).max(axis=0)
    unit = jnp.where((reach > 0) & (reach < LEAST_REACH), power_of_two_below(reach) / LEAST_REACH, 1.0)
    return codes / unit[None, :], others / unit[None, :]


def sorted_sums(codes: Float[Array, "n d"]) -> Sorted:
    """Number, sum and squared sum for each code's smallest values, which the machines for all factors share."""
    ordered = sort_columns(codes).T
    number = jnp.broadcast_to(np.arange(ordered.shape[1] + 1, dtype=np.float32), (ordered.shape[0], codes.shape[0] + 1))
    return Sorted(ordered, jnp.stack([number, _prefix_sums(ordered), _prefix_sums(ordered**2)], axis=1))


def fit_margins(
    codes: Float[Array, "n d"],
    classes: Int[Array, " n"],
    size: int,
    ordered: Sorted,
    *,
    inverse_penalty: float | Float[Array, ""] = 0.01,
    balanced: bool = True,
    steps: int | Int[Array, ""] = NEWTON_STEPS,
) -> Margins:
    """Support vector machines with squared hinge loss, one per code.

    For value ``c``: minimize ``½ (w² + b²) + inverse_penalty · Σ_n a_n max(0, 1 − s_n (w x_n + b))²``, where ``a_n`` is
    ``n / (v n_c)`` for samples of the class (``v`` values occur, ``n_c`` samples) and 1 for all others, or 1 for all if
    not ``balanced``. The intercept is regularized. With two values in total, both sides are weighted. This is
    scikit-learn's ``LinearSVC(C=inverse_penalty, class_weight="balanced")``, whose class weights apply to the positive
    side only, or ``LinearSVC(C=inverse_penalty)``.

    The sums over the negative side of every class are differences of prefix sums of the sorted code, located by binary
    search; those over the positive side are one scatter of rows. Newton's method in two dimensions; deterministic.

    Reference: Fan et al. 2008 (liblinear), §2; Kumar et al. 2018, §4.
    """
    n, d = codes.shape
    counts = jnp.zeros(size).at[classes].add(1.0, mode="promise_in_bounds")
    each_other = 2 * inverse_penalty * (n - counts)
    # What pulls on the intercepts where every sample has a loss: a difference of whole numbers, or 0 for two balanced
    # values, exactly. The rounded sums of both sides' weights would outweigh the slopes of small codes.
    if balanced:
        occurring = (counts > 0).sum().astype(jnp.float32)
        each_class = 2 * inverse_penalty * n / occurring
        each_other = jnp.where(occurring == 2, each_class, each_other)  # of two, each has a class's weight
        pull = jnp.where(occurring == 2, 0.0, each_other - each_class)
    else:
        each_class, pull = 2 * inverse_penalty * counts[:, None], 2 * inverse_penalty * (n - 2 * counts)

    def of_class(sums):
        return each_class * safe_divide(sums, counts[:, None])

    def of_others(sums):
        return each_other[:, None] * safe_divide(sums, (n - counts)[:, None])

    totals = ordered.sums[:, :, -1]  # [d, 3]
    reach = jnp.maximum(jnp.abs(ordered.codes[:, 0]), jnp.abs(ordered.codes[:, -1]))

    def newton(state):
        number, slope, intercept, _ = state
        rising = slope > 0
        threshold = (-1 - intercept) / jnp.where(slope == 0, 1.0, slope)
        place = jax.vmap(lambda code, at: jnp.searchsorted(code, at), (0, 1), 1)(ordered.codes, threshold)
        below = jax.vmap(lambda sums, at: sums[:, at], (0, 1), 2)(ordered.sums, place)  # [3, v, d]
        lost = jnp.where(rising[None], totals.T[:, None, :] - below, below)  # as if all samples were negative
        level = (jnp.abs(slope) * reach[None] < FLAT)[None]  # with a flat line, all samples have a loss or none has
        lost = jnp.where(level, jnp.where(intercept > -1, 1.0, 0.0)[None] * totals.T[:, None, :], lost)

        def powers_with_loss(classes, codes):
            margin = slope[classes] * codes + intercept[classes]
            as_negative, as_positive = (margin > -1).astype(jnp.float32), (margin < 1).astype(jnp.float32)
            return [side * power for side in (as_negative, as_positive) for power in (1.0, codes, codes**2)]

        own = sums_in_classes(powers_with_loss, classes, codes, size)
        without_loss = of_class(counts[:, None] - own[3]) - of_others(n - counts[:, None] - (lost[0] - own[0]))
        n0, n1, n2 = (of_others(sums) for sums in lost - own[:3])
        p0, p1, p2 = (of_class(sums) for sums in own[3:])
        h0, h1, h2 = n0 + p0, n1 + p1, n2 + p2
        g_slope = slope * (1 + h2) + intercept * h1 + n1 - p1
        g_intercept = slope * h1 + intercept * (1 + h0) + pull[:, None] + without_loss
        determinant = (1 + h2) * (1 + h0) - h1**2
        tilt = ((1 + h0) * g_slope - h1 * g_intercept) / determinant
        shift = ((1 + h2) * g_intercept - h1 * g_slope) / determinant
        moved = jnp.where((counts > 0)[:, None], jnp.abs(tilt) * reach[None] + jnp.abs(shift), 0.0).max()
        return number + 1, slope - tilt, intercept - shift, moved

    start = (jnp.int32(0), jnp.zeros((size, d)), jnp.zeros((size, d)), jnp.float32(jnp.inf))
    going = lambda state: (state[0] < steps) & (state[3] > SETTLED)  # noqa: E731
    _, slope, intercept, _ = repeat("margins", going, newton, start)
    return Margins(slope, jnp.where((counts > 0)[:, None], intercept, -jnp.inf))


def margin_accuracy(model: Margins, codes: Float[Array, "n d"], classes: Int[Array, " n"]) -> Float[Array, " d"]:
    """Share of samples whose class has the largest value, for each single code. The first class wins a tie.

    The maximum of several lines is convex, so a class wins on one interval along the code, between its crossings with
    all other lines. This takes ``v² d`` crossings instead of ``n v d`` values.
    """
    numbers = jnp.arange(model.slope.shape[0])
    earlier = (numbers[None, :] < numbers[:, None])[:, :, None]  # [class, other, 1]
    steeper = model.slope[:, None] - model.slope[None, :]
    ahead = model.intercept[None, :] - model.intercept[:, None]
    beaten = (ahead > 0) | ((ahead == 0) & earlier) | jnp.isneginf(model.intercept)[:, None]
    crossing = ahead / jnp.where(steeper == 0, 1.0, steeper)
    from_crossing = jnp.where(steeper == 0, jnp.where(beaten, jnp.inf, -jnp.inf), crossing)
    least = jnp.where(steeper >= 0, from_crossing, -jnp.inf)
    most = jnp.where(steeper < 0, crossing, jnp.inf)
    # At the crossing itself the earlier of two classes wins.
    above, from_ = (jnp.where(beyond, least, -jnp.inf).max(axis=1) for beyond in (earlier, ~earlier))
    below, to = (jnp.where(beyond, most, jnp.inf).min(axis=1) for beyond in (earlier, ~earlier))
    bounds = jnp.stack([above, from_, below, to], axis=1)
    above, from_, below, to = jnp.moveaxis(bounds[classes], 1, 0)
    return ((codes > above) & (codes >= from_) & (codes < below) & (codes <= to)).astype(jnp.float32).mean(axis=0)


def _prefix_sums(rows: Float[Array, "d n"]) -> Float[Array, "d m"]:
    """Sums over the first 0 … n entries in each row, in two levels so that rounding errors stay those of short sums."""
    d, n = rows.shape
    blocks = -(-n // BLOCK)
    cut = jnp.pad(rows, ((0, 0), (0, blocks * BLOCK - n))).reshape(d, blocks, BLOCK)
    inner = jnp.cumsum(cut, axis=2)
    outer = jnp.cumsum(inner[:, :, -1], axis=1)
    start = jnp.concatenate([jnp.zeros((d, 1)), outer[:, :-1]], axis=1)
    sums = (inner + start[:, :, None]).reshape(d, -1)[:, :n]
    return jnp.concatenate([jnp.zeros((d, 1)), sums], axis=1)
