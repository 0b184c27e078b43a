"""Posteriors → codes: mean or sample, and which codes are active."""

from collections.abc import Callable
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Key

from jaxdis.arrays import as_numpy
from jaxdis.models.posterior import Posterior
from jaxdis.models.zoo import Zoo
from jaxdis.options import Count, NonNegative, checked
from jaxdis.typing import Array, Float


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
