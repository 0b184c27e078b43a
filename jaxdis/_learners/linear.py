"""Linear regression with penalties, batched over targets: lasso by coordinate descent, and ridge regression."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxdis._core.arrays import moments, product_over_samples, safe_divide
from jaxdis._core.factorizations import solve, solve_positive
from jaxdis._core.loops import repeat
from jaxdis._core.precision import exact_products

SWEEPS = 10_000  # codes with a correlation of 0.99998 take more than 1,000
SWEEPS_TO_JUMP = 5
# Sweeps end when no coefficient changes a prediction by more than this share of its largest part, that is, rounding.
STILL = 1e-7
# Thirty penalties for unit targets, from one that removes nearly all coefficients to one that hardly shrinks any.
PENALTIES = tuple(float(f"{10 ** (-4 + 4 * i / 29):.6g}") for i in range(30))


def standardized(columns: Float[Array, "n c"], like: Float[Array, "m c"] | None = None) -> Float[Array, "n c"]:
    """Columns with mean 0 and variance 1 (by the moments of ``like`` if given); a constant column becomes 0."""
    mean, deviation = moments(columns if like is None else like)
    flat = deviation == 0
    return jnp.where(flat[None, :], 0.0, (columns - mean[None, :]) / jnp.where(flat, 1.0, deviation)[None, :])


def lasso(
    inputs: Float[Array, "n d"],
    targets: Float[Array, "n k"],
    penalty: float | Float[Array, ""],
    *,
    sweeps: int = SWEEPS,
) -> Float[Array, "d k"]:
    """Coefficients that minimize ``‖y − X w‖² / 2n + penalty ‖w‖₁`` for each target; center inputs and targets first.

    Cyclic coordinate descent on the Gram matrix, all targets at once: a sweep costs ``d² k``, whatever ``n``; sweeps
    end when no coefficient moves any more. This is scikit-learn's ``Lasso(alpha=penalty)`` without an intercept. A zero
    column has coefficient 0. Deterministic.

    Reference: Friedman et al. 2010, §2.1 (covariance updates).
    """
    gram, cross = (product_over_samples(inputs, columns) / inputs.shape[0] for columns in (inputs, targets))
    return _descend(gram, cross, penalty, jnp.zeros_like(cross), sweeps)


@exact_products
def _descend(gram, cross, penalty, weights, sweeps: int | Int[Array, ""]) -> Float[Array, "d k"]:
    """Sweeps over coordinates, and after every few of them a step to the optimum for the current signs.

    Coordinate descent alone hardly moves between nearly duplicate codes: it needs 10⁵ sweeps or more at a correlation
    of 0.9999. On the orthant of the current signs the objective is quadratic, so its minimum is one linear system away.
    """
    size = jnp.diagonal(gram)
    deviation = jnp.sqrt(size)[:, None]

    def coordinate(i, weights):
        rest = cross[i] - gram[i] @ weights + size[i] * weights[i]
        shrunk = jnp.sign(rest) * jnp.maximum(jnp.abs(rest) - penalty, 0.0)
        return weights.at[i].set(jnp.where(size[i] > 0, shrunk / jnp.where(size[i] > 0, size[i], 1.0), 0.0))

    def sweep(_, weights):
        return jax.lax.fori_loop(0, gram.shape[0], coordinate, weights)

    def objective(weights):
        smooth = (weights * (0.5 * gram @ weights - cross)).sum(axis=0)
        return smooth + penalty * jnp.abs(weights).sum(axis=0)

    def jump(weights):
        """Move to the optimum for each target's signs, or to the first point on the way where a sign would change."""
        signs = jnp.sign(weights)
        active = jnp.abs(signs).T  # [k, d]
        masked = active[:, :, None] * gram[None] * active[:, None, :] + jax.vmap(jnp.diag)(1 - active)
        best = solve(masked, (active * (cross - penalty * signs).T)[:, :, None])[:, :, 0].T
        move = best - weights
        crosses = (best * signs < 0) & (signs != 0)
        reached = jnp.where(crosses, safe_divide(-weights, move), 2.0)  # the share of the move at which a sign changes
        share = jnp.minimum(reached.min(axis=0), 1.0)[None, :]
        moved = jnp.where(reached <= share, 0.0, weights + share * move)
        return jnp.where((objective(moved) < objective(weights))[None, :], moved, weights)

    def step(state):
        count, weights, _ = state
        moved = jump(jax.lax.fori_loop(0, SWEEPS_TO_JUMP, sweep, weights))
        move, reach = (jnp.abs(part * deviation).max(axis=0) for part in (moved - weights, moved))
        return count + SWEEPS_TO_JUMP, moved, (move > STILL * reach).any()

    def moving(state):
        return (state[0] < sweeps) & state[2]

    return repeat("sweeps", moving, step, (jnp.int32(0), weights, jnp.array(True)))[1]


class Linear(NamedTuple):
    """A linear model between standardized columns.

    ``weights [d, k]``; ``mean`` and ``deviation`` of inputs ``[d]`` and targets ``[k]``, where deviation 0 marks a
    constant.
    """

    weights: Float[Array, "d k"]
    mean: Float[Array, " d"]
    deviation: Float[Array, " d"]
    target_mean: Float[Array, " k"]
    target_deviation: Float[Array, " k"]


def lasso_standardized(
    inputs: Float[Array, "n d"],
    targets: Float[Array, "n k"],
    penalty: float | Float[Array, ""],
    *,
    sweeps: int | Int[Array, ""] = SWEEPS,
) -> Linear:
    """:func:`lasso` of standardized inputs and targets: one product over all columns gives their correlations."""
    model, gram, cross = _correlations(inputs, targets)
    return model._replace(weights=_descend(gram, cross, penalty, model.weights, sweeps))


def _correlations(inputs, targets) -> tuple[Linear, Float[Array, "d d"], Float[Array, "d k"]]:
    """A model without weights, and the correlations of inputs with inputs and with targets."""
    d, columns = inputs.shape[1], jnp.concatenate([inputs, targets], axis=1)
    mean, deviation = moments(columns)
    unit = jnp.where(deviation > 0, deviation, 1.0)
    columns = jnp.where((deviation > 0)[None, :], (columns - mean[None, :]) / unit[None, :], 0.0)
    correlation = product_over_samples(columns[:, :d], columns) / columns.shape[0]
    gram, cross = correlation[:, :d], correlation[:, d:]
    return Linear(jnp.zeros_like(cross), mean[:d], deviation[:d], mean[d:], deviation[d:]), gram, cross


def standardized_error(model: Linear, inputs: Float[Array, "m d"], targets: Float[Array, "m k"]) -> Float[Array, "k m"]:
    """Targets minus predictions, in deviations of the fitted targets; samples come last, to fill vector registers."""
    scale, target_scale = (
        safe_divide(jnp.ones_like(deviation), deviation) for deviation in (model.deviation, model.target_deviation)
    )
    predicted = jnp.einsum("dk,nd->kn", scale[:, None] * model.weights, inputs - model.mean[None, :])
    return (targets.T - model.target_mean[:, None]) * target_scale[:, None] - predicted


class Path(NamedTuple):
    """The ``model`` at the ``penalty [k]`` chosen for each target, and ``error [p, k]``: its mean squares on validation
    samples, from the largest penalty to the smallest."""

    model: Linear
    penalty: Float[Array, " k"]
    error: Float[Array, "p k"]


def lasso_validated(
    inputs: Float[Array, "n d"],
    targets: Float[Array, "n k"],
    other_inputs: Float[Array, "m d"],
    other_targets: Float[Array, "m k"],
    *,
    penalties: tuple[float, ...] = PENALTIES,
    sweeps: int = SWEEPS,
    together: Float[Array, "k j"] | None = None,
) -> Path:
    """:func:`lasso_standardized` of each target at the penalty with the least squared error on validation samples.

    The path runs from the largest penalty to the smallest, each started at the previous solution, with all targets at
    once on one Gram matrix. Of equal errors the larger penalty is chosen. Targets that share a choice are weighted by a
    column of ``together``.

    Reference: Eastwood & Williams 2018, §4.2 (penalty chosen on a development set); Friedman et al. 2010, §2.5.
    """
    model, gram, cross = _correlations(inputs, targets)
    path = jnp.asarray(np.sort(np.array(penalties, np.float32))[::-1])

    def one_penalty(weights, penalty):
        weights = _descend(gram, cross, penalty, weights, sweeps)
        error = standardized_error(model._replace(weights=weights), other_inputs, other_targets)
        return weights, (weights, (error**2).mean(axis=1))

    _, (weights, error) = jax.lax.scan(one_penalty, model.weights, path)
    best = jnp.argmin(error, axis=0)
    if together is not None:
        best = jnp.argmin(error @ together, axis=0)[jnp.argmax(together, axis=1)]
    chosen = jnp.take_along_axis(weights, best[None, None, :], axis=0)[0]
    return Path(model._replace(weights=chosen), path[best], error)


@exact_products
def linear_ridge(
    inputs: Float[Array, "n d"], targets: Float[Array, "n k"], others: Float[Array, "m d"], penalty: float
) -> Float[Array, "m k"]:
    """Predict standardized targets of other samples by the ``W`` that minimizes ``‖Y − X W‖² / n + penalty ‖W‖²``.

    With more inputs than samples the inputs' Gram matrix is singular, and float32 solves with it to a few digits at
    small penalties; the samples' gives the same ``W``.
    """
    n, d = inputs.shape
    columns, goals = standardized(inputs), standardized(targets)
    if d > n:
        samples = solve_positive(columns @ columns.T / n + penalty * jnp.eye(n), goals) / n
        weights = columns.T @ samples
    else:
        gram = product_over_samples(columns, columns) / n
        weights = solve_positive(gram + penalty * jnp.eye(d), product_over_samples(columns, goals) / n)
    return standardized(others, like=inputs) @ weights


@exact_products
def kernel_ridge(
    inputs: Float[Array, "n d"],
    targets: Float[Array, "n k"],
    others: Float[Array, "m d"],
    penalty: float,
    inverse_width: float | None,
    rows: Int[Array, " r"],
) -> Float[Array, "m k"]:
    """Predict standardized targets of other samples by ``K(others, inputs) (K + penalty)⁻¹ Y``.

    ``K(x, y) = exp(−inverse_width ‖x − y‖²)`` on standardized inputs; by default ``inverse_width`` is one over the
    number of inputs that vary. The regression is fitted to some rows; all of them standardize.
    """
    varies = (moments(inputs)[1] > 0).sum().astype(jnp.float32)
    width = 1 / jnp.maximum(varies, 1.0) if inverse_width is None else inverse_width
    columns, others = standardized(inputs)[rows], standardized(others, like=inputs)

    def kernel(left, right):
        apart = (left**2).sum(axis=1)[:, None] + (right**2).sum(axis=1)[None, :] - 2 * left @ right.T
        return jnp.exp(-width * jnp.maximum(apart, 0.0))

    within = kernel(columns, columns) + penalty * jnp.eye(len(columns))
    weights = solve_positive(within, standardized(targets)[rows])
    return kernel(others, columns) @ weights


def explained(
    predicted: Float[Array, "m c"], truth: Float[Array, "m c"], member: Float[Array, "c k"]
) -> Float[Array, " k"]:
    """The share of variance that predictions explain, over each factor's columns; 0 for a constant."""
    error = ((truth - predicted) ** 2).mean(axis=0) @ member
    variance = moments(truth)[1] ** 2 @ member
    return jnp.where(variance > 0, 1 - safe_divide(error, variance), 0.0)


def correlated(
    predicted: Float[Array, "m c"], truth: Float[Array, "m c"], member: Float[Array, "c k"]
) -> Float[Array, " k"]:
    """The absolute correlation of predictions with the truth, over each factor's columns together; 0 for a constant."""
    deviations = [moments(columns)[1] for columns in (predicted, truth)]
    products = (standardized(predicted) * standardized(truth)).mean(axis=0) * deviations[0] * deviations[1]
    scale = jnp.sqrt((deviations[0] ** 2 @ member) * (deviations[1] ** 2 @ member))
    return jnp.minimum(jnp.abs(safe_divide(products @ member, scale)), 1.0)
