"""WeakDE's settings, its losses except the reconstruction, and its augmentation."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxdis._core import random

# Augmentation: standard deviation of the noise on white pixels, and share of pixels that are dropped.
_NOISE, _DROPPED = 0.3, 0.3


class Settings(NamedTuple):
    """The defaults are those in the released code for dSprites: 1000 epochs over its 68,040 images are 67,000
    updates."""

    learning_rate: Any = 1e-4
    warmup_steps: Any = 67_000.0
    covariance: Any = 0.1
    adversarial_weight: Any = 0.2
    relation_weight: Any = 1.0


class Losses(NamedTuple):
    """Cross-entropy per pixel, the generator's and the discriminator's weighted losses, and the relations' error."""

    reconstruction: Array
    generator: Array
    discriminator: Array
    relation: Array


# What each setting is.
SETTINGS = {
    "learning_rate": "learning rate of all four Adams",
    "warmup_steps": "updates with the uniform prior",
    "covariance": "share of the classes' covariance that their Gaussians have",
    "adversarial_weight": "w, weight of the adversarial losses",
    "relation_weight": "weight of the relations' error",
}


def generator_loss(odds: Float[Array, " n"]) -> Float[Array, ""]:
    """How far the discriminator is from mistaking codes for draws from the prior."""
    return jax.nn.softplus(-odds).mean()


def discriminator_loss(of_codes: Float[Array, " n"], of_prior: Float[Array, " n"]) -> Float[Array, ""]:
    """How far the discriminator's log-odds are from distinguishing codes from draws."""
    return 0.5 * jax.nn.softplus(of_codes).mean() + 0.5 * jax.nn.softplus(-of_prior).mean()


def relation_loss(
    relate: Callable, sources: Float[Array, "r b d"], targets: Float[Array, "r b d"], counted: Float[Array, "r b"]
) -> Float[Array, ""]:
    """``relate``'s mean squared error over relations, draws and codes; ``counted`` weighs draws."""
    r, b, d = sources.shape
    which = jnp.broadcast_to(jnp.eye(r)[:, None], (r, b, r))
    inputs = jnp.concatenate([sources, which], axis=2).reshape(r * b, d + r)
    error = jnp.square(relate(inputs).reshape(r, b, d) - targets).mean(2)
    return (error * counted).sum() / jnp.maximum(counted.sum(), 1)


def augmented(key, images: Float[Array, "n h w c"]) -> Float[Array, "n h w c"]:
    """One image in seven as it is, three with noise on white pixels, three with pixels dropped."""
    kind_key, pixel_key = jax.random.split(key)
    kind = random.randint(kind_key, (len(images), 1, 1, 1), 0, 7)
    pixels = random.normal(pixel_key, images.shape)
    noisy = jnp.where(images == 1, jnp.clip(1 + _NOISE * pixels, 0, 1), images)
    dropped = jnp.where(jax.scipy.stats.norm.cdf(pixels) < _DROPPED, 0.0, images)
    return jnp.where(kind == 0, images, jnp.where(kind <= 3, noisy, dropped))
