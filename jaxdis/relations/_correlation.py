"""Linear relations: squared correlation, and absolute Pearson or Spearman correlation, or cosine."""

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jaxdis._core import arrays
from jaxdis._core.spec import metric
from jaxdis._learners.classes import Groups, one_hot_of
from jaxdis.factors import Codes, Factors, Weights
from jaxdis.relations._relation import Relation, by_code

Kind = Literal["pearson", "spearman", "cosine"]
# Sine and cosine with a smaller share of variance of their own are one column.
COLLINEAR = 1e-4


@metric(of_values=True)
@by_code
def correlation(
    codes: Codes,
    factors: Factors,
    *,
    kind: Kind = "pearson",
    weights: Weights | None = None,
    active: Bool[Array, " d"] | None = None,
) -> Relation:
    """Correlate each code with each factor's class number or value: the absolute correlation.

    ``strength[i, j] = |Cov(code i, factor j)| / (σ σ)``; ``ceiling`` is 1.

    Shapes: codes ``[n, d]``, factors ``[n, k]``, weights ``[n]``.

    Options:
      kind: ``"pearson"``, ``"spearman"`` to correlate mid-ranks, or ``"cosine"``, which does not center: ``|Σ z y| /
        √(Σ z² Σ y²)``, as directions in two dictionaries are compared (:func:`jaxdis.metrics.matched_cosine`).

    Contract:

    - In [0, 1]; a constant code's row is 0 (by cosine, that of a code that is 0). Deterministic.
    - Pearson is invariant under affine maps, Spearman under monotone ones, cosine under multiples, code by code.
    - The order of class numbers matters. A nominal factor has the multiple correlation with indicators for its ``v``
      classes (the correlation ratio), which depends on no order; noise has about ``√((v − 1) / n)``.
    - A circular factor has the multiple correlation with its sine and cosine. By cosine, the code's angle to the plane
      that both span counts, and for a nominal factor that to the span that its indicators have.

    Reference: the relation in MCC (Hyvärinen & Morioka 2016, §5).
    """
    strength, code_deviation, factor_deviation = _correlations(codes, factors, weights, kind)
    return _relation(strength, codes, code_deviation, factor_deviation, active)


@metric(of_values=True)
@by_code
def r2(
    codes: Codes, factors: Factors, *, weights: Weights | None = None, active: Bool[Array, " d"] | None = None
) -> Relation:
    """Compute the share of a factor's variance that one code explains linearly: the squared correlation.

    ``strength[i, j] = Cov² / (Var Var)``, 0 where the code's standard deviation is at most 1e-6; ``ceiling`` is 1.

    Shapes: codes ``[n, d]``, factors ``[n, k]``, weights ``[n]``.

    Contract:

    - In [0, 1]; a constant code's row is 0. Deterministic.
    - Invariant under affine maps, code by code, except for the absolute threshold, which is kept from the reference.
    - For a circular factor, how much of the code's variance its sine and cosine explain, and for a nominal one, how
      much the class does.

    Reference: Kumar et al. 2018, §4 (SAP for continuous factors); Locatello et al. 2020, §4.2.6. Both papers take
    classification accuracy for discrete factors; other libraries call the squared correlation with class numbers SAP
    for any factor.
    """
    strength, code_deviation, factor_deviation = _correlations(codes, factors, weights, "pearson")
    code_deviation = jnp.where(code_deviation > 1e-6, code_deviation, 0.0)
    return _relation(strength**2, codes, code_deviation, factor_deviation, active)


def _relation(strength, codes, code_deviation, factor_deviation, active):
    strength = jnp.where((code_deviation > 0)[:, None], strength, 0.0)
    ceiling = jnp.where(factor_deviation > 0, 1.0, 0.0)
    return Relation.of(strength, ceiling, active=active, finite=arrays.finite_codes(codes))


def _correlations(codes, factors: Factors, weights, kind):
    """Weighted absolute correlations ``[d, k]`` and the deviations; 0 for a column that is constant up to rounding."""
    values = factors.values.astype(jnp.float32)
    if kind == "spearman":
        codes, values = mid_ranks(codes, weights), mid_ranks(values, weights)
    unit = length_one if kind == "cosine" else _unit
    codes, code_deviation = unit(codes, weights)
    around = [j for j, period in enumerate(factors.periods or ()) if period is not None]
    units, factor_deviation = unit(values, weights)
    even = jnp.ones(codes.shape[0]) if weights is None else weights
    strength = jnp.abs(_products(codes, units, even))
    for j in around:
        angle = jnp.mod(factors.values[:, j], factors.periods[j]) * np.float32(2 * np.pi / factors.periods[j])
        waves, deviations = unit(jnp.stack([jnp.sin(angle), jnp.cos(angle)], axis=1), weights)
        strength = strength.at[:, j].set(_multiple(_products(codes, waves, even), _products(waves, waves, even)))
        factor_deviation = factor_deviation.at[j].set(deviations.max())
    if nominal := [j for j, each in enumerate(factors.nominal or ()) if each]:
        among = factors.select(nominal)
        hot, member = one_hot_of(among.values.astype(jnp.int32), among.sizes), Groups.of(among.sizes).member
        shares = arrays.weighted_mean(hot, even)
        ratio = arrays.safe_divide(
            _products(codes, hot, even) ** 2, jnp.broadcast_to(shares, (codes.shape[1], len(shares)))
        )
        strength = strength.at[:, np.array(nominal)].set(jnp.sqrt(ratio @ member))
        factor_deviation = factor_deviation.at[np.array(nominal)].set(jnp.sqrt((shares * (1 - shares)) @ member))
    return jnp.minimum(strength, 1.0), code_deviation, factor_deviation


def _products(left, right, weights):
    """Weighted mean products between unit columns: correlations."""
    return arrays.product_over_samples(left, weights[:, None] * right) / weights.sum()


def _multiple(strength: Float[Array, "d 2"], among: Float[Array, "2 2"]) -> Float[Array, " d"]:
    """Multiple correlation with two columns, from that with each, ``a`` and ``b``, and between the two, ``r``.

    ``R² = (a² + b² − 2 a b r) / (1 − r²)``. Two columns that say the same, as at angles 0° and 180°, are one.
    """
    (a, b), r = strength.T, among[0, 1]
    left = 1 - r**2
    both = (a**2 + b**2 - 2 * a * b * r) / jnp.where(left > COLLINEAR, left, 1.0)
    return jnp.sqrt(jnp.maximum(jnp.where(left > COLLINEAR, both, jnp.maximum(a**2, b**2)), 0.0))


def _unit(columns, weights):
    """Columns centered and divided by their standard deviation (0 for a constant one), and that deviation.

    No weights stay None: XLA searches constant ones for the first above 0 when it compiles, 3 s for a million samples.
    """
    mean, deviation = arrays.moments(columns, weights)
    unit = jnp.where(deviation > 0, deviation, 1.0)
    counted = (deviation > 0)[None, :] if weights is None else (deviation > 0)[None, :] & (weights > 0)[:, None]
    columns = jnp.where(counted, (columns - mean[None, :]) / unit[None, :], 0.0)
    return columns, deviation


def length_one(columns, weights=None):
    """Columns divided by their root mean square (0 for a column of zeros), and that root."""
    even = jnp.ones(columns.shape[0]) if weights is None else weights
    largest = jnp.where(even[:, None] > 0, jnp.abs(columns), 0.0).max(axis=0)
    within = arrays.safe_divide(columns, jnp.broadcast_to(largest, columns.shape))  # squares would leave float32
    root = jnp.sqrt((even[:, None] * within**2).sum(axis=0) / even.sum())
    return arrays.safe_divide(within, jnp.broadcast_to(root, columns.shape)), root * largest


def mid_ranks(columns: Float[Array, "n c"], weights: Weights | None = None) -> Float[Array, "n c"]:
    """Each column's values as ranks; ties share the mean rank. Weighted: the weight below plus half the ties'."""

    def one(column, ordered):
        if weights is None:
            low = jnp.searchsorted(ordered, column, side="left")
            high = jnp.searchsorted(ordered, column, side="right")
            return (low + high - 1).astype(jnp.float32) / 2
        cumulative = jnp.concatenate(
            [jnp.zeros(1), jnp.cumsum(weights[arrays.stable_order(arrays.ordered_keys(column))])]
        )
        low = cumulative[jnp.searchsorted(ordered, column, side="left")]
        high = cumulative[jnp.searchsorted(ordered, column, side="right")]
        return (low + high) / 2

    return jax.vmap(one, 1, 1)(columns, arrays.sort_columns(columns))
