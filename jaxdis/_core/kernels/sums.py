"""Sums: running ones over bins, those over a factor's classes, a table's rows in its bins, and rows in batches."""

import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Num, UInt

from jaxdis._core.kernels.entries import read
from jaxdis._core.loops import each
from jaxdis._core.platforms import Kernel

# Terms of fewer numbers are stored, side by side: one sum for all takes less time, up to 16 codes of 6,667 samples.
FEW_NUMBERS = 1 << 17
# Of a term, numbers that are computed at a time otherwise, and rows at least.
CHUNK, LEAST_ROWS = 8192, 8
# Arrays ``[n, d]`` of classes ``[n]`` and rows ``[n, d]``.
Terms = Callable[[Array, Array], Sequence[Array]]


def even_bins(least: int) -> int:
    """So many bins, or the next number that :data:`running_sums` need not fill up."""
    width = math.ceil(math.sqrt(least))
    return width * -(-least // width)


def _in_rows(histogram: Float[Array, "d b ..."]) -> Float[Array, "d r w ..."]:
    """The bins in rows, so that rounding stays that of few sums."""
    bins = histogram.shape[1]
    width = math.ceil(math.sqrt(bins))
    rows = even_bins(bins) // width
    padded = jnp.pad(histogram, ((0, 0), (0, rows * width - bins), *((0, 0),) * (histogram.ndim - 2)))
    return padded.reshape(len(padded), rows, width, *padded.shape[2:])


def _running_by_loops(histogram):
    """Within rows of bins, then over rows, in loops that compile several times as fast as a tree of sums."""
    at, put = jax.lax.dynamic_index_in_dim, jax.lax.dynamic_update_index_in_dim

    def within(j, table):
        return put(table, at(table, j - 1, 2) + at(table, j, 2), j, 2)

    def across(row, table):
        return put(table, at(table, row - 1, 1)[:, :, -1:] + at(table, row, 1), row, 1)

    table = _in_rows(histogram)
    _, rows, width = table.shape[:3]
    table = jax.lax.fori_loop(1, rows, across, jax.lax.fori_loop(1, width, within, table))
    return table.reshape(len(table), rows * width, *table.shape[3:])[:, : histogram.shape[1]]


def _running_by_cumsum(histogram):
    table = jnp.cumsum(_in_rows(histogram), axis=2)
    before = jnp.cumsum(table[:, :, -1], axis=1) - table[:, :, -1]
    table = table + before[:, :, None]
    return table.reshape(len(table), -1, *table.shape[3:])[:, : histogram.shape[1]]


# ``running_sums(histogram [d, b, ...]) -> [d, b, ...]``: sums over the bins up to each one.
running_sums = Kernel(cpu=_running_by_loops, accelerator=_running_by_cumsum)


def _binned_by_scatter(bins: Int[Array, "d n"], rows: Num[Array, "n c"], num_bins: int) -> Num[Array, "d b c"]:
    """One code at a time on CPU, so that its table stays in cache."""
    zero = jnp.zeros((num_bins, rows.shape[1]), rows.dtype)
    return each(lambda number: zero.at[number].add(rows, mode="promise_in_bounds"), bins)


def _binned_by_product(bins, rows, num_bins):
    """Integers are exact up to 2²⁴."""
    numbers = rows.astype(jnp.float32)

    def of_code(number):
        return jnp.dot(jax.nn.one_hot(number, num_bins, axis=0), numbers, precision=jax.lax.Precision.HIGHEST)

    return each(of_code, bins).astype(rows.dtype)


# ``sums_in_bins(bins [d, n], rows [n, c], num_bins) -> [d, num_bins, c]``: sums of the rows in each bin of each code.
# TPUs would add row by row.
sums_in_bins = Kernel(_binned_by_scatter, _binned_by_scatter, tpu=_binned_by_product, in_place=True)


def _nodes_by_scatter(node: UInt[Array, "n c"], values, nodes: int):
    """One scatter adds a sample's values side by side."""
    columns, count = node.shape[1], len(values)
    place = node.astype(jnp.int32) * columns + jnp.arange(columns, dtype=jnp.int32)[None]
    beside = jnp.stack(values, axis=2).reshape(-1, count)
    sums = jnp.zeros((nodes * columns, count)).at[place.reshape(-1)].add(beside, mode="promise_in_bounds")
    return sums.T.reshape(count, nodes, columns)


def _nodes_by_selection(node, values, nodes):
    def sums(q):
        return jnp.stack([jnp.where(node == q, value, 0.0).sum(axis=0) for value in values])

    return jax.vmap(sums, out_axes=1)(jnp.arange(nodes, dtype=node.dtype))


# ``sums_in_nodes(node [n, c], values, nodes) -> [v, nodes, c]``: of each array ``[n, c]`` among the values, the sums
# over the samples of each node, column by column. TPUs would add number by number.
sums_in_nodes = Kernel(_nodes_by_scatter, _nodes_by_scatter, tpu=_nodes_by_selection, in_place=True)


def _classes_in_chunks(terms: Terms, classes: Int[Array, " n"], rows: Float[Array, "n d"], size: int):
    n, d = rows.shape
    if rows.size <= FEW_NUMBERS:
        found = jnp.concatenate(terms(classes, rows), axis=1)
        sums = jnp.zeros((size, found.shape[1])).at[classes].add(found, mode="promise_in_bounds")
        return jnp.moveaxis(sums.reshape(size, -1, d), 1, 0)
    height = min(n, max(LEAST_ROWS, CHUNK // d))
    start = np.minimum(np.arange(0, n, height, dtype=np.int32), n - height)
    place = start[:, None] + np.arange(height, dtype=np.int32)
    # Rows that the last chunk shares with the one before go to a class of their own.
    added = jnp.where(place >= np.arange(0, n, height, dtype=np.int32)[:, None], classes[place], size)

    def add(tables, chunk):
        start, added = chunk
        few = jax.lax.dynamic_slice_in_dim(rows, start, height)
        found = terms(jnp.minimum(added, size - 1), few)
        return [table.at[added].add(term, mode="promise_in_bounds") for table, term in zip(tables, found, strict=True)]

    count = len(jax.eval_shape(terms, classes, rows))
    tables = [jnp.zeros((size + 1, d), rows.dtype)] * count
    tables, _ = jax.lax.scan(lambda tables, chunk: (add(tables, chunk), None), tables, (start, added))
    return jnp.stack(tables)[:, :size]


def _classes_by_product(terms, classes, rows, size):
    found = jnp.concatenate(terms(classes, rows), axis=1)
    sums = jnp.dot(jax.nn.one_hot(classes, size, axis=0), found, precision=jax.lax.Precision.HIGHEST)
    return jnp.moveaxis(sums.reshape(size, -1, rows.shape[1]), 1, 0)


# ``sums_in_classes(terms, classes [n], rows [n, d], size) -> [t, s, d]``: for each of the arrays ``[n, d]`` that
# ``terms(classes, rows)`` computes, the sum of the rows of each class. On CPU, terms of few rows at a time stay in
# cache: six terms of 1,000 codes take a tenth of the time that it takes to store them. On an H200, rows that were added
# one by one took 24 times as long as their bytes.
sums_in_classes = Kernel(cpu=_classes_in_chunks, accelerator=_classes_by_product)


def _members(sizes) -> Float[np.ndarray, "s k"]:
    """Which of all values belong to which factor."""
    return np.repeat(np.eye(len(sizes), dtype=np.float32), sizes, axis=0)


def _parts(values, sizes):
    ends = np.cumsum(sizes)
    return [values[end - size : end] for end, size in zip(ends, sizes, strict=True)]


# ``sums_over_classes(values [s, n], sizes) -> [k, n]``: sums over the classes of each factor. On accelerators without a
# product, whose operands would be stored.
sums_over_classes = Kernel(
    cpu=lambda values, sizes: _members(sizes).T @ values,
    accelerator=lambda values, sizes: jnp.stack([part.sum(axis=0) for part in _parts(values, sizes)]),
)

# ``spread_over_classes(values [k, n], sizes) -> [s, n]``: the row of each factor for all of its classes.
spread_over_classes = Kernel(
    cpu=lambda values, sizes: _members(sizes) @ values,
    accelerator=lambda values, sizes: jnp.repeat(values, np.array(sizes), axis=0, total_repeat_length=sum(sizes)),
)


def _by_gather(values, places, sizes):
    return jnp.take_along_axis(values, places, axis=0, mode="clip")


def _by_selection(values, places, sizes):
    numbers = jnp.arange(len(values), dtype=places.dtype)[:, None]
    parts = zip(_parts(values, sizes), _parts(numbers, sizes), places, strict=True)
    return jnp.stack([jnp.where(number == place[None], part, 0).sum(axis=0) for part, number, place in parts])


# ``of_own_class(values [s, n], places [k, n], sizes) -> [k, n]``: each sample's entry in the row of its own class, one
# of each factor's. On TPUs all rows are read, since entries would be read one by one.
of_own_class = Kernel(cpu=_by_gather, accelerator=_by_gather, tpu=_by_selection)


# Terms of a sum that an accelerator computes sooner, for each of its readers, than it would store it and read it again.
FEW = 16


def _in_its_readers(left: Float[Array, "s e"], right: Float[Array, "e n"]) -> Float[Array, "s n"]:
    if left.shape[1] > FEW:
        return left @ right
    return sum(left[:, i, None] * right[i][None, :] for i in range(left.shape[1]))


# ``thin_product(left [s, e], right [e, n]) -> [s, n]``, of few numbers ``e``. As a sum of products it becomes a part of
# what reads it; libraries for products store their results.
thin_product = Kernel(cpu=lambda left, right: left @ right, accelerator=_in_its_readers)


# Statistics over batches need no array that holds all batches' rows: a table row fills whole cache lines, a few rows
# are added at once, and sums for a chunk of batches stay in the cache.

# Batches at one time, whose sums stay in the cache: 1,000 rows of 16 numbers are 64 KB.
BATCHES = 1_000
# A multiple of so many numbers is a row of a table: a line of the cache, read by whole registers.
LINE = 16
# Samples of each batch that one kernel adds. With fewer, the sums are read and written too often.
TOGETHER = 8


def _variances(codes: Float[Array, "n d"], rows: Int[Array, "b t"]) -> Float[Array, "t d"]:
    table = _in_lines(codes)

    def within(rows):
        mean = _summed(lambda row: read(table, row), rows) / len(rows)
        squares = _summed(lambda row: (read(table, row) - mean) ** 2, rows)
        return squares[:, : codes.shape[1]] / (len(rows) - 1)

    return _in_chunks(within, rows)


# ``variances_in_batches(codes [n, d], rows [b, t]) -> [t, d]``: the variance of each code in each batch of ``b`` rows.
variances_in_batches = Kernel(cpu=_variances, accelerator=_variances)


def _distances(codes: Float[Array, "n d"], rows: Int[Array, "b t"], partners: Int[Array, "b t"]) -> Float[Array, "t d"]:
    table = _in_lines(codes)

    def of_pairs(pairs):
        total = _summed(lambda pair: jnp.abs(read(table, pair[0]) - read(table, pair[1])), pairs)
        return total[:, : codes.shape[1]] / len(pairs[0])

    return _in_chunks(of_pairs, (rows, partners))


# ``distances_in_batches(codes [n, d], rows [b, t], partners [b, t]) -> [t, d]``: the mean absolute difference of each
# code over the ``b`` pairs of rows of each batch.
distances_in_batches = Kernel(cpu=_distances, accelerator=_distances)


def _in_lines(codes: Float[Array, "n d"]) -> Float[Array, "n w"]:
    """Codes, followed by zeros up to whole cache lines."""
    return jnp.pad(codes, ((0, 0), (0, -codes.shape[1] % LINE)))


def _summed(term, batches):
    """``Σ term(one)`` over the samples ``one`` ``[c]`` in batches ``[b, c]``, without an array that holds all terms.

    A kernel adds the terms of several samples. On CPU this takes half as long as terms that are gathered, stored and
    then added, and a quarter for 32 codes.
    """
    count = jax.tree.leaves(batches)[0].shape[0]
    grouped = count // TOGETHER * TOGETHER

    def add(total, group):
        for place in range(jax.tree.leaves(group)[0].shape[0]):
            total = total + term(jax.tree.map(lambda rows, place=place: rows[place], group))
        return total

    groups = jax.tree.map(lambda rows: rows[:grouped].reshape(-1, TOGETHER, rows.shape[1]), batches)
    shape = jax.eval_shape(term, jax.tree.map(lambda rows: rows[0], batches))
    total, _ = jax.lax.scan(lambda total, group: (add(total, group), None), jnp.zeros(shape.shape), groups)
    return add(total, jax.tree.map(lambda rows: rows[grouped:], batches))


def _in_chunks(function, batches):
    """A function of batches ``[b, t]``, chunk by chunk, so that its sums stay in the cache.

    The last chunk repeats some of the batches before it if chunks do not divide their number.
    """
    count = jax.tree.leaves(batches)[0].shape[1]
    chunk = min(count, BATCHES)
    starts = np.minimum(np.arange(0, count, chunk), count - chunk).astype(np.int32)

    def one(start):
        return function(jax.tree.map(lambda rows: jax.lax.dynamic_slice_in_dim(rows, start, chunk, axis=1), batches))

    done = jax.lax.map(one, jnp.asarray(starts))
    done = done.reshape(-1, *done.shape[2:])
    rest = count % chunk
    return jnp.concatenate([done[: count - rest], done[count - rest + chunk - rest :]]) if rest else done
