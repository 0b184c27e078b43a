"""Statistics over batches of rows from a table, without an array that holds all batches' rows.

A table row fills whole cache lines, a few rows are added at once, and sums for a chunk of batches stay in the cache.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxdis._core.kernels.kernel import Kernel

# Batches at one time, whose sums stay in the cache: 1,000 rows of 16 numbers are 64 KB.
CHUNK = 1_000
# A multiple of so many numbers is a row of a table: a line of the cache, read by whole registers.
LINE = 16
# Samples of each batch that one kernel adds. With fewer, the sums are read and written too often.
TOGETHER = 8


def _variances_reference(codes, rows):
    return codes.astype(np.float64)[rows].var(axis=0, ddof=1)


def _variances(codes: Float[Array, "n d"], rows: Int[Array, "b t"]) -> Float[Array, "t d"]:
    table = _in_lines(codes)

    def within(rows):
        mean = _summed(lambda row: _at(table, row), rows) / len(rows)
        squares = _summed(lambda row: (_at(table, row) - mean) ** 2, rows)
        return squares[:, : codes.shape[1]] / (len(rows) - 1)

    return _in_chunks(within, rows)


# ``variances_in_batches(codes [n, d], rows [b, t]) -> [t, d]``: the variance of each code in each batch of ``b`` rows.
variances_in_batches = Kernel(_variances_reference, {"lines": _variances}, cpu="lines", accelerator="lines")


def _distances_reference(codes, rows, partners):
    return np.abs(codes.astype(np.float64)[rows] - codes.astype(np.float64)[partners]).mean(axis=0)


def _distances(codes: Float[Array, "n d"], rows: Int[Array, "b t"], partners: Int[Array, "b t"]) -> Float[Array, "t d"]:
    table = _in_lines(codes)

    def of_pairs(pairs):
        total = _summed(lambda pair: jnp.abs(_at(table, pair[0]) - _at(table, pair[1])), pairs)
        return total[:, : codes.shape[1]] / len(pairs[0])

    return _in_chunks(of_pairs, (rows, partners))


# ``distances_in_batches(codes [n, d], rows [b, t], partners [b, t]) -> [t, d]``: the mean absolute difference of each
# code over the ``b`` pairs of rows of each batch.
distances_in_batches = Kernel(_distances_reference, {"lines": _distances}, cpu="lines", accelerator="lines")


def _in_lines(codes: Float[Array, "n d"]) -> Float[Array, "n w"]:
    """Codes, followed by zeros up to whole cache lines."""
    return jnp.pad(codes, ((0, 0), (0, -codes.shape[1] % LINE)))


def _at(table: Float[Array, "n w"], rows: Int[Array, " c"]) -> Float[Array, "c w"]:
    return table.at[rows].get(mode="promise_in_bounds", wrap_negative_indices=False)


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
    chunk = min(count, CHUNK)
    starts = np.minimum(np.arange(0, count, chunk), count - chunk).astype(np.int32)

    def one(start):
        return function(jax.tree.map(lambda rows: jax.lax.dynamic_slice_in_dim(rows, start, chunk, axis=1), batches))

    done = jax.lax.map(one, jnp.asarray(starts))
    done = done.reshape(-1, *done.shape[2:])
    rest = count % chunk
    return jnp.concatenate([done[: count - rest], done[count - rest + chunk - rest :]]) if rest else done
