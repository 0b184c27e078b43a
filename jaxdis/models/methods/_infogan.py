"""InfoGAN with the improved Wasserstein objective, as Eastwood & Williams (2018) train it."""

import dataclasses
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxdis._core import random
from jaxdis._core.options import Count
from jaxdis._core.platforms import on_cpu
from jaxdis.codes import Posterior
from jaxdis.models.methods._method import Variant, about_of, all_finite, averaged, divisor, split
from jaxdis.models.methods._resnet_vae import ResidualMethod, signed
from jaxdis.models.networks._architectures import PRODUCTS, apply, normalized
from jaxdis.models.networks._residual import begin

# Images of which the critic's gradients are taken at once on accelerators: with fewer, a zoo takes less memory.
CRITIC_BATCH = 16


class Settings(NamedTuple):
    """``information`` and ``penalty`` weigh the mutual information and the gradient penalty."""

    information: float = 6.0
    penalty: float = 10.0
    learning_rate: float = 1e-4


class Losses(NamedTuple):
    """Losses in the critic's last update, and in the generator's update.

    ``critic`` and ``generator`` are what the two networks minimize; ``distance`` is the Wasserstein estimate E D(x) − E
    D(G(c)), ``penalty`` the mean (‖∇D‖ − 1)², and ``information`` the bound on mutual information, nats.
    """

    critic: Array
    generator: Array
    distance: Array
    penalty: Array
    information: Array


class Model(NamedTuple):
    """``critic`` (with the posterior over codes), ``generator`` and the latter's running moments (``statistics``)."""

    critic: dict
    generator: dict
    statistics: dict


class State(NamedTuple):
    model: Model
    critic_moments: Any
    generator_moments: Any


@dataclasses.dataclass(frozen=True)
class InfoGan(ResidualMethod):
    """A generator that makes images from codes alone, and a critic whose trunk also predicts the codes from images.

    With codes c uniform in [−1, 1], D and the mean of Q(c|x) = N(m(x), I) outputs of one network, and G:

    - ``MI = mean(log Q(c|G(c)) − log N(c; 0, I))``, whose second term is a constant;
    - critic: ``E D(G(c)) − E D(x) + penalty · mean (‖∇D(x̂)‖ − 1)² − information · MI``, with x̂ at a random point
      between an image and a generated one, one point for each pair;
    - generator: ``−E D(G(c)) − information · MI``.

    An update moves the generator once (not in the first) and the critic ``critic_updates`` times, each with new images
    and codes. The critic is normalized over each image, the generator over the batch. Q's parameters belong to the
    critic. An image is represented by m(x), with variance 1.

    Attributes:
      critic_updates: how often the critic is updated per update of the generator. Both networks share ``optimizer``;
        the other fields are those in :class:`~jaxdis.models.ResnetVae`.

    Reference: Chen et al. 2016 (InfoGAN); Gulrajani et al. 2017 (gradient penalty); Eastwood & Williams 2018, §4.2 and
    appendix A, for 25,000 updates (50 epochs). Their critic has ten more outputs, which nothing reads, and their prior
    in the bound is normal although codes are drawn uniformly, as here.
    """

    critic_updates: Count = 5

    about: ClassVar = about_of("infogan")
    variants: ClassVar = {"infogan": Variant(Settings, "information", about=about)}
    losses: ClassVar = Losses

    def begin(self, key) -> State:
        critic_key, generator_key = jax.random.split(key)
        critic, _ = begin(critic_key, self._critic, jnp.zeros((1, *self.image_shape)))
        generator, statistics = begin(generator_key, self.decoder, jnp.zeros((1, self.num_codes)))
        model = Model(critic, generator, statistics)
        return State(model, self.optimizer.begin(critic), self.optimizer.begin(generator))

    def update(self, state: State, step, key, hyperparameters, source) -> tuple[State, Losses]:
        generator_key, critic_key = jax.random.split(key)

        def again(carry, key):
            state, finite = carry
            images_key, key = jax.random.split(key)
            images = signed(source.images(images_key, self.batch_size))
            state, losses, gradients = self._update_critic(state, key, hyperparameters, images)
            return (state, finite & all_finite((losses, gradients))), losses

        with jax.default_matmul_precision(PRODUCTS[self.precision]):
            new, generator_loss, gradients = self._update_generator(state, generator_key, hyperparameters)
            new = jax.tree.map(lambda after, before: jnp.where(step > 0, after, before), new, state)
            begun = (new, all_finite((generator_loss, gradients)))
            keys = jax.random.split(critic_key, self.critic_updates)
            (new, finite), losses = jax.lax.scan(again, begun, keys)
        last = jax.tree.map(lambda curve: curve[-1], losses)._replace(generator=generator_loss)
        state = jax.lax.cond(finite, lambda: new, lambda: state)
        return state, jax.tree.map(lambda loss: jnp.where(finite, loss, jnp.nan), last)

    def _update_generator(self, state: State, key, hyperparameters) -> tuple[State, Array, Any]:
        model, codes = state.model, self._codes(key)

        def loss(params):
            images, statistics = self._generated(model._replace(generator=params), codes)
            return self.generator_loss(model.critic, codes, images, hyperparameters), statistics

        (value, statistics), gradients = jax.value_and_grad(loss, has_aux=True)(model.generator)
        rate = hyperparameters.learning_rate
        params, moments = self.optimizer.descend(model.generator, state.generator_moments, gradients, rate)
        model = model._replace(generator=params, statistics=statistics)
        return state._replace(model=model, generator_moments=moments), value, gradients

    def _update_critic(self, state: State, key, hyperparameters, images) -> tuple[State, Losses, Any]:
        code_key, place_key = jax.random.split(key)
        codes = self._codes(code_key)
        fakes, statistics = self._generated(state.model, codes)
        places = random.uniform(place_key, (self.batch_size, 1, 1, 1))

        def loss(params, *parts):
            return self.critic_loss(params, *parts, hyperparameters)

        # Images do not depend on each other.
        size = self.batch_size if on_cpu() else divisor(self.batch_size, CRITIC_BATCH // 2, CRITIC_BATCH)
        parts = [split(part, size) for part in (codes, fakes, images, places)]
        gradients, losses = averaged(jax.grad(loss, has_aux=True), state.model.critic, parts)
        rate = hyperparameters.learning_rate
        params, moments = self.optimizer.descend(state.model.critic, state.critic_moments, gradients, rate)
        model = state.model._replace(critic=params, statistics=statistics)
        return state._replace(model=model, critic_moments=moments), losses, gradients

    def generator_loss(self, critic: dict, codes: Array, images: Array, hyperparameters) -> Array:
        """``−E D(G(c)) − information · MI``, for generated images in [−1, 1]."""
        values, means = self._criticized(critic, images)
        return -values.mean() - hyperparameters.information * information(codes, means)

    def critic_loss(
        self, critic: dict, codes: Array, fakes: Array, images: Array, places: Array, hyperparameters
    ) -> tuple[Array, Losses]:
        """The loss that one critic update minimizes, and its parts, for codes, what the generator makes of them, and
        images.

        Between image (0) and fake (1), the gradient is taken at ``places [n, 1, 1, 1]``. Pixels are in [−1, 1].
        """
        values, means = self._criticized(critic, jnp.concatenate([fakes, images]))
        values, n = jnp.split(values, 2), len(codes)
        distance, bound = values[1].mean() - values[0].mean(), information(codes, means[:n])
        slope = jax.grad(lambda images: self._criticized(critic, images)[0].sum())(images + places * (fakes - images))
        # Without the small constant, the derivative of the norm at 0 is not finite.
        norm = jnp.sqrt(jnp.square(slope).sum((1, 2, 3)) + 1e-12)
        penalty = jnp.square(norm - 1).mean()
        loss = -distance + hyperparameters.penalty * penalty - hyperparameters.information * bound
        return loss, Losses(loss, jnp.zeros(()), distance, penalty, bound)

    def represent(self, params: Model, images: Array) -> Posterior:
        with jax.default_matmul_precision(PRODUCTS[self.precision]):
            means = self._criticized(params.critic, signed(images))[1]
        return Posterior(means, jnp.ones_like(means))

    def decode(self, params: Model, codes: Float[Array, "n d"]) -> Float[Array, "n h w c"]:
        with jax.default_matmul_precision(PRODUCTS[self.precision]):
            return 0.5 * (self._generated(params, codes, training=False)[0] + 1)

    def _codes(self, key) -> Float[Array, "n d"]:
        return random.uniform(key, (self.batch_size, self.num_codes), minval=-1.0, maxval=1.0)

    def _generated(self, model: Model, codes: Array, *, training: bool = True) -> tuple[Array, dict]:
        """Images in [−1, 1], and the running moments after them."""
        return normalized(self.decoder, model.generator, model.statistics, codes, training=training)

    def _criticized(self, critic: dict, images: Array) -> tuple[Float[Array, " n"], Float[Array, "n d"]]:
        """D and Q's means for images in [−1, 1]."""
        outputs = apply(self._critic, critic, images, training=True)
        return outputs[:, 0], outputs[:, 1:]

    @property
    def _critic(self):
        """It is normalized over each image, so that the penalty concerns one image at a time."""
        return self.encoder(1 + self.num_codes, by_batch=False)


def information(codes: Float[Array, "n d"], means: Float[Array, "n d"]) -> Float[Array, ""]:
    """``mean(log N(c; m, I) − log N(c; 0, I))``, nats."""
    return 0.5 * (jnp.square(codes) - jnp.square(codes - means)).sum(1).mean()
