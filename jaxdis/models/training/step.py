"""One update of one member: a pure function, the same for every objective."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from jaxdis.models.config import Config, objective_of
from jaxdis.models.networks.autoencoder import Autoencoder
from jaxdis.models.objectives.distributions import negative_log_likelihood, sample
from jaxdis.models.objectives.losses import Losses, Terms, divergence
from jaxdis.models.training import discriminator
from jaxdis.models.training.source import Source
from jaxdis.typing import Array, Float


@dataclasses.dataclass(frozen=True)
class Program:
    """A config, and images per micro-batch (None: the whole batch), which changes its numbers by rounding alone."""

    config: Config
    micro_batch: int | None = None

    @classmethod
    def of(cls, config: Config, micro_batch: int | None = None) -> "Program":
        """The program without the number of steps and the name of the data, so that these do not recompile it.

        Raises:
          ValueError: for a micro-batch that does not divide the batch.
        """
        if micro_batch is not None and (micro_batch < 1 or config.batch_size % micro_batch):
            raise ValueError(f"micro_batch: needs a divisor of the batch size {config.batch_size}, got {micro_batch}")
        return cls(dataclasses.replace(config, steps=1, data=""), micro_batch)

    @property
    def autoencoder(self) -> Autoencoder:
        return self.config.autoencoder(self.micro_batch)


class State(NamedTuple):
    """Everything that training carries from one update to the next, for one member.

    Attributes:
      params, moments: the autoencoder's parameters and the state of its optimizer.
      discriminator, discriminator_moments: those of the discriminator; ``()`` without one.
      step: updates done.
      stopped: the update that was rejected because its loss or gradient was not finite; −1 if there is none.
    """

    params: Any
    moments: Any
    discriminator: Any
    discriminator_moments: Any
    step: Array
    stopped: Array


def begin(program: Program, key) -> State:
    """A fresh member. Parameters are drawn with ``fold_in(key, 2³¹ − 1)``; updates fold in their own number."""
    config = program.config
    params_key, discriminator_key = jax.random.split(jax.random.fold_in(key, 2**31 - 1))
    params = config.network.init(params_key)
    against = moments_against = ()
    if objective_of(config).discriminator:
        blank = jnp.zeros((1, *config.network.image_shape))
        num_codes = jax.eval_shape(config.network.encode, params, blank)[0].shape[1]
        against = config.discriminator.network.init(discriminator_key, num_codes)
        moments_against = optimizer(config.discriminator.optimizer).init(against)
    moments = optimizer(config.optimizer).init(params)
    return State(params, moments, against, moments_against, jnp.zeros((), jnp.int32), jnp.full((), -1, jnp.int32))


def update(program: Program, state: State, key, hyperparameters, source: Source) -> tuple[State, Losses]:
    """One update. If the loss or the gradient of this member is not finite, it is left unchanged from then on.

    Args:
      program: static.
      state: the member's.
      key: the member's; the update's own key is ``fold_in(key, step)``.
      hyperparameters: NamedTuple of scalars of the member's objective.
      source: images.
    """
    config = program.config
    data_key, noise_key, discriminator_key = jax.random.split(jax.random.fold_in(key, state.step), 3)
    has_discriminator = objective_of(config).discriminator
    split = has_discriminator and config.discriminator.order == "split_batch"
    images = source.images(data_key, config.batch_size * (2 if split else 1))
    first, second = (images[: config.batch_size], images[config.batch_size :]) if split else (images, images)

    def loss(params):
        return autoencoder_loss(program, params, state, noise_key, hyperparameters, first, source.num_data)

    gradients, (losses, codes) = jax.grad(loss, has_aux=True)(state.params)

    def descend(state: State) -> tuple[State, Array]:
        rate = hyperparameters.learning_rate
        params, moments = _descend(config.optimizer, state.params, state.moments, gradients, rate)
        new = state._replace(params=params, moments=moments, step=state.step + 1)
        if not has_discriminator:
            return new, jnp.zeros(())
        return _update_discriminator(program, new, state, discriminator_key, hyperparameters, codes, second)

    def stop(state: State) -> tuple[State, Array]:
        return state._replace(stopped=jnp.where(state.stopped < 0, state.step, state.stopped)), jnp.zeros(())

    finite = jnp.isfinite(losses.loss) & _all_finite(gradients)
    # A condition rather than a selection: on CPU it leaves the parameters in place.
    state, discriminator_loss = jax.lax.cond(finite & (state.stopped < 0), descend, stop, state)
    return state, losses._replace(discriminator=discriminator_loss)


def _update_discriminator(
    program: Program, new: State, old: State, key, hyperparameters, codes, images
) -> tuple[State, Array]:
    """The discriminator's update. If it is not finite, the autoencoder's update is rejected with it."""
    loss, gradients = discriminator.gradients(program, old, new.params, key, codes, images)
    rate, settings = hyperparameters.discriminator_learning_rate, program.config.discriminator
    params, moments = _descend(settings.optimizer, old.discriminator, old.discriminator_moments, gradients, rate)
    finite = jnp.isfinite(loss) & _all_finite(gradients)
    new = new._replace(discriminator=params, discriminator_moments=moments)
    stopped = old._replace(stopped=old.step)
    return jax.lax.cond(finite, lambda: new, lambda: stopped), loss


def run_block(program: Program, state: State, key, hyperparameters, source: Source, count) -> tuple[State, Losses]:
    """``count`` updates of one member and their mean losses. The count is traced: a shorter last block recompiles
    nothing."""

    def one_more(_, carry):
        state, total = carry
        state, losses = update(program, state, key, hyperparameters, source)
        return state, jax.tree.map(jnp.add, total, losses)

    zero = Losses(*(jnp.zeros(()) for _ in Losses._fields))
    state, total = jax.lax.fori_loop(0, count, one_more, (state, zero))
    return state, jax.tree.map(lambda leaf: leaf / jnp.float32(count), total)


def autoencoder_loss(
    program: Program, params, state: State, noise_key, hyperparameters, images: Float[Array, "n h w c"], num_data: int
):
    """What the encoder and the decoder minimize on one batch.

    Returns:
      The loss, and ``(Losses, codes [n, d])``.
    """
    config = program.config
    objective = objective_of(config)
    mean, log_variance = program.autoencoder.encode(params, images)
    codes = sample(noise_key, mean, log_variance)

    def likelihood(logits, images):
        return negative_log_likelihood(logits, images, config.reconstruction, config.subtract_entropy)

    total = program.autoencoder.decoded_loss(params, codes, images, likelihood)
    logits = None
    if objective.discriminator:
        logits = config.discriminator.network.logits(jax.lax.stop_gradient(state.discriminator), codes)
    terms = Terms(total / images.shape[0], mean, log_variance, codes, state.step, logits, num_data, config.estimator)
    loss = objective.loss(terms, hyperparameters)
    losses = Losses(loss, terms.reconstruction, divergence(terms), jnp.zeros(()))
    if objective.discriminator and config.discriminator.encoder_sees_discriminator:
        loss = loss + discriminator.joint_loss(config.discriminator, logits)
    return loss, (losses, codes)


def optimizer(adam) -> optax.GradientTransformation:
    """Adam's direction; the step length is the member's own learning rate."""
    return optax.scale_by_adam(adam.b1, adam.b2, adam.epsilon)


def _descend(adam, params, moments, gradients, learning_rate):
    with jax.numpy_dtype_promotion("standard"):  # optax raises a float to the power of an int32 count
        directions, moments = optimizer(adam).update(gradients, moments)
    return jax.tree.map(lambda leaf, direction: leaf - learning_rate * direction, params, directions), moments


def _all_finite(tree) -> Array:
    """Whether the sum of squares is finite, in one pass; an overflowing square is reason enough to stop."""
    return jnp.isfinite(sum(jnp.square(leaf).sum() for leaf in jax.tree.leaves(tree)))
