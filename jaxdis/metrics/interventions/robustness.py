"""IRS: how little a code moves while one factor is held and the others vary. Computed from a table of codes."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxdis.arrays import finite_codes, safe_divide
from jaxdis.options import Bins, Share
from jaxdis.relations.binning import equal_width_bins
from jaxdis.spec import needs_classes, prepared_by
from jaxdis.typing import Codes, Factors

# Of a sorting key that also holds a factor's value: distances then differ by at least 6e-8 of the largest.
DISTANCE_BITS = 24
# Selecting more than this share of the distances is no faster than sorting them.
MOST_SELECTED = 0.25
# Up to so many largest numbers are found by repeated maxima.
MOST_MAXIMA = 12


class Robustness(NamedTuple):
    """``score []``; ``per_code [d]``, best over factors; ``matrix [d, k]``; ``deviation [d]``, the weights of codes."""

    score: Float[Array, ""]
    per_code: Float[Array, " d"]
    matrix: Float[Array, "d k"]
    deviation: Float[Array, " d"]


class Group(NamedTuple):
    """Samples of each of the ``v`` values of a factor, shared by a zoo: ``values [n]``; ``count [v]``; ``rows [v,
    cap]``, padded with −1; ``fits []``, whether no value has more than ``cap`` samples."""

    values: Int[Array, " n"]
    count: Int[Array, " v"]
    rows: Int[Array, "v cap"]
    fits: Bool[Array, ""]


def group_by_value(factors: Factors, *, factor_bins: int | None = None) -> tuple[Group | None, ...]:
    """The samples of each value of each factor; None for a continuous factor without bins.

    There is room for the count expected for a uniform factor plus five standard deviations.
    """
    groups = []
    for j, size in enumerate(factors.sizes):
        values = factors.values[:, j]
        if factor_bins is not None:
            values, size = equal_width_bins(values.astype(jnp.float32)[:, None], factor_bins)[:, 0], factor_bins
        groups.append(None if size is None else _group(values.astype(jnp.int32), size))
    return tuple(groups)


def _group(values, size: int) -> Group:
    n = values.shape[0]
    room = min(n, math.ceil(n / size + 5 * math.sqrt(n / size)))
    count = jnp.zeros(size, jnp.int32).at[values].add(1)
    start = jnp.cumsum(count) - count
    place = jnp.arange(room, dtype=jnp.int32)[None, :]
    order = jnp.argsort(values).astype(jnp.int32)
    rows = jnp.where(place < count[:, None], order[jnp.minimum(start[:, None] + place, n - 1)], -1)
    return Group(values, count, rows, (count <= room).all())


@needs_classes
@prepared_by(group_by_value)
def irs(
    codes: Codes,
    factors: Factors,
    *,
    quantile: Share = 0.99,
    factor_bins: Bins | None = None,
    prepared: tuple[Group | None, ...] | None = None,
    active: Bool[Array, " d"] | None = None,
) -> Robustness:
    """Interventional robustness: how little a code moves while one factor is held and the others vary.

    ``1 − dev_ij / M_i`` with ``M_i`` the largest distance of code ``i`` from its mean, and ``dev_ij`` the mean over the
    values of factor ``j`` of the ``quantile`` of the distances from the mean given that value. A code's score is its
    best over factors; the headline weighs codes by ``M_i``.

    Shapes: codes ``[n, d]``, factors ``[n, k]``.

    Options:
      quantile: 1 is the supremum of the paper.
      factor_bins: first cut every factor into this many equal-width bins; without it continuous factors are left out.

    Contract:

    - At most 1; 0 if every code is constant; a constant code has no weight. Deterministic.
    - One-valued factors are left out and NaN in the matrix. Any non-finite code gives NaN.
    - Invariant under affine maps of a code, except for its weight.
    - Observational: conditioning on a factor equals an intervention if factors are sampled independently.

    Reference: Suter et al. 2019, §4; Locatello et al. 2020, §4.2.7. The released code takes the 0.99 quantile; its
    configuration cuts the factors into 20 bins (``factor_bins=20``).
    """
    groups = group_by_value(factors, factor_bins=factor_bins) if prepared is None else prepared
    finite = finite_codes(codes)
    safe = jnp.nan_to_num(codes)
    safe = safe if active is None else jnp.where(active[None, :], safe, 0.0)
    centered, deviation = largest_deviation(safe)
    columns, varies = [], []
    for group in groups:
        if group is None:
            columns.append(jnp.zeros(codes.shape[1]))
            varies.append(jnp.array(False))
        else:
            columns.append(_moved(centered, group, quantile))
            varies.append((group.count > 0).sum() > 1)
    return judge_robustness(jnp.stack(columns, axis=1), deviation, jnp.stack(varies), finite)


def largest_deviation(safe: Float[Array, "n d"]) -> tuple[Float[Array, "n d"], Float[Array, " d"]]:
    """Centered codes and the largest distance from the mean, 0 if it is rounding error."""
    centered = safe - safe[:1]
    centered = centered - centered.mean(axis=0)[None, :]
    deviation = jnp.abs(centered).max(axis=0)
    rounding = 4 * jnp.finfo(safe.dtype).eps * jnp.abs(safe).max(axis=0)
    return centered, jnp.where(deviation > rounding, deviation, 0.0)


def judge_robustness(moved: Float[Array, "d k"], deviation: Float[Array, " d"], varies, finite) -> Robustness:
    """IRS from how far codes move while a factor is held; ``varies [k]``, ``finite [d]``."""
    robust = jnp.where((deviation > 0)[:, None], 1 - safe_divide(moved, deviation[:, None]), 0.0)
    matrix = jnp.where(varies[None, :], robust, jnp.nan)
    per_code = jnp.where(jnp.isnan(matrix), -jnp.inf, matrix).max(axis=1)
    per_code = jnp.where(jnp.isfinite(per_code), per_code, jnp.nan)
    score = safe_divide((deviation * jnp.where(deviation > 0, per_code, 0.0)).sum(), deviation.sum())
    per_code, matrix = jnp.where(finite, per_code, jnp.nan), jnp.where(finite[:, None], matrix, jnp.nan)
    return Robustness(jnp.where(finite.all(), score, jnp.nan), per_code, matrix, jnp.where(finite, deviation, jnp.nan))


def _moved(centered, group: Group, quantile: float) -> Float[Array, " d"]:
    """Mean over the values that occur of the quantile of the distances from the mean given the value."""
    by_sorting = lambda: _moved_by_sorting(centered, group.values, group.count.shape[0], quantile)  # noqa: E731
    room = group.rows.shape[1]
    if num_selected(room, quantile) > MOST_SELECTED * room and quantile < 1:
        return by_sorting()
    occurs = group.count > 0

    def one_code(column):
        values = column.at[jnp.maximum(group.rows, 0)].get(mode="promise_in_bounds")
        found = quantile_from_mean(values, group.rows >= 0, group.count, quantile)
        return jnp.where(occurs, found, 0.0).sum() / occurs.sum().astype(jnp.float32)

    return jax.lax.cond(group.fits, lambda: jax.lax.map(one_code, centered.T), by_sorting)


def num_selected(room: int, quantile: float) -> int:
    """How many of the largest of at most ``room`` numbers determine the quantile; one more for rounding."""
    return min(room, room - math.floor(quantile * (room - 1)) + 1)


def quantile_from_mean(
    values: Float[Array, "v s"], present: Bool[Array, "v s"], count: Int[Array, " v"], quantile: float
) -> Float[Array, " v"]:
    """Quantile (linear) of the distances of each row's present values from their mean.

    Only the largest distances are put in order; for the supremum that is none.
    """
    number = jnp.maximum(count, 1).astype(jnp.float32)
    mean = jnp.where(present, values, 0.0).sum(axis=1) / number
    distance = jnp.where(present, jnp.abs(values - mean[:, None]), -1.0)
    if quantile == 1:
        return distance.max(axis=1)
    largest = largest_of(distance, num_selected(values.shape[1], quantile))
    place = quantile * (number - 1)
    low, high = jnp.floor(place), jnp.ceil(place)

    def at(place):
        from_top = (number - 1 - place).astype(jnp.int32)[:, None]
        return jnp.take_along_axis(largest, jnp.clip(from_top, 0, largest.shape[1] - 1), axis=1)[:, 0]

    return at(low) * (1 - (place - low)) + at(high) * (place - low)


def largest_of(rows: Float[Array, "v s"], count: int) -> Float[Array, "v count"]:
    """The ``count`` largest of each row, in descending order.

    A few distinct ones are found by as many maxima, which is faster than a partial sort.
    """
    by_sorting = lambda: jax.lax.top_k(rows, count)[0]  # noqa: E731
    if count > MOST_MAXIMA:
        return by_sorting()
    found = [rows.max(axis=1)]
    for _ in range(count - 1):
        found.append(jnp.where(rows < found[-1][:, None], rows, -jnp.inf).max(axis=1))
    differ = ((rows >= found[-1][:, None]).sum(axis=1, dtype=jnp.int32) == count).all()
    return jax.lax.cond(differ, lambda: jnp.stack(found, axis=1), by_sorting)


def _moved_by_sorting(centered, values, size: int, quantile: float) -> Float[Array, " d"]:
    """Mean over the values that occur of the quantile (linear) of ``|v − E[v | value]|``."""
    counts = jnp.zeros(size).at[values].add(1.0)
    mean = jnp.zeros((size, centered.shape[1])).at[values].add(centered) / jnp.maximum(counts, 1.0)[:, None]
    distance = jnp.abs(centered - mean[values])
    ordered = _sorted_within(values, distance, size)
    start = jnp.cumsum(counts) - counts
    place = start + quantile * jnp.maximum(counts - 1, 0.0)
    low = jnp.floor(place).astype(jnp.int32)
    high = jnp.minimum(jnp.ceil(place).astype(jnp.int32), centered.shape[0] - 1)
    share = (place - low.astype(jnp.float32))[None, :]
    found = ordered[:, low] * (1 - share) + ordered[:, high] * share  # [d, size]
    occurs = counts > 0
    return jnp.where(occurs[None, :], found, 0.0).sum(axis=1) / occurs.sum().astype(jnp.float32)


def _sorted_within(values, distance, size: int) -> Float[Array, "d n"]:
    """Distances in order of value, then of distance: each value's samples stand together."""
    values = jnp.broadcast_to(values[:, None], distance.shape).T
    if size >= 1 << (31 - DISTANCE_BITS):
        return jax.lax.sort((values, distance.T), dimension=1, num_keys=2)[1]
    # One integer key sorts several times faster: the distance as a share of the largest in its low bits.
    most = jnp.float32((1 << DISTANCE_BITS) - 1)
    largest = jnp.maximum(distance.max(axis=0), 1e-30)[:, None]
    keys = (values << DISTANCE_BITS) | jnp.round(distance.T / largest * most).astype(jnp.int32)
    keys = jax.lax.sort(keys, dimension=1, is_stable=True)
    return (keys & ((1 << DISTANCE_BITS) - 1)).astype(jnp.float32) / most * largest
