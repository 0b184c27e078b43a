"""The residual networks of Eastwood & Williams (2018): an encoder or critic, and a decoder or generator.

Parameters are ``{layer: {"kernel", "bias"} or {"scale", "offset"}}``; convolutions are the library's own, which
have the second derivatives that the gradient penalty of a critic needs.
"""

import dataclasses
import math
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxdis._core import random
from jaxdis._core.options import Count, Units, check_fields
from jaxdis.models.networks._convolution import box_filtered, convolve, convolve_same, convolve_transposed, enlarged

Normalize = Callable[[str, dict, Array], Array]


@dataclasses.dataclass(frozen=True)
class Residual:
    """Residual blocks that halve or double height and width (He et al. 2016; Gulrajani et al. 2017).

    - Encoder: 3 × 3 convolution, blocks down, a fully connected layer. A block adds the mean of 2 × 2 pixels through a
      1 × 1 convolution to [normalize, ReLU, 3 × 3, normalize, ReLU, 3 × 3, mean of 2 × 2 pixels].
    - Decoder: a fully connected layer, blocks up, normalize, ReLU, 3 × 3 convolution, tanh. A block adds an enlargement
      by nearest neighbors and a 1 × 1 convolution to [normalize, ReLU, enlarge, 3 × 3, normalize, ReLU, 3 × 3].
      Before the first block there is one normalization and one ReLU (in the released code; Table 2 has none).
    - Weights are uniform with variance 4 / (fan_in + fan_out) in 3 × 3 convolutions after a ReLU, and half that
      elsewhere; biases are 0.

    Attributes:
      channels: of the first convolution and after each block; the decoder has them in reverse order.
      image_shape: ``(height, width, channels)``, sides divisible by 2 to the number of blocks.
    """

    channels: tuple[Units, ...]
    image_shape: tuple[Count, Count, Count]

    def __post_init__(self):
        check_fields(self)
        scale = 2 ** max(self._num_blocks, 0)
        if not self.channels or any(side % scale for side in self.image_shape[:2]):
            needed = f"at least one entry, and for {self._num_blocks} blocks images with sides divisible by {scale}"
            raise ValueError(f"channels: needs {needed}, got images of shape {self.image_shape}")

    @property
    def _num_blocks(self) -> int:
        return len(self.channels) - 1

    @property
    def _smallest(self) -> tuple[int, int, int]:
        height, width = (side // 2**self._num_blocks for side in self.image_shape[:2])
        return height, width, self.channels[-1]

    def begin_encoder(self, key, num_outputs: int) -> dict:
        """Parameters of an encoder, or of a critic."""
        first = ("first", (3, 3, self.image_shape[2], self.channels[0]), 2, True)
        blocks = [_down(f"block{i}", *pair) for i, pair in enumerate(self._pairs)]
        last = ("last", (math.prod(self._smallest), num_outputs), 2, True)
        return _drawn(key, [first, *(layer for block in blocks for layer in block), last])

    def begin_decoder(self, key, num_codes: int) -> dict:
        """Parameters of a decoder, or of a generator."""
        first = ("first", (num_codes, math.prod(self._smallest)), 2, True)
        blocks = [_up(f"block{i}", *pair[::-1], i == 0) for i, pair in enumerate(self._pairs[::-1])]
        last = ("last", (3, 3, self.channels[0], self.image_shape[2]), 4, True)
        layers = [*(layer for block in blocks for layer in block), ("norm", self.channels[0]), last]
        return _drawn(key, [first, ("first_norm", math.prod(self._smallest)), *layers])

    def encode(self, params: dict, images: Float[Array, "n h w c"], normalize: Normalize) -> Float[Array, "n o"]:
        """Outputs of images in [−1, 1]."""
        hidden = _with_bias(_same(images, params["first"]), params["first"])
        for i in range(self._num_blocks):
            layer = _Layers(params, f"block{i}", normalize)
            main = _same(layer.normalized("norm1", hidden), layer["conv1"])
            main = convolve(layer.normalized("norm2", main), 0.25 * box_filtered(layer["conv2"]["kernel"]))
            n, h, w, c = hidden.shape
            shortcut = _same(hidden.reshape(n, h // 2, 2, w // 2, 2, c).mean((2, 4)), layer["short"])
            hidden = _with_bias(shortcut, layer["short"]) + _with_bias(main, layer["conv2"])
        return _dense(hidden.reshape(hidden.shape[0], -1), params["last"])

    def decode(self, params: dict, codes: Float[Array, "n d"], normalize: Normalize) -> Float[Array, "n h w c"]:
        """Images in [−1, 1]."""
        hidden = _dense(codes, params["first"])
        hidden = jax.nn.relu(normalize("first_norm", params["first_norm"], hidden))
        hidden = hidden.reshape(-1, *self._smallest)
        for i in range(self._num_blocks):
            layer = _Layers(params, f"block{i}", normalize)
            main = hidden if i == 0 else layer.normalized("norm1", hidden)
            main = convolve_transposed(main, box_filtered(layer["conv1"]["kernel"]))
            main = _same(layer.normalized("norm2", main), layer["conv2"])
            shortcut = _with_bias(_same(hidden, layer["short"]), layer["short"])
            hidden = enlarged(shortcut) + _with_bias(main, layer["conv2"])
        hidden = jax.nn.relu(normalize("norm", params["norm"], hidden))
        return jnp.tanh(_with_bias(_same(hidden, params["last"]), params["last"]))

    @property
    def _pairs(self) -> list[tuple[int, int]]:
        return list(zip(self.channels[:-1], self.channels[1:], strict=True))


class _Layers:
    """The layers of a block, by their names within it."""

    def __init__(self, params: dict, block: str, normalize: Normalize):
        self.params, self.block, self.normalize = params, block, normalize

    def __getitem__(self, name: str) -> dict:
        return self.params[f"{self.block}_{name}"]

    def normalized(self, name: str, hidden: Array) -> Array:
        return jax.nn.relu(self.normalize(f"{self.block}_{name}", self[name], hidden))


def _down(name: str, c: int, o: int) -> Iterator[tuple]:
    """Layers of a block: (name, channels) of a normalization, (name, kernel shape, variance, has bias) of a product."""
    yield f"{name}_short", (1, 1, c, o), 2, True
    yield f"{name}_norm1", c
    yield f"{name}_conv1", (3, 3, c, c), 4, False
    yield f"{name}_norm2", c
    yield f"{name}_conv2", (3, 3, c, o), 4, True


def _up(name: str, c: int, o: int, is_first: bool) -> Iterator[tuple]:
    yield f"{name}_short", (1, 1, c, o), 2, True
    if not is_first:
        yield f"{name}_norm1", c
    yield f"{name}_conv1", (3, 3, c, o), 4, False
    yield f"{name}_norm2", o
    yield f"{name}_conv2", (3, 3, o, o), 4, True


def _drawn(key, layers: list[tuple]) -> dict:
    params: dict = {}
    for i, (name, *rest) in enumerate(layers):
        if len(rest) == 1:
            params[name] = {"scale": jnp.ones(rest[0]), "offset": jnp.zeros(rest[0])}
            continue
        shape, variance, has_bias = rest
        field = math.prod(shape[:-2])
        bound = math.sqrt(3 * variance / (field * (shape[-2] + shape[-1])))
        kernel = random.uniform(jax.random.fold_in(key, i), shape, -bound, bound)
        params[name] = {"kernel": kernel, **({"bias": jnp.zeros(shape[-1])} if has_bias else {})}
    return params


def _same(hidden: Float[Array, "n h w c"], layer: dict) -> Float[Array, "n h w o"]:
    return convolve_same(hidden, layer["kernel"])


def _dense(hidden: Float[Array, "n c"], layer: dict) -> Float[Array, "n o"]:
    return hidden @ layer["kernel"] + layer["bias"][None]


def _with_bias(hidden: Float[Array, "n h w c"], layer: dict) -> Float[Array, "n h w c"]:
    return hidden + layer["bias"].reshape(1, 1, 1, -1)
