"""Tables that count how often values occur together.

On CPU, samples are added to cells one by one, table by table, which stay in cache; tables for pairs of codes count bits
that both have. On accelerators, where such updates wait for one another, a table is a product of one-hot matrices.
"""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, UInt32

from jaxdis._core.platforms import Kernel

# A joint table of several factors at once saves one scatter a factor; past this many columns a code's table leaves the
# first-level cache and each update costs more than is saved.
MAX_GROUP_COLUMNS = 300
# With more bins, samples are added to cells in less time than bits of all pairs of bins are compared: 20 µs for 10,000
# samples, against 7 µs with 20 bins.
MOST_BITS = 32
# Codes of which bits are compared together: their counts, 400 kB, stay in the second-level cache.
TILE = 16
# Words of bits that are added to counts at a time. XLA reads fewer by a computed index, one by one: 8 times as slow.
WORDS = 16


def _joint_by_scatter(
    number: Int[Array, "n d"], bins: int, classes: Int[Array, "n k"], sizes: tuple[int, ...], weights=None
) -> Float[Array, "d b s"]:
    """One scalar update per sample, code and group of factors; one code at a time."""
    groups = group_factors(sizes)
    widths = [math.prod(sizes[j] for j in group) for group in groups]
    zero = jnp.zeros(len(classes), jnp.int32)  # several factors' values as one number
    columns = [functools.reduce(lambda number, j: number * sizes[j] + classes[:, j], group, zero) for group in groups]
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


def _joint_by_product(number, bins, classes, sizes, weights=None) -> Float[Array, "d b s"]:
    """Exact in bfloat16 with float32 sums as long as there are no weights."""
    dtype = jnp.bfloat16 if weights is None else jnp.float32
    hot_bins = jax.nn.one_hot(number, bins, dtype=dtype)
    hot_values = jnp.concatenate(
        [jax.nn.one_hot(classes[:, j], size, dtype=dtype) for j, size in enumerate(sizes)], axis=1
    )
    if weights is not None:
        hot_values = hot_values * weights[:, None]
    return jnp.einsum(
        "ndb,ns->dbs", hot_bins, hot_values, precision=jax.lax.Precision.HIGHEST, preferred_element_type=jnp.float32
    )


# ``joint_tables(number [n, d], bins, classes [n, k], sizes, weights=None) -> [d, bins, s]``: how many samples (or how
# much weight) each bin of a code shares with each value of all factors, one factor after another along ``s``.
joint_tables = Kernel(
    cpu=_joint_by_scatter,
    accelerator=_joint_by_product,
    named={"scatter": _joint_by_scatter, "matmul": _joint_by_product},
)


def _pairs_by_scatter(left: Int[Array, "n d"], right: Int[Array, "n e"], bins: int) -> Float[Array, "d b s"]:
    def counts(row, other):
        return jnp.zeros(bins * bins, jnp.int32).at[row * bins + other].add(1, mode="promise_in_bounds")

    tables = jax.lax.map(lambda row: jax.lax.map(lambda other: counts(row, other), right.T), left.T)
    tables = tables.reshape(left.shape[1], right.shape[1], bins, bins)
    return jnp.moveaxis(tables, 1, 2).astype(jnp.float32).reshape(left.shape[1], bins, -1)


def _pairs_by_bits(left: Int[Array, "n d"], right: Int[Array, "n e"], bins: int) -> Float[Array, "d b s"]:
    """Count the samples in two bins as the bits that both sets of samples have in common."""
    if bins > MOST_BITS:
        return _pairs_by_scatter(left, right, bins)
    tables = _with_tiles_of_bits(left, right, bins, lambda counts: counts)
    tables = tables.swapaxes(1, 2).astype(jnp.float32)  # [tile, codes and bins, tile, ...]
    tables = tables.reshape(-1, bins, tables.shape[2] * tables.shape[3])
    return tables[: left.shape[1], :, : right.shape[1] * bins]


def _with_tiles_of_bits(left, right, bins: int, finish):
    """``finish(counts)`` of each two tiles' codes: ``[t, u, ...]``."""

    def with_tile(rows):
        def add(counts, words):
            row, other = words
            both = (row[j][:, None] & other[j][None, :] for j in range(WORDS))
            return counts + sum(map(jax.lax.population_count, both)), None

        def tables(others):
            begin = jnp.zeros((rows.shape[-1], others.shape[-1]), jnp.uint32)
            return finish(jax.lax.scan(add, begin, (rows, others))[0])

        return jax.lax.map(tables, others)

    rows, others = (_bits_of_bins(number, bins) for number in (left, right))
    return jax.lax.map(with_tile, rows)


def _bits_of_bins(number: Int[Array, "n d"], bins: int) -> UInt32[Array, "t c w s"]:
    """For each bin of a code, a bit for each sample; by tiles of codes and groups of words, then by a tile's bins."""
    n, d = number.shape
    tile, groups = min(d, TILE), -(-n // (32 * WORDS))
    words = groups * WORDS
    sample = np.arange(n, dtype=np.int32)
    bit = jnp.uint32(1) << (sample % 32).astype(np.uint32)

    def of_code(number):
        return jnp.zeros(bins * words, jnp.uint32).at[number * words + sample // 32].add(bit, mode="promise_in_bounds")

    bits = jnp.pad(jax.lax.map(of_code, number.T), ((0, -d % tile), (0, 0)))
    return jnp.moveaxis(bits.reshape(-1, tile * bins, groups, WORDS), 1, 3)


# ``pair_tables(left [n, d], right [n, e], bins) -> [d, bins, e * bins]``: the joint tables of two sets of codes, all
# cut into as many bins.
pair_tables = Kernel(
    cpu=_pairs_by_bits,
    accelerator=lambda left, right, bins: _joint_by_product(left, bins, right, (bins,) * right.shape[1]),
)


def _sums_of_tables(left, right, bins, terms):
    tables = pair_tables(left, right, bins).reshape(left.shape[1], bins, right.shape[1], bins)
    return jnp.stack([_terms_at(row, tables).sum(axis=(1, 3)) for row in terms])


def _sums_by_bits(
    left: Int[Array, "n d"], right: Int[Array, "n e"], bins: int, terms: Int[Array, "w m"]
) -> Int[Array, "w d e"]:
    """Read the terms of a tile's tables while these are in cache."""
    if bins > MOST_BITS:
        return _sums_of_tables(left, right, bins, terms)

    def finish(counts):
        counts = counts.reshape(counts.shape[0] // bins, bins, -1, bins)
        return jnp.stack([_terms_at(row, counts).sum(axis=(1, 3)) for row in terms])

    sums = jnp.moveaxis(_with_tiles_of_bits(left, right, bins, finish), 2, 0).swapaxes(2, 3)
    sums = sums.reshape(len(terms), sums.shape[1] * sums.shape[2], -1)
    return sums[:, : left.shape[1], : right.shape[1]]


def _terms_at(terms, counts):
    return terms.at[counts.astype(jnp.int32)].get(mode="promise_in_bounds")


# ``pair_sums(left [n, d], right [n, e], bins, terms [w, n + 1]) -> [w, d, e]``: sums over the cells of each two codes'
# joint table, to which a cell adds the term of its count; ``w`` sets of terms, integers whose sums may wrap around.
pair_sums = Kernel(cpu=_sums_by_bits, accelerator=_sums_of_tables)


def _segments_by_scatter(
    true: Int[Array, "i p"], predicted: Int[Array, "i p"], true_segments: int, predicted_segments: int
) -> Float[Array, "i t q"]:
    size = true_segments * predicted_segments
    inside = (true >= 0) & (true < true_segments) & (predicted >= 0) & (predicted < predicted_segments)
    place = jnp.where(inside, true * predicted_segments + predicted, size)
    place = place + jnp.arange(true.shape[0], dtype=jnp.int32)[:, None] * (size + 1)
    counts = jnp.zeros(true.shape[0] * (size + 1), jnp.int32).at[place.ravel()].add(1, mode="promise_in_bounds")
    return counts.reshape(-1, size + 1)[:, :size].astype(jnp.float32).reshape(-1, true_segments, predicted_segments)


def _segments_by_product(true, predicted, true_segments, predicted_segments):
    left, right = jax.nn.one_hot(true, true_segments), jax.nn.one_hot(predicted, predicted_segments)
    return jnp.einsum("ipt,ipq->itq", left, right, precision=jax.lax.Precision.HIGHEST)


# ``segment_tables(true [i, p], predicted [i, p], true_segments, predicted_segments) -> [i, t, q]``: how many pixels of
# each image are in each true and each predicted segment; numbers beyond the last segment are left out. On CPU, the
# scatter was measured to be 23 times as fast as the product.
segment_tables = Kernel(
    cpu=_segments_by_scatter,
    accelerator=_segments_by_product,
    named={"scatter": _segments_by_scatter, "one_hot": _segments_by_product},
)
