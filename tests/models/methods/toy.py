"""A toy method of two players with its own state and losses, written as a user would."""

import dataclasses
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdis.models import About, Adam, Method, Posterior, Variant, accepted


class ToySettings(NamedTuple):
    learning_rate: float = 1e-2
    pull: float = 1.0


class ToyLosses(NamedTuple):
    critic: jax.Array
    generator: jax.Array


class ToyState(NamedTuple):
    encoder: jax.Array
    critic: jax.Array
    moments: tuple
    average: jax.Array


@dataclasses.dataclass(frozen=True)
class ToyGan(Method):
    """Codes that a linear critic cannot tell from noise; the critic is updated first, on the labels as well."""

    num_codes: int = 2
    batch_size: int = 8
    optimizer: Adam = Adam()

    about: ClassVar = About("Toy GAN", "Matches codes to noise.", ())
    losses: ClassVar = ToyLosses
    default_steps: ClassVar = 12
    needs_labels: ClassVar = True
    variants: ClassVar = {"toy_gan": Variant(ToySettings, "pull", about=about)}

    def begin(self, key):
        encoder = 0.1 * jax.random.normal(key, (int(np.prod(self.image_shape)), self.num_codes))
        critic = jnp.zeros(self.num_codes)
        moments = (self.optimizer.begin(encoder), self.optimizer.begin(critic))
        return ToyState(encoder, critic, moments, jnp.zeros(()))

    def update(self, state, step, key, hyperparameters, source):
        images, labels = source.examples(key, self.batch_size)
        flat, noise = images.reshape(len(images), -1), jax.random.normal(key, (len(images), self.num_codes))
        target = labels.mean().astype(jnp.float32)

        def of_critic(critic):
            return ((flat @ state.encoder - noise) @ critic).mean() + jnp.square(critic).sum()

        critic_loss, slope = jax.value_and_grad(of_critic)(state.critic)
        rate = hyperparameters.learning_rate
        critic, critic_moments = self.optimizer.descend(state.critic, state.moments[1], slope, rate)

        def of_encoder(encoder):
            codes = flat @ encoder
            return hyperparameters.pull * jnp.square(codes.mean() - target) - (codes @ critic).mean()

        loss, slope = jax.value_and_grad(of_encoder)(state.encoder)

        def new():
            encoder, moments = self.optimizer.descend(state.encoder, state.moments[0], slope, rate)
            return ToyState(encoder, critic, (moments, critic_moments), 0.9 * state.average + 0.1 * loss)

        return accepted((critic_loss, loss, slope), new, state, ToyLosses(critic_loss, loss))

    def params(self, state):
        return state.encoder

    def represent(self, params, images):
        codes = images.reshape(len(images), -1) @ params
        return Posterior(codes, jnp.zeros_like(codes))
