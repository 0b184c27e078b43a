"""Encoders and decoders for methods with their own heads."""

import dataclasses
import math

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxdis._core.options import NonNegative, Units, check_fields
from jaxdis.models.networks._layers import (
    Conv,
    ConvTranspose,
    Dense,
    Initialization,
    UnbiasedBatchNorm,
    blank_statistics,
    draw,
    leaky,
    normalized,
    shapes_of,
)


@dataclasses.dataclass(frozen=True)
class Stacks:
    """An encoder up to its last hidden layer, and a decoder: 4 × 4 convolutions with stride 2, then dense layers.

    Attributes:
      channels: output channels of the encoder's convolutions; () for a perceptron.
      hidden: widths of the dense layers that follow; the last one yields the features.
      decoder_hidden: widths of the decoder's dense layers before the first feature map (or the image).
      decoder_channels: channels in the first feature map and in every transposed convolution except the last.
      slope, last_slope, hidden_slope, decoder_slope: slopes for negative inputs (0: ReLU) after the convolutions, after
        the last one, after the encoder's dense layers, and in the decoder.
      normalized: normalize batches after all convolutions except the decoder's last (Ioffe & Szegedy 2015); no
        convolution then has a bias.
      initialization: as in :class:`jaxdis.models.Mlp`.
    """

    channels: tuple[Units, ...] = ()
    hidden: tuple[Units, ...] = (128, 128)
    decoder_hidden: tuple[Units, ...] = (128, 128)
    decoder_channels: tuple[Units, ...] = ()
    slope: NonNegative = 0.0
    last_slope: NonNegative = 0.0
    hidden_slope: NonNegative = 0.0
    decoder_slope: NonNegative = 0.0
    normalized: bool = False
    initialization: Initialization = "torch"

    def __post_init__(self):
        check_fields(self)
        if len(self.channels) != len(self.decoder_channels):
            raise ValueError(
                "channels, decoder_channels: need as many entries, got "
                f"{len(self.channels)} and {len(self.decoder_channels)}"
            )
        if not self.hidden:
            raise ValueError("hidden: must have at least one layer, got none")

    def init(self, key, image_shape: tuple[int, int, int], num_codes: int) -> tuple[dict, dict]:
        """Parameters, and running batch moments, for ``encoder`` and ``decoder``; no moments without any."""
        encoder = shapes_of(StackEncoder(self), jnp.zeros((1, *image_shape)))
        decoder = shapes_of(StackDecoder(self, image_shape), jnp.zeros((1, num_codes)))
        parts = {"encoder": encoder, "decoder": decoder}
        params = draw(key, {name: part["params"] for name, part in parts.items()}, self.initialization)
        return params, {name: blank_statistics(part) for name, part in parts.items()}

    def features(self, params, images: Float[Array, "n h w c"], running=None, *, training: bool = False):
        """Features ``[n, hidden[-1]]`` and the encoder's running moments.

        Args:
          params, running: the encoder's.
          training: normalize by the batch, and move the running moments toward it.
        """
        return normalized(StackEncoder(self), params, running or {}, images, training=training)

    def logits(self, params, codes: Float[Array, "n d"], image_shape, running=None, *, training: bool = False):
        """Logits ``[n, h, w, c]`` and the decoder's running moments; arguments as for :meth:`features`."""
        return normalized(StackDecoder(self, image_shape), params, running or {}, codes, training=training)


class StackEncoder(nn.Module):
    """Images → features."""

    stacks: Stacks

    @nn.compact
    def __call__(self, hidden: Float[Array, "n h w c"], training: bool = False) -> Float[Array, "n f"]:
        stacks = self.stacks
        slopes = [*[stacks.slope] * (len(stacks.channels) - 1), stacks.last_slope]
        for i, (channels, slope) in enumerate(zip(stacks.channels, slopes, strict=False)):
            layer = Conv(channels, (4, 4), (2, 2), use_bias=not stacks.normalized, name=f"convolution_{i}")
            hidden = layer(hidden)
            if stacks.normalized:
                hidden = UnbiasedBatchNorm(name=f"normalization_{i}")(hidden, training)
            hidden = leaky(hidden, slope)
        hidden = hidden.reshape(len(hidden), -1)
        for i, width in enumerate(stacks.hidden):
            hidden = leaky(Dense(width, name=f"dense_{i}")(hidden), stacks.hidden_slope)
        return hidden


class StackDecoder(nn.Module):
    """Codes → logits."""

    stacks: Stacks
    image_shape: tuple[int, int, int]

    @nn.compact
    def __call__(self, hidden: Float[Array, "n d"], training: bool = False) -> Float[Array, "n h w c"]:
        stacks, (height, width, colors) = self.stacks, self.image_shape
        for i, units in enumerate(stacks.decoder_hidden):
            hidden = leaky(Dense(units, name=f"dense_{i}")(hidden), stacks.decoder_slope)
        if not stacks.channels:
            return Dense(math.prod(self.image_shape), name="to_image")(hidden).reshape(-1, *self.image_shape)
        scale = 2 ** len(stacks.channels)
        smallest = (-(-height // scale), -(-width // scale), stacks.decoder_channels[0])
        hidden = Dense(math.prod(smallest), name="to_image")(hidden).reshape(-1, *smallest)
        for i, channels in enumerate((*stacks.decoder_channels[1:], colors)):
            hidden = leaky(hidden, stacks.decoder_slope)
            hidden = ConvTranspose(channels, use_bias=not stacks.normalized, name=f"transposed_{i}")(hidden)
            if stacks.normalized and i < len(stacks.channels) - 1:
                hidden = UnbiasedBatchNorm(name=f"normalization_{i}")(hidden, training)
        return hidden[:, :height, :width]
