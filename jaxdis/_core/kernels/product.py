"""Products whose fastest form depends on the platform: those of dense layers, and those over few numbers.

On CPU, XLA reads the inputs of a batch column by column for the gradient of a layer's weights. With few outputs, that
takes longer than the product: of a batch of 64, weights 1024 × 128 take 357 µs, and 205 µs if the transpose is
computed, to the same bits, and then transposed; weights 1024 × 12 take 231 and 22 µs.
"""

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental.layout import Layout, with_layout_constraint
from jaxtyping import Array, Float

from jaxdis._core.kernels.kernel import Kernel

# Inputs per output from which the transpose is faster.
WIDE = 2
# Terms of a sum that an accelerator computes sooner, for each of its readers, than it would store it and read it again.
FEW = 16


def _reference(rows, weights, *_, **__):
    return rows @ weights


def _direct(rows: Float[Array, "... i"], weights: Float[Array, "i o"], *_, **__) -> Float[Array, "... o"]:
    return jnp.matmul(rows, weights)


def _transposed(rows: Float[Array, "... i"], weights: Float[Array, "i o"], *_, **__) -> Float[Array, "... o"]:
    inputs, outputs = weights.shape
    wide = rows.ndim == 2 and inputs >= WIDE * outputs
    return _wide_product(rows, weights) if wide else jnp.matmul(rows, weights)


@jax.custom_jvp
def _wide_product(rows: Float[Array, "n i"], weights: Float[Array, "i o"]) -> Float[Array, "n o"]:
    return rows @ weights


@_wide_product.defjvp
def _tangent(primals, tangents):
    """Of the weights' tangent, the transpose is multiplied; so a gradient, which goes backward, ends as one."""
    (rows, weights), (of_rows, of_weights) = primals, tangents
    # Without the barrier, XLA turns the product around again; without the layout, each reader transposes it anew.
    turned = lax.optimization_barrier(with_layout_constraint(of_weights, Layout(major_to_minor=(0, 1))).T)
    moved = lax.dot_general(rows, turned, (((1,), (1,)), ((), ())))
    return _wide_product(rows, weights), of_rows @ weights + moved


# ``product(rows [n, i], weights [i, o]) -> [n, o]``: ``lax.dot_general`` as ``flax.linen.Dense`` calls it.
product = Kernel(
    _reference,
    {"transposed": _transposed, "direct": _direct},
    cpu="transposed",
    accelerator="direct",
)


def _in_its_readers(left: Float[Array, "s e"], right: Float[Array, "e n"]) -> Float[Array, "s n"]:
    if left.shape[1] > FEW:
        return left @ right
    return sum(left[:, i, None] * right[i][None, :] for i in range(left.shape[1]))


# ``thin_product(left [s, e], right [e, n]) -> [s, n]``, of few numbers ``e``. As a sum of products it becomes a part of
# what reads it; libraries for products store their results.
thin_product = Kernel(
    lambda left, right: left @ right,
    {"stored": lambda left, right: left @ right, "in its readers": _in_its_readers},
    cpu="stored",
    accelerator="in its readers",
)
