"""Consistency and restrictiveness: does a code stay while its factor is held, and do others stay while it changes?"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxdis._core.arrays import finite_codes, moments, safe_divide
from jaxdis._core.kernels.assignment import assign
from jaxdis._core.options import Bins
from jaxdis._core.spec import metric
from jaxdis._learners.linear import standardized
from jaxdis.factors import Codes, Factors
from jaxdis.metrics.interventions._votes import held_values, numbered, numbered_by_others


class Changes(NamedTuple):
    """``score []``; ``per_factor [k]``; ``code [k]``, each factor's code; ``matrix [d, k]``, every code's score for
    every factor."""

    score: Float[Array, ""]
    per_factor: Float[Array, " k"]
    code: Int[Array, " k"]
    matrix: Float[Array, "d k"]


@metric(needs_classes=True, distinct_samples=True)
def consistency(
    codes: Codes,
    factors: Factors,
    *,
    factor_bins: Bins | None = None,
    active: Bool[Array, " d"] | None = None,
) -> Changes:
    """Measure how little each factor's code changes while this factor is held and all others change.

    ``1 − E (z − z')² / E (z − z'')²``: ``z'`` is the code of another sample with the same factor value, ``z''`` that of
    any other sample. Codes are assigned to factors one to one so that the sum of these shares is largest.

    Shapes: codes ``[n, d]``, factors ``[n, k]``.

    Options:
      factor_bins: cut continuous factors into this many equal-width bins; without it they are left out.

    Contract:

    - At most 1. How much of the code's variance the factor explains; 0 on average for noise, a little more for the best
      among many codes, and below 0 by chance.
    - A factor without a code (fewer codes than factors) counts 0, as does a constant code. Deterministic.
    - One-valued factors, and those whose value no two samples share, are left out and NaN in their part. Any non-finite
      code gives NaN.
    - Invariant under affine maps, code by code. From given samples: what depends on the held factor changes less.

    Reference: Shu et al. 2020. The released code takes the code with the factor's number, and subtracts 1.
    """
    held, _ = _shares(codes, factors, factor_bins)
    return judge_consistency(*held, *_sound(codes, active))


@metric(needs_classes=True, distinct_samples=True)
def restrictiveness(
    codes: Codes,
    factors: Factors,
    *,
    factor_bins: Bins | None = None,
    active: Bool[Array, " d"] | None = None,
) -> Changes:
    """Measure how little all other codes change while one factor changes and the others are held.

    ``1 − E ‖z − z'‖² / E ‖z − z''‖²`` over all codes but the one that :func:`consistency` assigns to the factor: ``z'``
    are the codes of another sample that agrees in all other factors, ``z''`` those of any other sample.

    Shapes: codes ``[n, d]``, factors ``[n, k]``.

    Options:
      factor_bins: cut continuous factors into this many equal-width bins; without it they are left out.

    Contract:

    - At most 1; 0 on average for noise, which changes whether or not a factor does, and below 0 by chance.
    - A single code has no others that could change: 1 for the factor that it is assigned to, also if it is noise.
    - A factor without a code (fewer codes than factors) counts 0. A constant code changes nothing. Deterministic.
    - Few samples agree in many factors, and the score is as uncertain as these are few; in a simulator
      (:func:`jaxdis.evaluate_encoder`) all do. Within a bin other factors still change a little.
    - One-valued factors, and those in which no such samples differ, are left out and NaN in their part. Any non-finite
      code gives NaN.
    - Invariant under a common scale; codes with large variance count most.

    Reference: Shu et al. 2020. The released code takes the code with the factor's number, and subtracts 1.
    """
    held, changed = _shares(codes, factors, factor_bins)
    return judge_restrictiveness(*held, *changed, *_sound(codes, active))


def _shares(codes: Codes, factors: Factors, factor_bins: int | None):
    """Shares ``[d, k]`` of the codes' variance among samples that agree in a factor, and among those that agree in all
    others, each with the factors for which there are such samples, ``[k]``."""
    rows = standardized(jnp.nan_to_num(codes))
    columns = jnp.stack([held_values(factors, j, factor_bins)[0] for j in range(factors.num_factors)])
    n, everywhere = len(rows), jnp.zeros(len(rows), jnp.int32)

    def within(number):
        """The mean square of half a difference between two samples in one group, and how large groups are."""
        count = jnp.zeros(n).at[number].add(1.0)[number]
        mean = jnp.zeros_like(rows).at[number].add(rows)[number] / count[:, None]
        weight = jnp.where(count > 1, count / jnp.maximum(count - 1, 1), 0.0)
        squares = (weight[:, None] * (rows - mean) ** 2).sum(axis=0)
        counted = (count > 1).sum().astype(jnp.float32)
        return safe_divide(squares * ((n - 1) / n), jnp.broadcast_to(counted, squares.shape)), count

    def of_factor(parts):
        column, others = parts
        own = numbered(everywhere, column)
        held, count = within(own)
        changed, _ = within(others)
        least = jnp.full(n, n, jnp.int32).at[others].min(own)
        most = jnp.full(n, -1, jnp.int32).at[others].max(own)
        return held, own.max() > own.min(), (count > 1).any(), changed, (most > least).any()

    held, varies, shared, changed, differs = jax.lax.map(of_factor, (columns, numbered_by_others(columns, everywhere)))
    return (held.T, varies & shared), (changed.T, differs)


def _sound(codes: Codes, active) -> tuple[Float[Array, " d"], Bool[Array, ""]]:
    """The codes' variances in units of the largest, 0 for those that are not active, and whether all are finite."""
    deviation = moments(jnp.nan_to_num(codes))[1]
    deviation = deviation if active is None else jnp.where(active, deviation, 0.0)
    return safe_divide(deviation, jnp.broadcast_to(deviation.max(), deviation.shape)) ** 2, finite_codes(codes).all()


def judge_consistency(
    held: Float[Array, "d k"], defined: Bool[Array, " k"], variance: Float[Array, " d"], finite: Bool[Array, ""]
) -> Changes:
    """From the share of each code's variance that is left while a factor is held."""
    matrix = jnp.where((variance > 0)[:, None], 1 - held, 0.0)
    code = _own_codes(matrix, defined, variance)
    own = jnp.take_along_axis(matrix, jnp.maximum(code, 0)[None, :], axis=0)[0]
    return _result(own, code, matrix, defined, finite)


def judge_restrictiveness(held, defined, changed: Float[Array, "d k"], differs, variance, finite) -> Changes:
    """From the share of each code's variance that remains while a factor alone changes."""
    matrix = jnp.where((variance > 0)[:, None], 1 - held, 0.0)
    code = _own_codes(matrix, defined, variance)
    others = jnp.where(jnp.arange(len(variance))[:, None] == code[None, :], 0.0, variance[:, None])
    moved = safe_divide((others * changed).sum(axis=0), others.sum(axis=0))
    return _result(1 - moved, code, 1 - changed, defined & differs, finite)


def _own_codes(matrix, defined, variance) -> Int[Array, " k"]:
    allowed = (variance > 0)[:, None] & defined[None, :]
    return assign(jnp.where(allowed, matrix, jnp.nan), maximize=True).row


def _result(values, code, matrix, defined, finite) -> Changes:
    values = jnp.where(finite, jnp.where(code >= 0, values, 0.0), jnp.nan)
    score = jnp.where(defined, values, 0.0).sum() / defined.sum().astype(jnp.float32)
    matrix = jnp.where(finite & defined[None, :], matrix, jnp.nan)
    return Changes(score, jnp.where(defined, values, jnp.nan), code, matrix)
