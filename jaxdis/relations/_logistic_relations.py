"""Relations from logistic regression: how well one code predicts a factor, and how much a model relies on each code."""

from typing import Literal

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jaxdis._core.arrays import safe_divide
from jaxdis._core.loops import each
from jaxdis._core.options import Positive
from jaxdis._core.spec import metric
from jaxdis._learners.classes import Groups, one_hot_of
from jaxdis._learners.linear import standardized
from jaxdis._learners.logistic import fit_logistic, log_probabilities, predict
from jaxdis.factors import Codes, Factors, Sample
from jaxdis.relations._correlation import r2
from jaxdis.relations._relation import Relation, by_code
from jaxdis.relations._samples import Samples, indicators, read, varied


@by_code
def logistic_accuracy(
    codes: Codes,
    factors: Factors,
    *,
    test: Sample,
    inverse_penalty: Positive = 1.0,
    active: Bool[Array, " d"] | None = None,
) -> Relation:
    """Fit logistic regression to one standardized code: held-out accuracy; squared correlation if continuous.

    ``strength[i, j]``: how often factor ``j``'s class is the most probable one given code ``i`` in held-out samples;
    ``ceiling`` is 1. For a continuous factor, the squared correlation on the training samples
    (:func:`jaxdis.relations.r2`).

    Shapes: codes ``[n, d]``, factors ``[n, k]``, test codes ``[m, d]``.

    Options:
      inverse_penalty: scikit-learn's ``C``; larger values regularize less.

    Contract:

    - In [0, 1]; invariant under affine maps, code by code; deterministic.
    - A constant code's row is the most frequent training class's frequency, not 0.
    - A factor with one value in training or in the held-out samples has ceiling 0: scores leave it out.
    - Classes that do not occur in training are never predicted. Codes are fitted one after another: memory is that of
      one.

    Reference: the matrix in Kumar et al. 2018, §4, with logistic regression (scikit-learn's defaults, fitted to the
    optimum) in place of the support vector machine.
    """
    linear = r2(codes, factors, active=active)
    samples = read(codes, factors, test, active)

    def alone(code):
        train, held_out = code
        model = fit_logistic(train[:, None], samples.classes, samples.sizes, inverse_penalty=inverse_penalty)
        right = predict(model, held_out[:, None], samples.sizes) == samples.truth
        return right.astype(jnp.float32).mean(axis=0)

    table = each(alone, tuple(sample.T for sample in _standardized(samples)))
    discrete = np.array([size is not None for size in factors.sizes])
    table = jnp.where(discrete[None, :], table, linear.strength)
    ceiling = jnp.where(varied(test.factors.values), linear.ceiling, 0.0)
    return Relation.of(table, ceiling, active=active, finite=samples.finite)


@metric(needs_classes=True)
def logistic_importance(
    codes: Codes,
    factors: Factors,
    *,
    test: Sample,
    inverse_penalty: Positive = 1.0,
    informativeness: Literal["accuracy", "nrmse"] = "accuracy",
    active: Bool[Array, " d"] | None = None,
) -> Relation:
    """Fit multinomial logistic regression to all standardized codes: absolute coefficients, averaged over classes.

    ``strength[i, j] = mean_c |w_ic|`` over factor ``j``'s classes that occur; ``ceiling`` is 1, which coefficients may
    exceed. ``fit[j]`` is measured on held-out samples.

    Shapes: codes ``[n, d]``, factors ``[n, k]``, test codes ``[m, d]``.

    Options:
      inverse_penalty: scikit-learn's ``C``; larger values regularize less.
      informativeness: what ``fit`` is. ``"accuracy"``: how often samples are classified correctly. ``"nrmse"``: ``1 −
        RMSE / σ`` for the expected class number, or a nominal factor's class probabilities (1 is perfect, 0 no
        better than the mean).

    Contract:

    - A constant code's row is 0. Invariant under affine maps, code by code. Deterministic.
    - The model leaves out a non-finite code, which makes ``fit`` NaN.
    - A factor with one value in the held-out samples has no ``fit``: scores leave it out of informativeness.
    - A continuous factor has strength and ceiling 0 and no fit: scores leave it out.

    Reference: Eastwood & Williams 2018, §2, with the regressor exchanged for a classifier.
    """
    samples = read(codes, factors, test, active)
    inputs, held_out = _standardized(samples)
    model = fit_logistic(inputs, samples.classes, samples.sizes, inverse_penalty=inverse_penalty)
    occurs = one_hot_of(samples.classes, samples.sizes).any(axis=0).astype(jnp.float32)
    weights = [
        jnp.abs(model.coefficients[:, part]) @ occurs[part] / occurs[part].sum()
        for part in Groups.of(samples.sizes).slices()
    ]
    fit = samples.by_factor(_fit(model, held_out, samples, test.factors, informativeness))
    ceiling = samples.usable.astype(jnp.float32)
    return Relation.of(jnp.stack(weights, axis=1), ceiling, fit=fit, active=active, finite=samples.finite)


def _standardized(samples: Samples) -> tuple[Float[Array, "n d"], Float[Array, "m d"]]:
    return standardized(samples.train), standardized(samples.held_out, like=samples.train)


def _fit(model, held_out, samples: Samples, factors: Factors, informativeness) -> Float[Array, " k"]:
    sizes = samples.sizes
    if informativeness == "accuracy":
        return (predict(model, held_out, sizes) == samples.truth).astype(jnp.float32).mean(axis=0)
    probability = jnp.exp(log_probabilities(model, held_out, sizes))
    truth, groups = indicators(factors)
    expected = [
        probability[:, part] if nominal > 1 else (probability[:, part] @ jnp.arange(size, dtype=jnp.float32))[:, None]
        for part, size, nominal in zip(Groups.of(sizes).slices(), sizes, groups.sizes, strict=True)
    ]
    return one_minus_nrmse(jnp.concatenate(expected, axis=1), truth, groups.member)


def one_minus_nrmse(
    predicted: Float[Array, "n c"], truth: Float[Array, "n c"], member: Float[np.ndarray, "c k"]
) -> Float[Array, " k"]:
    """``1 − RMSE / σ(truth)`` over each factor's columns: 1 is perfect, 0 no better than the mean, NaN if constant."""
    error = jnp.sqrt(((predicted - truth) ** 2).mean(axis=0) @ member)
    deviation = jnp.sqrt(truth.var(axis=0) @ member)
    return jnp.where(deviation > 0, 1 - safe_divide(error, deviation), jnp.nan)
