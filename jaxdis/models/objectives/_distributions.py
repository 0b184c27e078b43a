"""A variational autoencoder's distributions: Gaussian posteriors, and images given the decoder's output."""

import math
from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxdis._core import random

Reconstruction = Literal["bernoulli", "squared_error"]


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
    reconstruction: Reconstruction = "bernoulli",
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


def expected_images(logits: Array, reconstruction: Reconstruction = "bernoulli") -> Array:
    """The decoder's mean, in [0, 1]."""
    return jax.nn.sigmoid(logits) if reconstruction == "bernoulli" else jnp.clip(logits, 0, 1)
