"""Areas under ROC curves, for all rows at once."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxdis.arrays import ordered_keys

# Longer runs of equal scores are counted by cumulative sums, shorter ones by comparing neighbors.
FEW_TIES = 4


def roc_auc(scores: Float[Array, "c n"], positive: Bool[Array, "c n"]) -> Float[Array, " c"]:
    """Area under the ROC curve of each row, where ties count half; NaN for a row with a single class.

    One sort of integer keys with the label in the lowest bit, so that scores are resolved to 2⁻²² of their value. Rows
    are read one after another, which stays in cache and is faster on CPU.
    """
    return jax.lax.map(lambda row: _area(*row), (scores, positive))


def _area(scores: Float[Array, " n"], positive: Bool[Array, " n"]) -> Float[Array, ""]:
    keys = jax.lax.sort((ordered_keys(scores) & ~1) | positive.astype(jnp.int32), is_stable=True)
    label = (keys & 1).astype(jnp.float32)
    score = keys >> 1
    ones, zeros = label.sum(), (1 - label).sum()
    # A positive beats every negative before it: as many as its place minus the positives before it. A tie, where
    # negatives come first, counts half a win too many.
    wins = label @ jnp.arange(len(scores), dtype=jnp.float32) - ones * (ones - 1) / 2

    def few(_):
        return sum((_ties(score, by) * (1 - label[:-by]) * label[by:]).sum() for by in range(1, FEW_TIES))

    tied = jax.lax.cond(_ties(score, FEW_TIES).any(), lambda _: _tied_pairs(score, label), few, None)
    return jnp.where(ones * zeros > 0, (wins - tied / 2) / jnp.maximum(ones * zeros, 1.0), jnp.nan)


def _ties(score: Int[Array, " n"], by: int) -> Float[Array, " m"]:
    """1 where a sorted score equals the one ``by`` places later."""
    return (score[by:] == score[:-by]).astype(jnp.float32)


def _tied_pairs(score: Int[Array, " n"], label: Float[Array, " n"]) -> Float[Array, ""]:
    """How many pairs of a negative and a positive have equal scores; scores are sorted."""
    negatives = jnp.cumsum(1 - label)
    first = jnp.concatenate([jnp.ones(1, bool), score[1:] != score[:-1]])
    before = jax.lax.cummax(jnp.where(first, negatives - (1 - label), 0.0))
    return (label * (negatives - before)).sum()
