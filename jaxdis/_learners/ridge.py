"""Ridge regression of standardized targets on standardized inputs: linear, and with a Gaussian kernel."""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxdis._core.arrays import moments, product_over_samples, safe_divide
from jaxdis._core.factorizations import solve_positive
from jaxdis._core.precision import exact_products
from jaxdis._learners.linear import standardized


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
