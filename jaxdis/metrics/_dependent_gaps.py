"""The metrics of latte: gaps where factors depend on each other (XMIG, DMIG, DLIG), and how monotonically and smoothly
factors change along their own codes."""

from typing import Annotated, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxdis._core.arrays import finite_codes, ordered_keys, running_sums, safe_divide, stable_order
from jaxdis._core.kernels.assignment import assign
from jaxdis._core.kernels.contingency import joint_tables
from jaxdis._core.options import Bins, Count, Entries, Natural, NonNegative, Range
from jaxdis._core.spec import metric
from jaxdis._learners.linear import standardized
from jaxdis.factors import Codes, Factors
from jaxdis.relations._binless import mutual_information_neighbors
from jaxdis.relations._binning import factor_classes
from jaxdis.relations._information import information_of_tables, mutual_information
from jaxdis.relations._relation import Relation
from jaxdis.scores._gaps import FactorScore
from jaxdis.scores._reading import Reading, mean_over_factors, only_valid, read

Dimensions = Annotated[tuple[Natural, ...], Entries(1)]
Points = Annotated[int, Range(3, 1000)]
# Fewer nats than this share of a factor's entropy are rounding: another factor determines it.
DETERMINED = 1e-5
# Shares of entropy, or of a path's length, that differ by less are equal: which code or factor comes first, and on
# which side of a place a code lies, must not depend on rounding.
EQUAL = 2.0**-16


class Dependent(NamedTuple):
    """A ``relation`` in nats, and ``given [k, k]``: factor ``j``'s entropy (row) given factor ``l`` (column)."""

    relation: Relation
    given: Float[Array, "k k"]


@metric(distinct_samples=True)
def dependent_information(
    codes: Codes,
    factors: Factors,
    *,
    estimator: Literal["bins", "neighbors"] = "bins",
    bins: Bins = 20,
    neighbors: Count = 3,
    active: Bool[Array, " d"] | None = None,
) -> Dependent:
    """Mutual information between each code and factor, and between each two factors, in nats.

    Shapes: codes ``[n, d]``, factors ``[n, k]``.

    Options:
      estimator: how information in codes is estimated, by ``"bins"`` (:func:`jaxdis.relations.mutual_information`) or
        ``"neighbors"`` (:func:`jaxdis.relations.mutual_information_neighbors`).
      bins: equal-width bins for codes, and for continuous factors.
      neighbors: the neighbor whose distance is read.

    Contract:

    - A constant code's row is 0; any non-finite code gives NaN. Deterministic.
    """
    if estimator == "bins":
        relation = mutual_information(codes, factors, bins=bins, active=active)
    else:
        relation = mutual_information_neighbors(codes, factors, neighbors=neighbors, bins=bins, active=active)
    classes, sizes = factor_classes(factors, bins)
    between, entropy, _ = information_of_tables(joint_tables(classes, max(sizes), classes, sizes), sizes)
    given = entropy[:, None] - between  # of factors as classes; the table is symmetric
    return Dependent(relation, jnp.where(given > DETERMINED * entropy[:, None], given, 0.0))


@metric()
def dmig(information: Dependent, *, reg_dim: Dimensions | None = None) -> FactorScore:
    """Dependency-aware gap: between a factor's own code and the next, as a share of what could differ (DMIG).

    ``(I(z_j; y_j) − max_{i ≠ j} I(z_i; y_j)) / H(y_j | y_l)`` with ``z_j`` the factor's own code, and ``l`` the factor
    whose own code is the next one; ``H(y_j)`` if that code is no factor's own, or if there is none. Where factors
    depend on each other, another factor's code informs about this one, which MIG counts as the representation's fault.

    Options:
      reg_dim: for each factor, the number of its own code, as models have it that regularize codes by attributes; the
        one-to-one assignment when None that makes the sum of ``I(z_j; y_j) / H(y_j)`` largest: shares, not nats, which
        would favor factors with many values.

    Contract:

    - At most 1 up to estimation bias; negative if another code is more informative than the given one.
    - 0 for a factor that another one determines, which no code can tell apart, and for a factor without a code.
    - One-valued factors are left out and NaN in their part. Any non-finite code gives NaN.

    Reference: Watcharasupat & Lerch 2021 (``reg_dim`` always given there; the factor's number by default).
    """
    reading = read(information.relation)
    own = _own_codes(reading, reg_dim)
    numbers = jnp.arange(reading.strength.shape[0], dtype=jnp.int32)
    others = jnp.where(numbers[:, None] == own[None, :], -jnp.inf, reading.strength)
    next_code = _first_of_largest(others, reading.ceiling[None, :], axis=0)
    # [k, l]: the next code of k is that of l, not its own for want of another
    owned = (own[None, :] == next_code[:, None]) & jnp.isfinite(others.max(axis=0))[:, None]
    left = jnp.where(owned, jnp.where(reading.valid[None, :], information.given, jnp.inf), jnp.inf).min(axis=1)
    possible = jnp.where(jnp.isfinite(left), left, reading.ceiling)
    return _score(_gap(reading, own, others), possible, own, reading)


@metric()
def xmig(information: Dependent, *, reg_dim: Dimensions | None = None) -> FactorScore:
    """Dependency-blind gap: between a factor's own code and the best among the codes that are no factor's own (XMIG).

    ``(I(z_j; y_j) − max_i I(z_i; y_j)) / H(y_j)`` over the codes ``i`` that are no factor's own; without such codes,
    their information is 0.

    Options:
      reg_dim: as for ``dmig``.

    Contract:

    - In [−1, 1]; 0 for a factor without a code. It does not say whether factors share codes.
    - One-valued factors are left out and NaN in their part. Any non-finite code gives NaN.

    Reference: Watcharasupat 2021; latte.
    """
    reading = read(information.relation)
    own = _own_codes(reading, reg_dim)
    numbers = jnp.arange(reading.strength.shape[0], dtype=jnp.int32)
    owned = ((numbers[:, None] == own[None, :]) & reading.valid[None, :]).any(axis=1)
    free = jnp.where(owned[:, None], -jnp.inf, reading.strength)
    return _score(_gap(reading, own, free), reading.ceiling, own, reading)


@metric()
def dlig(information: Dependent, *, reg_dim: Dimensions | None = None) -> FactorScore:
    """Dependency-aware latent gap: between a code's own factor and its next, as a share of what could differ (DLIG).

    ``(I(z_j; y_j) − max_{l ≠ j} I(z_j; y_l)) / H(y_j | y_l)`` with ``l`` the next factor; ``H(y_j)`` if there is none.

    Options:
      reg_dim: as for ``dmig``.

    Contract:

    - At most 1 up to estimation bias; negative if the code informs more about another factor.
    - 0 for a factor that the next one determines, and for a factor without a code.
    - One-valued factors are left out and NaN in their part. Any non-finite code gives NaN.

    Reference: Watcharasupat 2021; latte.
    """
    reading = read(information.relation)
    own = _own_codes(reading, reg_dim)
    of_own = reading.strength[jnp.maximum(own, 0)]  # [j, l]: what the code of j says of l
    k = of_own.shape[0]
    rivals = jnp.where(np.eye(k, dtype=bool) | ~reading.valid[None, :], -jnp.inf, of_own)
    following = _first_of_largest(rivals, reading.ceiling[None, :], axis=1)
    several = reading.num_factors > 1
    conditional = jnp.take_along_axis(information.given, following[:, None], axis=1)[:, 0]
    gap = _gap(reading, own, rivals.T)
    return _score(gap, jnp.where(several, conditional, reading.ceiling), own, reading)


def _own_codes(reading: Reading, reg_dim: tuple[int, ...] | None) -> Int[Array, " k"]:
    share = jnp.round(reading.strength / reading.ceiling[None, :] / EQUAL) * EQUAL
    return _given_or_assigned(share, reading.active, reading.valid, reg_dim)


def _given_or_assigned(worth: Float[Array, "d k"], codes, factors, reg_dim: tuple[int, ...] | None) -> Int[Array, " k"]:
    """Each factor's code, −1 for none: as given, or one to one among ``codes [d]`` and ``factors [k]`` that count."""
    d, k = worth.shape
    if reg_dim is None:
        return assign(jnp.where(codes[:, None] & factors[None, :], worth, jnp.nan), maximize=True).row
    if len(reg_dim) != k or max(reg_dim) >= d:
        raise ValueError(f"reg_dim: must be {k} numbers of codes from 0 to {d - 1}, one per factor, got {reg_dim}")
    return jnp.asarray(reg_dim, jnp.int32)


def _first_of_largest(values, scale, axis: int) -> Int[Array, " k"]:
    """The first among the largest values along an axis, where values that differ by rounding are equal."""
    near = values >= values.max(axis=axis, keepdims=True) - EQUAL * jnp.where(jnp.isfinite(scale), scale, 1.0)
    return jnp.argmax(near, axis=axis).astype(jnp.int32)


def _gap(reading: Reading, own, others: Float[Array, "r k"]) -> Float[Array, " k"]:
    """The information of own codes minus the largest of the others, which is at least 0."""
    mine = jnp.take_along_axis(reading.strength, jnp.maximum(own, 0)[None, :], axis=0)[0]
    return mine - jnp.maximum(others.max(axis=0), 0.0)


def _score(gap, possible, own, reading: Reading) -> FactorScore:
    share = jnp.where((own >= 0) & (possible > 0), gap / jnp.where(possible > 0, possible, 1.0), 0.0)
    share = jnp.where(jnp.isnan(reading.strength).any(), jnp.nan, share)
    return FactorScore(mean_over_factors(share, reading), only_valid(share, reading))


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
    share = jnp.where(known, jnp.abs(safe_divide(sign.sum(axis=1), jnp.abs(sign).sum(axis=1))), 0.0)
    return FactorScore.over(paths.varies, paths.finite, share)


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
    return FactorScore.over(paths.varies, paths.finite, jnp.where(known, smooth, 0.0))


def _own(paths: Paths, reg_dim: tuple[int, ...] | None):
    """Each factor's path ``[k, p]`` along its own code, that code's step, and whether it has one."""
    code = _given_or_assigned(jnp.ptp(paths.value, axis=2), paths.shown, paths.varies, reg_dim)
    place = jnp.maximum(code, 0)
    return paths.value[place, jnp.arange(len(code))], paths.step[place], code >= 0
