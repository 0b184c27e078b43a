"""The objectives of variational autoencoders: one table, one pure function and one row each.

An :class:`Objective` says what a user sets (``settings``: the names of its paper → the numbers of its loss) and what is
minimised (``loss``: a pure function of :class:`Terms`). Five of the six rows share one loss, :func:`regularised`, whose
coefficients are traced: a zoo may mix them, and sweeping them compiles once. To add an objective, write

    def mine(terms, hyperparameters):
        return terms.reconstruction + hyperparameters.beta * divergence(terms) ** 2

    class Mine(NamedTuple):
        beta: float = 1.0
        learning_rate: float = 1e-4

    OBJECTIVES["mine"] = Objective(settings=Mine, strength="beta", loss=mine)
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxdis.models.total_correlation import Estimator, decompose, estimable
from jaxdis.typing import Array, Float

Number = int | float


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Terms:
    """What a loss may read: one batch, seen by one member, in float32.

    Attributes:
      reconstruction: ``[]``, negative log-likelihood of the images: nats summed over pixels, mean over the batch.
      mean, log_variance: ``[n, d]`` of the posteriors.
      codes: ``[n, d]``, one draw from each posterior.
      step: ``[]`` int32, updates done before this one.
      judged: ``[n, 2]``, the discriminator's logits of ``codes`` (0 joint, 1 product of marginals); None without one.
      num_data: size of the data set, for the estimators of total correlation.
      estimator: which of them.
    """

    reconstruction: Float[Array, ""]
    mean: Float[Array, "n d"]
    log_variance: Float[Array, "n d"]
    codes: Float[Array, "n d"]
    step: Array
    judged: Array | None = None
    num_data: int = dataclasses.field(default=1, metadata={"static": True})
    estimator: Estimator = dataclasses.field(default="mss", metadata={"static": True})


class Hyperparameters(NamedTuple):
    """Every number of the shared losses; scalars for one member, ``[m]`` for a zoo. Traced: none is compiled in.

    With ``a(t) = min(1, (t + 1) / warmup_steps)`` and the covariances of :func:`covariances`, :func:`regularised` is

        reconstruction + a·kl·KL + capacity_weight·|KL − min(capacity, capacity·t/capacity_steps)|
        + mutual_information·I + total_correlation·TC + a·dimension_wise_kl·DWKL
        + mean_off_diagonal·Σ_{i≠j} Cov[μ]_ij² + mean_diagonal·Σ_i (Cov[μ]_ii − 1)²
        + code_off_diagonal·Σ_{i≠j} Cov[z]_ij² + code_diagonal·Σ_i (Cov[z]_ii − 1)²

    and :func:`adversarial` is reconstruction + kl·KL + a·adversary·mean(logit₀ − logit₁).
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
    adversary: Any = 0.0
    discriminator_learning_rate: Any = 1e-4
    warmup_steps: Any = 0.0


def beta(*, beta: Number = 4.0, learning_rate: Number = 1e-4, warmup_steps: Number = 0.0) -> Hyperparameters:
    """β-VAE, reconstruction + β·KL (Higgins et al. 2017; Locatello et al. 2020, Table 3: β of 1, 2, 4, 6, 8, 16).

    ``warmup_steps`` > 0 raises the weight linearly, as the code behind Mahon et al. (2024) does over 10 000 steps.
    """
    return Hyperparameters(learning_rate=learning_rate, kl=beta, warmup_steps=warmup_steps)


def annealed(
    *, capacity: Number = 25.0, gamma: Number = 1000.0, capacity_steps: Number = 100_000.0, learning_rate: Number = 1e-4
) -> Hyperparameters:
    """AnnealedVAE, reconstruction + γ·|KL − C(t)|, C rising linearly from 0 to ``capacity`` nats in ``capacity_steps``.

    Burgess et al. (2018), eq. 8. The absolute value is of the batch mean, not the mean of absolute values (the code of
    Locatello et al. 2020; Table 3: capacity of 5, 10, 25, 50, 75, 100).
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
    """FactorVAE, reconstruction + KL + γ·(total correlation as a discriminator sees it).

    Kim & Mnih (2018), eq. 2 and algorithm 1; Locatello et al. (2020), Table 3: γ of 10, 20, 30, 40, 50, 100. The order
    of the two updates is :class:`jaxdis.models.config.Adversary`'s.
    """
    return Hyperparameters(
        learning_rate=learning_rate,
        adversary=gamma,
        discriminator_learning_rate=discriminator_learning_rate,
        warmup_steps=warmup_steps,
    )


def beta_tc(*, beta: Number = 6.0, learning_rate: Number = 1e-4) -> Hyperparameters:
    """β-TCVAE, reconstruction + KL + (β−1)·TC (Chen et al. 2018, eq. 4 with α = γ = 1); β = 1 is the plain VAE.

    Locatello et al. (2020), Table 3: β of 1, 2, 4, 6, 8, 10, with the estimator ``locatello``.
    """
    return Hyperparameters(learning_rate=learning_rate, total_correlation=beta - 1.0)


def beta_tc_parts(
    *,
    alpha: Number = 1.0,
    beta: Number = 6.0,
    gamma: Number = 1.0,
    learning_rate: Number = 5e-4,
    warmup_steps: Number = 0.0,
) -> Hyperparameters:
    """β-TCVAE by its three parts, reconstruction + α·I + β·TC + a(t)·γ·DWKL (Chen et al. 2018, eq. 4).

    The form of the code behind Mahon et al. (2024), where only the last part is warmed up. Unlike :func:`beta_tc`, the
    choice of estimator moves the balance between the parts.
    """
    return Hyperparameters(
        learning_rate=learning_rate,
        kl=0.0,
        mutual_information=alpha,
        total_correlation=beta,
        dimension_wise_kl=gamma,
        warmup_steps=warmup_steps,
    )


def dip_i(
    *, lambda_off_diagonal: Number = 10.0, diagonal_factor: Number = 10.0, learning_rate: Number = 1e-4
) -> Hyperparameters:
    """DIP-VAE-I: KL plus a penalty that draws the covariance of the posterior means to the identity.

    Kumar et al. (2018), eq. 6. λ_d = ``diagonal_factor``·λ_od, multiplies the diagonal and is 10 here, 1 in DIP-VAE-II
    (Locatello et al. 2020, Table 3: λ_od of 1, 2, 5, 10, 20, 50). The covariance is of one batch.
    """
    return Hyperparameters(
        learning_rate=learning_rate,
        mean_off_diagonal=lambda_off_diagonal,
        mean_diagonal=lambda_off_diagonal * diagonal_factor,
    )


def dip_ii(
    *, lambda_off_diagonal: Number = 10.0, diagonal_factor: Number = 1.0, learning_rate: Number = 1e-4
) -> Hyperparameters:
    """DIP-VAE-II: as :func:`dip_i` with the covariance of the sampled codes, E[Cov(z|x)] + Cov(E[z|x]).

    Kumar et al. (2018), eq. 7, without the third-moment term, which Locatello et al. (2020), appendix D, leave out too.
    """
    return Hyperparameters(
        learning_rate=learning_rate,
        code_off_diagonal=lambda_off_diagonal,
        code_diagonal=lambda_off_diagonal * diagonal_factor,
    )


def divergence(terms: Terms) -> Float[Array, ""]:
    """KL(q(z|x) ‖ N(0, I)): nats, summed over codes, mean over the batch."""
    per_code = jnp.square(terms.mean) + jnp.exp(terms.log_variance) - terms.log_variance - 1
    return 0.5 * per_code.sum(1).mean()


def covariances(terms: Terms) -> tuple[Float[Array, "d d"], Float[Array, "d d"]]:
    """Cov[μ] and Cov[z] = diag(E[σ²]) + Cov[μ] over the batch, divided by n (biased, as released)."""
    centred = terms.mean - terms.mean.mean(0, keepdims=True)
    of_means = centred.T @ centred / terms.mean.shape[0]
    return of_means, of_means + jnp.diag(jnp.exp(terms.log_variance).mean(0))


def warmed_up(terms: Terms, hyperparameters: Hyperparameters) -> Float[Array, ""]:
    """``a(t)``: 1/warmup_steps at the first update, 1 from update ``warmup_steps`` on; 1 throughout without warm-up."""
    return jnp.minimum(1.0, (terms.step.astype(jnp.float32) + 1) / jnp.maximum(hyperparameters.warmup_steps, 1.0))


def regularised(terms: Terms, hyperparameters: Hyperparameters) -> Float[Array, ""]:
    """The loss of the five objectives without a discriminator; see :class:`Hyperparameters` for the formula.

    The three parts of the KL are computed only for members that weigh one of them (under ``lax.map``; ``vmap`` computes
    them for all). Where the estimator has no weights for the batch (data sets smaller than it), the loss of such a
    member is NaN; ``train`` refuses it beforehand.
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


def adversarial(terms: Terms, hyperparameters: Hyperparameters) -> Float[Array, ""]:
    """FactorVAE's loss of encoder and decoder: log-odds of the joint stand for the log density ratio."""
    ratio = (terms.judged[:, 0] - terms.judged[:, 1]).mean()
    weight = warmed_up(terms, hyperparameters) * hyperparameters.adversary
    return terms.reconstruction + hyperparameters.kl * divergence(terms) + weight * ratio


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


@dataclasses.dataclass(frozen=True)
class Objective:
    """A row of :data:`OBJECTIVES`.

    Attributes:
      settings: keyword arguments named as in the paper, with its defaults → the hyperparameters of ``loss``, any
        NamedTuple of numbers with a field ``learning_rate`` (and ``discriminator_learning_rate`` with a discriminator).
      strength: the argument of ``settings`` that studies sweep.
      loss: pure, of :class:`Terms` and the hyperparameters of one member.
      adversarial: trains a discriminator beside the autoencoder.
    """

    settings: Callable[..., Any]
    strength: str
    loss: Callable[[Terms, Any], Array] = regularised
    adversarial: bool = False


OBJECTIVES: dict[str, Objective] = {
    "beta": Objective(beta, "beta"),
    "annealed": Objective(annealed, "capacity"),
    "factor": Objective(factor, "gamma", adversarial, adversarial=True),
    "beta_tc": Objective(beta_tc, "beta"),
    "dip_i": Objective(dip_i, "lambda_off_diagonal"),
    "dip_ii": Objective(dip_ii, "lambda_off_diagonal"),
}
