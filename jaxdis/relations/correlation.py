"""Linear relations: squared correlation, and absolute Pearson or Spearman correlation."""

from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxdis.arrays import product_over_samples, weighted_mean
from jaxdis.relations.relation import Relation, finite_codes
from jaxdis.typing import Codes, Factors, Weights


def correlation(
    codes: Codes,
    factors: Factors,
    *,
    kind: Literal["pearson", "spearman"] = "pearson",
    weights: Weights | None = None,
    active: Bool[Array, " d"] | None = None,
) -> Relation:
    """Absolute correlation of each code with each factor's class number or value.

    ``strength[i, j] = |Cov(code i, factor j)| / (σ σ)``, of mid-ranks when ``kind="spearman"``; ``ceiling`` is 1.
    Shapes: codes ``[n, d]``, factors ``[n, k]``, weights ``[n]``.

    Contract: in [0, 1]; a constant code's row is 0; deterministic; Pearson is invariant under affine maps of a code,
    Spearman under monotone ones. The order of class numbers matters: it means little for a factor such as shape.

    Reference: the relation under MCC (Hyvärinen & Morioka 2016, §5).
    """
    covariance, code_variance, factor_variance = _moments(codes, factors.values.astype(jnp.float32), weights, kind)
    scale = jnp.sqrt(code_variance[:, None] * factor_variance[None, :])
    strength = jnp.abs(covariance) / jnp.where(scale > 0, scale, 1.0)
    return _relation(jnp.minimum(strength, 1.0), codes, code_variance, factor_variance, active)


def r2(
    codes: Codes,
    factors: Factors,
    *,
    weights: Weights | None = None,
    active: Bool[Array, " d"] | None = None,
) -> Relation:
    """Share of a factor's variance that a line in one code explains: the squared correlation.

    ``strength[i, j] = Cov² / (Var Var)``; 0 where the code's variance is at most 1e-12; ``ceiling`` is 1.
    Shapes: codes ``[n, d]``, factors ``[n, k]``, weights ``[n]``.

    Contract: in [0, 1]; a constant code's row is 0; deterministic; invariant under affine maps of a code (but for the
    absolute threshold, kept from the reference).

    Reference: Kumar et al. 2018, §4 (SAP for continuous factors); Locatello et al. 2020, §4.2.6. Both papers take
    classification accuracy for discrete factors; the squared correlation of class numbers is what other libraries call
    SAP for any factor.
    """
    covariance, code_variance, factor_variance = _moments(codes, factors.values.astype(jnp.float32), weights, "pearson")
    scale = code_variance[:, None] * factor_variance[None, :]
    strength = covariance**2 / jnp.where(scale > 0, scale, 1.0)
    code_variance = jnp.where(code_variance > 1e-12, code_variance, 0.0)
    return _relation(jnp.minimum(strength, 1.0), codes, code_variance, factor_variance, active)


def _relation(strength, codes, code_variance, factor_variance, active):
    strength = jnp.where((code_variance > 0)[:, None], strength, 0.0)
    ceiling = jnp.where(factor_variance > 0, 1.0, 0.0)
    return Relation.of(strength, ceiling, active=active, finite=finite_codes(codes))


def _moments(codes, values, weights, kind):
    """Weighted covariance ``[d, k]`` and the variances; what rounding leaves of a constant counts as none."""
    if kind == "spearman":
        codes, values = mid_ranks(codes, weights), mid_ranks(values, weights)
    weights = jnp.ones(codes.shape[0]) if weights is None else weights
    codes, code_variance = _centred(codes, weights)
    values, factor_variance = _centred(values, weights)
    covariance = product_over_samples(codes, weights[:, None] * values) / weights.sum()
    return covariance, code_variance, factor_variance


def _centred(columns, weights):
    size = jnp.max(jnp.where(weights[:, None] > 0, jnp.abs(columns), 0.0), axis=0)
    first = columns[jnp.argmax(weights > 0)]  # a shift near the data keeps the mean exact for a constant column
    columns = columns - first[None, :]
    columns = columns - weighted_mean(columns, weights)[None, :]
    variance = weighted_mean(columns**2, weights)
    rounding = (4 * jnp.finfo(columns.dtype).eps * size) ** 2
    return columns, jnp.where(variance > rounding, variance, 0.0)


def mid_ranks(columns: Float[Array, "n c"], weights: Weights | None = None) -> Float[Array, "n c"]:
    """Ranks of each column's values, ties sharing the middle; weighted: the weight below plus half of the ties'."""

    def one(column):
        ordered = jnp.sort(column)
        if weights is None:
            low = jnp.searchsorted(ordered, column, side="left")
            high = jnp.searchsorted(ordered, column, side="right")
            return (low + high - 1).astype(jnp.float32) / 2
        cumulative = jnp.concatenate([jnp.zeros(1), jnp.cumsum(weights[jnp.argsort(column)])])
        low = cumulative[jnp.searchsorted(ordered, column, side="left")]
        high = cumulative[jnp.searchsorted(ordered, column, side="right")]
        return (low + high) / 2

    return jax.vmap(one, 1, 1)(columns)
