"""The objectives of variational autoencoders: one table, one pure function and one row each.

An :class:`Objective` says what a user sets (``settings``: the names of its paper → the numbers of its loss) and what is
minimized (``loss``: a pure function of :class:`~jaxdis.models.objectives.losses.Terms`). Five of the six rows share one
loss, :func:`~jaxdis.models.objectives.losses.regularized`, whose coefficients are traced: a zoo may mix them, and
sweeping them compiles once. To add an objective, write

    def mine(terms, hyperparameters):
        return terms.reconstruction + hyperparameters.beta * divergence(terms) ** 2

    class Mine(NamedTuple):
        beta: float = 1.0
        learning_rate: float = 1e-4

    OBJECTIVES["mine"] = Objective(settings=Mine, strength="beta", loss=mine)
"""

import dataclasses
from collections.abc import Callable
from typing import Any

from jaxdis.models.objectives.losses import Hyperparameters, Terms, adversarial, regularized
from jaxdis.typing import Array

Number = int | float


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


@dataclasses.dataclass(frozen=True)
class Objective:
    """A row of :data:`OBJECTIVES`.

    Attributes:
      settings: keyword arguments named as in the paper, with its defaults → the hyperparameters of ``loss``, any
        NamedTuple of numbers with a field ``learning_rate`` (and ``discriminator_learning_rate`` with a discriminator).
      strength: the argument of ``settings`` that studies sweep.
      loss: pure, of :class:`~jaxdis.models.objectives.losses.Terms` and the hyperparameters of one member.
      adversarial: trains a discriminator beside the autoencoder.
    """

    settings: Callable[..., Any]
    strength: str
    loss: Callable[[Terms, Any], Array] = regularized
    adversarial: bool = False


OBJECTIVES: dict[str, Objective] = {
    "beta": Objective(beta, "beta"),
    "annealed": Objective(annealed, "capacity"),
    "factor": Objective(factor, "gamma", adversarial, adversarial=True),
    "beta_tc": Objective(beta_tc, "beta"),
    "dip_i": Objective(dip_i, "lambda_off_diagonal"),
    "dip_ii": Objective(dip_ii, "lambda_off_diagonal"),
}
