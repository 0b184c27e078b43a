"""FactorVAE, BetaVAE and Z-max: which factor is held or varies in a batch, predicted from how codes move, in a table.

Which samples to compare is drawn once for a whole zoo: drawing takes most time, and differences between members that
share the same draws are less noisy.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from jaxdis._core import random
from jaxdis._core.arrays import finite_codes, packed_order, stable_order
from jaxdis._core.kernels.sums import distances_in_batches, variances_in_batches
from jaxdis._core.loops import each
from jaxdis._core.options import Batches, BatchSize, Bins, NonNegative
from jaxdis._core.spec import metric
from jaxdis._learners.logistic import fit_logistic, predict
from jaxdis.factors import Codes, Factors
from jaxdis.relations._binning import equal_width_bins


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
        return packed_order(cell, 2 * size), start[cell], number[cell], values.max() > values.min()

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
