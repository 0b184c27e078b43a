"""Small searches that nearest-neighbour estimates are made of: counts around points of a sorted column, k smallest."""

import jax
import jax.numpy as jnp
from jax.scipy.special import digamma
from jaxtyping import Array, Float, Int


def digamma_table(count: int) -> Float[Array, " c"]:
    """ψ of 0 … ``count``, with 0 in place of ψ(0)."""
    whole = jnp.arange(1, count + 1, dtype=jnp.float32)
    return jnp.concatenate([jnp.zeros(1, jnp.float32), digamma(whole)])


def count_nearer(ordered: Float[Array, " n"], centre, radius, *, closed: bool = False, start=None, stop=None):
    """How many of a sorted column lie in the ball of ``radius`` around each ``centre``; open unless ``closed``.

    Distances are differences of float32 values: ``x ≤ centre + radius`` would count the point that defines the radius.
    ``start`` and ``stop`` restrict the count of each centre to a range of the column.
    """
    below = _count_below(ordered, centre, -radius, not closed, start, stop)
    # The open ball of radius 0 is empty.
    return jnp.maximum(_count_below(ordered, centre, radius, closed, start, stop) - below, 0)


def _count_below(ordered, centre, offset, inclusive: bool, start, stop) -> Int[Array, " n"]:
    """How many values from ``start`` lie under ``centre + offset`` (or at it): a binary search without branches."""
    n = ordered.shape[0]
    first = jnp.zeros(centre.shape, jnp.int32) if start is None else start
    stop = jnp.int32(n) if stop is None else stop
    found = first
    for bit in reversed(range(n.bit_length())):
        candidate = found + (1 << bit)
        distance = ordered.at[jnp.minimum(candidate - 1, n - 1)].get(mode="promise_in_bounds") - centre
        lies_below = (distance <= offset) if inclusive else (distance < offset)
        found = jnp.where((candidate <= stop) & lies_below, candidate, found)
    return found - first


def insert(kept: tuple, value) -> tuple:
    """The ``k`` smallest seen so far, in order, after one more value; elementwise."""
    updated = []
    for held in kept:
        updated.append(jnp.minimum(held, value))
        value = jnp.maximum(held, value)
    return tuple(updated)


def kth_smallest(rows: Float[Array, "r n"], k: int, *, lanes: int = 16) -> Float[Array, " r"]:
    """The ``k``-th smallest of each row, ties counted; inf where a row has fewer finite entries."""
    r, n = rows.shape
    steps = -(-n // lanes)
    padded = jnp.pad(rows, ((0, 0), (0, steps * lanes - n)), constant_values=jnp.inf)

    def step(i, kept):
        return insert(kept, jax.lax.dynamic_slice(padded, (0, i * lanes), (r, lanes)))

    kept = jax.lax.fori_loop(0, steps, step, (jnp.full((r, lanes), jnp.inf, rows.dtype),) * k)
    return jnp.sort(jnp.concatenate(kept, axis=1), axis=1)[:, k - 1]


def expected_digamma(k, inside, inside_class, shell, shell_class):
    """``E ψ(m)`` over the order in which tied neighbours are met, ``m`` counting neighbours up to the k-th of class.

    ``inside`` neighbours lie nearer than the radius, ``inside_class`` of these of the sample's own class; ``shell`` lie
    at the radius, ``shell_class`` of the class; the sample itself counts nowhere. The position in the shell of the
    ``r``-th of the class, ``r = k − inside_class``, is negative hypergeometric. With nothing inside
    ``E ψ = ψ(k) + ψ(shell + 1) − ψ(shell_class + 1)`` exactly; else to second order. Without ties it is
    ``ψ(inside + 1)``.
    """
    k, inside, inside_class, shell, shell_class = (
        jnp.asarray(count).astype(jnp.float32) for count in (k, inside, inside_class, shell, shell_class)
    )
    rank = jnp.maximum(k - inside_class, 1.0)
    mean = rank * (shell + 1) / (shell_class + 1)
    missed = jnp.maximum(shell_class + 1 - rank, 0.0)
    variance = mean * (shell - shell_class) * missed / ((shell_class + 1) * (shell_class + 2))
    reached = jnp.maximum(inside + mean, 1.0)
    several = digamma(reached) - variance / (2 * reached**2)
    alone = digamma(jnp.maximum(k, 1.0)) + digamma(shell + 1) - digamma(shell_class + 1)
    return jnp.where(inside > 0, several, alone)
