"""Eastwood & Williams's (2018) residual networks: an encoder or critic, and a decoder or generator.

Residual blocks halve or double height and width (He et al. 2016; Gulrajani et al. 2017).

- Encoder: 3 × 3 convolution, blocks down, a fully connected layer. A block adds the mean of 2 × 2 pixels through a
  1 × 1 convolution to [normalize, ReLU, 3 × 3, normalize, ReLU, 3 × 3, mean of 2 × 2 pixels].
- Decoder: a fully connected layer, blocks up, normalize, ReLU, 3 × 3 convolution, tanh. A block adds an enlargement by
  nearest neighbors and a 1 × 1 convolution to [normalize, ReLU, enlarge, 3 × 3, normalize, ReLU, 3 × 3]. Before the
  first block there is one normalization and one ReLU (in the released code; Table 2 has none).
- Weights are uniform with variance 4 / (fan_in + fan_out) in 3 × 3 convolutions after a ReLU, and half that elsewhere;
  biases are 0.

Convolutions are the library's own, which have the second derivatives that a critic's gradient penalty needs.
"""

import functools
import itertools
import math
from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxdis._core import random
from jaxdis._core.kernels.convolution import enlarged
from jaxdis.models.networks import _architectures as layers

# In this order layers are drawn; images of any size have fewer than 32 blocks.
_BLOCKS = tuple(f"block{i}" for i in range(32))
_ORDER = ("first", "first_norm", *_BLOCKS, "short", "norm1", "conv1", "norm2", "conv2", "norm", "last")


class ResidualEncoder(nn.Module):
    """Outputs ``[n, o]`` for images ``[n, h, w, c]`` in [−1, 1], normalized over the batch or over each image."""

    channels: tuple[int, ...]
    num_outputs: int
    by_batch: bool

    @nn.compact
    def __call__(self, images: Float[Array, "n h w c"], training: bool = False) -> Float[Array, "n o"]:
        normalize = functools.partial(layers.BatchNorm, not training) if self.by_batch else layers.ImageNorm
        hidden = layers.Conv(self.channels[0], (3, 3), name="first")(images)
        for i, channels in enumerate(self.channels[1:]):
            hidden = Down(channels, normalize, name=f"block{i}")(hidden)
        return layers.Dense(self.num_outputs, name="last")(hidden.reshape(len(hidden), -1))


class ResidualDecoder(nn.Module):
    """Images in [−1, 1] from codes; their sides can be halved once per block."""

    channels: tuple[int, ...]
    image_shape: tuple[int, int, int]

    @nn.compact
    def __call__(self, codes: Float[Array, "n d"], training: bool = False) -> Float[Array, "n h w c"]:
        normalize = functools.partial(layers.BatchNorm, not training)
        *sides, colors = self.image_shape
        smallest = (*(side // 2 ** (len(self.channels) - 1) for side in sides), self.channels[0])
        hidden = layers.Dense(math.prod(smallest), name="first")(codes)
        hidden = nn.relu(normalize(name="first_norm")(hidden)).reshape(-1, *smallest)
        for i, channels in enumerate(self.channels[1:]):
            hidden = Up(channels, normalize, is_first=i == 0, name=f"block{i}")(hidden)
        hidden = nn.relu(normalize(name="norm")(hidden))
        return jnp.tanh(layers.Conv(colors, (3, 3), name="last")(hidden))


class Down(nn.Module):
    channels: int
    normalize: Callable

    @nn.compact
    def __call__(self, hidden: Float[Array, "n h w c"]) -> Float[Array, "n y x o"]:
        n, h, w, c = hidden.shape
        main = nn.relu(self.normalize(name="norm1")(hidden))
        main = layers.Conv(c, (3, 3), use_bias=False, name="conv1")(main)
        main = layers.PooledConv(self.channels, name="conv2")(nn.relu(self.normalize(name="norm2")(main)))
        pooled = hidden.reshape(n, h // 2, 2, w // 2, 2, c).mean((2, 4))
        return layers.Conv(self.channels, (1, 1), name="short")(pooled) + main


class Up(nn.Module):
    channels: int
    normalize: Callable
    is_first: bool

    @nn.compact
    def __call__(self, hidden: Float[Array, "n h w c"]) -> Float[Array, "n y x o"]:
        main = hidden if self.is_first else nn.relu(self.normalize(name="norm1")(hidden))
        main = layers.EnlargedConv(self.channels, use_bias=False, name="conv1")(main)
        main = layers.Conv(self.channels, (3, 3), name="conv2")(nn.relu(self.normalize(name="norm2")(main)))
        return enlarged(layers.Conv(self.channels, (1, 1), name="short")(hidden)) + main


def begin(key, network: nn.Module, *inputs) -> tuple[dict, dict]:
    """An encoder's or a decoder's parameters and running moments, for inputs like these."""
    shapes, number = layers.shapes_of(network, *inputs), itertools.count()

    def layer(path: tuple[str, ...], shapes: dict) -> dict[str, Array]:
        layer_key = jax.random.fold_in(key, next(number))
        if "kernel" not in shapes:
            return layers.blank(shapes)
        shape = shapes["kernel"].shape
        after_relu = path[-1].startswith("conv") or (path[-1] == "last" and len(shape) == 4)
        bound = math.sqrt(3 * (4 if after_relu else 2) / (math.prod(shape[:-2]) * (shape[-2] + shape[-1])))
        kernel = random.uniform(layer_key, shape, -bound, bound)
        return {"kernel": kernel, **{name: jnp.zeros(leaf.shape) for name, leaf in shapes.items() if name == "bias"}}

    return layers.fill(shapes["params"], layer, _ORDER.index), layers.blank_statistics(shapes)
