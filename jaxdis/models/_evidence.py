"""How well variational autoencoders explain images."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from jaxdis._core import executor, random
from jaxdis._core.executor import Layout
from jaxdis._core.options import Count, checked
from jaxdis.models._images import checked_images, unit_images
from jaxdis.models._zoo import Zoo
from jaxdis.models.methods._vae import Vae
from jaxdis.models.objectives._losses import negative_log_likelihood


class Evidence(NamedTuple):
    """Means over images, nats, ``[m]``: ``elbo = −reconstruction − kl``."""

    reconstruction: np.ndarray
    kl: np.ndarray
    elbo: np.ndarray


@checked
def evidence(zoo: Zoo, images, key: PRNGKeyArray, *, batch_size: Count = 256) -> Evidence:
    """Reconstruction error, KL divergence and ELBO for images under every member, from one sampled code per image.

    Args:
      key: image i's noise is drawn with ``fold_in(key, i)``, for every member the same, and depends neither on the
        batch size nor on the other members.
    """
    method = zoo.config.method
    if not isinstance(method, Vae):
        raise ValueError(f"zoo: must be variational autoencoders, got {type(method).__name__}")
    rows = checked_images(images, "images", method.image_shape)
    n, m = len(rows), len(zoo)
    layout = Layout.over(None, m)
    members = layout.place(zoo.params)
    total = np.zeros((m, 2))
    for places in executor.chunks(n, min(batch_size, n)):
        # The last chunk repeats an image; its weight is 0.
        weights = (places[0] + np.arange(len(places)) < n).astype(np.float32)
        part = (executor.take(rows, places), weights, key, np.int32(places[0]))
        total += np.asarray(_evidence(method, layout, members, part))[:m]
    reconstruction, kl = total.T / n
    return Evidence(reconstruction, kl, -reconstruction - kl)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _evidence(vae: Vae, layout: Layout, members, part) -> Array:
    """Reconstruction error and KL divergence, summed over images with weights, ``[m, 2]``."""
    rows, weights, key, start = part
    numbers = start + jnp.arange(rows.shape[0], dtype=jnp.int32)
    likelihood = functools.partial(negative_log_likelihood, reconstruction=vae.reconstruction)

    def sums(params, shared):
        images, weights, key, numbers = shared
        mean, log_variance = vae.autoencoder.encode(params, images)
        keys = jax.vmap(jax.random.fold_in, (None, 0))(key, numbers)
        noise = jax.vmap(lambda key: random.normal(key, mean.shape[1:]))(keys)
        logits = vae.autoencoder.decode(params, mean + jnp.exp(0.5 * log_variance) * noise)
        errors = jax.vmap(lambda logits, image: likelihood(logits[None], image[None]))(logits, images)
        kl = 0.5 * (jnp.square(mean) + jnp.exp(log_variance) - log_variance - 1).sum(1)
        return jnp.stack([errors @ weights, kl @ weights])

    return layout.map(sums, members, (unit_images(jnp.asarray(rows)), weights, key, numbers))
