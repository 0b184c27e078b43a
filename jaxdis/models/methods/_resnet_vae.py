"""Eastwood & Williams's (2018) residual networks, and their variational autoencoder with batch normalization."""

import dataclasses
from typing import Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxdis._core.options import Count, Units
from jaxdis.codes import Posterior
from jaxdis.models.methods._method import Adam, Method, Model, Variant, about_of, accepted
from jaxdis.models.networks._architectures import PRODUCTS, normalized
from jaxdis.models.networks._residual import ResidualDecoder, ResidualEncoder, begin
from jaxdis.models.objectives._losses import divergence, sample


@dataclasses.dataclass(frozen=True)
class ResidualMethod(Method):
    channels: tuple[Units, ...] = (64, 128, 256, 512, 512)
    num_codes: Units = 10
    batch_size: Count = 64
    precision: Literal["float32", "tensorfloat32"] = "float32"
    optimizer: Any = Adam(b1=0.0, b2=0.9)

    def __post_init__(self):
        super().__post_init__()
        scale = 2 ** max(len(self.channels) - 1, 0)
        if not self.channels or any(side % scale for side in (self.image_shape or ())[:2]):
            needed = f"at least one entry, and images with sides divisible by {scale}"
            raise ValueError(f"channels: needs {needed}, got {self.channels} for images of shape {self.image_shape}")

    def encoder(self, num_outputs: int, *, by_batch: bool) -> ResidualEncoder:
        return ResidualEncoder(self.channels, num_outputs, by_batch)

    @property
    def decoder(self) -> ResidualDecoder:
        return ResidualDecoder(self.channels[::-1], self.image_shape)


def signed(images: Array) -> Array:
    """Pixels in [−1, 1] from pixels in [0, 1]."""
    return 2 * images - 1


class Settings(NamedTuple):
    """``beta`` weighs the KL divergence."""

    beta: float = 1.0
    learning_rate: float = 1e-4


class Losses(NamedTuple):
    """Per image: ``loss`` = ``reconstruction`` (squared error, pixels in [−1, 1]) + β ``kl`` (nats)."""

    loss: Array
    reconstruction: Array
    kl: Array


class State(NamedTuple):
    """The model has ``params`` and ``statistics`` for ``encoder`` and ``decoder``."""

    model: Model
    moments: Any


@dataclasses.dataclass(frozen=True)
class ResnetVae(ResidualMethod):
    """A variational autoencoder with residual networks, batch normalization and squared error.

    ``L = mean over images of Σ (x − x̂)² + β KL(q(c|x) ‖ N(0, I))``, with pixels in [−1, 1] and a decoder that ends in
    tanh. Without a factor ½, a pixel's implied variance is ½: β = 1 here weighs the KL divergence like β = ½ with
    ``reconstruction="squared_error"`` in :class:`~jaxdis.models.Vae` and pixels in [−1, 1].

    - Running moments belong to the state, and :meth:`represent` and :meth:`decode` use them: no image depends on
      another.
    - The code is the posterior mean.

    Attributes:
      channels: after the first convolution and after each block. The default is the paper's, for 64 × 64 images.
      num_codes: latent coordinates.
      batch_size: images per update.
      precision: in matrix products: ``float32``, or ``tensorfloat32`` on accelerators.
      optimizer: the paper states Adam at 1e-4; its momentum 0 and decay 0.9 are from the released code.

    Reference: Eastwood & Williams 2018, §4.2 and appendix A, with β = 1 and 6 for 125,000 updates (50 epochs).
    """

    about: ClassVar = about_of("resnet_vae")
    variants: ClassVar = {"resnet_vae": Variant(Settings, "beta", about=about)}
    losses: ClassVar = Losses
    has_prior: ClassVar = True

    def begin(self, key) -> State:
        encoder_key, decoder_key = jax.random.split(key)
        encoder, of_encoder = begin(encoder_key, self._network("encoder"), jnp.zeros((1, *self.image_shape)))
        decoder, of_decoder = begin(decoder_key, self._network("decoder"), jnp.zeros((1, self.num_codes)))
        params, statistics = {"encoder": encoder, "decoder": decoder}, {"encoder": of_encoder, "decoder": of_decoder}
        return State(Model(params, statistics), self.optimizer.begin(params))

    def update(self, state: State, step, key, hyperparameters, source) -> tuple[State, Losses]:
        data_key, noise_key = jax.random.split(key)
        images = source.images(data_key, self.batch_size)

        def loss(params):
            return self.loss(Model(params, state.model.statistics), noise_key, hyperparameters.beta, images)

        with jax.default_matmul_precision(PRODUCTS[self.precision]):
            gradients, (losses, statistics) = jax.grad(loss, has_aux=True)(state.model.params)

        def new() -> State:
            rate = hyperparameters.learning_rate
            params, moments = self.optimizer.descend(state.model.params, state.moments, gradients, rate)
            return State(Model(params, statistics), moments)

        return accepted((losses, gradients, statistics), new, state, losses)

    def loss(self, model: Model, noise_key, beta, images: Array) -> tuple[Array, tuple[Losses, dict]]:
        """The loss that one update minimizes, and ``(losses, running moments after it)``."""
        outputs, of_encoder = self._run("encoder", model, signed(images), training=True)
        mean, log_variance = jnp.split(outputs, 2, axis=1)
        codes = sample(noise_key, mean, log_variance)
        decoded, of_decoder = self._run("decoder", model, codes, training=True)
        reconstruction = jnp.square(signed(images) - decoded).sum((1, 2, 3)).mean()
        kl = divergence(mean, log_variance)
        loss = reconstruction + beta * kl
        return loss, (Losses(loss, reconstruction, kl), {"encoder": of_encoder, "decoder": of_decoder})

    def represent(self, params: Model, images: Array) -> Posterior:
        with jax.default_matmul_precision(PRODUCTS[self.precision]):
            outputs, _ = self._run("encoder", params, signed(images), training=False)
        mean, log_variance = jnp.split(outputs, 2, axis=1)
        return Posterior(mean, jnp.exp(log_variance))

    def decode(self, params: Model, codes: Float[Array, "n d"]) -> Float[Array, "n h w c"]:
        with jax.default_matmul_precision(PRODUCTS[self.precision]):
            return 0.5 * (self._run("decoder", params, codes, training=False)[0] + 1)

    def _run(self, name: str, model: Model, inputs: Array, *, training: bool) -> tuple[Array, dict]:
        params, statistics = model.params[name], model.statistics[name]
        return normalized(self._network(name), params, statistics, inputs, training=training)

    def _network(self, name: str):
        return self.decoder if name == "decoder" else self.encoder(2 * self.num_codes, by_batch=True)
