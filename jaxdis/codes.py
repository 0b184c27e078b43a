"""Posteriors → codes: mean or sample, which codes are active, and how well the members explain images."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Key

from jaxdis.arrays import as_numpy
from jaxdis.models.distributions import negative_log_likelihood
from jaxdis.models.images import checked_images, unit_images
from jaxdis.models.posterior import Posterior
from jaxdis.models.precision import InPrecision
from jaxdis.models.zoo import Zoo
from jaxdis.options import Count, NonNegative, checked
from jaxdis.typing import Array, Float, Num


class Evidence(NamedTuple):
    """Means over images, nats, ``[m]``: ``elbo = −reconstruction − kl``."""

    reconstruction: np.ndarray
    kl: np.ndarray
    elbo: np.ndarray


@checked
def of(posterior: Posterior, kind: Literal["mean", "sample"] = "mean", key: Key[Array, ""] | None = None) -> np.ndarray:
    """Codes ``[m, n, d]`` (or ``[n, d]``) of posteriors.

    ``mean`` is the representation of Locatello et al. (2020) and the default everywhere; ``sample`` draws one code from
    each posterior, which their study of total correlation uses beside it, and needs a ``key``.

    Raises:
      ValueError: for another kind, or a sample without a key.
    """
    if not isinstance(posterior, Posterior):
        raise ValueError(f"posterior: needs a Posterior (means and variances), got {type(posterior).__name__}")
    if kind == "mean":
        return np.asarray(posterior.mean)
    if key is None:
        raise ValueError("key: sampling codes needs a typed key, got None")
    return np.asarray(sample(key, jnp.asarray(posterior.mean), jnp.asarray(posterior.variance)))


def sample(key, mean: Float[Array, "... d"], variance: Float[Array, "... d"]) -> Float[Array, "... d"]:
    """One draw from diagonal Gaussians; pure."""
    return mean + jnp.sqrt(variance) * jax.random.normal(key, mean.shape)


@checked
def encode(
    zoo: Zoo,
    images,
    *,
    kind: Literal["mean", "sample"] = "mean",
    key: Key[Array, ""] | None = None,
    render: Callable | None = None,
    batch_size: Count | None = None,
) -> np.ndarray:
    """Codes ``[m, n, d]`` of images ``[n, h, w, c]`` (or of factors with a ``render``), some images at a time."""
    return of(zoo.encode(images, render=render, batch_size=batch_size), kind, key)


def divergence(posterior: Posterior) -> np.ndarray:
    """KL(q(z_d|x) ‖ N(0, 1)) of each code, mean over samples, nats: ``[m, d]`` (or ``[d]``)."""
    if not isinstance(posterior, Posterior):
        raise ValueError(f"posterior: needs a Posterior (means and variances), got {type(posterior).__name__}")
    mean, variance = np.asarray(posterior.mean), np.asarray(posterior.variance)
    # A variance that underflowed to 0 has a divergence without bound; the smallest float keeps it finite and huge.
    floor = np.maximum(variance, np.finfo(np.float32).tiny)
    return 0.5 * (np.square(mean) + variance - np.log(floor) - 1).mean(-2)


@checked
def active(
    posterior,
    by: Literal["deviation", "interquartile", "divergence"] = "deviation",
    threshold: NonNegative | None = None,
) -> np.ndarray:
    """Which codes carry information, bool ``[m, d]`` (or ``[d]``): the argument ``active`` of every metric.

    ``deviation``: the standard deviation over samples of the posterior mean exceeds ``threshold``, 0.1 by default
    (variance above 0.01, Burda et al. 2016, section 5.2). ``interquartile``: so does its interquartile range, which a
    few outliers cannot raise. ``divergence``: the mean KL from the prior exceeds ``threshold`` nats, 0.1 by default.

    Args:
      posterior: :class:`Posterior`, or codes ``[m, n, d]`` (or ``[n, d]``), which have no divergence.

    Raises:
      ValueError: for another criterion, or the divergence of codes alone.
    """
    whole = isinstance(posterior, Posterior)
    if by == "divergence":
        if not whole:
            raise ValueError("by: a divergence needs a posterior (means and variances), got codes alone")
        measure = divergence(posterior)
    else:
        mean = as_numpy(posterior.mean if whole else posterior, "posterior")
        if mean.ndim not in (2, 3) or 0 in mean.shape or mean.dtype.kind not in "fiub":
            raise ValueError(
                f"posterior: needs numbers [n, d] or [m, n, d], got shape {mean.shape}, dtype {mean.dtype}"
            )
        low, high = np.quantile(mean, [0.25, 0.75], axis=-2) if by == "interquartile" else (0, mean.std(-2))
        measure = high - low
    return measure > (0.1 if threshold is None else threshold)


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
