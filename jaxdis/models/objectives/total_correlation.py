"""Splitting the batch's KL divergence into index-code information, total correlation and dimension-wise KL.

    KL(q(z|x) ‖ p(z)) = I(x; z) + KL(q(z) ‖ Π_l q(z_l)) + Σ_l KL(q(z_l) ‖ p(z_l))        (Chen et al. 2018, eq. 2)

The aggregate posterior q(z) is not known on a batch; five estimators of log q(z_j) and log q(z_j,l) are in use. They
differ mostly by constants, so gradients are close, but logged values are not comparable and may be negative.
"""

import math
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdis.models.objectives.distributions import gaussian_log_density
from jaxdis.typing import Array, Float

Estimator = Literal["mss", "mws", "locatello", "mss_chen", "mss_yann"]
ESTIMATORS: tuple[Estimator, ...] = ("mss", "mws", "locatello", "mss_chen", "mss_yann")


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
      mean, log_variance: ``[n, d]`` of the posteriors.
      num_data: size ``N`` of the data set the batch came from; not used by ``locatello``.
      estimator: how ``log q(z_j)`` is averaged over the batch, with ``lq[j,i,l] = log q(z_jl | x_i)``:

        * ``mss`` (default): minibatch stratified sampling, Chen et al. (2018), appendix C.2, as derived there: weight
          1/N for the sample's own posterior, (N−M)/(NM) for one other (the next in the batch), 1/M for the rest,
          M = n − 1.
        * ``mws``: minibatch weighted sampling, weight 1/(N·n) throughout (ibid., C.1).
        * ``locatello``: no weights at all (the code of Locatello et al. 2020); total correlation smaller than ``mws``
          by (d−1)·log(N·n).
        * ``mss_chen``: the weights in the code released with Chen et al. (2018), whose stride marks a column instead of
          the diagonal.
        * ``mss_yann``: the same, with the log-weight added in every coordinate before the sum, so that the joint counts
          it d times (the code behind Mahon et al. 2024).

    Returns:
      :class:`Decomposition` of scalars.
    """
    log_ratios = gaussian_log_density(codes[:, None, :], mean[None], log_variance[None])
    own = gaussian_log_density(codes, mean, log_variance).sum(1).mean()
    prior = gaussian_log_density(codes, jnp.zeros_like(mean), jnp.zeros_like(mean)).sum(1).mean()
    log_weights = jnp.asarray(_log_weights(codes.shape[0], num_data, estimator))[:, :, None]
    weighted = log_ratios + log_weights
    joint_terms = weighted.sum(2) if estimator == "mss_yann" else log_ratios.sum(2) + log_weights[:, :, 0]
    joint = jax.nn.logsumexp(joint_terms, axis=1).mean()
    marginals = jax.nn.logsumexp(weighted, axis=1).sum(1).mean()
    return Decomposition(own - joint, joint - marginals, marginals - prior)


def estimable(n: int, num_data: int, estimator: Estimator) -> bool:
    """Whether a batch of ``n`` from ``num_data`` data gives the estimator weights: the stratified ones need n ≤ N."""
    return estimator in ("locatello", "mws") or 2 <= n <= num_data


def _log_weights(n: int, num_data: int, estimator: Estimator) -> np.ndarray:
    """``[j, i]``: the logarithm of the weight of sample ``i``'s posterior in ``q(z_j)``."""
    if estimator == "locatello":
        return np.zeros((n, n), np.float32)
    if estimator == "mws":
        return np.full((n, n), -math.log(num_data * n), np.float32)
    if not estimable(n, num_data, estimator):
        raise ValueError(
            f"estimator: {estimator} needs a batch of at least 2 and a data set no smaller than the batch, got a batch "
            f"of {n} and {num_data} data"
        )
    rest = n - 1
    # A batch as large as the data set gives the strange posterior 1/N like everybody's; below it (N−M)/(NM) > 1/N.
    strange = (num_data - rest) / (num_data * rest)
    weights = np.full((n, n), 1 / rest)
    rows = np.arange(n)
    if estimator == "mss":
        weights[rows, rows] = 1 / num_data
        weights[rows, (rows + 1) % n] = strange
    elif estimator in ("mss_chen", "mss_yann"):
        # view(-1)[::n] and [1::n] of an n × n matrix are its first two columns.
        weights[:, 0] = 1 / num_data
        weights[:, 1] = strange
        weights[rest - 1, 0] = strange
    else:
        raise ValueError(f"estimator: needs one of {', '.join(ESTIMATORS)}, got {estimator!r}")
    return np.log(weights).astype(np.float32)
