"""FactorVAE and BetaVAE: which factor is held in a batch, predicted from how the codes move. From a table."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from jaxdis._core.arrays import finite_codes
from jaxdis._core.kernels.sums import distances_in_batches, variances_in_batches
from jaxdis._core.options import Batches, BatchSize, Bins, NonNegative
from jaxdis._core.spec import metric
from jaxdis._learners.logistic import fit_logistic, predict
from jaxdis.factors import Codes, Factors
from jaxdis.metrics.interventions._fixed_draws import Draws, draw_batches, draw_pairs


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
    draws = prepared
    if draws is None:
        draws = draw_batches(key, factors, num_train=num_train, num_eval=num_eval, batch=batch, factor_bins=factor_bins)
    variances, spread, competes = batch_variances(codes, draws.rows, prune, active)
    usable = finite_codes(codes).all() & (draws.varying > 1)
    return judge_votes(
        _least(variances, spread, competes), draws.factor, competes, usable, factors.num_factors, num_train
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
    batches: Float[Array, "c b d"], spread: Float[Array, " d"], competes: Bool[Array, " d"]
) -> Int[Array, " c"]:
    """Each batch's code with the smallest variance, relative to ``spread``, among those that compete."""
    return _least(jnp.var(batches, axis=1, ddof=1), spread, competes)


def _least(local: Float[Array, "c d"], spread, competes) -> Int[Array, " c"]:
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
    draws = prepared
    if draws is None:
        draws = draw_pairs(key, factors, num_train=num_train, num_eval=num_eval, batch=batch, factor_bins=factor_bins)
    finite = finite_codes(codes).all()
    safe = jnp.nan_to_num(codes)
    safe = safe if active is None else jnp.where(active[None, :], safe, 0.0)
    features = distances_in_batches(safe, draws.rows, draws.partners)
    varying = draws.varying if rescale else None
    usable = finite & (draws.varying > 1)
    return judge_features(features, draws.factor, usable, factors.num_factors, num_train, varying)


def mean_distance(left: Float[Array, "c b d"], right: Float[Array, "c b d"]) -> Float[Array, "c d"]:
    """Each code's mean absolute difference over each batch's pairs."""
    return jnp.abs(left - right).mean(axis=1)


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
    if varying is not None:
        chance = 1 / jnp.maximum(varying, 2).astype(jnp.float32)
        train, held_out = (train - chance) / (1 - chance), (held_out - chance) / (1 - chance)
    return Intervened(held_out, train)
