"""Mutual information of one code and one continuous factor by nearest neighbors.

Ties are handled without adding noise: the estimate is averaged over the orders in which tied neighbors can be met.
"""

from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxdis._core.arrays import from_keys, ordered_keys, power_of_two_below, settled, stable_order
from jaxdis._core.kernels.nearest import radii
from jaxdis._core.loops import each
from jaxdis._learners.ordered import (
    count_nearer,
    digamma_table,
    expected_digamma,
    many_ties,
    tied_range,
)

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
      neighbors: ``k``.
      method: ``"sorted"`` walks outwards along the sorted code and stops for a sample when no nearer one can follow
        (default on CPU); ``"brute"`` compares all pairs in chunks (default on accelerators). The results are the same.

    Reference: Kraskov et al. 2004, first estimator; scikit-learn's ``mutual_info_regression``.
    """
    codes, values = over_deviation(codes), over_deviation(values)
    table = digamma_table(codes.shape[0])
    ordered_values = from_keys(jax.lax.sort(ordered_keys(values.T), dimension=1, is_stable=True))

    def one_code(code):
        order = stable_order(ordered_keys(code))
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
    columns = columns / power_of_two_below(largest)[None, :]
    deviation = jnp.sqrt(((columns - columns.mean(axis=0)[None, :]) ** 2).mean(axis=0))
    columns = jnp.where(constant[None, :], 0.0, columns / jnp.where(deviation > 0, deviation, 1.0)[None, :])
    return settled(columns)


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
