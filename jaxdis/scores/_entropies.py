"""Scores for how concentrated a relation's rows or columns are: by entropy, squares, shares, or exclusivity."""

from typing import Literal, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxdis._core.arrays import safe_divide
from jaxdis._core.options import Count
from jaxdis._core.spec import metric
from jaxdis.relations._relation import Relation
from jaxdis.scores import _reading as readings
from jaxdis.scores._gaps import CodeScore, FactorScore


class Entropy(NamedTuple):
    """``disentanglement []``, ``completeness []``, ``informativeness []`` or None; their parts: ``per_code [d]``,
    ``per_factor [k]`` and ``fit [k]`` or None."""

    disentanglement: Float[Array, ""]
    completeness: Float[Array, ""]
    informativeness: Float[Array, ""] | None
    per_code: Float[Array, " d"]
    per_factor: Float[Array, " k"]
    fit: Float[Array, " k"] | None


class Exclusivity(NamedTuple):
    """``modularity []``, ``compactness []``, ``explicitness []`` or None; the first two per factor ``[k]`` too."""

    modularity: Float[Array, ""]
    compactness: Float[Array, ""]
    explicitness: Float[Array, ""] | None
    per_factor_modularity: Float[Array, " k"]
    per_factor_compactness: Float[Array, " k"]


@metric()
def entropy(
    relation: Relation,
    *,
    normalize: Literal["none", "factor"] = "none",
    disentanglement: Literal["weighted", "mean"] = "weighted",
    completeness: Literal["weighted", "mean"] = "weighted",
    top_k: Count | None = None,
) -> Entropy:
    """Compute one minus each row's entropy (disentanglement) and each column's (completeness): the scores of DCI.

    With ``R`` the strengths, ``D_i = 1 − H_k(R_i· / Σ_j R_ij)`` and ``D = Σ_i ρ_i D_i``, where ``ρ_i`` is the row's
    share of ``Σ R``; ``C_j = 1 − H_d(R_·j / Σ_i R_ij)``, and ``C`` is their mean weighted by the columns' shares.
    ``H_k`` is the entropy to base ``k``. Informativeness is the mean ``fit``, None for a relation that does not measure
    it.

    Options:
      normalize: ``"factor"`` first divides each column by its sum (MED).
      completeness: ``"mean"`` averages ``C_j`` without weights.
      disentanglement: ``"mean"`` averages ``D_i`` over active codes without weights.
      top_k: keep, for each factor, the ``top_k`` codes with the highest ``D_i`` among those whose strongest factor it
        is, and score these alone (top-k MED); all codes by default.

    Contract:

    - In [0, 1]. A constant code has ``D_i = 0`` and no weight; a factor that no code encodes has ``C_j = 0`` and no
      weight.
    - With a single factor, every code with any strength has ``D_i = 1``; with a single code, likewise ``C_j = 1``. (The
      entropy to base 1 is undefined, and the reference returns NaN.)
    - Inactive codes do not count in ``d``. Any non-finite code gives NaN.

    Reference: Eastwood & Williams 2018, §2 (unweighted mean for ``C``); Locatello et al. 2020, §4.2.5 (weighted ``C``,
    the default; the two agree for tree importances, whose columns sum to 1, and differ for lasso); Cao et al. 2022, §3
    (MED and top-k). The reference adds 1e-11 before the entropy; here 0 log 0 is 0, which differs by less than 1e-9.
    """
    reading = readings.read(relation)
    strength = jnp.maximum(reading.strength, 0.0)
    if normalize == "factor":
        strength = safe_divide(strength, strength.sum(axis=0, keepdims=True))
    num_codes = reading.num_codes
    if top_k is not None:
        kept = _top_codes(strength, _disentanglement(strength, reading), top_k)
        strength = jnp.where(kept[:, None], strength, 0.0)
        num_codes = (kept & reading.active).sum().astype(jnp.float32)
        reading = reading._replace(active=reading.active & kept, num_codes=num_codes)
    per_code = _disentanglement(strength, reading)
    per_factor = one_minus_entropy(strength.T, num_codes)
    total = strength.sum()
    weighted_d = safe_divide((strength.sum(axis=1) * per_code).sum(), total)
    weighted_c = safe_divide((strength.sum(axis=0) * per_factor).sum(), total)
    return Entropy(
        weighted_d if disentanglement == "weighted" else readings.mean_over_codes(per_code, reading),
        weighted_c if completeness == "weighted" else readings.mean_over_factors(per_factor, reading),
        readings.mean_fit(relation.fit, reading),
        per_code,
        readings.only_valid(per_factor, reading),
        None if relation.fit is None else readings.only_valid(relation.fit, reading),
    )


@metric()
def modularity(relation: Relation) -> CodeScore:
    """Average over active codes one minus the squared strength for factors other than the code's strongest.

    ``1 − Σ_{j≠j*} r_ij² / (r_ij*² (k − 1))``, where ``j*`` is code ``i``'s strongest factor.

    Contract:

    - In [0, 1]. A code without any strength scores 0; with a single factor, every code with any strength scores 1.
    - Mutual information is scale free, so that a collapsed code with a trace of a factor counts fully: mask it
      (``active``).

    Reference: Ridgeway & Mozer 2018, §3; Locatello et al. 2020, §4.2.4. Julka et al. 2024, App. print the strengths
    without squares; the code that they ran squares them.
    """
    reading = readings.read(relation)
    best = reading.strength.max(axis=1) ** 2
    rest = (_without_largest(reading.strength) ** 2).sum(axis=1)
    share = safe_divide(rest, best * jnp.maximum(reading.num_factors - 1, 1.0))
    per_code = jnp.where(best > 0, 1 - share, jnp.where(jnp.isnan(best), jnp.nan, 0.0))
    return CodeScore(readings.mean_over_codes(per_code, reading), per_code)


@metric()
def exclusivity(relation: Relation) -> Exclusivity:
    """Measure how exclusively each code informs about one factor and each factor is in one code: EDI's averages.

    ``Excl(a) = max a − sqrt((Σ a² − max²) / (len(a) − 1))`` on the strengths as shares of the ceiling. Each code's row
    credits its exclusivity to its strongest factor; ``modularity = (1/k) Σ_j min(1, Σ credited to j)``; ``compactness =
    (1/k) Σ_j Excl(column j)``, clipped to [0, 1]. Explicitness is the mean ``fit``, None for a relation that does not
    measure it.

    Contract:

    - A factor that no code encodes counts as 0 in both. If no factor is encoded, both are NaN: nothing can then be
      modular or compact.

    Reference: Julka et al. 2024, §III (its formula prints max(S, 1) for min(S, 1)). EDI reads the impact intensity
    ``I(c_i; z_j) / I(c; z_j)``; on mutual information itself, shares refer to the factor's entropy.
    """
    reading = readings.read(relation)
    shares = reading.strength / reading.ceiling[None, :]
    per_code = jnp.where(reading.active, _exclusive(shares, reading.num_factors), 0.0)
    factor = readings.place_of_largest(shares)
    credit = jnp.zeros_like(reading.ceiling).at[factor].add(per_code)
    modular = jnp.where(jnp.isnan(per_code).any(), jnp.nan, jnp.clip(credit, 0.0, 1.0))
    compact = jnp.clip(_exclusive(shares.T, reading.num_codes), 0.0, 1.0)
    # Ratios of nothing are any number: without a strength above 0 both are undefined. (A NaN stays one.)
    silent = (shares <= 0).all()
    modular, compact = (jnp.where(silent, jnp.nan, per_factor) for per_factor in (modular, compact))
    means, parts = (
        [of(per_factor, reading) for per_factor in (modular, compact)]
        for of in (readings.mean_over_factors, readings.only_valid)
    )
    return Exclusivity(*means, readings.mean_fit(relation.fit, reading), *parts)


@metric()
def concentration(relation: Relation, *, over: Literal["codes", "factors"] = "codes") -> CodeScore | FactorScore:
    """Compute the largest entry's share in each row (or column), rescaled from chance: InfoM and InfoC.

    With ``s`` the strengths as shares of the ceiling, ``x`` is the mean over active codes of ``max_j s_ij / Σ_j s_ij``,
    or the mean over factors of ``max_i s_ij / Σ_i s_ij``; with ``K`` competing entries the score is ``(x − 1/K) / (1 −
    1/K)``.

    Options:
      over: ``"codes"`` for rows (InfoM), ``"factors"`` for columns (InfoC).

    Contract:

    - In [0, 1]. Rows and columns without any strength count as evenly spread, hence 0. A single competing entry gives
      1, however weak.

    Reference: Hsu et al. 2023, §4 (InfoMEC). They estimate information from ten nearest neighbors, as the rows in
    ``METRICS`` do, and prune codes whose range is under a twentieth of the largest (in a later release, whose
    interquartile range is under a tenth): pass ``active``.
    """
    reading = readings.read(relation)
    shares = jnp.maximum(reading.strength, 0.0) / reading.ceiling[None, :]
    if over == "codes":
        per_code = _concentrated(shares, reading.num_factors)
        return CodeScore(readings.mean_over_codes(per_code, reading), per_code)
    per_factor = _concentrated(shares.T, reading.num_codes)
    return FactorScore(readings.mean_over_factors(per_factor, reading), readings.only_valid(per_factor, reading))


def one_minus_entropy(rows: Float[Array, "r c"], base: Float[Array, ""]) -> Float[Array, " r"]:
    """``1 − H_base(row / sum)``; 0 for a row with zeros alone, 1 for any other row if the base is 1."""
    total = rows.sum(axis=1)
    p = safe_divide(rows, total[:, None])
    spread = -(p * jnp.log(jnp.where(p > 0, p, 1.0))).sum(axis=1)
    spread = jnp.where(base > 1, spread / jnp.log(jnp.maximum(base, 2.0)), 0.0)
    value = jnp.clip(1 - spread, 0.0, 1.0)
    return jnp.where(total > 0, value, jnp.where(jnp.isnan(total), jnp.nan, 0.0))


def _disentanglement(strength, reading: readings.Reading):
    return one_minus_entropy(strength, reading.num_factors)


def _top_codes(strength, per_code, top_k: Count):
    """The codes that are among the ``top_k`` most disentangled ones for their own strongest factor."""
    factor = readings.place_of_largest(strength)
    rival = factor[:, None] == factor[None, :]
    index = jnp.arange(len(per_code))
    differences = per_code[None, :] - per_code[:, None]
    better = (differences > readings.ROUNDING) | (
        (jnp.abs(differences) <= readings.ROUNDING) & (index[None, :] < index[:, None])
    )
    return (rival & better).sum(axis=1) < top_k


def _exclusive(rows, length):
    rest = (_without_largest(rows) ** 2).sum(axis=1)  # summed without the largest: a difference would cancel
    return readings.largest(rows, axis=1) - jnp.sqrt(rest / jnp.maximum(length - 1, 1.0))


def _without_largest(rows):
    """Each row with its (first) largest entry set to 0."""
    return jnp.where(jnp.arange(rows.shape[1])[None, :] == jnp.argmax(rows, axis=1)[:, None], 0.0, rows)


def _concentrated(rows, length):
    total = rows.sum(axis=1)
    share = jnp.where(total == 0, 1 / length, safe_divide(rows.max(axis=1), total))
    chance = 1 / jnp.maximum(length, 2.0)
    return jnp.where(length > 1, (share - chance) / (1 - chance), jnp.where(total > 0, 1.0, 0.0 * total))
