"""How a factor changes along its own code: monotonically, and smoothly."""

from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxdis._core.arrays import finite_codes, ordered_keys, running_sums, safe_divide, stable_order
from jaxdis._core.kernels.assignment import assign
from jaxdis._core.options import NonNegative, Range
from jaxdis._core.spec import metric
from jaxdis._learners.linear import standardized
from jaxdis.factors import Codes, Factors
from jaxdis.metrics._dependent_gaps import Dimensions
from jaxdis.scores._gaps import FactorScore

# Of the path's length: codes no farther from a place are at it. Places in a code with few values hit these, but for
# rounding, which otherwise decides on which side they lie.
EQUAL = 2.0**-16
Points = Annotated[int, Range(3, 1000)]


class Paths(NamedTuple):
    """Each standardized factor's mean at equally spaced places along each standardized code.

    ``value [d, k, p]``; ``step [d]``, 0 for a constant code; ``varies [k]``; ``shown [d]``; ``finite []``.
    """

    value: Float[Array, "d k p"]
    step: Float[Array, " d"]
    varies: Bool[Array, " k"]
    shown: Bool[Array, " d"]
    finite: Bool[Array, ""]


@metric(needs_order=True, of_values=True, on_a_line=True)
def factor_paths(
    codes: Codes, factors: Factors, *, points: Points = 10, active: Bool[Array, " d"] | None = None
) -> Paths:
    """Factors' paths along codes: in place of images decoded along a code, the samples that have such a code.

    At each of ``points`` places along a code, from the middle of its lowest ``n / points`` samples to that of its
    highest, the value is the mean over the ``n / points`` samples nearest by rank. Class numbers are taken as values.

    Shapes: codes ``[n, d]``, factors ``[n, k]``.

    Options:
      points: how many places. More places see finer changes, and more noise.

    Contract:

    - Deterministic. One-valued and nominal factors are left out and NaN in their part. Any non-finite code gives NaN.
    - Other codes vary along the path, as they do in the data: a factor that depends on two codes changes less along
      each.

    Reference: Watcharasupat 2021 (there by decoded interpolations, whose attributes are measured).
    """
    n = codes.shape[0]
    finite = finite_codes(codes)
    shown = finite if active is None else finite & active
    columns = standardized(jnp.where(shown[None, :], codes, 0.0))
    values = standardized(factors.values.astype(jnp.float32))
    width = n / points
    end = min(round(width / 2), (n - 1) // 2)

    def ranks(ordered, places, equal=0.0):
        sides = ((places - equal, "left"), (places + equal, "right"))
        return tuple(jnp.searchsorted(ordered, place, side=side).astype(jnp.float32) for place, side in sides)

    def below(totals, rank):
        """Values summed below a rank, which may be a fraction."""
        whole = jnp.floor(rank).astype(jnp.int32)
        first, next_one = totals[whole], totals[jnp.minimum(whole + 1, n)]
        return first + (rank - jnp.floor(rank))[:, None] * (next_one - first)

    def along(column):
        order = stable_order(ordered_keys(column))
        ordered = column[order]
        totals = jnp.pad(running_sums(values[order]), ((1, 0), (0, 0)))
        left, right = ranks(ordered, ordered)
        alike = (below(totals, right) - below(totals, left)) / (right - left)[:, None]  # the mean of equal codes
        totals = jnp.pad(running_sums(alike), ((1, 0), (0, 0)))
        low, high = ordered[end], ordered[n - 1 - end]
        share = jnp.linspace(0, 1, points)
        places = low * (1 - share) + high * share  # the last is high itself, not nearly
        left, right = ranks(ordered, places, EQUAL * (high - low))
        middle = jnp.clip((left + right) / 2, width / 2, n - width / 2)
        mean = (below(totals, middle + width / 2) - below(totals, middle - width / 2)) / width
        return mean.T, (high - low) / (points - 1)

    value, step = jax.lax.map(along, columns.T)
    spread = jnp.abs(values).max(axis=0) > 0
    return Paths(jnp.where((step > 0)[:, None, None], value, 0.0), step, spread, shown, finite.all())


@metric()
def monotonicity(paths: Paths, *, reg_dim: Dimensions | None = None, threshold: NonNegative = 0.05) -> FactorScore:
    """How monotonically each factor changes along its own code, averaged over factors.

    ``|Σ sign(slope)| / count`` over the path's steps whose slope, in factor deviations per code deviation, exceeds the
    threshold.

    Options:
      reg_dim: for each factor, the number of its own code; assigned one to one by the paths' ranges when None.
      threshold: smaller slopes are noise and do not count.

    Contract:

    - In [0, 1]: 1 for a monotone path, 0 for one that rises as often as it falls, or that does not change, and for a
      factor without a code. Noise has paths with a few slopes by chance; one scores about .3.

    Reference: Watcharasupat 2021; latte, whose score has the slope's sign.
    """
    path, step, known = _own(paths, reg_dim)
    slope = safe_divide(jnp.diff(path, axis=1), jnp.broadcast_to(step[:, None], (len(path), path.shape[1] - 1)))
    sign = jnp.where(jnp.abs(slope) > threshold, jnp.sign(slope), 0.0)
    return _mean(jnp.where(known, jnp.abs(safe_divide(sign.sum(axis=1), jnp.abs(sign).sum(axis=1))), 0.0), paths)


@metric()
def smoothness(paths: Paths, *, reg_dim: Dimensions | None = None, tolerance: NonNegative = 0.2) -> FactorScore:
    """How smoothly each factor changes along its own code, averaged over factors.

    ``1 − L(|curvature|) step / (largest slope − smallest slope)`` with the Lehmer mean ``L(x) = Σ x² / Σ x``: a smooth
    path spreads its curvature, a jump has it in one place.

    Options:
      reg_dim: as for ``monotonicity``.
      tolerance: a path whose slopes differ by no more than this share of the largest is straight. Its curvature is only
        noise in its means; latte reads it.

    Contract:

    - In [0, 1]: 1 for a straight path, also for one that does not change; 0 for a jump in one step. A factor without a
      code counts 0.

    Reference: Watcharasupat 2021; latte.
    """
    path, step, known = _own(paths, reg_dim)
    slope = jnp.diff(path, axis=1)  # times the step, which cancels
    bend = jnp.abs(jnp.diff(slope, axis=1))
    largest = safe_divide((bend**2).sum(axis=1), bend.sum(axis=1))
    reach = slope.max(axis=1) - slope.min(axis=1)
    straight = reach <= tolerance * jnp.abs(slope).max(axis=1)
    smooth = jnp.where(straight, 1.0, 1 - safe_divide(largest, reach))
    return _mean(jnp.where(known, smooth, 0.0), paths)


def _own(paths: Paths, reg_dim: tuple[int, ...] | None):
    """Each factor's path ``[k, p]`` along its own code, that code's step, and whether it has one."""
    d, k, _ = paths.value.shape
    if reg_dim is None:
        reach = paths.value.max(axis=2) - paths.value.min(axis=2)
        code = assign(jnp.where(paths.shown[:, None] & paths.varies[None, :], reach, jnp.nan), maximize=True).row
    elif len(reg_dim) != k or max(reg_dim) >= d:
        raise ValueError(f"reg_dim: must be {k} numbers of codes from 0 to {d - 1}, one per factor, got {reg_dim}")
    else:
        code = jnp.asarray(reg_dim, jnp.int32)
    place = jnp.maximum(code, 0)
    return paths.value[place, jnp.arange(k)], paths.step[place], code >= 0


def _mean(per_factor, paths: Paths) -> FactorScore:
    per_factor = jnp.where(paths.varies & paths.finite, per_factor, jnp.nan)
    counted = jnp.where(paths.varies, per_factor, 0.0).sum()
    return FactorScore(counted / paths.varies.sum().astype(jnp.float32), per_factor)
