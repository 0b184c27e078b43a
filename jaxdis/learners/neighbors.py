"""Mutual information by nearest neighbors, one code at a time, with discrete and with continuous factors.

Ties are handled without adding noise: the estimate is averaged over the orders in which tied neighbors can be met.
"""

from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxdis.arrays import class_counts, from_keys, ordered_keys, power_of_two_below, stable_order
from jaxdis.learners.ordered import count_nearer, digamma_table, expected_digamma, insert, smallest, tied_range

Method = Literal["sorted", "brute"]

# Ties are taken into account in a column with a larger share of repeated values, or of evenly spaced ones, than these.
# The fewer ties that float32 creates among continuous values change an estimate by less than 1e-4.
TIED_SHARE = 0.001
EVEN_SHARE = 0.01
# Share of samples left to brute force when the walk along the sorted code stops.
LEFT_SHARE = 1 / 32
# Steps of that walk between two checks of which samples have found all neighbors.
STRIDE = 8


def discrete_information(
    codes: Float[Array, "n d"], classes: Int[Array, "n k"], sizes: tuple[int, ...], *, neighbors: int = 3
) -> Float[Array, "d k"]:
    """Mutual information in nats of each code with each discrete factor, at least 0.

    ``ψ(n) + ⟨ψ(k_c) − ψ(n_c) − ψ(m)⟩``: for each sample, ``n_c`` samples share its class, the ``k_c``-th nearest of
    these (``k_c = min(neighbors, n_c − 1)``) sets the radius, and ``m`` samples of any class lie within it. A sample
    alone in its class is left out of the mean. This takes one sort per code and one per pair, and no table of
    distances.

    Args:
      sizes: number of classes of each factor.
      neighbors: which nearest neighbor sets the radius.

    Reference: Ross 2014; scikit-learn's ``mutual_info_classif``.
    """
    starts, stops = _class_ranges(classes, sizes)

    def one_code(code):
        rank_order = stable_order(ordered_keys(code))
        ordered = code[rank_order]
        tied = _many_ties(ordered)

        def one_factor(factor):
            column, start, stop = factor
            block = _sort_by_class(column[rank_order], max(sizes))
            return _discrete_pair(ordered, block, start, stop, tied, neighbors)

        return jax.lax.map(one_factor, (classes.T, starts, stops))

    strength = jnp.maximum(jax.lax.map(one_code, codes.T), 0.0)
    varies = codes.max(axis=0) > codes.min(axis=0)
    return jnp.where(varies[:, None], strength, 0.0)  # exactly 0, without rounding errors


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
      neighbors: ``k``.
      method: ``"sorted"`` walks outwards along the sorted code and stops for a sample when no nearer one can follow
        (default on CPU); ``"brute"`` compares all pairs in chunks (default on accelerators). The results are the same.

    Reference: Kraskov et al. 2004, first estimator; scikit-learn's ``mutual_info_regression``.
    """
    method = method or ("sorted" if jax.default_backend() == "cpu" else "brute")
    codes, values = over_deviation(codes), over_deviation(values)
    table = digamma_table(codes.shape[0])
    ordered_values = from_keys(jax.lax.sort(ordered_keys(values.T), dimension=1, is_stable=True))

    def one_code(code):
        order = stable_order(ordered_keys(code))
        ordered = code[order]

        def one_factor(factor):
            value, ordered_value = factor
            value = value[order]
            radius, inside = _radii(ordered, value, neighbors, method)
            return _continuous_pair(ordered, value, ordered_value, radius, inside, neighbors, table)

        return jax.lax.map(one_factor, (values.T, ordered_values))

    return jnp.maximum(jax.lax.map(one_code, codes.T), 0.0)


def over_deviation(columns: Float[Array, "n c"]) -> Float[Array, "n c"]:
    """Each column divided by its standard deviation; a constant column becomes 0."""
    constant = columns.max(axis=0) == columns.min(axis=0)
    largest = jnp.abs(columns).max(axis=0)
    # Exact: squares of codes of any unit stay within float32.
    columns = columns / power_of_two_below(largest)[None, :]
    deviation = jnp.sqrt(((columns - columns.mean(axis=0)[None, :]) ** 2).mean(axis=0))
    columns = jnp.where(constant[None, :], 0.0, columns / jnp.where(deviation > 0, deviation, 1.0)[None, :])
    # Computed once: if a compiler repeats the division for each reader, equal values may become unequal.
    return jax.lax.optimization_barrier(columns)


def _class_ranges(classes, sizes):
    """Where each sample's class starts and stops in class order, ``[k, n]`` each, by position in that order."""
    counts = class_counts(classes, sizes)
    n = classes.shape[0]
    ends = jnp.cumsum(counts, axis=1)

    def spread(ends, counts):
        return jnp.repeat(ends - counts, counts, total_repeat_length=n), jnp.repeat(ends, counts, total_repeat_length=n)

    return jax.vmap(spread)(ends, counts)


def _sort_by_class(column: Int[Array, " n"], size: int) -> Int[Array, " n"]:
    """The order of samples by class, stable within a class."""
    n = column.shape[0]
    index = jnp.arange(n, dtype=jnp.int32)
    width = (n - 1).bit_length()
    if size << width < 1 << 31:  # class and index packed into one integer sort much faster than as two
        return jax.lax.sort((column << width) | index, is_stable=True) & ((1 << width) - 1)
    return stable_order(column)


def _many_ties(ordered):
    """Whether many samples have a neighbor equal to them, or equally distant neighbors on both sides."""
    gaps = ordered[1:] - ordered[:-1]
    equal = (gaps == 0).astype(jnp.float32).mean()
    even = (gaps[1:] == gaps[:-1]).astype(jnp.float32).mean()
    return (equal > TIED_SHARE) | (even > EVEN_SHARE)


def _discrete_pair(ordered, block, start, stop, tied, neighbors: int) -> Float[Array, ""]:
    """One code and one factor. ``block`` lists samples by class, then code; ``start``, ``stop`` bound the classes."""
    n = ordered.shape[0]
    value = ordered[block]
    size = stop - start
    reach = jnp.minimum(neighbors, size - 1)
    radius = _class_radius(value, start, stop, neighbors)
    table = digamma_table(n)

    def fast(_):
        return table[count_nearer(ordered, value, radius)]

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
    terms = table[reach] - table[size] - near
    counted = size > 1
    mean = jnp.where(counted, terms, 0.0).sum() / jnp.maximum(counted.sum(), 1).astype(jnp.float32)
    return jnp.where(counted.any(), table[n] + mean, 0.0)


def _class_radius(value, start, stop, neighbors: int):
    """Distance of each sample to its k-th nearest in its class: the smallest over the k + 1 windows that contain it."""
    n = value.shape[0]
    index = jnp.arange(n, dtype=jnp.int32)
    padded = jnp.pad(value, (neighbors, neighbors))

    def shifted(by: int):
        return jax.lax.slice(padded, (neighbors + by,), (neighbors + by + n,))

    best = jnp.full(n, jnp.inf, value.dtype)
    for before in range(neighbors + 1):
        after = neighbors - before
        within = (index - before >= start) & (index + after < stop)
        reach = jnp.maximum(value - shifted(-before), shifted(after) - value)
        best = jnp.minimum(best, jnp.where(within, reach, jnp.inf))
    # In a class of at most k samples, the farthest one counts.
    farthest = jnp.maximum(value - value[start], value[stop - 1] - value)
    return jnp.where(stop - start > neighbors, best, farthest)


def _continuous_pair(code, value, ordered_value, radius, inside, neighbors: int, table):
    """One code, whose samples are sorted by it, and one factor."""
    n = code.shape[0]

    def ties(_):
        return _information_with_ties(code, value, ordered_value, radius, inside, neighbors, table)

    def none(_):
        near = table[count_nearer(code, code, radius)] + table[count_nearer(ordered_value, value, radius)]
        return (table[neighbors] - near).mean()

    tied = _many_ties(code) | _many_ties(ordered_value) | (radius == 0).any()
    return table[n] + jax.lax.cond(tied, ties, none, None)


def _information_with_ties(code, value, ordered_value, radius, inside, neighbors: int, table):
    """The mean with expected counts where others lie at the radius, and with counts of equal samples where it is 0."""
    by_value = stable_order(ordered_keys(value))
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
        keys = jax.lax.sort((ordered_keys(ordered), ordered_keys(other_ordered)), num_keys=2)[1]
        other_ordered = from_keys(keys)
    nearer, both = jnp.int32(0), jnp.int32(0)
    for side in (-radius, radius):
        own = tied_range(ordered, center, side)
        strictly = count_nearer(other_ordered, other_center, radius, **own)
        nearer, both = (
            nearer + strictly,
            both + count_nearer(other_ordered, other_center, radius, closed=True, **own) - strictly,
        )
    return nearer, both


def _terms_of_equals(code, value, ordered_value, table):
    """``ψ(equal in both) − ψ(equal in code) − ψ(equal in value)`` of each sample, which counts itself."""
    n, zero = code.shape[0], jnp.zeros_like(code)
    keys = ordered_keys(code), ordered_keys(value)
    first, second, index = jax.lax.sort((*keys, jnp.arange(n, dtype=jnp.int32)), num_keys=2)
    new = jnp.concatenate([jnp.ones(1, bool), (first[1:] != first[:-1]) | (second[1:] != second[:-1])])
    group = jnp.cumsum(new.astype(jnp.int32)) - 1
    together = jnp.zeros(n, jnp.int32).at[index].set(jnp.zeros(n, jnp.int32).at[group].add(1)[group])
    in_code = count_nearer(code, code, zero, closed=True)
    in_value = count_nearer(ordered_value, value, zero, closed=True)
    return table[together] - table[in_code] - table[in_value]


def _radii(ordered, value, neighbors: int, method: Method) -> tuple[Float[Array, " n"], Int[Array, " n"]]:
    """Distance of each sample to its k-th nearest, the larger of those in code and value, and how many lie nearer."""
    n = ordered.shape[0]
    if method == "brute":
        return chunked_radii(ordered, value, jnp.arange(n, dtype=jnp.int32), neighbors)
    radius, inside, settled = _walk(ordered, value, neighbors)
    left = max(1, int(n * LEFT_SHARE))
    rows = jnp.nonzero(~settled, size=left, fill_value=n)[0].astype(jnp.int32)
    brute = chunked_radii(ordered, value, jnp.minimum(rows, n - 1), neighbors)
    return tuple(walked.at[rows].set(exact, mode="drop") for walked, exact in zip((radius, inside), brute, strict=True))


def _walk(ordered, value, neighbors: int):
    """Compare each sample with those 1, 2, … places away in the sorted code until few can still meet a nearer one."""
    n = ordered.shape[0]
    ends = jnp.full(n + STRIDE, jnp.inf, ordered.dtype)
    padded = jnp.concatenate([-ends, ordered, ends])
    padded_value = jnp.pad(value, (n + STRIDE, n + STRIDE))
    origin = n + STRIDE

    def at(array, shift):
        return jax.lax.dynamic_slice(array, (origin + shift,), (n,))

    def step(carry):
        shift, kept, _ = carry
        for further in range(1, STRIDE + 1):
            for place in (shift + further, -shift - further):
                distance = jnp.maximum(jnp.abs(at(padded, place) - ordered), jnp.abs(at(padded_value, place) - value))
                kept = insert(kept, distance)
        shift = shift + STRIDE
        nearest_unseen = jnp.minimum(at(padded, shift) - ordered, ordered - at(padded, -shift))
        return shift, kept, kept[-1] <= nearest_unseen

    def unsettled(carry):
        shift, _, settled = carry
        return (shift < n) & ((~settled).sum() > max(1, int(n * LEFT_SHARE)))

    start = jnp.int32(0), (jnp.full(n, jnp.inf, ordered.dtype),) * neighbors, jnp.zeros(n, bool)
    _, kept, settled = jax.lax.while_loop(unsettled, step, start)
    inside = sum((distance < kept[-1]).astype(jnp.int32) for distance in kept)
    return kept[-1], inside, settled


def chunked_radii(code, value, rows: Int[Array, " r"], neighbors: int) -> tuple[Float[Array, " r"], Int[Array, " r"]]:
    """As :func:`_radii`, for some rows against all samples, in chunks."""
    n = code.shape[0]
    size = chunk_rows(n)
    chunks = -(-rows.shape[0] // size)
    padded = jnp.pad(rows, (0, chunks * size - rows.shape[0])).reshape(chunks, size)

    def one_chunk(chunk):
        apart = jnp.abs(code[None, :] - code[chunk][:, None])
        apart = jnp.maximum(apart, jnp.abs(value[None, :] - value[chunk][:, None]))
        nearest = smallest(apart, neighbors + 1)[:, 1:]  # the sample itself is the first
        return nearest[:, -1], (nearest < nearest[:, -1:]).sum(axis=1, dtype=jnp.int32)

    radii_and_counts = jax.lax.map(one_chunk, padded)
    return tuple(part.reshape(-1)[: rows.shape[0]] for part in radii_and_counts)


def chunk_rows(n: int) -> int:
    """Rows of a distance table computed at once: 1 MB on CPU, where it stays in cache, 4 MB on accelerators."""
    numbers = 1 << 18 if jax.default_backend() == "cpu" else 1 << 20
    return max(8, min(256, numbers // n))
