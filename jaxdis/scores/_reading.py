"""How every score reads a relation: which factors count, and means that leave the others out."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxdis.relations._relation import Relation

# Strengths that differ by no more than this share of themselves are equal: sums over samples are rounded.
ROUNDING = 1e-5


class Reading(NamedTuple):
    """A relation with one-valued factors set to 0 and marked. Non-finite codes keep NaN rows.

    ``strength [d, k]``; ``ceiling [k]``, 1 in place of a one-valued factor's 0; ``valid [k]``; ``active [d]``;
    ``num_factors`` and ``num_codes``, how many count.
    """

    strength: Float[Array, "d k"]
    ceiling: Float[Array, " k"]
    valid: Bool[Array, " k"]
    active: Bool[Array, " d"]
    num_factors: Float[Array, ""]
    num_codes: Float[Array, ""]


def read(relation: Relation) -> Reading:
    valid = relation.ceiling > 0
    strength, ceiling = jnp.where(valid[None, :], relation.strength, 0.0), jnp.where(valid, relation.ceiling, 1.0)
    counts = (counted.sum().astype(jnp.float32) for counted in (valid, relation.active))
    return Reading(strength, ceiling, valid, relation.active, *counts)


def mean_over_factors(values: Float[Array, " k"], reading: Reading) -> Float[Array, ""]:
    """Mean over the factors that have more than one value; NaN when none has."""
    return jnp.where(reading.valid, values, 0.0).sum() / reading.num_factors


def mean_fit(fit: Float[Array, " k"] | None, reading: Reading) -> Float[Array, ""] | None:
    """Mean fit over the factors that have more than one value and a fit: on held-out samples a constant has none."""
    if fit is None:
        return None
    counted = reading.valid & ~jnp.isnan(fit)
    return jnp.where(counted, fit, 0.0).sum() / counted.sum().astype(jnp.float32)


def mean_over_codes(values: Float[Array, " d"], reading: Reading) -> Float[Array, ""]:
    """Mean over the active codes; 0 if none is active, since nothing is then represented."""
    return jnp.where(reading.active, values, 0.0).sum() / jnp.maximum(reading.num_codes, 1.0)


def only_valid(values: Float[Array, " k"], reading: Reading) -> Float[Array, " k"]:
    """Values per factor, NaN for a one-valued factor."""
    return jnp.where(reading.valid, values, jnp.nan)


def place_of_largest(rows: Float[Array, "r c"]) -> Int[Array, " r"]:
    """Return the first place in each row whose entry is the largest up to rounding; a NaN counts as the largest.

    Programs that round strengths otherwise must not choose another one among equal strengths, since what else is known
    about the chosen code or factor differs.
    """
    best = rows.max(axis=1, keepdims=True)
    return jnp.argmax((rows >= best - ROUNDING * jnp.abs(best)) | jnp.isnan(rows), axis=1).astype(jnp.int32)


def largest(matrix: Float[Array, "r c"], axis: int) -> Float[Array, " ..."]:
    """Largest entry along an axis, NaN if any is NaN, which XLA's maximum forgets on CPU among thousands of entries."""
    return jnp.where(jnp.isnan(matrix).any(axis=axis), jnp.nan, matrix.max(axis=axis))


def top_two_gap(matrix: Float[Array, "r c"], axis: int) -> Float[Array, " ..."]:
    """Largest minus second largest along an axis; the second is 0 if there is only one. NaN if any entry is NaN."""
    matrix = jnp.moveaxis(matrix, axis, -1)
    best = largest(matrix, axis=-1)
    if matrix.shape[-1] == 1:
        return best
    first = jnp.argmax(matrix, axis=-1)
    rest = jnp.where(jnp.arange(matrix.shape[-1])[None, :] == first[:, None], -jnp.inf, matrix)
    return best - rest.max(axis=-1)
