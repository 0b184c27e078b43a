"""Scores by what happens to codes when one factor is held: FactorVAE, BetaVAE and IRS, from a table of codes.

The samples to compare are drawn once for a whole zoo (``draw_batches``, ``draw_pairs``) and given to every member: the
draws are most of the work, and members compared on the same draws differ by less noise.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from jaxdis.arrays import safe_divide
from jaxdis.learners.logistic import fit_logistic, predict
from jaxdis.relations.binning import equal_width_bins
from jaxdis.relations.relation import finite_codes
from jaxdis.typing import Codes, Factors

# Batches gathered at one time: 250 × 64 rows of 10 codes are 640 KB.
CHUNK = 250
# Of a sorting key that also holds a factor's value: distances are then told apart to 6e-8 of the largest.
DISTANCE_BITS = 24


class Draws(NamedTuple):
    """``factor [t]``, the factor held in each batch (as a number among the discrete ones that vary); ``rows [t, b]``,
    the samples of a batch; ``partners [t, b]``, the samples that they are compared with, or None."""

    factor: Int[Array, " t"]
    rows: Int[Array, "t b"]
    partners: Int[Array, "t b"] | None


class Intervened(NamedTuple):
    """``score []`` on the batches held out, ``train []`` on those that the classifier saw."""

    score: Float[Array, ""]
    train: Float[Array, ""]


class Votes(NamedTuple):
    """As :class:`Intervened`; ``votes [d, k]``: training batches by the code that varied least and the factor held."""

    score: Float[Array, ""]
    train: Float[Array, ""]
    votes: Float[Array, "d k"]


class Robustness(NamedTuple):
    """``score []``; ``per_code [d]``, its best; ``matrix [d, k]``; ``deviation [d]``, the weight of each code."""

    score: Float[Array, ""]
    per_code: Float[Array, " d"]
    matrix: Float[Array, "d k"]
    deviation: Float[Array, " d"]


def draw_batches(
    key: PRNGKeyArray, factors: Factors, *, num_train: int = 10_000, num_eval: int = 5_000, batch: int = 64
) -> Draws:
    """Batches of samples that share the value of one random factor, the value being that of a random sample."""
    which, first, rest = jax.random.split(key, 3)
    count = num_train + num_eval
    factor, table = _varying(which, factors, count)
    one = jax.random.randint(first, (count,), 0, factors.num_samples)
    rows = _given(rest, table, factor[:, None], jnp.broadcast_to(one[:, None], (count, batch)))
    return Draws(factor, rows, None)


def draw_pairs(
    key: PRNGKeyArray, factors: Factors, *, num_train: int = 10_000, num_eval: int = 5_000, batch: int = 64
) -> Draws:
    """Batches of pairs of samples: the first of a pair is random, the second shares the value of one factor with it."""
    which, first, rest = jax.random.split(key, 3)
    count = num_train + num_eval
    factor, table = _varying(which, factors, count)
    rows = jax.random.randint(first, (count, batch), 0, factors.num_samples)
    return Draws(factor, rows, _given(rest, table, factor[:, None], rows))


def factor_vae(
    key: PRNGKeyArray,
    codes: Codes,
    factors: Factors,
    *,
    num_train: int = 10_000,
    num_eval: int = 5_000,
    batch: int = 64,
    prune: float = 0.05,
    draws: Draws | None = None,
    active: Bool[Array, " d"] | None = None,
) -> Votes:
    """Accuracy of telling which factor is held from the code that varies least (Z-min variance).

    A batch of 64 samples shares the value of one factor. Its vote is the code with the smallest variance in the batch
    as a share of its variance over all samples; codes whose standard deviation is under ``prune`` do not compete. Each
    code stands for the factor that it got most votes for in ``num_train`` batches; the score is the share of right
    answers in ``num_eval`` others.

    Shapes: codes ``[n, d]``, factors ``[n, k]``; continuous and one-valued factors are never held.
    Contract: in [0, 1], chance is 1 / k; 0 when every code is pruned; invariant under scaling a code as long as it is
    not pruned; any non-finite code gives NaN; depends on the key within about 0.005.

    Reference: Kim & Mnih 2018, §4; Locatello et al. 2020, §4.2.2. The paper prunes by variance under 0.05, the released
    code by standard deviation under 0.05, as here. Batches are drawn from the given samples, not from a simulator.
    """
    if draws is None:
        draws = draw_batches(key, factors, num_train=num_train, num_eval=num_eval, batch=batch)
    finite = finite_codes(codes).all()
    safe = jnp.nan_to_num(codes)
    safe = safe - safe[:1]  # a shift near the data keeps the variance of a nearly constant code exact
    spread = jnp.var(safe, axis=0, ddof=1)
    competes = jnp.sqrt(spread) >= prune
    if active is not None:
        competes = competes & active

    def least(rows):
        local = jnp.var(safe[rows], axis=1, ddof=1)  # [c, d]
        share = jnp.where(competes[None, :], local / jnp.where(competes, spread, 1.0)[None, :], jnp.inf)
        return jnp.argmin(share, axis=1).astype(jnp.int32)

    vote = _in_chunks(least, draws.rows)
    d, k = codes.shape[1], factors.num_factors
    cell = vote * k + draws.factor
    table = jnp.zeros(d * k).at[cell[:num_train]].add(1.0).reshape(d, k)
    answer = jnp.argmax(table, axis=1)
    right = (answer[vote] == draws.factor).astype(jnp.float32)
    usable = jnp.where(finite, jnp.where(competes.any(), 1.0, 0.0), jnp.nan)
    return Votes(usable * right[num_train:].mean(), usable * right[:num_train].mean(), usable * table)


def beta_vae(
    key: PRNGKeyArray,
    codes: Codes,
    factors: Factors,
    *,
    num_train: int = 10_000,
    num_eval: int = 5_000,
    batch: int = 64,
    rescale: bool = False,
    draws: Draws | None = None,
    active: Bool[Array, " d"] | None = None,
) -> Intervened:
    """Accuracy of a linear classifier that tells which factor two halves of a batch share, from their mean distance.

    A batch is 64 pairs of samples, equal in one factor within each pair (the value varies over pairs); its feature is
    the mean absolute difference of each code. Logistic regression (penalty 1, features as they are) on ``num_train``
    batches; the score is its accuracy on ``num_eval`` others. ``rescale`` maps chance to 0: ``(a − 1/k) / (1 − 1/k)``.

    Shapes: codes ``[n, d]``, factors ``[n, k]``; continuous and one-valued factors are never shared.
    Contract: in [0, 1], chance is 1 / k; depends on the scale of codes, since coefficients are penalised; a constant
    code changes nothing; any non-finite code gives NaN; depends on the key within about 0.005.

    Reference: Higgins et al. 2017, §3; Locatello et al. 2020, §4.2.1. Batches are drawn from the given samples.
    """
    if draws is None:
        draws = draw_pairs(key, factors, num_train=num_train, num_eval=num_eval, batch=batch)
    finite = finite_codes(codes).all()
    safe = jnp.nan_to_num(codes)
    safe = safe if active is None else jnp.where(active[None, :], safe, 0.0)
    features = _in_chunks(
        lambda pair: jnp.abs(safe[pair[0]] - safe[pair[1]]).mean(axis=1), (draws.rows, draws.partners)
    )
    k = factors.num_factors
    labels = draws.factor[:, None]
    model = fit_logistic(features[:num_train], labels[:num_train], (k,))
    right = (predict(model, features, (k,)) == labels).astype(jnp.float32)[:, 0]
    right = jnp.where(finite, right, jnp.nan)
    train, held_out = right[:num_train].mean(), right[num_train:].mean()
    if rescale:
        chance = 1 / jnp.maximum(_num_varying(factors), 2).astype(jnp.float32)
        train, held_out = (train - chance) / (1 - chance), (held_out - chance) / (1 - chance)
    return Intervened(held_out, train)


def irs(
    codes: Codes,
    factors: Factors,
    *,
    quantile: float = 0.99,
    factor_bins: int | None = None,
    active: Bool[Array, " d"] | None = None,
) -> Robustness:
    """Interventional robustness: how little a code moves while one factor is held and the others vary.

    ``1 − dev_ij / M_i`` with ``M_i`` the largest distance of code ``i`` from its mean, and ``dev_ij`` the mean over the
    values of factor ``j`` of the ``quantile`` of the distances from the mean given that value. A code's score is its
    best over factors; the headline weighs codes by ``M_i``.

    Options: ``quantile=1`` is the paper's supremum; ``factor_bins`` cuts factors into that many equal-width bins first.
    Shapes: codes ``[n, d]``, factors ``[n, k]``; continuous factors are left out unless binned.

    Contract: at most 1; 0 when every code is constant, a constant code weighs nothing; one-valued factors are left out
    and NaN in the matrix; invariant under affine maps of a code, up to its weight; any non-finite code gives NaN;
    deterministic. Observational: the samples must cross the factors uniformly for this to be an intervention.

    Reference: Suter et al. 2019, §4; Locatello et al. 2020, §4.2.7. The released code takes the 0.99 quantile; its
    configuration bins the factors to 20 (``factor_bins=20``).
    """
    finite = finite_codes(codes)
    safe = jnp.nan_to_num(codes)
    safe = safe if active is None else jnp.where(active[None, :], safe, 0.0)
    centred = safe - safe[:1]
    centred = centred - centred.mean(axis=0)[None, :]
    deviation = jnp.abs(centred).max(axis=0)
    deviation = jnp.where(deviation > 4 * jnp.finfo(codes.dtype).eps * jnp.abs(safe).max(axis=0), deviation, 0.0)
    columns = []
    for j, size in enumerate(factors.sizes):
        if size is None and factor_bins is None:
            columns.append(jnp.full(codes.shape[1], jnp.nan))
            continue
        values = factors.values[:, j]
        if factor_bins is not None:
            values = equal_width_bins(values.astype(jnp.float32)[:, None], factor_bins)[:, 0]
            size = factor_bins
        moved = _conditional_quantiles(centred, values.astype(jnp.int32), size, quantile)
        robust = jnp.where(deviation > 0, 1 - safe_divide(moved, deviation), 0.0)
        columns.append(jnp.where(values.max() > values.min(), robust, jnp.nan))
    matrix = jnp.stack(columns, axis=1)
    per_code = jnp.where(jnp.isnan(matrix), -jnp.inf, matrix).max(axis=1)
    per_code = jnp.where(jnp.isfinite(per_code), per_code, jnp.nan)
    score = safe_divide((deviation * jnp.where(deviation > 0, per_code, 0.0)).sum(), deviation.sum())
    per_code, matrix = jnp.where(finite, per_code, jnp.nan), jnp.where(finite[:, None], matrix, jnp.nan)
    return Robustness(jnp.where(finite.all(), score, jnp.nan), per_code, matrix, jnp.where(finite, deviation, jnp.nan))


def _conditional_quantiles(centred, values, size: int, quantile: float) -> Float[Array, " d"]:
    """Mean over the values that occur of the quantile (linear) of ``|v − E[v | value]|``."""
    counts = jnp.zeros(size).at[values].add(1.0)
    mean = jnp.zeros((size, centred.shape[1])).at[values].add(centred) / jnp.maximum(counts, 1.0)[:, None]
    distance = jnp.abs(centred - mean[values])
    ordered = _sorted_within(values, distance, size)
    start = jnp.cumsum(counts) - counts
    place = start + quantile * jnp.maximum(counts - 1, 0.0)
    low = jnp.floor(place).astype(jnp.int32)
    high = jnp.minimum(jnp.ceil(place).astype(jnp.int32), centred.shape[0] - 1)
    share = (place - low.astype(jnp.float32))[None, :]
    found = ordered[:, low] * (1 - share) + ordered[:, high] * share  # [d, size]
    occurs = counts > 0
    return jnp.where(occurs[None, :], found, 0.0).sum(axis=1) / occurs.sum().astype(jnp.float32)


def _sorted_within(values, distance, size: int) -> Float[Array, "d n"]:
    """Distances in order of value, then of distance: each value's samples stand together."""
    values = jnp.broadcast_to(values[:, None], distance.shape).T
    if size >= 1 << (31 - DISTANCE_BITS):
        return jax.lax.sort((values, distance.T), dimension=1, num_keys=2)[1]
    # One integer key sorts several times faster: the distance as a share of the largest in its low bits.
    most = jnp.float32((1 << DISTANCE_BITS) - 1)
    largest = jnp.maximum(distance.max(axis=0), 1e-30)[:, None]
    keys = (values << DISTANCE_BITS) | jnp.round(distance.T / largest * most).astype(jnp.int32)
    keys = jax.lax.sort(keys, dimension=1, is_stable=True)
    return (keys & ((1 << DISTANCE_BITS) - 1)).astype(jnp.float32) / most * largest


class _Table(NamedTuple):
    """For each factor: samples sorted by value ``[k, n]``, each sample's value's start and number among them."""

    order: Int[Array, "k n"]
    start: Int[Array, "k n"]
    count: Int[Array, "k n"]


def _varying(key, factors: Factors, count: int) -> tuple[Int[Array, " t"], _Table]:
    """A random factor for each batch among the discrete ones with more than one value, and where its values are."""
    orders, starts, counts, varies = [], [], [], []
    for j, size in enumerate(factors.sizes):
        values = (
            factors.values[:, j].astype(jnp.int32) if size is not None else jnp.zeros(factors.num_samples, jnp.int32)
        )
        number = jnp.zeros(size or 1, jnp.int32).at[values].add(1)
        orders.append(jnp.argsort(values).astype(jnp.int32))
        starts.append((jnp.cumsum(number) - number)[values])
        counts.append(number[values])
        varies.append(values.max() > values.min())
    varies = jnp.stack(varies)
    place = jnp.nonzero(varies, size=len(orders), fill_value=0)[0].astype(jnp.int32)
    number = jnp.maximum(varies.sum(), 1).astype(jnp.float32)
    chosen = jnp.floor(jax.random.uniform(key, (count,)) * number).astype(jnp.int32)
    return place[chosen], _Table(jnp.stack(orders), jnp.stack(starts), jnp.stack(counts))


def _num_varying(factors: Factors) -> Int[Array, ""]:
    varies = [
        factors.values[:, j].max() > factors.values[:, j].min()
        for j, size in enumerate(factors.sizes)
        if size is not None
    ]
    return jnp.stack(varies).sum()


def _given(key, table: _Table, factor, rows) -> Int[Array, "t b"]:
    """For each row, a random sample with the same value of the factor."""
    factor = jnp.broadcast_to(factor, rows.shape)
    count = table.count[factor, rows]
    step = jnp.floor(jax.random.uniform(key, rows.shape) * count.astype(jnp.float32)).astype(jnp.int32)
    return table.order[factor, table.start[factor, rows] + jnp.minimum(step, count - 1)]


def _in_chunks(function, batches):
    """A function of batches ``[c, …]``, a chunk at a time, so that the rows gathered stay in cache."""
    count = jax.tree.leaves(batches)[0].shape[0]
    chunk = int(np.gcd(count, CHUNK))
    cut = jax.tree.map(lambda leaf: leaf.reshape(count // chunk, chunk, *leaf.shape[1:]), batches)
    done = jax.lax.map(function, cut)
    return done.reshape(count, *done.shape[2:])
