"""Scores for how far the largest strength exceeds the second largest."""

import math
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxdis._core.arrays import safe_divide
from jaxdis._core.spec import metric
from jaxdis.relations._relation import Relation
from jaxdis.scores import _reading as readings


class FactorScore(NamedTuple):
    """``score []`` and its parts ``per_factor [k]``."""

    score: Float[Array, ""]
    per_factor: Float[Array, " k"]

    @classmethod
    def over(cls, counted: Bool[Array, " k"], finite: Bool[Array, ""], values: Float[Array, " k"]) -> "FactorScore":
        """The mean over the counted factors, others NaN; all NaN unless ``finite``."""
        values = jnp.where(counted & finite, values, jnp.nan)
        return cls(jnp.where(counted, values, 0.0).sum() / counted.sum().astype(jnp.float32), values)


class CodeScore(NamedTuple):
    """``score []`` and its parts ``per_code [d]``."""

    score: Float[Array, ""]
    per_code: Float[Array, " d"]


class Strongest(NamedTuple):
    """``score []``; ``per_factor [k]``, the gap credited to each factor; ``factor [d]``, each code's strongest."""

    score: Float[Array, ""]
    per_factor: Float[Array, " k"]
    factor: Int[Array, " d"]


@metric()
def gap(relation: Relation) -> FactorScore:
    """Average over factors the gap between the strongest and the second strongest code, relative to the ceiling.

    ``(1/k) Σ_j (r_(1)j − r_(2)j) / ceiling_j``. On mutual information this is MIG (Chen et al. 2018, §4.1; Locatello et
    al. 2020, §4.2.3); on classification accuracy or squared correlation it is SAP (Kumar et al. 2018, §4).

    Contract:

    - In [0, 1], as long as no strength exceeds its ceiling. With a single code the second strongest is 0. A constant
      code changes nothing.
    - A one-valued factor is left out and NaN in its part. Any non-finite code gives NaN.
    """
    reading = readings.read(relation)
    per_factor = readings.top_two_gap(reading.strength, axis=0) / reading.ceiling
    return FactorScore(readings.mean_over_factors(per_factor, reading), readings.only_valid(per_factor, reading))


@metric()
def axis_alignment(relation: Relation) -> FactorScore:
    """Average over factors the best code's strength less all others' together, relative to the best.

    ``max(0, 1 − Σ_{i > 1} r_(i)j / r_(1)j)``; on mutual information, the axis alignment metric (AAM).

    Contract:

    - In [0, 1]: 1 if a single code is related to each factor, however weakly; 0 if the others are together as strong as
      it is, and for a factor that no code is related to. Estimation bias adds up over codes.
    - A one-valued factor is left out and NaN in its part. Any non-finite code gives NaN.

    Reference: Dubois et al. 2019 (the released code alone).
    """
    reading = readings.read(relation)
    best = reading.strength.max(axis=0)
    per_factor = jnp.maximum(safe_divide(2 * best - reading.strength.sum(axis=0), best), 0.0)
    return FactorScore(readings.mean_over_factors(per_factor, reading), readings.only_valid(per_factor, reading))


@metric()
def maximum(relation: Relation) -> FactorScore:
    """Average over factors the strongest code's strength, relative to the ceiling.

    Several factors may share a code: :func:`jaxdis.scores.matching` assigns each its own.

    Contract:

    - In [0, 1], as long as no strength exceeds its ceiling. A constant code changes nothing.
    - A one-valued factor is left out and NaN in its part. Any non-finite code gives NaN.

    Reference: Moinfar & Theis 2024 (MSAS, which averages the most similar).
    """
    reading = readings.read(relation)
    per_factor = readings.largest(reading.strength, axis=0) / reading.ceiling
    return FactorScore(readings.mean_over_factors(per_factor, reading), readings.only_valid(per_factor, reading))


@metric()
def factor_gap(relation: Relation, *, normalize: Literal["factor", "code"] = "factor") -> CodeScore:
    """Average over active codes the gap between a code's strongest factor and the next: MIG-sup.

    Options:
      normalize: ``"factor"``: the gap in ``r_ij / ceiling_j``. ``"code"``: the gap in ``r_ij``, divided by ``H(code
        i)``.

    Contract:

    - In [0, 1], as long as no strength exceeds its ceiling, or the code's entropy. With a single factor the next is 0.
      A constant code contributes 0 unless it is masked (``active``).
    - ``"code"`` is NaN for relations without code entropies.

    Reference: Li et al. 2020, §5.1 and its released code (factor entropies, mean over active codes). Julka et al. 2024,
    App. divide by the code's entropy and average over all codes: ``normalize="code"`` with ``bins=30``.
    """
    reading = readings.read(relation)
    if normalize == "factor":
        per_code = readings.top_two_gap(jnp.maximum(reading.strength, 0.0) / reading.ceiling[None, :], axis=1)
    else:
        gap = readings.top_two_gap(reading.strength, axis=1)
        per_code = jnp.where(jnp.isnan(gap), jnp.nan, safe_divide(gap, relation.code_ceiling))
    return CodeScore(readings.mean_over_codes(per_code, reading), per_code)


@metric()
def strongest(
    relation: Relation, *, average: Literal["ratio_of_sums", "mean_of_ratios"] = "ratio_of_sums"
) -> Strongest:
    """Sum the best gaps that factors get from codes whose strongest factor they are: DCIMIG, also called 3CharM.

    ``g_i`` is the gap between code ``i``'s two strongest factors, credited to the strongest; ``D_j`` is the largest gap
    credited to factor ``j``, 0 if none; ``score = Σ_j D_j / Σ_j ceiling_j``.

    Options:
      average: ``"ratio_of_sums"`` as above, or ``"mean_of_ratios"`` for ``mean_j D_j / ceiling_j``, as one released
        implementation varies it.

    Contract:

    - In [0, 1], as long as no strength exceeds its ceiling. Among equally strong factors the first is taken (the gap is
      then 0).

    Reference: Sepliarskaia et al. 2019, §5; Julka et al. 2024, App.
    """
    reading = readings.read(relation)
    gaps, factor = readings.top_two_gap(reading.strength, axis=1), readings.place_of_largest(reading.strength)
    credited_gaps = jax.nn.one_hot(factor, reading.strength.shape[1]) * jnp.where(reading.active, gaps, 0.0)[:, None]
    per_factor = credited_gaps.max(axis=0)
    per_factor = jnp.where(jnp.isnan(gaps).any(), jnp.nan, per_factor)
    if average == "mean_of_ratios":
        score = readings.mean_over_factors(per_factor / reading.ceiling, reading)
    else:
        score = jnp.where(reading.valid, per_factor, 0.0).sum() / relation.ceiling.sum()
    return Strongest(score, readings.only_valid(per_factor, reading), factor)


@metric(errors=("score",), unless="normalize")
def joint_gap(relation: Relation, *, normalize: bool = True) -> FactorScore:
    """Compute a factor's joint entropy with its best code, minus the gap to the second best: JEMMIG.

    ``JEMMIG_j = H(z_i*, y_j) − I_(1)j + I_(2)j`` with ``H(z, y) = H(z) + H(y) − I(z; y)`` and ``i*`` the strongest
    code.

    Options:
      normalize: return ``1 − JEMMIG_j / (H(y_j) + log bins)``, in [0, 1], high is good (default); otherwise low is
        good.

    Contract:

    - Needs a relation that measures code entropies; NaN for others.
    - If all codes are constant, JEMMIG is ``H(y_j)``, which normalized is far from 0 (0.77 with four equally frequent
      values and 100 bins), since there is no code entropy to lose. Compare with other metrics before reading it as
      disentanglement.

    Reference: Do & Tran 2020, §4.3.
    """
    reading = readings.read(relation)
    best = readings.place_of_largest(reading.strength.T)
    information = jnp.take_along_axis(reading.strength, best[None, :], axis=0)[0]
    # An inactive code has the entropy of a constant one.
    joint = jnp.where(relation.active, relation.code_ceiling, 0.0)[best] + reading.ceiling - information
    per_factor = joint - readings.top_two_gap(reading.strength, axis=0)
    if normalize:
        capacity = relation.capacity if relation.capacity > 0 else math.nan
        per_factor = 1 - per_factor / (reading.ceiling + capacity)
    return FactorScore(readings.mean_over_factors(per_factor, reading), readings.only_valid(per_factor, reading))
