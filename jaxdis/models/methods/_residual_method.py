"""What Eastwood & Williams's (2018) two methods with residual networks have in common."""

import dataclasses
from typing import Any, Literal

from jaxtyping import Array

from jaxdis._core.options import Count, Units
from jaxdis.models.methods._method import Method
from jaxdis.models.methods._optimizer import Adam
from jaxdis.models.networks._residual import ResidualDecoder, ResidualEncoder


@dataclasses.dataclass(frozen=True)
class ResidualMethod(Method):
    """A method whose networks are residual.

    Attributes:
      channels: how many channels after the first convolution and after each block; see
        :mod:`~jaxdis.models.networks._residual`. The default is the paper's, for 64 × 64 images.
      num_codes: latent coordinates.
      batch_size: images per update.
      precision: in matrix products: ``float32``, or ``tensorfloat32`` on accelerators.
      optimizer: the paper states Adam at 1e-4; its momentum 0 and decay 0.9 are from the released code.
    """

    channels: tuple[Units, ...] = (64, 128, 256, 512, 512)
    num_codes: Units = 10
    batch_size: Count = 64
    precision: Literal["float32", "tensorfloat32"] = "float32"
    optimizer: Any = Adam(b1=0.0, b2=0.9)

    def __post_init__(self):
        super().__post_init__()
        scale = 2 ** max(len(self.channels) - 1, 0)
        if not self.channels or any(side % scale for side in (self.image_shape or ())[:2]):
            needed = f"at least one entry, and images with sides divisible by {scale}"
            raise ValueError(f"channels: needs {needed}, got {self.channels} for images of shape {self.image_shape}")

    def encoder(self, num_outputs: int, *, by_batch: bool) -> ResidualEncoder:
        """An encoder or a critic."""
        return ResidualEncoder(self.channels, num_outputs, by_batch)

    @property
    def decoder(self) -> ResidualDecoder:
        """The decoder, or the generator."""
        return ResidualDecoder(self.channels[::-1], self.image_shape)


def signed(images: Array) -> Array:
    """Pixels in [−1, 1] from pixels in [0, 1]."""
    return 2 * images - 1
