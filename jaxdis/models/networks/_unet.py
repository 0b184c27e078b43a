"""MONet's attention network: a U-Net with instance normalization and a perceptron at its coarsest map."""

import math

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxdis._core.kernels.convolution import enlarged
from jaxdis.models.networks._layers import Conv, Dense, InstanceNorm


class Unet(nn.Module):
    """Blocks with [3 × 3 convolution without bias, instance normalization, ReLU] on the way down and on the way up.

    Between blocks, maps are halved by taking every other pixel and doubled by repeating pixels. The coarsest map passes
    through three dense layers with ReLU; then each block on the way up reads the map so far, concatenated with that
    from the equally large block on the way down. A 1 × 1 convolution yields the logits.

    Attributes:
      channels: in each block on the way down. On the way up, a block has as many as the map that its output is
        concatenated with, and the last block as many as the first.
      hidden: width of the two inner dense layers.
      image_shape: the inputs' shape.

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
        """Logits."""
        skips: list[Array] = []
        for i, channels in enumerate(self.channels):
            hidden = Block(channels, name=f"down_{i}")(hidden[:, ::2, ::2] if i else hidden)
            skips.append(hidden)
        shape = hidden.shape[1:]
        flat = hidden.reshape(len(hidden), -1)
        for i, width in enumerate((self.hidden, self.hidden, math.prod(shape))):
            flat = nn.relu(Dense(width, name=f"dense_{i}")(flat))
        hidden = flat.reshape(-1, *shape)
        for i, channels in enumerate((*self.channels[-2::-1], self.channels[0])):
            hidden = enlarged(hidden) if i else hidden
            hidden = Block(channels, name=f"up_{i}")(jnp.concatenate([hidden, skips.pop()], axis=-1))
        return Dense(1, name="logits")(hidden)[..., 0]


class Block(nn.Module):
    """Convolution, normalization, ReLU."""

    channels: int

    @nn.compact
    def __call__(self, hidden: Float[Array, "n h w c"]) -> Float[Array, "n h w o"]:
        return nn.relu(InstanceNorm(name="norm")(Conv(self.channels, (3, 3), use_bias=False, name="conv")(hidden)))
