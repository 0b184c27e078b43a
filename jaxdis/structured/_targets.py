"""Factors as regression targets: numbers unchanged, categories as ordered class values or as indicators."""

import itertools
from typing import Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxdis._core.arrays import safe_divide

Encoding = Literal["ordered", "one_hot"]
# All v! / 2 orders of a category's classes are tried up to this many classes.
MOST_ORDERED = 6


class Layout(NamedTuple):
    """Which columns in the basis and the targets belong to which factor; static.

    ``sizes [k]``: how many classes a category has, 1 for a number. The basis ``[n, t]`` has one column per number and
    one per class in a category. Targets ``[n, c]`` are the basis times a matrix ``mix [t, c]``.
    """

    sizes: tuple[int, ...]
    encoding: Encoding

    @property
    def basis(self) -> list[slice]:
        return _spans(self.sizes)

    @property
    def targets(self) -> list[slice]:
        return _spans(self.sizes if self.encoding == "one_hot" else (1,) * len(self.sizes))

    @property
    def owner(self) -> np.ndarray:
        """``[c, k]``, 1 where a target belongs to a factor."""
        widths = [span.stop - span.start for span in self.targets]
        return np.eye(len(self.sizes), dtype=np.float32)[np.repeat(np.arange(len(self.sizes)), widths)]


def layout_of(sizes: tuple[int | None, ...], categorical: tuple[int, ...], encoding: Encoding) -> Layout:
    """The layout for factors of these sizes."""
    for j in categorical:
        if sizes[j] is None:
            raise ValueError(f"categorical: must be discrete factors, got the continuous factor {j}")
        if encoding == "ordered" and sizes[j] > MOST_ORDERED:
            raise ValueError(
                f"categorical: factor {j} has {sizes[j]} classes; all their orders are tried up to {MOST_ORDERED}, "
                "beyond use encoding='one_hot'"
            )
    return Layout(tuple(int(sizes[j]) if j in categorical else 1 for j in range(len(sizes))), encoding)


def basis(layout: Layout, values: Float[Array, "n k"]) -> Float[Array, "n t"]:
    """Numbers, and indicators of classes."""
    columns = [
        values[:, j : j + 1] if size == 1 else values[:, j : j + 1] == jnp.arange(size, dtype=jnp.float32)[None]
        for j, size in enumerate(layout.sizes)
    ]
    return jnp.concatenate([column.astype(jnp.float32) for column in columns], axis=1)


def mixing(layout: Layout, gram: Float[Array, "t t"], error: Float[Array, "t t"]) -> Float[Array, "t c"]:
    """The matrix from the basis to targets with variance 1 per factor and each category's classes in the best order.

    ``"ordered"``: classes have equally spaced values from −1 to 1, in the order with the least error relative to the
    variance; two classes are −1 and 1. ``"one_hot"``: indicators, whose variances add to 1. A factor that does not vary
    is 0.

    Args:
      gram: ``TᵀT / n`` for the centered basis ``T``.
      error: the same for what a linear model leaves unexplained in ``T``.

    Reference: Dang-Nhu 2022, App. C.4 ("−1, 0 and −1", where the last should be 1: "we match the classes to these
    values in order to minimize prediction error").
    """
    mix = jnp.zeros((gram.shape[0], layout.targets[-1].stop))
    for size, rows, columns in zip(layout.sizes, layout.basis, layout.targets, strict=True):
        own, left = gram[rows, rows], error[rows, rows]
        if size > 1 and layout.encoding == "ordered":
            orders = np.array([o for o in itertools.permutations(range(size)) if o[0] < o[-1]], np.float32)
            values = jnp.asarray(2 * orders / (size - 1) - 1)
            variance = jnp.einsum("ov,vw,ow->o", values, own, values, precision="highest")
            remains = jnp.einsum("ov,vw,ow->o", values, left, values, precision="highest")
            best = jnp.argmin(jnp.where(variance > 0, safe_divide(remains, variance), jnp.inf))
            block = values[best][:, None] * _inverse_root(variance[best])
        else:
            block = jnp.eye(size) * _inverse_root(jnp.trace(own))
        mix = mix.at[rows, columns].set(block)
    return mix


def _inverse_root(variance):
    varies = variance > 1e-10
    return jnp.where(varies, 1 / jnp.sqrt(jnp.where(varies, variance, 1.0)), 0.0)


def _spans(widths) -> list[slice]:
    ends = np.cumsum(widths)
    return [slice(int(end - width), int(end)) for width, end in zip(widths, ends, strict=True)]
