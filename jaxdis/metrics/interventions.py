"""Scores for how codes move when a factor is held, FactorVAE, BetaVAE, IRS and consistency, or varies alone, Z-max and
restrictiveness.

Here they read codes and factors from a table; :func:`jaxdis.evaluate_encoder` intervenes in a simulator. Which samples
FactorVAE, BetaVAE and Z-max compare is drawn once for a whole zoo: drawing takes most time, and differences between
members that share the same draws are less noisy.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from jaxdis._core import random
from jaxdis._core.arrays import (
    class_order,
    finite_codes,
    moments,
    over_samples,
    rounding_of,
    safe_divide,
    settled,
    stable_order,
)
from jaxdis._core.kernels.assignment import assign
from jaxdis._core.kernels.entries import read
from jaxdis._core.kernels.sums import distances_in_batches, variances_in_batches
from jaxdis._core.loops import each, repeat
from jaxdis._core.options import Batches, BatchSize, Bins, NonNegative, Share
from jaxdis._core.spec import metric
from jaxdis._learners.linear import standardized
from jaxdis._learners.logistic import fit_logistic, predict
from jaxdis.factors import Codes, Factors
from jaxdis.relations._binning import equal_width_bins

__all__ = ["Changes", "Draws", "Group", "Intervened", "Robustness", "Votes", "beta_vae", "consistency", "draw_batches"]
__all__ += ["draw_pairs", "draw_varied", "factor_vae", "group_by_value", "irs", "restrictiveness", "z_max"]

# Of a sorting key that also holds a factor's value: distances then differ by at least 6e-8 of the largest.
DISTANCE_BITS = 24
# Up to so many largest numbers are found by repeated maxima.
MOST_MAXIMA = 8
# A search for a threshold halves its interval in every such step, and interpolates in the others.
HALVE = 4


class Draws(NamedTuple):
    """Batches ``t``: the first ``num_train`` are drawn from one half, the others from the rest.

    ``factor [t]``, the factor held in each batch; ``rows [b, t]``, its samples; ``partners [b, t]``, the samples that
    they are compared with, or None; ``varying []``, how many factors can be held. A batch's samples come first, because
    sums over the first axis are faster on CPU.
    """

    factor: Int[Array, " t"]
    rows: Int[Array, "b t"]
    partners: Int[Array, "b t"] | None
    varying: Int[Array, ""]


def draw_batches(
    key: PRNGKeyArray,
    factors: Factors,
    *,
    num_train: int = 10_000,
    num_eval: int = 5_000,
    batch: int = 64,
    factor_bins: int | None = None,
) -> Draws:
    """Batches whose samples share the value of one random factor; a random sample gives the value.

    Continuous factors are cut into ``factor_bins`` equal-width bins, or are never held.
    """
    which, first, rest = jax.random.split(key, 3)
    factor, table, varying = _varying(which, factors, num_train, num_eval, factor_bins)
    first_row = _random_rows(first, table, num_train, num_eval, 1)
    rows = _given(rest, table, factor[:, None], jnp.broadcast_to(first_row, (len(first_row), batch)))
    return Draws(factor, rows.T, None, varying)


def draw_pairs(
    key: PRNGKeyArray,
    factors: Factors,
    *,
    num_train: int = 10_000,
    num_eval: int = 5_000,
    batch: int = 64,
    factor_bins: int | None = None,
) -> Draws:
    """Batches of sample pairs: the first is random, the second shares the value of one factor with it.

    Continuous factors are cut into ``factor_bins`` equal-width bins, or are never held.
    """
    which, first, rest = jax.random.split(key, 3)
    factor, table, varying = _varying(which, factors, num_train, num_eval, factor_bins)
    rows = _random_rows(first, table, num_train, num_eval, batch)
    return Draws(factor, rows.T, _given(rest, table, factor[:, None], rows).T, varying)


class _Table(NamedTuple):
    """Samples in random order, ``shuffled [n]``, whose first half is for training.

    For each factor: the samples sorted by half and value ``[k, n]``; for each sample, where the run with its half and
    value starts and how long it is, ``[k, n]``.
    """

    shuffled: Int[Array, " n"]
    order: Int[Array, "k n"]
    start: Int[Array, "k n"]
    count: Int[Array, "k n"]


def _varying(key, factors: Factors, num_train: int, num_eval: int, factor_bins: int | None):
    """A random factor per batch among those with several values, where values stand, and how many vary."""
    which, halves = jax.random.split(key)
    n = factors.num_samples
    shuffled = jax.random.permutation(halves, n).astype(jnp.int32)
    held_out = jnp.zeros(n, jnp.int32).at[shuffled[n // 2 :]].set(1)
    held = [held_values(factors, j, factor_bins) for j in range(factors.num_factors)]
    size = max(size for _, size in held)

    def positions(values):
        """For all factors alike, which compiles once."""
        cell = values + size * held_out
        number = jnp.zeros(2 * size, jnp.int32).at[cell].add(1)
        start = jnp.cumsum(number) - number
        return class_order(cell, 2 * size), start[cell], number[cell], values.max() > values.min()

    *table, varies = each(positions, jnp.stack([values for values, _ in held]))
    place = jnp.nonzero(varies, size=len(held), fill_value=0)[0].astype(jnp.int32)
    number = jnp.maximum(varies.sum(), 1).astype(jnp.float32)
    chosen = jnp.floor(random.uniform(which, (num_train + num_eval,)) * number).astype(jnp.int32)
    return place[chosen], _Table(shuffled, *table), varies.sum()


def held_values(factors: Factors, j: int, factor_bins: int | None) -> tuple[Int[Array, " n"], int]:
    """A factor's class numbers that can be held, and how many there are; one for a continuous factor without bins."""
    values, size = factors.values[:, j], factors.sizes[j]
    if size is not None:
        return values.astype(jnp.int32), size
    if factor_bins is None:
        return jnp.zeros(factors.num_samples, jnp.int32), 1
    return equal_width_bins(values.astype(jnp.float32)[:, None], factor_bins)[:, 0], factor_bins


def _random_rows(key, table: _Table, num_train: int, num_eval: int, batch: int) -> Int[Array, "t b"]:
    """Random samples from the first half for training batches, from the second for held-out ones."""
    n = table.shuffled.shape[0]
    learned, evaluated = jax.random.split(key)
    first = random.randint(learned, (num_train, batch), 0, n // 2)
    second = random.randint(evaluated, (num_eval, batch), n // 2, n)
    return table.shuffled[jnp.concatenate([first, second])]


def _given(key, table: _Table, factor, rows) -> Int[Array, "t b"]:
    """For each row, a random sample from its half with the same factor value."""
    factor = jnp.broadcast_to(factor, rows.shape)
    count = table.count[factor, rows]
    step = jnp.floor(random.uniform(key, rows.shape) * count.astype(jnp.float32)).astype(jnp.int32)
    return table.order[factor, table.start[factor, rows] + jnp.minimum(step, count - 1)]


class Intervened(NamedTuple):
    """``score []`` on held-out batches, ``train []`` on training batches."""

    score: Float[Array, ""]
    train: Float[Array, ""]


class Votes(NamedTuple):
    """As :class:`Intervened`; ``votes [d, k]``: training batches by the code that varied least and the held factor."""

    score: Float[Array, ""]
    train: Float[Array, ""]
    votes: Float[Array, "d k"]


@metric(needs_classes=True, prepare=draw_batches)
def factor_vae(
    key: PRNGKeyArray,
    codes: Codes,
    factors: Factors,
    *,
    num_train: Batches = 10_000,
    num_eval: Batches = 5_000,
    batch: BatchSize = 64,
    prune: NonNegative = 0.05,
    factor_bins: Bins | None = None,
    prepared: Draws | None = None,
    active: Bool[Array, " d"] | None = None,
) -> Votes:
    """Predict which factor is held from the code that varies least (Z-min variance): the accuracy.

    A batch's samples share one factor's value. Its vote is the code with the smallest variance in the batch, as a share
    of its variance over all samples. Each code predicts the factor for which it got most votes in ``num_train``
    batches; the score is the accuracy in ``num_eval`` others. Training and held-out batches are drawn from two halves
    of the samples.

    Shapes: codes ``[n, d]``, factors ``[n, k]``.

    Options:
      num_train, num_eval: how many batches.
      batch: samples per batch.
      prune: codes with a standard deviation below this do not compete.
      factor_bins: cut continuous factors into this many equal-width bins, in one of which they are held; without it
        they are never held.

    Contract:

    - In [0, 1]; chance is 1 / k, where k factors vary; 0 if every code is pruned.
    - One-valued factors are never held. NaN if fewer than two factors can be held, since every vote would be correct.
    - Invariant under scaling a code, unless it is pruned. Any non-finite code gives NaN.
    - Depends on the key within about 0.005. Without the two halves, noise would exceed chance on few samples (0.39
      instead of 0.25 with 50 samples).

    Reference: Kim & Mnih 2018, §4; Locatello et al. 2020, §4.2.2. The paper prunes by variance under 0.05, the released
    code by standard deviation under 0.05, as here. Batches are drawn from the given samples, not from a simulator.
    """
    options = {"num_train": num_train, "num_eval": num_eval, "batch": batch, "factor_bins": factor_bins}
    draws = prepared or draw_batches(key, factors, **options)
    variances, spread, competes = batch_variances(codes, draws.rows, prune, active)
    usable = finite_codes(codes).all() & (draws.varying > 1)
    return judge_votes(
        least_moved(variances, spread, competes), draws.factor, competes, usable, factors.num_factors, num_train
    )


def batch_variances(
    codes: Codes, rows: Int[Array, "b t"], prune: float, active
) -> tuple[Float[Array, "t d"], Float[Array, " d"], Bool[Array, " d"]]:
    """Each code's variance in each batch and over all samples, and the codes that are not pruned."""
    safe = jnp.nan_to_num(codes)
    safe = safe - safe[:1]  # a shift near the data keeps the variance of a nearly constant code exact
    spread = jnp.var(safe, axis=0, ddof=1)
    competes = jnp.sqrt(spread) >= prune
    competes = competes if active is None else competes & active
    return variances_in_batches(safe, rows), spread, competes


def least_moved(
    local: Float[Array, "c d"], spread: Float[Array, " d"], competes: Bool[Array, " d"]
) -> Int[Array, " c"]:
    """Each batch's code with the smallest variance, relative to ``spread``, among those that compete."""
    share = jnp.where(competes[None, :], local / jnp.where(competes, spread, 1.0)[None, :], jnp.inf)
    return jnp.argmin(share, axis=1).astype(jnp.int32)


def judge_votes(vote: Int[Array, " t"], factor: Int[Array, " t"], competes, finite, k: int, num_train: int) -> Votes:
    """Each code predicts the factor for which it got most among the first ``num_train`` votes."""
    d = competes.shape[0]
    cell = vote * k + factor
    table = jnp.zeros(d * k).at[cell[:num_train]].add(1.0).reshape(d, k)
    answer = jnp.argmax(table, axis=1)
    right = (answer[vote] == factor).astype(jnp.float32)
    usable = jnp.where(finite, jnp.where(competes.any(), 1.0, 0.0), jnp.nan)
    return Votes(usable * right[num_train:].mean(), usable * right[:num_train].mean(), usable * table)


@metric(needs_classes=True, prepare=draw_pairs)
def beta_vae(
    key: PRNGKeyArray,
    codes: Codes,
    factors: Factors,
    *,
    num_train: Batches = 10_000,
    num_eval: Batches = 5_000,
    batch: BatchSize = 64,
    rescale: bool = False,
    factor_bins: Bins | None = None,
    prepared: Draws | None = None,
    active: Bool[Array, " d"] | None = None,
) -> Intervened:
    """Predict by a linear classifier which factor two halves of a batch share, from their mean distance: its accuracy.

    A batch holds sample pairs that are equal in one factor (its value varies over pairs); its feature is each code's
    mean absolute difference. Logistic regression (penalty 1, raw features) is trained on ``num_train`` batches; the
    score is its accuracy on ``num_eval`` others. Training and held-out batches are drawn from two halves of the
    samples.

    Shapes: codes ``[n, d]``, factors ``[n, k]``.

    Options:
      num_train, num_eval: how many batches.
      batch: pairs per batch.
      rescale: map chance to 0, ``(a − 1/k) / (1 − 1/k)``.
      factor_bins: cut continuous factors into this many equal-width bins, one of which pairs share; without it they are
        never shared.

    Contract:

    - In [0, 1]; chance is 1 / k, where k factors vary (0 if rescaled).
    - One-valued factors are never shared. NaN if fewer than two factors can be.
    - Depends on how codes are scaled, since coefficients are penalized. A constant code changes nothing. Any non-finite
      code gives NaN.
    - Depends on the key within about 0.005. Without the two halves, noise would exceed chance on few samples (0.66
      instead of 0.25 with 50 samples).

    Reference: Higgins et al. 2017, §3; Locatello et al. 2020, §4.2.1. Batches are drawn from the given samples.
    """
    options = {"num_train": num_train, "num_eval": num_eval, "batch": batch, "factor_bins": factor_bins}
    draws = prepared or draw_pairs(key, factors, **options)
    finite = finite_codes(codes).all()
    safe = jnp.nan_to_num(codes)
    safe = safe if active is None else jnp.where(active[None, :], safe, 0.0)
    features = distances_in_batches(safe, draws.rows, draws.partners)
    varying = draws.varying if rescale else None
    usable = finite & (draws.varying > 1)
    return judge_features(features, draws.factor, usable, factors.num_factors, num_train, varying)


def judge_features(
    features: Float[Array, "t d"], factor: Int[Array, " t"], finite, k: int, num_train: int, varying=None
) -> Intervened:
    """How accurate a linear classifier is that was trained on the first ``num_train``; rescaled if ``varying`` is
    given."""
    labels = factor[:, None]
    model = fit_logistic(features[:num_train], labels[:num_train], (k,))
    right = (predict(model, features, (k,)) == labels).astype(jnp.float32)[:, 0]
    right = jnp.where(finite, right, jnp.nan)
    train, held_out = right[:num_train].mean(), right[num_train:].mean()
    return _rescaled(Intervened(held_out, train), varying)


def _rescaled(result: Intervened | Votes, varying: Int[Array, ""] | None):
    """With chance, one over how many factors vary, mapped to 0; as it is without their number."""
    if varying is None:
        return result
    chance = 1 / jnp.maximum(varying, 2).astype(jnp.float32)
    return result._replace(score=(result.score - chance) / (1 - chance), train=(result.train - chance) / (1 - chance))


def draw_varied(
    key: PRNGKeyArray,
    factors: Factors,
    *,
    num_train: int = 800,
    num_eval: int = 800,
    batch: int = 200,
    factor_bins: int | None = 3,
) -> Draws:
    """Batches whose samples agree in all factors but one; ``factor`` is that one.

    Ordered factors with more than ``factor_bins`` values are cut into equal-width bins. A factor can vary if some
    samples, in each half, share all others and differ in it.
    """
    n, k = factors.values.shape
    which, halves, first, rest = jax.random.split(key, 4)
    held_out = jnp.zeros(n, jnp.int32).at[jax.random.permutation(halves, n)[n // 2 :]].set(1)
    values = factors.values.astype(jnp.float32)
    columns = values if factor_bins is None else equal_width_bins(values, factor_bins)
    nominal = factors.nominal or (False,) * k
    small = [j for j, size in enumerate(factors.sizes) if size and (size <= (factor_bins or size) or nominal[j])]
    place = jnp.array(small, jnp.int32)
    columns = columns.astype(jnp.int32).at[:, place].set(factors.values[:, place].astype(jnp.int32))

    def cells(parts):
        """Samples by their half and all other factors' values: their order, and each one's run in it."""
        number, own = parts
        order = stable_order(number)
        start = jnp.searchsorted(number[order], number, side="left").astype(jnp.int32)
        end = jnp.searchsorted(number[order], number, side="right").astype(jnp.int32)
        least = jnp.full(n, n, jnp.int32).at[start].min(own)[start]
        most = jnp.full(n, -1, jnp.int32).at[start].max(own)[start]
        return order, start, end - start, most > least

    order, start, count, differs = jax.lax.map(cells, (numbered_by_others(columns.T, held_out), columns.T))
    of_half = jnp.stack([differs & (held_out == half)[None, :] for half in (0, 1)])  # [2, k, n]
    chances = of_half.sum(axis=2)
    varies = (chances > 0).all(axis=0)
    usable = jnp.nonzero(varies, size=k, fill_value=0)[0].astype(jnp.int32)
    drawn = random.uniform(which, (num_train + num_eval,)) * jnp.maximum(varies.sum(), 1).astype(jnp.float32)
    factor = usable[jnp.minimum(jnp.floor(drawn).astype(jnp.int32), k - 1)]
    half = (jnp.arange(num_train + num_eval) >= num_train).astype(jnp.int32)
    anchors = jnp.argsort(~of_half, axis=2, stable=True).astype(jnp.int32)
    anchor = anchors[half, factor, _below(first, chances[half, factor])]
    step = _below(rest, jnp.broadcast_to(count[factor, anchor], (batch, len(factor))))
    return Draws(factor, order[factor[None, :], start[factor, anchor][None, :] + step], None, varies.sum())


def numbered(number: Int[Array, " n"], values: Int[Array, " n"]) -> Int[Array, " n"]:
    """Numbers below ``n`` for the different pairs in two columns."""
    by_values = stable_order(values)
    order = by_values[stable_order(number[by_values])]
    new = (jnp.diff(number[order]) != 0) | (jnp.diff(values[order]) != 0)
    return jnp.zeros_like(number).at[order[1:]].set(jnp.cumsum(new).astype(jnp.int32))


def numbered_by_others(columns: Int[Array, "k n"], first: Int[Array, " n"]) -> Int[Array, "k n"]:
    """For each column, number the different combinations of ``first`` and all other columns, in their order."""
    _, before = jax.lax.scan(lambda number, column: (numbered(number, column), number), first, columns)
    none = jnp.zeros_like(first)
    _, behind = jax.lax.scan(lambda number, column: (numbered(column, number), number), none, columns, reverse=True)
    return jax.lax.map(lambda pair: numbered(*pair), (before, behind))


def _below(key, counts: Int[Array, "..."]) -> Int[Array, "..."]:
    """Random whole numbers below each count."""
    place = jnp.floor(random.uniform(key, counts.shape) * counts.astype(jnp.float32)).astype(jnp.int32)
    return jnp.clip(place, 0, jnp.maximum(counts - 1, 0))


@metric(needs_classes=True, prepare=draw_varied)
def z_max(
    key: PRNGKeyArray,
    codes: Codes,
    factors: Factors,
    *,
    num_train: Batches = 800,
    num_eval: Batches = 800,
    batch: BatchSize = 200,
    prune: NonNegative = 0.05,
    rescale: bool = False,
    factor_bins: Bins | None = 3,
    prepared: Draws | None = None,
    active: Bool[Array, " d"] | None = None,
) -> Votes:
    """Predict which factor alone varies from the code that varies most (Z-max variance, RF-VAE's score): the accuracy.

    A batch's samples agree in all factors but one. Its vote is the code with the largest variance in the batch, as a
    share of its variance over all samples. Each code predicts the factor for which it got most votes in ``num_train``
    batches; the score is the accuracy in ``num_eval`` others, drawn from the other half of the samples.

    Shapes: codes ``[n, d]``, factors ``[n, k]``.

    Options:
      num_train, num_eval: how many batches.
      batch: samples per batch, drawn with repetition from those that share the values.
      prune: codes with a standard deviation below this do not compete.
      rescale: map chance to 0, ``(a − 1/k) / (1 − 1/k)``.
      factor_bins: ordered factors with more values, and continuous ones, are cut into this many equal-width bins, since
        few samples agree exactly in many factors. None holds exact values, and no continuous factor.

    Contract:

    - In [0, 1] (unless rescaled); chance is 1 / k, where k factors can vary alone; 0 if every code is pruned.
    - NaN if fewer than two factors can vary alone: with too many factors for the samples, lower ``factor_bins``.
    - Within a bin other factors still vary a little, so that a perfect code need not score 1.
    - Invariant under scaling a code, unless it is pruned. Any non-finite code gives NaN.

    Reference: Kim et al. 2019 (RF-VAE); Carbonneau et al. 2022 and its code (three bins; batches, and votes rescaled).
    """
    options = {"num_train": num_train, "num_eval": num_eval, "batch": batch, "factor_bins": factor_bins}
    draws = prepared or draw_varied(key, factors, **options)
    variances, spread, competes = batch_variances(codes, draws.rows, prune, active)
    share = jnp.where(competes[None, :], variances / jnp.where(competes, spread, 1.0)[None, :], -jnp.inf)
    vote = jnp.argmax(share, axis=1).astype(jnp.int32)
    usable = finite_codes(codes).all() & (draws.varying > 1)
    result = judge_votes(vote, draws.factor, competes, usable, factors.num_factors, num_train)
    return _rescaled(result, draws.varying if rescale else None)


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


class Robustness(NamedTuple):
    """``score []``; ``per_code [d]``, best over factors; ``matrix [d, k]``; ``deviation [d]``, the codes' weights."""

    score: Float[Array, ""]
    per_code: Float[Array, " d"]
    matrix: Float[Array, "d k"]
    deviation: Float[Array, " d"]


class Group(NamedTuple):
    """Samples for each of a factor's ``v`` values, shared by a zoo: ``values [n]``; ``count [v]``; ``rows [v, cap]``,
    padded with −1; ``fits []``, whether no value has more than ``cap`` samples."""

    values: Int[Array, " n"]
    count: Int[Array, " v"]
    rows: Int[Array, "v cap"]
    fits: Bool[Array, ""]


def group_by_value(factors: Factors, *, factor_bins: int | None = None) -> tuple[Group | None, ...]:
    """The samples for each value of each factor; None for a continuous factor without bins.

    There is room for the count expected for a uniform factor plus five standard deviations.
    """
    groups, n = [], factors.num_samples
    nominal = factors.nominal or (False,) * factors.num_factors
    for values, size, unordered in zip(factors.values.T, factors.sizes, nominal, strict=True):
        share = None if size is None else 1 / size  # the most frequent value's under a uniform factor
        # No more values than bins are in a bin each.
        if factor_bins is not None and not unordered and (size is None or size > factor_bins):
            values = equal_width_bins(values.astype(jnp.float32)[:, None], factor_bins)[:, 0]
            share = 1 / factor_bins if size is None else ((size - 1) // factor_bins + 1) / size
            size = factor_bins
        if size is None:
            groups.append(None)
            continue
        values, room = values.astype(jnp.int32), min(n, math.ceil(n * share + 5 * math.sqrt(n * share)))
        count = jnp.zeros(size, jnp.int32).at[values].add(1)
        start = jnp.cumsum(count) - count
        place = jnp.arange(room, dtype=jnp.int32)[None, :]
        order = class_order(values, size)
        rows = jnp.where(place < count[:, None], order[jnp.minimum(start[:, None] + place, n - 1)], -1)
        groups.append(Group(values, count, rows, (count <= room).all()))
    return tuple(groups)


@metric(needs_classes=True, prepare=group_by_value)
def irs(
    codes: Codes,
    factors: Factors,
    *,
    quantile: Share = 0.99,
    factor_bins: Bins | None = None,
    prepared: tuple[Group | None, ...] | None = None,
    active: Bool[Array, " d"] | None = None,
) -> Robustness:
    """Measure how little a code moves while one factor is held and the others vary (interventional robustness).

    ``1 − dev_ij / M_i`` with ``M_i`` the largest distance of code ``i`` from its mean, and ``dev_ij`` the ``quantile``
    of the distances from the mean given a value of factor ``j``, averaged over its values. A code's score is its best
    over factors; the headline weighs codes by ``M_i``.

    Shapes: codes ``[n, d]``, factors ``[n, k]``.

    Options:
      quantile: 1 is the paper's supremum.
      factor_bins: first cut every factor but nominal ones into this many equal-width bins; without it continuous
        factors are left out.

    Contract:

    - At most 1; 0 if every code is constant; a constant code has no weight. Deterministic.
    - One-valued factors are left out and NaN in the matrix. Any non-finite code gives NaN.
    - Invariant under affine maps, code by code, except for its weight.
    - Observational: conditioning on a factor equals an intervention if factors are sampled independently.

    Reference: Suter et al. 2019, §4; Locatello et al. 2020, §4.2.7. The released code takes the 0.99 quantile; its
    configuration cuts the factors into 20 bins (``factor_bins=20``).
    """
    groups = group_by_value(factors, factor_bins=factor_bins) if prepared is None else prepared
    finite = finite_codes(codes)
    shown = finite if active is None else finite & active
    deviation = jnp.where(shown, largest_deviation(codes), 0.0)
    # Distances from a code far from 0 are rounded least after this shift, and the first sample, which pads rows, is 0.
    moved = jnp.where(shown[:, None], codes.T - codes[0][:, None], 0.0)
    held = [None if group is None else jnp.maximum(group.rows, 0) for group in groups]
    # Code by code: what is gathered for all codes at once has codes last, and is transposed in every pass.
    values = each(lambda code: [None if rows is None else read(code, rows) for rows in held], moved)
    columns, varies = [], []
    for group, given in zip(groups, values, strict=True):
        if group is None:
            columns.append(jnp.zeros(codes.shape[1]))
            varies.append(jnp.array(False))
        else:
            columns.append(_moved(moved, given, group, quantile))
            varies.append((group.count > 0).sum() > 1)
    return judge_robustness(jnp.stack(columns, axis=1), deviation, jnp.stack(varies), finite)


def largest_deviation(codes: Float[Array, "n d"]) -> Float[Array, " d"]:
    """Each code's largest distance from its mean, 0 if that is rounding error."""
    moved = codes - codes[:1]  # the mean of codes far from 0 would be rounded
    low, high = over_samples(jnp.min, moved), over_samples(jnp.max, moved)
    mean = over_samples(jnp.sum, moved) / codes.shape[0]
    # No more than the range: rounding of the mean must not make a constant code vary.
    deviation = jnp.minimum(jnp.maximum(high - mean, mean - low), high - low)
    return jnp.where(deviation > rounding_of(over_samples(jnp.max, jnp.abs(codes))), deviation, 0.0)


def judge_robustness(moved: Float[Array, "d k"], deviation: Float[Array, " d"], varies, finite) -> Robustness:
    """IRS from how far codes move while a factor is held; ``varies [k]``, ``finite [d]``."""
    robust = jnp.where((deviation > 0)[:, None], 1 - safe_divide(moved, deviation[:, None]), 0.0)
    matrix = jnp.where(varies[None, :], robust, jnp.nan)
    per_code = jnp.where(jnp.isnan(matrix), -jnp.inf, matrix).max(axis=1)
    per_code = jnp.where(jnp.isfinite(per_code), per_code, jnp.nan)
    score = safe_divide((deviation * jnp.where(deviation > 0, per_code, 0.0)).sum(), deviation.sum())
    per_code, matrix = jnp.where(finite, per_code, jnp.nan), jnp.where(finite[:, None], matrix, jnp.nan)
    return Robustness(jnp.where(finite.all(), score, jnp.nan), per_code, matrix, jnp.where(finite, deviation, jnp.nan))


def _moved(
    moved: Float[Array, "d n"], given: Float[Array, "d v s"], group: Group, quantile: float
) -> Float[Array, " d"]:
    """The quantile of the distances from the mean ``given`` the value, averaged over values that occur."""
    d, size, _ = given.shape
    occurs = group.count > 0

    def by_rows():
        """Every code and value has its own row: few long search steps are faster than many short ones."""
        count = jnp.tile(group.count, d)
        quantiles = quantile_from_mean(given.reshape(len(count), -1), count, quantile).reshape(d, size)
        return jnp.where(occurs[None], quantiles, 0.0).sum(axis=1) / occurs.sum().astype(jnp.float32)

    def by_sorting():
        values, columns = group.values, moved.T
        counts = jnp.zeros(size).at[values].add(1.0)
        mean = jnp.zeros((size, d)).at[values].add(columns) / jnp.maximum(counts, 1.0)[:, None]
        distance = jnp.abs(columns - mean[values])
        ordered = _sorted_within(values, distance, size)
        start = jnp.cumsum(counts) - counts
        place = start + quantile * jnp.maximum(counts - 1, 0.0)
        low = jnp.floor(place).astype(jnp.int32)
        high = jnp.minimum(jnp.ceil(place).astype(jnp.int32), len(columns) - 1)
        share = (place - low.astype(jnp.float32))[None, :]
        quantiles = ordered[:, low] * (1 - share) + ordered[:, high] * share  # [d, size]
        occurs = counts > 0
        return jnp.where(occurs[None, :], quantiles, 0.0).sum(axis=1) / occurs.sum().astype(jnp.float32)

    return jax.lax.cond(group.fits, by_rows, by_sorting)


def quantile_from_mean(values: Float[Array, "v s"], count: Int[Array, " v"], quantile: float) -> Float[Array, " v"]:
    """Quantile (linear) of the distances from each row's first ``count`` values to their mean; others must be 0."""
    present = jnp.arange(values.shape[1], dtype=jnp.int32)[None, :] < count[:, None]
    number = jnp.maximum(count, 1).astype(jnp.float32)
    mean = values.sum(axis=1) / number
    distance = settled(jnp.where(present, jnp.abs(values - mean[:, None]), -1.0))
    if quantile == 1:
        return distance.max(axis=1)
    place = quantile * (number - 1)
    share = place - jnp.floor(place)
    room = values.shape[1]
    most = room - 1 - math.floor(quantile * (room - 1)) + 1  # one more for rounding
    low, high = around(distance, number - 1 - jnp.floor(place), most)
    return low * (1 - share) + jnp.where(share > 0, high, 0.0) * share


def around(
    rows: Float[Array, "v s"], above: Float[Array, " v"], most: int
) -> tuple[Float[Array, " v"], Float[Array, " v"]]:
    """Of each row in descending order, the numbers behind and before the place that has ``above`` numbers before it.

    ``above`` are whole numbers up to ``most``. Nothing is sorted: a few places are found by repeated maxima, others by
    :func:`cut_above`.
    """
    if most > MOST_MAXIMA:
        return cut_above(rows, above)
    maxima = [jnp.full(rows.shape[0], jnp.inf)]
    for _ in range(most + 1):
        maxima.append(jnp.where(rows < maxima[-1][:, None], rows, -jnp.inf).max(axis=1))
    descending = jnp.stack(maxima, axis=1)
    place = above.astype(jnp.int32)[:, None] + jnp.arange(2, dtype=jnp.int32)[None]
    high, low = jnp.take_along_axis(descending, place, axis=1).T
    # Equal numbers were counted as one.
    differ = ((rows >= high[:, None]).astype(jnp.float32).sum(axis=1) == above) | (above == 0)
    return jax.lax.cond(differ.all(), lambda: (low, high), lambda: cut_above(rows, above))


def cut_above(rows: Float[Array, "v s"], above: Float[Array, " v"]) -> tuple[Float[Array, " v"], Float[Array, " v"]]:
    """:func:`around` by a search for a threshold that ``above`` numbers reach: rows are read about ten times.

    The threshold is interpolated between the last one that too many numbers reach and the last one that too few reach,
    as if their log count fell with its square, as in a Gaussian tail. Every ``HALVE``-th step takes the middle.
    """

    def reach(threshold):
        return (rows >= threshold[:, None]).astype(jnp.float32).sum(axis=1)  # several times faster than in integers

    def step(state):
        number, low, high, too_many, too_few, _ = state
        part = jnp.log((too_many + 0.5) / (above + 0.5)) / jnp.log((too_many + 0.5) / (too_few + 0.5))
        tail = jnp.sqrt(jnp.maximum(low, 0.0) ** 2 * (1 - part) + jnp.maximum(high, 0.0) ** 2 * part)
        threshold = jnp.where(number % HALVE == 0, low / 2 + high / 2, tail)
        threshold = jnp.where((threshold > low) & (threshold < high), threshold, low / 2 + high / 2)
        count = reach(threshold)
        down, up = count <= above, count >= above
        next_low, next_high = jnp.where(up, threshold, low), jnp.where(down, threshold, high)
        # Between neighboring floats there is no other: the numbers at the lower one are equal.
        settled = (count == above) | (next_low == low) & (next_high == high)
        too_many, too_few = jnp.where(up, count, too_many), jnp.where(down, count, too_few)
        return number + 1, next_low, next_high, too_many, too_few, settled

    least, largest = rows.min(axis=1), rows.max(axis=1)
    beyond = jnp.where(largest > 0, largest * 1.000001, largest * 0.999999) + jnp.finfo(rows.dtype).tiny
    everything, none = jnp.full(above.shape, float(rows.shape[1])), jnp.zeros(above.shape)
    start = (jnp.int32(1), jnp.where(above == 0, beyond, least), beyond, everything, none, above == 0)
    _, _, threshold, _, reached, _ = repeat("bracket", lambda state: ~state[-1].all(), step, start)
    low = jnp.where(rows < threshold[:, None], rows, -jnp.inf).max(axis=1)
    high = jnp.where(rows >= threshold[:, None], rows, jnp.inf).min(axis=1)
    return low, jnp.where(reached == above, high, low)


def _sorted_within(values, distance, size: int) -> Float[Array, "d n"]:
    """Distances ordered by value, then by distance: each value's samples stand together."""
    values = jnp.broadcast_to(values[:, None], distance.shape).T
    if size >= 1 << (31 - DISTANCE_BITS):
        return jax.lax.sort((values, distance.T), dimension=1, num_keys=2)[1]
    # One integer key sorts several times faster: the distance as a share of the largest in its low bits.
    most = jnp.float32((1 << DISTANCE_BITS) - 1)
    largest = jnp.maximum(distance.max(axis=0), 1e-30)[:, None]
    keys = (values << DISTANCE_BITS) | jnp.round(distance.T / largest * most).astype(jnp.int32)
    keys = jax.lax.sort(keys, dimension=1, is_stable=True)
    return (keys & ((1 << DISTANCE_BITS) - 1)).astype(jnp.float32) / most * largest
