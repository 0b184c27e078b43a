"""Encoders, decoders and the discriminator: the one module that knows flax.

Everything else uses three pure functions of a hashable value, as does a user's own model:

* ``init(key) → params``, a pytree of float32 arrays;
* ``encode(params, images [n, h, w, c]) → (mean [n, d], log_variance [n, d])``;
* ``decode(params, codes [n, d]) → logits [n, h, w, c]``, before the sigmoid.

The networks here also have an ``image_shape`` (None until the data are known) and ``num_codes``.
"""

import dataclasses
import functools
import math
from typing import Literal

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxdis._core.options import Count, Units, check_fields, checked
from jaxdis.models.networks import _convolution as convolution
from jaxdis.models.networks._initialization import Initialization, draw


class _Flax:
    """The three functions of a network whose layers are a flax module."""

    def init(self, key):
        def both(pair, images):
            return pair.decode(pair.encode(images)[0])

        begin = functools.partial(module(self).init, method=both)
        shapes = jax.eval_shape(begin, key, jnp.zeros((1, *self.image_shape)))
        return draw(key, shapes["params"], self.initialization)

    def encode(self, params, images):
        return module(self).apply({"params": params}, images, method="encode")

    def decode(self, params, codes):
        return module(self).apply({"params": params}, codes, method="decode")


@dataclasses.dataclass(frozen=True)
class Mlp(_Flax):
    """Fully connected encoder and decoder with ReLU; the decoder mirrors the encoder.

    Attributes:
      hidden: widths of the encoder's hidden layers.
      num_codes: latent coordinates.
      image_shape: ``(height, width, channels)``; None: that of the data.
      initialization: ``glorot`` (uniform weights, zero biases), ``kaiming`` or ``torch`` (PyTorch's default).
    """

    hidden: tuple[Units, ...] = (128, 128)
    num_codes: Units = 10
    image_shape: tuple[Count, Count, Count] | None = None
    initialization: Initialization = "glorot"

    def __post_init__(self):
        check_fields(self)


@dataclasses.dataclass(frozen=True)
class Convolutional(_Flax):
    """Convolutions of stride 2 and fully connected layers, and a decoder that mirrors them.

    The defaults are the architecture of Locatello et al. (2020) as released; see :func:`locatello` and :func:`burgess`
    for the published variants. Images may have any size: the decoder works on the next multiple of
    ``2 ** len(channels)`` and crops.

    Attributes:
      channels, kernels: output channels and kernel size (2 or 4) of each encoder convolution.
      hidden: widths of the encoder's fully connected layers.
      decoder_hidden: widths of the decoder's fully connected layers before the one that yields the first feature map.
      decoder_channels: channels of the first feature map and of every transposed convolution except the last, which has
        the channels of the image; as many entries as ``channels``. All transposed kernels are 4 × 4.
      num_codes: latent coordinates.
      image_shape, initialization: as in :class:`Mlp`.
      interleaved: the outputs of the encoder's last layer are (mean₀, log-variance₀, mean₁, …) instead of all means,
        then all log-variances; this matters only for importing weights.
      compute: ``matmul`` (:mod:`jaxdis.models.networks._convolution`, at about the rate of a matrix product) or
        ``conv`` (``flax.linen.Conv``), with the same parameters and with values that differ by rounding.
    """

    channels: tuple[Units, ...] = (32, 32, 64, 64)
    kernels: tuple[Literal[2, 4], ...] = (4, 4, 2, 2)
    hidden: tuple[Units, ...] = (256,)
    decoder_hidden: tuple[Units, ...] = (256,)
    decoder_channels: tuple[Units, ...] = (64, 64, 32, 32)
    num_codes: Units = 10
    image_shape: tuple[Count, Count, Count] | None = None
    initialization: Initialization = "glorot"
    interleaved: bool = False
    compute: Literal["matmul", "conv"] = "matmul"

    def __post_init__(self):
        check_fields(self)
        lengths = {len(self.channels), len(self.kernels), len(self.decoder_channels)}
        if len(lengths) > 1:
            raise ValueError(
                "channels, kernels, decoder_channels: need one entry for each convolution, got "
                f"{len(self.channels)}, {len(self.kernels)} and {len(self.decoder_channels)}"
            )


@checked
def locatello(*, as_released: bool = True, **changes) -> Convolutional:
    """The network of Locatello et al. (2020).

    Table 2 has 4 × 4 kernels throughout, whereas the released code, and thus the released models, have 2 × 2 kernels in
    the last two encoder convolutions: 764,245 or 690,517 parameters on one channel. The former is also the network of
    Julka et al. (2024), Table III.

    Args:
      as_released: 2 × 2 kernels in the last two encoder convolutions.
      changes: other fields of :class:`Convolutional`.
    """
    return Convolutional(kernels=(4, 4, 2, 2) if as_released else (4, 4, 4, 4), **changes)


def burgess(**changes) -> Convolutional:
    """The network of Burgess et al. (2018), as Mahon et al. (2024) use it: 502,005 parameters on one channel.

    Their code applies a sigmoid and takes the cross-entropy of probabilities. Here the decoder returns logits, which is
    the same function with fewer overflows.
    """
    settings = {
        "channels": (32, 32, 32, 32),
        "kernels": (4, 4, 4, 4),
        "hidden": (256, 256),
        "decoder_hidden": (256, 256),
        "decoder_channels": (32, 32, 32, 32),
        "initialization": "kaiming",
        "interleaved": True,
    }
    return Convolutional(**{**settings, **changes})


@dataclasses.dataclass(frozen=True)
class Discriminator:
    """FactorVAE's discriminator: ``layers`` × [dense ``width``, leaky ReLU 0.2], dense 2.

    Locatello et al. (2020), Table 4b. Class 0 is the joint, class 1 the product of marginals.
    """

    layers: Count = 6
    width: Units = 1000
    initialization: Initialization = "glorot"

    def __post_init__(self):
        check_fields(self)

    def init(self, key, num_codes: int):
        shapes = jax.eval_shape(_Classifier(self).init, key, jnp.zeros((1, num_codes)))
        return draw(key, shapes["params"], self.initialization)

    def logits(self, params, codes: Float[Array, "n d"]) -> Float[Array, "n 2"]:
        return _Classifier(self).apply({"params": params}, codes)


@functools.cache
def module(network: Mlp | Convolutional) -> nn.Module:
    """The linen module of a network, for ``module(network).apply({"params": params}, images, method="encode")``."""
    if network.image_shape is None:
        raise ValueError(
            "image_shape: the network needs (height, width, channels), got None; pass it, or train on data"
        )
    return _PlainPair(network) if isinstance(network, Mlp) else _ConvolutionalPair(network)


class _PlainPair(nn.Module):
    network: Mlp

    def setup(self):
        net = self.network
        self.encoder = [nn.Dense(width) for width in (*net.hidden, 2 * net.num_codes)]
        self.decoder = [nn.Dense(width) for width in (*net.hidden[::-1], math.prod(net.image_shape))]

    def encode(self, images):
        hidden = images.reshape(images.shape[0], -1)
        return jnp.split(_chain(self.encoder, hidden), 2, axis=-1)

    def decode(self, codes):
        return _chain(self.decoder, codes).reshape(codes.shape[0], *self.network.image_shape)


class _ConvolutionalPair(nn.Module):
    network: Convolutional

    def setup(self):
        net = self.network
        height, width = _smallest_map(net)
        self.convolutions = [_convolution(net, o, size) for o, size in zip(net.channels, net.kernels, strict=True)]
        self.encoder = [nn.Dense(units) for units in (*net.hidden, 2 * net.num_codes)]
        self.decoder = [nn.Dense(units) for units in (*net.decoder_hidden, height * width * net.decoder_channels[0])]
        self.transposed = [
            _convolution(net, o, 4, transposed=True) for o in (*net.decoder_channels[1:], net.image_shape[2])
        ]

    def encode(self, images):
        hidden = images
        for layer in self.convolutions:
            hidden = nn.relu(layer(hidden))
        out = _chain(self.encoder, hidden.reshape(hidden.shape[0], -1))
        if self.network.interleaved:
            return out[:, 0::2], out[:, 1::2]
        return jnp.split(out, 2, axis=-1)

    def decode(self, codes):
        net = self.network
        hidden = nn.relu(_chain(self.decoder, codes))
        hidden = hidden.reshape(codes.shape[0], *_smallest_map(net), net.decoder_channels[0])
        hidden = _chain(self.transposed, hidden)
        return hidden[:, : net.image_shape[0], : net.image_shape[1]]


class _PatchConv(nn.Module):
    """``nn.Conv`` or ``nn.ConvTranspose`` of stride 2 with the same parameters, at the rate of a matrix product."""

    features: int
    size: int
    transposed: bool = False

    @nn.compact
    def __call__(self, images):
        shape = (self.size, self.size, images.shape[-1], self.features)
        kernel = self.param("kernel", nn.initializers.zeros_init(), shape, jnp.float32)
        bias = self.param("bias", nn.initializers.zeros_init(), (self.features,), jnp.float32)
        apply = convolution.convolve_transposed if self.transposed else convolution.convolve
        return apply(images, kernel) + bias.reshape(1, 1, 1, -1)


def _convolution(network: Convolutional, features: int, size: int, *, transposed: bool = False) -> nn.Module:
    if network.compute == "matmul":
        return _PatchConv(features, size, transposed)
    layer = nn.ConvTranspose if transposed else nn.Conv
    return layer(features, (size, size), strides=(2, 2))


class _Classifier(nn.Module):
    network: Discriminator

    @nn.compact
    def __call__(self, codes):
        hidden = codes
        for _ in range(self.network.layers):
            hidden = nn.leaky_relu(nn.Dense(self.network.width)(hidden), 0.2)
        return nn.Dense(2)(hidden)


def _chain(layers, hidden) -> Array:
    """The layers in sequence, with ReLU between them."""
    for layer in layers[:-1]:
        hidden = nn.relu(layer(hidden))
    return layers[-1](hidden)


def _smallest_map(network: Convolutional) -> tuple[int, int]:
    """Height and width after all encoder convolutions."""
    scale = 2 ** len(network.channels)
    return -(-network.image_shape[0] // scale), -(-network.image_shape[1] // scale)


def num_parameters(params) -> int:
    """The number of parameters in a tree."""
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(params))
