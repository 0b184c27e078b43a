"""What autoencoders minimize: one loss with traced coefficients for five objectives, and FactorVAE's loss.

An :class:`Objective`, a row of the table ``OBJECTIVES``, says what a user sets (``settings``: arguments named as in its
paper → the hyperparameters for its loss) and what is minimized (``loss``: a pure function of :class:`Terms`). Five of
the six rows share one loss, :func:`regularized`, whose coefficients are traced: a zoo may mix these objectives, and
sweeping them compiles once. One's own objective is a function of terms and hyperparameters, or an :class:`Objective`
with its own settings, a NamedTuple with defaults and a ``learning_rate``: the guide ``notebooks/add_your_own.ipynb``
has one.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxdis._core import random
from jaxdis.models.methods._method import Variant, about_of


def sample(key, mean: Float[Array, "n d"], log_variance: Float[Array, "n d"]) -> Float[Array, "n d"]:
    """One code from each posterior, ``μ + e^{lv/2}·ε``."""
    return mean + jnp.exp(0.5 * log_variance) * random.normal(key, mean.shape)


def gaussian_log_density(values: Array, mean: Array, log_variance: Array) -> Array:
    """``−½((z−μ)² e^{−lv} + lv + log 2π)``, elementwise, nats."""
    square = jnp.square(values - mean) * jnp.exp(-log_variance)
    return -0.5 * (square + log_variance + math.log(2 * math.pi))


def negative_log_likelihood(
    logits: Float[Array, "n h w c"],
    images: Float[Array, "n h w c"],
    reconstruction: Literal["bernoulli", "squared_error"] = "bernoulli",
    subtract_entropy: bool = False,
) -> Float[Array, ""]:
    """Sum over images, pixels and channels, nats.

    * ``bernoulli``: cross-entropy of logits, ``max(r, 0) − r·x + log(1 + e^{−|r|})``. Targets need not be binary.
    * ``squared_error``: ``½(r − x)²``.

    With ``subtract_entropy``, the smallest attainable cross-entropy is subtracted (with probabilities clipped at 1e-6,
    like the option with the same name in Locatello et al.'s code (2020), where it is off).
    """
    # XLA's CPU backend vectorizes along the last axis, which has length 1 in gray images: flat ones take a twelfth of
    # the time. With all images in one line, it would divide to find each pixel's bias: updates took 15 % longer.
    logits, images = (values.reshape(len(values), -1) for values in (logits, images))
    if reconstruction == "squared_error":
        return 0.5 * jnp.square(logits - images).sum()
    total = (jnp.maximum(logits, 0) - logits * images + jnp.log1p(jnp.exp(-jnp.abs(logits)))).sum()
    if subtract_entropy:
        clipped = jnp.clip(images, 1e-6, 1 - 1e-6)
        total = total + (clipped * jnp.log(clipped) + (1 - clipped) * jnp.log1p(-clipped)).sum()
    return total


# KL(q(z|x) ‖ p(z)) = I(x; z) + KL(q(z) ‖ Π_l q(z_l)) + Σ_l KL(q(z_l) ‖ p(z_l)) (Chen et al. 2018, eq. 2)
# The aggregate posterior q(z) is not known on a batch, and five estimators for log q(z_j) and log q(z_j,l) are in
# use. They differ mostly by constants: gradients are close, but logged values are not comparable and may be negative.

# A paper's key is the estimator of its released code.
Estimator = Literal["mss", "mws", "locatello2020", "chen2018", "mahon2024"]


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
        raise ValueError(f"estimator: must be one of {', '.join(get_args(Estimator))}, got {estimator!r}")
    return np.log(weights).astype(np.float32)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Terms:
    """What a loss may read from one batch under one member, in float32.

    Attributes:
      reconstruction: ``[]``, the images' negative log-likelihood: nats, summed over pixels, mean over the batch.
      mean, log_variance: ``[n, d]``, for the posteriors.
      codes: ``[n, d]``, one draw from each posterior.
      step: ``[]`` int32, updates done before this one.
      discriminator_logits: ``[n, 2]``, for ``codes`` (class 0: joint, class 1: product of marginals); None without a
        discriminator.
      num_data: size of the data set, which estimators of total correlation need; None: infinite.
      estimator: how total correlation is estimated.
    """

    reconstruction: Float[Array, ""]
    mean: Float[Array, "n d"]
    log_variance: Float[Array, "n d"]
    codes: Float[Array, "n d"]
    step: Array
    discriminator_logits: Array | None = None
    num_data: int | None = dataclasses.field(default=1, metadata={"static": True})
    estimator: Estimator = dataclasses.field(default="mss", metadata={"static": True})


class Hyperparameters(NamedTuple):
    """All coefficients in the losses: scalars for one member, ``[m]`` for a zoo. They are traced, not compiled in.

    With ``a(t) = min(1, (t + 1) / warmup_steps)`` and the batch's covariances, :func:`regularized` is

        reconstruction + a·kl·KL + capacity_weight·|KL − min(capacity, capacity·t/capacity_steps)|
        + mutual_information·I + total_correlation·TC + a·dimension_wise_kl·DWKL
        + mean_off_diagonal·Σ_{i≠j} Cov[μ]_ij² + mean_diagonal·Σ_i (Cov[μ]_ii − 1)²
        + code_off_diagonal·Σ_{i≠j} Cov[z]_ij² + code_diagonal·Σ_i (Cov[z]_ii − 1)²

    and :func:`with_discriminator` is reconstruction + kl·KL + a·density_ratio·mean(logit₀ − logit₁).
    """

    learning_rate: Any = 1e-4
    kl: Any = 1.0
    capacity_weight: Any = 0.0
    capacity: Any = 0.0
    capacity_steps: Any = 1.0
    mutual_information: Any = 0.0
    total_correlation: Any = 0.0
    dimension_wise_kl: Any = 0.0
    mean_off_diagonal: Any = 0.0
    mean_diagonal: Any = 0.0
    code_off_diagonal: Any = 0.0
    code_diagonal: Any = 0.0
    density_ratio: Any = 0.0
    discriminator_learning_rate: Any = 1e-4
    warmup_steps: Any = 0.0


def divergence(mean: Float[Array, "n d"], log_variance: Float[Array, "n d"]) -> Float[Array, ""]:
    """KL(q(z|x) ‖ N(0, I)): nats, summed over codes, mean over the batch."""
    return 0.5 * (jnp.square(mean) + jnp.exp(log_variance) - log_variance - 1).sum(1).mean()


def warmed_up(terms: Terms, hyperparameters: Hyperparameters) -> Float[Array, ""]:
    """``a(t)``: 1/warmup_steps at the first update and 1 from update ``warmup_steps`` on (always 1 without warm-up)."""
    return jnp.minimum(1.0, (terms.step.astype(jnp.float32) + 1) / jnp.maximum(hyperparameters.warmup_steps, 1.0))


def regularized(terms: Terms, hyperparameters: Hyperparameters) -> Float[Array, ""]:
    """The loss for the five objectives without a discriminator; see :class:`Hyperparameters` for the formula.

    The three parts of the KL divergence are computed only for members that weigh one (under ``lax.map``; ``vmap``
    computes them for all). If the data set is smaller than the batch and the estimator therefore has no weights, such a
    member's loss is NaN; ``train`` raises beforehand.
    """
    h = hyperparameters
    step = terms.step.astype(jnp.float32)
    warmth = warmed_up(terms, h)
    kl = divergence(terms.mean, terms.log_variance)
    capacity = jnp.minimum(h.capacity, h.capacity * step / h.capacity_steps)
    # Cov[μ] and Cov[z] = diag(E[σ²]) + Cov[μ] over the batch, divided by n (biased, as released).
    centered = terms.mean - terms.mean.mean(0, keepdims=True)
    of_means = centered.T @ centered / terms.mean.shape[0]
    of_codes = of_means + jnp.diag(jnp.exp(terms.log_variance).mean(0))
    return (
        terms.reconstruction
        + warmth * h.kl * kl
        + h.capacity_weight * jnp.abs(kl - capacity)
        + _parts_penalty(terms, h, warmth)
        + _identity_penalty(of_means, h.mean_off_diagonal, h.mean_diagonal)
        + _identity_penalty(of_codes, h.code_off_diagonal, h.code_diagonal)
    )


def with_discriminator(terms: Terms, hyperparameters: Hyperparameters) -> Float[Array, ""]:
    """FactorVAE's loss for the encoder and the decoder.

    The discriminator's log-odds for the joint estimate the log density ratio, whose mean is the total correlation.
    """
    ratio = (terms.discriminator_logits[:, 0] - terms.discriminator_logits[:, 1]).mean()
    weight = warmed_up(terms, hyperparameters) * hyperparameters.density_ratio
    return terms.reconstruction + hyperparameters.kl * divergence(terms.mean, terms.log_variance) + weight * ratio


class Losses(NamedTuple):
    """Losses in one update, nats: total, reconstruction error, KL divergence and discriminator (0 without one)."""

    loss: Array
    reconstruction: Array
    kl: Array
    discriminator: Array


def _parts_penalty(terms: Terms, h: Hyperparameters, warmth: Array) -> Array:
    def weighed(terms):
        parts = decompose(
            terms.codes, terms.mean, terms.log_variance, num_data=terms.num_data, estimator=terms.estimator
        )
        return (
            h.mutual_information * parts.mutual_information
            + h.total_correlation * parts.total_correlation
            + warmth * h.dimension_wise_kl * parts.dimension_wise_kl
        )

    if not estimable(terms.codes.shape[0], terms.num_data, terms.estimator):
        weighed = lambda terms: jnp.full_like(terms.reconstruction, jnp.nan)  # noqa: E731
    wanted = (h.mutual_information != 0) | (h.total_correlation != 0) | (h.dimension_wise_kl != 0)
    return jax.lax.cond(wanted, weighed, lambda terms: jnp.zeros_like(terms.reconstruction), terms)


def _identity_penalty(covariance: Float[Array, "d d"], off_diagonal, diagonal) -> Array:
    on = jnp.diagonal(covariance)
    off = jnp.square(covariance).sum() - jnp.square(on).sum()
    return off_diagonal * off + diagonal * jnp.square(on - 1).sum()


Number = int | float


@dataclasses.dataclass(frozen=True)
class Objective(Variant):
    """A row in :data:`OBJECTIVES`.

    Attributes:
      settings: as in :class:`~jaxdis.models.Variant`; the NamedTuple has a field ``learning_rate`` (and
        ``discriminator_learning_rate`` with a discriminator).
      loss: pure, of :class:`~jaxdis.models.Terms` and one member's hyperparameters.
      discriminator: whether a discriminator is trained together with the autoencoder.
    """

    loss: Callable[[Terms, Any], Array] = regularized
    discriminator: bool = False

    @property
    def name(self) -> str:
        """For an objective that is not a row: its loss's name."""
        return getattr(self.loss, "__name__", type(self.loss).__name__)

    def description(self) -> dict:
        """What identifies the objective in run directories; functions cannot be stored."""
        loss = f"{self.loss.__module__}.{self.loss.__qualname__}"
        return {"type": "Objective", "loss": loss, "discriminator": self.discriminator}


def beta(*, beta: Number = 4.0, learning_rate: Number = 1e-4, warmup_steps: Number = 0.0) -> Hyperparameters:
    """β-VAE: reconstruction + a(t)·β·KL.

    Higgins et al. (2017); Locatello et al. (2020), Table 3, take β from 1, 2, 4, 6, 8, 16. The code behind Mahon et al.
    (2024) warms the weight up over 10,000 updates.
    """
    return Hyperparameters(learning_rate=learning_rate, kl=beta, warmup_steps=warmup_steps)


def annealed(
    *, capacity: Number = 25.0, gamma: Number = 1000.0, capacity_steps: Number = 100_000.0, learning_rate: Number = 1e-4
) -> Hyperparameters:
    """AnnealedVAE: reconstruction + γ·|KL − C(t)|.

    Burgess et al. (2018), eq. 8; Locatello et al. (2020), Table 3, take a capacity from 5, 10, 25, 50, 75, 100. As in
    the latter's code, the absolute value is taken of the batch mean, not averaged.
    """
    return Hyperparameters(
        learning_rate=learning_rate, kl=0.0, capacity_weight=gamma, capacity=capacity, capacity_steps=capacity_steps
    )


def factor(
    *,
    gamma: Number = 10.0,
    learning_rate: Number = 1e-4,
    discriminator_learning_rate: Number = 1e-4,
    warmup_steps: Number = 0.0,
) -> Hyperparameters:
    """FactorVAE: reconstruction + KL + a(t)·γ·TC.

    Kim & Mnih (2018), eq. 2 and algorithm 2; Locatello et al. (2020), Table 3, take γ from 10, 20, 30, 40, 50, 100. How
    the two updates are ordered is an option in :class:`jaxdis.models._config.DiscriminatorTraining`.
    """
    rates = {"learning_rate": learning_rate, "discriminator_learning_rate": discriminator_learning_rate}
    return Hyperparameters(density_ratio=gamma, warmup_steps=warmup_steps, **rates)


def beta_tc(*, beta: Number = 6.0, learning_rate: Number = 1e-4) -> Hyperparameters:
    """β-TCVAE: reconstruction + KL + (β − 1)·TC.

    Chen et al. (2018), eq. 4 with α = γ = 1; Locatello et al. (2020), Table 3, take β from 1, 2, 4, 6, 8, 10, with the
    estimator ``locatello2020``.
    """
    return Hyperparameters(learning_rate=learning_rate, total_correlation=beta - 1.0)


def dip_i(
    *, lambda_off_diagonal: Number = 10.0, diagonal_factor: Number = 10.0, learning_rate: Number = 1e-4
) -> Hyperparameters:
    """DIP-VAE-I: reconstruction + KL + λ_od·Σ_{i≠j} Cov[μ]_ij² + λ_d·Σ_i (Cov[μ]_ii − 1)².

    Kumar et al. (2018), eq. 6; Locatello et al. (2020), Table 3, take λ_od from 1, 2, 5, 10, 20, 50. There,
    ``diagonal_factor`` is 10 for DIP-VAE-I and 1 for DIP-VAE-II. The covariance is taken over one batch.
    """
    return Hyperparameters(
        learning_rate=learning_rate,
        mean_off_diagonal=lambda_off_diagonal,
        mean_diagonal=lambda_off_diagonal * diagonal_factor,
    )


def dip_ii(
    *, lambda_off_diagonal: Number = 10.0, diagonal_factor: Number = 1.0, learning_rate: Number = 1e-4
) -> Hyperparameters:
    """DIP-VAE-II: reconstruction + KL + λ_od·Σ_{i≠j} Cov[z]_ij² + λ_d·Σ_i (Cov[z]_ii − 1)².

    Kumar et al. (2018), eq. 7, with Cov[z] = E[Cov(z|x)] + Cov(E[z|x]). The third-moment term is omitted, as
    in Locatello et al. (2020), appendix D.
    """
    return Hyperparameters(
        learning_rate=learning_rate,
        code_off_diagonal=lambda_off_diagonal,
        code_diagonal=lambda_off_diagonal * diagonal_factor,
    )


OBJECTIVES: dict[str, Objective] = {
    "beta": Objective(beta, "beta", about=about_of("beta")),
    "annealed": Objective(annealed, "capacity", about=about_of("annealed")),
    "factor": Objective(factor, "gamma", with_discriminator, discriminator=True, about=about_of("factor")),
    "beta_tc": Objective(beta_tc, "beta", about=about_of("beta_tc")),
    "dip_i": Objective(dip_i, "lambda_off_diagonal", about=about_of("dip_i")),
    "dip_ii": Objective(dip_ii, "lambda_off_diagonal", about=about_of("dip_ii")),
}
