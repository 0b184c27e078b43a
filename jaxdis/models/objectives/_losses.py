"""What autoencoders minimize: one loss with traced coefficients for five objectives, and FactorVAE's loss."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxdis.models.objectives._total_correlation import Estimator, decompose, estimable


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

    With ``a(t) = min(1, (t + 1) / warmup_steps)`` and the covariances of :func:`covariances`, :func:`regularized` is

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


def divergence(terms: Terms) -> Float[Array, ""]:
    """KL(q(z|x) ‖ N(0, I)): nats, summed over codes, mean over the batch."""
    per_code = jnp.square(terms.mean) + jnp.exp(terms.log_variance) - terms.log_variance - 1
    return 0.5 * per_code.sum(1).mean()


def covariances(terms: Terms) -> tuple[Float[Array, "d d"], Float[Array, "d d"]]:
    """Cov[μ] and Cov[z] = diag(E[σ²]) + Cov[μ] over the batch, divided by n (biased, as released)."""
    centered = terms.mean - terms.mean.mean(0, keepdims=True)
    of_means = centered.T @ centered / terms.mean.shape[0]
    return of_means, of_means + jnp.diag(jnp.exp(terms.log_variance).mean(0))


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
    kl = divergence(terms)
    capacity = jnp.minimum(h.capacity, h.capacity * step / h.capacity_steps)
    of_means, of_codes = covariances(terms)
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
    return terms.reconstruction + hyperparameters.kl * divergence(terms) + weight * ratio


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
