"""Scores for how nearly a relation maps codes and factors one to one."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxdis._core.arrays import safe_divide
from jaxdis._core.kernels.assignment import Solver, assign
from jaxdis._core.spec import metric
from jaxdis.relations._relation import Relation
from jaxdis.scores._reading import mean_over_factors, only_valid, read


class Matching(NamedTuple):
    """``score []``; ``per_factor [k]``, the matched share; ``code [k]``, the code assigned to a factor, −1 for none."""

    score: Float[Array, ""]
    per_factor: Float[Array, " k"]
    code: Int[Array, " k"]


class Amari(NamedTuple):
    """``score []``, an error: 0 is best."""

    score: Float[Array, ""]


class IndependentGroups(NamedTuple):
    """The relation as a graph whose edges appear from the strongest on, and its factors' dendrogram.

    ``threshold [d·k]`` is descending; at each, ``groups`` and ``discovered`` count groups and factors with an edge.
    ``score`` is the area under the number of groups, ``largest`` the most at any threshold. Merges ``[k−1]`` are
    numbered as in scipy's linkage (merge ``t`` makes cluster ``k + t`` of ``merge_size`` factors); ``merge_rank`` is 0
    for the strongest edge.
    """

    score: Float[Array, ""]
    largest: Float[Array, ""]
    threshold: Float[Array, " e"]
    groups: Int[Array, " e"]
    discovered: Int[Array, " e"]
    merge_pair: Int[Array, "t 2"]
    merge_rank: Int[Array, " t"]
    merge_threshold: Float[Array, " t"]
    merge_size: Int[Array, " t"]


@metric()
def matching(relation: Relation, *, assignment: Solver = "auto") -> Matching:
    """Average over factors what share of its ceiling each reaches with the one code assigned to it.

    Codes are assigned to factors one to one so that the total is largest. On absolute correlation this is the mean
    correlation coefficient, MCC: Pearson's in independent component analysis, Spearman's or cosines where
    :func:`jaxdis.relations.correlation` is told so. Mean matched cosines of two dictionaries are called MCC, too.

    Options:
      assignment: how codes are assigned: ``"optax"`` inside the program, ``"scipy"`` on the host, or ``"auto"``; the
        score is the same.

    Contract:

    - In [0, 1]. A factor left without a code (fewer codes than factors) counts 0.
    - Inactive codes and one-valued factors take no part. Any non-finite code gives NaN.
    - Among equally good assignments the score is the same, but ``code`` may depend on ``assignment``.

    Reference: Hyvärinen & Morioka 2016, §5 (MCC); Mahon et al. 2024, §4.1 (the assignment).
    """
    reading = read(relation)
    shares = reading.strength / reading.ceiling[None, :]
    allowed = reading.active[:, None] & reading.valid[None, :]
    code = assign(jnp.where(allowed, shares, jnp.nan), maximize=True, method=assignment).row
    assigned = jnp.take_along_axis(shares, jnp.maximum(code, 0)[None, :], axis=0)[0]
    per_factor = jnp.where(code >= 0, assigned, 0.0)
    per_factor = jnp.where(jnp.isnan(shares).any(), jnp.nan, per_factor)
    return Matching(mean_over_factors(per_factor, reading), only_valid(per_factor, reading), code)


@metric(errors=("score",))
def amari(relation: Relation, *, normalize: bool = False) -> Amari:
    """Measure how far the strengths are from a scaled permutation: an error, 0 for one entry per row and column.

    ``Σ_i (Σ_j |p_ij| / max_j |p_ij| − 1) + Σ_j (Σ_i |p_ij| / max_i |p_ij| − 1)``.

    Options:
      normalize: divide by the largest possible error, ``2 d k − d − k`` (``2 n (n − 1)`` for a square matrix).

    Contract:

    - Between 0 and the largest possible error. Rows or columns that are zero count 0; if no code is related to any
      factor, the error is the largest. NaN if no factor varies.

    Reference: Amari et al. 1996, §4; Yang & Amari 1997, §5.
    """
    reading = read(relation)
    strength = jnp.abs(reading.strength)

    def excess(rows):
        best = rows.max(axis=1)
        return jnp.where(best > 0, safe_divide(rows.sum(axis=1), best) - 1, 0.0 * best).sum()

    codes, factors = reading.num_codes, reading.num_factors
    largest = 2 * codes * factors - codes - factors
    error = jnp.where((strength > 0).any(), excess(strength) + excess(strength.T), largest + 0 * strength.sum())
    if normalize:
        error = safe_divide(error, largest)
    return Amari(jnp.where(factors > 0, error, jnp.nan))


@metric()
def independent_groups(relation: Relation) -> IndependentGroups:
    """Count independent groups of codes and factors as a threshold falls through the relation's entries.

    At threshold ``t`` the graph has an edge for every non-zero entry ``≥ t``; a group is a connected component with at
    least one edge. The score is the area under the number of groups against the threshold (trapezoids). The dendrogram
    lists the edges that join two sets of factors, by rank (from 0) and by threshold; edges with strength 0 come last,
    so that there are always ``k − 1`` merges.

    Contract:

    - Entries are read as they are, not relative to a ceiling.
    - Equal entries are ordered by position; the order is unspecified in the reference.
    - Any non-finite code gives NaN in the score and meaningless merges.

    Reference: Locatello et al. 2020, §6.1.2.
    """
    reading = read(relation)
    d, k = reading.strength.shape
    flat = reading.strength.reshape(-1)
    counted = jnp.broadcast_to(reading.valid[None, :], (d, k)).reshape(-1)
    order = jnp.lexsort((-flat, ~counted))  # a one-valued factor's entries come last and add no area
    threshold = jnp.maximum(flat[order], jnp.where(counted, flat, jnp.inf).min())
    # The component of each node, factors first; the dendrogram cluster and the factors of the component of that label.
    nodes, sizes = (
        jnp.arange(k + d, dtype=jnp.int32),
        jnp.concatenate([jnp.ones(k, jnp.int32), jnp.zeros(d, jnp.int32)]),
    )
    start = nodes, nodes, sizes, jnp.int32(0), jnp.zeros(k + d, bool), jnp.int32(0)
    edges = order // k, order % k, (threshold > 0) & counted[order]
    found = jax.lax.scan(lambda state, edge: _add_edge(state, edge, k), start, edges)[1]
    per_edge, discovered, pairs, merged_sizes = found
    # Edges of one strength appear together: read the counts after the last of them.
    last = (threshold[None, :] >= threshold[:, None]).sum(axis=1) - 1
    per_edge, discovered = per_edge[last], discovered[last]
    rank = jnp.nonzero(pairs[:, 0] >= 0, size=max(k - 1, 0), fill_value=0)[0].astype(jnp.int32)
    steps = threshold[:-1] - threshold[1:]
    area = (steps * (per_edge[:-1] + per_edge[1:]).astype(jnp.float32)).sum() / 2
    area = jnp.where(jnp.isnan(flat).any(), jnp.nan, area)
    largest = jnp.where(jnp.isnan(area), jnp.nan, per_edge.max().astype(jnp.float32))
    merges = pairs[rank], rank, threshold[rank], merged_sizes[rank]
    return IndependentGroups(area, largest, threshold, per_edge, discovered, *merges)


def _add_edge(state, edge, num_factors):
    """Join a code and a factor; count the groups; record a merge if both sides already hold factors."""
    labels, clusters, sizes, groups, seen, merges = state
    code, factor, drawn = edge
    node = num_factors + code
    a, b = labels[factor], labels[node]
    keep, gone = jnp.minimum(a, b), jnp.maximum(a, b)
    joins = keep != gone
    merge = joins & (sizes[a] > 0) & (sizes[b] > 0)
    pair = jnp.sort(jnp.stack([clusters[a], clusters[b]]))
    size = sizes[keep] + jnp.where(joins, sizes[gone], 0)
    labels = jnp.where(labels == gone, keep, labels)
    # The surviving cluster is the one that holds factors; a merge makes a new one.
    holder = jnp.where(sizes[keep] > 0, clusters[keep], clusters[gone])
    clusters = clusters.at[keep].set(jnp.where(merge, num_factors + merges, holder))
    sizes = sizes.at[keep].set(size)
    fresh = (~seen[factor]).astype(jnp.int32) + (~seen[node]).astype(jnp.int32)
    # Two new nodes make a group, one joins a group, none may unite two.
    change = jnp.where(fresh == 2, 1, jnp.where((fresh == 0) & joins, -1, 0))
    groups = groups + jnp.where(drawn, change, 0)
    seen = seen.at[factor].set(seen[factor] | drawn).at[node].set(seen[node] | drawn)
    discovered = seen[:num_factors].sum().astype(jnp.int32)
    state = (labels, clusters, sizes, groups, seen, merges + merge.astype(jnp.int32))
    return state, (groups, discovered, jnp.where(merge, pair, -1), jnp.where(merge, size, 0))
