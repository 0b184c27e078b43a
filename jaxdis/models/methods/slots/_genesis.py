"""GENESIS: slots with a code of their mask and a code of what it shows, each with a learned prior."""

import dataclasses
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxdis._core import random
from jaxdis._core.options import Counts, Units
from jaxdis.models._variant import About, Variant
from jaxdis.models.methods.slots._base import Model, SlotMethod, masked, over_slots
from jaxdis.models.methods.slots._mixture import log_normal, mixture_error, softplus_deviation, stick_breaking
from jaxdis.models.networks._components import BroadcastDecoder, SlotEncoder
from jaxdis.models.networks._gated import GatedDecoder, GatedEncoder
from jaxdis.models.networks._initialization import draw
from jaxdis.models.networks._normalization import BatchNorm, begin_statistics
from jaxdis.models.networks._recurrent import Memory, begin_lstm, lstm
from jaxdis.models.networks._stacks import dense, dense_shape, perceptron, perceptron_shapes

SETTINGS = {
    "goal": "GECO's goal for the error, nats for each pixel and channel",
    "least": "GECO's least weight of the KL divergences",
    "step": "GECO's step length for images of 64 × 64 pixels",
    "deviation": "standard deviation of a pixel under a slot",
}


class Settings(NamedTuple):
    """See :data:`SETTINGS`; Engelcke et al. 2020, for Multi-dSprites.

    No error is below ``log(deviation) + 0.919`` per pixel and channel: a lower goal cannot be met.
    """

    goal: float = 0.5655
    least: float = 1e-10
    step: float = 1e-5
    deviation: float = 0.7
    learning_rate: float = 1e-4


class Losses(NamedTuple):
    """Per image, nats: ``loss = error + multiplier (kl + mask_kl)``; ``multiplier`` is 0 without regularization."""

    loss: Array
    error: Array
    kl: Array
    mask_kl: Array
    multiplier: Array


class Draw(NamedTuple):
    """Posteriors and draws of codes, ``[s, n, d]`` each."""

    mean: Array
    deviation: Array
    codes: Array

    @classmethod
    def of(cls, outputs: Array, noise: Array) -> "Draw":
        """From the outputs of an encoder."""
        mean, raw = jnp.split(outputs, 2, axis=-1)
        deviation = softplus_deviation(raw)
        return cls(mean, deviation, mean + deviation * noise)

    def divergence(self, prior: tuple[Array, Array]) -> Array:
        """``log q − log p`` of the draws, summed over slots and codes, mean over images."""
        terms = log_normal(self.codes, self.mean, self.deviation) - log_normal(self.codes, *prior)
        return terms.sum((0, 2)).mean()


@dataclasses.dataclass(frozen=True)
class Genesis(SlotMethod):
    """GENESIS (Engelcke et al. 2020), with the weight of its KL divergences controlled by GECO.

    A convolutional network extracts features ``h`` from the image, and a recurrent one codes of masks: ``q(u_1 | h)``,
    and ``q(u_k | h, u_{k−1}, …)``. Each is decoded to a map of logits, and the masks ``m_k`` follow by stick breaking,
    where the last mask is the remainder and its logits are not used. An autoencoder encodes every ``(log m_k, x)`` as
    ``q(z_k)`` and decodes a draw of it to a picture. With priors ``p(u_1) = N(0, I)``, ``p(u_k | u_{k−1}, …)`` by
    another recurrent network and ``p(z_k | u_k)`` by a perceptron, and per image,

    - ``error = −Σ log Σ_k m_k N(x; picture_k, σ²)``;
    - ``mask_kl = Σ_k log q(u_k) − log p(u_k)`` and ``kl = Σ_k log q(z_k) − log p(z_k)`` of the draws;
    - ``L = error + β (mask_kl + kl)``, where GECO moves β. Without regularization, ``L = error``.

    The code of a slot is the means of ``u_k`` and then of ``z_k``; each mean of ``u_k`` follows from those before it.

    Attributes:
      num_mask_codes: length of ``u_k``.
      mask_encoder, mask_strides: channels and strides of the gated convolutions of the image. The defaults are for
        64 × 64 pixels; for 128 × 128, the released code has strides (2, 2, 2, 1, 1).
      mask_decoder: channels of the coarsest map and of every map after it, whose strides are ``mask_strides`` reversed.
      features: length of h.
      units, prior_units: of the recurrent networks of posteriors and of priors; the latter also of the perceptron.
      encoder, encoder_hidden, decoder: as in :class:`~jaxdis.models.Monet`.

    Reference: Engelcke et al. 2020, appendix, in the form of their released code, with Adam at 1e-4.
    """

    num_mask_codes: Units = 64
    mask_encoder: Counts = (32, 32, 64, 64, 64)
    mask_strides: Counts = (1, 2, 1, 2, 1)
    mask_decoder: Counts = (64, 64, 32, 32, 32, 32)
    features: Units = 256
    units: Units = 128
    prior_units: Units = 256
    encoder: Counts = (32, 32, 64, 64)
    encoder_hidden: Units = 256
    decoder: Counts = (32, 32, 32, 32)

    about: ClassVar = About(
        "GENESIS",
        "Draws masks and what they show from autoregressive codes with learned priors.",
        ("engelcke2020", "rezende2018", "dangnhu2022"),
        SETTINGS,
    )
    losses: ClassVar = Losses
    has_prior: ClassVar = False

    def __post_init__(self):
        super().__post_init__()
        if self.micro_batch not in (None, self.batch_size):
            raise ValueError("micro_batch: needs None, since the batch is normalized as a whole")
        lengths = len(self.mask_encoder), len(self.mask_strides), len(self.mask_decoder) - 1
        if len(set(lengths)) > 1 or not set(self.mask_strides) <= {1, 2}:
            raise ValueError(
                "mask_strides: needs 1 or 2 for each of mask_encoder and of mask_decoder but its first, got "
                f"{self.mask_strides}"
            )

    @property
    def code_kinds(self) -> tuple[str, ...]:
        return ("mask",) * self.num_mask_codes + ("component",) * self.num_codes

    @property
    def networks(self) -> dict[str, Any]:
        size, channels = self.image_shape[:2], self.image_shape[2]
        shape = (*size, channels + 1)
        elu = jax.nn.elu
        return {
            "mask_encoder": GatedEncoder(self.mask_encoder, self.mask_strides, self.features, self.image_shape),
            "mask_decoder": GatedDecoder(self.num_mask_codes, self.mask_decoder, self.mask_strides[::-1], size),
            "encoder": SlotEncoder(self.encoder, self.encoder_hidden, 2 * self.num_codes, shape, elu),
            "decoder": BroadcastDecoder(self.num_codes, self.decoder, channels, size, elu),
        }

    def begin_model(self, key) -> Model:
        networks = self.networks.items()
        *keys, rest_key, posterior_key, prior_key = jax.random.split(key, len(networks) + 3)
        params = {name: network.begin(key) for key, (name, network) in zip(keys, networks, strict=True)}
        u = self.num_mask_codes
        shapes = {
            "first": dense_shape(self.features, 2 * u),
            "next": dense_shape(self.units, 2 * u),
            "prior": dense_shape(self.prior_units, 2 * u),
            "component_prior": perceptron_shapes(u, (self.prior_units, self.prior_units, 2 * self.num_codes)),
        }
        params |= draw(rest_key, shapes, "torch")
        params["memory"] = begin_lstm(posterior_key, self.features + u, self.units)
        params["prior_memory"] = begin_lstm(prior_key, u, self.prior_units)
        return Model(params, {name: begin_statistics(params[name]) for name in ("mask_encoder", "mask_decoder")})

    def noise(self, key, n: int) -> tuple[Array, Array]:
        mask_key, key = jax.random.split(key)
        lengths = ((mask_key, self.num_mask_codes), (key, self.num_codes))
        return tuple(random.normal(key, (self.num_slots, n, length)) for key, length in lengths)

    def loss(
        self, model: Model, multiplier, noise, hyperparameters: Settings, images
    ) -> tuple[Array, tuple[Losses, dict]]:
        h, (mask_noise, noise) = hyperparameters, noise
        norms = self._norms(model, training=True)
        of_masks = self._mask_codes(model.params, norms, images, mask_noise)
        log_masks = self._log_masks(model.params, norms, of_masks.codes)
        of_pictures = self._picture_codes(model.params, images, log_masks, noise)
        pictures = self._pictures(model.params, of_pictures.codes)
        deviations = jnp.repeat(h.deviation, self.num_slots)
        error = mixture_error(images, pictures, log_masks, deviations, self.mixture).mean()
        mask_kl = of_masks.divergence(self._mask_prior(model.params, of_masks.codes))
        kl = of_pictures.divergence(self._picture_prior(model.params, of_masks.codes))
        statistics = {name: norm.moved for name, norm in norms.items()}
        if not self.regularized:
            return error, (Losses(error, error, kl, mask_kl, jnp.zeros(())), statistics)
        loss = error + multiplier * (kl + mask_kl)
        return loss, (Losses(loss, error, kl, mask_kl, multiplier), statistics)

    def explain(self, model: Model, images) -> tuple[Array, Array, Array]:
        norms = self._norms(model, training=False)
        silence = jnp.zeros((self.num_slots, 1, 1))
        mask_codes = self._mask_codes(model.params, norms, images, silence).codes
        log_masks = self._log_masks(model.params, norms, mask_codes)
        codes = self._picture_codes(model.params, images, log_masks, silence).codes
        return jnp.concatenate([mask_codes, codes], -1), jnp.exp(log_masks), self._pictures(model.params, codes)

    def draw(self, model: Model, codes) -> tuple[Array, Array]:
        mask_codes, codes = jnp.split(codes, [self.num_mask_codes], axis=-1)
        log_masks = self._log_masks(model.params, self._norms(model, training=False), mask_codes)
        return jnp.exp(log_masks), self._pictures(model.params, codes)

    def _norms(self, model: Model, *, training: bool) -> dict[str, BatchNorm]:
        return {name: BatchNorm(moments, training=training) for name, moments in model.statistics.items()}

    def _mask_codes(self, params: dict, norms: dict, images, noise) -> Draw:
        n = len(images)
        features = self.networks["mask_encoder"](params["mask_encoder"], images, norms["mask_encoder"])
        first = Draw.of(dense(params["first"], features), noise[0])

        def one_more(carry, noise):
            codes, memory = carry
            memory = lstm(params["memory"], jnp.concatenate([features, codes], axis=1), memory)
            drawn = Draw.of(dense(params["next"], memory.hidden), noise)
            return (drawn.codes, memory), drawn

        _, others = jax.lax.scan(one_more, (first.codes, Memory.blank(n, self.units)), noise[1:])
        return Draw(*(jnp.concatenate([initial[None], more]) for initial, more in zip(first, others, strict=True)))

    def _log_masks(self, params: dict, norms: dict, codes: Float[Array, "s n d"]) -> Float[Array, "s n h w"]:
        network, norm = self.networks["mask_decoder"], norms["mask_decoder"]
        return stick_breaking(over_slots(lambda codes: network(params["mask_decoder"], codes, norm), codes)[:-1])

    def _picture_codes(self, params: dict, images, log_masks, noise) -> Draw:
        network, inputs = self.networks["encoder"], masked(images, log_masks)
        return Draw.of(over_slots(lambda inputs: network(params["encoder"], inputs), inputs), noise)

    def _pictures(self, params: dict, codes: Float[Array, "s n d"]) -> Float[Array, "s n h w c"]:
        return jax.nn.sigmoid(over_slots(lambda codes: self.networks["decoder"](params["decoder"], codes), codes))

    def _mask_prior(self, params: dict, codes: Float[Array, "s n d"]) -> tuple[Array, Array]:
        """Means and standard deviations of ``p(u_k | u_{k−1}, …)``."""

        def one_more(memory, codes):
            memory = lstm(params["prior_memory"], codes, memory)
            return memory, dense(params["prior"], memory.hidden)

        _, outputs = jax.lax.scan(one_more, Memory.blank(codes.shape[1], self.prior_units), codes[:-1])
        mean, deviation = _bounded(outputs)
        first = jnp.zeros_like(codes[:1])
        return jnp.concatenate([first, mean]), jnp.concatenate([first + 1, deviation])

    def _picture_prior(self, params: dict, mask_codes: Float[Array, "s n d"]) -> tuple[Array, Array]:
        """Means and standard deviations of ``p(z_k | u_k)``."""
        return _bounded(over_slots(lambda u: perceptron(params["component_prior"], u, jax.nn.elu), mask_codes))


def _bounded(outputs: Array) -> tuple[Array, Array]:
    """A prior's mean in (−1, 1), and its standard deviation in (1e-4, 1 + 1e-4), which starts near 1."""
    mean, raw = jnp.split(outputs, 2, axis=-1)
    return jnp.tanh(mean), jax.nn.sigmoid(raw + 4) + 1e-4


Genesis.variants = {"genesis": Variant(Settings, "goal", about=Genesis.about, signed=("goal",))}
