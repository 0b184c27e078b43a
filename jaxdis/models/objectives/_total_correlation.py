"""Splitting the batch's KL divergence into index-code information, total correlation and dimension-wise KL.

    KL(q(z|x) ‖ p(z)) = I(x; z) + KL(q(z) ‖ Π_l q(z_l)) + Σ_l KL(q(z_l) ‖ p(z_l))        (Chen et al. 2018, eq. 2)

The aggregate posterior q(z) is not known on a batch, and five estimators for log q(z_j) and log q(z_j,l) are in use.
They differ mostly by constants: gradients are close, but logged values are not comparable and may be negative.
"""

import math
from typing import Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxdis.models.objectives._distributions import gaussian_log_density

# A paper's key is the estimator of its released code.
Estimator = Literal["mss", "mws", "locatello2020", "chen2018", "mahon2024"]
ESTIMATORS: tuple[Estimator, ...] = get_args(Estimator)


class Decomposition(NamedTuple):
    """Means over the batch, nats. Their sum does not depend on the estimator."""

    mutual_information: Float[Array, ""]
    total_correlation: Float[Array, ""]
    dimension_wise_kl: Float[Array, ""]


def decompose(
    codes: Float[Array, "n d"],
    mean: Float[Array, "n d"],
    log_variance: Float[Array, "n d"],
    *,
    num_data: int,
    estimator: Estimator = "mss",
) -> Decomposition:
    """The three parts of the KL divergence, estimated on one batch.

    Args:
      codes: ``[n, d]``, one draw from each posterior.
      mean, log_variance: ``[n, d]`` for the posteriors.
      num_data: size ``N`` of the data set that the batch comes from; ``locatello2020`` does not use it.
      estimator: how ``log q(z_j)`` is averaged over the batch, with ``lq[j,i,l] = log q(z_jl | x_i)``:

        * ``mss`` (default): minibatch stratified sampling as derived in Chen et al. (2018), appendix C.2: weight 1/N
          for the sample's own posterior, (N−M)/(NM) for one other (the next in the batch), 1/M for the rest, M = n − 1.
        * ``mws``: minibatch weighted sampling, weight 1/(N·n) throughout (ibid., C.1).
        * ``locatello2020``: no weights, as in Locatello et al.'s code (2020); the total correlation is smaller than
          with ``mws`` by (d−1)·log(N·n).
        * ``chen2018``: ``mss`` with the weights in the code released with Chen et al. (2018), whose stride marks a
          column instead of the diagonal.
        * ``mahon2024``: the same, with the log-weight added in every code before the sum, so that the joint counts it d
          times (the code behind Mahon et al. 2024).

    Returns:
      :class:`Decomposition` with scalars.
    """
    log_ratios = gaussian_log_density(codes[:, None, :], mean[None], log_variance[None])
    own = gaussian_log_density(codes, mean, log_variance).sum(1).mean()
    prior = gaussian_log_density(codes, jnp.zeros_like(mean), jnp.zeros_like(mean)).sum(1).mean()
    log_weights = jnp.asarray(_log_weights(codes.shape[0], num_data, estimator))[:, :, None]
    weighted = log_ratios + log_weights
    joint_terms = weighted.sum(2) if estimator == "mahon2024" else log_ratios.sum(2) + log_weights[:, :, 0]
    joint = jax.nn.logsumexp(joint_terms, axis=1).mean()
    marginals = jax.nn.logsumexp(weighted, axis=1).sum(1).mean()
    return Decomposition(own - joint, joint - marginals, marginals - prior)


def estimable(n: int, num_data: int | None, estimator: Estimator) -> bool:
    """Whether the estimator has weights for ``n`` of ``num_data`` samples (None: infinitely many).

    ``locatello2020`` uses none, ``mws`` needs a finite data set, and the stratified ones also need 2 ≤ n ≤ N.
    """
    return estimator == "locatello2020" or (num_data is not None and (estimator == "mws" or 2 <= n <= num_data))


def _log_weights(n: int, num_data: int, estimator: Estimator) -> np.ndarray:
    """``[j, i]``: the log-weight of sample ``i``'s posterior in ``q(z_j)``."""
    if estimator == "locatello2020":
        return np.zeros((n, n), np.float32)
    if estimator == "mws":
        return np.full((n, n), -math.log(num_data * n), np.float32)
    if not estimable(n, num_data, estimator):
        raise ValueError(
            f"estimator: {estimator} needs a batch of at least 2 and a data set no smaller than the batch, got a batch "
            f"of {n} and {num_data} data"
        )
    rest = n - 1
    # 1/N, like the weight of the sample's own posterior, if the batch is the whole data set; else greater than 1/N.
    stratum = (num_data - rest) / (num_data * rest)
    weights = np.full((n, n), 1 / rest)
    rows = np.arange(n)
    if estimator == "mss":
        weights[rows, rows] = 1 / num_data
        weights[rows, (rows + 1) % n] = stratum
    elif estimator in ("chen2018", "mahon2024"):
        # view(-1)[::n] and [1::n] of an n × n matrix are its first two columns.
        weights[:, 0] = 1 / num_data
        weights[:, 1] = stratum
        weights[rest - 1, 0] = stratum
    else:
        raise ValueError(f"estimator: must be one of {', '.join(ESTIMATORS)}, got {estimator!r}")
    return np.log(weights).astype(np.float32)
