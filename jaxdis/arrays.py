"""Small array functions that several rooms share."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

# Rows summed at a time: float32 sums of many equal terms drift when they are added one by one.
BLOCK = 128


def safe_divide(numerator, denominator):
    """The quotient, 0 where the denominator is 0."""
    zero = denominator == 0
    return jnp.where(zero, 0.0, numerator / jnp.where(zero, 1.0, denominator))


def product_over_samples(left: Float[Array, "n a"], right: Float[Array, "n b"]) -> Float[Array, "a b"]:
    """``leftᵀ right``, summed in blocks of samples so that float32 rounding stays that of a short sum."""
    blocks = -(-left.shape[0] // BLOCK)

    def blocked(array):
        return jnp.pad(array, ((0, blocks * BLOCK - array.shape[0]), (0, 0))).reshape(blocks, BLOCK, -1)

    products = jnp.einsum("xna,xnb->xab", blocked(left), blocked(right), precision=jax.lax.Precision.HIGHEST)
    return products.sum(axis=0)


def weighted_mean(columns: Float[Array, "n c"], weights: Float[Array, " n"]) -> Float[Array, " c"]:
    """Mean of each column under weights that do not all vanish."""
    return product_over_samples(weights[:, None], columns)[0] / weights.sum()
