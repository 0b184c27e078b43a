"""First-order optimizers, with the step length as a traced hyperparameter."""

import abc
import dataclasses
from typing import Annotated, ClassVar

import jax
import optax

from jaxdis._core.options import Positive, Range, check_fields

Decay = Annotated[float, Range(0, 1, below=True)]


@dataclasses.dataclass(frozen=True)
class Optimizer(abc.ABC):
    """Static settings of an optimizer; the learning rate is a hyperparameter.

    To train by another transformation of optax, derive a frozen dataclass from :class:`Adam` whose method
    ``transformation`` returns it, without its learning rate.
    """

    advice: ClassVar = (
        "for a transformation of optax, derive a frozen dataclass from jaxdis.models.Adam whose method transformation "
        "returns it"
    )

    def __post_init__(self):
        check_fields(self)

    @abc.abstractmethod
    def transformation(self) -> optax.GradientTransformation:
        """Gradients → directions of descent."""

    def begin(self, params):
        """Moments before the first update."""
        return self.transformation().init(params)

    def descend(self, params, moments, gradients, learning_rate):
        """Parameters and moments after one update."""
        with jax.numpy_dtype_promotion("standard"):  # optax raises a float to the power of an int32 count
            directions, moments = self.transformation().update(gradients, moments)
        return jax.tree.map(lambda leaf, direction: leaf - learning_rate * direction, params, directions), moments


@dataclasses.dataclass(frozen=True)
class Adam(Optimizer):
    """Adam (Kingma & Ba 2015)."""

    b1: Decay = 0.9
    b2: Decay = 0.999
    epsilon: Positive = 1e-8

    def transformation(self) -> optax.GradientTransformation:
        return optax.scale_by_adam(self.b1, self.b2, self.epsilon)


@dataclasses.dataclass(frozen=True)
class RmsProp(Optimizer):
    """RMSProp: gradients over ``√v + ε``, with v their mean square, which decays. The defaults are PyTorch's."""

    decay: Decay = 0.99
    epsilon: Positive = 1e-8

    def transformation(self) -> optax.GradientTransformation:
        return optax.scale_by_rms(self.decay, self.epsilon, eps_in_sqrt=False)
