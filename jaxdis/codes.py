"""What codes alone can answer: posterior means or samples, which codes are active, and zoos with any widths."""

from typing import Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from jaxdis._core import random
from jaxdis._core.arrays import as_numpy, check_one_array
from jaxdis._core.options import NonNegative, checked, listed, shown


class Posterior(NamedTuple):
    """Diagonal Gaussian posteriors: ``mean`` and ``variance``, ``[m, n, d]`` float32 (``[n, d]`` for one member).

    A deterministic encoder has variance 0.
    """

    mean: Array
    variance: Array


@checked
def of(posterior: Posterior, kind: Literal["mean", "sample"] = "mean", key: PRNGKeyArray | None = None) -> np.ndarray:
    """Take codes ``[m, n, d]`` (or ``[n, d]``) from posteriors.

    Args:
      posterior: means and variances.
      kind: ``mean``: what Locatello et al. (2020) represent by, and the default everywhere; ``sample``: one draw from
        each posterior, which they also use where they study total correlation.
      key: random key, which ``sample`` needs.

    Raises:
      ValueError: for another kind, or for samples without a key.
    """
    if not isinstance(posterior, Posterior):
        raise ValueError(f"posterior: must be a Posterior (means and variances), got {type(posterior).__name__}")
    if kind == "mean":
        return np.asarray(posterior.mean)
    if key is None:
        raise ValueError("key: must be a typed key to sample codes, got None")
    return np.asarray(sample(key, jnp.asarray(posterior.mean), jnp.asarray(posterior.variance)))


def sample(key, mean: Float[Array, "... d"], variance: Float[Array, "... d"]) -> Float[Array, "... d"]:
    """Draw once from each diagonal Gaussian; pure."""
    return mean + jnp.sqrt(variance) * random.normal(key, mean.shape)


def divergence(posterior: Posterior) -> np.ndarray:
    """Compute each code's KL(q(z_d|x) ‖ N(0, 1)), the mean over samples, in nats: ``[m, d]`` (or ``[d]``)."""
    if not isinstance(posterior, Posterior):
        raise ValueError(f"posterior: must be a Posterior (means and variances), got {type(posterior).__name__}")
    mean, variance = np.asarray(posterior.mean), np.asarray(posterior.variance)
    # The divergence of a variance that underflowed to 0 is infinite; the smallest float keeps it finite.
    floor = np.maximum(variance, np.finfo(np.float32).tiny)
    return 0.5 * (np.square(mean) + variance - np.log(floor) - 1).mean(-2)


@checked
def active(
    posterior,
    by: Literal["deviation", "interquartile", "divergence"] = "deviation",
    threshold: NonNegative | None = None,
) -> np.ndarray:
    """Tell which codes are informative, bool ``[m, d]`` (or ``[d]``), for every metric's argument ``active``.

    Args:
      posterior: means and variances, or codes ``[m, n, d]`` (or ``[n, d]``), which have no divergence.
      by: what must exceed the threshold:

        * ``deviation``: the posterior mean's standard deviation over samples (0.1 is variance 0.01, as in Burda et al.
          2016, section 5.2).
        * ``interquartile``: the posterior mean's interquartile range, which a few outliers cannot increase.
        * ``divergence``: the mean KL divergence from the prior, nats.
      threshold: 0.1 when None.

    Raises:
      ValueError: for another criterion, or for codes alone, which have no divergence.
    """
    has_variance = isinstance(posterior, Posterior)
    if by == "divergence":
        if not has_variance:
            raise ValueError("by: a divergence needs a posterior (means and variances), got codes alone")
        measure = divergence(posterior)
    else:
        check_one_array(None if has_variance else posterior, "posterior")
        mean = as_numpy(posterior.mean if has_variance else posterior, "posterior")
        if mean.ndim not in (2, 3) or 0 in mean.shape or mean.dtype.kind not in "fiub":
            raise ValueError(
                f"posterior: must be numbers [n, d] or [m, n, d], got shape {mean.shape}, dtype {mean.dtype}"
            )
        low, high = np.quantile(mean, [0.25, 0.75], axis=-2) if by == "interquartile" else (0, mean.std(-2))
        measure = high - low
    return measure > (0.1 if threshold is None else threshold)


class Stacked(NamedTuple):
    """``codes [m, n, d]`` for members that differ in width, and ``active [m, d]``, which codes a member has."""

    codes: np.ndarray
    active: np.ndarray


def stack(codes) -> Stacked:
    """Make a zoo from members that differ in width, by constant codes that are not active.

    Args:
      codes: ``m`` arrays ``[n, d]`` on the same samples, NumPy, JAX or DLPack.

    Raises:
      ValueError: for anything but arrays with two axes and equally many samples.

    Example:
      >>> codes, active = jaxdis.stack([np.ones((5, 3)), np.ones((5, 2))])
      >>> codes.shape, active.tolist()
      ((2, 5, 3), [[True, True, True], [True, True, False]])
    """
    arrays = None if getattr(codes, "ndim", 0) else listed(codes)
    if not arrays:
        raise ValueError(f"codes: must be a list of arrays [n, d], one per member, got {shown(codes)}")
    arrays = [as_numpy(array, f"codes[{member}]") for member, array in enumerate(arrays)]
    shapes = [array.shape for array in arrays]
    if any(len(shape) != 2 for shape in shapes) or len({shape[0] for shape in shapes}) > 1:
        raise ValueError(f"codes: must be arrays [n, d] of the same samples, got shapes {', '.join(map(str, shapes))}")
    widest = max(shape[1] for shape in shapes)
    padded = [np.pad(array, ((0, 0), (0, widest - array.shape[1]))) for array in arrays]
    return Stacked(np.stack(padded), np.array([np.arange(widest) < shape[1] for shape in shapes]))


__all__ = ["Posterior", "Stacked", "active", "divergence", "of", "sample", "stack"]
