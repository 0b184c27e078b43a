"""The networks of a slot: a convolutional encoder, and a decoder that broadcasts a code over the image."""

import dataclasses
from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxdis.models.networks._convolution import convolve_padded
from jaxdis.models.networks._initialization import draw, layer_shape
from jaxdis.models.networks._stacks import dense, perceptron_shapes


@dataclasses.dataclass(frozen=True)
class SlotEncoder:
    """3 × 3 convolutions of stride 2, a dense layer, and a dense layer of outputs.

    Attributes:
      channels: of the convolutions.
      hidden: width of the dense layer.
      outputs: number of outputs.
      image_shape: of the inputs.
      activation: between layers.
    """

    channels: tuple[int, ...]
    hidden: int
    outputs: int
    image_shape: tuple[int, int, int]
    activation: Callable

    def begin(self, key) -> dict:
        """Parameters."""
        widths = (self.image_shape[2], *self.channels)
        shapes = {f"convolution_{i}": layer_shape(3, *p) for i, p in enumerate(zip(widths, widths[1:], strict=False))}
        flat = widths[-1]
        for side in self.image_shape[:2]:
            flat *= -(-side // 2 ** len(self.channels))
        return draw(key, {**shapes, **perceptron_shapes(flat, (self.hidden, self.outputs))}, "torch")

    def __call__(self, params: dict, inputs: Float[Array, "n h w c"]) -> Float[Array, "n o"]:
        """Outputs."""
        hidden = inputs
        for i in range(len(self.channels)):
            layer = params[f"convolution_{i}"]
            hidden = self.activation(with_bias(layer, convolve_padded(hidden, layer["kernel"], stride=2, padding=1)))
        hidden = self.activation(dense(params["dense_0"], hidden.reshape(len(hidden), -1)))
        return dense(params["dense_1"], hidden)


@dataclasses.dataclass(frozen=True)
class BroadcastDecoder:
    """A code concatenated with two coordinates at every pixel, then convolutions of stride 1.

    The first convolution is linear in code and coordinates, so that the code's part is a product with the response to
    each unit code, and the coordinates' part is the same for all codes.

    Attributes:
      num_codes: length of a code.
      channels: of the hidden convolutions.
      outputs: channels of the image.
      image_size: height and width.
      activation: after hidden convolutions.
      kernel: size of the hidden convolutions.
      last_kernel: size of the last convolution.
      grown: whether the code is broadcast to an image that is larger by what the convolutions cut off, so that none of
        them is padded with zeros. Coordinates run from −1 to 1 over what is broadcast.

    Reference: Watters et al. 2019.
    """

    num_codes: int
    channels: tuple[int, ...]
    outputs: int
    image_size: tuple[int, int]
    activation: Callable
    kernel: int = 3
    last_kernel: int = 1
    grown: bool = True

    def begin(self, key) -> dict:
        """Parameters."""
        widths = (self.num_codes + 2, *self.channels)
        shapes = {
            f"convolution_{i}": layer_shape(self.kernel, *p)
            for i, p in enumerate(zip(widths, widths[1:], strict=False))
        }
        return draw(key, {**shapes, "last": layer_shape(self.last_kernel, widths[-1], self.outputs)}, "torch")

    def __call__(self, params: dict, codes: Float[Array, "n d"]) -> Float[Array, "n h w o"]:
        """Images, before any last activation."""
        hidden = self.activation(self._first(params["convolution_0"], codes))
        for i in range(1, len(self.channels)):
            layer = params[f"convolution_{i}"]
            hidden = self.activation(with_bias(layer, self._convolve(layer["kernel"], hidden)))
        return with_bias(params["last"], self._convolve(params["last"]["kernel"], hidden))

    def _first(self, layer: dict, codes: Array) -> Array:
        more = self._margin * 2
        height, width = (side + more for side in self.image_size)
        place = coordinates(height, width)[None]
        kernel = layer["kernel"]
        of_place = with_bias(layer, self._convolve(kernel[:, :, self.num_codes :], place))
        kernel = kernel[:, :, : self.num_codes]
        if self.grown:
            return (codes @ kernel.sum((0, 1)))[:, None, None] + of_place
        units = jnp.eye(self.num_codes)[:, None, None]
        responses = self._convolve(kernel, jnp.broadcast_to(units, (self.num_codes, height, width, self.num_codes)))
        return jnp.einsum("nd,dhwo->nhwo", codes, responses) + of_place

    def _convolve(self, kernel: Array, hidden: Array) -> Array:
        return convolve_padded(hidden, kernel, padding=0 if self.grown else kernel.shape[0] // 2)

    @property
    def _margin(self) -> int:
        """Pixels that the convolutions cut off on each side."""
        return len(self.channels) * (self.kernel // 2) + self.last_kernel // 2 if self.grown else 0


def coordinates(height: int, width: int) -> Float[Array, "h w 2"]:
    """Vertical and horizontal place of each pixel, from −1 to 1."""
    rows, columns = jnp.meshgrid(jnp.linspace(-1, 1, height), jnp.linspace(-1, 1, width), indexing="ij")
    return jnp.stack([rows, columns], axis=-1)


def with_bias(layer: dict, hidden: Float[Array, "n h w c"]) -> Float[Array, "n h w c"]:
    """The maps plus the bias of a layer."""
    return hidden + layer["bias"].reshape(1, 1, 1, -1)
