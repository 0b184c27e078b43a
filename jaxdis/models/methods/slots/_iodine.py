"""IODINE: slots whose posteriors a network refines again and again, given the gradient of the evidence."""

import dataclasses
from typing import Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxdis._core import random
from jaxdis._core.options import Count, Counts, Positive, Units
from jaxdis.models.methods._method import Variant, about_of
from jaxdis.models.methods.slots._base import Model, SlotMethod, log_normal, mixture_log_likelihood, over_slots
from jaxdis.models.networks._architectures import begin
from jaxdis.models.networks._slot_networks import BroadcastDecoder, Refinement, coordinates


class Settings(NamedTuple):
    """See ``abouts.toml``; Dang-Nhu 2022, appendix C.2, has 0.14 instead of 0.1 for Multi-dSprites."""

    deviation: float = 0.14
    learning_rate: float = 3e-4


class Losses(NamedTuple):
    """Per image, nats: ``loss``, and ``error`` and ``kl`` after the last refinement."""

    loss: Array
    error: Array
    kl: Array


class Posterior(NamedTuple):
    """``mean`` and ``log_variance`` for codes, ``[s, n, d]``."""

    mean: Array
    log_variance: Array


class Scene(NamedTuple):
    """What slots' codes describe, and how well it fits the images.

    ``pictures [s, n, h, w, c]``; ``masks`` and their ``logits [s, n, h, w]``; ``likelihoods [s, n, h, w, c]``, in logs,
    under each slot alone; ``mixed [n, h, w, c or 1]``, under the mixture; each image's negative log-likelihood
    ``error [n]`` and ``kl [n]``, of all slots' posteriors from the prior.
    """

    pictures: Array
    masks: Array
    logits: Array
    likelihoods: Array
    mixed: Array
    error: Array
    kl: Array


@dataclasses.dataclass(frozen=True)
class Iodine(SlotMethod):
    """IODINE (Greff et al. 2019): inference that starts from one posterior for all slots and refines it.

    Codes ``z_k ~ N(μ_k, diag exp(v_k))`` are decoded to pictures and to logits, whose softmax over slots is the masks.
    With ``E_i = log p(x | z) − Σ_k KL(q_k ‖ N(0, I))`` for an image and ``i = 0…T``,

    - ``λ_0 = (μ, v)`` is learned and the same for all slots; ``λ_{i+1} = λ_i + Δ(a_i, memory)``, where Δ is a recurrent
      network that sees each slot alone, with inputs ``a_i`` that include ``∂E_i / ∂λ``;
    - the inputs and ``λ_i`` are taken as constants: the loss's gradients reach Δ through its output and its memory;
    - ``L = −Σ_i w_i E_i``, mean over images.

    A slot's inputs ``a_i`` come in two kinds. Maps have values for every pixel: the image; the slot's picture, mask and
    logit; the pixel's likelihood under the slot as a share of that under all slots; ``∂E/∂picture`` and ``∂E/∂mask``;
    the pixel's likelihood under the mixture of all slots, and without this slot; the pixel's coordinates. Vectors have
    a value for every code: μ, v, ``∂E/∂μ`` and ``∂E/∂v``. The four gradients and the two mixture likelihoods are
    standardized, for every slot and image on its own. The variances of ``∂E/∂μ`` and ``∂E/∂v`` are sums of squares
    divided by d − 1, as in the released code; the others are mean squares.

    - Slots differ by their noise alone. In representations the noise is the same for all images: normal numbers by a
      fixed key. A slot's code is its last mean, and masks and pictures come from the means.
    - Permuting the slots' noise permutes the slots.
    - Refinement depends on the pixels' standard deviation, which is stored with the parameters from the first update
      on.

    Attributes:
      refinements: T.
      decoder, kernel: channels in the decoder's hidden convolutions and size of all kernels, 5 as in Greff et al. 2019
        or 3 as in the released code that Dang-Nhu 2022 used.
      refiner, units: channels in Δ's convolutions, and width of its dense layer and of its memory.
      reads_cell: read updates from the memory's cell state rather than from its output. The released code does so: it
        takes what the recurrent layer returns, output and cell, for cell and output.
      ramp: weights ``w_i``: ``"released"``: ``(i + 1) / (T + 1)``; ``"printed"``: ``i / T``, with which
        λ_0 stays as it begins.
      clip: largest norm of the gradient over all parameters, which is scaled down to it (5 in Greff et al. 2019); None
        as in the released code.
      optimizer: Adam at 3e-4. Greff et al. 2019 have batch size 128, the released code 32.

    Reference: Greff et al. 2019, appendices A and B; Dang-Nhu 2022, appendix C.2, and the code that it names.
    """

    refinements: Count = 5
    decoder: Counts = (32, 32, 32, 32, 32)
    kernel: Literal[3, 5] = 5
    refiner: Counts = (32, 32, 32)
    units: Units = 128
    reads_cell: bool = True
    ramp: Literal["released", "printed"] = "released"
    clip: Positive | None = None

    about: ClassVar = about_of("iodine")
    variants: ClassVar = {"iodine": Variant(Settings, "deviation", about=about)}
    losses: ClassVar = Losses
    has_prior: ClassVar = True
    has_goal: ClassVar = False

    @property
    def networks(self) -> dict[str, Any]:
        *size, channels = self.image_shape
        elu, kernel = jax.nn.elu, self.kernel
        return {
            "decoder": BroadcastDecoder(self.decoder, channels + 1, tuple(size), elu, kernel, kernel, grown=False),
            "refinement": Refinement(self.refiner, kernel, self.units, self.num_codes, self.reads_cell),
        }

    def begin_model(self, key) -> Model:
        decoder_key, refinement_key = jax.random.split(key)
        height, width, channels = self.image_shape
        params, _ = begin(decoder_key, self.networks["decoder"], jnp.zeros((1, self.num_codes)))
        inputs = jnp.zeros((1, height, width, 3 * channels + 8)), jnp.zeros((1, 4 * self.num_codes))
        params = {"decoder": params, "refinement": self.networks["refinement"].begin(refinement_key, *inputs)}
        start = {"mean": jnp.zeros(self.num_codes), "log_variance": jnp.zeros(self.num_codes)}
        return Model({**params, "start": start}, {"deviation": jnp.float32(Settings().deviation)})

    def noise(self, key, n: int) -> Float[Array, "t s n d"]:
        return random.normal(key, (self.refinements + 1, self.num_slots, n, self.num_codes))

    def loss(
        self, model: Model, multiplier, noise, hyperparameters: Settings, images
    ) -> tuple[Array, tuple[Losses, dict]]:
        errors, kls, _ = self.refine(model, noise, hyperparameters.deviation, images)
        t = self.refinements
        weights = jnp.arange(1, t + 2) / (t + 1) if self.ramp == "released" else jnp.arange(t + 1) / t
        evidence = -errors - (kls if self.regularized else 0)
        loss = -(weights.astype(jnp.float32) @ evidence.mean(1))
        statistics = {"deviation": hyperparameters.deviation}
        return loss, (Losses(loss, errors[-1].mean(), kls[-1].mean()), statistics)

    def clipped(self, gradients: dict) -> dict:
        if self.clip is None:
            return gradients
        norm = jnp.sqrt(sum(jnp.square(leaf).sum() for leaf in jax.tree.leaves(gradients)))
        factor = jnp.minimum(1.0, self.clip / jnp.maximum(norm, 1e-12))
        return jax.tree.map(lambda leaf: factor * leaf, gradients)

    def explain(self, model: Model, images) -> tuple[Array, Array, Array]:
        noise = self.noise(jax.random.key(0), 1)
        codes = self.refine(model, noise, model.statistics["deviation"], images)[2].mean
        return (codes, *self.draw(model, codes))

    def draw(self, model: Model, codes) -> tuple[Array, Array]:
        pictures, logits = self._decoded(model.params["decoder"], codes)
        return jax.nn.softmax(logits, axis=0), pictures

    def refine(self, model: Model, noise: Array, deviation: Array, images) -> tuple[Array, Array, Posterior]:
        """Errors and KL divergences ``[T + 1, n]``, before and after each refinement, and the last posterior.

        ``noise`` is ``[T + 1, s, n, d]``, or with 1 instead of n.
        """
        shape = (self.num_slots, len(images), self.num_codes)
        start = Posterior(*(jnp.broadcast_to(model.params["start"][name], shape) for name in Posterior._fields))
        memory = (jnp.zeros((shape[0] * shape[1], self.units)),) * 2

        def one_more(carry, noise):
            posterior, memory = carry
            scene = self._scene(model.params["decoder"], posterior, noise, deviation, images)
            inputs = jax.lax.stop_gradient(self._inputs(model, posterior, noise, deviation, images))
            maps, vectors = (part.reshape(-1, *part.shape[2:]) for part in inputs)
            change, memory = self.network("refinement", model.params)(maps, vectors, memory)
            change = jnp.split(change.reshape(*shape[:2], -1), 2, axis=-1)
            before = jax.lax.stop_gradient(posterior)
            posterior = Posterior(*(old + more for old, more in zip(before, change, strict=True)))
            return (posterior, memory), (scene.error, scene.kl)

        (posterior, _), (errors, kls) = jax.lax.scan(one_more, (start, memory), noise[:-1])
        scene = self._scene(model.params["decoder"], posterior, noise[-1], deviation, images)
        return jnp.concatenate([errors, scene.error[None]]), jnp.concatenate([kls, scene.kl[None]]), posterior

    def _scene(self, decoder: dict, posterior: Posterior, noise, deviation, images, nudges=(0.0, 0.0)) -> Scene:
        """The scene that codes drawn from the posterior describe.

        ``nudges`` are added to pictures and masks; gradients with respect to zero nudges are gradients with respect to
        pictures and masks.
        """
        codes = posterior.mean + jnp.exp(0.5 * posterior.log_variance) * noise
        pictures, logits = self._decoded(decoder, codes)
        pictures, masks = pictures + nudges[0], jax.nn.softmax(logits, axis=0) + nudges[1]
        likelihoods = log_normal(images[None], pictures, deviation)
        mixed = mixture_log_likelihood(likelihoods, jnp.log(masks + 1e-12), self.mixture)
        terms = jnp.square(posterior.mean) + jnp.exp(posterior.log_variance) - posterior.log_variance - 1
        return Scene(pictures, masks, logits, likelihoods, mixed, -mixed.sum((1, 2, 3)), 0.5 * terms.sum((0, 2)))

    def _inputs(self, model: Model, posterior: Posterior, noise, deviation, images) -> tuple[Array, Array]:
        """The refinement network's inputs: maps ``[s, n, h, w, e]`` and vectors ``[s, n, 4 d]``."""
        decoder, posterior, deviation = jax.lax.stop_gradient((model.params["decoder"], posterior, deviation))

        def evidence(posterior, nudges):
            scene = self._scene(decoder, posterior, noise, deviation, images, nudges)
            return -scene.error.sum() - (scene.kl.sum() if self.regularized else 0), scene

        shape = (self.num_slots, *images.shape)
        nudges = jnp.zeros(shape), jnp.zeros(shape[:-1])
        (slopes, (of_pictures, of_masks)), scene = jax.grad(evidence, (0, 1), has_aux=True)(posterior, nudges)
        alone = jnp.exp(scene.likelihoods.sum(-1))
        shares = scene.masks * alone
        without = (shares.sum(0, keepdims=True) - shares) / (1 - scene.masks + 1e-5)
        mixture = jnp.broadcast_to(jnp.exp(scene.mixed.sum(-1))[None], shape[:-1])
        maps = [scene.masks, scene.logits, jax.nn.softmax(scene.likelihoods.sum(-1), axis=0)]
        standardized = map(_standardized, (of_pictures, *(m[..., None] for m in (of_masks, mixture, without))))
        place = jnp.broadcast_to(coordinates(*images.shape[1:3])[None, None], (*shape[:-1], 2))
        stacked = [jnp.broadcast_to(images[None], shape), scene.pictures, jnp.stack(maps, -1), *standardized, place]
        vectors = [*posterior, *(_standardized(slope, 1) for slope in slopes)]
        return jnp.concatenate(stacked, axis=-1), jnp.concatenate(vectors, axis=-1)

    def _decoded(self, decoder: dict, codes) -> tuple[Array, Array]:
        """Pictures ``[s, n, h, w, c]`` and mask logits ``[s, n, h, w]``."""
        outputs = over_slots(self.network("decoder", {"decoder": decoder}), codes)
        return jax.nn.sigmoid(outputs[..., :-1]), outputs[..., -1]


def _standardized(values: Array, fewer: int = 0) -> Array:
    """Values with mean 0 and variance 1 for every slot and every image (the first two axes).

    For ``c`` entries, the variance is their summed squares divided by ``c − fewer``.
    """
    axes = tuple(range(2, values.ndim))
    centered = values - values.mean(axes, keepdims=True)
    count = max(values[0, 0].size - fewer, 1)
    return centered / (jnp.sqrt(jnp.square(centered).sum(axes, keepdims=True) / count) + 1e-5)
