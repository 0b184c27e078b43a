"""GENESIS: slots with a code for their mask and a code for what it shows, each with a learned prior."""

import dataclasses
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxdis._core import random
from jaxdis._core.options import Counts, Units
from jaxdis.models.methods._method import Variant, about_of, split
from jaxdis.models.methods.slots import _base as base
from jaxdis.models.networks import _architectures as layers
from jaxdis.models.networks._architectures import draw
from jaxdis.models.networks._slot_networks import BroadcastDecoder, GatedDecoder, GatedEncoder, SlotEncoder


class Settings(NamedTuple):
    """See ``abouts.toml``; Engelcke et al. 2020, for Multi-dSprites.

    No error is below ``log(deviation) + 0.919`` per pixel and channel: a lower goal cannot be met.
    """

    goal: float = 0.5655
    least: float = 1e-10
    step: float = 1e-5
    deviation: float = 0.7
    learning_rate: float = 1e-4


class Draw(NamedTuple):
    """The codes' posteriors and draws, ``[s, n, d]`` each."""

    mean: Array
    deviation: Array
    codes: Array

    @classmethod
    def of(cls, outputs: Array, noise: Array) -> "Draw":
        """From an encoder's outputs."""
        mean, raw = jnp.split(outputs, 2, axis=-1)
        deviation = base.softplus_deviation(raw)
        return cls(mean, deviation, mean + deviation * noise)

    def divergence(self, prior: tuple[Array, Array]) -> Array:
        """The draws' ``log q − log p``, summed over slots and codes, mean over images."""
        terms = base.log_normal(self.codes, self.mean, self.deviation) - base.log_normal(self.codes, *prior)
        return terms.sum((0, 2)).mean()


@dataclasses.dataclass(frozen=True)
class Genesis(base.SlotMethod):
    """GENESIS (Engelcke et al. 2020), whose KL divergences are weighed by GECO.

    A convolutional network extracts features ``h`` from the image, and a recurrent one codes for masks: ``q(u_1 | h)``,
    and ``q(u_k | h, u_{k−1}, …)``. Each is decoded to a logit map, and the masks ``m_k`` follow by stick breaking,
    where the last mask is the remainder and its logits are not used. An autoencoder encodes every ``(log m_k, x)`` as
    ``q(z_k)`` and decodes a draw to a picture. With priors ``p(u_1) = N(0, I)``, ``p(u_k | u_{k−1}, …)`` by another
    recurrent network and ``p(z_k | u_k)`` by a perceptron, and per image,

    - ``error = −Σ log Σ_k m_k N(x; picture_k, σ²)``;
    - ``mask_kl = Σ_k log q(u_k) − log p(u_k)`` and ``kl = Σ_k log q(z_k) − log p(z_k)`` for the draws;
    - ``L = error + β (mask_kl + kl)``, where GECO moves β. Without regularization, ``L = error``.

    A slot's code is the means of ``u_k`` and then of ``z_k``; each mean of ``u_k`` follows from those before it.

    Attributes:
      num_mask_codes: length of ``u_k``.
      mask_encoder, mask_strides: channels and strides of the gated convolutions over the image. The defaults are for 64
        × 64 pixels; for 128 × 128, the released code has strides (2, 2, 2, 1, 1).
      mask_decoder: channels in the coarsest map and in every map after it, whose strides are ``mask_strides`` reversed.
      features: length of h.
      micro_batch: images that the autoencoder takes at once; the mask networks take the batch, which is normalized as a
        whole.
      units, prior_units: of the recurrent networks for posteriors and for priors; the latter also in the perceptron.
      encoder, encoder_hidden, decoder: as in :class:`~jaxdis.models.Monet`.

    Reference: Engelcke et al. 2020, appendix, in the form that they released, with Adam at 1e-4.
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

    about: ClassVar = about_of("genesis")
    variants: ClassVar = {"genesis": Variant(Settings, "goal", about=about, signed=("goal",))}
    losses: ClassVar = base.Losses
    has_prior: ClassVar = False
    on_accelerators: ClassVar = None

    def __post_init__(self):
        super().__post_init__()
        lengths = len(self.mask_encoder), len(self.mask_strides), len(self.mask_decoder) - 1
        if len(set(lengths)) > 1 or not set(self.mask_strides) <= {1, 2}:
            raise ValueError(
                "mask_strides: must be 1 or 2 for each of mask_encoder and of mask_decoder but its first, got "
                f"{self.mask_strides}"
            )

    @property
    def code_kinds(self) -> tuple[str, ...]:
        return ("mask",) * self.num_mask_codes + ("component",) * self.num_codes

    @property
    def networks(self) -> dict[str, Any]:
        *size, channels = self.image_shape
        elu, u = jax.nn.elu, self.num_mask_codes
        return {
            "mask_encoder": GatedEncoder(self.mask_encoder, self.mask_strides, self.features),
            "mask_decoder": GatedDecoder(self.mask_decoder, self.mask_strides[::-1], tuple(size)),
            "encoder": SlotEncoder(self.encoder, self.encoder_hidden, 2 * self.num_codes, elu),
            "decoder": BroadcastDecoder(self.decoder, channels, tuple(size), elu),
            "first": layers.Dense(2 * u),
            "next": layers.Dense(2 * u),
            "prior": layers.Dense(2 * u),
            "component_prior": layers.Perceptron((self.prior_units, self.prior_units, 2 * self.num_codes), elu),
            "memory": layers.Lstm(self.units),
            "prior_memory": layers.Lstm(self.prior_units),
        }

    def begin_model(self, key) -> base.Model:
        u, images = self.num_mask_codes, jnp.zeros((1, *self.image_shape))
        masked_images, vector = jnp.pad(images, ((0, 0), (0, 0), (0, 0), (0, 1))), lambda d: jnp.zeros((1, d))
        inputs = {
            "mask_encoder": (images,),
            "mask_decoder": (vector(u),),
            "encoder": (masked_images,),
            "decoder": (vector(self.num_codes),),
            "first": (vector(self.features),),
            "next": (vector(self.units),),
            "prior": (vector(self.prior_units),),
            "component_prior": (vector(u),),
            "memory": ((vector(self.units),) * 2, vector(self.features + u)),
            "prior_memory": ((vector(self.prior_units),) * 2, vector(u)),
        }
        shapes = {name: layers.shapes_of(self.networks[name], *like) for name, like in inputs.items()}
        of_params, names = {name: variables["params"] for name, variables in shapes.items()}, list(shapes)
        *keys, heads_key, memory_key, prior_key = jax.random.split(key, 7)
        params = {name: draw(key, of_params[name], "torch") for key, name in zip(keys, names[:4], strict=True)}
        params |= draw(heads_key, {name: of_params[name] for name in names[4:8]}, "torch")
        params["memory"] = layers.draw_lstm(memory_key, of_params["memory"])
        params["prior_memory"] = layers.draw_lstm(prior_key, of_params["prior_memory"])
        return base.Model(
            params, {name: layers.blank_statistics(shapes[name]) for name in ("mask_encoder", "mask_decoder")}
        )

    def noise(self, key, n: int) -> tuple[Array, Array]:
        mask_key, key = jax.random.split(key)
        lengths = ((mask_key, self.num_mask_codes), (key, self.num_codes))
        return tuple(random.normal(key, (self.num_slots, n, length)) for key, length in lengths)

    def loss(
        self, model: base.Model, multiplier, noise, hyperparameters: Settings, images
    ) -> tuple[Array, tuple[base.Losses, dict]]:
        h, (mask_noise, noise) = hyperparameters, noise
        of_masks, of_encoder = self._mask_codes(model, images, mask_noise, training=True)
        log_masks, of_decoder = self._log_masks(model, of_masks.codes, training=True)
        of_pictures, errors = self._pictured(model.params, images, log_masks, noise, h.deviation)
        error = errors.mean()
        mask_kl = of_masks.divergence(self._mask_prior(model.params, of_masks.codes))
        picture_prior = _bounded(base.over_slots(self.network("component_prior", model.params), of_masks.codes))
        kl = of_pictures.divergence(picture_prior)
        statistics = {"mask_encoder": of_encoder, "mask_decoder": of_decoder}
        if not self.regularized:
            return error, (base.Losses(error, error, kl, mask_kl, jnp.zeros(())), statistics)
        loss = error + multiplier * (kl + mask_kl)
        return loss, (base.Losses(loss, error, kl, mask_kl, multiplier), statistics)

    def _averaged(self, loss, params: dict, noise: Any, images: Array):
        return jax.grad(loss, has_aux=True)(params, noise, images)

    def _pictured(self, params: dict, images, log_masks, noise, deviation) -> tuple[Draw, Array]:
        """Codes for pictures, and each image's error ``[n]``, by micro-batches."""
        deviations = jnp.repeat(deviation, self.num_slots)

        def of_part(images, log_masks, noise):
            codes = self._picture_codes(params, images, log_masks, noise)
            pictures = self._pictures(params, codes.codes)
            return codes, base.mixture_error(images, pictures, log_masks, deviations, self.mixture)

        if self.micro_batch is None:
            return of_part(images, log_masks, noise)
        parts = [split(part, self.micro_batch, axis) for part, axis in ((images, 0), (log_masks, 1), (noise, 1))]
        # The activations of one part are stored at a time, those of the others computed anew for the gradient.
        codes, errors = jax.lax.map(lambda part: jax.checkpoint(of_part, prevent_cse=False)(*part), parts)
        joined = jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, 1).reshape(self.num_slots, len(images), -1), codes)
        return joined, errors.reshape(-1)

    def explain(self, model: base.Model, images) -> tuple[Array, Array, Array]:
        silence = jnp.zeros((self.num_slots, 1, 1))
        mask_codes = self._mask_codes(model, images, silence, training=False)[0].codes
        log_masks, _ = self._log_masks(model, mask_codes, training=False)
        codes = self._picture_codes(model.params, images, log_masks, silence).codes
        return jnp.concatenate([mask_codes, codes], -1), jnp.exp(log_masks), self._pictures(model.params, codes)

    def draw(self, model: base.Model, codes) -> tuple[Array, Array]:
        mask_codes, codes = jnp.split(codes, [self.num_mask_codes], axis=-1)
        log_masks, _ = self._log_masks(model, mask_codes, training=False)
        return jnp.exp(log_masks), self._pictures(model.params, codes)

    def _mask_codes(self, model: base.Model, images, noise, *, training: bool) -> tuple[Draw, dict]:
        """Codes for masks, and their encoder's running moments."""
        features, statistics = self._normalized(model, "mask_encoder", images, training=training)
        first = Draw.of(self.network("first", model.params)(features), noise[0])
        remember, read = (self.network(name, model.params) for name in ("memory", "next"))
        memory = (jnp.zeros((len(images), self.units)),) * 2

        def one_more(carry, noise):
            codes, memory = carry
            memory, output = remember(memory, jnp.concatenate([features, codes], axis=1))
            drawn = Draw.of(read(output), noise)
            return (drawn.codes, memory), drawn

        _, later = jax.lax.scan(one_more, (first.codes, memory), noise[1:])
        draws = Draw(*(jnp.concatenate([initial[None], more]) for initial, more in zip(first, later, strict=True)))
        return draws, statistics

    def _log_masks(self, model: base.Model, codes: Float[Array, "s n d"], *, training: bool):
        """Log masks ``[s, n, h, w]``, and their decoder's running moments."""
        flat = codes.reshape(-1, codes.shape[2])
        logits, statistics = self._normalized(model, "mask_decoder", flat, training=training)
        return base.stick_breaking(logits.reshape(*codes.shape[:2], *logits.shape[1:])[:-1]), statistics

    def _normalized(self, model: base.Model, name: str, inputs, *, training: bool) -> tuple[Array, dict]:
        return layers.normalized(
            self.networks[name], model.params[name], model.statistics[name], inputs, training=training
        )

    def _picture_codes(self, params: dict, images, log_masks, noise) -> Draw:
        return Draw.of(base.over_slots(self.network("encoder", params), base.masked(images, log_masks)), noise)

    def _pictures(self, params: dict, codes: Float[Array, "s n d"]) -> Float[Array, "s n h w c"]:
        return jax.nn.sigmoid(base.over_slots(self.network("decoder", params), codes))

    def _mask_prior(self, params: dict, codes: Float[Array, "s n d"]) -> tuple[Array, Array]:
        """Means and standard deviations of ``p(u_k | u_{k−1}, …)``."""
        remember, read = (self.network(name, params) for name in ("prior_memory", "prior"))

        def one_more(memory, codes):
            memory, output = remember(memory, codes)
            return memory, read(output)

        memory = (jnp.zeros((codes.shape[1], self.prior_units)),) * 2
        _, outputs = jax.lax.scan(one_more, memory, codes[:-1])
        mean, deviation = _bounded(outputs)
        first = jnp.zeros_like(codes[:1])
        return jnp.concatenate([first, mean]), jnp.concatenate([first + 1, deviation])


def _bounded(outputs: Array) -> tuple[Array, Array]:
    """A prior's mean in (−1, 1), and its standard deviation in (1e-4, 1 + 1e-4), which starts near 1."""
    mean, raw = jnp.split(outputs, 2, axis=-1)
    return jnp.tanh(mean), jax.nn.sigmoid(raw + 4) + 1e-4
