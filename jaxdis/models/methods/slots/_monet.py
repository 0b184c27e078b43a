"""MONet: slots whose masks are cut off the image one after the other by an attention network."""

import dataclasses
from typing import Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxdis._core import random
from jaxdis._core.options import Counts, Units
from jaxdis.models.methods._method import RmsProp, Variant, about_of
from jaxdis.models.methods.slots import _base as base
from jaxdis.models.networks._architectures import begin
from jaxdis.models.networks._slot_networks import BroadcastDecoder, SlotEncoder, Unet


class Settings(NamedTuple):
    """See ``abouts.toml``; Dang-Nhu 2022, appendix C.2, for Multi-dSprites."""

    gamma: float = 0.5
    goal: float = -1.78
    least: float = 1.0
    step: float = 1e-5
    background_deviation: float = 0.06
    deviation: float = 0.1
    learning_rate: float = 1e-4


@dataclasses.dataclass(frozen=True)
class Monet(base.SlotMethod):
    """MONet (Burgess et al. 2019), whose KL divergence is weighed by GECO as in Dang-Nhu 2022.

    With the scope ``s_1 = 1``, an attention network ``a`` cuts masks ``m_k = s_k σ(a(x, log s_k))`` off the scope,
    which leaves ``s_{k+1} = s_k σ(−a)``; the last mask is the remainder. A variational autoencoder encodes every ``(log
    m_k, x)`` as ``q_k = N(z; …)``, and decodes a draw to a picture and a mask logit; their softmax over slots is ``p``.
    Then, per image,

    - ``error = −Σ log Σ_k m_k N(x; picture_k, σ_k²)``, with its own deviation for the first slot;
    - ``kl = Σ_k KL(q_k ‖ N(0, I))``, ``mask_kl = Σ_pixels KL(m ‖ p)``;
    - ``L = error + β kl + γ mask_kl``, where GECO moves β. Without regularization, ``L = error + γ mask_kl``.

    A slot's code is the mean of ``q_k``. :meth:`decode` has codes alone, and thus masks ``p``.

    Attributes:
      decoder_masks: take the masks for the error and the representation from the decoder, ``p`` instead of ``m``:
        "MONet (Dec.)" in Dang-Nhu 2022. The default is their "MONet (Att.)", and MONet as published.
      attention, attention_hidden: channels in the blocks of the attention network, a U-Net (Burgess et al. 2019, B.2),
        and width of its dense layers. The default is for 64 × 64 images.
      encoder, encoder_hidden: channels in the encoder's convolutions, and width of its dense layer.
      decoder: channels in the broadcast decoder's hidden convolutions.
      kl: ``"sampled"``: from the code's one draw, as in the released code; ``"exact"``: its expectation.
      optimizer: the default is RMSProp, as Burgess et al. 2019 state (with batch size 64); Engelcke et al.'s released
        code (2020), with which Dang-Nhu 2022 trained, has ``Adam()``. The batch size 32 follows from how many updates
        they made.

    Reference: Burgess et al. 2019; Dang-Nhu 2022, appendix C.2, in whose own loss γ is not weighed by GECO; networks as
    in Engelcke et al.'s released code (2020).
    """

    decoder_masks: bool = False
    attention: Counts = (32, 32, 64, 64, 64)
    attention_hidden: Units = 128
    encoder: Counts = (32, 32, 64, 64)
    encoder_hidden: Units = 256
    decoder: Counts = (32, 32, 32, 32)
    kl: Literal["sampled", "exact"] = "sampled"
    optimizer: Any = RmsProp()

    about: ClassVar = about_of("monet")
    variants: ClassVar = {"monet": Variant(Settings, "gamma", about=about, signed=("goal",))}
    losses: ClassVar = base.Losses
    has_prior: ClassVar = True

    @property
    def networks(self) -> dict[str, Any]:
        *size, channels = self.image_shape
        relu = jax.nn.relu
        return {
            "attention": Unet(self.attention, self.attention_hidden, (*size, channels + 1)),
            "encoder": SlotEncoder(self.encoder, self.encoder_hidden, 2 * self.num_codes, relu),
            "decoder": BroadcastDecoder(self.decoder, channels + 1, tuple(size), relu),
        }

    def begin_model(self, key) -> base.Model:
        height, width, channels = self.image_shape
        inputs = jnp.zeros((1, height, width, channels + 1))
        inputs = {"attention": inputs, "encoder": inputs, "decoder": jnp.zeros((1, self.num_codes))}
        networks = self.networks.items()
        keys = jax.random.split(key, len(networks))
        return base.Model(
            {name: begin(key, net, inputs[name])[0] for key, (name, net) in zip(keys, networks, strict=True)}, {}
        )

    def noise(self, key, n: int) -> Float[Array, "s n d"]:
        return random.normal(key, (self.num_slots, n, self.num_codes))

    def loss(
        self, model: base.Model, multiplier, noise, hyperparameters: Settings, images
    ) -> tuple[Array, tuple[base.Losses, dict]]:
        h = hyperparameters
        log_masks = self.attend(model, images)
        mean, deviation = self._posterior(model, images, log_masks)
        codes = mean + deviation * noise
        pictures, log_priors = self._decoded(model, codes)
        deviations = jnp.concatenate([h.background_deviation.reshape(1), jnp.repeat(h.deviation, self.num_slots - 1)])
        of_error = log_priors if self.decoder_masks else log_masks
        error = base.mixture_error(images, pictures, of_error, deviations, self.mixture).mean()
        mask_kl = base.mask_divergence(log_masks, log_priors).mean()
        if self.kl == "exact":
            terms = 0.5 * (jnp.square(mean) + jnp.square(deviation) - 1) - jnp.log(deviation)
        else:
            terms = base.log_normal(codes, mean, deviation) - base.log_normal(codes, jnp.zeros(()), jnp.ones(()))
        kl = terms.sum((0, 2)).mean()
        loss = error + h.gamma * mask_kl
        if not self.regularized:
            return loss, (base.Losses(loss, error, kl, mask_kl, jnp.zeros(())), {})
        loss = loss + multiplier * kl
        return loss, (base.Losses(loss, error, kl, mask_kl, multiplier), {})

    def explain(self, model: base.Model, images) -> tuple[Array, Array, Array]:
        log_masks = self.attend(model, images)
        codes, _ = self._posterior(model, images, log_masks)
        pictures, log_priors = self._decoded(model, codes)
        return codes, jnp.exp(log_priors if self.decoder_masks else log_masks), pictures

    def draw(self, model: base.Model, codes) -> tuple[Array, Array]:
        pictures, log_priors = self._decoded(model, codes)
        return jnp.exp(log_priors), pictures

    def attend(self, model: base.Model, images: Float[Array, "n h w c"]) -> Float[Array, "s n h w"]:
        """Log masks that the attention network cuts."""
        attention = self.network("attention", model.params)

        def cut(log_scope, _):
            logits = attention(base.masked(images, log_scope[None])[0])
            return log_scope + jax.nn.log_sigmoid(-logits), log_scope + jax.nn.log_sigmoid(logits)

        rest, log_masks = jax.lax.scan(cut, jnp.zeros(images.shape[:3]), length=self.num_slots - 1)
        return jnp.concatenate([log_masks, rest[None]])

    def _posterior(self, model: base.Model, images, log_masks) -> tuple[Array, Array]:
        """The codes' means and standard deviations, ``[s, n, d]``."""
        outputs = base.over_slots(self.network("encoder", model.params), base.masked(images, log_masks))
        mean, raw = jnp.split(outputs, 2, axis=-1)
        return mean, base.softplus_deviation(raw)

    def _decoded(self, model: base.Model, codes) -> tuple[Array, Array]:
        """Pictures ``[s, n, h, w, c]``, and the decoder's log masks ``[s, n, h, w]``."""
        outputs = base.over_slots(self.network("decoder", model.params), codes)
        return jax.nn.sigmoid(outputs[..., :-1]), jax.nn.log_softmax(outputs[..., -1], axis=0)
