"""Mutual information by nearest neighbors: of one code, or of all codes together, with each factor.

Ties are handled without adding noise: the estimate is averaged over the orders in which tied neighbors can be met.
"""

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import digamma
from jaxtyping import Array, Bool, Float, Int

from jaxdis._core import arrays
from jaxdis._core.kernels.entries import entries_at
from jaxdis._core.kernels.order import chunk_rows, radii, smallest
from jaxdis._core.loops import each, stepwise, times

# Ties are taken into account in a column with a larger share of repeated values, or of evenly spaced ones, than these.
# The fewer ties that float32 creates among continuous values change an estimate by less than 1e-4.
TIED_SHARE = 0.001
EVEN_SHARE = 0.01


def digamma_table(count: int) -> Float[Array, " c"]:
    """ψ of 0 … ``count``, with 0 instead of ψ(0)."""
    whole = jnp.arange(1, count + 1, dtype=jnp.float32)
    return jnp.concatenate([jnp.zeros(1, jnp.float32), digamma(whole)])


def count_nearer(ordered: Float[Array, " n"], center, radius, *, closed: bool = False, start=None, stop=None):
    """How many values in a sorted column lie in the ball of ``radius`` around each ``center``; open unless ``closed``.

    Distances are differences of float32 values: ``x ≤ center + radius`` would count the point that defines the radius.
    ``start`` and ``stop`` give each center's range of the column to count in.
    """
    below = _count_below(ordered, center, -radius, not closed, start, stop)
    # The open ball of radius 0 is empty.
    return jnp.maximum(_count_below(ordered, center, radius, closed, start, stop) - below, 0)


def _count_below(ordered, center, offset, inclusive: bool, start, stop) -> Int[Array, " n"]:
    """How many values from ``start`` on lie below ``center + offset`` (or at it): a binary search without branches."""
    n = ordered.shape[0]
    first = jnp.zeros(center.shape, jnp.int32) if start is None else start
    stop = jnp.int32(n) if stop is None else stop

    def halve(step, reached):
        candidate = reached + step
        distance = entries_at(ordered, jnp.minimum(candidate - 1, n - 1)) - center
        lies_below = (distance <= offset) if inclusive else (distance < offset)
        return jnp.where((candidate <= stop) & lies_below, candidate, reached)

    return stepwise(halve, [1 << bit for bit in reversed(range(n.bit_length()))], first) - first


def many_ties(ordered: Float[Array, " n"]) -> Bool[Array, ""]:
    """Whether many samples have a neighbor equal to them, or equally distant neighbors on both sides."""
    gaps = ordered[1:] - ordered[:-1]
    equal = (gaps == 0).astype(jnp.float32).mean()
    even = (gaps[1:] == gaps[:-1]).astype(jnp.float32).mean()
    return (equal > TIED_SHARE) | (even > EVEN_SHARE)


def count(where: Bool[Array, "r n"]) -> Int[Array, " r"]:
    """How many entries of each row are true; on CPU, float32 sums take half the time of integers'."""
    return where.astype(jnp.float32).sum(axis=1).astype(jnp.int32)


def expected_digamma(rank, tied, inside, shell, shared):
    """``E ψ(m)`` over the order in which equally distant samples are met; ``m − 1`` samples are met before the last.

    The search ends with the ``rank``-th of the ``tied`` samples at its radius. Of another set of samples, ``inside``
    lie nearer than the radius and ``shell`` at it, ``shared`` of which are among the ``tied``. The number of other
    samples met before the last is negative hypergeometric. With nothing inside and all tied samples shared, ``E ψ =
    ψ(rank) + ψ(shell + 1) − ψ(tied + 1)`` is exact; otherwise the result is correct to second order. The sample itself
    is not counted.
    """
    rank, tied, inside, shell, shared = (
        jnp.asarray(count).astype(jnp.float32) for count in (rank, tied, inside, shell, shared)
    )
    rank, tied = jnp.maximum(rank, 1.0), jnp.maximum(tied, 1.0)
    unshared, share = jnp.maximum(shell - shared, 0.0), jnp.minimum(shared / tied, 1.0)
    missed = jnp.maximum(tied + 1 - rank, 0.0)
    met = jnp.maximum(inside + 1 + (rank - 1) * share + rank * unshared / (tied + 1), 1.0)
    variance = rank * unshared * missed * (tied + unshared + 1) / ((tied + 1) ** 2 * (tied + 2))
    variance = variance + (rank - 1) * share * (1 - share) * missed / jnp.maximum(tied - 1, 1.0)
    several = digamma(met) - variance / (2 * met**2)
    alone = digamma(rank) + digamma(shell + 1) - digamma(tied + 1)
    return jnp.where((inside > 0) | (shared < tied), several, alone)


def discrete_information(
    codes: Float[Array, "n d"], classes: Int[Array, "n k"], sizes: tuple[int, ...], *, neighbors: int = 3
) -> Float[Array, "d k"]:
    """Mutual information in nats of each code with each discrete factor, at least 0.

    ``ψ(n) + ⟨ψ(k_c) − ψ(n_c) − ψ(m)⟩``: for each sample, ``n_c`` samples share its class, the ``k_c``-th nearest of
    these (``k_c = min(neighbors, n_c − 1)``) sets the radius, and ``m`` samples of any class lie within it. One
    sort per code is needed, and no table of distances.

    A sample that is alone in its class has no neighbor there. The mean leaves it out, but others count it as a
    neighbor; scikit-learn removes it first. With 16 samples of 16 classes the two differ by up to 0.4 nats, with 200 by
    none.

    Reference: Ross 2014; scikit-learn's ``mutual_info_classif``.
    """
    # Where each sample's class starts and stops in class order, ``[k, n]`` each, by position in that order.
    counts = arrays.class_counts(classes, sizes)
    ends = jnp.cumsum(counts, axis=1)
    repeated = jax.vmap(lambda edges, counts: jnp.repeat(edges, counts, total_repeat_length=len(classes)))
    starts, stops = repeated(ends - counts, counts), repeated(ends, counts)

    def one_code(code):
        rank_order = arrays.stable_order(arrays.ordered_keys(code))
        ordered = entries_at(code, rank_order)
        tied = many_ties(ordered)

        def one_factor(factor):
            column, start, stop = factor
            block = arrays.class_order(entries_at(column, rank_order), max(sizes))
            return _pair(ordered, block, start, stop, tied, neighbors)

        return each(one_factor, (classes.T, starts, stops))

    strength = jnp.maximum(each(one_code, codes.T), 0.0)
    varies = codes.max(axis=0) > codes.min(axis=0)
    return jnp.where(varies[:, None], strength, 0.0)  # exactly 0, without rounding errors


def _pair(ordered, block, start, stop, tied, neighbors: int) -> Float[Array, ""]:
    """One code and one factor. ``block`` lists samples by class, then code; ``start``, ``stop`` bound the classes."""
    n = ordered.shape[0]
    value = entries_at(ordered, block)
    size = stop - start
    reach = jnp.minimum(neighbors, size - 1)
    radius = _class_radius(value, start, stop, neighbors)
    table = digamma_table(n)

    def fast(_):
        return entries_at(table, count_nearer(ordered, value, radius))

    def with_ties(_):
        own = {"start": start, "stop": stop}
        # The sample itself is in the open ball unless that is empty, and always in the closed one.
        itself = (radius > 0).astype(jnp.int32)
        inside = count_nearer(ordered, value, radius) - itself
        inside_class = count_nearer(value, value, radius, **own) - itself
        shell = count_nearer(ordered, value, radius, closed=True) - 1 - inside
        shell_class = count_nearer(value, value, radius, closed=True, **own) - 1 - inside_class
        return expected_digamma(reach - inside_class, shell_class, inside, shell, shell_class)

    near = jax.lax.cond(tied | (radius == 0).any(), with_ties, fast, None)
    terms = entries_at(table, reach) - entries_at(table, size) - near
    counted = size > 1
    mean = jnp.where(counted, terms, 0.0).sum() / jnp.maximum(counted.sum(), 1).astype(jnp.float32)
    return jnp.where(counted.any(), table[n] + mean, 0.0)


def _class_radius(value, start, stop, neighbors: int) -> Float[Array, " n"]:
    """How far each sample's ball reaches, to the ``k``-th nearest of its class: the smallest of the windows that do.

    Each of the ``k + 1`` windows of ``k + 1`` samples of a class that contain a sample reaches as far as its ends.
    """
    n = value.shape[0]
    index = jnp.arange(n, dtype=jnp.int32)
    padded = jnp.pad(value, (neighbors, neighbors))

    def shifted(by: int):
        return jax.lax.slice(padded, (neighbors + by,), (neighbors + by + n,))

    # In a class of at most k samples, the farthest one counts.
    farthest = jnp.maximum(value - entries_at(value, start), entries_at(value, stop - 1) - value)
    radius = jnp.where(stop - start > neighbors, jnp.inf, farthest)
    for before in range(neighbors + 1):
        after = neighbors - before
        reach = jnp.maximum(value - shifted(-before), shifted(after) - value)
        within = (index - before >= start) & (index + after < stop)
        radius = jnp.minimum(radius, jnp.where(within, reach, jnp.inf))
    return radius


Method = Literal["sorted", "brute"]


def continuous_information(
    codes: Float[Array, "n d"], values: Float[Array, "n k"], *, neighbors: int = 3, method: Method | None = None
) -> Float[Array, "d k"]:
    """Mutual information in nats of each code with each continuous factor, at least 0.

    ``ψ(n) + ψ(k) − ⟨ψ(n_x + 1) + ψ(n_y + 1)⟩``: for each sample, the radius is the larger of the two distances to its
    ``k``-th nearest sample (each column is divided by its standard deviation), and ``n_x`` and ``n_y`` other samples
    lie strictly nearer in one column.

    Ties: where other samples lie exactly at the radius, as on a grid of values, the counts are expectations over the
    order in which these samples are met; where ``k`` others equal the sample in both columns, the equal ones are
    counted. Without this, ties would be left out of the counts and information overestimated (0.52 instead of 0.34 nats
    for values rounded to multiples of 0.03).

    Args:
      method: ``"sorted"`` walks outwards along the sorted code and stops for a sample when no nearer one can follow
        (default on CPU); ``"brute"`` compares all pairs in chunks (default on accelerators). The results are the same.

    Reference: Kraskov et al. 2004, first estimator; scikit-learn's ``mutual_info_regression``.
    """
    codes, values = over_deviation(codes), over_deviation(values)
    table = digamma_table(codes.shape[0])
    ordered_values = arrays.sort_columns(values).T

    def one_code(code):
        order = arrays.stable_order(arrays.ordered_keys(code))
        ordered = code[order]

        def one_factor(factor):
            value, ordered_value = factor
            value = value[order]
            radius, inside = radii(ordered, value, neighbors, form=method)
            return _continuous_pair(ordered, value, ordered_value, radius, inside, neighbors, table)

        return each(one_factor, (values.T, ordered_values))

    return jnp.maximum(jax.lax.map(one_code, codes.T), 0.0)


def over_deviation(columns: Float[Array, "n c"]) -> Float[Array, "n c"]:
    """Divide each column by its standard deviation; a constant column becomes 0.

    Equal entries stay equal in every reader: see :func:`jaxdis._core.arrays.settled`.
    """
    constant = columns.max(axis=0) == columns.min(axis=0)
    largest = jnp.abs(columns).max(axis=0)
    # Exact: squares of codes of any unit stay within float32.
    columns = columns / arrays.power_of_two_below(largest)[None, :]
    deviation = jnp.sqrt(((columns - columns.mean(axis=0)[None, :]) ** 2).mean(axis=0))
    columns = jnp.where(constant[None, :], 0.0, columns / jnp.where(deviation > 0, deviation, 1.0)[None, :])
    return arrays.settled(columns)


def _continuous_pair(code, value, ordered_value, radius, inside, neighbors: int, table):
    """One code, whose samples are sorted by it, and one factor."""
    n = code.shape[0]

    def ties(_):
        return _information_with_ties(code, value, ordered_value, radius, inside, neighbors, table)

    def none(_):
        near = table[count_nearer(code, code, radius)] + table[count_nearer(ordered_value, value, radius)]
        return (table[neighbors] - near).mean()

    tied = many_ties(code) | many_ties(ordered_value) | (radius == 0).any()
    return table[n] + jax.lax.cond(tied, ties, none, None)


def _information_with_ties(code, value, ordered_value, radius, inside, neighbors: int, table):
    """The mean with expected counts where others lie at the radius, and with counts of equal samples where it is 0."""
    by_value = arrays.stable_order(arrays.ordered_keys(value))
    nearer_value, both = _at_radius(ordered_value, value, code[by_value], code, radius)
    nearer_code, _ = _at_radius(code, code, value, value, radius, sort_within=True)
    tied = nearer_value + nearer_code + both  # at the radius in the value alone, in the code alone, in both

    def expected(ordered, center, shared):
        near = count_nearer(ordered, center, radius) - 1
        shell = count_nearer(ordered, center, radius, closed=True) - 1 - near
        return expected_digamma(neighbors - inside, tied, near, shell, shared)

    at_radius = expected(code, code, nearer_code + both) + expected(ordered_value, value, nearer_value + both)
    terms = jnp.where(radius == 0, _terms_of_equals(code, value, ordered_value, table), table[neighbors] - at_radius)
    return terms.mean()


def _at_radius(ordered, center, other_ordered, other_center, radius, *, sort_within: bool = False):
    """Of the samples at the radius in one column, how many are nearer in the other column, and how many also at it.

    ``other_ordered`` is the other column in the order of the first, with ties in its own order (``sort_within`` sorts
    them).
    """
    if sort_within:
        keys = jax.lax.sort((arrays.ordered_keys(ordered), arrays.ordered_keys(other_ordered)), num_keys=2)[1]
        other_ordered = arrays.from_keys(keys)
    nearer, both = jnp.int32(0), jnp.int32(0)
    for side in (-radius, radius):
        own = {
            name: _count_below(ordered, center, side, inclusive, None, None)
            for name, inclusive in (("start", False), ("stop", True))
        }
        strictly = count_nearer(other_ordered, other_center, radius, **own)
        nearer, both = (
            nearer + strictly,
            both + count_nearer(other_ordered, other_center, radius, closed=True, **own) - strictly,
        )
    return nearer, both


def _terms_of_equals(code, value, ordered_value, table):
    """``ψ(equal in both) − ψ(equal in code) − ψ(equal in value)`` of each sample, which counts itself."""
    n, zero = code.shape[0], jnp.zeros_like(code)
    keys = arrays.ordered_keys(code), arrays.ordered_keys(value)
    first, second, index = jax.lax.sort((*keys, jnp.arange(n, dtype=jnp.int32)), num_keys=2)
    new = jnp.concatenate([jnp.ones(1, bool), (first[1:] != first[:-1]) | (second[1:] != second[:-1])])
    group = jnp.cumsum(new.astype(jnp.int32)) - 1
    together = jnp.zeros(n, jnp.int32).at[index].set(jnp.zeros(n, jnp.int32).at[group].add(1)[group])
    in_code = count_nearer(code, code, zero, closed=True)
    in_value = count_nearer(ordered_value, value, zero, closed=True)
    return table[together] - table[in_code] - table[in_value]


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
    """
    n = codes.shape[0]
    codes = over_deviation(codes)
    columns, classes_of = codes.T, classes.T  # once, not for each chunk
    table = digamma_table(n)
    group = _groups(codes)
    counts = arrays.class_counts(classes, sizes)
    sizes_of = jax.vmap(lambda count, column: count[column])(counts, classes_of)  # [k, n]
    reach = jnp.minimum(neighbors, sizes_of - 1)
    equal = jnp.zeros(n, jnp.int32).at[group].add(1)[group]

    def equal_in_class(column):
        cell = group * max(sizes) + column
        return jnp.zeros(n * max(sizes), jnp.int32).at[cell].add(1)[cell]

    equal_class = each(equal_in_class, classes_of)  # the sample itself included
    near = table[jnp.maximum(reach, 1)] + table[equal][None, :] - table[equal_class]
    needed, size = (equal_class - 1 < reach).any(axis=0), min(chunk_rows(n), n)
    # The samples that need distances are listed first.
    rows = jnp.nonzero(needed, size=-(-n // size) * size, fill_value=n - 1)[0].astype(jnp.int32)

    def step(i, near):
        chunk = jax.lax.dynamic_slice(rows, (i * size,), (size,))
        distances = _distances(columns, chunk, norm)

        def one_factor(factor):
            column, reach = factor
            return _expected(distances, column[None, :] == column[chunk][:, None], reach[chunk], neighbors)

        return near.at[:, chunk].set(each(one_factor, (classes_of, reach)))

    near = times("chunks", -(-needed.sum() // size), step, near)
    counted = sizes_of > 1
    terms = jnp.where(counted, table[reach] - table[sizes_of] - near, 0.0)
    mean = terms.sum(axis=1) / jnp.maximum(counted.sum(axis=1), 1).astype(jnp.float32)
    return jnp.maximum(jnp.where(counted.any(axis=1), table[n] + mean, 0.0), 0.0)


def joint_continuous_information(
    codes: Float[Array, "n d"],
    values: Float[Array, "n k"],
    periods: tuple[float, ...] | None = None,
    *,
    neighbors: int = 3,
) -> Float[Array, " k"]:
    """Mutual information in nats of all codes together with each continuous factor; Kraskov et al. 2004.

    As :func:`jaxdis._learners.neighbors.continuous_information`, where the distance is the largest difference in any
    code. Factors with ``periods`` are circular: their distance is the shorter way around.
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

    return jax.lax.scan(split, jnp.zeros(n, jnp.int32), arrays.ordered_keys(codes.T))[0]


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
