"""Linear regression with penalties, batched over targets: lasso by coordinate descent, ridge in closed form."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxdis.arrays import product_over_samples, safe_divide, weighted_mean

SWEEPS = 200
# Sweeps end when no coefficient moves a prediction by more than this share of the largest part of it: rounding.
STILL = 1e-7
# Thirty penalties for unit targets, from one that leaves little to one that shrinks nothing to speak of.
PENALTIES = tuple(float(f"{10 ** (-4 + 4 * i / 29):.6g}") for i in range(30))
PATH_SWEEPS = 50


def standardised(columns: Float[Array, "n c"], like: Float[Array, "m c"] | None = None) -> Float[Array, "n c"]:
    """Columns with mean 0 and variance 1 (those of ``like``, when given); a constant column becomes 0."""
    like = columns if like is None else like
    ones = jnp.ones(like.shape[0])
    first = like[0]
    mean = weighted_mean(like - first[None, :], ones) + first
    deviation = jnp.sqrt(weighted_mean((like - mean[None, :]) ** 2, ones))
    flat = deviation <= 4 * jnp.finfo(like.dtype).eps * jnp.abs(like).max(axis=0)
    return jnp.where(flat[None, :], 0.0, (columns - mean[None, :]) / jnp.where(flat, 1.0, deviation)[None, :])


def lasso(
    inputs: Float[Array, "n d"],
    targets: Float[Array, "n k"],
    penalty: float | Float[Array, ""],
    *,
    sweeps: int = SWEEPS,
) -> Float[Array, "d k"]:
    """Coefficients that minimise ``‖y − X w‖² / 2n + penalty ‖w‖₁`` for each target; no intercept: centre both first.

    Cyclic coordinate descent on the Gram matrix, all targets at once: a sweep costs ``d² k``, whatever ``n``; at most
    ``sweeps``, fewer once no coefficient moves. That is scikit-learn's ``Lasso(alpha=penalty)``. A column of zeros gets
    coefficient 0. Deterministic.

    Reference: Friedman et al. 2010, §2.1 (covariance updates).
    """
    gram, cross = _products(inputs, targets)
    return _descend(gram, cross, penalty, jnp.zeros_like(cross), sweeps)


def _products(inputs, targets):
    n = inputs.shape[0]
    return product_over_samples(inputs, inputs) / n, product_over_samples(inputs, targets) / n


def _descend(gram, cross, penalty, weights, sweeps: int) -> Float[Array, "d k"]:
    size = jnp.diagonal(gram)
    deviation = jnp.sqrt(size)[:, None]

    def coordinate(i, weights):
        rest = cross[i] - gram[i] @ weights + size[i] * weights[i]
        shrunk = jnp.sign(rest) * jnp.maximum(jnp.abs(rest) - penalty, 0.0)
        return weights.at[i].set(jnp.where(size[i] > 0, shrunk / jnp.where(size[i] > 0, size[i], 1.0), 0.0))

    def sweep(state):
        count, weights, _ = state
        moved = jax.lax.fori_loop(0, gram.shape[0], coordinate, weights)
        step, reach = (jnp.abs(part * deviation).max(axis=0) for part in (moved - weights, moved))
        return count + 1, moved, (step > STILL * reach).any()

    def moving(state):
        return (state[0] < sweeps) & state[2]

    return jax.lax.while_loop(moving, sweep, (jnp.int32(0), weights, jnp.array(True)))[1]


class Linear(NamedTuple):
    """A linear model between standardised columns: ``weights [d, k]``; ``mean`` and ``deviation`` of inputs ``[d]``
    and of targets ``[k]``, where a deviation of 0 marks a constant."""

    weights: Float[Array, "d k"]
    mean: Float[Array, " d"]
    deviation: Float[Array, " d"]
    target_mean: Float[Array, " k"]
    target_deviation: Float[Array, " k"]


def lasso_standardised(
    inputs: Float[Array, "n d"], targets: Float[Array, "n k"], penalty: float, *, sweeps: int = SWEEPS
) -> Linear:
    """:func:`lasso` of standardised inputs and targets, which are never written down: one product of all columns gives
    means, deviations and the Gram matrix. Columns of any offset: they are taken from the first sample."""
    d, columns = inputs.shape[1], jnp.concatenate([inputs, targets], axis=1)
    first = columns[0]
    moved = jnp.concatenate([columns - first[None, :], jnp.ones_like(columns[:, :1])], axis=1)
    moments = product_over_samples(moved, moved) / columns.shape[0]
    shift = moments[-1, :-1]
    covariance = moments[:-1, :-1] - shift[:, None] * shift[None, :]
    mean, deviation = first + shift, jnp.sqrt(jnp.maximum(jnp.diagonal(covariance), 0.0))
    rounding = 4 * jnp.finfo(columns.dtype).eps * jnp.abs(mean)
    deviation = jnp.where(deviation <= rounding, 0.0, deviation)
    scale = safe_divide(jnp.ones_like(deviation), deviation)
    correlation = covariance * scale[:, None] * scale[None, :]
    gram, cross = correlation[:d, :d], correlation[:d, d:]
    weights = _descend(gram, cross, penalty, jnp.zeros_like(cross), sweeps)
    return Linear(weights, mean[:d], deviation[:d], mean[d:], deviation[d:])


def standardised_error(model: Linear, inputs: Float[Array, "m d"], targets: Float[Array, "m k"]) -> Float[Array, "k m"]:
    """Target less prediction in deviations of the fitted targets; samples last, so that they fill registers."""
    scale, target_scale = (
        safe_divide(jnp.ones_like(deviation), deviation) for deviation in (model.deviation, model.target_deviation)
    )
    predicted = jnp.einsum("dk,nd->kn", scale[:, None] * model.weights, inputs - model.mean[None, :])
    return (targets.T - model.target_mean[:, None]) * target_scale[:, None] - predicted


class Path(NamedTuple):
    """``weights [d, k]`` at the ``penalty [k]`` chosen for each target; ``error [p, k]``: held-out mean squares."""

    weights: Float[Array, "d k"]
    penalty: Float[Array, " k"]
    error: Float[Array, "p k"]


def lasso_validated(
    inputs: Float[Array, "n d"],
    targets: Float[Array, "n k"],
    held_inputs: Float[Array, "m d"],
    held_targets: Float[Array, "m k"],
    *,
    penalties: tuple[float, ...] = PENALTIES,
    sweeps: int = PATH_SWEEPS,
) -> Path:
    """The lasso of each target at the penalty with the least squared error on held-out samples.

    One path from the largest penalty to the smallest, each started at the solution before, all targets at once on one
    Gram matrix; the larger penalty among equals. Inputs and targets as :func:`lasso`, the held-out ones centred like
    them.

    Reference: Eastwood & Williams 2018, §4.2 (penalty chosen on a development set); Friedman et al. 2010, §2.5.
    """
    gram, cross = _products(inputs, targets)
    path = jnp.asarray(np.sort(np.array(penalties, np.float32))[::-1])

    def one(weights, penalty):
        weights = _descend(gram, cross, penalty, weights, sweeps)
        return weights, (weights, ((held_targets - held_inputs @ weights) ** 2).mean(axis=0))

    _, (weights, error) = jax.lax.scan(one, jnp.zeros_like(cross), path)
    best = jnp.argmin(error, axis=0)
    chosen = jnp.take_along_axis(weights, best[None, None, :], axis=0)[0]
    return Path(chosen, path[best], error)


def ridge(
    inputs: Float[Array, "n d"], targets: Float[Array, "n k"], penalty: float | Float[Array, ""] = 1.0
) -> Float[Array, "d k"]:
    """Coefficients that minimise ``‖Y − X W‖² + penalty ‖W‖²``; no intercept (scikit-learn's ``Ridge``)."""
    gram = product_over_samples(inputs, inputs) + penalty * jnp.eye(inputs.shape[1])
    factorised = jax.scipy.linalg.cho_factor(gram)
    return jax.scipy.linalg.cho_solve(factorised, product_over_samples(inputs, targets))
