"""Networks for object-centric models: a slot's encoder and decoder, refinement, attention and gated layers."""

import math
from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxdis._core.kernels.convolution import convolution, enlarged
from jaxdis.models.networks import _architectures as layers


class SlotEncoder(nn.Module):
    """3 × 3 convolutions with stride 2, a dense layer, and a dense layer for outputs."""

    channels: tuple[int, ...]
    hidden: int
    outputs: int
    activation: Callable

    @nn.compact
    def __call__(self, hidden: Float[Array, "n h w c"]) -> Float[Array, "n o"]:
        for i, channels in enumerate(self.channels):
            hidden = self.activation(layers.Conv(channels, (3, 3), (2, 2), padding=1, name=f"convolution_{i}")(hidden))
        hidden = self.activation(layers.Dense(self.hidden, name="dense_0")(hidden.reshape(len(hidden), -1)))
        return layers.Dense(self.outputs, name="dense_1")(hidden)


class BroadcastDecoder(nn.Module):
    """A code and two coordinates at every pixel, then convolutions: images ``[n, h, w, o]``, before any activation.

    If ``grown``, the code is broadcast to an image that is larger by what the convolutions cut off, so that none is
    padded with zeros. Coordinates run from −1 to 1 over what is broadcast.

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
            layer = layers.Conv(channels, (self.kernel, self.kernel), padding=padding, name=f"convolution_{i}")
            hidden = self.activation(layer(hidden))
        return layers.Conv(self.outputs, (self.last_kernel, self.last_kernel), padding=padding, name="last")(hidden)


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


Memory = tuple[Float[Array, "n u"], Float[Array, "n u"]]


class Refinement(nn.Module):
    """Convolutions with stride 2, their mean over positions, a dense layer, and a recurrent layer, whose cell state or
    output is read.
    """

    channels: tuple[int, ...]
    kernel: int
    hidden: int
    num_codes: int
    reads_cell: bool

    @nn.compact
    def __call__(
        self, images: Float[Array, "n h w c"], vectors: Float[Array, "n v"], memory: Memory
    ) -> tuple[Float[Array, "n o"], Memory]:
        """How mean and log-variance change, one after the other, and the memory (cell, output)."""
        hidden = images
        for i, channels in enumerate(self.channels):
            size, padding = (self.kernel, self.kernel), self.kernel // 2
            hidden = jax.nn.elu(layers.Conv(channels, size, (2, 2), padding=padding, name=f"convolution_{i}")(hidden))
        # The released code applies the activation twice.
        hidden = jax.nn.elu(jax.nn.elu(layers.Dense(self.hidden, name="dense")(hidden.mean((1, 2)))))
        memory, output = layers.Lstm(self.hidden, name="lstm")(memory, jnp.concatenate([hidden, vectors], axis=1))
        return layers.Dense(2 * self.num_codes, name="update")(memory[0] if self.reads_cell else output), memory

    def begin(self, key, images: Float[Array, "n h w c"], vectors: Float[Array, "n v"]) -> dict:
        layers_key, lstm_key = jax.random.split(key)
        shapes = layers.shapes_of(self, images, vectors, (jnp.zeros((len(images), self.hidden)),) * 2)["params"]
        memory = layers.draw_lstm(lstm_key, shapes.pop("lstm"))
        return {**layers.draw(layers_key, shapes, "torch"), "lstm": memory}


class Unet(nn.Module):
    """Blocks with [3 × 3 convolution without bias, instance normalization, ReLU] on the way down and on the way up.

    Between blocks, maps are halved by taking every other pixel and doubled by repeating pixels. The coarsest map passes
    through three dense layers with ReLU; then each block on the way up reads the map so far, concatenated with that
    from the equally large block on the way down. A 1 × 1 convolution yields the logits.

    Attributes:
      channels: in each block on the way down. On the way up, a block has as many as the map that its output is
        concatenated with, and the last block as many as the first.

    Reference: Burgess et al. 2019, appendix B.2, in the form that Engelcke et al. 2020 released.
    """

    channels: tuple[int, ...]
    hidden: int
    image_shape: tuple[int, int, int]

    def __post_init__(self):
        super().__post_init__()
        scale = 2 ** (len(self.channels) - 1)
        if any(side % scale for side in self.image_shape[:2]):
            needed = f"for {len(self.channels)} blocks images with sides divisible by {scale}"
            raise ValueError(f"attention: needs {needed}, got images of shape {self.image_shape}")

    @nn.compact
    def __call__(self, hidden: Float[Array, "n h w c"]) -> Float[Array, "n h w"]:
        skips: list[Array] = []
        for i, channels in enumerate(self.channels):
            hidden = Block(channels, name=f"down_{i}")(hidden[:, ::2, ::2] if i else hidden)
            skips.append(hidden)
        shape = hidden.shape[1:]
        flat = hidden.reshape(len(hidden), -1)
        for i, width in enumerate((self.hidden, self.hidden, math.prod(shape))):
            flat = nn.relu(layers.Dense(width, name=f"dense_{i}")(flat))
        hidden = flat.reshape(-1, *shape)
        for i, channels in enumerate((*self.channels[-2::-1], self.channels[0])):
            hidden = enlarged(hidden) if i else hidden
            hidden = Block(channels, name=f"up_{i}")(jnp.concatenate([hidden, skips.pop()], axis=-1))
        return layers.Dense(1, name="logits")(hidden)[..., 0]


class Block(nn.Module):
    channels: int

    @nn.compact
    def __call__(self, hidden: Float[Array, "n h w c"]) -> Float[Array, "n h w o"]:
        return nn.relu(
            layers.InstanceNorm(name="norm")(layers.Conv(self.channels, (3, 3), use_bias=False, name="conv")(hidden))
        )


# GENESIS's networks for masks: gated convolutions with batch normalization.
# A gated layer has twice the outputs: one half, ``a``, times the sigmoid of the other, ``b``. Both are normalized
# over the batch, except in the layer at the coarsest map.


class GatedEncoder(nn.Module):
    """5 × 5 convolutions, then one over the whole map."""

    channels: tuple[int, ...]
    strides: tuple[int, ...]
    features: int

    @nn.compact
    def __call__(self, hidden: Float[Array, "n h w c"], training: bool = False) -> Float[Array, "n f"]:
        for i, (channels, stride) in enumerate(zip(self.channels, self.strides, strict=True)):
            layer = layers.Conv(2 * channels, (5, 5), (stride, stride), padding=2, name=f"convolution_{i}")
            hidden = _gated(layers.BatchNorm(not training, name=f"normalization_{i}")(layer(hidden)))
        return _gated(layers.Dense(2 * self.features, name="features")(hidden.reshape(len(hidden), -1)))


class GatedDecoder(nn.Module):
    """A transposed convolution from one position to the coarsest map, then 5 × 5 (transposed) convolutions and logits.

    ``channels`` of the coarsest map and of those after it, which grow by ``strides``.
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
            layer = layers.ConvTransposeFive if stride == 2 else layers.Conv
            hidden = layer(2 * channels, kernel_size=(5, 5), name=f"transposed_{i}")(hidden)
            hidden = _gated(layers.BatchNorm(not training, name=f"normalization_{i}")(hidden))
        return layers.Dense(1, name="logits")(hidden)[..., 0]


def _from_one_position(codes: Float[Array, "n 1 1 d"], kernel: Float[Array, "h w d o"], *_, **__) -> Array:
    return jnp.einsum("nd,hwdo->nhwo", codes[:, 0, 0], kernel)


def _gated(hidden: Array) -> Array:
    value, gate = jnp.split(hidden, 2, axis=-1)
    return value * jax.nn.sigmoid(gate)
