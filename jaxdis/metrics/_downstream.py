"""How well all codes together predict each factor: explicitness, InfoE, learning curves."""

from typing import Annotated, Literal, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxdis._core.arrays import safe_divide
from jaxdis._core.options import Count, Counts, Cuts, Depth, Positive, Range
from jaxdis._core.spec import metric
from jaxdis._learners.boosting import Splitter, fit_boosting
from jaxdis._learners.boosting import accuracy as boosted_accuracy
from jaxdis._learners.classes import Groups, class_areas, one_hot_of
from jaxdis._learners.linear import standardized
from jaxdis._learners.logistic import fit_logistic, fit_logistic_validated, log_probabilities, predict
from jaxdis.factors import Codes, Factors, Sample
from jaxdis.relations._learned import boosted_trees
from jaxdis.relations._relation import Relation, Samples, read
from jaxdis.scores._gaps import FactorScore

# Codes farther from 0 than so many times their range are shifted there.
FAR = 16.0


class Explicitness(NamedTuple):
    """``score []`` and ``per_factor [k]`` on held-out samples, ``train []`` on the training samples."""

    score: Float[Array, ""]
    train: Float[Array, ""]
    per_factor: Float[Array, " k"]


@metric(needs_classes=True)
def explicitness(
    codes: Codes,
    factors: Factors,
    *,
    test: Sample,
    classifier: Literal["multinomial", "one_vs_rest"] = "multinomial",
    rescale: bool = False,
    inverse_penalty: Positive = 1.0,
    active: Bool[Array, " d"] | None = None,
) -> Explicitness:
    """Compute the area under the ROC curve of a linear classifier on all codes: mean over classes, then factors.

    Codes are standardized by the training samples; logistic regression is fitted to its regularized optimum, as in
    scikit-learn's ``LogisticRegression``; each class is compared with all others by its probability, and ties count
    half.

    Shapes: codes ``[n, d]``, factors ``[n, k]``, test codes ``[m, d]``.

    Options:
      classifier: ``"multinomial"`` fits one classifier per factor, ``"one_vs_rest"`` one binary classifier per class.
      rescale: map chance to 0, ``2 (AUC − 1/2)``.
      inverse_penalty: scikit-learn's ``C``; larger values regularize less.

    Contract:

    - 0.5 is chance, 1 perfect (unless rescaled). A constant code changes nothing. Deterministic.
    - Averages run over the classes that occur in the evaluated samples. A class that is missing in training counts 0.5:
      the classifier cannot rank its samples.
    - Continuous factors, and those with one value in training or in the held-out samples, are left out and NaN in their
      part. Any non-finite code gives NaN.

    Reference: Ridgeway & Mozer 2018, §3 (one against rest); Locatello et al. 2020, §4.2.4 (multinomial, not rescaled:
    the default). The released code stops the solver after 100 iterations, which moves areas by up to 2e-4. It fails for
    a constant code and for a class missing in the test samples, and confuses classes if one is missing in the training
    samples.
    """
    samples = read(codes, factors, test, active)
    inputs, held_out = standardized(samples.train), standardized(samples.held_out, like=samples.train)
    classes, sizes = samples.classes, samples.sizes
    if classifier == "multinomial":
        model = fit_logistic(inputs, classes, sizes, inverse_penalty=inverse_penalty)
        judged = [log_probabilities(model, sample, sizes) for sample in (inputs, held_out)]
    else:
        pairs = (2,) * sum(sizes)
        model = fit_logistic(
            inputs, one_hot_of(classes, sizes).astype(jnp.int32), pairs, inverse_penalty=inverse_penalty
        )
        judged = [log_probabilities(model, sample, pairs)[:, 1::2] for sample in (inputs, held_out)]
    areas = [
        samples.by_factor(_mean_area(probability, labels, sizes, classes))
        for probability, labels in zip(judged, (classes, samples.truth), strict=True)
    ]
    train, held = (2 * (area - 0.5) if rescale else area for area in areas)
    return Explicitness(jnp.nanmean(held), jnp.nanmean(train), held)


@metric(needs_classes=True)
def infoe(
    codes: Codes, factors: Factors, *, steps: Count = 100, active: Bool[Array, " d"] | None = None
) -> FactorScore:
    """Measure what share of each factor's uncertainty logistic regression on all codes removes, on the same samples.

    ``1 − CE_j / log v_j``: an unregularized multinomial classifier's cross-entropy, fitted with balanced class weights,
    relative to that of a classifier without codes (which predicts all ``v_j`` occurring classes equally); mean over
    factors.

    Shapes: codes ``[n, d]``, factors ``[n, k]``.

    Options:
      steps: the most Newton steps taken, after limited-memory steps with more than 64 codes.

    Contract:

    - At most 1; 0 for constant codes; below 0 if classes are unbalanced and codes are not informative.
    - Separable classes have no optimum: the fit ends where a step is expected to gain less than 1e-8 nats per sample,
      with a score slightly below 1.
    - Invariant under affine maps, code by code; deterministic.
    - Continuous and one-valued factors are left out and NaN in their part. Any non-finite code gives NaN.

    Reference: Hsu et al. 2023, §4 (InfoMEC). The released code uses class weights in the fit but not in the
    cross-entropy, as here. It stops scikit-learn's solver after 100 iterations, before the optimum if the classifier is
    hard to fit (0.490 instead of 0.516 on one autoencoder's codes).
    """
    samples = read(codes, factors, None, active)
    inputs, classes, sizes = standardized(samples.train), samples.classes, samples.sizes
    hot, member = one_hot_of(classes, sizes), jnp.asarray(Groups.of(sizes).member)
    counts = hot.sum(axis=0)
    occurring = (counts > 0).astype(jnp.float32) @ member
    balanced = (hot * safe_divide(codes.shape[0], counts)[None, :]) @ member / occurring[None, :]
    model = fit_logistic(inputs, classes, sizes, inverse_penalty=jnp.inf, weights=balanced, steps=steps)
    entropy = -((log_probabilities(model, inputs, sizes) * hot) @ member).mean(axis=0)
    share = 1 - entropy / jnp.log(jnp.maximum(occurring, 2.0))
    return FactorScore(samples.mean(share), samples.by_factor(share))


def _mean_area(log_probability, labels, sizes, trained_on) -> Float[Array, " j"]:
    """Mean area over the classes present among the labels, 0.5 for one that training lacks."""
    areas = class_areas(log_probability.T, labels, sizes)
    present, learned = jnp.isfinite(areas), one_hot_of(trained_on, sizes).any(axis=0)
    areas = jnp.where(present & ~learned, 0.5, areas)
    member = jnp.asarray(Groups.of(sizes).member)
    return (jnp.where(present, areas, 0.0) @ member) / (present.astype(jnp.float32) @ member)


class LearningCurve(NamedTuple):
    """Held-out accuracy by number of training samples: ``accuracy [s, k]``, and ``by_size [s]``, means over factors.

    With the most samples, ``score []`` is the mean over factors and ``worst []`` the smallest; ``efficiency []`` is the
    mean accuracy at the second size divided by that at the last. ``samples [s]``: how many each size was trained on:
    the size itself, or fewer if there are fewer.
    """

    score: Float[Array, ""]
    worst: Float[Array, ""]
    efficiency: Float[Array, ""]
    by_size: Float[Array, " s"]
    accuracy: Float[Array, "s k"]
    samples: Int[Array, " s"]


@metric(needs_classes=True, distinct_samples=True)
def downstream_logistic(
    codes: Codes,
    factors: Factors,
    *,
    test: Sample,
    sizes: Counts = (10, 100, 1000, 10_000),
    folds: Annotated[int, Range(2, 100)] = 5,
    active: Bool[Array, " d"] | None = None,
    groups: Int[Array, " n"] | None = None,
) -> LearningCurve:
    """Fit cross-validated logistic regression to the first 10, 100, 1,000 and 10,000 samples: held-out accuracy.

    The penalty is chosen among ten by unshuffled folds, as in scikit-learn's ``LogisticRegressionCV(Cs=10,
    cv=KFold(5))`` run to convergence. Statistical efficiency is the mean accuracy with 100 samples divided by that with
    10,000.

    Shapes: codes ``[n, d]`` in random order, factors ``[n, k]``, test codes ``[m, d]``.

    Options:
      sizes: how many training samples to take; a size above ``n`` means all samples, as ``samples`` shows.
      folds: parts for cross-validation.

    Contract:

    - In [0, 1]; deterministic. Depends on how codes are scaled, since coefficients are penalized, but not on their
      place.
    - Classes that do not occur in training are never predicted; if a single class occurs, it is predicted for all
      samples.
    - Continuous factors, and those with one value in training or in the held-out samples, are left out and NaN in their
      part. Any non-finite code gives NaN.
    - If few samples are nearly separable, rounding (from another batch size or code order) may select another of the
      weakest penalties, which changes 1–2 % of the predictions. It is therefore not in ``METRICS``; pass
      ``Direct(Spec(downstream_logistic))``.

    Reference: Locatello et al. 2020, §4.2.8 and §7 (5,000 test samples in the former, 10,000 in the latter).
    """
    samples = read(codes, factors, test, active)
    # Intercepts are not penalized, so that a shift changes nothing but the digits that are left of codes far from 0.
    first, reach = samples.train[0], jnp.ptp(samples.train, axis=0)
    shift = jnp.where(jnp.abs(first) > FAR * reach, first, 0.0)[None, :]
    train, held_out = samples.train - shift, samples.held_out - shift

    def accuracy(size):
        of_rows = None if groups is None else groups[:size]
        given = train[:size], samples.classes[:size], samples.sizes
        model = fit_logistic_validated(*given, folds=folds, groups=of_rows).model
        right = predict(model, held_out, samples.sizes) == samples.truth
        return right.astype(jnp.float32).mean(axis=0)

    return _curve(accuracy, sizes, samples)


@metric(needs_classes=True, starts_from=boosted_trees)
def downstream_trees(
    codes: Codes,
    factors: Factors,
    *,
    test: Sample,
    sizes: Counts = (10, 100, 1000, 10_000),
    splitter: Splitter = "exact",
    max_bins: Cuts | None = None,
    stages: Count = 100,
    rate: Positive = 0.1,
    depth: Depth = 3,
    active: Bool[Array, " d"] | None = None,
    base: Relation | None = None,
) -> LearningCurve:
    """Fit gradient-boosted trees to the first 10, 100, 1,000 and 10,000 samples: held-out accuracy.

    The learner of ``dci`` (:func:`jaxdis.relations.boosted_trees`) is fitted separately at each size. Statistical
    efficiency is the mean accuracy with 100 samples divided by that with 10,000.

    Shapes: codes ``[n, d]`` in random order, factors ``[n, k]``, test codes ``[m, d]``.

    Options:
      sizes: how many training samples to take; a size above ``n`` means all samples (fitted once), as ``samples``
        shows.
      splitter, max_bins, stages, rate, depth: as in :func:`jaxdis.relations.boosted_trees`.

    Contract:

    - In [0, 1]; deterministic; invariant under increasing maps, except for where thresholds lie.
    - The accuracy with all samples is ``fit`` in ``boosted_trees``; evaluated together with ``dci`` at the same
      options, it costs nothing more.
    - Classes that do not occur in training are never predicted; if a single class occurs, it is predicted for all
      samples.
    - Continuous factors, and those with one value in training or in the held-out samples, are left out and NaN in their
      part. Any non-finite code gives NaN.

    Reference: Locatello et al. 2020, §4.2.8 and §7 (scikit-learn's ``GradientBoostingClassifier`` with its defaults).
    """
    samples = read(codes, factors, test, active)

    def accuracy(size):
        if size == len(samples.train) and base is not None:
            return base.fit
        options = {"splitter": splitter, "max_bins": max_bins, "stages": stages, "rate": rate, "depth": depth}
        trees = fit_boosting(samples.train[:size], samples.classes[:size], samples.sizes, samples.held_out, **options)
        return boosted_accuracy(trees.test, samples.truth, samples.sizes)

    return _curve(accuracy, sizes, samples)


def _curve(accuracy, sizes, samples: Samples) -> LearningCurve:
    """``accuracy(size)`` for every factor at each size, as a learning curve."""
    cut = [min(size, len(samples.train)) for size in sizes]
    by_size = {size: accuracy(size) for size in dict.fromkeys(cut)}
    table = samples.by_factor(jnp.stack([by_size[size] for size in cut]))
    means = jnp.nanmean(table, axis=1)
    efficiency = means[min(1, len(sizes) - 1)] / means[-1]
    return LearningCurve(means[-1], jnp.nanmin(table[-1]), efficiency, means, table, jnp.array(cut, jnp.int32))
