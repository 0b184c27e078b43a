"""Samples into bins, bins into joint tables: the part of every histogram estimate that reads all samples."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxdis.arrays import rounding_of
from jaxdis.typing import Factors

# A joint table of several factors at once saves one scatter a factor; past this many columns a code's table leaves the
# first-level cache and each update costs more than is saved.
MAX_GROUP_COLUMNS = 300


def equal_width_bins(codes: Float[Array, "n d"], bins: int, *, weights=None) -> Int[Array, "n d"]:
    """Bin numbers 0 … bins − 1 between each column's minimum and maximum; the maximum belongs to the last bin.

    The edges are those of ``numpy.histogram`` on the same float32 values. A column whose range is at most rounding
    error is a single bin. Samples of weight 0 do not count for the range. The bin of a non-finite value is arbitrary.
    """
    low, high = _range(codes, weights)
    flat = (high - low) <= rounding_of(jnp.maximum(jnp.abs(low), jnp.abs(high)))
    step = jnp.where(flat, 1.0, (high - low) / bins)
    number = jnp.clip(jnp.floor((codes - low[None, :]) * (1 / step)[None, :]), 0, bins - 1)
    # The quotient may be one ulp off at an edge; the edge itself, as numpy computes it, decides.
    edge = number * step[None, :] + low[None, :]
    next_edge = (number + 1) * step[None, :] + low[None, :]
    number = number + (codes >= next_edge).astype(codes.dtype) - (codes < edge).astype(codes.dtype)
    number = jnp.where(flat[None, :], 0.0, jnp.clip(number, 0, bins - 1))
    return jnp.clip(number.astype(jnp.int32), 0, bins - 1)  # a NaN becomes some integer: keep it in the table


def equal_count_bins(
    ordered: Float[Array, "n d"],
    codes: Float[Array, "n d"],
    bins: int,
    *,
    weights=None,
    used: Int[Array, ""] | None = None,
):
    """Bin numbers by dividers at every ``1 / bins`` of the samples: value ``floor(m n / bins)`` of each sorted column.

    Args:
      ordered: ``[n, d]``, codes sorted by :func:`jaxdis.arrays.sort_columns`, since calls with other ``bins`` share it.
      codes: ``[m, d]`` to be binned, the same samples or held-out ones.
      weights: ``[n, d]``, weights in sorted order; the dividers are then weighted quantiles.
      used: the number of bins, if it is only known from the data; ``bins`` is then its upper limit.

    Returns:
      ``[m, d]`` int32 in 0 … bins − 1. Ties never straddle a divider, so bins of a code with ties are of unequal count.
    """
    n = ordered.shape[0]
    cut = np.arange(1, bins, dtype=np.int32)
    if weights is None:
        place = cut.astype(int) * n // bins if used is None else divided_place(cut, n, used)
        dividers = ordered[place]
    else:
        total = jnp.cumsum(weights, axis=0)
        goals = cut.astype(np.float32) / (np.float32(bins) if used is None else used.astype(total.dtype))
        find = jax.vmap(lambda column: jnp.searchsorted(column, goals * column[-1], side="right"), 1, 1)
        dividers = jnp.take_along_axis(ordered, jnp.minimum(find(total), n - 1), axis=0)
    if used is not None:
        dividers = jnp.where((cut < used)[:, None], dividers, jnp.inf)
    return count_dividers(codes.T, dividers.T).T


def divided_place(cut, n: int, used) -> Int[Array, "..."]:
    """``floor(cut · n / used)`` in int32 without overflow, at most ``n − 1``."""
    return jnp.minimum(cut * (n // used) + cut * (n % used) // used, n - 1)


def count_dividers(values: Float[Array, "... m"], dividers: Float[Array, "... c"]) -> Int[Array, "... m"]:
    """Number of dividers of its row that are no larger than each value, by comparisons, a few dividers at a time."""

    def count(number, divider):
        return number + (values >= divider[..., None]).astype(jnp.int32), None

    start = jnp.zeros(values.shape, jnp.int32)
    return jax.lax.scan(count, start, jnp.moveaxis(dividers, -1, 0), unroll=min(4, max(dividers.shape[-1], 1)))[0]


def factor_classes(factors: Factors, bins: int, *, weights=None) -> tuple[Int[Array, "n k"], tuple[int, ...]]:
    """Every factor as class numbers, and its number of classes; a continuous factor is cut into equal-width bins."""
    classes = factors.values.astype(jnp.int32)
    continuous = np.array([size is None for size in factors.sizes])
    if continuous.any():
        binned = equal_width_bins(factors.values.astype(jnp.float32), bins, weights=weights)
        classes = jnp.where(jnp.asarray(continuous)[None, :], binned, classes)
    return classes, tuple(bins if size is None else size for size in factors.sizes)


def joint_tables(
    number: Int[Array, "n d"],
    bins: int,
    classes: Int[Array, "n k"],
    sizes: tuple[int, ...],
    *,
    weights=None,
    method=None,
) -> Float[Array, "d b s"]:
    """Joint counts (or weights) of each code's bins and all factors' values; ``s`` runs over the values of all factors.

    Args:
      method: ``"scatter"`` (default on CPU) or ``"matmul"`` (one-hot product, default on accelerators).
    """
    method = method or ("scatter" if jax.default_backend() == "cpu" else "matmul")
    if method == "matmul":
        return _joint_by_matmul(number, bins, classes, sizes, weights)
    return _joint_by_scatter(number, bins, classes, sizes, weights)


def _joint_by_scatter(number, bins, classes, sizes, weights):
    """One scalar update per sample, code and group of factors; one code at a time, whose tables stay in cache."""
    groups = group_factors(sizes)
    widths = [math.prod(sizes[j] for j in group) for group in groups]
    columns = [_mixed_radix(classes, sizes, group) for group in groups]
    values = jnp.int32(1) if weights is None else weights

    def one_code(bin_of_sample):
        tables = (jnp.zeros(bins * width, values.dtype) for width in widths)
        rows = (bin_of_sample * width + column for width, column in zip(widths, columns, strict=True))
        return [table.at[row].add(values, mode="promise_in_bounds") for table, row in zip(tables, rows, strict=True)]

    marginals = {}
    for group, table in zip(groups, jax.lax.map(one_code, number.T), strict=True):
        cells = table.reshape(-1, bins, *(sizes[j] for j in group))
        for axis, j in enumerate(group):
            marginals[j] = cells.sum(axis=tuple(2 + other for other in range(len(group)) if other != axis))
    return jnp.concatenate([marginals[j] for j in range(len(sizes))], axis=2).astype(jnp.float32)


def _mixed_radix(classes, sizes, group) -> Int[Array, " n"]:
    """The values of several factors as one number."""
    number = jnp.zeros(classes.shape[0], jnp.int32)
    for j in group:
        number = number * sizes[j] + classes[:, j]
    return number


def _joint_by_matmul(number, bins, classes, sizes, weights):
    """One product of one-hot matrices; exact in bfloat16 with float32 sums as long as there are no weights."""
    dtype = jnp.bfloat16 if weights is None else jnp.float32
    hot_bins = jax.nn.one_hot(number, bins, dtype=dtype)
    hot_values = jnp.concatenate(
        [jax.nn.one_hot(classes[:, j], size, dtype=dtype) for j, size in enumerate(sizes)], axis=1
    )
    if weights is not None:
        hot_values = hot_values * weights[:, None]
    return jnp.einsum(
        "ndb,ns->dbs",
        hot_bins,
        hot_values,
        precision=jax.lax.Precision.HIGHEST,
        preferred_element_type=jnp.float32,
    )


def group_factors(sizes: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Factors that share a table: greedily, largest first, while the product of sizes stays small."""
    groups: list[list[int]] = []
    for j in sorted(range(len(sizes)), key=lambda j: -sizes[j]):
        for group in groups:
            if math.prod(sizes[i] for i in [j, *group]) <= MAX_GROUP_COLUMNS:
                group.append(j)
                break
        else:
            groups.append([j])
    return [tuple(group) for group in groups]


def _range(codes, weights):
    if weights is None:
        return codes.min(axis=0), codes.max(axis=0)
    counted = (weights > 0)[:, None]
    return jnp.where(counted, codes, jnp.inf).min(axis=0), jnp.where(counted, codes, -jnp.inf).max(axis=0)
