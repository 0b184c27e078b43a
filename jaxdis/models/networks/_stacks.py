"""Encoders and decoders for methods with heads of their own: stacks of layers as pure functions of nested dicts."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxdis._core.options import NonNegative, Units, check_fields
from jaxdis.models.networks._convolution import convolve, convolve_transposed
from jaxdis.models.networks._initialization import Initialization, draw

# PyTorch's defaults, which the released models were trained with.
_MOMENTUM, _EPSILON = 0.1, 1e-5


@dataclasses.dataclass(frozen=True)
class Stacks:
    """An encoder up to its last hidden layer, and a decoder: 4 × 4 convolutions of stride 2, then dense layers.

    Attributes:
      channels: output channels of the encoder's convolutions; () for a perceptron.
      hidden: widths of the dense layers that follow; the last one yields the features.
      decoder_hidden: widths of the decoder's dense layers before the first feature map (or the image).
      decoder_channels: channels of the first feature map and of every transposed convolution except the last.
      slope, last_slope, hidden_slope, decoder_slope: slopes for negative inputs (0: ReLU) after the convolutions, after
        the last of them, after the encoder's dense layers, and in the decoder.
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
            raise ValueError("hidden: needs at least one layer, got none")

    def init(self, key, image_shape: tuple[int, int, int], num_codes: int) -> dict[str, dict]:
        """Parameters of ``encoder`` and ``decoder``."""
        params = draw(key, _shapes(self, image_shape, num_codes), self.initialization)
        for stack in params.values():
            for name, layer in stack.items():
                if self.normalized and layer["kernel"].ndim == 4:
                    ones = jnp.ones_like(layer.pop("bias"))
                    is_last = name == f"transposed_{len(self.channels) - 1}"
                    layer |= {} if is_last else {"scale": ones, "offset": jnp.zeros_like(ones)}
        return params

    def statistics(self, params) -> dict[str, dict]:
        """Running means and variances before training; empty without normalization."""
        return {
            part: {
                name: {"mean": jnp.zeros_like(layer["scale"]), "variance": jnp.ones_like(layer["scale"])}
                for name, layer in stack.items()
                if "scale" in layer
            }
            for part, stack in params.items()
        }

    def features(self, params, images: Float[Array, "n h w c"], running=None, *, training: bool = False):
        """Features ``[n, hidden[-1]]`` and the encoder's running statistics.

        Args:
          params, running: the encoder's.
          training: normalize by the batch, and move the running statistics toward it.
        """
        running = dict(running or {})
        hidden = images
        for i in range(len(self.channels)):
            layer = params[f"convolution_{i}"]
            hidden = self._normalize(convolve(hidden, layer["kernel"]), layer, f"convolution_{i}", running, training)
            hidden = leaky(hidden, self.last_slope if i == len(self.channels) - 1 else self.slope)
        hidden = hidden.reshape(len(hidden), -1)
        for i in range(len(self.hidden)):
            hidden = leaky(dense(params[f"dense_{i}"], hidden), self.hidden_slope)
        return hidden, running

    def logits(self, params, codes: Float[Array, "n d"], image_shape, running=None, *, training: bool = False):
        """Logits ``[n, h, w, c]`` and the decoder's running statistics; arguments as for :meth:`features`."""
        running = dict(running or {})
        hidden = codes
        for i in range(len(self.decoder_hidden)):
            hidden = leaky(dense(params[f"dense_{i}"], hidden), self.decoder_slope)
        hidden = dense(params["to_image"], hidden)
        if not self.channels:
            return hidden.reshape(-1, *image_shape), running
        hidden = leaky(hidden, self.decoder_slope)
        hidden = hidden.reshape(len(codes), *_smallest_map(self, image_shape), self.decoder_channels[0])
        for i in range(len(self.channels)):
            layer, name = params[f"transposed_{i}"], f"transposed_{i}"
            hidden = self._normalize(convolve_transposed(hidden, layer["kernel"]), layer, name, running, training)
            if i < len(self.channels) - 1:
                hidden = leaky(hidden, self.decoder_slope)
        return hidden[:, : image_shape[0], : image_shape[1]], running

    def _normalize(self, hidden, layer, name: str, running: dict, training: bool):
        """Adds the bias, or normalizes and puts the new statistics into ``running``."""
        if "bias" in layer:
            return hidden + layer["bias"].reshape(1, 1, 1, -1)
        if "scale" not in layer:
            return hidden
        if training:
            mean, variance = hidden.mean((0, 1, 2)), hidden.var((0, 1, 2))
            count = hidden.size // hidden.shape[-1]
            unbiased = variance * (count / max(count - 1, 1))
            seen = running[name]
            running[name] = {
                "mean": (1 - _MOMENTUM) * seen["mean"] + _MOMENTUM * mean,
                "variance": (1 - _MOMENTUM) * seen["variance"] + _MOMENTUM * unbiased,
            }
        else:
            mean, variance = running[name]["mean"], running[name]["variance"]
        factor = layer["scale"] * jax.lax.rsqrt(variance + _EPSILON)
        return (hidden - mean.reshape(1, 1, 1, -1)) * factor.reshape(1, 1, 1, -1) + layer["offset"].reshape(1, 1, 1, -1)


def dense(layer, inputs: Float[Array, "n i"]) -> Float[Array, "n o"]:
    return inputs @ layer["kernel"] + layer["bias"][None]


def leaky(values: Array, slope: float) -> Array:
    return jax.nn.leaky_relu(values, slope) if slope else jax.nn.relu(values)


def dense_shape(inputs: int, outputs: int) -> dict[str, Any]:
    """A dense layer for :func:`jaxdis.models.networks._initialization.draw`."""
    return {"kernel": _float(inputs, outputs), "bias": _float(outputs)}


def perceptron_shapes(inputs: int, widths: tuple[int, ...]) -> dict[str, dict]:
    """The layers ``dense_0``, ``dense_1``, … of a perceptron."""
    sizes = (inputs, *widths)
    return {f"dense_{i}": dense_shape(*pair) for i, pair in enumerate(zip(sizes, sizes[1:], strict=False))}


def perceptron(params, inputs: Float[Array, "n i"], activation: Callable) -> Float[Array, "n o"]:
    """The layers of :func:`perceptron_shapes` with an activation between them."""
    last = len(params) - 1
    for i in range(last):
        inputs = activation(dense(params[f"dense_{i}"], inputs))
    return dense(params[f"dense_{last}"], inputs)


def _float(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def _shapes(stacks: Stacks, image_shape, num_codes: int) -> dict[str, dict]:
    height, width = _smallest_map(stacks, image_shape)
    colors = image_shape[2]
    inputs = (colors, *stacks.channels)
    flat = height * width * inputs[-1]
    first_map = height * width * stacks.decoder_channels[0] if stacks.channels else math.prod(image_shape)
    outputs = (*stacks.decoder_channels, colors)
    encoder = {f"convolution_{i}": _kernel(*pair) for i, pair in enumerate(zip(inputs, inputs[1:], strict=False))}
    decoder = {f"transposed_{i}": _kernel(*pair) for i, pair in enumerate(zip(outputs, outputs[1:], strict=False))}
    last = (num_codes, *stacks.decoder_hidden)[-1]
    return {
        "encoder": {**encoder, **perceptron_shapes(flat, stacks.hidden)},
        "decoder": {
            **decoder,
            **perceptron_shapes(num_codes, stacks.decoder_hidden),
            "to_image": dense_shape(last, first_map),
        },
    }


def _kernel(inputs: int, outputs: int) -> dict[str, Any]:
    return {"kernel": _float(4, 4, inputs, outputs), "bias": _float(outputs)}


def _smallest_map(stacks: Stacks, image_shape) -> tuple[int, int]:
    scale = 2 ** len(stacks.channels)
    return -(-image_shape[0] // scale), -(-image_shape[1] // scale)
