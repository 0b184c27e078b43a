"""How well the members explain images, and a zoo's encoders as a value that goes through ``jit``."""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Key

from jaxdis.models.images import checked_images, unit_images
from jaxdis.models.networks.precision import InPrecision
from jaxdis.models.objectives.distributions import negative_log_likelihood
from jaxdis.models.zoo import Zoo
from jaxdis.options import Count, checked
from jaxdis.typing import Array, Float, Num


class Evidence(NamedTuple):
    """Means over images, nats, ``[m]``: ``elbo = −reconstruction − kl``."""

    reconstruction: np.ndarray
    kl: np.ndarray
    elbo: np.ndarray


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Encoder:
    """``images [n, h, w, c] → codes [m, n, d]`` (posterior means) of a zoo, as a value that goes through ``jit``."""

    params: Any
    network: Any = dataclasses.field(metadata={"static": True})
    precision: str = dataclasses.field(metadata={"static": True})

    @classmethod
    def of(cls, zoo: Zoo) -> "Encoder":
        return cls(zoo.params, zoo.config.network, zoo.config.precision)

    def __call__(self, images: Num[Array, "n h w c"]) -> Float[Array, "m n d"]:
        networks, pixels = InPrecision(self.network, self.precision), unit_images(images)
        return jax.lax.map(lambda member: networks.encode(member, pixels)[0], self.params)


@checked
def evidence(zoo: Zoo, images, key: Key[Array, ""], *, batch_size: Count = 256) -> Evidence:
    """Reconstruction error, KL and ELBO of images under every member, one code drawn for each image.

    Args:
      zoo: ``m`` members.
      images: ``[n, h, w, c]``.
      key: the code of image i under member j is drawn with ``fold_in(fold_in(key, i), j)``, so that batches do not
        matter.
      batch_size: images at a time.

    Raises:
      ValueError: for images that do not suit the zoo.
    """
    rows = checked_images(images, "images", zoo.config.network.image_shape)
    config = zoo.config
    networks = InPrecision(config.network, config.precision)
    total = np.zeros((2, len(zoo)))
    for start in range(0, len(rows), batch_size):
        part = rows[start : start + batch_size]
        # Fill the last chunk up, so that one program serves them all; weight 0 leaves the filling out.
        weights = (np.arange(batch_size) < len(part)).astype(np.float32)
        part = np.concatenate([part, np.repeat(part[:1], batch_size - len(part), axis=0)])
        total += np.asarray(_evidence(networks, config.reconstruction, zoo.params, part, weights, key, np.int32(start)))
    reconstruction, kl = total / len(rows)
    return Evidence(reconstruction, kl, -reconstruction - kl)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _evidence(networks: InPrecision, reconstruction: str, params, rows, weights, key, start) -> Array:
    images = unit_images(jnp.asarray(rows))
    numbers = start + jnp.arange(images.shape[0], dtype=jnp.int32)

    def one(member):
        params, number = member
        mean, log_variance = networks.encode(params, images)
        keys = jax.vmap(lambda i: jax.random.fold_in(jax.random.fold_in(key, i), number))(numbers)
        noise = jax.vmap(lambda key: jax.random.normal(key, mean.shape[1:]))(keys)
        logits = networks.decode(params, mean + jnp.exp(0.5 * log_variance) * noise)
        likelihood = functools.partial(negative_log_likelihood, reconstruction=reconstruction)
        errors = jax.vmap(lambda logits, image: likelihood(logits[None], image[None]))(logits, images)
        kl = 0.5 * (jnp.square(mean) + jnp.exp(log_variance) - log_variance - 1).sum(1)
        return jnp.stack([errors @ weights, kl @ weights])

    m = jax.tree.leaves(params)[0].shape[0]
    return jax.lax.map(one, (params, jnp.arange(m, dtype=jnp.int32))).T
