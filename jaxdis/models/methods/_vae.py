"""Variational autoencoders: one network, one objective, and for FactorVAE a discriminator."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxdis._core import random
from jaxdis._core.options import Count, check_fields, shown
from jaxdis.codes import Posterior
from jaxdis.models.methods._method import Adam, Method, Optimizer, about_of, all_finite, as_optimizer, divisor
from jaxdis.models.networks._architectures import (
    Autoencoder,
    Convolutional,
    Discriminator,
    Mlp,
    apply,
    begin,
    check_hashable,
    check_network,
    functions_of,
)
from jaxdis.models.objectives import _losses as objectives
from jaxdis.models.objectives._losses import OBJECTIVES, Objective

# The released code clips probabilities to [1e-6, 1 − 1e-6] (Locatello et al. 2020).
_LOWEST, _HIGHEST = np.float32(np.log(1e-6)), np.float32(np.log1p(-1e-6))


@dataclasses.dataclass(frozen=True)
class DiscriminatorTraining:
    """How FactorVAE's discriminator is trained together with the autoencoder.

    Attributes:
      order: how the two updates follow each other:

        * ``simultaneous``: both gradients are taken at the same parameters and on the same batch (Locatello et al.
          2020).
        * ``split_batch``: a batch twice as large, whose first half is for the autoencoder and the joint and whose
          second half, encoded separately, is for the permuted codes (the code behind Mahon et al. 2024; algorithm 2 of
          Kim & Mnih 2018 encodes the second half after the autoencoder's update).
        * ``sequential``: the autoencoder first, then the discriminator on fresh codes from the updated encoder (Julka
          et al.'s code, 2024).
      encoder_sees_discriminator: whether the encoder also minimizes the discriminator's loss on the joint, as in the
        code behind Mahon et al. (2024), where codes are not detached.
      clip: whether the discriminator's probabilities are clipped to [1e-6, 1 − 1e-6] in its loss, as in Locatello et
        al.'s code (2020).
      network, optimizer: the discriminator and its optimizer.
    """

    order: Literal["simultaneous", "split_batch", "sequential"] = "simultaneous"
    encoder_sees_discriminator: bool = False
    clip: bool = True
    network: Discriminator = Discriminator()
    optimizer: Any = Adam(b1=0.5, b2=0.9)

    def __post_init__(self):
        check_fields(self)
        object.__setattr__(self, "optimizer", as_optimizer(self.optimizer))


def joint_loss(settings, logits: Float[Array, "n 2"]) -> Float[Array, ""]:
    """Half the cross-entropy when the joint is classified as the joint."""
    return -0.5 * _log_probability(settings, logits, 0).mean()


def permute(key, codes: Float[Array, "n d"]) -> Float[Array, "n d"]:
    """Each code permuted over the batch: draws from the product of marginals (Kim & Mnih 2018, algorithm 1)."""
    order = jnp.argsort(random.uniform(key, codes.shape), axis=0)
    return jnp.take_along_axis(codes, order, axis=0)


def _log_probability(settings, logits: Float[Array, "n 2"], label: int) -> Float[Array, " n"]:
    chosen = jax.nn.log_softmax(logits)[:, label]
    return jnp.clip(chosen, _LOWEST, _HIGHEST) if settings.clip else chosen


OWN_OBJECTIVE = (
    "pass an objective of your own as a function of terms and hyperparameters, or as jaxdis.models.Objective"
)


class State(NamedTuple):
    """The autoencoder's parameters and moments, and the discriminator's (``()`` without one)."""

    params: Any
    moments: Any
    discriminator: Any
    discriminator_moments: Any


@dataclasses.dataclass(frozen=True)
class Vae(Method):
    """A variational autoencoder with Gaussian posteriors (Kingma & Welling 2014).

    Attributes:
      objective: the name of a row in ``OBJECTIVES``, or of several that share one loss, for a zoo that mixes them; or
        one's own, as a function of :class:`~jaxdis.models.Terms` and hyperparameters, or as an
        :class:`~jaxdis.models.Objective`.
      network: :class:`~jaxdis.models.Mlp`, :class:`~jaxdis.models.Convolutional`, or one's own: a ``flax.linen``
        module with ``encode`` and ``decode``, or two modules, or the same of ``flax.nnx``, or three functions
        ``init(key)`` → parameters, ``encode(params, images)`` → means and log-variances, and ``decode(params, codes)``
        → logits, as a tuple or an :class:`~jaxdis.models.Own`.
      batch_size: images per update (per half for ``split_batch``).
      estimator: how total correlation is estimated on a batch. ``mss``: minibatch stratified sampling (Chen et al.
        2018, C.2); ``mws``: minibatch weighted sampling (ibid., C.1); ``locatello2020``: no weights, as in their
        code, which lowers ``mws`` by ``(d − 1) log(N n)``; ``chen2018`` and ``mahon2024``: as in the code released with
        these papers, whose weights differ from those in ``mss``.
      reconstruction: ``bernoulli`` (cross-entropy on logits; targets need not be binary) or ``squared_error``
        (½‖x−x̂‖², where the decoder's output is the mean).
      subtract_entropy: report the Bernoulli reconstruction error minus the images' entropy, which changes no gradient.
      precision: how precise the networks' matrix products are: ``float32``, ``tensorfloat32`` (on accelerators; the
        same as float32 on CPU) or ``bfloat16`` activations. Parameters, losses and moments are always float32.
      optimizer: the autoencoder's optimizer: the library's :class:`~jaxdis.models.Adam`, ``RmsProp``, an optax function
        such as ``optax.lion``, whose learning rate stays a hyperparameter, or an optax transformation.
      discriminator: discriminator for the objective ``factor``, and how it is trained.
      micro_batch: images per micro-batch, a divisor of the batch size, which changes numbers by rounding alone; None:
        the largest divisor from 4 to 8 for convolutions on CPU (measured), else the whole batch.
    """

    objective: str | tuple[str, ...] | Objective | Callable = "beta"
    network: Any = Mlp()
    batch_size: Count = 64
    estimator: objectives.Estimator = "mss"
    reconstruction: Literal["bernoulli", "squared_error"] = "bernoulli"
    subtract_entropy: bool = False
    precision: Literal["float32", "tensorfloat32", "bfloat16"] = "float32"
    optimizer: Any = Adam()
    discriminator: DiscriminatorTraining = DiscriminatorTraining()
    micro_batch: Count | None = dataclasses.field(default=None, metadata={"identity": False})

    types: ClassVar = (*Method.types, DiscriminatorTraining, Discriminator, Mlp, Convolutional)
    about: ClassVar = about_of("vae")
    losses: ClassVar = objectives.Losses
    variants: ClassVar = OBJECTIVES
    has_prior: ClassVar = True

    def __post_init__(self):
        if not isinstance(self.objective, str | tuple | list | Objective) and not callable(self.objective):
            raise ValueError(f"objective: must be names of OBJECTIVES, got {shown(self.objective)}; {OWN_OBJECTIVE}")
        if callable(self.objective):
            object.__setattr__(self, "objective", Objective(objectives.Hyperparameters, None, self.objective))
        super().__post_init__()
        check_hashable(self.network)
        if self.micro_batch is not None and self.batch_size % self.micro_batch:
            raise ValueError(
                f"micro_batch: must be a divisor of the batch size {self.batch_size}, got {self.micro_batch}"
            )

    def begin(self, key) -> State:
        params_key, discriminator_key = jax.random.split(key)
        params = functions_of(self.network).init(params_key, self.image_shape)
        against = moments_against = ()
        if self._row.discriminator:
            blank = jnp.zeros((1, *self.image_shape))
            codes = jax.eval_shape(functions_of(self.network).encode, params, blank)[0]
            network = self.discriminator.network
            against, _ = begin(discriminator_key, network, jnp.zeros(codes.shape), scheme=network.initialization)
            moments_against = self.discriminator.optimizer.begin(against)
        return State(params, self.optimizer.begin(params), against, moments_against)

    def update(self, state: State, step, key, hyperparameters, source) -> tuple[State, objectives.Losses]:
        data_key, noise_key, discriminator_key = jax.random.split(key, 3)
        split = self._row.discriminator and self.discriminator.order == "split_batch"
        images = source.images(data_key, self.batch_size * (2 if split else 1))
        first, second = (images[: self.batch_size], images[self.batch_size :]) if split else (images, images)

        def loss(params):
            return self.loss(params, state.discriminator, step, noise_key, hyperparameters, first, source.num_data)

        gradients, (losses, codes) = jax.grad(loss, has_aux=True)(state.params)

        def descend(state: State) -> tuple[State, Array]:
            rate = hyperparameters.learning_rate
            params, moments = self.optimizer.descend(state.params, state.moments, gradients, rate)
            new = state._replace(params=params, moments=moments)
            if not self._row.discriminator:
                return new, jnp.zeros(())
            return self._update_discriminator(new, state, discriminator_key, hyperparameters, codes, second)

        finite = jnp.isfinite(jnp.stack(losses)).all() & all_finite(gradients)
        # A condition rather than a selection: on CPU it leaves the parameters in place.
        state, of_discriminator = jax.lax.cond(finite, descend, lambda state: (state, jnp.full((), jnp.nan)), state)
        return state, losses._replace(discriminator=of_discriminator)

    def _update_discriminator(self, new: State, old: State, key, hyperparameters, codes, images) -> tuple[State, Array]:
        """The discriminator's update. If it is not finite, the autoencoder's update is rejected with it.

        ``images`` are the batch, or its second half for ``split_batch``.
        """
        settings = self.discriminator
        permutation_key, noise_key = jax.random.split(key)

        def fresh_codes(params):
            return objectives.sample(noise_key, *self.autoencoder.encode(params, images))

        if settings.order == "simultaneous":
            joint = marginal = codes
        elif settings.order == "split_batch":
            joint, marginal = codes, fresh_codes(old.params)
        else:
            joint = marginal = fresh_codes(new.params)
        joint = jax.lax.stop_gradient(joint)
        permuted = jax.lax.stop_gradient(permute(permutation_key, marginal))

        def loss(params):
            of_joint = joint_loss(settings, apply(settings.network, params, joint))
            return of_joint - 0.5 * _log_probability(settings, apply(settings.network, params, permuted), 1).mean()

        value, gradients = jax.value_and_grad(loss)(old.discriminator)
        rate = hyperparameters.discriminator_learning_rate
        params, moments = settings.optimizer.descend(old.discriminator, old.discriminator_moments, gradients, rate)
        finite = jnp.isfinite(value) & all_finite(gradients)
        new = new._replace(discriminator=params, discriminator_moments=moments)
        return jax.lax.cond(finite, lambda: new, lambda: old), jnp.where(finite, value, jnp.nan)

    def loss(
        self, params, against, step, noise_key, hyperparameters, images: Float[Array, "n h w c"], num_data: int | None
    ) -> tuple[Array, tuple[objectives.Losses, Array]]:
        """What the encoder and the decoder minimize on one batch, and ``(Losses, codes [n, d])``.

        ``against`` are the discriminator's parameters; ``step`` counts updates done; ``num_data`` None: infinite.
        """
        mean, log_variance = self.autoencoder.encode(params, images)
        codes = objectives.sample(noise_key, mean, log_variance)

        def likelihood(logits, images):
            return objectives.negative_log_likelihood(logits, images, self.reconstruction, self.subtract_entropy)

        total = self.autoencoder.decoded_loss(params, codes, images, likelihood)
        logits = None
        if self._row.discriminator:
            logits = apply(self.discriminator.network, jax.lax.stop_gradient(against), codes)
        terms = objectives.Terms(
            total / images.shape[0], mean, log_variance, codes, step, logits, num_data, self.estimator
        )
        loss = self._row.loss(terms, hyperparameters)
        kl = objectives.divergence(mean, log_variance)
        losses = objectives.Losses(loss, terms.reconstruction, kl, jnp.zeros(()))
        if self._row.discriminator and self.discriminator.encoder_sees_discriminator:
            loss = loss + joint_loss(self.discriminator, logits)
        return loss, (losses, codes)

    def represent(self, params, images: Array) -> Posterior:
        mean, log_variance = self.autoencoder.encode(params, images)
        return Posterior(mean, jnp.exp(log_variance))

    def decode(self, params, codes: Float[Array, "n d"]) -> Float[Array, "n h w c"]:
        logits = self.autoencoder.decode(params, codes)
        return jax.nn.sigmoid(logits) if self.reconstruction == "bernoulli" else jnp.clip(logits, 0, 1)

    @property
    def autoencoder(self) -> Autoencoder:
        """The network as programs run it."""
        return Autoencoder(self.network, self.precision, self.micro_batch)

    @property
    def _row(self) -> Objective:
        """What is trained, an own objective or a row in ``OBJECTIVES`` (if several, the first)."""
        if isinstance(self.objective, Objective):
            return self.objective
        if not self.trained:
            raise ValueError("objective: must have at least one name, got ()")
        for name in self.trained:
            if name not in OBJECTIVES:
                raise ValueError(f"objective: must be one of {', '.join(OBJECTIVES)}, got {name!r}; {OWN_OBJECTIVE}")
        rows = [OBJECTIVES[name] for name in self.trained]
        if len({row.loss for row in rows}) > 1:
            raise ValueError(
                f"objective: in a mixed zoo, must be objectives that share one loss, got {', '.join(self.trained)}"
            )
        return rows[0]

    def resolved(self, image_shape: tuple[int, int, int]) -> "Vae":
        network, shape, _ = self.network, tuple(image_shape), self._row  # which checks the objective
        if hasattr(network, "image_shape") and dataclasses.is_dataclass(network):
            given = network.image_shape
            if given is not None and tuple(given) != shape:
                raise ValueError(f"data: must be images of shape {tuple(given)}, the network's, got {shape}")
            network = dataclasses.replace(network, image_shape=shape)
        check_network(network, shape)
        return dataclasses.replace(self, network=network, image_shape=shape)

    def tuned(self, platform: str) -> "Vae":
        network = self.network
        small = platform == "cpu" and isinstance(network, Convolutional) and network.compute == "matmul"
        part = divisor(self.batch_size, 4, 8)
        unset = self.micro_batch is None and part < self.batch_size
        return dataclasses.replace(self, micro_batch=part) if small and unset else self

    def alone(self, variant: str) -> "Vae":
        return self if isinstance(self.objective, Objective) else dataclasses.replace(self, objective=variant)

    @property
    def trained(self) -> tuple[str, ...]:
        if isinstance(self.objective, Objective):
            return (self.objective.name,)
        return (self.objective,) if isinstance(self.objective, str) else self.objective

    @property
    def own_variants(self) -> Mapping[str, Objective]:
        objective = self.objective
        return {objective.name: objective} if isinstance(objective, Objective) else super().own_variants

    @property
    def rates(self) -> Mapping[str, Optimizer]:
        return {**super().rates, "discriminator_learning_rate": self.discriminator.optimizer}

    def check(self, hyperparameters, source, steps: int) -> None:
        fields = getattr(hyperparameters, "_fields", ())
        if "learning_rate" not in fields:
            raise ValueError(
                "hyperparameters: needs what OBJECTIVES[name].settings(…) returns, a NamedTuple with a learning_rate, "
                f"got {type(hyperparameters).__name__}"
            )
        weight = getattr(hyperparameters, "density_ratio", 0)
        if not self._row.discriminator and np.any(weight):
            raise ValueError(
                f"hyperparameters: the objective {'+'.join(self.trained)} has no discriminator, but density_ratio is "
                f"{weight}"
            )
        weighed = ("mutual_information", "total_correlation", "dimension_wise_kl")
        wanted = any(np.any(getattr(hyperparameters, name, 0) != 0) for name in weighed)
        if wanted and not objectives.estimable(self.batch_size, source.num_data, self.estimator):
            if source.num_data is None:
                raise ValueError(
                    f"estimator: {self.estimator} needs a finite data set; use locatello2020 for continuous factors"
                )
            raise ValueError(
                f"batch_size: {self.estimator} needs at least 2 and at most the number of images, {source.num_data}, "
                f"got {self.batch_size}"
            )
