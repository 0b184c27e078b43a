"""Relations from small learners: how well one code predicts a factor, or each code's weight in a linear model."""

from typing import Literal

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jaxdis._core.arrays import finite_codes, moments, safe_divide, sort_columns
from jaxdis._core.kernels.contingency import joint_tables
from jaxdis._core.loops import each
from jaxdis._core.options import Bins, NonNegative, Penalties, Positive
from jaxdis._core.spec import metric
from jaxdis._learners.classes import Groups, one_hot_of
from jaxdis._learners.linear import lasso_standardized, lasso_validated, standardized, standardized_error
from jaxdis._learners.logistic import fit_logistic, log_probabilities, predict
from jaxdis._learners.margins import fit_margins, lifted, margin_accuracy, sorted_sums
from jaxdis.factors import Codes, Factors, Sample
from jaxdis.relations._binning import equal_count_bins, factor_classes
from jaxdis.relations._correlation import r2
from jaxdis.relations._relation import Relation, Samples, by_code, candidates, indicators, read, varied


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


@metric(placed=True)
@by_code
def svm_accuracy(
    codes: Codes,
    factors: Factors,
    *,
    test: Sample,
    inverse_penalty: Positive = 0.01,
    balanced: bool = True,
    active: Bool[Array, " d"] | None = None,
) -> Relation:
    """Fit a linear support vector machine to one raw code: held-out accuracy; squared correlation if continuous.

    ``strength[i, j]``: how often the one-against-rest machines on code ``i`` predict factor ``j``'s class in held-out
    samples; ``ceiling`` is 1. The machines are those of scikit-learn's ``LinearSVC``, with squared hinge loss and a
    regularized intercept. For a continuous factor, strength is the squared correlation on the training samples
    (:func:`jaxdis.relations.r2`).

    Shapes: codes ``[n, d]``, factors ``[n, k]``, test codes ``[m, d]``.

    Options:
      inverse_penalty: scikit-learn's ``C``; larger values regularize less.
      balanced: whether samples from rare classes weigh more, so that all classes weigh the same. Without it, machines
        on most codes predict a frequent class alone, and the gap between codes says little.

    Contract:

    - In [0, 1]; deterministic. Depends on how codes are scaled, since slopes are penalized.
    - A constant code's row is not 0: always predicting the class whose machine has the largest intercept is right about
      as often as one class occurs.
    - Classes that do not occur in training are never predicted.
    - A factor with one value in training or in the held-out samples has ceiling 0: scores leave it out.

    Reference: Kumar et al. 2018, §4; Locatello et al. 2020, §4.2.6 (C = 0.01, balanced classes). The paper states
    prediction error; the released code takes accuracy, as this function does.
    """
    samples, linear = read(codes, factors, test, active), r2(codes, factors, active=active)
    train, held_out = lifted(samples.train, samples.held_out)
    ordered, columns = sorted_sums(train), []
    for j, size in enumerate(factors.sizes):
        if size is None:
            columns.append(linear.strength[:, j])
            continue
        model = fit_margins(
            train, samples.classes[:, j], size, ordered, inverse_penalty=inverse_penalty, balanced=balanced
        )
        columns.append(margin_accuracy(model, held_out, samples.truth[:, j]))
    ceiling = jnp.where(varied(test.factors.values), linear.ceiling, 0.0)
    return Relation.of(jnp.stack(columns, axis=1), ceiling, active=active, finite=samples.finite)


@metric(chooses="penalty", of_values=True, on_a_line=True)
def lasso_importance(
    codes: Codes,
    factors: Factors,
    *,
    test: Sample,
    validation: Sample | None = None,
    penalty: NonNegative | Penalties = 0.02,
    informativeness: Literal["accuracy", "nrmse"] = "nrmse",
    active: Bool[Array, " d"] | None = None,
) -> Relation:
    """Fit a lasso from all standardized codes to each standardized factor: absolute coefficients.

    ``strength[i, j] = |w_ij|``; ``ceiling`` is 1, which coefficients may exceed if codes correlate. ``fit[j]`` is
    measured on held-out samples. Class numbers are taken as values; a nominal factor's classes have an indicator each,
    and count by their variances.

    Shapes: codes ``[n, d]``, factors ``[n, k]``, test codes ``[m, d]``, validation codes ``[v, d]``.

    Options:
      penalty: weight of the L1 norm; or several to choose among.
      informativeness: what ``fit`` is. ``"nrmse"``: one minus the normalized root-mean-square error, ``1 − RMSE /
        σ(factor)`` on held-out samples (1 is perfect, 0 no better than the mean). ``"accuracy"``: how often the
        prediction is nearest to the true class number, or the true class has the largest one (NaN for a continuous
        factor).

    Contract:

    - A constant code's row is 0. Invariant under affine maps, code by code. Deterministic.
    - The model leaves out codes that are not finite or not active; the former makes ``fit`` NaN.
    - A factor with one value in the held-out samples has no ``fit``: scores leave it out of informativeness.
    - Of several penalties, the one with the smallest squared error on the validation samples is chosen for each factor
      (the largest one in a tie) and returned in ``chosen``. The model is fitted to the training samples alone.

    Reference: Eastwood & Williams 2018, §4.3 (penalty chosen on a development set; their notebook fixes 0.02). For
    their unweighted mean completeness use ``entropy`` with ``completeness="mean"``.
    """
    penalties, validation = candidates("penalty", penalty, validation)
    samples, chosen = read(codes, factors, test, active, validation), None
    (values, groups), (truth, _) = indicators(factors), indicators(test.factors)
    share = (moments(values)[1] ** 2)[:, None] * groups.member  # how much of a factor's variance each column has
    share = safe_divide(share, jnp.broadcast_to(share.sum(axis=0), share.shape))
    if validation is None:
        model = lasso_standardized(samples.train, values, penalties[0])
    else:
        goals, _ = indicators(validation.factors)
        given = samples.train, values, samples.validation, goals
        model, chosen, _ = lasso_validated(*given, penalties=penalties, together=share)
        chosen = (chosen[:, None] * share).sum(axis=0)
    predicted = truth - standardized_error(model, samples.held_out, truth).T * model.target_deviation[None, :]
    if informativeness == "nrmse":
        fit = one_minus_nrmse(predicted, truth, groups.member)
    else:
        named = [
            jnp.argmax(predicted[:, part], axis=1).astype(jnp.float32)
            if part.stop > part.start + 1
            else jnp.round(jnp.clip(predicted[:, part.start], 0, size - 1))
            for part, size in zip(groups.slices(), samples.sizes, strict=True)
        ]
        discrete = np.array([size is not None for size in factors.sizes])
        right = jnp.stack(named, axis=1) == test.factors.values.astype(jnp.float32)
        fit = jnp.where(discrete, right.mean(axis=0, dtype=jnp.float32), jnp.nan)
    fit = jnp.where(samples.finite.all() & varied(test.factors.values), fit, jnp.nan)
    strength, ceiling = jnp.abs(model.weights) @ share, varied(factors.values).astype(jnp.float32)
    return Relation.of(strength, ceiling, fit=fit, active=active, finite=samples.finite, chosen=chosen)


@by_code
def threshold_accuracy(
    codes: Codes, factors: Factors, *, bins: Bins | None = None, active: Bool[Array, " d"] | None = None
) -> Relation:
    """Compute the training accuracy when each equal-count interval along one code predicts its best class.

    ``strength[i, j] = Σ_b max_v n(b, v) / n``, how accurate a lookup by thresholds on code ``i`` is; ``ceiling`` is 1.

    Shapes: codes ``[n, d]``, factors ``[n, k]``.

    Options:
      bins: how many intervals; by default as many as the factor has values (20 for a continuous factor).

    Contract:

    - Between the most frequent class's frequency (reached by a constant code) and 1.
    - Invariant under increasing maps, code by code. Deterministic.
    - Several intervals may predict the same class, whereas single-neuron classification (Mahon et al. 2024, §4.2)
      matches intervals and classes one to one.
    """
    classes, sizes = factor_classes(factors, bins or 20)
    ordered = sort_columns(codes)
    columns = []
    for j, size in enumerate(sizes):
        number = equal_count_bins(ordered, codes, bins or size)
        table = joint_tables(number, bins or size, classes[:, np.array([j])], (size,))
        columns.append(table.max(axis=2).sum(axis=1) / codes.shape[0])
    several = jnp.array([classes[:, j].max() > classes[:, j].min() for j in range(len(sizes))]).astype(jnp.float32)
    return Relation.of(jnp.stack(columns, axis=1), several, active=active, finite=finite_codes(codes))
