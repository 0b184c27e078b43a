"""DCI by regression: scores, error per factor, importances, and the options chosen on validation samples."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from jaxdis._core.options import Count, Cuts, Depth, Depths, NonNegative, Penalties
from jaxdis._core.spec import metric
from jaxdis._learners.linear import PENALTIES
from jaxdis.factors import Codes, Factors, Sample
from jaxdis.relations._learned import lasso_importance
from jaxdis.relations._relation import Relation
from jaxdis.relations._tree_importances import random_forest
from jaxdis.scores._entropies import entropy

# The depths that forests of continuous factors choose among.
DEPTHS = tuple(range(4, 21, 2))


class Regression(NamedTuple):
    """Disentanglement, completeness and error as Eastwood & Williams (2018) print them.

    Attributes:
      score: ``[]``, mean of ``error``.
      disentanglement: ``[]``, weighted mean of ``per_code``.
      completeness: ``[]``, mean of ``per_factor``.
      per_code: ``[d]``, disentanglement of each code.
      per_factor: ``[k]``, completeness of each factor.
      error: ``[k]``, root-mean-square error on the test samples divided by the factor's standard deviation among them.
      importance: ``[d, k]``, of each code in the prediction of each factor.
      chosen: ``[k]``, the penalty or depth chosen for each factor on validation samples; NaN if none was.
    """

    score: Float[Array, ""]
    disentanglement: Float[Array, ""]
    completeness: Float[Array, ""]
    per_code: Float[Array, " d"]
    per_factor: Float[Array, " k"]
    error: Float[Array, " k"]
    importance: Float[Array, "d k"]
    chosen: Float[Array, " k"]


@metric(errors=("score", "error"), chooses="penalty")
def lasso_regression(
    codes: Codes,
    factors: Factors,
    *,
    test: Sample,
    validation: Sample | None = None,
    penalty: NonNegative | Penalties = PENALTIES,
    active: Bool[Array, " d"] | None = None,
) -> Regression:
    """DCI by a lasso; if the test samples lie in a region that training leaves out, this is zero-shot transfer.

    Shapes: codes ``[n, d]``, factors ``[n, k]``, test codes ``[m, d]``, validation codes ``[v, d]``.

    Options:
      penalty: as in :func:`jaxdis.relations.lasso_importance`.

    Contract:

    - As :func:`jaxdis.relations.lasso_importance`. Completeness is the plain mean over factors.
    - Errors are at least 0; 1 is reached by predicting the mean of the test samples. Inside a narrow region a factor
      varies less, so that an equal error weighs more.

    Reference: Eastwood & Williams 2018, §4.3, and appendix B.2 for zero-shot transfer (penalty chosen on a development
    set; their notebook fixes 0.02).
    """
    relation = lasso_importance(codes, factors, test=test, validation=validation, penalty=penalty, active=active)
    return _in_full(relation, 1 - relation.fit)


@metric(errors=("score", "error"), chooses="depth")
def forest_regression(
    key: PRNGKeyArray,
    codes: Codes,
    factors: Factors,
    *,
    test: Sample,
    validation: Sample | None = None,
    trees: Count = 10,
    depth: Depth | Depths = DEPTHS,
    max_bins: Cuts = 256,
    active: Bool[Array, " d"] | None = None,
) -> Regression:
    """DCI by random forests; if the test samples lie in a region that training leaves out, this is zero-shot transfer.

    Shapes: as in :func:`lasso_regression`.

    Options:
      trees, depth, max_bins: as in :func:`jaxdis.relations.random_forest`.

    Contract:

    - As :func:`jaxdis.relations.random_forest`, and errors as in :func:`lasso_regression`.
    - With 256 bins, the error of a factor that is a code is below 0.02.

    Reference: Eastwood & Williams 2018, §4.3, and appendix B.2 for zero-shot transfer.
    """
    options = {"trees": trees, "depth": depth, "max_bins": max_bins, "active": active}
    relation = random_forest(key, codes, factors, test=test, validation=validation, **options)
    varied = test.factors.values.max(axis=0) > test.factors.values.min(axis=0)
    return _in_full(relation, jnp.where(varied, 1 - relation.fit, jnp.nan))


def _in_full(relation: Relation, error: Float[Array, " k"]) -> Regression:
    scores = entropy(relation, completeness="mean")
    chosen = jnp.full(error.shape, jnp.nan) if relation.chosen is None else relation.chosen
    error = jnp.where(relation.ceiling > 0, error, jnp.nan)
    both = scores.disentanglement, scores.completeness, scores.per_code, scores.per_factor
    return Regression(jnp.nanmean(error), *both, error, relation.strength, chosen)
