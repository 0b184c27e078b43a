"""PartedVAE's settings, and its loss's terms, in nats.

``log_categories [n, v]`` are log q(c_i|x) for all categorical variables, one after another; ``classes`` are their
sizes.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


class Settings(NamedTuple):
    """Coefficients in the loss of :class:`jaxdis.models.PartedVae`, by default as released for dSprites."""

    learning_rate: Any = 5e-4
    labelled_learning_rate: Any = 5e-4
    z_capacity: Any = 30.0
    z_weight: Any = 50.0
    u_capacity: Any = 5.0
    u_weight: Any = 50.0
    capacity_steps: Any = 300_000.0
    category_weight: Any = 100.0
    entropy_weight: Any = 10.0
    overlap_weight: Any = 10.0
    overlap_threshold: Any = 0.1


class Losses(NamedTuple):
    """Total and its parts without their weights, nats; ``labelled``: cross-entropy of the labels (0 without)."""

    loss: Array
    reconstruction: Array
    z_kl: Array
    u_kl: Array
    category_kl: Array
    entropy: Array
    overlap: Array
    labelled: Array


# What each setting is.
SETTINGS = {
    "learning_rate": "learning rate of Adam",
    "labelled_learning_rate": "learning rate of the labelled updates' Adam",
    "z_capacity": "final capacity C_z, nats",
    "z_weight": "γ_z, weight of the deviation from C_z",
    "u_capacity": "final capacity C_u, nats",
    "u_weight": "γ_u, weight of the deviation from C_u",
    "capacity_steps": "updates over which capacities rise",
    "category_weight": "γ_c, weight of the divergence of the mean category from its prior",
    "entropy_weight": "γ_h, weight of the entropy of the category",
    "overlap_weight": "γ_b, weight of the overlap of the classes' priors",
    "overlap_threshold": "Bhattacharyya coefficient that costs nothing",
}


class Latents(NamedTuple):
    """Posteriors for all codes (z, then u), and log-probabilities for all classes."""

    mean: Float[Array, "n d"]
    log_variance: Float[Array, "n d"]
    log_categories: Float[Array, "n v"]


def capacity_at(capacity, step: Array, steps) -> Float[Array, ""]:
    """``C(t)``; the released code counts an update before it computes its loss, so that C is positive at the first."""
    return jnp.minimum(capacity, capacity * (step.astype(jnp.float32) + 1) / steps)


def standard_divergence(mean: Float[Array, "n d"], log_variance: Float[Array, "n d"]) -> Float[Array, ""]:
    """KL(q ‖ N(0, I)), mean over the batch."""
    return 0.5 * (jnp.square(mean) + jnp.exp(log_variance) - log_variance - 1).sum(1).mean()


def expected_divergence(
    log_categories: Float[Array, "n v"],
    mean: Float[Array, "n i u"],
    log_variance: Float[Array, "n i u"],
    prior_mean: Float[Array, "v u"],
    prior_log_variance: Float[Array, "v u"],
    classes: tuple[int, ...],
) -> Float[Array, ""]:
    """Σ_i E_q(c_i|x) KL(q(u_i|x) ‖ N(m_c, s_c)), mean over the batch."""
    variable = np.repeat(np.arange(len(classes)), classes)
    mean, log_variance = mean[:, variable], log_variance[:, variable]
    square = jnp.exp(log_variance) + jnp.square(prior_mean[None] - mean)
    divergence = 0.5 * (prior_log_variance[None] - log_variance - 1 + square * jnp.exp(-prior_log_variance)[None])
    return (jnp.exp(log_categories) * divergence.sum(2)).sum(1).mean()


def category_divergence(log_categories: Float[Array, "n v"], priors) -> Float[Array, ""]:
    """Σ_i KL(mean over the batch of q(c_i|x) ‖ p(c_i))."""
    log_mean = jax.nn.logsumexp(log_categories, axis=0) - math.log(len(log_categories))
    log_prior = jnp.asarray(np.log(np.concatenate(priors)).astype(np.float32))
    return (jnp.exp(log_mean) * (log_mean - log_prior)).sum()


def entropy(log_categories: Float[Array, "n v"]) -> Float[Array, ""]:
    """Σ_i H(q(c_i|x)), mean over the batch."""
    return -(jnp.exp(log_categories) * log_categories).sum(1).mean()


def overlap(
    mean: Float[Array, "v u"], log_variance: Float[Array, "v u"], classes: tuple[int, ...], threshold
) -> Float[Array, ""]:
    """Σ ``max(0, BC − threshold)`` over class pairs within one variable.

    The Bhattacharyya coefficient of two diagonal Gaussians is ``exp(−⅛ Σ Δm²/σ̄² − ½ (Σ log σ̄² − ½ Σ (log σ_k² + log
    σ_l²)))`` with σ̄² both variances' mean.
    """
    variable = np.repeat(np.arange(len(classes)), classes)
    pairs = np.tril(variable[:, None] == variable[None], -1)
    first, second = np.nonzero(pairs)
    between = 0.5 * (jnp.exp(log_variance[first]) + jnp.exp(log_variance[second]))
    distance = jnp.square(mean[first] - mean[second]) / between
    spread = jnp.log(between) - 0.5 * (log_variance[first] + log_variance[second])
    coefficient = jnp.exp(-(distance / 8 + spread / 2).sum(1))
    return jnp.maximum(coefficient - threshold, 0).sum()
