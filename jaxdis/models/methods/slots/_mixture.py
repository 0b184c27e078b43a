"""An image's likelihood as a mixture of slots, and masks by stick breaking. Slots are the first axis."""

import math
from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

Mixture = Literal["channel", "pixel"]


def log_normal(values: Array, mean: Array, deviation: Array) -> Array:
    """``log N(values; mean, deviation²)``, elementwise."""
    return -0.5 * jnp.square((values - mean) / deviation) - jnp.log(deviation) - 0.5 * math.log(2 * math.pi)


def mixture_log_likelihood(
    log_likelihoods: Float[Array, "s n h w c"], log_masks: Float[Array, "s n h w"], mixture: str
):
    """``log Σ_k m_k N_k`` for every term in the sum over an image.

    Args:
      log_likelihoods: for each channel under each slot.
      log_masks: the masks' logarithms.
      mixture: ``"channel"``: every channel in a pixel has its own mixture, as in the released code for the library's
        three models, ``[n, h, w, c]``; ``"pixel"``: all channels in a pixel come from one slot, as in Burgess et al.
        2019 and Greff et al. 2019, ``[n, h, w, 1]``.

    Contract:

    - With ``"channel"``, slots may divide one pixel's channels among themselves. The likelihood can then be high while
      the mixture's mean, which is the reconstruction, is far from the image.
    """
    if mixture == "pixel":
        log_likelihoods = log_likelihoods.sum(-1, keepdims=True)
    return jax.nn.logsumexp(log_masks[..., None] + log_likelihoods, axis=0)


def mixture_error(
    images: Float[Array, "n h w c"],
    pictures: Float[Array, "s n h w c"],
    log_masks: Float[Array, "s n h w"],
    deviations: Float[Array, " s"],
    mixture: str,
) -> Float[Array, " n"]:
    """``−Σ log Σ_k m_k N(x; picture_k, deviation_k²)`` for each image, nats."""
    likelihoods = log_normal(images[None], pictures, deviations.reshape(-1, 1, 1, 1, 1))
    return -mixture_log_likelihood(likelihoods, log_masks, mixture).sum((1, 2, 3))


def stick_breaking(logits: Float[Array, "r n h w"]) -> Float[Array, "s n h w"]:
    """Logarithms of ``r + 1`` masks: each logit says what share its slot takes of what is left.

    ``log m_k = log σ(a_k) + Σ_{j<k} log σ(−a_j)``, and the last mask is the rest.
    """
    left = jnp.cumsum(jax.nn.log_sigmoid(-logits), axis=0)
    before = jnp.concatenate([jnp.zeros_like(logits[:1]), left], axis=0)
    taken = jnp.concatenate([jax.nn.log_sigmoid(logits), jnp.zeros_like(logits[:1])], axis=0)
    return before + taken


def mask_divergence(log_masks: Float[Array, "s n h w"], log_priors: Float[Array, "s n h w"]) -> Float[Array, " n"]:
    """``Σ_pixels KL(m ‖ p)`` for each image, with shares below 1e-5 raised to it, nats.

    Source: Engelcke et al.'s released code (2020).
    """
    masks, priors = (_floored(log_shares) for log_shares in (log_masks, log_priors))
    return (masks * (jnp.log(masks) - jnp.log(priors))).sum((0, 2, 3))


def softplus_deviation(values: Array) -> Array:
    """``softplus(v + ½) + 1e-8``: posteriors' standard deviations; Engelcke et al.'s released code (2020)."""
    return jax.nn.softplus(values + 0.5) + 1e-8


def _floored(log_shares: Array) -> Array:
    shares = jnp.maximum(jnp.exp(log_shares), 1e-5)
    return shares / shares.sum(0, keepdims=True)
