"""Relations from small learners: how well one code predicts a factor, each code's weight in a linear model, or how much
it reduces the error in boosted trees or a forest."""

import functools
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from jaxdis._core.arrays import finite_codes, moments, safe_divide, sort_columns, weighted_mean
from jaxdis._core.kernels.contingency import joint_tables
from jaxdis._core.loops import each
from jaxdis._core.options import Bins, Count, Cuts, Depth, Depths, NonNegative, Penalties, Positive
from jaxdis._core.spec import Spec, metric
from jaxdis._learners.boosting import Splitter, accuracy, fit_boosting, one_minus_error, without_weightless
from jaxdis._learners.classes import Groups, one_hot_of
from jaxdis._learners.forest import Criterion, fit_forest
from jaxdis._learners.linear import lasso_standardized, lasso_validated, standardized, standardized_error
from jaxdis._learners.logistic import fit_logistic, log_probabilities, predict
from jaxdis._learners.margins import fit_margins, lifted, margin_accuracy, sorted_sums
from jaxdis.factors import Codes, Factors, Sample, Weights
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


# Tables of fewer classes are filled up to so many.
FEW_CLASSES = 63


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
      balanced: whether all classes weigh the same. Where a class is rare, machines that know nothing then name one of
        two classes, either, for nine tenths of all samples, and SAP can be 0.5. Without it, machines on most codes name
        a frequent class alone, and the gap between codes says little.

    Contract:

    - In [0, 1]; deterministic. Depends on how codes are scaled, since slopes are penalized.
    - A constant code's row is not 0, but how often the class occurs whose machine has the largest intercept.
    - Classes that do not occur in training are never predicted.
    - A factor with one value in training or in the held-out samples has ceiling 0: scores leave it out.

    Reference: Kumar et al. 2018, §4; Locatello et al. 2020, §4.2.6 (C = 0.01, balanced classes). The paper states
    prediction error; the released code takes accuracy, as this function does.
    """
    samples, linear = read(codes, factors, test, active), r2(codes, factors, active=active)
    train, held_out = lifted(samples.train, samples.held_out)
    ordered, strength = sorted_sums(train), linear.strength
    # Factors of about as many classes are fitted by one program, which compiles in a fraction of the time of several.
    alike = [None if size is None else max(FEW_CLASSES, size).bit_length() for size in factors.sizes]
    for length in set(alike) - {None}:
        columns = np.flatnonzero(np.array(alike) == length)
        most = max(samples.sizes[column] for column in columns)

        def accuracy_of(factor, most=most):
            classes, truth = factor
            model = fit_margins(train, classes, most, ordered, inverse_penalty=inverse_penalty, balanced=balanced)
            return margin_accuracy(model, held_out, truth)

        found = each(accuracy_of, (samples.classes[:, columns].T, samples.truth[:, columns].T))
        strength = strength.at[:, columns].set(found.T)
    ceiling = jnp.where(varied(test.factors.values), linear.ceiling, 0.0)
    return Relation.of(strength, ceiling, active=active, finite=samples.finite)


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
    counts = sorted({bins or size for size in sizes})
    numbers = dict(zip(counts, equal_count_bins(sort_columns(codes), codes, counts), strict=True))
    columns = []
    for j, size in enumerate(sizes):
        table = joint_tables(numbers[bins or size], bins or size, classes[:, np.array([j])], (size,))
        columns.append(table.max(axis=2).sum(axis=1) / codes.shape[0])
    several = jnp.array([classes[:, j].max() > classes[:, j].min() for j in range(len(sizes))]).astype(jnp.float32)
    return Relation.of(jnp.stack(columns, axis=1), several, active=active, finite=finite_codes(codes))


@metric(on_a_line=True)
def boosted_trees(
    codes: Codes,
    factors: Factors,
    *,
    test: Sample,
    splitter: Splitter = "exact",
    max_bins: Cuts | None = None,
    stages: Count = 100,
    rate: Positive = 0.1,
    depth: Depth = 3,
    weights: Weights | None = None,
    active: Bool[Array, " d"] | None = None,
) -> Relation:
    """Measure each code's importance in gradient-boosted trees that predict each factor: shares summing to 1.

    ``strength[i, j]``: how much splits on code ``i`` reduce squared error over factor ``j``'s trees, divided by what
    all codes do; ``ceiling`` is 1; ``fit[j]`` is the accuracy on held-out samples (for a continuous factor ``1 − RMSE /
    σ``).

    Each stage fits one tree per class to the residuals ``y − p``, gives its leaves Newton's step and adds ``rate``
    times this step; two classes share one tree. A continuous factor is fitted by squared error.

    Shapes: codes ``[n, d]``, factors ``[n, k]``, test codes ``[m, d]``, weights ``[n]``.

    Options:
      splitter: ``"exact"`` considers every cut, ``"histogram"`` those between ``max_bins`` quantiles, which is faster.
        Take exact cuts if a factor is almost perfectly predictable, or has many values and is barely predictable: they
        isolate single samples, which bins cannot.
      max_bins: bins per code for ``"histogram"``; None: 64, and 128 for fewer than 4,000 samples.
      stages: trees per class (one for two classes).
      rate: learning rate.
      depth: depth of each tree.

    Contract:

    - In [0, 1]; a constant code's row is 0; a column is 0 if no tree has a split. Deterministic.
    - Trees leave out codes that are not finite or not active; the former makes ``fit`` NaN.
    - A factor with one value in the held-out samples has no ``fit``: scores leave it out of informativeness.
    - With exact splits, invariant under increasing maps, code by code, except for where thresholds lie, which affects
      ``fit``.
    - Compare importances only at equally many samples and stages and with the same splitter: each of them changes
      disentanglement and completeness.

    Reference: Locatello et al. 2020, §4.2.5 (scikit-learn's ``GradientBoostingClassifier``, whose defaults these are).
    """
    samples = read(codes, factors, test, active)
    options = {"splitter": splitter, "max_bins": max_bins, "stages": stages, "rate": rate, "depth": depth}
    given = samples.train, factors.values, factors.sizes, samples.held_out
    boosted = fit_boosting(*given, **options, weights=weights)
    fit = accuracy(boosted.test, test.factors.values, factors.sizes)
    fit = jnp.where(varied(test.factors.values), fit, jnp.nan)
    return _relation(boosted.importance, fit, factors, weights, active, samples.finite)


@metric(chooses="depth", of_values=True, on_a_line=True)
def random_forest(
    key: PRNGKeyArray,
    codes: Codes,
    factors: Factors,
    *,
    test: Sample,
    validation: Sample | None = None,
    criterion: Criterion = "variance",
    trees: Count = 10,
    depth: Depth | Depths = 12,
    choose_depth: bool = True,
    features: Count | Literal["sqrt"] | None = None,
    bootstrap: bool = True,
    max_bins: Cuts = 256,
    weights: Weights | None = None,
    active: Bool[Array, " d"] | None = None,
) -> Relation:
    """Measure each code's importance in random forests that predict each factor: shares summing to 1.

    ``strength[i, j]``: code ``i``'s share, on average over trees, in reducing impurity for factor ``j``; ``ceiling`` is
    1. Except for its bins, this is scikit-learn's ``RandomForestRegressor`` or ``RandomForestClassifier``.

    Shapes: codes ``[n, d]``, factors ``[n, k]``, test codes ``[m, d]``, validation codes ``[v, d]``, weights ``[n]``.

    Options:
      criterion: ``"variance"`` is regression on class numbers or values, or on indicators for a nominal factor's
        classes together, with ``fit`` the ``1 − RMSE / σ`` on held-out samples; ``"gini"`` and ``"entropy"`` are
        classification, with ``fit`` the accuracy (NaN for a continuous factor).
      trees: trees per forest.
      depth: largest depth; or several to choose among on validation samples.
      choose_depth: with a single ``depth``, choose for each factor the depth up to it with the smallest error on the
        training samples that a tree did not draw; needs ``bootstrap``.
      features: codes considered per split; all by default.
      bootstrap: draw each tree's samples with replacement.
      max_bins: cuts considered per code. With 64, disentanglement and completeness from 2,000 samples are .01 lower
        than with all cuts; with 256 they differ by less than their standard deviation over keys. For a continuous
        factor that codes determine exactly take 1,024.

    Contract:

    - As :func:`boosted_trees`; deterministic given the key. Code by code, invariant under increasing maps as long as
      there are no more samples than ``max_bins``, and under affine ones beyond.
    - Among several depths, the one with the smallest error on the validation samples is chosen for each factor: RMSE
      for ``"variance"``, otherwise how often the class is wrong (the smallest depth in a tie). It is returned in
      ``chosen``.
    - All depths come from one fit: a choice among several costs as much as the largest.

    Reference: Eastwood & Williams 2018, §4.3 (regressors with 10 trees, depth chosen on a development set); Dang-Nhu
    2022, App. C.4 (likewise, with depths up to 15). The former's notebook uses the depths chosen for its first model
    for all models; their paper describes importance by the number of splits, the released code by the reduction of
    impurity, as here.
    """
    depths, validation = candidates("depth", depth, validation)
    samples = read(codes, factors, test, active, validation)
    options = {"trees": trees, "features": features, "bootstrap": bootstrap, "max_bins": max_bins}
    grow = functools.partial(_grown, key, samples, depths=depths, choose_depth=choose_depth, weights=weights, **options)
    nominal = np.array(factors.nominal or (False,) * len(factors.sizes)) & (criterion == "variance")
    # Variance summed over indicators of all classes is Gini's impurity, whose forests predict these indicators.
    parts = [(part, given) for part, given in ((~nominal, criterion), (nominal, "gini")) if part.any()]
    found = []
    for part, given in parts:
        columns = np.flatnonzero(part).tolist()
        roles = [None if role is None else role.select(columns) for role in (factors, test.factors)]
        chosen_by = None if validation is None else validation.factors.select(columns)
        found.append(grow(*roles, chosen_by, criterion=given, squared=criterion == "variance"))
    order = np.argsort(np.concatenate([np.flatnonzero(part) for part, _ in parts]))
    importance, fit, chosen = (
        None if each[0] is None else jnp.concatenate(each, axis=-1)[..., order] for each in zip(*found, strict=True)
    )
    fit = jnp.where(varied(test.factors.values), fit, jnp.nan)
    importance = importance / jnp.where(importance.sum(axis=0) > 0, importance.sum(axis=0), 1.0)[None]
    if criterion != "variance":
        continuous = np.array([size is None for size in factors.sizes])
        importance = jnp.where(continuous[None], jnp.nan, importance)
        fit, chosen = jax.tree.map(lambda values: jnp.where(continuous, jnp.nan, values), (fit, chosen))
    return _relation(importance, fit, factors, weights, active, samples.finite, chosen)


def _grown(
    key,
    samples: Samples,
    factors: Factors,
    held_out: Factors,
    validation: Factors | None,
    *,
    criterion: Criterion,
    squared: bool,
    depths: tuple[int, ...],
    choose_depth: bool,
    weights,
    trees: int,
    bootstrap: bool,
    **options,
):
    """Forests for some factors: importances ``[d, k]``, ``fit [k]`` and chosen depths ``[k]``, or None."""
    codes = samples.train if weights is None else without_weightless(samples.train, weights)
    judged = samples.held_out if validation is None else jnp.concatenate([samples.held_out, samples.validation])
    discrete = [size for size in factors.sizes if size is not None]
    options["classes"] = None if criterion == "variance" else max([*discrete, 2])
    options |= {"criterion": criterion, "trees": trees, "depth": max(depths), "bootstrap": bootstrap}
    forest = fit_forest(key, codes, factors.values, judged, weights=weights, **options)
    errors = functools.partial(_errors, squared)
    cut, levels, compared = held_out.num_samples, np.arange(max(depths)), None
    if validation is not None:
        levels = np.unique(depths) - 1
        compared = errors(forest.test[:, levels, cut:] / trees, validation)
    elif choose_depth and bootstrap:
        seen = jnp.ones(codes.shape[0]) if weights is None else weights
        left_out = seen * (forest.left_out > 0).astype(jnp.float32)
        unseen = forest.unseen / jnp.maximum(forest.left_out, 1.0)[None, None, :, None]
        compared = errors(unseen, factors, left_out)
    pick = jnp.arange(len(factors.sizes))
    best = jnp.full(len(pick), -1) if compared is None else jnp.argmin(compared, axis=1)
    level = jnp.asarray(levels)[best]
    chosen = None if compared is None else (level + 1).astype(jnp.float32)
    fit = 1 - errors(forest.test[pick, level, :cut][:, None] / trees, held_out)[:, 0]
    return forest.importance[pick, level].T, fit, chosen


def _errors(squared: bool, outputs: Float[Array, "k l n p"], factors: Factors, weights=None) -> Float[Array, "k l"]:
    """How far mean predictions err at every depth: RMSE / σ for values or indicators, or how often a class is wrong."""
    weights = jnp.ones(factors.num_samples) if weights is None else weights

    def error(outputs, values):
        if outputs.shape[1] == 1:
            return 1 - one_minus_error(outputs[:, 0], values, weights)
        if squared:
            hot = jax.nn.one_hot(values.astype(jnp.int32), outputs.shape[1])
            wrong, variance = weighted_mean((outputs - hot) ** 2, weights).sum(), (moments(hot, weights)[1] ** 2).sum()
            return jnp.where(variance > 0, jnp.sqrt(safe_divide(wrong, variance)), 1.0)
        right = (jnp.argmax(outputs, axis=1) == values.astype(jnp.int32)).astype(jnp.float32)
        return 1 - (right * weights).sum() / jnp.maximum(weights.sum(), 1.0)

    return jax.vmap(jax.vmap(error, (0, None)))(outputs, factors.values.T.astype(jnp.float32))


# Learners of published studies: name → relation with options. What a paper leaves to scikit-learn is its default.
PRESETS: dict[str, Spec] = {
    # Locatello et al. 2020, §4.2.5 and the released code: GradientBoostingClassifier.
    "locatello2020": Spec(boosted_trees),
    # Eastwood & Williams 2018, §4.3: regressors of 10 trees, depth chosen on unseen samples.
    "eastwood2018": Spec(random_forest),
    # Hsu et al. 2023, released code: classifiers of 100 trees of depth 10 by entropy, √d codes a split.
    "hsu2023": Spec(random_forest).with_options(
        criterion="entropy", trees=100, depth=10, choose_depth=False, features="sqrt"
    ),
    # Dang-Nhu 2022, App. C.4: 10 trees of depth 15, chosen on a validation set.
    "dangnhu2022": Spec(random_forest).with_options(trees=10, depth=15, choose_depth=False),
}


def _relation(importance, fit, factors: Factors, weights, active, finite, chosen=None):
    values = factors.values.astype(jnp.float32)
    counted = jnp.ones((values.shape[0], 1), bool) if weights is None else (weights > 0)[:, None]
    low = jnp.where(counted, values, jnp.inf).min(axis=0)
    high = jnp.where(counted, values, -jnp.inf).max(axis=0)
    fit = jnp.where(finite.all(), fit, jnp.nan)
    ceiling = (high > low).astype(jnp.float32)
    return Relation.of(importance, ceiling, fit=fit, active=active, finite=finite, chosen=chosen)
