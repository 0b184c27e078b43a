"""Variational autoencoders' objectives: one table, with one pure function and one row per objective.

An :class:`Objective` says what a user sets (``settings``: arguments named as in its paper → the hyperparameters for its
loss) and what is minimized (``loss``: a pure function of :class:`~jaxdis.models.objectives._losses.Terms`). Five of the
six rows share one loss, :func:`~jaxdis.models.objectives._losses.regularized`, whose coefficients are traced: a zoo may
mix these objectives, and sweeping them compiles once. One's own objective is a function of terms and hyperparameters,
or an :class:`Objective` with its own settings, a NamedTuple with defaults and a ``learning_rate``: the guide
``notebooks/add_your_own.ipynb`` has one.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

from jaxtyping import Array

from jaxdis.models.methods._method import Variant, about_of
from jaxdis.models.objectives._losses import Hyperparameters, Terms, regularized, with_discriminator

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


def beta_tc_parts(
    *,
    alpha: Number = 1.0,
    beta: Number = 6.0,
    gamma: Number = 1.0,
    learning_rate: Number = 5e-4,
    warmup_steps: Number = 0.0,
) -> Hyperparameters:
    """β-TCVAE by its three parts, reconstruction + α·I + β·TC + a(t)·γ·DWKL (Chen et al. 2018, eq. 4).

    This is the form in the code behind Mahon et al. (2024), where only the last part is warmed up. Unlike with
    :func:`beta_tc`, which estimator is chosen changes the balance between the parts.
    """
    parts = {"mutual_information": alpha, "total_correlation": beta, "dimension_wise_kl": gamma}
    return Hyperparameters(learning_rate=learning_rate, kl=0.0, warmup_steps=warmup_steps, **parts)


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
