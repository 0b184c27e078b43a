"""The networks of the masks of GENESIS: gated convolutions with batch normalization.

A gated layer has twice the outputs: half of them, ``a``, times the sigmoid of the others, ``b``. Both are normalized
over the batch, except in the layer at the coarsest map.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxdis.models.networks._components import with_bias
from jaxdis.models.networks._convolution import convolve_padded, convolve_transposed_five
from jaxdis.models.networks._initialization import draw, layer_shape
from jaxdis.models.networks._normalization import BatchNorm
from jaxdis.models.networks._stacks import dense, dense_shape


@dataclasses.dataclass(frozen=True)
class GatedEncoder:
    """5 × 5 convolutions, then one over the whole map.

    Attributes:
      channels, strides: of the convolutions; strides are 1 or 2.
      features: outputs of the last layer.
      image_shape: of the inputs.
    """

    channels: tuple[int, ...]
    strides: tuple[int, ...]
    features: int
    image_shape: tuple[int, int, int]

    def begin(self, key) -> dict:
        """Parameters."""
        widths = (self.image_shape[2], *self.channels)
        shapes = _gated_shapes("convolution", widths)
        flat = math.prod(coarsest(self.image_shape, self.strides)) * widths[-1]
        return _begun(key, {**shapes, "features": dense_shape(flat, 2 * self.features)}, "convolution")

    def __call__(self, params: dict, images: Float[Array, "n h w c"], normalize: BatchNorm) -> Float[Array, "n f"]:
        """Features."""
        hidden = images
        for i, stride in enumerate(self.strides):
            name = f"convolution_{i}"
            hidden = convolve_padded(hidden, params[name]["kernel"], stride=stride, padding=2)
            hidden = _gated(normalize(name, params[name], with_bias(params[name], hidden)))
        return _gated(dense(params["features"], hidden.reshape(len(hidden), -1)))


@dataclasses.dataclass(frozen=True)
class GatedDecoder:
    """A transposed convolution from one position to the coarsest map, then 5 × 5 (transposed) convolutions and logits.

    Attributes:
      num_codes: length of a code.
      channels: of the coarsest map and of each map after it.
      strides: by which each of the latter grows, 1 or 2.
      image_size: height and width of the logits.
    """

    num_codes: int
    channels: tuple[int, ...]
    strides: tuple[int, ...]
    image_size: tuple[int, int]

    def begin(self, key) -> dict:
        """Parameters."""
        height, width = coarsest(self.image_size, self.strides)
        first = {
            "kernel": jax.ShapeDtypeStruct((height, width, self.num_codes, 2 * self.channels[0]), jnp.float32),
            "bias": jax.ShapeDtypeStruct((2 * self.channels[0],), jnp.float32),
        }
        shapes = {"transposed_first": first, **_gated_shapes("transposed", self.channels)}
        return _begun(key, {**shapes, "logits": dense_shape(self.channels[-1], 1)}, "transposed")

    def __call__(self, params: dict, codes: Float[Array, "n d"], normalize: BatchNorm) -> Float[Array, "n h w"]:
        """Logits."""
        first = params["transposed_first"]
        hidden = _gated(with_bias(first, jnp.einsum("nd,hwdo->nhwo", codes, first["kernel"])))
        for i, stride in enumerate(self.strides):
            name = f"transposed_{i}"
            kernel = params[name]["kernel"]
            grown = (
                convolve_transposed_five(hidden, kernel) if stride == 2 else convolve_padded(hidden, kernel, padding=2)
            )
            hidden = _gated(normalize(name, params[name], with_bias(params[name], grown)))
        return hidden @ params["logits"]["kernel"][:, 0] + params["logits"]["bias"][0]


def coarsest(image_shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, int]:
    """Height and width of the coarsest map.

    Raises:
      ValueError: if the image cannot be divided so.
    """
    scale = math.prod(strides)
    height, width = image_shape[:2]
    if height % scale or width % scale:
        raise ValueError(f"strides: needs images with sides divisible by {scale}, got images of shape {image_shape}")
    return height // scale, width // scale


def _gated_shapes(kind: str, widths: tuple[int, ...]) -> dict[str, dict]:
    pairs = zip(widths, widths[1:], strict=False)
    return {f"{kind}_{i}": layer_shape(5, before, 2 * after) for i, (before, after) in enumerate(pairs)}


def _begun(key, shapes: dict, kind: str) -> dict:
    """Drawn parameters; the layers of one kind that are numbered get a scale and an offset."""
    params = draw(key, shapes, "torch")
    for name, layer in params.items():
        if name.startswith(kind) and name[-1].isdigit():
            layer |= {"scale": jnp.ones_like(layer["bias"]), "offset": jnp.zeros_like(layer["bias"])}
    return params


def _gated(hidden: Array) -> Array:
    value, gate = jnp.split(hidden, 2, axis=-1)
    return value * jax.nn.sigmoid(gate)
