"""FactorVAE's discriminator: what it is trained on, and its gradient in each of the three update orders."""

import dataclasses
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxdis._core import random
from jaxdis._core.options import check_fields
from jaxdis.models.methods._optimizer import Adam, as_optimizer
from jaxdis.models.networks._architectures import Discriminator
from jaxdis.models.networks._layers import apply
from jaxdis.models.objectives._losses import sample

# The released code clips probabilities to [1e-6, 1 − 1e-6] (Locatello et al. 2020).
_LOWEST, _HIGHEST = np.float32(np.log(1e-6)), np.float32(np.log1p(-1e-6))


@dataclasses.dataclass(frozen=True)
class DiscriminatorTraining:
    """How FactorVAE's discriminator is trained together with the autoencoder.

    Attributes:
      order: how the two updates follow each other:

        * ``simultaneous``: both gradients are taken at the same parameters and on the same batch (Locatello et al.
          2020).
        * ``split_batch``: a batch twice as large, whose first half is for the autoencoder and the joint and whose
          second half, encoded separately, is for the permuted codes (the code behind Mahon et al. 2024; algorithm 2 of
          Kim & Mnih 2018 encodes the second half after the autoencoder's update).
        * ``sequential``: the autoencoder first, then the discriminator on fresh codes from the updated encoder (Julka
          et al.'s code, 2024).
      encoder_sees_discriminator: whether the encoder also minimizes the discriminator's loss on the joint, as in the
        code behind Mahon et al. (2024), where codes are not detached.
      clip: whether the discriminator's probabilities are clipped to [1e-6, 1 − 1e-6] in its loss, as in Locatello et
        al.'s code (2020).
      network, optimizer: the discriminator and its optimizer.
    """

    order: Literal["simultaneous", "split_batch", "sequential"] = "simultaneous"
    encoder_sees_discriminator: bool = False
    clip: bool = True
    network: Discriminator = Discriminator()
    optimizer: Any = Adam(b1=0.5, b2=0.9)

    def __post_init__(self):
        check_fields(self)
        object.__setattr__(self, "optimizer", as_optimizer(self.optimizer))


def gradients(vae, state, updated_params, key, codes: Float[Array, "n d"], images: Array):
    """The discriminator's loss on one batch, and its gradient.

    Args:
      updated_params: the autoencoder's parameters after this update, which only the order ``sequential`` reads.
      images: the batch, or its second half for ``split_batch``.
    """
    settings = vae.discriminator
    permutation_key, noise_key = jax.random.split(key)

    def fresh_codes(params):
        return sample(noise_key, *vae.autoencoder.encode(params, images))

    if settings.order == "simultaneous":
        joint = marginal = codes
    elif settings.order == "split_batch":
        joint, marginal = codes, fresh_codes(state.params)
    else:
        joint = marginal = fresh_codes(updated_params)
    joint = jax.lax.stop_gradient(joint)
    permuted = jax.lax.stop_gradient(permute(permutation_key, marginal))

    def loss(params):
        of_joint = joint_loss(settings, apply(settings.network, params, joint))
        return of_joint - 0.5 * _log_probability(settings, apply(settings.network, params, permuted), 1).mean()

    return jax.value_and_grad(loss)(state.discriminator)


def joint_loss(settings, logits: Float[Array, "n 2"]) -> Float[Array, ""]:
    """Half the cross-entropy when the joint is classified as the joint."""
    return -0.5 * _log_probability(settings, logits, 0).mean()


def permute(key, codes: Float[Array, "n d"]) -> Float[Array, "n d"]:
    """Each code permuted over the batch: draws from the product of marginals (Kim & Mnih 2018, algorithm 1)."""
    order = jnp.argsort(random.uniform(key, codes.shape), axis=0)
    return jnp.take_along_axis(codes, order, axis=0)


def _log_probability(settings, logits: Float[Array, "n 2"], label: int) -> Float[Array, " n"]:
    chosen = jax.nn.log_softmax(logits)[:, label]
    return jnp.clip(chosen, _LOWEST, _HIGHEST) if settings.clip else chosen
