"""What the object-centric models share: state, update, mixtures of slots and what these show; slots come first."""

import abc
import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxdis._core.options import Count, Units
from jaxdis.models.methods._method import Adam, Method, Model, Slots, accepted, averaged, divisor, split
from jaxdis.models.networks._architectures import PRODUCTS, apply

# Largest multiplier, and the share of the old average error that an update keeps.
MOST = 1e10
DECAY = 0.99
# How much faster the multiplier grows where the goal is met than it shrinks where it is not.
SPEEDUP = 10.0


class Geco(NamedTuple):
    """Scalars: the KL divergence's ``multiplier``, the errors' moving ``average``, and whether there is one."""

    multiplier: Array
    average: Array
    begun: Array

    @classmethod
    def begin(cls) -> "Geco":
        return cls(jnp.ones(()), jnp.zeros(()), jnp.zeros((), bool))

    def after(self, error: Array, goal: Array, step: Array, least: Array) -> "Geco":
        """The state after an update with this error, whose loss had the multiplier before it.

        ``a ← 0.99 a + 0.01 error`` (the first error itself), ``c = goal − a`` and
        ``multiplier ← clip(multiplier · exp(s c), least, 1e10)`` with ``s = 10 step`` where the goal is met, c > 0, and
        ``s = step`` elsewhere. All arguments may be traced.

        Reference: Rezende & Viola 2018, in the form that Engelcke et al. 2020 released.
        """
        average = jnp.where(self.begun, DECAY * self.average + (1 - DECAY) * error, error)
        slack = goal - average
        # Factors beyond e⁸⁰ reach the bound just as well, and an infinite one would turn a multiplier of 0 into NaN.
        factor = jnp.exp(jnp.minimum(step * jnp.where(slack > 0, SPEEDUP, 1.0) * slack, 80.0))
        multiplier = jnp.clip(self.multiplier * factor, least, MOST)
        return Geco(multiplier, average, jnp.ones((), bool))


def log_normal(values: Array, mean: Array, deviation: Array) -> Array:
    """``log N(values; mean, deviation²)``, elementwise."""
    return -0.5 * jnp.square((values - mean) / deviation) - jnp.log(deviation) - 0.5 * math.log(2 * math.pi)


def mixture_log_likelihood(
    log_likelihoods: Float[Array, "s n h w c"], log_masks: Float[Array, "s n h w"], mixture: str
):
    """``log Σ_k m_k N_k`` for every term in the sum over an image.

    With ``"channel"``, every channel in a pixel has its own mixture, as in the released code for the library's three
    models, ``[n, h, w, c]``; slots may then divide a pixel's channels among themselves, and the likelihood can be high
    while the mixture's mean, which is the reconstruction, is far from the image. With ``"pixel"``, all channels in a
    pixel come from one slot, as in Burgess et al. 2019 and Greff et al. 2019, ``[n, h, w, 1]``.
    """
    if mixture == "pixel":
        log_likelihoods = log_likelihoods.sum(-1, keepdims=True)
    return jax.nn.logsumexp(log_masks[..., None] + log_likelihoods, axis=0)


def mixture_error(
    images: Float[Array, "n h w c"],
    pictures: Float[Array, "s n h w c"],
    log_masks: Float[Array, "s n h w"],
    deviations: Float[Array, " s"],
    mixture: str,
) -> Float[Array, " n"]:
    """``−Σ log Σ_k m_k N(x; picture_k, deviation_k²)`` for each image, nats."""
    likelihoods = log_normal(images[None], pictures, deviations.reshape(-1, 1, 1, 1, 1))
    return -mixture_log_likelihood(likelihoods, log_masks, mixture).sum((1, 2, 3))


def stick_breaking(logits: Float[Array, "r n h w"]) -> Float[Array, "s n h w"]:
    """Logarithms of ``r + 1`` masks: each logit says what share its slot takes of what is left.

    ``log m_k = log σ(a_k) + Σ_{j<k} log σ(−a_j)``, and the last mask is the rest.
    """
    left = jnp.cumsum(jax.nn.log_sigmoid(-logits), axis=0)
    before = jnp.concatenate([jnp.zeros_like(logits[:1]), left], axis=0)
    taken = jnp.concatenate([jax.nn.log_sigmoid(logits), jnp.zeros_like(logits[:1])], axis=0)
    return before + taken


def mask_divergence(log_masks: Float[Array, "s n h w"], log_priors: Float[Array, "s n h w"]) -> Float[Array, " n"]:
    """``Σ_pixels KL(m ‖ p)`` for each image, with shares below 1e-5 raised to it, nats.

    Source: Engelcke et al.'s released code (2020).
    """
    floored = (jnp.maximum(jnp.exp(log_shares), 1e-5) for log_shares in (log_masks, log_priors))
    masks, priors = (shares / shares.sum(0, keepdims=True) for shares in floored)
    return (masks * (jnp.log(masks) - jnp.log(priors))).sum((0, 2, 3))


def softplus_deviation(values: Array) -> Array:
    """``softplus(v + ½) + 1e-8``: posteriors' standard deviations; Engelcke et al.'s released code (2020)."""
    return jax.nn.softplus(values + 0.5) + 1e-8


class Parts(NamedTuple):
    """What slots show in images, for one member (with a leading axis ``m`` for a zoo).

    Attributes:
      reconstruction: ``[n, h, w, c]``, the sum of the slots' pictures, weighted by their masks.
      masks: ``[n, s, h, w]``, which sum to 1 over slots.
      pictures: ``[n, s, h, w, c]``, each slot's own picture, with what its mask hides.
    """

    reconstruction: Array
    masks: Array
    pictures: Array

    @classmethod
    def of(cls, masks: Float[Array, "s n h w"], pictures: Float[Array, "s n h w c"]) -> "Parts":
        """Parts from arrays whose first axis is slots."""
        reconstruction = (masks[..., None] * pictures).sum(0)
        return cls(reconstruction, jnp.swapaxes(masks, 0, 1), jnp.swapaxes(pictures, 0, 1))


class Losses(NamedTuple):
    """Per image, nats, of GENESIS, ``loss = error + multiplier (kl + mask_kl)``, and of MONet, ``loss = error +
    multiplier · kl + γ mask_kl``; ``multiplier`` is 0 without regularization."""

    loss: Array
    error: Array
    kl: Array
    mask_kl: Array
    multiplier: Array


class State(NamedTuple):
    """``geco`` is None for a model without a goal."""

    model: Model
    moments: Any
    geco: Geco | None


@dataclasses.dataclass(frozen=True)
class SlotMethod(Method):
    """An image as a mixture of slots. Derived classes say what slots are and what is minimized.

    - No image depends on another in :meth:`represent`, :meth:`parts` and :meth:`decode`.
    - Masks sum to 1 over slots, at every pixel.

    Attributes:
      num_codes: length of the code for what a slot shows.
      micro_batch: images whose gradients are taken at once, which divides the batch: fewer take less memory, and on CPU
        less time. None: up to 4 on CPU, and up to 16 on accelerators, of GENESIS all.
      mixture: whether channels or pixels are mixtures; see
        :func:`~jaxdis.models.methods.slots._base.mixture_log_likelihood`.
      regularized: False leaves the codes' KL divergences out of the loss, the ablation "(R)" of Dang-Nhu 2022.
      precision: in matrix products: ``float32``, or ``tensorfloat32`` on accelerators.
    """

    num_slots: Count = 5
    num_codes: Units = 16
    batch_size: Count = 32
    micro_batch: Count | None = None
    mixture: Literal["channel", "pixel"] = "channel"
    regularized: bool = True
    precision: Literal["float32", "tensorfloat32"] = "float32"
    optimizer: Any = Adam()

    represents: ClassVar = Slots
    has_goal: ClassVar[bool] = True
    # Least and most images in a micro-batch there: twice the kernels, but half the memory, so that more members fit.
    on_accelerators: ClassVar[tuple[int, int] | None] = (8, 16)

    def __post_init__(self):
        super().__post_init__()
        if self.num_slots < 2:
            raise ValueError(f"num_slots: must be at least 2, got {self.num_slots}")
        if self.batch_size % (self.micro_batch or 1):
            raise ValueError(f"micro_batch: must be a divisor of batch_size {self.batch_size}, got {self.micro_batch}")
        if self.image_shape is not None:
            _ = self.networks  # which check the shape

    def tuned(self, platform: str) -> "SlotMethod":
        if self.micro_batch is not None:
            return self
        sizes = (1, 4) if platform == "cpu" else self.on_accelerators
        return dataclasses.replace(self, micro_batch=None if sizes is None else divisor(self.batch_size, *sizes))

    @property
    @abc.abstractmethod
    def networks(self) -> dict[str, Any]:
        """Networks by their parameters' names, for images in the method's shape."""

    def network(self, name: str, params: dict) -> Callable:
        """A network as a function of its inputs."""
        return functools.partial(apply, self.networks[name], params[name])

    @abc.abstractmethod
    def begin_model(self, key) -> Model:
        """A model before the first update."""

    @abc.abstractmethod
    def noise(self, key, n: int) -> Any:
        """All random numbers that the loss on ``n`` images reads."""

    @abc.abstractmethod
    def loss(self, model: Model, multiplier: Array, noise: Any, hyperparameters: Any, images: Array):
        """The loss that one update minimizes, and ``(losses, statistics after it)``."""

    @abc.abstractmethod
    def explain(self, model: Model, images: Array) -> tuple[Array, Array, Array]:
        """Codes ``[s, n, d]``, masks ``[s, n, h, w]`` and pictures ``[s, n, h, w, c]`` without noise."""

    @abc.abstractmethod
    def draw(self, model: Model, codes: Array) -> tuple[Array, Array]:
        """Masks ``[s, n, h, w]`` and pictures ``[s, n, h, w, c]`` for codes ``[s, n, d]``."""

    def begin(self, key) -> State:
        model = self.begin_model(key)
        return State(model, self.optimizer.begin(model.params), Geco.begin() if self.has_goal else None)

    def update(self, state: State, step, key, hyperparameters, source) -> tuple[State, Any]:
        data_key, noise_key = jax.random.split(key)
        images = source.images(data_key, self.batch_size)
        noise = self.noise(noise_key, self.batch_size)
        multiplier = state.geco.multiplier if self.has_goal else jnp.ones(())

        def loss(params, noise, images):
            return self.loss(state.model._replace(params=params), multiplier, noise, hyperparameters, images)

        with jax.default_matmul_precision(PRODUCTS[self.precision]):
            gradients, (losses, statistics) = self._averaged(loss, state.model.params, noise, images)
        gradients = self.clipped(gradients)

        def new() -> State:
            rate = hyperparameters.learning_rate
            params, moments = self.optimizer.descend(state.model.params, state.moments, gradients, rate)
            geco = state.geco
            if self.has_goal and self.regularized:
                height, width, channels = self.image_shape
                goal = hyperparameters.goal * (height * width * channels)
                step = hyperparameters.step * (64**2 / (height * width))
                geco = geco.after(losses.error, goal, step, hyperparameters.least)
            return State(Model(params, statistics), moments, geco)

        return accepted((losses, gradients, statistics), new, state, losses)

    def _averaged(self, loss, params: dict, noise: Any, images: Array):
        """The gradient of a mean over images, and what else the loss returns, by micro-batches."""
        differentiate = jax.grad(loss, has_aux=True)
        if self.micro_batch is None:
            return differentiate(params, noise, images)
        noise = jax.tree.map(lambda leaf: split(leaf, self.micro_batch, leaf.ndim - 2), noise)
        return averaged(differentiate, params, (noise, split(images, self.micro_batch)))

    def clipped(self, gradients: dict) -> dict:
        """The gradients as the optimizer receives them."""
        return gradients

    def represent(self, params: Model, images: Float[Array, "n h w c"]) -> Slots:
        with jax.default_matmul_precision(PRODUCTS[self.precision]):
            codes, masks, _ = self.explain(params, images)
        return Slots(jnp.swapaxes(codes, 0, 1), jnp.swapaxes(masks, 0, 1))

    def parts(self, params: Model, images: Float[Array, "n h w c"]) -> Parts:
        """What each slot shows in images."""
        with jax.default_matmul_precision(PRODUCTS[self.precision]):
            _, masks, pictures = self.explain(params, images)
        return Parts.of(masks, pictures)

    def decode_parts(self, params: Model, codes: Float[Array, "n s d"]) -> Parts:
        with jax.default_matmul_precision(PRODUCTS[self.precision]):
            return Parts.of(*self.draw(params, jnp.swapaxes(codes, 0, 1)))

    def decode(self, params: Model, codes: Float[Array, "n s d"]) -> Float[Array, "n h w c"]:
        return self.decode_parts(params, codes).reconstruction


def over_slots(function, *arrays: Array):
    """A function on ``[s·n, …]`` applied to arrays ``[s, n, …]``."""
    slots, n = arrays[0].shape[:2]
    outputs = function(*(array.reshape(slots * n, *array.shape[2:]) for array in arrays))
    return jax.tree.map(lambda leaf: leaf.reshape(slots, n, *leaf.shape[1:]), outputs)


def masked(images: Float[Array, "n h w c"], log_masks: Float[Array, "s n h w"]) -> Float[Array, "s n h w e"]:
    """Images concatenated with each mask's logarithm."""
    shape = (*log_masks.shape, images.shape[-1])
    return jnp.concatenate([jnp.broadcast_to(images[None], shape), log_masks[..., None]], axis=-1)
