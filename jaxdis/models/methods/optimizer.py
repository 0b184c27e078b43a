"""Adam, with the step length as a traced hyperparameter."""

import dataclasses
from typing import Annotated

import jax
import optax

from jaxdis.options import Positive, Range, check_fields

Decay = Annotated[float, Range(0, 1, below=True)]


@dataclasses.dataclass(frozen=True)
class Adam:
    """Adam's static settings (Kingma & Ba 2015); the learning rate is a hyperparameter."""

    b1: Decay = 0.9
    b2: Decay = 0.999
    epsilon: Positive = 1e-8

    def __post_init__(self):
        check_fields(self)

    def begin(self, params):
        """Moments before the first update."""
        return self._transformation.init(params)

    def descend(self, params, moments, gradients, learning_rate):
        """Parameters and moments after one update."""
        with jax.numpy_dtype_promotion("standard"):  # optax raises a float to the power of an int32 count
            directions, moments = self._transformation.update(gradients, moments)
        return jax.tree.map(lambda leaf, direction: leaf - learning_rate * direction, params, directions), moments

    @property
    def _transformation(self) -> optax.GradientTransformation:
        return optax.scale_by_adam(self.b1, self.b2, self.epsilon)
