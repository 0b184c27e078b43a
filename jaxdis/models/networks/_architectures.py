"""The library's encoders and decoders, and the discriminator, as ``flax.linen`` modules.

Programs use a network's three pure functions, its own or a user's: see :mod:`jaxdis.models.networks._layers`.
"""

import dataclasses
import math
from typing import Literal

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from jaxdis._core.options import Count, NonNegative, Units, check_fields, checked
from jaxdis.models.networks import _layers as forms
from jaxdis.models.networks._layers import normalized


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
    initialization: forms.Initialization = "torch"

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
        encoder = forms.shapes_of(StackEncoder(self), jnp.zeros((1, *image_shape)))
        decoder = forms.shapes_of(StackDecoder(self, image_shape), jnp.zeros((1, num_codes)))
        parts = {"encoder": encoder, "decoder": decoder}
        params = forms.draw(key, {name: part["params"] for name, part in parts.items()}, self.initialization)
        return params, {name: forms.blank_statistics(part) for name, part in parts.items()}

    def features(self, params, images: Float[Array, "n h w c"], running=None, *, training: bool = False):
        """Features ``[n, hidden[-1]]`` and the encoder's running moments, toward which training moves them."""
        return normalized(StackEncoder(self), params, running or {}, images, training=training)

    def logits(self, params, codes: Float[Array, "n d"], image_shape, running=None, *, training: bool = False):
        """Logits ``[n, h, w, c]`` and the decoder's running moments; arguments as for :meth:`features`."""
        return normalized(StackDecoder(self, image_shape), params, running or {}, codes, training=training)


class StackEncoder(nn.Module):
    stacks: Stacks

    @nn.compact
    def __call__(self, hidden: Float[Array, "n h w c"], training: bool = False) -> Float[Array, "n f"]:
        stacks = self.stacks
        slopes = [*[stacks.slope] * (len(stacks.channels) - 1), stacks.last_slope]
        for i, (channels, slope) in enumerate(zip(stacks.channels, slopes, strict=False)):
            layer = forms.Conv(channels, (4, 4), (2, 2), use_bias=not stacks.normalized, name=f"convolution_{i}")
            hidden = layer(hidden)
            if stacks.normalized:
                hidden = forms.UnbiasedBatchNorm(name=f"normalization_{i}")(hidden, training)
            hidden = forms.leaky(hidden, slope)
        hidden = hidden.reshape(len(hidden), -1)
        for i, width in enumerate(stacks.hidden):
            hidden = forms.leaky(forms.Dense(width, name=f"dense_{i}")(hidden), stacks.hidden_slope)
        return hidden


class StackDecoder(nn.Module):
    stacks: Stacks
    image_shape: tuple[int, int, int]

    @nn.compact
    def __call__(self, hidden: Float[Array, "n d"], training: bool = False) -> Float[Array, "n h w c"]:
        stacks, (height, width, colors) = self.stacks, self.image_shape
        for i, units in enumerate(stacks.decoder_hidden):
            hidden = forms.leaky(forms.Dense(units, name=f"dense_{i}")(hidden), stacks.decoder_slope)
        if not stacks.channels:
            return forms.Dense(math.prod(self.image_shape), name="to_image")(hidden).reshape(-1, *self.image_shape)
        scale = 2 ** len(stacks.channels)
        smallest = (-(-height // scale), -(-width // scale), stacks.decoder_channels[0])
        hidden = forms.Dense(math.prod(smallest), name="to_image")(hidden).reshape(-1, *smallest)
        for i, channels in enumerate((*stacks.decoder_channels[1:], colors)):
            hidden = forms.leaky(hidden, stacks.decoder_slope)
            hidden = forms.ConvTranspose(channels, use_bias=not stacks.normalized, name=f"transposed_{i}")(hidden)
            if stacks.normalized and i < len(stacks.channels) - 1:
                hidden = forms.UnbiasedBatchNorm(name=f"normalization_{i}")(hidden, training)
        return hidden[:, :height, :width]


class Mlp(forms.Network):
    """Fully connected encoder and decoder with ReLU; the decoder mirrors the encoder.

    Attributes:
      hidden: widths of the encoder's hidden layers.
      num_codes: latent coordinates.
      image_shape: ``(height, width, channels)``; None: the data's.
      initialization: ``glorot`` (uniform weights, zero biases), ``kaiming`` or ``torch`` (PyTorch's default).
    """

    hidden: tuple[Units, ...] = (128, 128)
    num_codes: Units = 10
    image_shape: tuple[Count, Count, Count] | None = None
    initialization: forms.Initialization = "glorot"

    def setup(self):
        self.encoder = [forms.Dense(width) for width in (*self.hidden, 2 * self.num_codes)]
        self.decoder = [forms.Dense(width) for width in (*self.hidden[::-1], math.prod(self.image_shape))]

    def encode(self, images: Float[Array, "n h w c"]) -> tuple[Float[Array, "n d"], Float[Array, "n d"]]:
        """Means and log-variances."""
        return tuple(jnp.split(forms.chain(self.encoder, images.reshape(len(images), -1)), 2, axis=-1))

    def decode(self, codes: Float[Array, "n d"]) -> Float[Array, "n h w c"]:
        """Logits."""
        return forms.chain(self.decoder, codes).reshape(len(codes), *self.image_shape)


class Convolutional(forms.Network):
    """Convolutions with stride 2 and fully connected layers, and a decoder that mirrors them.

    The defaults are Locatello et al.'s architecture (2020) as released; see :func:`locatello` and :func:`burgess` for
    the published variants. Images may have any size: the decoder works on the next multiple of ``2 ** len(channels)``
    and crops.

    Attributes:
      channels, kernels: output channels and kernel size (2 or 4) of each encoder convolution.
      hidden: widths of the encoder's fully connected layers.
      decoder_hidden: widths of the decoder's fully connected layers before the one that yields the first feature map.
      decoder_channels: channels in the first feature map and in every transposed convolution except the last, which has
        the image's channels; as many entries as ``channels``. All transposed kernels are 4 × 4.
      num_codes: latent coordinates.
      image_shape, initialization: as in :class:`Mlp`.
      interleaved: the outputs of the encoder's last layer are (mean₀, log-variance₀, mean₁, …) instead of all means,
        then all log-variances; this matters only for importing weights.
      compute: ``matmul`` (for a zoo, about as fast as a matrix product) or ``conv`` (as ``flax.linen.Conv``), with
        the same parameters and with values that differ by rounding. ``conv`` has derivatives in forward mode too, such
        as ``jax.jacfwd``, which is how to differentiate images by a few codes.
    """

    channels: tuple[Units, ...] = (32, 32, 64, 64)
    kernels: tuple[Literal[2, 4], ...] = (4, 4, 2, 2)
    hidden: tuple[Units, ...] = (256,)
    decoder_hidden: tuple[Units, ...] = (256,)
    decoder_channels: tuple[Units, ...] = (64, 64, 32, 32)
    num_codes: Units = 10
    image_shape: tuple[Count, Count, Count] | None = None
    initialization: forms.Initialization = "glorot"
    interleaved: bool = False
    compute: Literal["matmul", "conv"] = "matmul"

    def __post_init__(self):
        super().__post_init__()
        lengths = {len(self.channels), len(self.kernels), len(self.decoder_channels)}
        if len(lengths) > 1:
            raise ValueError(
                "channels, kernels, decoder_channels: need one entry for each convolution, got "
                f"{len(self.channels)}, {len(self.kernels)} and {len(self.decoder_channels)}"
            )

    def setup(self):
        fast = self.compute == "matmul"
        conv = {} if fast else {"conv_general_dilated": lax.conv_general_dilated}
        transposed = {} if fast else {"conv_general_dilated": _conv_transpose}
        sizes = zip(self.channels, self.kernels, strict=True)
        self.convolutions = [forms.Conv(units, (size, size), (2, 2), **conv) for units, size in sizes]
        self.encoder = [forms.Dense(units) for units in (*self.hidden, 2 * self.num_codes)]
        height, width = self._smallest_map
        self.decoder = [
            forms.Dense(units) for units in (*self.decoder_hidden, height * width * self.decoder_channels[0])
        ]
        outputs = (*self.decoder_channels[1:], self.image_shape[2])
        self.transposed = [forms.ConvTranspose(units, **transposed) for units in outputs]

    def encode(self, images: Float[Array, "n h w c"]) -> tuple[Float[Array, "n d"], Float[Array, "n d"]]:
        """Means and log-variances."""
        hidden = images
        for layer in self.convolutions:
            hidden = nn.relu(layer(hidden))
        outputs = forms.chain(self.encoder, hidden.reshape(len(hidden), -1))
        if self.interleaved:
            return outputs[:, 0::2], outputs[:, 1::2]
        return tuple(jnp.split(outputs, 2, axis=-1))

    def decode(self, codes: Float[Array, "n d"]) -> Float[Array, "n h w c"]:
        """Logits."""
        hidden = nn.relu(forms.chain(self.decoder, codes)).reshape(
            len(codes), *self._smallest_map, self.decoder_channels[0]
        )
        return forms.chain(self.transposed, hidden)[:, : self.image_shape[0], : self.image_shape[1]]

    @property
    def _smallest_map(self) -> tuple[int, int]:
        """Height and width after all encoder convolutions."""
        scale = 2 ** len(self.channels)
        return -(-self.image_shape[0] // scale), -(-self.image_shape[1] // scale)


def _conv_transpose(images: Array, kernel: Array, *_, **__) -> Array:
    return lax.conv_transpose(images, kernel, (2, 2), "SAME")


@checked
def locatello(*, as_released: bool = True, **changes) -> Convolutional:
    """Make Locatello et al.'s network (2020).

    Table 2 has 4 × 4 kernels throughout, whereas the released code, and thus the released models, have 2 × 2 kernels in
    the last two encoder convolutions: 764,245 or 690,517 parameters on one channel. The former is also Julka et al.'s
    network (2024), Table III.

    Args:
      as_released: 2 × 2 kernels in the last two encoder convolutions.
      changes: other fields in :class:`Convolutional`.
    """
    return Convolutional(kernels=(4, 4, 2, 2) if as_released else (4, 4, 4, 4), **changes)


def burgess(**changes) -> Convolutional:
    """Make Burgess et al.'s network (2018), as Mahon et al. (2024) use it: 502,005 parameters on one channel.

    Their code applies a sigmoid and takes the cross-entropy on probabilities. Here the decoder returns logits, which is
    the same function with fewer overflows.
    """
    maps = {"channels": (32,) * 4, "kernels": (4,) * 4, "decoder_channels": (32,) * 4}
    dense = {"hidden": (256, 256), "decoder_hidden": (256, 256)}
    return Convolutional(**{**maps, **dense, "initialization": "kaiming", "interleaved": True, **changes})


class Discriminator(forms.Network):
    """FactorVAE's discriminator: ``layers`` × [dense ``width``, leaky ReLU 0.2], dense 2.

    Locatello et al. (2020), Table 4b. Class 0 is the joint, class 1 the product of marginals.
    """

    layers: Count = 6
    width: Units = 1000
    initialization: forms.Initialization = "glorot"

    @nn.compact
    def __call__(self, codes: Float[Array, "n d"]) -> Float[Array, "n 2"]:
        layers = [forms.Dense(width, name=f"Dense_{i}") for i, width in enumerate((*[self.width] * self.layers, 2))]
        return forms.chain(layers, codes, lambda hidden: nn.leaky_relu(hidden, 0.2))


def num_parameters(params) -> int:
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(params))
