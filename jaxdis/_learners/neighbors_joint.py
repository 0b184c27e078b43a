"""Mutual information of all codes together with each factor by nearest neighbors, with distances computed in chunks."""

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxdis._core.arrays import class_counts, ordered_keys
from jaxdis._core.kernels.nearest import chunk_rows, smallest
from jaxdis._core.loops import each, times
from jaxdis._learners.neighbors_continuous import over_deviation
from jaxdis._learners.ordered import count, digamma_table, expected_digamma

Norm = Literal["chebyshev", "euclidean"]

# A turn of this length, a power of two, has about the deviation of a code, 1.
TURN = 4.0


def joint_discrete_information(
    codes: Float[Array, "n d"],
    classes: Int[Array, "n k"],
    sizes: tuple[int, ...],
    *,
    neighbors: int = 3,
    norm: Norm = "chebyshev",
) -> Float[Array, " k"]:
    """Mutual information in nats of all codes together with each discrete factor; Ross 2014.

    As :func:`jaxdis._learners.neighbors.discrete_information` with distances between rows of codes, each code divided
    by its standard deviation. Samples with at least ``neighbors`` equal samples in their class need no distances; each
    of the others is compared with all ``n`` samples.

    Args:
      sizes: how many classes each factor has.
      neighbors: which nearest neighbor sets the radius.
      norm: for the difference between two rows.
    """
    n = codes.shape[0]
    codes = over_deviation(codes)
    columns, classes_of = codes.T, classes.T  # once, not for each chunk
    table = digamma_table(n)
    group = _groups(codes)
    counts = class_counts(classes, sizes)
    sizes_of = jax.vmap(lambda count, column: count[column])(counts, classes_of)  # [k, n]
    reach = jnp.minimum(neighbors, sizes_of - 1)
    equal = jnp.zeros(n, jnp.int32).at[group].add(1)[group]
    equal_class = each(lambda column: _equal_in_class(group, column, max(sizes)), classes_of)
    near = digamma_difference(table, reach, equal, equal_class)
    rows, size = _unsettled((equal_class - 1 < reach).any(axis=0))

    def step(i, near):
        chunk = jax.lax.dynamic_slice(rows[0], (i * size,), (size,))
        distances = _distances(columns, chunk, norm)

        def one_factor(factor):
            column, reach = factor
            return _expected(distances, column[None, :] == column[chunk][:, None], reach[chunk], neighbors)

        return near.at[:, chunk].set(each(one_factor, (classes_of, reach)))

    near = times("chunks", -(-rows[1] // size), step, near)
    counted = sizes_of > 1
    terms = jnp.where(counted, table[reach] - table[sizes_of] - near, 0.0)
    mean = terms.sum(axis=1) / jnp.maximum(counted.sum(axis=1), 1).astype(jnp.float32)
    return jnp.maximum(jnp.where(counted.any(axis=1), table[n] + mean, 0.0), 0.0)


def circular_information(
    codes: Float[Array, "n d"], values: Float[Array, "n k"], periods: tuple[float, ...], *, neighbors: int = 3
) -> Float[Array, "d k"]:
    """Mutual information in nats of each code with each circular factor; see :func:`joint_continuous_information`."""

    def one_code(code):
        return joint_continuous_information(code[:, None], values, periods, neighbors=neighbors)

    return jax.lax.map(one_code, codes.T)  # one at a time: each compares all pairs of samples


def joint_continuous_information(
    codes: Float[Array, "n d"],
    values: Float[Array, "n k"],
    periods: tuple[float, ...] | None = None,
    *,
    neighbors: int = 3,
) -> Float[Array, " k"]:
    """Mutual information in nats of all codes together with each continuous factor; Kraskov et al. 2004.

    As :func:`jaxdis._learners.neighbors.continuous_information`, where the distance is the largest difference in any
    code.

    Args:
      periods: those of circular factors, whose distance is the shorter way around; None: the values lie on a line.
      neighbors: which nearest neighbor sets the radius.
    """
    n, k = values.shape
    values = (over_deviation(values) if periods is None else _around(values, periods)).T
    columns = over_deviation(codes).T
    table = digamma_table(n)
    size = chunk_rows(n)
    rows = jnp.minimum(jnp.arange(-(-n // size) * size, dtype=jnp.int32), n - 1).reshape(-1, size)

    def one_chunk(chunk):
        distances = _distances(columns, chunk, "chebyshev")

        def one_factor(value):
            in_value = jnp.abs(value[None, :] - value[chunk][:, None])
            if periods is not None:
                in_value = jnp.minimum(in_value, TURN - in_value)
            both = jnp.maximum(distances, in_value)
            nearest = smallest(both, neighbors + 1)[:, 1:]  # the sample itself is the first
            radius = nearest[:, -1:]
            equal = table[count(both == 0)] - table[count(distances == 0)] - table[count(in_value == 0)]
            tied, rank = count(both == radius), neighbors - count(nearest < radius)

            def expected(distance):
                shared = count((both == radius) & (distance == radius))
                return expected_digamma(rank, tied, count(distance < radius) - 1, count(distance == radius), shared)

            return jnp.where(radius[:, 0] == 0, equal, table[neighbors] - expected(distances) - expected(in_value))

        return each(one_factor, values)

    terms = jax.lax.map(one_chunk, rows).swapaxes(0, 1).reshape(k, -1)[:, :n]
    return jnp.maximum(table[n] + terms.mean(axis=1), 0.0)


def _around(values: Float[Array, "n k"], periods: tuple[float, ...]) -> Float[Array, "n k"]:
    """Values within one turn of length ``TURN``, multiples of 2⁻²⁰ so that equal arcs are equal across the cut."""
    periods = np.asarray(periods, np.float32)[None, :]
    turns = jnp.mod(values, periods) / periods
    return jnp.mod(jnp.round(turns * 2**20), 2**20) * np.float32(TURN * 2**-20)


def digamma_difference(table, reach, equal, equal_class):
    """:func:`expected_digamma` of samples that have ``reach`` equal samples in their class."""
    return table[jnp.maximum(reach, 1)] + table[equal][None, :] - table[equal_class]


def _groups(codes) -> Int[Array, " n"]:
    """A number for each sample, shared by equal rows of codes."""
    n = codes.shape[0]
    index = jnp.arange(n, dtype=jnp.int32)

    def split(number, column):
        # By one code after the other: a sort by thousands of keys at once takes gigabytes to compile.
        number, column, order = jax.lax.sort((number, column, index), num_keys=2)
        new = (number[1:] != number[:-1]) | (column[1:] != column[:-1])
        ranks = jnp.cumsum(jnp.pad(new, (1, 0)).astype(jnp.int32))
        return jnp.zeros(n, jnp.int32).at[order].set(ranks), None

    return jax.lax.scan(split, jnp.zeros(n, jnp.int32), ordered_keys(codes.T))[0]


def _equal_in_class(group, column, size: int) -> Int[Array, " n"]:
    """How many samples, itself included, equal each sample in all codes and in class."""
    cell = group * size + column
    return jnp.zeros(group.shape[0] * size, jnp.int32).at[cell].add(1)[cell]


def _unsettled(needed):
    """The samples that need distances, at the start of a list; how many they are; how many to process at once."""
    n = needed.shape[0]
    size = min(chunk_rows(n), n)
    rows = jnp.nonzero(needed, size=-(-n // size) * size, fill_value=n - 1)[0].astype(jnp.int32)
    return (rows, needed.sum()), size


def _distances(columns: Float[Array, "d n"], chunk, norm: Norm) -> Float[Array, "r n"]:
    """Distances from the samples of a chunk to all samples; squared if Euclidean, which keeps their order."""

    def further(total, column):
        difference = column[None, :] - column[chunk][:, None]
        if norm == "euclidean":
            return total + difference**2, None
        return jnp.maximum(total, jnp.abs(difference)), None

    start = jnp.zeros((chunk.shape[0], columns.shape[1]), columns.dtype)
    return jax.lax.scan(further, start, columns)[0]


def _expected(distances, same, reach, neighbors: int):
    """``E ψ(m)`` for a chunk's samples, from their distances to all samples and from who shares their class."""
    own = jnp.where(same, distances, jnp.inf)
    nearest = smallest(own, neighbors + 1)
    # In a class of at most k samples, the farthest one counts. All that are nearer are among the nearest.
    radius = jnp.take_along_axis(nearest, reach[:, None], axis=1)
    itself = (radius[:, 0] > 0).astype(jnp.int32)
    inside = count(distances < radius) - itself
    inside_class = count(nearest < radius) - itself
    shell = count(distances == radius) + itself - 1
    shell_class = count(own == radius) + itself - 1
    return expected_digamma(reach - inside_class, shell_class, inside, shell, shell_class)
