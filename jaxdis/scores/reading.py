"""How every score reads a relation: which factors count, and means that leave the others out."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxdis.relations.relation import Relation


class Reading(NamedTuple):
    """A relation with one-valued factors set to 0 and marked. Rows of non-finite codes stay NaN.

    ``strength [d, k]``; ``ceiling [k]``, 1 in place of a one-valued factor's 0; ``valid [k]``; ``active [d]``;
    ``num_factors`` and ``num_codes``, how many of each count.
    """

    strength: Float[Array, "d k"]
    ceiling: Float[Array, " k"]
    valid: Bool[Array, " k"]
    active: Bool[Array, " d"]
    num_factors: Float[Array, ""]
    num_codes: Float[Array, ""]


def read(relation: Relation) -> Reading:
    valid = relation.ceiling > 0
    return Reading(
        jnp.where(valid[None, :], relation.strength, 0.0),
        jnp.where(valid, relation.ceiling, 1.0),
        valid,
        relation.active,
        valid.sum().astype(jnp.float32),
        relation.active.sum().astype(jnp.float32),
    )


def mean_over_factors(values: Float[Array, " k"], reading: Reading) -> Float[Array, ""]:
    """Mean over the factors that have more than one value; NaN when none has."""
    return jnp.where(reading.valid, values, 0.0).sum() / reading.num_factors


def mean_over_codes(values: Float[Array, " d"], reading: Reading) -> Float[Array, ""]:
    """Mean over the active codes; 0 if none is active, since nothing is then represented."""
    return jnp.where(reading.active, values, 0.0).sum() / jnp.maximum(reading.num_codes, 1.0)


def only_valid(values: Float[Array, " k"], reading: Reading) -> Float[Array, " k"]:
    """Values per factor, NaN for a one-valued factor."""
    return jnp.where(reading.valid, values, jnp.nan)


def top_two_gap(matrix: Float[Array, "r c"], axis: int) -> Float[Array, " ..."]:
    """Largest minus second largest along an axis; the second is 0 if there is only one. NaN if any entry is NaN."""
    matrix = jnp.moveaxis(matrix, axis, -1)
    best = matrix.max(axis=-1)
    if matrix.shape[-1] == 1:
        return best
    first = jnp.argmax(matrix, axis=-1)
    others = jnp.where(jnp.arange(matrix.shape[-1])[None, :] == first[:, None], -jnp.inf, matrix)
    return best - others.max(axis=-1)
