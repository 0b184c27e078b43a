"""IODINE's refinement network: from what a slot explains in the image to how its posterior changes."""

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxdis.models.networks._initialization import draw, draw_lstm
from jaxdis.models.networks._layers import Conv, Dense, Lstm, shapes_of

Memory = tuple[Float[Array, "n u"], Float[Array, "n u"]]


class Refinement(nn.Module):
    """Convolutions with stride 2, their mean over positions, a dense layer, and a recurrent layer.

    Attributes:
      channels: in the convolutions.
      kernel: size of their kernels.
      hidden: width of the dense layer and of the recurrent one.
      num_codes: length of a code.
      reads_cell: whether updates are read from the cell state, rather than from the output.
    """

    channels: tuple[int, ...]
    kernel: int
    hidden: int
    num_codes: int
    reads_cell: bool

    @nn.compact
    def __call__(
        self, images: Float[Array, "n h w c"], vectors: Float[Array, "n v"], memory: Memory
    ) -> tuple[Float[Array, "n o"], Memory]:
        """How mean and log-variance change, one after the other, and the memory (cell, output)."""
        hidden = images
        for i, channels in enumerate(self.channels):
            size, padding = (self.kernel, self.kernel), self.kernel // 2
            hidden = jax.nn.elu(Conv(channels, size, (2, 2), padding=padding, name=f"convolution_{i}")(hidden))
        # The released code applies the activation twice.
        hidden = jax.nn.elu(jax.nn.elu(Dense(self.hidden, name="dense")(hidden.mean((1, 2)))))
        memory, output = Lstm(self.hidden, name="lstm")(memory, jnp.concatenate([hidden, vectors], axis=1))
        return Dense(2 * self.num_codes, name="update")(memory[0] if self.reads_cell else output), memory

    def begin(self, key, images: Float[Array, "n h w c"], vectors: Float[Array, "n v"]) -> dict:
        """Parameters for inputs like these."""
        layers_key, lstm_key = jax.random.split(key)
        shapes = shapes_of(self, images, vectors, (jnp.zeros((len(images), self.hidden)),) * 2)["params"]
        memory = draw_lstm(lstm_key, shapes.pop("lstm"))
        return {**draw(layers_key, shapes, "torch"), "lstm": memory}
