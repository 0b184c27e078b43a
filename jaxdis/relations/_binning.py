"""Samples into bins, between dividers at equal width or equal count."""

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxdis._core.arrays import rounding_of
from jaxdis.factors import Factors

Dividers = Literal["between", "code"]

# Ends of a run of equal values whose distances from a divider's place differ by less are equally near.
HALFWAY = 1e-3
# Of a bin: angles that lie on an edge but for rounding belong to the bin above.
ON_AN_EDGE = np.float32(1e-3)


def equal_width_bins(codes: Float[Array, "n d"], bins: int, *, weights=None) -> Int[Array, "n d"]:
    """Bin numbers 0 … bins − 1 between each column's minimum and maximum; the maximum belongs to the last bin.

    The edges are as by ``numpy.histogram`` on the same float32 values. A column whose range is at most rounding error
    is a single bin. Samples with weight 0 do not count for the range. A non-finite value's bin is arbitrary.
    """
    low, high = codes.min(axis=0), codes.max(axis=0)
    if weights is not None:
        counted = (weights > 0)[:, None]
        low = jnp.where(counted, codes, jnp.inf).min(axis=0)
        high = jnp.where(counted, codes, -jnp.inf).max(axis=0)
    flat = (high - low) <= rounding_of(jnp.maximum(jnp.abs(low), jnp.abs(high)))
    # Not by a constant, which compilers turn into a product with its rounded reciprocal.
    step = jnp.where(flat, 1.0, high - low) / jnp.where(flat, 1.0, bins)
    number = jnp.clip(jnp.floor((codes - low[None, :]) * (1 / step)[None, :]), 0, bins - 1)
    # The quotient may be one ulp off at an edge; the edge itself, as numpy computes it, decides. The maximum, which
    # changes nothing, keeps compilers from contracting product and sum: codes on a grid would fall to other bins.
    edge, next_edge = (jnp.maximum((number + i) * step[None, :], 0.0) + low[None, :] for i in (0, 1))
    number = number + (codes >= next_edge).astype(codes.dtype) - (codes < edge).astype(codes.dtype)
    number = jnp.where(flat[None, :], 0.0, jnp.clip(number, 0, bins - 1))
    return jnp.clip(number.astype(jnp.int32), 0, bins - 1)  # a NaN becomes some integer: keep it in the table


def equal_count_bins(
    ordered: Float[Array, "n d"],
    codes: Float[Array, "m d"],
    sizes: tuple[int, ...] | list[int],
    used=None,
    *,
    weights=None,
    mode: Dividers = "between",
) -> list[Int[Array, "m d"]]:
    """Cut each code into each number of bins, by dividers near places ``m n / used`` of the sorted values.

    Args:
      ordered: codes sorted by :func:`jaxdis._core.arrays.sort_columns`, since several calls share it.
      codes: to be binned, the same samples or held-out ones.
      sizes: numbers of bins, or their upper limits where ``used`` has those known from the data alone.
      weights: ``[n, d]``, weights in sorted order; the dividers are then weighted quantiles.
      mode: ``"between"``: dividers lie between values (:func:`dividers_at`). ``"code"``: a divider is the value at
        place ``floor(m n / used)``, and belongs to the bin above.

    Returns:
      Bins from 0 for each size. Ties never straddle a divider, so a code with ties has bins with unequal counts.
    """
    # One search finds the dividers for all numbers, and compiles once.
    n, which = ordered.shape[0], np.repeat(np.arange(len(sizes)), np.array(sizes) - 1)
    cut = np.concatenate([np.arange(1, size, dtype=np.int32) for size in sizes])
    used = (np.array(sizes, np.int32) if used is None else used)[which]
    if weights is None:
        place, excess = divided(cut, n, used)
        dividers = jax.vmap(lambda column: dividers_at(column, place, excess, mode=mode))(ordered.T)
    else:

        def weighted(column, weights):
            total = jnp.cumsum(weights)
            goal = cut.astype(np.float32) / used.astype(weights.dtype) * total[-1]
            place = jnp.minimum(jnp.searchsorted(total, goal, side="right"), n - 1).astype(jnp.int32)
            return dividers_at(column, place, goal - (total[place] - weights[place]), weights, mode=mode)

        dividers = jax.vmap(weighted)(ordered.T, weights.T)
    dividers = jnp.where((cut < used)[None], dividers, jnp.inf)
    return [count_dividers(codes.T, dividers[:, which == i]).T for i in range(len(sizes))]


def dividers_at(
    ordered: Float[Array, " n"], place: Int[Array, " c"], excess: Float[Array, " c"], weights=None, *, mode: Dividers
) -> Float[Array, " c"]:
    """Return dividers ``[c]`` between sorted values, with as nearly as possible ``place + excess`` samples below each.

    A value that occurs once, at the place, belongs to the bin above, as in the published form, whose dividers are
    sorted values. Equal values form a run; its nearer end is taken where values are left on both sides; if both are
    equally near, the one toward the median. A divider is midway between two values, so that the negated code has the
    same bins in reverse but for one sample. A constant code has no divider: infinity. With ``weights``, samples count
    by them.
    """
    if mode == "code":
        return ordered[place]
    n, value = ordered.shape[0], ordered[place]
    first = jnp.searchsorted(ordered, value, side="left").astype(jnp.int32)
    beyond = jnp.searchsorted(ordered, value, side="right").astype(jnp.int32)
    total = jnp.arange(n + 1, dtype=jnp.float32) if weights is None else jnp.pad(jnp.cumsum(weights), (1, 0))
    below, within = total[first], total[beyond]
    # How much farther the lower end is than the upper; in whole samples, rounding is no difference.
    farther = (total[place] + excess - below) - (within - total[place] - excess)
    towards_median = jnp.abs(below - total[-1] / 2) <= jnp.abs(within - total[-1] / 2)
    lower = (farther < -HALFWAY) | ((farther <= HALFWAY) & towards_median) | (within - below <= 1)
    cut = jnp.where((below > 0) & (lower | (within >= total[-1])), first, beyond)
    low, high = ordered[jnp.maximum(cut - 1, 0)], ordered[jnp.minimum(cut, n - 1)]
    halfway = low / 2 + high / 2
    return jnp.where((cut > 0) & (cut < n), jnp.where(halfway > low, halfway, high), jnp.inf)


def divided(cut, n: int, used) -> tuple[Int[Array, "..."], Float[Array, "..."]]:
    """Return ``cut · n / used`` rounded down, at most ``n − 1``, without overflow in int32, and the rest."""
    rest = cut * (n % used)
    whole = jnp.minimum(cut * (n // used) + rest // used, n - 1)
    return whole, (rest % used).astype(jnp.float32) / jnp.asarray(used, jnp.float32)


def count_dividers(values: Float[Array, "... m"], dividers: Float[Array, "... c"]) -> Int[Array, "... m"]:
    """How many dividers in its row are no larger than each value, by comparisons, a few dividers at a time."""

    def count(number, divider):
        return number + (values >= divider[..., None]).astype(jnp.int32), None

    start = jnp.zeros(values.shape, jnp.int32)
    return jax.lax.scan(count, start, jnp.moveaxis(dividers, -1, 0), unroll=min(4, max(dividers.shape[-1], 1)))[0]


def factor_classes(factors: Factors, bins: int, *, weights=None) -> tuple[Int[Array, "n k"], tuple[int, ...]]:
    """Every factor as class numbers, and how many classes it has; a continuous factor is cut into equal-width bins.

    Those for a circular factor cover its period, from 0.
    """
    classes = factors.values.astype(jnp.int32)
    continuous = np.array([size is None for size in factors.sizes])
    if continuous.any():
        values = factors.values.astype(jnp.float32)
        binned = equal_width_bins(values, bins, weights=weights)
        for j, period in enumerate(factors.periods or ()):
            if period is not None:
                place = jnp.mod(values[:, j], period) * np.float32(bins / period) + ON_AN_EDGE
                binned = binned.at[:, j].set(jnp.floor(place).astype(jnp.int32) % bins)
        classes = jnp.where(jnp.asarray(continuous)[None, :], binned, classes)
    return classes, tuple(bins if size is None else size for size in factors.sizes)
