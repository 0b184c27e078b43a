"""A network as programs run it: in one precision, with float32 inputs and outputs, and in micro-batches.

Micro-batches give the same loss and gradient with less memory traffic. On CPU, the activations of eight images stay in
cache, whereas those for a batch with 64 do not, and a convolutional update takes half the time. The loss couples a
batch's images through their posteriors alone, so the encoder and the decoder run per micro-batch and everything between
them runs on the whole batch.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

from jaxdis.models.networks._functions import functions_of

# "highest" keeps accelerators from rounding float32 to fewer bits by default.
PRODUCTS = {"float32": "highest", "tensorfloat32": "tensorfloat32", "bfloat16": "default"}


@dataclasses.dataclass(frozen=True)
class Autoencoder:
    """A network, how precise its matrix products are, and how many images a micro-batch has (None: all images)."""

    network: Any
    precision: str = "float32"
    micro_batch: int | None = None

    def encode(self, params, images: Array) -> tuple[Array, Array]:
        """Posterior means and log-variances, ``[n, d]`` float32 each.

        The backward pass recomputes each micro-batch instead of storing it.
        """

        def posterior(images):
            with jax.default_matmul_precision(PRODUCTS[self.precision]):
                mean, log_variance = functions_of(self.network).encode(self._cast(params), self._cast(images))
            return mean.astype(jnp.float32), log_variance.astype(jnp.float32)

        n = images.shape[0]
        if self._takes_whole(n):
            return posterior(images)
        mean, log_variance = lax.map(jax.checkpoint(posterior, prevent_cse=False), self._split(images))
        return mean.reshape(n, -1), log_variance.reshape(n, -1)

    def decode(self, params, codes: Array) -> Array:
        """Logits ``[n, h, w, c]``, float32, for the whole batch."""
        with jax.default_matmul_precision(PRODUCTS[self.precision]):
            return functions_of(self.network).decode(self._cast(params), self._cast(codes)).astype(jnp.float32)

    def decoded_loss(self, params, codes: Array, images: Array, loss: Callable[[Array, Array], Array]) -> Array:
        """``loss(decode(params, codes), images)``, which must be a sum over images.

        With micro-batches, the gradient is computed in the same pass as the value: a scalar's cotangent only scales it.
        """

        def part_loss(params, codes, images):
            return loss(self.decode(params, codes), images)

        if self._takes_whole(codes.shape[0]):
            return part_loss(params, codes, images)

        @jax.custom_vjp
        def total(params, codes):
            def add(value, part):
                return value + part_loss(params, *part), None

            return lax.scan(add, jnp.zeros(()), (self._split(codes), self._split(images)))[0]

        def forward(params, codes):
            def add(carry, part):
                value, gradients = jax.value_and_grad(part_loss, argnums=(0, 1))(params, *part)
                return (carry[0] + value, jax.tree.map(jnp.add, carry[1], gradients[0])), gradients[1]

            start = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, params))
            (value, of_params), of_codes = lax.scan(add, start, (self._split(codes), self._split(images)))
            return value, (of_params, of_codes.reshape(codes.shape))

        def backward(gradients, cotangent):
            return jax.tree.map(lambda leaf: (cotangent * leaf).astype(leaf.dtype), gradients)

        total.defvjp(forward, backward)
        return total(params, codes)

    def _cast(self, tree):
        return jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), tree) if self.precision == "bfloat16" else tree

    def _takes_whole(self, n: int) -> bool:
        return self.micro_batch is None or self.micro_batch >= n

    def _split(self, array: Array) -> Array:
        return array.reshape(array.shape[0] // self.micro_batch, self.micro_batch, *array.shape[1:])
