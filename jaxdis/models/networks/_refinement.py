"""The refinement network of IODINE: from what a slot explains of the image to a change of its posterior."""

import dataclasses

import jax
from jaxtyping import Array, Float

from jaxdis.models.networks._components import with_bias
from jaxdis.models.networks._convolution import convolve_padded
from jaxdis.models.networks._initialization import draw, layer_shape
from jaxdis.models.networks._recurrent import Memory, begin_lstm, lstm
from jaxdis.models.networks._stacks import dense, dense_shape


@dataclasses.dataclass(frozen=True)
class Refinement:
    """Convolutions of stride 2, their mean over positions, a dense layer, and a recurrent layer.

    Attributes:
      channels: of the convolutions.
      kernel: size of their kernels.
      hidden: width of the dense layer and of the recurrent one.
      inputs, vectors: channels of the images, and length of the vectors, that are read.
      num_codes: length of a code.
      reads_cell: whether updates are read from the cell state, rather than from the output.
    """

    channels: tuple[int, ...]
    kernel: int
    hidden: int
    inputs: int
    vectors: int
    num_codes: int
    reads_cell: bool

    def begin(self, key) -> dict:
        """Parameters."""
        widths = (self.inputs, *self.channels)
        shapes = {
            f"convolution_{i}": layer_shape(self.kernel, *p)
            for i, p in enumerate(zip(widths, widths[1:], strict=False))
        }
        shapes["dense"] = dense_shape(widths[-1], self.hidden)
        shapes["update"] = dense_shape(self.hidden, 2 * self.num_codes)
        layers_key, lstm_key = jax.random.split(key)
        return {
            **draw(layers_key, shapes, "torch"),
            "lstm": begin_lstm(lstm_key, self.hidden + self.vectors, self.hidden),
        }

    def __call__(
        self, params: dict, images: Float[Array, "n h w c"], vectors: Float[Array, "n v"], memory: Memory
    ) -> tuple[Float[Array, "n u"], Memory]:
        """Changes of mean and log-variance, one after the other, and the memory."""
        hidden = images
        for i in range(len(self.channels)):
            layer = params[f"convolution_{i}"]
            hidden = convolve_padded(hidden, layer["kernel"], stride=2, padding=self.kernel // 2)
            hidden = jax.nn.elu(with_bias(layer, hidden))
        # The released code applies the activation twice.
        hidden = jax.nn.elu(jax.nn.elu(dense(params["dense"], hidden.mean((1, 2)))))
        memory = lstm(params["lstm"], jax.numpy.concatenate([hidden, vectors], axis=1), memory)
        return dense(params["update"], memory.cell if self.reads_cell else memory.hidden), memory
