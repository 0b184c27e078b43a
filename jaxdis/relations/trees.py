"""Relations read off trees: how much each code lowers the error of boosted trees or of a forest."""

import jax.numpy as jnp
from jaxtyping import Array, Bool

from jaxdis.learners.boosting import Splitter, accuracy, fit_boosting
from jaxdis.relations.relation import Relation, finite_codes
from jaxdis.typing import Codes, Factors, Sample, Weights


def boosted_trees(
    codes: Codes,
    factors: Factors,
    *,
    test: Sample,
    splitter: Splitter = "exact",
    max_bins: int = 64,
    stages: int = 100,
    rate: float = 0.1,
    depth: int = 3,
    weights: Weights | None = None,
    active: Bool[Array, " d"] | None = None,
) -> Relation:
    """Importance of each code in gradient-boosted trees from all codes to each factor: shares that sum to 1 per factor.

    ``strength[i, j]``: decrease of squared error at the splits on code ``i`` over all trees of factor ``j``, divided by
    that of all codes; ``ceiling`` is 1; ``fit[j]`` is the accuracy on the test samples (for a continuous factor
    ``1 − RMSE / σ``). See :func:`jaxdis.learners.boosting.fit_boosting`.

    Shapes: codes ``[n, d]``, factors ``[n, k]``, test codes ``[m, d]``, weights ``[n]``.
    Contract: in [0, 1]; a constant code's row is 0, and a column is 0 where no tree was split; a non-finite code is left
    out of the trees and makes ``fit`` NaN, as is (without the NaN) one that is not active; deterministic.

    Reference: Locatello et al. 2020, §4.2.5 and App. (scikit-learn's ``GradientBoostingClassifier``, whose defaults
    these are).
    """
    codes, held_out, finite = _clean(codes, test.codes, active)
    found = fit_boosting(
        codes,
        factors.values,
        factors.sizes,
        held_out,
        splitter=splitter,
        max_bins=max_bins,
        stages=stages,
        rate=rate,
        depth=depth,
        weights=weights,
    )
    fit = accuracy(found.test, test.factors.values, factors.sizes)
    return _relation(found.importance, fit, factors, weights, active, finite)


def _clean(codes, held_out, active):
    """Codes that are not finite or not active stand still; which are finite."""
    finite = finite_codes(codes) & finite_codes(held_out)
    kept = finite if active is None else finite & active
    return jnp.where(kept[None], codes, 0.0), jnp.where(kept[None], held_out, 0.0), finite


def _relation(importance, fit, factors: Factors, weights, active, finite):
    values = factors.values.astype(jnp.float32)
    counted = jnp.ones((values.shape[0], 1), bool) if weights is None else (weights > 0)[:, None]
    low = jnp.where(counted, values, jnp.inf).min(axis=0)
    high = jnp.where(counted, values, -jnp.inf).max(axis=0)
    fit = jnp.where(finite.all(), fit, jnp.nan)
    return Relation.of(importance, (high > low).astype(jnp.float32), fit=fit, active=active, finite=finite)
