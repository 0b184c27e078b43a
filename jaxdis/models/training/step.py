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
from jaxdis.models.training import adversary
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

    ``judge`` and ``judge_moments`` are the discriminator's, ``()`` without one. ``step``: updates done. ``stopped``:
    the update whose loss or gradient was not finite and that was not made, or −1.
    """

    params: Any
    moments: Any
    judge: Any
    judge_moments: Any
    step: Array
    stopped: Array


def begin(program: Program, key) -> State:
    """A fresh member. ``fold_in(key, 2³¹ − 1)`` of its key draws the parameters; updates fold in their number."""
    config = program.config
    params_key, judge_key = jax.random.split(jax.random.fold_in(key, 2**31 - 1))
    params = config.network.init(params_key)
    judge = judge_moments = ()
    if objective_of(config).adversarial:
        num_codes = jax.eval_shape(config.network.encode, params, _blank(config))[0].shape[1]
        judge = config.adversary.network.init(judge_key, num_codes)
        judge_moments = optimizer(config.adversary.optimizer).init(judge)
    moments = optimizer(config.optimizer).init(params)
    return State(params, moments, judge, judge_moments, jnp.zeros((), jnp.int32), jnp.full((), -1, jnp.int32))


def update(program: Program, state: State, key, hyperparameters, source: Source) -> tuple[State, Losses]:
    """One update; none, now and ever after, if the loss or the gradient of this member is not finite.

    Args:
      program: static.
      state: the member's.
      key: the member's; the update's own key is ``fold_in(key, step)``.
      hyperparameters: NamedTuple of scalars of the member's objective.
      source: images.
    """
    config = program.config
    data_key, noise_key, judge_key = jax.random.split(jax.random.fold_in(key, state.step), 3)
    adversarial = objective_of(config).adversarial
    split = adversarial and config.adversary.order == "split_batch"
    images = source.images(data_key, config.batch_size * (2 if split else 1))
    first, second = (images[: config.batch_size], images[config.batch_size :]) if split else (images, images)

    def loss(params):
        return autoencoder_loss(program, params, state, noise_key, hyperparameters, first, source.num_data)

    gradients, (losses, codes) = jax.grad(loss, has_aux=True)(state.params)

    def descend(state: State) -> tuple[State, Array]:
        rate = hyperparameters.learning_rate
        params, moments = _descend(config.optimizer, state.params, state.moments, gradients, rate)
        new = state._replace(params=params, moments=moments, step=state.step + 1)
        if not adversarial:
            return new, jnp.zeros(())
        return _judge(program, new, state, judge_key, hyperparameters, codes, second)

    def stop(state: State) -> tuple[State, Array]:
        return state._replace(stopped=jnp.where(state.stopped < 0, state.step, state.stopped)), jnp.zeros(())

    sound = jnp.isfinite(losses.loss) & _all_finite(gradients)
    # A condition, not a selection: on CPU it leaves the parameters in place.
    state, judge_loss = jax.lax.cond(sound & (state.stopped < 0), descend, stop, state)
    return state, losses._replace(discriminator=judge_loss)


def _judge(program: Program, new: State, old: State, key, hyperparameters, codes, images) -> tuple[State, Array]:
    """The discriminator's update. One that is not finite takes the autoencoder's back with it."""
    settings = program.config.adversary
    loss, gradients = adversary.gradients(program, old, new.params, key, codes, images)
    rate = hyperparameters.discriminator_learning_rate
    judge, moments = _descend(settings.optimizer, old.judge, old.judge_moments, gradients, rate)
    sound = jnp.isfinite(loss) & _all_finite(gradients)
    new = new._replace(judge=judge, judge_moments=moments)
    stopped = old._replace(stopped=old.step)
    return jax.lax.cond(sound, lambda: new, lambda: stopped), loss


def run_block(program: Program, state: State, key, hyperparameters, source: Source, count) -> tuple[State, Losses]:
    """``count`` updates of one member and their mean losses; traced, so that a short last block is the same program."""

    def one_more(_, carry):
        state, total = carry
        state, losses = update(program, state, key, hyperparameters, source)
        return state, jax.tree.map(jnp.add, total, losses)

    nothing = Losses(*(jnp.zeros(()) for _ in Losses._fields))
    state, total = jax.lax.fori_loop(0, count, one_more, (state, nothing))
    return state, jax.tree.map(lambda leaf: leaf / jnp.float32(count), total)


def autoencoder_loss(
    program: Program, params, state: State, noise_key, hyperparameters, images: Float[Array, "n h w c"], num_data: int
):
    """What encoder and decoder minimize on one batch.

    Returns:
      The loss, and ``(Losses, codes [n, d])``.
    """
    config = program.config
    objective = objective_of(config)
    n = images.shape[0]
    mean, log_variance = program.autoencoder.encode(params, images)
    codes = sample(noise_key, mean, log_variance)

    def likelihood(logits, images):
        return negative_log_likelihood(logits, images, config.reconstruction, config.subtract_entropy)

    reconstruction = program.autoencoder.decoded_loss(params, codes, images, likelihood) / n
    judged = None
    if objective.adversarial:
        judged = config.adversary.network.logits(jax.lax.stop_gradient(state.judge), codes)
    terms = Terms(reconstruction, mean, log_variance, codes, state.step, judged, num_data, config.estimator)
    loss = objective.loss(terms, hyperparameters)
    losses = Losses(loss, reconstruction, divergence(terms), jnp.zeros(()))
    if objective.adversarial and config.adversary.encoder_sees_discriminator:
        loss = loss + adversary.joint_loss(config.adversary, judged)
    return loss, (losses, codes)


def optimizer(adam) -> optax.GradientTransformation:
    """Adam's direction; the step length is the member's own learning rate."""
    return optax.scale_by_adam(adam.b1, adam.b2, adam.epsilon)


def _descend(adam, params, moments, gradients, learning_rate):
    with jax.numpy_dtype_promotion("standard"):  # optax raises a float to the power of an int32 count
        directions, moments = optimizer(adam).update(gradients, moments)
    return jax.tree.map(lambda leaf, direction: leaf - learning_rate * direction, params, directions), moments


def _all_finite(tree) -> Array:
    """Whether a sum of squares is finite (one pass, and an overflowing square is as good a reason to stop)."""
    return jnp.isfinite(sum(jnp.square(leaf).sum() for leaf in jax.tree.leaves(tree)))


def _blank(config: Config) -> Array:
    return jnp.zeros((1, *config.network.image_shape))
