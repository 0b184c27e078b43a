"""GENESIS's networks for masks: gated convolutions with batch normalization.

A gated layer has twice the outputs: one half, ``a``, times the sigmoid of the other, ``b``. Both are normalized over
the batch, except in the layer at the coarsest map.
"""

import math

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxdis.models.networks._layers import BatchNorm, Conv, ConvTransposeFive, Dense


class GatedEncoder(nn.Module):
    """5 × 5 convolutions, then one over the whole map.

    Attributes:
      channels, strides: for the convolutions; strides are 1 or 2.
      features: the last layer's outputs.
    """

    channels: tuple[int, ...]
    strides: tuple[int, ...]
    features: int

    @nn.compact
    def __call__(self, hidden: Float[Array, "n h w c"], training: bool = False) -> Float[Array, "n f"]:
        for i, (channels, stride) in enumerate(zip(self.channels, self.strides, strict=True)):
            layer = Conv(2 * channels, (5, 5), (stride, stride), padding=2, name=f"convolution_{i}")
            hidden = _gated(BatchNorm(not training, name=f"normalization_{i}")(layer(hidden)))
        return _gated(Dense(2 * self.features, name="features")(hidden.reshape(len(hidden), -1)))


class GatedDecoder(nn.Module):
    """A transposed convolution from one position to the coarsest map, then 5 × 5 (transposed) convolutions and logits.

    Attributes:
      channels: in the coarsest map and in each map after it.
      strides: by which each map after it grows, 1 or 2.
      image_size: the logits' height and width.
    """

    channels: tuple[int, ...]
    strides: tuple[int, ...]
    image_size: tuple[int, int]

    @nn.compact
    def __call__(self, codes: Float[Array, "n d"], training: bool = False) -> Float[Array, "n h w"]:
        scale = math.prod(self.strides)
        if any(side % scale for side in self.image_size):
            needed = f"images with sides divisible by {scale}"
            raise ValueError(f"strides: needs {needed}, got images of shape {self.image_size}")
        size = tuple(side // scale for side in self.image_size)
        first = nn.Conv(2 * self.channels[0], size, conv_general_dilated=_from_one_position, name="transposed_first")
        hidden = _gated(first(codes[:, None, None]))
        for i, (channels, stride) in enumerate(zip(self.channels[1:], self.strides, strict=True)):
            layer = ConvTransposeFive if stride == 2 else Conv
            hidden = layer(2 * channels, kernel_size=(5, 5), name=f"transposed_{i}")(hidden)
            hidden = _gated(BatchNorm(not training, name=f"normalization_{i}")(hidden))
        return Dense(1, name="logits")(hidden)[..., 0]


def _from_one_position(codes: Float[Array, "n 1 1 d"], kernel: Float[Array, "h w d o"], *_, **__) -> Array:
    return jnp.einsum("nd,hwdo->nhwo", codes[:, 0, 0], kernel)


def _gated(hidden: Array) -> Array:
    value, gate = jnp.split(hidden, 2, axis=-1)
    return value * jax.nn.sigmoid(gate)
