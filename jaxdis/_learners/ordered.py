"""Searches that nearest-neighbor estimates use: counts around points of a sorted column, and the k smallest values."""

import jax.numpy as jnp
from jax.scipy.special import digamma
from jaxtyping import Array, Bool, Float, Int

from jaxdis._core.kernels.entries import entries_at
from jaxdis._core.loops import unrolled

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

    Args:
      closed: whether the ball includes its boundary.
      start, stop: for each center, the range of the column to count in.
    """
    below = _count_below(ordered, center, -radius, not closed, start, stop)
    # The open ball of radius 0 is empty.
    return jnp.maximum(_count_below(ordered, center, radius, closed, start, stop) - below, 0)


def tied_range(ordered: Float[Array, " n"], center, offset) -> dict[str, Int[Array, " n"]]:
    """``start`` and ``stop`` of the values in a sorted column that lie exactly ``offset`` from each ``center``."""
    start, stop = (_count_below(ordered, center, offset, inclusive, None, None) for inclusive in (False, True))
    return {"start": start, "stop": stop}


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

    return unrolled(halve, [1 << bit for bit in reversed(range(n.bit_length()))], first) - first


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
