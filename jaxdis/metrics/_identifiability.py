"""Are the factors identified up to a permutation, a linear map or a smooth map? Fitted on training samples, judged on
held-out ones."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxdis._core.arrays import moments, safe_divide
from jaxdis._core.kernels.assignment import assign
from jaxdis._core.options import Count, Positive
from jaxdis._core.spec import metric
from jaxdis._learners.linear import correlated, explained, kernel_ridge, linear_ridge, standardized
from jaxdis.factors import Codes, Factors, Sample
from jaxdis.relations._correlation import Kind, correlation, mid_ranks
from jaxdis.relations._relation import indicators, read, varied
from jaxdis.scores._gaps import FactorScore
from jaxdis.scores._reading import mean_over_factors, only_valid
from jaxdis.scores._reading import read as read_relation


class Predicted(NamedTuple):
    """Standardized held-out factors ``truth [m, c]`` and their predictions ``predicted [m, c]``, in columns that
    ``member [c, k]`` assigns to factors: one for each, or one for each nominal class. ``defined [k]``: the
    factors that vary in training and in the held-out samples, none if a code is not finite; ``finite []``."""

    predicted: Float[Array, "m c"]
    truth: Float[Array, "m c"]
    member: Float[Array, "c k"]
    defined: Bool[Array, " k"]
    finite: Bool[Array, ""]


class HeldOutMatching(NamedTuple):
    """``score []``; ``per_factor [k]``, held-out correlations; ``train []``; ``code [k]``, each factor's code."""

    score: Float[Array, ""]
    train: Float[Array, ""]
    per_factor: Float[Array, " k"]
    code: Int[Array, " k"]


@metric(of_values=True, on_a_line=True)
def linear_prediction(
    codes: Codes,
    factors: Factors,
    *,
    test: Sample,
    penalty: Positive = 1e-4,
    active: Bool[Array, " d"] | None = None,
) -> Predicted:
    """Predict each factor on held-out samples from all codes by ridge regression.

    Codes and factors are standardized by the training samples; ``‖y − X w‖² / n + penalty ‖w‖²`` is least. Class
    numbers are taken as values; a nominal factor's classes have an indicator each, which count by their variances.

    Shapes: codes ``[n, d]``, factors ``[n, k]``, test codes ``[m, d]``.

    Options:
      penalty: weight of the squared norm.

    Contract:

    - ``r2_linear`` is the share of variance that predictions explain: at most 1, 0 for the training samples' mean, and
      below 0 for worse. ``mcc_linear`` is their absolute correlation with the factors, in [0, 1]; it forgives a wrong
      offset and scale, and noise scores about ``√(d / n)``.
    - Invariant under invertible linear maps, up to the penalty. A constant code changes nothing.
    - Deterministic. Factors with one value in training or in the held-out samples are left out and NaN in their part.
      Any non-finite code gives NaN.
    - A code that mixes all factors linearly is as good as one code per factor: neither metric measures
      disentanglement. Dependent factors raise both, since each then predicts the others.

    Reference: Khemakhem et al. 2020 (a correlation after a linear map); Zimmermann et al. 2021 (the share of variance
    that a linear map explains).
    """
    return _predicted(codes, factors, test, active, lambda *given: linear_ridge(*given, penalty))


@metric(of_values=True, on_a_line=True)
def kernel_prediction(
    codes: Codes,
    factors: Factors,
    *,
    test: Sample,
    penalty: Positive = 1.0,
    inverse_width: Positive | None = None,
    samples: Count = 1000,
    active: Bool[Array, " d"] | None = None,
) -> Predicted:
    """Predict each factor on held-out samples from all codes by ridge regression with a Gaussian kernel.

    Codes and factors are standardized by the training samples. The kernel is ``exp(−inverse_width ‖x − y‖²)``, and
    predictions are ``K(test, train) (K + penalty)⁻¹ y``. Class numbers are taken as values; a nominal factor's classes
    have an indicator each, which count by their variances.

    Shapes: codes ``[n, d]``, factors ``[n, k]``, test codes ``[m, d]``.

    Options:
      penalty: ``alpha`` in scikit-learn's ``KernelRidge``.
      inverse_width: its ``gamma``; one over the number of codes that vary when None.
      samples: the regression is fitted to at most so many training samples, one from each of as many equal stretches,
        and where a factor that varies would have one value among them, one with another; time grows with their cube,
        memory with their square. All training samples standardize.

    Contract:

    - The share of variance that predictions explain: at most 1, 0 for the training samples' mean, below 0 for worse.
      Reaches 1 for factors under any smooth invertible map, however entangled, with samples enough.
    - Noise codes that grow in number hide the factors from the kernel. A constant code changes nothing.
    - Deterministic. Factors with one value in training or in the held-out samples are left out and NaN in their part.
      Any non-finite code gives NaN.

    Reference: von Kügelgen et al. 2021 (kernel ridge regression from codes to factors, R²).
    """
    rows = _spread_rows(factors.values, min(samples, codes.shape[0]))
    return _predicted(codes, factors, test, active, lambda *given: kernel_ridge(*given, penalty, inverse_width, rows))


def _predicted(codes, factors, test, active, predict) -> Predicted:
    samples = read(codes, factors, test, active)
    (values, groups), (truth, _) = indicators(factors), indicators(test.factors)
    # Indicators count by their variances, so that a factor's have a variance of 1 together.
    alone = np.repeat(np.array(groups.sizes) == 1, groups.sizes)
    scale = jnp.where(alone, 1.0, moments(values)[1])[None, :]
    predicted = predict(samples.train, values, samples.held_out) * scale
    truth, member = standardized(truth, like=values) * scale, jnp.asarray(groups.member)
    defined = varied(factors.values) & varied(test.factors.values)
    return Predicted(predicted, truth, member, defined, samples.finite.all())


def _spread_rows(values: Float[Array, "n k"] | Int[Array, "n k"], count: int) -> Int[Array, " r"]:
    """``count`` rows, one at random from each of as many equal stretches, among which every factor varies that can.

    Rows at even distances would see one value of a factor whose period they share, as in a grid.
    """
    n, k = values.shape
    if count >= n:
        return jnp.arange(n)
    rng, ends = np.random.default_rng(0), np.arange(count + 1) * n // count
    rows = rng.permutation(ends[:-1] + np.floor(rng.random(count) * np.diff(ends)).astype(int)).astype(np.int32)
    # The last of them, in a random order, give way, one for each factor that does not vary among the others.
    kept, spare = np.split(rows, [max(1, count - k)])
    others = values != values[kept[0]][None, :]
    missed = (others.any(axis=0) & ~others[kept].any(axis=0))[: len(spare)]
    spare = jnp.where(missed, jnp.argmax(others, axis=0)[: len(spare)].astype(jnp.int32), spare)
    return jnp.concatenate([jnp.asarray(kept), spare])


@metric()
def explained_variance(predictions: Predicted) -> FactorScore:
    """The share of held-out variance that predictions explain, R², averaged over factors."""
    share = explained(predictions.predicted, predictions.truth, predictions.member)
    return FactorScore.over(predictions.defined, predictions.finite, share)


@metric()
def prediction_correlation(predictions: Predicted) -> FactorScore:
    """Each factor's absolute correlation with its prediction on held-out samples, averaged over factors."""
    correlation = correlated(predictions.predicted, predictions.truth, predictions.member)
    return FactorScore.over(predictions.defined, predictions.finite, correlation)


@metric(of_values=True)
def mcc_test(
    codes: Codes,
    factors: Factors,
    *,
    test: Sample,
    kind: Kind = "pearson",
    active: Bool[Array, " d"] | None = None,
) -> HeldOutMatching:
    """Correlate codes with the factors they are matched to in training, on held-out samples: mean absolute correlation.

    Codes are assigned to factors one to one so that the sum of absolute correlations on the training samples is
    largest; the score is their mean absolute correlation on the test samples, without the optimism of ``mcc``, which
    matches and judges on the same ones.

    Shapes: codes ``[n, d]``, factors ``[n, k]``, test codes ``[m, d]``.

    Options:
      kind: ``"pearson"``, ``"spearman"`` to correlate mid-ranks, or ``"cosine"``, which does not center.

    Contract:

    - In [0, 1]; about ``0.8 / √m`` for noise, however many codes there are. A constant code changes nothing.
    - A factor without a code (fewer codes than factors) counts 0.
    - A nominal factor is matched by the correlation ratio, and judged by the code's correlation with each class's
      mean code in training.
    - Invariant under affine maps, code by code, with ``"spearman"`` under monotone ones. Deterministic.
    - Factors with one value in training or in the test samples are left out and NaN in their part, also of ``train``;
      the former are not matched. Any non-finite code gives NaN.

    Reference: Hyvärinen & Morioka 2016; Khemakhem et al. 2020.
    """
    train = read_relation(correlation(codes, factors, kind=kind, active=active))
    allowed = train.active[:, None] & train.valid[None, :]
    code = assign(jnp.where(allowed, train.strength, jnp.nan), maximize=True).row
    judging = test.factors if factors.nominal is None else _as_means(codes, factors, test.factors, code, kind)
    held_out = correlation(test.codes, judging, kind=kind, active=active)
    finite = ~jnp.isnan(train.strength).any() & jnp.isfinite(test.codes).all()

    def of_matched(strength):
        matched = jnp.take_along_axis(jnp.nan_to_num(strength), jnp.maximum(code, 0)[None, :], axis=0)[0]
        return jnp.where(finite, jnp.where(code >= 0, matched, 0.0), jnp.nan)

    fitted, per_factor = of_matched(train.strength), of_matched(held_out.strength)
    judged = train.valid & varied(test.factors.values)
    train = train._replace(valid=judged, num_factors=judged.sum().astype(jnp.float32))
    means = (mean_over_factors(values, train) for values in (per_factor, fitted))
    return HeldOutMatching(*means, only_valid(per_factor, train), code)


def _as_means(codes, factors: Factors, others: Factors, code: Int[Array, " k"], kind: str) -> Factors:
    """Other samples' factors, where each nominal class has its mean code (or rank) in training as its value."""
    columns = codes[:, jnp.maximum(code, 0)]
    columns = mid_ranks(columns) if kind == "spearman" else columns
    columns = columns if kind == "cosine" else columns - columns.mean(axis=0)[None, :]
    (hot, groups), (judged, _) = indicators(factors), indicators(others)
    of_column = columns @ groups.member.T  # each class's own factor's code
    mean = safe_divide((hot * of_column).sum(axis=0), hot.sum(axis=0))  # 0 where training has none
    means, given = (judged * mean[None, :]) @ groups.member, others.values.astype(jnp.float32)
    values = jnp.where(np.array(factors.nominal)[None, :], means, given)
    sizes = tuple(None if each else size for size, each in zip(factors.sizes, factors.nominal, strict=True))
    return Factors(values, sizes, factors.names, factors.periods)
