"""A supervised autoencoder whose codes are divided into a block per factor. It is not MTD."""

import dataclasses
from typing import Annotated, Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxdis._core import random
from jaxdis._core.options import Count, Entries, Positive, Units
from jaxdis.codes import Posterior
from jaxdis.models.methods._method import Adam, Method, Variant, about_of, accepted
from jaxdis.models.networks._architectures import Autoencoder, Convolutional, Mlp, functions_of, locatello
from jaxdis.models.objectives._losses import divergence, negative_log_likelihood


def check_labels(source, sizes: dict[int, int]) -> None:
    """Check that a source has classes by position as in ``sizes``: all labels in arrays, 1,024 from a renderer."""
    if source.num_factors <= max(sizes):
        raise ValueError(f"data: must have at least {max(sizes) + 1} factors, got {source.num_factors}")
    if source.is_finite_list:
        seen = np.asarray(source.arrays[1])
    else:
        seen = np.asarray(jax.jit(lambda source: source.examples(jax.random.key(0), 1024)[1])(source))
    for position, size in sizes.items():
        column = seen[:, position]
        if column.dtype.kind == "f" or column.min() < 0 or column.max() >= size:
            raise ValueError(
                f"data: factor {position} must have class numbers from 0 to {size - 1}, got {column.min():g} to "
                f"{column.max():g}"
            )


class Settings(NamedTuple):
    """Adam's step length and the loss's weights; see :class:`LabelledPartition`."""

    learning_rate: Any = 1e-3
    content_weight: Any = 1.0
    block_weight: Any = 1.0
    label_weight: Any = 1.0
    swap_weight: Any = 1.0


class Losses(NamedTuple):
    """Total and its parts without their weights, nats."""

    loss: Array
    reconstruction: Array
    content: Array
    blocks: Array
    labels: Array
    swapped: Array


class State(NamedTuple):
    """The network's parameters and prototypes, and Adam's moments."""

    params: Any
    moments: Any


class Draws(NamedTuple):
    """Random numbers for one update: ``normal [n, d]``, the permutation ``order [n]``, which ``factor`` is swapped."""

    normal: Float[Array, "n d"]
    order: Int[Array, " n"]
    factor: Int[Array, ""]


@dataclasses.dataclass(frozen=True)
class LabelledPartition(Method):
    """A fully supervised autoencoder with a code block per factor. It is NOT MTD.

    Mahon et al. (2024) train MTD (Sha & Lukasiewicz 2021) on images by code that was never published. What is known is
    that it divides the codes into a subset per factor, gives each factor value its own representation, and has losses
    from labels. This method does that, and all else is our choice. Codes are a block s_f per factor and a Gaussian
    content c; a factor's value v has a learned prototype m_{f,v}. With posteriors N(s_f, σ²), the loss is

        reconstruction + KL(q(c|x) ‖ N(0, I)) + Σ_f |s_f − m_{f,v_f}|² / 2σ²
        + Σ_f CE(softmax_v(−|s_f − m_{f,v}|² / 2σ²), v_f)
        + Σ_f CE of the same for images decoded after one block, drawn at random, was permuted over the batch

    with a weight for each term except the first. The decoded images are encoded again; their labels follow the swap.

    Attributes:
      sizes: how many values each factor has.
      network: as in :class:`jaxdis.models.Vae`; how many codes it has is set.
      block, content: how many codes each factor has, and the content.
      deviation: σ.
      batch_size: images per update.
      optimizer: for the network and the prototypes.

    Contract:

    - Representations are the blocks' means, without the content. Decoding takes the content to be 0.

    Source: the description in Mahon et al. (2024), §2 and §5.
    """

    sizes: Annotated[tuple[Count, ...], Entries(1)] = (3, 6, 40, 32, 32)
    network: Mlp | Convolutional = locatello(as_released=False)
    block: Units = 4
    content: Units = 4
    deviation: Positive = 1.0
    batch_size: Count = 64
    optimizer: Any = Adam()

    types: ClassVar = (*Method.types, Mlp, Convolutional)
    about: ClassVar = about_of("labelled_partition")
    variants: ClassVar = {"labelled_partition": Variant(Settings, "swap_weight", about=about)}
    losses: ClassVar = Losses
    needs_labels: ClassVar = True

    @property
    def num_codes(self) -> int:
        return len(self.sizes) * self.block

    def resolved(self, image_shape: tuple[int, int, int]) -> "LabelledPartition":
        method = super().resolved(image_shape)
        network = dataclasses.replace(
            self.network, image_shape=tuple(image_shape), num_codes=self.num_codes + self.content
        )
        return dataclasses.replace(method, network=network)

    def begin(self, key) -> State:
        network_key, prototype_key = jax.random.split(key)
        prototypes = random.normal(prototype_key, (sum(self.sizes), self.block))
        params = {"network": functions_of(self.network).init(network_key, self.image_shape), "prototypes": prototypes}
        return State(params, self.optimizer.begin(params))

    def update(self, state: State, step, key, hyperparameters, source) -> tuple[State, Losses]:
        data_key, normal_key, order_key, factor_key = jax.random.split(key, 4)
        images, factors = source.examples(data_key, self.batch_size)
        draws = Draws(
            random.normal(normal_key, (self.batch_size, self.num_codes + self.content)),
            jnp.argsort(random.uniform(order_key, (self.batch_size,))),
            random.randint(factor_key, (), 0, len(self.sizes)),
        )
        gradients, losses = jax.grad(self.loss, has_aux=True)(state.params, images, factors, draws, hyperparameters)

        def descend() -> State:
            rate = hyperparameters.learning_rate
            return State(*self.optimizer.descend(state.params, state.moments, gradients, rate))

        return accepted((losses, gradients), descend, state, losses)

    def loss(self, params, images: Float[Array, "n h w c"], factors, draws: Draws, h: Settings):
        n, split = len(images), self.num_codes
        labels = factors.astype(jnp.int32)
        mean, log_variance = self._network.encode(params["network"], images)
        blocks, log_variance = mean[:, :split], log_variance[:, split:]
        deviations = jnp.concatenate([jnp.full((n, split), self.deviation), jnp.exp(0.5 * log_variance)], axis=1)
        codes = mean + deviations * draws.normal
        reconstruction = negative_log_likelihood(self._network.decode(params["network"], codes), images) / n
        content = divergence(mean[:, split:], log_variance)
        distances = self.distances(params, blocks)
        own = self._of_labels(distances, labels).sum(1).mean()
        named = self._cross_entropy(distances, labels)
        swapped = self._swapped(params, codes, labels, draws)
        loss = (
            reconstruction
            + h.content_weight * content
            + h.block_weight * own
            + h.label_weight * named
            + h.swap_weight * swapped
        )
        return loss, Losses(loss, reconstruction, content, own, named, swapped)

    def _swapped(self, params, codes: Float[Array, "n d"], labels, draws: Draws) -> Float[Array, ""]:
        """Cross-entropy of the labels on decoded images whose one block came from another image in the batch."""
        block_of = np.append(np.repeat(np.arange(len(self.sizes)), self.block), np.full(self.content, -1))
        moved = jnp.where((block_of == draws.factor)[None], codes[draws.order], codes)
        names = jnp.where((jnp.arange(len(self.sizes)) == draws.factor)[None], labels[draws.order], labels)
        images = jax.nn.sigmoid(self._network.decode(params["network"], moved))
        blocks = self._network.encode(params["network"], images)[0][:, : self.num_codes]
        return self._cross_entropy(self.distances(params, blocks), names)

    def distances(self, params, blocks: Float[Array, "n d"]) -> Float[Array, "n v"]:
        """``|s_f − m_{f,v}|² / 2σ²`` for all factors' values, one factor after another."""
        blocks = blocks.reshape(len(blocks), len(self.sizes), self.block)
        of_values = jnp.repeat(blocks, np.array(self.sizes), axis=1, total_repeat_length=sum(self.sizes))
        return jnp.square(of_values - params["prototypes"][None]).sum(2) / (2 * self.deviation**2)

    def classify(self, params, images: Float[Array, "n h w c"]) -> Int[Array, "n k"]:
        """Each factor's value whose prototype is nearest."""
        blocks = self.represent(params, images).mean
        parts = jnp.split(self.distances(params, blocks), self._ends, axis=1)
        return jnp.stack([part.argmin(1) for part in parts], axis=1).astype(jnp.int32)

    def _of_labels(self, values: Float[Array, "n v"], labels: Int[Array, "n k"]) -> Float[Array, "n k"]:
        starts = np.append(0, self._ends).astype(np.int32)
        return jnp.take_along_axis(values, labels + starts[None], axis=1)

    def _cross_entropy(self, distances: Float[Array, "n v"], labels: Int[Array, "n k"]) -> Float[Array, ""]:
        parts = [jax.nn.log_softmax(-part) for part in jnp.split(distances, self._ends, axis=1)]
        return -self._of_labels(jnp.concatenate(parts, axis=1), labels).sum(1).mean()

    @property
    def _ends(self) -> list[int]:
        """Where each factor's values except the first begin."""
        return [int(end) for end in np.cumsum(self.sizes)[:-1]]

    @property
    def _network(self) -> Autoencoder:
        return Autoencoder(self.network)

    def represent(self, params, images: Float[Array, "n h w c"]) -> Posterior:
        blocks = self._network.encode(params["network"], images)[0][:, : self.num_codes]
        return Posterior(blocks, jnp.full_like(blocks, self.deviation**2))

    def decode(self, params, codes: Float[Array, "n d"]) -> Float[Array, "n h w c"]:
        """Expected images, in [0, 1], for content 0."""
        whole = jnp.pad(codes, ((0, 0), (0, self.content)))
        return jax.nn.sigmoid(self._network.decode(params["network"], whole))

    def check(self, hyperparameters, source, steps: int) -> None:
        check_labels(source, dict(enumerate(self.sizes)))
        if source.num_factors != len(self.sizes):
            raise ValueError(f"sizes: must have {source.num_factors} entries, one per factor, got {len(self.sizes)}")
