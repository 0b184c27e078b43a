"""What the two methods of Eastwood & Williams (2018) with residual networks have in common."""

import dataclasses
from typing import Literal

from jaxtyping import Array

from jaxdis._core.options import Count, Units, check_fields
from jaxdis.models.methods._method import Method
from jaxdis.models.methods._optimizer import Adam
from jaxdis.models.networks._residual import Residual


@dataclasses.dataclass(frozen=True)
class ResidualMethod(Method):
    """A method whose networks are residual.

    Attributes:
      channels: numbers of channels after the first convolution and after each block; see
        :class:`~jaxdis.models.networks._residual.Residual`. The default is the paper's, for images of 64 × 64 pixels.
      num_codes: latent coordinates.
      batch_size: images per update.
      precision: of matrix products: ``float32``, or ``tensorfloat32`` on accelerators.
      optimizer: the paper states Adam at 1e-4; its momentum 0 and decay 0.9 are those of the released code.
    """

    channels: tuple[Units, ...] = (64, 128, 256, 512, 512)
    num_codes: Units = 10
    batch_size: Count = 64
    precision: Literal["float32", "tensorfloat32"] = "float32"
    optimizer: Adam = Adam(b1=0.0, b2=0.9)

    def __post_init__(self):
        check_fields(self)
        if self.image_shape is not None:
            _ = self.network  # which checks the shape

    @property
    def network(self) -> Residual:
        return Residual(self.channels, self.image_shape)


def signed(images: Array) -> Array:
    """Pixels in [−1, 1] from pixels in [0, 1]."""
    return 2 * images - 1
