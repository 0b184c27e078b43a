"""A slot's networks: a convolutional encoder, and a decoder that broadcasts a code over the image."""

from collections.abc import Callable

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxdis._core.kernels.convolution import convolution
from jaxdis.models.networks._layers import Conv, Dense


class SlotEncoder(nn.Module):
    """3 × 3 convolutions with stride 2, a dense layer, and a dense layer for outputs.

    Attributes:
      channels: in the convolutions.
      hidden: width of the dense layer.
      outputs: how many outputs.
      activation: between layers.
    """

    channels: tuple[int, ...]
    hidden: int
    outputs: int
    activation: Callable

    @nn.compact
    def __call__(self, hidden: Float[Array, "n h w c"]) -> Float[Array, "n o"]:
        for i, channels in enumerate(self.channels):
            hidden = self.activation(Conv(channels, (3, 3), (2, 2), padding=1, name=f"convolution_{i}")(hidden))
        hidden = self.activation(Dense(self.hidden, name="dense_0")(hidden.reshape(len(hidden), -1)))
        return Dense(self.outputs, name="dense_1")(hidden)


class BroadcastDecoder(nn.Module):
    """A code concatenated with two coordinates at every pixel, then convolutions with stride 1.

    Attributes:
      channels: in the hidden convolutions.
      outputs: the image's channels.
      image_size: height and width.
      activation: after hidden convolutions.
      kernel: size of the hidden convolutions.
      last_kernel: size of the last convolution.
      grown: whether the code is broadcast to an image that is larger by what the convolutions cut off, so that none is
        padded with zeros. Coordinates run from −1 to 1 over what is broadcast.

    Outputs are images ``[n, h, w, o]``, before any last activation.

    Reference: Watters et al. 2019.
    """

    channels: tuple[int, ...]
    outputs: int
    image_size: tuple[int, int]
    activation: Callable
    kernel: int = 3
    last_kernel: int = 1
    grown: bool = True

    @nn.compact
    def __call__(self, codes: Float[Array, "n d"]) -> Float[Array, "n h w o"]:
        # Pixels that the convolutions cut off on each side.
        margin = len(self.channels) * (self.kernel // 2) + self.last_kernel // 2 if self.grown else 0
        size, padding = tuple(side + 2 * margin for side in self.image_size), "VALID" if self.grown else "SAME"
        first = Broadcast(self.channels[0], (self.kernel, self.kernel), padding, size, name="convolution_0")
        hidden = self.activation(first(codes))
        for i, channels in enumerate(self.channels[1:], 1):
            layer = Conv(channels, (self.kernel, self.kernel), padding=padding, name=f"convolution_{i}")
            hidden = self.activation(layer(hidden))
        return Conv(self.outputs, (self.last_kernel, self.last_kernel), padding=padding, name="last")(hidden)


class Broadcast(nn.Module):
    """The convolution of a code and two coordinates at every pixel, without that image in memory.

    It is linear, so that the code's part is a product with the response to each unit code, and the coordinates' part
    is the same for all codes.
    """

    features: int
    kernel_size: tuple[int, int]
    padding: str
    image_size: tuple[int, int]

    @nn.compact
    def __call__(self, codes: Float[Array, "n d"]) -> Float[Array, "n h w o"]:
        d = codes.shape[1]
        kernel = self.param("kernel", nn.initializers.zeros, (*self.kernel_size, d + 2, self.features))
        bias = self.param("bias", nn.initializers.zeros, (self.features,))
        place = convolution(coordinates(*self.image_size)[None], kernel[:, :, d:], (1, 1), self.padding)
        place, kernel = place + bias.reshape(1, 1, 1, -1), kernel[:, :, :d]
        if self.padding == "VALID":
            return (codes @ kernel.sum((0, 1)))[:, None, None] + place
        units = jnp.broadcast_to(jnp.eye(d)[:, None, None], (d, *self.image_size, d))
        return jnp.einsum("nd,dhwo->nhwo", codes, convolution(units, kernel, (1, 1), self.padding)) + place


def coordinates(height: int, width: int) -> Float[Array, "h w 2"]:
    """Each pixel's vertical and horizontal place, from −1 to 1."""
    rows, columns = jnp.meshgrid(jnp.linspace(-1, 1, height), jnp.linspace(-1, 1, width), indexing="ij")
    return jnp.stack([rows, columns], axis=-1)
