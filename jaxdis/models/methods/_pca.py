"""Standardized pixels' principal components, by passes over the images."""

import dataclasses
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxdis._core import random
from jaxdis._core.factorizations import eigh, left_singular
from jaxdis._core.options import Count, Units
from jaxdis.codes import Posterior
from jaxdis.models.methods._method import Method, Variant, about_of, all_finite

# Of a renderer, when no number of images is given.
_DRAWN = 10_000


class Settings(NamedTuple):
    """Principal components have no hyperparameters."""


class Losses(NamedTuple):
    """``unexplained``: what share of the standardized pixels' variance the components leave out."""

    unexplained: Array


class State(NamedTuple):
    """What the passes have found.

    Each pixel's ``mean`` and ``deviation [p]``, 0 where it is constant; an orthonormal ``basis [p, blocks · width]``,
    0 for passes that are not done, and its ``image``, the standardized pixels' covariance times it; ``block [p,
    width]``, which the next pass multiplies.
    """

    mean: Float[Array, " p"]
    deviation: Float[Array, " p"]
    basis: Float[Array, "p b"]
    image: Float[Array, "p b"]
    block: Float[Array, "p w"]


class Components(NamedTuple):
    """``mean [p]`` and ``deviation [p]`` per pixel (0 where constant), ``components [p, d]``, and their variances."""

    mean: Float[Array, " p"]
    deviation: Float[Array, " p"]
    components: Float[Array, "p d"]
    variances: Float[Array, " d"]


@dataclasses.dataclass(frozen=True)
class Pca(Method):
    """Principal component analysis, the baseline of Eastwood & Williams (2018), §5.

    - Pixels are standardized by their mean and standard deviation over the training images; constant pixels are left
      out.
    - Codes are the projections on the components with the greatest variance, in descending order. Each component's
      largest entry is positive. Components beyond the images' rank are 0.
    - Every update is a pass over all images, ``batch_size`` at a time: first for mean and deviation, then for as many
      products between the covariance and a block of vectors as ``passes`` says. The components are the best in the
      space that all these products span (block Krylov iteration, Musco & Musco 2015, algorithm 2). The covariance is
      never held in memory.
    - The training images are all images in an array, or the first ``num_images`` in a renderer's fixed sequence.

    Attributes:
      num_codes: how many components.
      passes: products with the covariance; eight suffice for codes to four digits where variances fall by 15 % from one
        to the next.
      num_images: how many images; None: all in an array, 10,000 from a renderer.
      batch_size: images at a time, which changes memory and speed, and numbers by rounding alone.
    """

    num_codes: Units = 10
    passes: Count = 8
    num_images: Count | None = None
    batch_size: Count = 256

    about: ClassVar = about_of("pca")
    variants: ClassVar = {"pca": Variant(Settings, about=about)}
    losses: ClassVar = Losses
    log_every: ClassVar = 1
    checkpoint_every: ClassVar = 1

    @property
    def default_steps(self) -> int:
        return 1 + self.passes

    @property
    def _width(self) -> int:
        """Vectors per block: some more than components, since the last ones converge slowest."""
        return min(self.num_codes + 6, int(np.prod(self.image_shape)))

    def begin(self, key) -> State:
        pixels = int(np.prod(self.image_shape))
        blank = jnp.zeros((pixels, self.passes * self._width))
        block = random.normal(key, (pixels, self._width))
        return State(jnp.zeros(pixels), jnp.zeros(pixels), blank, blank, block)

    def update(self, state: State, step, key, hyperparameters, source) -> tuple[State, Losses]:
        with jax.default_matmul_precision("highest"):
            new, losses = jax.lax.cond(step == 0, self._standardize, self._multiply, state, step, source)
        finite = all_finite((new.deviation, losses))
        kept = jax.tree.map(lambda after, before: jnp.where(finite, after, before), new, state)
        return kept, Losses(jnp.where(finite, losses.unexplained, jnp.nan))

    def _standardize(self, state: State, step, source) -> tuple[State, Losses]:
        """The first pass: batch by batch, merged moments of the differences from the first image.

        These differences are exactly 0 where a pixel is constant.
        """
        first = _flat(source.at(jnp.zeros(1, jnp.int32))[0])

        def add(carry, part):
            mean, squares, seen = carry
            images, weights = part[0] - first, part[1]
            count = weights.sum()
            center = (weights @ images) / count
            difference = center - mean
            spread = weights @ jnp.square(images - center[None])
            total = seen + count
            squares = squares + spread + jnp.square(difference) * (seen * count / total)
            return mean + difference * (count / total), squares, total

        start = (state.mean, jnp.zeros_like(state.mean), jnp.zeros(()))
        mean, squares, seen = self._over_images(source, add, start)
        deviation = jnp.sqrt(squares / seen)
        block = _orthonormal(jnp.where(deviation[:, None] > 0, state.block, 0), 1.0)
        return state._replace(mean=first[0] + mean, deviation=deviation, block=block), Losses(jnp.ones(()))

    def _multiply(self, state: State, step, source) -> tuple[State, Losses]:
        """One pass: the covariance times the current block, whose part outside the basis is the next block."""
        inverse = _inverse(state.deviation)[:, None]

        def add(total, part):
            images, weights = part
            centered = images - state.mean[None]
            return total + centered.T @ (centered @ (inverse * state.block) * weights[:, None])

        total = self._over_images(source, add, jnp.zeros_like(state.block))
        product = inverse * total / jnp.float32(self._count(source))
        place = (0, (step - 1) * self._width)
        basis = jax.lax.dynamic_update_slice(state.basis, state.block, place)
        image = jax.lax.dynamic_update_slice(state.image, product, place)
        block, scale = product, jnp.linalg.norm(product)
        for _ in range(2):  # once is not enough in float32
            block = _orthonormal(block - basis @ (basis.T @ block), scale)
            scale = 1.0
        state = state._replace(basis=basis, image=image, block=block)
        variances = self._best(state)[0]
        varying = jnp.maximum((state.deviation > 0).sum().astype(jnp.float32), 1)
        return state, Losses(1 - variances.sum() / varying)

    def _best(self, state: State) -> tuple[Float[Array, " d"], Float[Array, "p d"]]:
        """The components' variances and directions within the basis's span."""
        small = state.basis.T @ state.image
        variances, rotation = eigh(0.5 * (small + small.T))
        return variances[::-1][: self.num_codes], state.basis @ rotation[:, ::-1][:, : self.num_codes]

    def params(self, state: State) -> Components:
        with jax.default_matmul_precision("highest"):
            variances, components = self._best(state)
        # Directions beyond the rank of the images are rounding errors.
        is_component = variances > 1e-6 * variances[0]
        variances, components = jnp.where(is_component, variances, 0), jnp.where(is_component[None], components, 0)
        largest = jnp.take_along_axis(components, jnp.abs(components).argmax(0)[None], axis=0)
        signed = components * jnp.where(largest < 0, -1.0, 1.0)
        return Components(state.mean, state.deviation, jnp.where(state.deviation[:, None] > 0, signed, 0), variances)

    def represent(self, params: Components, images: Array) -> Posterior:
        with jax.default_matmul_precision("highest"):
            standardized = (_flat(images) - params.mean[None]) * _inverse(params.deviation)[None]
            codes = standardized @ params.components
        return Posterior(codes, jnp.zeros_like(codes))

    def decode(self, params: Components, codes: Float[Array, "n d"]) -> Float[Array, "n h w c"]:
        """The images nearest to the codes in the components' span, clipped to [0, 1]."""
        with jax.default_matmul_precision("highest"):
            pixels = params.mean[None] + params.deviation[None] * (codes @ params.components.T)
        return jnp.clip(pixels, 0, 1).reshape(-1, *self.image_shape)

    def check(self, hyperparameters, source, steps: int) -> None:
        if not 2 <= steps <= self.default_steps:
            needed = f"from 2 to {self.default_steps} (one pass for the mean, and {self.passes})"
            raise ValueError(f"steps: must be {needed}, got {steps}")
        pixels = int(np.prod(self.image_shape))
        if self.num_codes > pixels:
            raise ValueError(f"num_codes: must have at most the {pixels} pixels of an image, got {self.num_codes}")
        if self.passes * self._width > pixels:
            raise ValueError(
                f"passes: must be at most {pixels // self._width} for images of {pixels} pixels and {self.num_codes} "
                f"codes, got {self.passes}"
            )
        if source.is_finite_list and (self.num_images or 0) > source.num_data:
            raise ValueError(f"num_images: must be at most the {source.num_data} images, got {self.num_images}")
        if self._count(source) < 2:
            raise ValueError(f"num_images: must be at least 2, got {self._count(source)}")

    def _count(self, source) -> int:
        return self.num_images or (source.num_data if source.is_finite_list else _DRAWN)

    def _over_images(self, source, add, start):
        """``add(carry, (images [n, p], weights [n]))`` over all images; the last batch is filled with weight 0."""
        count = self._count(source)
        size = min(self.batch_size, count)

        def part(carry, first):
            places = first + jnp.arange(size)
            images = _flat(source.at(jnp.minimum(places, count - 1))[0])
            return add(carry, (images, (places < count).astype(jnp.float32))), None

        return jax.lax.scan(part, start, jnp.arange(0, count, size))[0]


def _orthonormal(block: Float[Array, "p w"], scale) -> Float[Array, "p w"]:
    """An orthonormal basis for the columns, with zero columns for directions that are rounding errors at that scale."""
    left, sizes = left_singular(block)
    return jnp.where((sizes > 1e-6 * scale)[None], left, 0)


def _flat(images: Array) -> Float[Array, "n p"]:
    return images.reshape(images.shape[0], -1)


def _inverse(deviation: Float[Array, " p"]) -> Float[Array, " p"]:
    """1 / deviation, and 0 for constant pixels."""
    return jnp.where(deviation > 0, 1 / jnp.where(deviation > 0, deviation, 1), 0)
