"""FactorVAE's discriminator: what it is trained on, and its gradient in each of the three orders of update."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxdis._core import random
from jaxdis.models.objectives._distributions import sample

# The released code clips probabilities to [1e-6, 1 − 1e-6] (Locatello et al. 2020).
_LOWEST, _HIGHEST = np.float32(np.log(1e-6)), np.float32(np.log1p(-1e-6))


def gradients(vae, state, updated_params, key, codes: Float[Array, "n d"], images: Array):
    """The discriminator's loss on one batch, and its gradient.

    Args:
      vae: static.
      state: before this update.
      updated_params: the autoencoder's parameters after this update, which only the order ``sequential`` reads.
      key: random key for permutations and fresh codes.
      codes: codes of the autoencoder's batch.
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
        of_joint = joint_loss(settings, settings.network.logits(params, joint))
        return of_joint - 0.5 * _log_probability(settings, settings.network.logits(params, permuted), 1).mean()

    return jax.value_and_grad(loss)(state.discriminator)


def joint_loss(settings, logits: Float[Array, "n 2"]) -> Float[Array, ""]:
    """Half the cross-entropy of classifying the joint as the joint."""
    return -0.5 * _log_probability(settings, logits, 0).mean()


def permute(key, codes: Float[Array, "n d"]) -> Float[Array, "n d"]:
    """Each code permuted over the batch: draws from the product of marginals (Kim & Mnih 2018, algorithm 1)."""
    order = jnp.argsort(random.uniform(key, codes.shape), axis=0)
    return jnp.take_along_axis(codes, order, axis=0)


def _log_probability(settings, logits: Float[Array, "n 2"], label: int) -> Float[Array, " n"]:
    chosen = jax.nn.log_softmax(logits)[:, label]
    return jnp.clip(chosen, _LOWEST, _HIGHEST) if settings.clip else chosen
