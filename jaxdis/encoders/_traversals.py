"""Scoring traversals: one factor in a simulator takes all its values while the others stay."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from jaxdis._core.arrays import safe_divide
from jaxdis._core.factorizations import eigvalsh
from jaxdis._core.precision import exact_products
from jaxdis.data._factor_space import FactorSpace
from jaxdis.encoders._simulated import Looking, free_factors
from jaxdis.models._images import noise_key


class Flatness(NamedTuple):
    """``score []``, the mean over ``per_factor [f]``, factors with several values."""

    score: Float[Array, ""]
    per_factor: Float[Array, " f"]


class Factored(NamedTuple):
    """``axis_ratio``, ``linear_ratio`` and ``axis_alignment`` ``[]``: geometric means over factors, column by column in
    ``per_factor [f, 3]``."""

    axis_ratio: Float[Array, ""]
    linear_ratio: Float[Array, ""]
    axis_alignment: Float[Array, ""]
    per_factor: Float[Array, "f 3"]


def flatness(
    key: PRNGKeyArray, encode: Callable, space: FactorSpace, render: Callable, *, repeats: int = 128
) -> Flatness:
    """Measure flatness: do a traversal's codes lie in order on a line along an axis?

    The largest Euclidean distance between two points on a traversal, divided by the summed L1 distances from each value
    to the next. The longest step is left out, the one from the last value to the first included, so that a factor may
    go around. Both are means over ``repeats`` random settings of the other factors.

    Args:
      encode: images ``[n, h, w, c]`` → codes ``[n, d]``, or ``[m, n, d]`` for many members.
      space, render: a simulator, such as ``jaxdis.data.dsprites()``.
      repeats: how many traversals for each factor.

    Contract:

    - In [0, 1]: 1 for codes that move evenly along one axis; lower for curves, jumps back, and lines across axes. 0 for
      codes that do not move.
    - Continuous factors and those with one value are left out.

    Reference: Michlo, disent 0.8.0 (``metric_flatness``).
    """

    def of_factor(codes):
        apart = jnp.sqrt(((codes[..., :, None, :] - codes[..., None, :, :]) ** 2).sum(axis=-1))
        steps = jnp.abs(jnp.roll(codes, -1, axis=-2) - codes).sum(axis=-1)
        length = (steps.sum(axis=-1) - steps.max(axis=-1)).mean(axis=-1)
        return safe_divide(apart.max(axis=(-1, -2)).mean(axis=-1), length)

    look = Looking(encode, render, space)
    per_factor = _traversed(key, look, space, repeats, of_factor)
    return look.as_given(Flatness(per_factor.mean(axis=1), per_factor))


@exact_products
def factored_components(
    key: PRNGKeyArray, encode: Callable, space: FactorSpace, render: Callable, *, repeats: int = 128
) -> Factored:
    """Measure linearity and axis alignment: do a traversal's codes vary in one direction, and is that an axis?

    ``axis_ratio`` is the share of a traversal's variance that its most variable code has, ``linear_ratio`` what its
    first principal component has, both mapped so that an even spread over ``d`` directions is 0; ``axis_alignment`` is
    their quotient. Means over ``repeats`` random settings of the other factors.

    Args:
      encode, space, render, repeats: as for :func:`flatness`.

    Contract:

    - In [0, 1]. 0 for codes that do not move. A single code has one direction only, and gives 1.
    - Continuous factors and those with one value are left out.

    Reference: Michlo, disent 0.8.0 (``metric_linearity``, a part of the factored components; the other part compares
    distances between codes with those between images).
    """

    def share(variances):
        d = variances.shape[-1]
        total = variances.sum(axis=-1)
        largest = safe_divide(variances.max(axis=-1), total)
        return jnp.where(total > 0, (largest - 1 / d) / (1 - 1 / d), 0.0) if d > 1 else (total > 0).astype(jnp.float32)

    def of_factor(codes):
        rows = codes - codes.mean(axis=-2, keepdims=True)
        covariance = rows.swapaxes(-1, -2) @ rows / (rows.shape[-2] - 1)
        axis = share(jnp.diagonal(covariance, axis1=-2, axis2=-1))
        line = share(jnp.maximum(eigvalsh(covariance), 0.0))
        return jnp.stack([axis, line, safe_divide(axis, line)], axis=-1).mean(axis=-2)

    look = Looking(encode, render, space)
    per_factor = _traversed(key, look, space, repeats, of_factor)
    means = jnp.exp(jnp.log(jnp.maximum(per_factor, 0.0)).mean(axis=1))
    return look.as_given(Factored(*means.T, per_factor))


def _traversed(key, look: Looking, space: FactorSpace, repeats: int, of_factor: Callable) -> Float[Array, "m f ..."]:
    """``of_factor`` for the codes ``[m, repeats, v, d]`` along each factor with several values."""
    found = []
    for j in free_factors(space):
        size = space.sizes[j]
        if size is None:
            continue
        own = jax.random.fold_in(key, j)
        others = jnp.repeat(space.sample(own, repeats), size, axis=0)
        cells = others.at[:, j].set(jnp.tile(jnp.arange(size), repeats).astype(others.dtype))
        codes = look.at_many(cells, noise_key(own))
        found.append(of_factor(codes.reshape(len(codes), repeats, size, -1)))
    if not found:
        raise ValueError("space: must be a discrete factor with several values, got none")
    return jnp.stack(found, axis=1)
