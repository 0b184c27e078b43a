"""First-order optimizers: two in the library, whose step length is a hyperparameter, and all in optax.

Wherever a method takes an ``optimizer``, it also takes an optax function, whose learning rate stays a hyperparameter
that can be swept, or a transformation with its own steps, such as one with a schedule
(``tests/models/methods/test_optimizer.py`` has examples).

Gradients of means over images are taken a few images at a time.
"""

import abc
import dataclasses
from collections.abc import Callable
from typing import Annotated, Any, ClassVar

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array

from jaxdis._core.options import Positive, Range, check_fields, shown

_WAY_OUT = "pass a transformation of optax, or a function learning rate → transformation such as optax.lion"
Decay = Annotated[float, Range(0, 1, below=True)]


@dataclasses.dataclass(frozen=True)
class Optimizer(abc.ABC):
    """Static settings of an optimizer; one that ``has_own_rate`` does not read the hyperparameter."""

    has_own_rate: ClassVar[bool] = False

    def __post_init__(self):
        check_fields(self)

    @abc.abstractmethod
    def transformation(self) -> optax.GradientTransformation:
        """Gradients → descent directions."""

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


@dataclasses.dataclass(frozen=True)
class Optax(Optimizer):
    """An optax transformation, or a function learning rate → transformation.

    Attributes:
      of: the transformation or the function. It is part of the compilation key, by identity, and should be made once.
      name: name by which run directories identify it, which should be another for another transformation; by default
        the qualified name. It cannot be stored; pass the method to ``jaxdis.models.load(path, method=…)``.
    """

    of: optax.GradientTransformation | Callable
    name: str = ""

    def __post_init__(self):
        try:
            made = self.of if self.has_own_rate else self.of(1.0)
        except Exception as error:
            raise ValueError(f"optimizer: {shown(self.of)}(1.0) fails ({error}); {_WAY_OUT}") from error
        if not isinstance(made, optax.GradientTransformation):
            raise ValueError(f"optimizer: must yield a transformation of optax, got {shown(made)}; {_WAY_OUT}")
        function = self.of.update if self.has_own_rate else self.of
        object.__setattr__(self, "name", self.name or f"{function.__module__}.{function.__qualname__}")

    @property
    def has_own_rate(self) -> bool:
        return isinstance(self.of, optax.GradientTransformation)

    def transformation(self, learning_rate=1.0) -> optax.GradientTransformation:
        return self.of if self.has_own_rate else self.of(learning_rate)

    def descend(self, params, moments, gradients, learning_rate):
        with jax.numpy_dtype_promotion("standard"):
            steps, moments = self.transformation(learning_rate).update(gradients, moments, params)
        return jax.tree.map(jnp.add, params, steps), moments

    def description(self) -> dict:
        return {"type": "Optax", "name": self.name}


def as_optimizer(value) -> Optimizer:
    """The optimizer itself, or one from optax as :class:`Optax`."""
    if isinstance(value, Optimizer):
        return value
    if isinstance(value, type) or not (callable(value) or isinstance(value, optax.GradientTransformation)):
        raise ValueError(f"optimizer: must be an optimizer, got {shown(value)}; {_WAY_OUT}")
    return Optax(value)


def averaged(differentiate: Callable, params: Any, parts: Any) -> Any:
    """The mean of ``differentiate(params, *part)`` over micro-batches, which are the first axis of ``parts``.

    The memory is that of one micro-batch.
    """
    count = len(jax.tree.leaves(parts)[0])
    if count == 1:
        return differentiate(params, *jax.tree.map(lambda leaf: leaf[0], parts))

    def one_more(total, part):
        return jax.tree.map(jnp.add, total, differentiate(params, *part)), None

    shapes = jax.eval_shape(differentiate, params, *jax.tree.map(lambda leaf: leaf[0], parts))
    zero = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    total, _ = jax.lax.scan(one_more, zero, parts)
    return jax.tree.map(lambda leaf: leaf / jnp.float32(count), total)


def split(array: Array, size: int, axis: int = 0) -> Array:
    """An image axis as micro-batches of ``size`` images, which become the first axis."""
    shape = (*array.shape[:axis], -1, size, *array.shape[axis + 1 :])
    return jnp.moveaxis(array.reshape(shape), axis, 0)


def divisor(batch_size: int, least: int, most: int) -> int:
    """The largest micro-batch between two sizes that divides the batch; the batch if there is none."""
    return next((size for size in range(most, least - 1, -1) if batch_size % size == 0), batch_size)
