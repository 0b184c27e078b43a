"""What training, zoos, studies and reports ask from a method, and nothing else; and optimizers.

Wherever a method takes an ``optimizer`` of the library, whose step length is a hyperparameter, it also takes those of
optax: a function, whose learning rate stays a hyperparameter, or a transformation with its own steps
(``tests/models/methods/test_optimizer.py`` has examples).

To add a method, write a frozen dataclass that derives from :class:`Method` and a row of
:data:`jaxdis.models.METHODS`. For example, the mean image with an update per batch:

    class Settings(NamedTuple):
        rate: float = 0.1

    class Losses(NamedTuple):
        error: Array

    @dataclasses.dataclass(frozen=True)
    class MeanImage(Method):
        batch_size: int = 64

        about = About("Mean image", "Represents an image by its distance from the mean.", ())
        losses = Losses
        variants = {"mean_image": Variant(Settings, "rate")}

        def begin(self, key):
            return jnp.zeros(self.image_shape)

        def update(self, state, step, key, hyperparameters, source):
            difference = source.images(key, self.batch_size).mean(0) - state
            error = jnp.square(difference).sum()
            return accepted(error, lambda: state + hyperparameters.rate * difference, state, Losses(error))

        def represent(self, params, images):
            distance = jnp.square(images - params[None]).reshape(len(images), -1).sum(1, keepdims=True)
            return Posterior(distance, jnp.zeros_like(distance))
"""

import abc
import dataclasses
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array

from jaxdis._core.options import CheckedFields, Positive, Range, check_fields, shown
from jaxdis.codes import Posterior

_WAY_OUT = "pass a transformation of optax, or a function learning rate → transformation such as optax.lion"
Decay = Annotated[float, Range(0, 1, below=True)]


@dataclasses.dataclass(frozen=True)
class Optimizer(CheckedFields, abc.ABC):
    """Static settings of an optimizer; one that ``has_own_rate`` does not read the hyperparameter."""

    has_own_rate: ClassVar[bool] = False

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


@dataclasses.dataclass(frozen=True)
class About:
    """What describes a row.

    Attributes:
      title: the name in full.
      summary: one sentence.
      references: keys that ``jaxdis list references`` shows, the defining paper first.
      settings: what each argument to a variant's ``settings`` means.
    """

    title: str
    summary: str
    references: tuple[str, ...]
    settings: Mapping[str, str] = dataclasses.field(default_factory=dict)


_ABOUTS = tomllib.loads((Path(__file__).parents[1] / "abouts.toml").read_text(encoding="utf-8"))


def about_of(name: str) -> About:
    """What ``abouts.toml`` says about a method or an objective of the library."""
    words = {**_ABOUTS.get(_ABOUTS[name].get("like"), {}), **_ABOUTS[name]}
    words.pop("like", None)
    return About(**words | {"references": tuple(words["references"])})


@dataclasses.dataclass(frozen=True)
class Variant:
    """What one variant's members have in common.

    Attributes:
      settings: keyword arguments named as in the paper, with its defaults → the hyperparameters, a NamedTuple with
        numbers.
      swept: the argument to ``settings`` that studies sweep; None if there is none.
      about: description for readers, which does not change what is computed.
      signed: the arguments to ``settings`` that may be negative.
    """

    settings: Callable[..., Any]
    swept: str | None = None
    about: About | None = dataclasses.field(default=None, compare=False, kw_only=True)
    signed: tuple[str, ...] = dataclasses.field(default=(), kw_only=True)


class Slots(NamedTuple):
    """Object-centric representations: one code vector and one mask per slot.

    Attributes:
      codes: ``[m, n, s, d]`` float32 (``[n, s, d]`` for one member).
      masks: ``[m, n, s, h, w]`` float32, what share of each pixel belongs to each slot.
    """

    codes: Array
    masks: Array


class Model(NamedTuple):
    """``params``, and running moments of batch normalizations (``statistics``, empty where there are none)."""

    params: dict
    statistics: dict


@dataclasses.dataclass(frozen=True)
class Method(abc.ABC):
    """A kind of model and how it is trained: a hashable value, whose fields are static and compiled in.

    Its functions are pure and concern one member; members, devices, update blocks and checkpoints are handled outside.
    Hyperparameters, which a variant's ``settings`` return, are traced, so that they can be swept.

    Attributes:
      image_shape: ``(height, width, channels)``; None until the data are known.
      types: which types fields hold, so that a stored method can be restored (a class attribute).
      about: title, summary and references (a class attribute).
      losses: NamedTuple with the scalars that every update reports (a class attribute).
      variants: the method's variants by name, which a zoo sweeps (a class attribute).
      default_steps, log_every, checkpoint_every: how many updates in all, per entry in the losses, and between
        checkpoints, if none are given.
      needs_labels: whether training reads factors in addition to images.
      has_prior: whether training pulls codes toward a standard normal distribution, which traversals rely on.
      represents: :class:`Posterior` or :class:`Slots`, which :meth:`represent` returns.
    """

    image_shape: tuple[int, int, int] | None = dataclasses.field(default=None, kw_only=True)

    types: ClassVar[tuple[type, ...]] = (Adam, RmsProp)
    about: ClassVar[About]
    losses: ClassVar[type]
    variants: ClassVar[Mapping[str, Variant]]
    default_steps: ClassVar[int] = 3000
    log_every: ClassVar[int] = 100
    checkpoint_every: ClassVar[int] = 1000
    needs_labels: ClassVar[bool] = False
    represents: ClassVar[type] = Posterior
    has_prior: ClassVar[bool] = False

    def __post_init__(self):
        check_fields(self)
        if hasattr(self, "optimizer"):
            object.__setattr__(self, "optimizer", as_optimizer(self.optimizer))

    @abc.abstractmethod
    def begin(self, key) -> Any:
        """The state before the first update: everything that training carries, a pytree with arrays (no typed keys)."""

    @abc.abstractmethod
    def update(self, state, step: Array, key, hyperparameters, source) -> tuple[Any, Any]:
        """One update: the new state and its losses.

        An update that is not finite must return the state unchanged and a loss that is not finite, as
        :func:`accepted` does. The member is not updated again.

        Args:
          state: the member's.
          step: updates done, int32.
          key: random key for this update alone.
          hyperparameters: NamedTuple with scalars.
          source: where images come from, :class:`jaxdis.models.Source`.
        """

    @abc.abstractmethod
    def represent(self, params, images: Array) -> Posterior | Slots:
        """How images ``[n, h, w, c]`` in [0, 1] are represented; no image may depend on another."""

    def params(self, state) -> Any:
        """What in the state :meth:`represent` and ``decode`` read, which a trained zoo keeps: its ``params`` or its
        ``model`` if it has this field, else all of it."""
        return getattr(state, "params", getattr(state, "model", state))

    @property
    def code_kinds(self) -> tuple[str, ...]:
        """The kind of each code in a slot, if there are several kinds: a level of structure below slots."""
        return ()

    # Methods with a decoder also have ``decode(params, codes) → images [n, h, w, c]`` in [0, 1].

    def resolved(self, image_shape: tuple[int, int, int]) -> "Method":
        """The method for images in this shape.

        Raises:
          ValueError: if the method needs another shape.
        """
        if self.image_shape not in (None, tuple(image_shape)):
            raise ValueError(f"data: must be images of {self.image_shape}, the method's, got {tuple(image_shape)}")
        return dataclasses.replace(self, image_shape=tuple(image_shape))

    def tuned(self, platform: str) -> "Method":
        """The method with settings that are fast on a platform, which change its numbers by rounding alone."""
        return self

    def alone(self, variant: str) -> "Method":
        """The method that identifies a member of this variant, which may have been trained together with others."""
        return self

    def check(self, hyperparameters, source, steps: int) -> None:
        """Raise ValueError for hyperparameters ``[m]``, data or a count of updates that do not suit the method."""
        return

    @property
    def trained(self) -> tuple[str, ...]:
        """Names of the variants that members of this method have: all, unless a field narrows them."""
        return tuple(self.variants)

    @property
    def own_variants(self) -> Mapping[str, Variant]:
        """The variants that this method's members may have, by name."""
        return {name: self.variants[name] for name in self.trained if name in self.variants}

    @property
    def rates(self) -> Mapping[str, Optimizer]:
        """The optimizer that reads each hyperparameter that is a learning rate."""
        return {"learning_rate": self.optimizer} if hasattr(self, "optimizer") else {}

    def settings(self) -> Any:
        """Default hyperparameters, in the type that all members in a zoo have."""
        return self.own_variants[self.trained[0]].settings()


def accepted(loss, new: Callable[[], Any], old, losses) -> tuple[Any, Any]:
    """Choose the new state and its losses, or the old state and NaN if ``loss`` (any pytree) is not finite.

    ``new`` is only computed if it is wanted: on CPU, a condition leaves large states in place.
    """
    finite = all_finite(loss)
    state = jax.lax.cond(finite, new, lambda: old)
    return state, jax.tree.map(lambda leaf: jnp.where(finite, leaf, jnp.nan), losses)


def all_finite(tree) -> Array:
    """Whether the sum of squares is finite, in one pass; an overflowing square is reason enough to stop."""
    return jnp.isfinite(sum(jnp.square(leaf).sum() for leaf in jax.tree.leaves(tree)))
