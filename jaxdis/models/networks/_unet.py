"""The attention network of MONet: a U-Net with instance normalization and a perceptron at its coarsest map."""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxdis.models.networks._convolution import convolve_padded, enlarged
from jaxdis.models.networks._initialization import draw, layer_shape
from jaxdis.models.networks._normalization import instance_norm
from jaxdis.models.networks._stacks import dense, dense_shape, perceptron_shapes


@dataclasses.dataclass(frozen=True)
class Unet:
    """Blocks of [3 × 3 convolution without bias, instance normalization, ReLU] on the way down and on the way up.

    Between blocks, maps are halved by taking every other pixel and doubled by repeating pixels. The coarsest map passes
    through three dense layers with ReLU; then each block of the way up reads the map so far, concatenated with that of
    the block of the same size on the way down. A 1 × 1 convolution yields the logits.

    Attributes:
      channels: of each block on the way down. On the way up, a block has the channels of the map that its output is
        concatenated with, and the last block those of the first.
      hidden: width of the two inner dense layers.
      image_shape: of the inputs.

    Reference: Burgess et al. 2019, appendix B.2, in the form of the released code of Engelcke et al. 2020.
    """

    channels: tuple[int, ...]
    hidden: int
    image_shape: tuple[int, int, int]

    def __post_init__(self):
        scale = 2 ** (len(self.channels) - 1)
        if any(side % scale for side in self.image_shape[:2]):
            needed = f"for {len(self.channels)} blocks images with sides divisible by {scale}"
            raise ValueError(f"attention: needs {needed}, got images of shape {self.image_shape}")

    def begin(self, key) -> dict:
        """Parameters."""
        flat = self.channels[-1]
        for side in self.image_shape[:2]:
            flat *= side // 2 ** (len(self.channels) - 1)
        downward = (self.image_shape[2], *self.channels)
        skips = self.channels[::-1]
        upward = (self.channels[-1], *skips[1:], self.channels[0])
        shapes = {
            f"down_{i}": layer_shape(3, *pair) for i, pair in enumerate(zip(downward, downward[1:], strict=False))
        }
        for i, (before, skip, after) in enumerate(zip(upward, skips, upward[1:], strict=False)):
            shapes[f"up_{i}"] = layer_shape(3, before + skip, after)
        shapes |= perceptron_shapes(flat, (self.hidden, self.hidden, flat))
        params = draw(key, {**shapes, "logits": dense_shape(self.channels[0], 1)}, "torch")
        for name, layer in params.items():
            if name.startswith(("down", "up")):
                ones = jnp.ones_like(layer.pop("bias"))
                layer |= {"scale": ones, "offset": jnp.zeros_like(ones)}
        return params

    def __call__(self, params: dict, inputs: Float[Array, "n h w c"]) -> Float[Array, "n h w"]:
        """Logits."""
        hidden, skips = inputs, []
        for i in range(len(self.channels)):
            hidden = _block(params[f"down_{i}"], hidden if i == 0 else hidden[:, ::2, ::2])
            skips.append(hidden)
        flat = hidden.reshape(len(hidden), -1)
        for i in range(3):
            flat = jax.nn.relu(dense(params[f"dense_{i}"], flat))
        hidden = flat.reshape(hidden.shape)
        for i, skip in enumerate(reversed(skips)):
            hidden = enlarged(hidden) if i else hidden
            hidden = _block(params[f"up_{i}"], jnp.concatenate([hidden, skip], axis=-1))
        return hidden @ params["logits"]["kernel"][:, 0] + params["logits"]["bias"][0]


def _block(layer: dict, hidden: Float[Array, "n h w c"]) -> Float[Array, "n h w o"]:
    return jax.nn.relu(instance_norm("", layer, convolve_padded(hidden, layer["kernel"], padding=1)))
