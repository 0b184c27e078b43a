"""IRS: how little a code moves while one factor is held and the others vary. Computed from a table."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxdis._core.arrays import finite_codes, over_samples, packed_order, rounding_of, safe_divide, settled
from jaxdis._core.loops import each, repeat
from jaxdis._core.options import Bins, Share
from jaxdis._core.spec import metric
from jaxdis.factors import Codes, Factors
from jaxdis.relations._binning import equal_width_bins

# Of a sorting key that also holds a factor's value: distances then differ by at least 6e-8 of the largest.
DISTANCE_BITS = 24
# Up to so many largest numbers are found by repeated maxima.
MOST_MAXIMA = 8
# A search for a threshold halves its interval in every such step, and interpolates in the others.
HALVE = 4


class Robustness(NamedTuple):
    """``score []``; ``per_code [d]``, best over factors; ``matrix [d, k]``; ``deviation [d]``, the codes' weights."""

    score: Float[Array, ""]
    per_code: Float[Array, " d"]
    matrix: Float[Array, "d k"]
    deviation: Float[Array, " d"]


class Group(NamedTuple):
    """Samples for each of a factor's ``v`` values, shared by a zoo: ``values [n]``; ``count [v]``; ``rows [v, cap]``,
    padded with −1; ``fits []``, whether no value has more than ``cap`` samples."""

    values: Int[Array, " n"]
    count: Int[Array, " v"]
    rows: Int[Array, "v cap"]
    fits: Bool[Array, ""]


def group_by_value(factors: Factors, *, factor_bins: int | None = None) -> tuple[Group | None, ...]:
    """The samples for each value of each factor; None for a continuous factor without bins.

    There is room for the count expected for a uniform factor plus five standard deviations.
    """
    groups = []
    nominal = factors.nominal or (False,) * factors.num_factors
    for values, size, unordered in zip(factors.values.T, factors.sizes, nominal, strict=True):
        share = None if size is None else 1 / size
        # No more values than bins are in a bin each.
        if factor_bins is not None and not unordered and (size is None or size > factor_bins):
            values = equal_width_bins(values.astype(jnp.float32)[:, None], factor_bins)[:, 0]
            share = 1 / factor_bins if size is None else ((size - 1) // factor_bins + 1) / size
            size = factor_bins
        groups.append(None if size is None else _group(values.astype(jnp.int32), size, share))
    return tuple(groups)


def _group(values, size: int, share: float) -> Group:
    """``share`` is the most frequent value's under a uniform factor."""
    n = values.shape[0]
    room = min(n, math.ceil(n * share + 5 * math.sqrt(n * share)))
    count = jnp.zeros(size, jnp.int32).at[values].add(1)
    start = jnp.cumsum(count) - count
    place = jnp.arange(room, dtype=jnp.int32)[None, :]
    order = packed_order(values, size)
    rows = jnp.where(place < count[:, None], order[jnp.minimum(start[:, None] + place, n - 1)], -1)
    return Group(values, count, rows, (count <= room).all())


@metric(needs_classes=True, prepare=group_by_value)
def irs(
    codes: Codes,
    factors: Factors,
    *,
    quantile: Share = 0.99,
    factor_bins: Bins | None = None,
    prepared: tuple[Group | None, ...] | None = None,
    active: Bool[Array, " d"] | None = None,
) -> Robustness:
    """Measure how little a code moves while one factor is held and the others vary (interventional robustness).

    ``1 − dev_ij / M_i`` with ``M_i`` the largest distance of code ``i`` from its mean, and ``dev_ij`` the ``quantile``
    of the distances from the mean given a value of factor ``j``, averaged over its values. A code's score is its best
    over factors; the headline weighs codes by ``M_i``.

    Shapes: codes ``[n, d]``, factors ``[n, k]``.

    Options:
      quantile: 1 is the paper's supremum.
      factor_bins: first cut every factor but nominal ones into this many equal-width bins; without it continuous
        factors are left out.

    Contract:

    - At most 1; 0 if every code is constant; a constant code has no weight. Deterministic.
    - One-valued factors are left out and NaN in the matrix. Any non-finite code gives NaN.
    - Invariant under affine maps, code by code, except for its weight.
    - Observational: conditioning on a factor equals an intervention if factors are sampled independently.

    Reference: Suter et al. 2019, §4; Locatello et al. 2020, §4.2.7. The released code takes the 0.99 quantile; its
    configuration cuts the factors into 20 bins (``factor_bins=20``).
    """
    groups = group_by_value(factors, factor_bins=factor_bins) if prepared is None else prepared
    finite = finite_codes(codes)
    shown = finite if active is None else finite & active
    deviation = jnp.where(shown, largest_deviation(codes), 0.0)
    # Distances from a code far from 0 are rounded least after this shift, and the first sample, which pads rows, is 0.
    moved = jnp.where(shown[:, None], codes.T - codes[0][:, None], 0.0)
    held = [None if group is None else jnp.maximum(group.rows, 0) for group in groups]
    # Code by code: what is gathered for all codes at once has codes last, and is transposed in every pass.
    values = each(lambda code: [None if rows is None else _at(code, rows) for rows in held], moved)
    columns, varies = [], []
    for group, given in zip(groups, values, strict=True):
        if group is None:
            columns.append(jnp.zeros(codes.shape[1]))
            varies.append(jnp.array(False))
        else:
            columns.append(_moved(moved, given, group, quantile))
            varies.append((group.count > 0).sum() > 1)
    return judge_robustness(jnp.stack(columns, axis=1), deviation, jnp.stack(varies), finite)


def largest_deviation(codes: Float[Array, "n d"]) -> Float[Array, " d"]:
    """Each code's largest distance from its mean, 0 if that is rounding error."""
    moved = codes - codes[:1]  # the mean of codes far from 0 would be rounded
    low, high = over_samples(jnp.min, moved), over_samples(jnp.max, moved)
    mean = over_samples(jnp.sum, moved) / codes.shape[0]
    # No more than the range: rounding of the mean must not make a constant code vary.
    deviation = jnp.minimum(jnp.maximum(high - mean, mean - low), high - low)
    return jnp.where(deviation > rounding_of(over_samples(jnp.max, jnp.abs(codes))), deviation, 0.0)


def judge_robustness(moved: Float[Array, "d k"], deviation: Float[Array, " d"], varies, finite) -> Robustness:
    """IRS from how far codes move while a factor is held; ``varies [k]``, ``finite [d]``."""
    robust = jnp.where((deviation > 0)[:, None], 1 - safe_divide(moved, deviation[:, None]), 0.0)
    matrix = jnp.where(varies[None, :], robust, jnp.nan)
    per_code = jnp.where(jnp.isnan(matrix), -jnp.inf, matrix).max(axis=1)
    per_code = jnp.where(jnp.isfinite(per_code), per_code, jnp.nan)
    score = safe_divide((deviation * jnp.where(deviation > 0, per_code, 0.0)).sum(), deviation.sum())
    per_code, matrix = jnp.where(finite, per_code, jnp.nan), jnp.where(finite[:, None], matrix, jnp.nan)
    return Robustness(jnp.where(finite.all(), score, jnp.nan), per_code, matrix, jnp.where(finite, deviation, jnp.nan))


def _at(code: Float[Array, " n"], rows: Int[Array, "v s"]) -> Float[Array, "v s"]:
    return code.at[rows].get(mode="promise_in_bounds", wrap_negative_indices=False)


def _moved(
    moved: Float[Array, "d n"], given: Float[Array, "d v s"], group: Group, quantile: float
) -> Float[Array, " d"]:
    """The quantile of the distances from the mean ``given`` the value, averaged over values that occur."""
    d, size, _ = given.shape
    occurs = group.count > 0

    def by_rows():
        """Every code and value has its own row: few long search steps are faster than many short ones."""
        count = jnp.tile(group.count, d)
        quantiles = quantile_from_mean(given.reshape(len(count), -1), count, quantile).reshape(d, size)
        return jnp.where(occurs[None], quantiles, 0.0).sum(axis=1) / occurs.sum().astype(jnp.float32)

    def by_sorting():
        return _moved_by_sorting(moved.T, group.values, size, quantile)

    return jax.lax.cond(group.fits, by_rows, by_sorting)


def quantile_from_mean(values: Float[Array, "v s"], count: Int[Array, " v"], quantile: float) -> Float[Array, " v"]:
    """Quantile (linear) of the distances from each row's first ``count`` values to their mean; others must be 0."""
    present = jnp.arange(values.shape[1], dtype=jnp.int32)[None, :] < count[:, None]
    number = jnp.maximum(count, 1).astype(jnp.float32)
    mean = values.sum(axis=1) / number
    distance = settled(jnp.where(present, jnp.abs(values - mean[:, None]), -1.0))
    if quantile == 1:
        return distance.max(axis=1)
    place = quantile * (number - 1)
    share = place - jnp.floor(place)
    room = values.shape[1]
    most = room - 1 - math.floor(quantile * (room - 1)) + 1  # one more for rounding
    low, high = around(distance, number - 1 - jnp.floor(place), most)
    return low * (1 - share) + jnp.where(share > 0, high, 0.0) * share


def around(
    rows: Float[Array, "v s"], above: Float[Array, " v"], most: int
) -> tuple[Float[Array, " v"], Float[Array, " v"]]:
    """Of each row in descending order, the numbers behind and before the place that has ``above`` numbers before it.

    ``above`` are whole numbers up to ``most``. Nothing is sorted: a few places are found by repeated maxima, others by
    :func:`cut_above`.
    """
    if most > MOST_MAXIMA:
        return cut_above(rows, above)
    maxima = [jnp.full(rows.shape[0], jnp.inf)]
    for _ in range(most + 1):
        maxima.append(jnp.where(rows < maxima[-1][:, None], rows, -jnp.inf).max(axis=1))
    descending = jnp.stack(maxima, axis=1)
    place = above.astype(jnp.int32)[:, None] + jnp.arange(2, dtype=jnp.int32)[None]
    high, low = jnp.take_along_axis(descending, place, axis=1).T
    # Equal numbers were counted as one.
    differ = ((rows >= high[:, None]).astype(jnp.float32).sum(axis=1) == above) | (above == 0)
    return jax.lax.cond(differ.all(), lambda: (low, high), lambda: cut_above(rows, above))


def cut_above(rows: Float[Array, "v s"], above: Float[Array, " v"]) -> tuple[Float[Array, " v"], Float[Array, " v"]]:
    """:func:`around` by a search for a threshold that ``above`` numbers reach: rows are read about ten times.

    The threshold is interpolated between the last one that too many numbers reach and the last one that too few reach,
    as if their log count fell with its square, as in a Gaussian tail. Every ``HALVE``-th step takes the middle.
    """

    def reach(threshold):
        return (rows >= threshold[:, None]).astype(jnp.float32).sum(axis=1)  # several times faster than in integers

    def step(state):
        number, low, high, too_many, too_few, _ = state
        part = jnp.log((too_many + 0.5) / (above + 0.5)) / jnp.log((too_many + 0.5) / (too_few + 0.5))
        tail = jnp.sqrt(jnp.maximum(low, 0.0) ** 2 * (1 - part) + jnp.maximum(high, 0.0) ** 2 * part)
        threshold = jnp.where(number % HALVE == 0, low / 2 + high / 2, tail)
        threshold = jnp.where((threshold > low) & (threshold < high), threshold, low / 2 + high / 2)
        count = reach(threshold)
        down, up = count <= above, count >= above
        next_low, next_high = jnp.where(up, threshold, low), jnp.where(down, threshold, high)
        # Between neighboring floats there is no other: the numbers at the lower one are equal.
        settled = (count == above) | (next_low == low) & (next_high == high)
        too_many, too_few = jnp.where(up, count, too_many), jnp.where(down, count, too_few)
        return number + 1, next_low, next_high, too_many, too_few, settled

    least, largest = rows.min(axis=1), rows.max(axis=1)
    beyond = jnp.where(largest > 0, largest * 1.000001, largest * 0.999999) + jnp.finfo(rows.dtype).tiny
    everything, none = jnp.full(above.shape, float(rows.shape[1])), jnp.zeros(above.shape)
    start = (jnp.int32(1), jnp.where(above == 0, beyond, least), beyond, everything, none, above == 0)
    _, _, threshold, _, reached, _ = repeat("bracket", lambda state: ~state[-1].all(), step, start)
    low = jnp.where(rows < threshold[:, None], rows, -jnp.inf).max(axis=1)
    high = jnp.where(rows >= threshold[:, None], rows, jnp.inf).min(axis=1)
    return low, jnp.where(reached == above, high, low)


def _moved_by_sorting(moved, values, size: int, quantile: float) -> Float[Array, " d"]:
    """The quantile (linear) of ``|v − E[v | value]|``, averaged over values that occur."""
    counts = jnp.zeros(size).at[values].add(1.0)
    mean = jnp.zeros((size, moved.shape[1])).at[values].add(moved) / jnp.maximum(counts, 1.0)[:, None]
    distance = jnp.abs(moved - mean[values])
    ordered = _sorted_within(values, distance, size)
    start = jnp.cumsum(counts) - counts
    place = start + quantile * jnp.maximum(counts - 1, 0.0)
    low = jnp.floor(place).astype(jnp.int32)
    high = jnp.minimum(jnp.ceil(place).astype(jnp.int32), moved.shape[0] - 1)
    share = (place - low.astype(jnp.float32))[None, :]
    quantiles = ordered[:, low] * (1 - share) + ordered[:, high] * share  # [d, size]
    occurs = counts > 0
    return jnp.where(occurs[None, :], quantiles, 0.0).sum(axis=1) / occurs.sum().astype(jnp.float32)


def _sorted_within(values, distance, size: int) -> Float[Array, "d n"]:
    """Distances ordered by value, then by distance: each value's samples stand together."""
    values = jnp.broadcast_to(values[:, None], distance.shape).T
    if size >= 1 << (31 - DISTANCE_BITS):
        return jax.lax.sort((values, distance.T), dimension=1, num_keys=2)[1]
    # One integer key sorts several times faster: the distance as a share of the largest in its low bits.
    most = jnp.float32((1 << DISTANCE_BITS) - 1)
    largest = jnp.maximum(distance.max(axis=0), 1e-30)[:, None]
    keys = (values << DISTANCE_BITS) | jnp.round(distance.T / largest * most).astype(jnp.int32)
    keys = jax.lax.sort(keys, dimension=1, is_stable=True)
    return (keys & ((1 << DISTANCE_BITS) - 1)).astype(jnp.float32) / most * largest
