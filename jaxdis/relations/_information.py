"""Mutual information between codes and factors by histograms: equal width, equal count, and the sampled posterior."""

import math
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxdis._core.arrays import class_counts, finite_codes, ordered_keys, safe_divide, sort_columns, stable_order
from jaxdis._core.kernels.contingency import joint_tables
from jaxdis._core.loops import each
from jaxdis._core.options import Bins, Positive
from jaxdis._core.spec import metric
from jaxdis._learners.classes import Groups, one_hot_of
from jaxdis.factors import Codes, Factors, Weights
from jaxdis.relations._binning import Dividers, equal_count_bins, equal_width_bins, factor_classes
from jaxdis.relations._relation import Relation, by_code

Correction = Literal["none", "miller_madow"]
Zero = Literal["value", "bin"]

# Below this many nats lies rounding, not information: an exact population of independent variables must relate to
# nothing. The plug-in bias is a million times larger at 10,000 samples.
RESOLUTION = 1e-10


@by_code
def mutual_information(
    codes: Codes,
    factors: Factors,
    *,
    bins: Bins = 20,
    zero: Zero = "value",
    correction: Correction = "none",
    method: Literal["scatter", "matmul"] | None = None,
    weights: Weights | None = None,
    active: Bool[Array, " d"] | None = None,
) -> Relation:
    """Estimate mutual information in nats between each code, cut into equal-width bins, and each factor (plug-in).

    ``strength[i, j] = Σ p(b, v) log(p(b, v) / (p(b) p(v)))`` over code ``i``'s bins (with the edges of
    ``numpy.histogram`` on its own range) and factor ``j``'s values; ``ceiling[j] = H(factor j)``; ``code_ceiling[i] =
    H(binned code i)``.

    Shapes: codes ``[n, d]``, factors ``[n, k]``, weights ``[n]``.

    Options:
      bins: bins per code, and per continuous factor. Discrete factors are never binned.
      zero: ``"bin"`` gives the value 0 its own bin, for codes that are 0 in most samples, as in sparse autoencoders: a
        code that is faint where a factor is present, and large elsewhere in a few samples, otherwise has both in its
        first bin. Invariant, then, under positive multiples.
      correction: ``"miller_madow"`` subtracts the first-order bias that occupied cells cause; ``"none"`` subtracts
        nothing.
      method: how joint tables are counted, ``"scatter"`` (default on CPU) or ``"matmul"`` (default on accelerators);
        the numbers are the same.

    Contract:

    - Strength is in ``[0, ceiling]``; values under 1e-10 nats are set to 0. A constant code's row is 0.
    - Invariant under increasing affine maps, code by code. Deterministic.
    - The estimate is biased upwards by about ``(bins − 1)(values − 1) / 2n`` nats: 0.037 with 20 bins, 40 values and
      10,000 samples.

    Reference: Chen et al. 2018, §4.1 (the gap); Locatello et al. 2020, §4.2.3 and App. (20 equal-width bins per mean
    code). Locatello et al.'s text bins the factors as well; their released code does not, and neither does this
    function. Julka et al. 2024 use 30 bins; Carbonneau et al. 2022 use 10.
    """
    classes, sizes = factor_classes(factors, bins, weights=weights)
    number, bins = _apart(zero, codes, equal_width_bins(codes, bins, weights=weights), bins)
    table = joint_tables(number, bins, classes, sizes, weights=weights, form=method)
    strength, ceiling, code_ceiling = information_of_tables(table, sizes, correction)
    return Relation.of(
        strength, ceiling, code_ceiling=code_ceiling, active=active, finite=finite_codes(codes), capacity=math.log(bins)
    )


@by_code
def mutual_information_equal_count(
    codes: Codes,
    factors: Factors,
    *,
    bins: Bins | None = None,
    mode: Dividers = "between",
    zero: Zero = "value",
    correction: Correction = "none",
    method: Literal["scatter", "matmul"] | None = None,
    weights: Weights | None = None,
    active: Bool[Array, " d"] | None = None,
) -> Relation:
    """Estimate mutual information in nats between each code, cut into equal-count bins, and each factor (plug-in).

    As :func:`mutual_information`, except that code ``i``'s dividers leave ``m n / bins`` values, rounded down, below
    them. Equal values share a bin: a divider that would fall among them moves to their nearer end.
    ``code_ceiling`` is computed with the first factor's bins.

    Shapes: codes ``[n, d]``, factors ``[n, k]``, weights ``[n]``.

    Options:
      bins: bins per code; by default as many as the factor has values that occur (20 for a continuous factor).
      mode: ``"between"`` as above. ``"code"``, as released, takes the values at place ``floor(m n / bins)`` for
        dividers, which belong to the bin above: a code that is 0 for most samples and positive for the others then has
        a single bin, and its negative has two.
      zero, correction, method: as in :func:`mutual_information`.

    Contract:

    - As :func:`mutual_information`, and invariant under every increasing map, code by code. Its negative has the same
      information, unless a divider is equally near to both of the median's neighbors.

    Reference: Mahon et al. 2024, §4.1 (single-neuron classification aligns codes with factors by this relation). The
    paper sizes bins by the class counts' greatest common divisor; the released code always takes as many bins as
    classes, as this function does.
    """
    default = 20
    classes, sizes = factor_classes(factors, bins or default, weights=weights)
    if weights is None:
        ordered, ordered_weights = sort_columns(codes), None
    else:
        order = stable_order(ordered_keys(codes.T)).T
        ordered, ordered_weights = jnp.take_along_axis(codes, order, axis=0), weights[order]
    # Without a number of bins, each factor has as many as classes that occur.
    groups = [range(len(sizes))] if bins else [[j] for j in range(len(sizes))]
    counts = (bins,) if bins else sizes
    used = None if bins else jnp.maximum((class_counts(classes, sizes, weights) > 0).sum(axis=1, dtype=jnp.int32), 1)
    numbers = equal_count_bins(ordered, codes, counts, used, weights=ordered_weights, mode=mode)
    columns: list = []
    for group, count, number in zip(groups, counts, numbers, strict=True):
        group_sizes = tuple(sizes[j] for j in group)
        number, count = _apart(zero, codes, number, count)
        table = joint_tables(number, count, classes[:, np.array(group)], group_sizes, weights=weights, form=method)
        strength, ceiling, code_ceiling = information_of_tables(table, group_sizes, correction)
        columns += [(strength[:, i], ceiling[i], code_ceiling) for i in range(len(group))]
    strength, ceiling, (code_ceiling, *_) = zip(*columns, strict=True)
    capacity = math.log((bins or sizes[0]) + (zero == "bin"))
    known = {"active": active, "finite": finite_codes(codes), "capacity": capacity}
    return Relation.of(jnp.stack(strength, axis=1), jnp.stack(ceiling), code_ceiling=code_ceiling, **known)


@metric(placed=True)
@by_code
def mutual_information_sampled(
    codes: Codes,
    factors: Factors,
    *,
    bins: Bins = 100,
    limit: Positive = 4.0,
    weights: Weights | None = None,
    variances: Float[Array, "n d"] | None = None,
    active: Bool[Array, " d"] | None = None,
) -> Relation:
    """Estimate mutual information in nats between each *sampled* code and each factor, from means and variances.

    Each sample is spread over ``bins`` equal bins in ``[−limit, limit]`` by ``q(b | x) ∝ density of N(mean, variance)
    at the center of bin b``; the joint table averages ``q(b | x)`` over the samples with each factor value. ``ceiling =
    H(factor)``, ``code_ceiling = H(binned sampled code)``, ``capacity = log bins``.

    Shapes: codes (posterior means) ``[n, d]``, variances ``[n, d]``, factors ``[n, k]``, weights ``[n]``.

    Options:
      bins: how many bins.
      limit: the bins cover ``[−limit, limit]``, in the prior's standard deviations.

    Contract:

    - As :func:`mutual_information`, but invariant to permutations of samples only: the bins are fixed, for a prior N(0,
      1).
    - A posterior narrower than the bins (density below 1e-5 at every center) counts entirely in its mean's bin. So does
      every sample when ``variances`` is None.
    - Means outside the limits count in the outermost bins. Continuous factors are cut into 20 bins.

    Reference: Chen et al. 2018, §4.1 (the gap as first published reads the sampled code); Do & Tran 2020, §4 and App.
    (100 bins on [−4, 4]; RMIG and JEMMIG). As in their released script, marginals and joint table are soft.
    """
    classes, sizes = factor_classes(factors, 20, weights=weights)
    # A product: compilers turn some quotients into one, and codes on a grid would fall to other bins.
    place = (jnp.nan_to_num(codes) + limit) * (bins / (2 * limit))
    nearest = jnp.clip(jnp.floor(place), 0, bins - 1).astype(jnp.int32)
    if variances is None:
        table = joint_tables(nearest, bins, classes, sizes, weights=weights)
    else:
        table = _soft_tables(codes, variances, nearest, bins, limit, classes, sizes, weights)
    strength, ceiling, code_ceiling = information_of_tables(table, sizes, "none")
    finite = finite_codes(codes) if variances is None else finite_codes(codes) & finite_codes(variances)
    known = {"active": active, "finite": finite, "capacity": math.log(bins)}
    return Relation.of(strength, ceiling, code_ceiling=code_ceiling, **known)


def _apart(zero: Zero, codes: Codes, number: Int[Array, "n d"], bins: int) -> tuple[Int[Array, "n d"], int]:
    """The codes' bins and how many there are, with one more for 0 on request."""
    return (jnp.where(codes == 0, bins, number), bins + 1) if zero == "bin" else (number, bins)


def _soft_tables(codes, variances, nearest, bins, limit, classes, sizes, weights) -> Float[Array, "d b s"]:
    """Joint tables in which each sample is spread over the bins by its posterior."""
    hot = one_hot_of(classes, sizes)
    hot = hot if weights is None else hot * weights[:, None]
    centers = -limit + 2 * limit / bins * (jnp.arange(bins, dtype=codes.dtype) + 0.5)

    def one_code(code):
        mean, variance, bin_of_mean = code
        variance = jnp.maximum(variance, 1e-20)[:, None]
        square = (centers[None, :] - mean[:, None]) ** 2
        density = jnp.exp(-0.5 * square / variance) / jnp.sqrt(2 * jnp.pi * variance)
        narrow = density.max(axis=1, keepdims=True) < 1e-5
        soft = density / jnp.where(narrow, 1.0, density.sum(axis=1, keepdims=True))
        spread = jnp.where(narrow, jax.nn.one_hot(bin_of_mean, bins), soft)
        return jnp.einsum("nb,ns->bs", spread, hot, precision=jax.lax.Precision.HIGHEST)

    # One code at a time: its [n, bins] table is the largest array here.
    finite = (jnp.nan_to_num(codes).T, jnp.nan_to_num(variances).T, nearest.T)
    return each(one_code, finite)


def information_of_tables(table: Float[Array, "d b s"], sizes: tuple[int, ...], correction: Correction = "none"):
    """Mutual information ``[d, k]``, factor entropies ``[k]`` and code entropies ``[d]``, in nats, from joint tables.

    ``s`` runs over all factors' values, ``Σ sizes`` columns. The Miller–Madow correction adds ``(occupied cells − 1) /
    2n`` to each entropy.
    """
    member = Groups.of(sizes).member
    first = sizes[0]
    per_bin = table[:, :, :first].sum(axis=2)  # [d, b]: every factor's columns hold all samples
    per_value = table[0].sum(axis=0)  # [s]
    total = per_bin[0].sum()
    expected = per_bin[:, :, None] * (per_value / total)[None, None, :]
    # What is far below any count has no gradient: its square would vanish.
    table, expected = (jnp.where(expected > 1e-12, each, jax.lax.stop_gradient(each)) for each in (table, expected))
    terms = expected * _excess(safe_divide(table - expected, expected))
    strength = jnp.einsum("ds,sk->dk", terms.sum(axis=1), member, precision=jax.lax.Precision.HIGHEST) / total
    ceiling = _entropy_terms(per_value / total) @ member
    code_ceiling = _entropy_terms(per_bin / total).sum(axis=1)
    values = (per_value > 0).astype(table.dtype) @ member
    if correction == "miller_madow":
        cells = (table > 0).sum(axis=1).astype(table.dtype) @ member
        occupied = (per_bin > 0).sum(axis=1).astype(table.dtype)
        strength = strength + (occupied[:, None] + values[None, :] - cells - 1) / (2 * total)
        ceiling = ceiling + (values - 1) / (2 * total)
        code_ceiling = code_ceiling + (occupied - 1) / (2 * total)
    # One occupied bin and one value carry nothing, exactly; less than the resolution is rounding.
    varies = ((per_bin > 0).sum(axis=1) > 1)[:, None] & (values > 1)[None, :]
    strength = jnp.where((strength < RESOLUTION) | ~varies, 0.0, strength)
    return strength, jnp.where(values > 1, ceiling, 0.0), code_ceiling


def _excess(x):
    """``(1 + x) log(1 + x) − x`` for ``x ≥ −1``, to float32 accuracy for small ``x`` too.

    ``Σ p log(p / q)`` equals ``Σ q · excess(p / q − 1)``, whose terms are all ≥ 0: nothing cancels, so that weak
    relations keep their digits in float32.
    """
    series = jnp.zeros_like(x)
    for power in range(9, 1, -1):
        series = series * x + (-1) ** power / (power * (power - 1))
    direct = (1 + x) * jnp.log(jnp.where(x > -1, 1 + x, 1.0)) - x
    return jnp.where(jnp.abs(x) < 0.2, series * x**2, direct)


def _entropy_terms(p):
    return -p * jnp.log(jnp.where(p > 0, p, 1.0))
