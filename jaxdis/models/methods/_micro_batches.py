"""Gradients of means over images, a few images at a time."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array


def averaged(differentiate: Callable, params: Any, parts: Any) -> Any:
    """The mean of ``differentiate(params, *part)`` over micro-batches, which are the first axis of ``parts``.

    The memory is that of one micro-batch.
    """
    count = len(jax.tree.leaves(parts)[0])
    if count == 1:
        return differentiate(params, *jax.tree.map(lambda leaf: leaf[0], parts))

    def one_more(total, part):
        return jax.tree.map(jnp.add, total, differentiate(params, *part)), None

    shapes = jax.eval_shape(differentiate, params, *jax.tree.map(lambda leaf: leaf[0], parts))
    zero = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    total, _ = jax.lax.scan(one_more, zero, parts)
    return jax.tree.map(lambda leaf: leaf / jnp.float32(count), total)


def split(array: Array, size: int, axis: int = 0) -> Array:
    """An image axis as micro-batches of ``size`` images, which become the first axis."""
    shape = (*array.shape[:axis], -1, size, *array.shape[axis + 1 :])
    return jnp.moveaxis(array.reshape(shape), axis, 0)


def divisor(batch_size: int, least: int, most: int) -> int:
    """The largest micro-batch between two sizes that divides the batch; the batch if there is none."""
    return next((size for size in range(most, least - 1, -1) if batch_size % size == 0), batch_size)
