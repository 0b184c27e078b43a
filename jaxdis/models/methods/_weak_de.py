"""WeakDE: an adversarial autoencoder whose prior becomes a Gaussian per labelled class."""

import dataclasses
import math
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Num

from jaxdis._core import random
from jaxdis._core.factorizations import cholesky
from jaxdis._core.options import Count, Units
from jaxdis.codes import Posterior
from jaxdis.models.methods._labelled_partition import check_labels
from jaxdis.models.methods._method import Adam, Method, Variant, about_of, accepted
from jaxdis.models.networks._architectures import Dense, Perceptron, Stacks, apply, draw, shapes_of
from jaxdis.models.objectives._losses import negative_log_likelihood

# (position of a factor, group of each of its values or −1 for none), …; a class is a combination of groups.
Groups = tuple[tuple[int, tuple[int, ...]], ...]
# (which entry of the groups, step, whether the last group is followed by the first), …
Relations = tuple[tuple[int, int, bool], ...]


def _spans(*sizes: int) -> tuple[int, ...]:
    """Consecutive values in groups with these sizes."""
    return tuple(int(group) for group in np.repeat(np.arange(len(sizes)), sizes))


# Three regions of x and of y, and three shapes; left, right, up, down and the next shape.
DSPRITES_CLASSES: Groups = ((0, (0, 1, 2)), (3, _spans(11, 10, 11)), (4, _spans(11, 10, 11)))
DSPRITES_RELATIONS: Relations = ((1, -1, True), (1, 1, True), (2, -1, True), (2, 1, True), (0, 1, True))
# Ten hues of the object, four shapes, three spans of its size.
SHAPES3D_CLASSES: Groups = ((2, tuple(range(10))), (4, (0, 1, 2, 3)), (3, _spans(3, 2, 3)))
SHAPES3D_RELATIONS: Relations = ((0, 1, False), (0, -1, False), (2, 1, False), (2, -1, False), (1, 1, True))
# Colors and shapes of the object: inferred.
MPI3D_CLASSES: Groups = ((0, tuple(range(6))), (1, tuple(range(6))))
MPI3D_RELATIONS: Relations = ((0, 1, True), (0, -1, True), (1, 1, True))


class ClassPriors(NamedTuple):
    """A Gaussian per class: ``mean [c, d]``, Cholesky ``factor [c, d, d]``, and whether it has images."""

    mean: Float[Array, "c d"]
    factor: Float[Array, "c d d"]
    present: Bool[Array, " c"]

    @classmethod
    def blank(cls, num_classes: int, d: int) -> "ClassPriors":
        shape = (num_classes, d)
        return cls(jnp.zeros(shape), jnp.zeros((*shape, d)), jnp.zeros(num_classes, bool))

    @classmethod
    def fitted(
        cls, codes: Float[Array, "n d"], classes: Int[Array, " n"], num_classes: int, share: Float[Array, ""]
    ) -> "ClassPriors":
        """Mean and ``share`` times the (unbiased) covariance for each class's codes; class −1 is none.

        A class with fewer than two images is absent. Where a class has fewer images than codes, its covariance is
        singular: a millionth of its summed variances is added to the diagonal, enough for a factor in float32.
        """
        hot = jax.nn.one_hot(classes, num_classes, dtype=jnp.float32)
        d, count = codes.shape[1], hot.sum(0)
        mean = hot.T @ codes / jnp.maximum(count, 1)[:, None]
        centered = jnp.where((classes >= 0)[:, None], codes - mean[jnp.maximum(classes, 0)], 0)
        products = (centered[:, :, None] * centered[:, None, :]).reshape(-1, d * d)
        scatter = (hot.T @ products / jnp.maximum(count - 1, 1)[:, None]).reshape(-1, d, d)
        ridge = 1e-6 * jnp.trace(scatter, axis1=1, axis2=2) + 1e-12
        covariance = share * (scatter + ridge[:, None, None] * jnp.eye(d)[None])
        return cls(mean, cholesky(covariance), count >= 2)

    def at(self, classes: Int[Array, "..."], normal: Float[Array, "... d"]) -> Float[Array, "... d"]:
        """Draws from each class's Gaussian, by standard normal numbers."""
        return self.mean[classes] + jnp.einsum("...ij,...j->...i", self.factor[classes], normal)

    def draw_classes(self, key, n: int) -> Int[Array, " n"]:
        """Classes, uniformly among those that are present."""
        ends = jnp.cumsum(self.present.astype(jnp.float32))
        place = random.uniform(key, (n,)) * ends[-1]
        return jnp.minimum((ends[None] <= place[:, None]).sum(1, dtype=jnp.int32), len(ends) - 1)


def sizes_of(groups: Groups) -> tuple[int, ...]:
    return tuple(1 + max(group_of) for _, group_of in groups)


def class_of(factors: Num[Array, "n k"], groups: Groups) -> Int[Array, " n"]:
    """Each image's class, −1 for none: its groups as the digits of a number, the first counting most."""
    classes, listed = jnp.zeros(len(factors), jnp.int32), jnp.ones(len(factors), bool)
    for (position, group_of), size in zip(groups, sizes_of(groups), strict=True):
        group = jnp.asarray(np.array(group_of, np.int32))[factors[:, position].astype(jnp.int32)]
        classes, listed = classes * size + group, listed & (group >= 0)
    return jnp.where(listed, classes, -1)


def targets_of(groups: Groups, relations: Relations) -> np.ndarray:
    """``[r, c]``: the class that each relation leads to from each class."""
    sizes = sizes_of(groups)
    cells = np.stack(np.unravel_index(np.arange(int(np.prod(sizes))), sizes))
    rows = []
    for which, by, circular in relations:
        moved, size = cells.copy(), sizes[which]
        moved[which] = (cells[which] + by) % size if circular else np.clip(cells[which] + by, 0, size - 1)
        rows.append(np.ravel_multi_index(tuple(moved), sizes))
    return np.array(rows, np.int32).reshape(len(relations), -1)


# Augmentation: standard deviation of the noise on white pixels, and share of pixels that are dropped.
_NOISE, _DROPPED = 0.3, 0.3


class Settings(NamedTuple):
    """The defaults are those in the released code for dSprites: 1000 epochs over its 68,040 images are 67,000
    updates."""

    learning_rate: Any = 1e-4
    warmup_steps: Any = 67_000.0
    covariance: Any = 0.1
    adversarial_weight: Any = 0.2
    relation_weight: Any = 1.0


class Losses(NamedTuple):
    """Cross-entropy per pixel, the generator's and the discriminator's weighted losses, and the relations' error."""

    reconstruction: Array
    generator: Array
    discriminator: Array
    relation: Array


def augmented(key, images: Float[Array, "n h w c"]) -> Float[Array, "n h w c"]:
    """One image in seven as it is, three with noise on white pixels, three with pixels dropped."""
    kind_key, pixel_key = jax.random.split(key)
    kind = random.randint(kind_key, (len(images), 1, 1, 1), 0, 7)
    pixels = random.normal(pixel_key, images.shape)
    noisy = jnp.where(images == 1, jnp.clip(1 + _NOISE * pixels, 0, 1), images)
    dropped = jnp.where(jax.scipy.stats.norm.cdf(pixels) < _DROPPED, 0.0, images)
    return jnp.where(kind == 0, images, jnp.where(kind <= 3, noisy, dropped))


class State(NamedTuple):
    """What training carries.

    ``params`` and Adam's ``moments`` belong to ``encoder``, ``decoder``, ``discriminator`` and ``relation``,
    ``running`` statistics to the first two; ``priors`` are the classes' Gaussians, blank until warm-up ends.
    """

    params: Any
    moments: Any
    running: Any
    priors: ClassPriors


# The released network for dSprites, with maps of 4 × 4 where its code has 6 × 6, which do not fit images of 64 × 64.
_SLOPES = {"slope": 0.1, "last_slope": 0.2, "hidden_slope": 0.1, "decoder_slope": 0.1}
RELEASED = Stacks((32,) * 4, (1024,), (1024,), (32,) * 4, normalized=True, **_SLOPES)


@dataclasses.dataclass(frozen=True)
class WeakDe(Method):
    """WeakDE (Valenti & Bacciu 2022): an adversarial autoencoder with an adaptive relational prior.

    During warm-up, the codes' prior is uniform on (−1, 1). Then labelled images are encoded once, and the prior becomes
    a Gaussian per class with the class's mean and ``covariance`` times its covariance. A relation network learns to
    lead from a draw in one class to one in another (left of it, the next shape, …); it moves no code. One update is, on
    one batch and in the released order:

    1. encoder and decoder minimize the cross-entropy of logits, *mean* over pixels;
    2. after warm-up, the relation network minimizes the mean squared error over all relations;
    3. the encoder minimizes ``w · BCE(D(enc x), 1)``, by the Adam of step 1, which counts it as a second update;
    4. the discriminator minimizes ``w · ½ (BCE(D(enc x), 0) + BCE(D(prior), 1))``.

    The encoder normalizes by the batch in steps 1, 3 and 4, and each moves its running statistics, by which
    representations are normalized.

    Attributes:
      network: encoder and decoder.
      num_codes: how many codes.
      classes: groups of factor values that classes combine; images with a value in no group have no class.
      relations: which class each relation leads to.
      opponents: widths of the hidden layers (tanh) in the discriminator and the relation network.
      batch_size, relation_batch: images per update, and draws per relation.
      num_labelled: how many images are labelled, the first in the source's fixed sequence (released: 20 batches).
      adversarial: whether steps 3 and 4 take place; the released configuration for Shapes3D leaves them out.
      as_released: draw the prior from the first class alone, as the released code does: it zeroes all labels and then
        takes their largest entry for the class. The default draws classes uniformly. In both, the discriminator sees
        zeros for labels.
      augmented: change six images in seven at random: noise on white pixels, or pixels dropped, as released for
        dSprites (three fixed copies each there).
      optimizer: for all four networks.

    Contract:

    - Representations are the encoder's outputs; their variance is 0.
    - Training shorter than ``warmup_steps`` has the uniform prior throughout.

    Source: Valenti & Bacciu (2022) and the released code, which does not run as published; this method does what that
    code intends. The code's classes for dSprites are a few regions in its factors, and it trains on them alone; the
    default classes divide all images, on which Mahon et al. (2024) train.
    """

    network: Stacks = RELEASED
    num_codes: Units = 8
    classes: Groups = DSPRITES_CLASSES
    relations: Relations = DSPRITES_RELATIONS
    opponents: tuple[Units, ...] = (1024, 1024, 1024, 1024)
    batch_size: Count = 1024
    relation_batch: Count = 128
    num_labelled: Count = 20 * 1024
    adversarial: bool = True
    as_released: bool = False
    augmented: bool = True
    optimizer: Any = Adam()

    types: ClassVar = (*Method.types, Stacks)
    about: ClassVar = about_of("weak_de")
    variants: ClassVar = {"weak_de": Variant(Settings, "warmup_steps", about=about)}
    losses: ClassVar = Losses
    needs_labels: ClassVar = True

    def __post_init__(self):
        super().__post_init__()
        if not self.classes or min(map(min, (group_of for _, group_of in self.classes))) < -1:
            raise ValueError(f"classes: must have groups of at least one factor, got {self.classes}")
        if any(not 0 <= which < len(self.classes) for which, _, _ in self.relations):
            raise ValueError(f"relations: must be factors of classes from 0 to {len(self.classes) - 1}")

    @property
    def num_classes(self) -> int:
        return int(np.prod(sizes_of(self.classes)))

    def begin(self, key) -> State:
        stacks_key, rest_key = jax.random.split(key)
        stacks, running = self.network.init(stacks_key, self.image_shape, self.num_codes)
        d, related = self.num_codes, self.num_codes + len(self.relations)
        modules = {
            "code": (Dense(d), self.network.hidden[-1]),
            "discriminator": (self._opponent(1), self.num_classes + d),
            "relation": (self._opponent(d), related),
        }
        shapes = {name: shapes_of(module, jnp.zeros((1, size)))["params"] for name, (module, size) in modules.items()}
        rest = draw(rest_key, shapes, self.network.initialization)
        params = {**stacks, "encoder": {"stack": stacks["encoder"], "code": rest.pop("code")}, **rest}
        moments = {name: self.optimizer.begin(part) for name, part in params.items()}
        return State(params, moments, running, ClassPriors.blank(self.num_classes, d))

    def update(self, state: State, step, key, hyperparameters, source) -> tuple[State, Losses]:
        data_key, augment_key, class_key, normal_key = jax.random.split(key, 4)
        old, h = state, hyperparameters
        with jax.default_matmul_precision("highest"):
            # A loop of one or no pass: under vmap too, it only runs when a member reaches the end of its warm-up.
            starts = (step == h.warmup_steps.astype(jnp.int32)).astype(jnp.int32)
            priors = jax.lax.fori_loop(0, starts, lambda _, priors: self.adapted(state, h, source), state.priors)
            state, adapted = state._replace(priors=priors), step >= h.warmup_steps.astype(jnp.int32)
            images = source.images(data_key, self.batch_size)
            images = augmented(augment_key, images) if self.augmented else images
            state, reconstruction = self._reconstruct(state, h, images)
            classes, normal = self._draws(state.priors, class_key, normal_key)
            state, relation = self._relate(state, h, classes, normal, adapted)
            prior = self._prior(state.priors, classes, normal, adapted)
            state, generator, discriminator = self._oppose(state, h, images, prior)
        losses = Losses(reconstruction, generator, discriminator, relation)
        return accepted((losses, state.params), lambda: state, old, losses)

    def adapted(self, state: State, h: Settings, source) -> ClassPriors:
        """The Gaussians of the labelled images' codes under the encoder as it is."""
        size = min(self.batch_size, self.num_labelled)
        starts = jnp.arange(0, self.num_labelled, size)

        def encoded(start):
            places = start + jnp.arange(size)
            images, factors = source.at(jnp.minimum(places, self.num_labelled - 1))
            codes, _ = self._encode(state.params["encoder"], images, state.running["encoder"], training=False)
            return codes, jnp.where(places < self.num_labelled, class_of(factors, self.classes), -1)

        codes, classes = jax.lax.map(encoded, starts)
        codes = codes.reshape(-1, self.num_codes)
        return ClassPriors.fitted(codes, classes.reshape(-1), self.num_classes, h.covariance)

    def _reconstruct(self, state: State, h: Settings, images) -> tuple[State, Array]:
        """Step 1, with the cross-entropy per pixel."""

        def loss(params):
            codes, of_encoder = self._encode(params["encoder"], images, state.running["encoder"], training=True)
            given = params["decoder"], codes, self.image_shape, state.running["decoder"]
            logits, of_decoder = self.network.logits(*given, training=True)
            running = {"encoder": of_encoder, "decoder": of_decoder}
            return negative_log_likelihood(logits, images) / images.size, running

        both = {name: state.params[name] for name in ("encoder", "decoder")}
        (value, running), gradients = jax.value_and_grad(loss, has_aux=True)(both)
        for name in both:
            state = self._descend(state, name, gradients[name], h)
        return state._replace(running=running), value

    def _draws(self, priors: ClassPriors, class_key, normal_key) -> tuple[Array, Array]:
        """Classes ``[b + r p]`` for the batch and the relations' sources; normal numbers for these and the targets."""
        n, related = self.batch_size, len(self.relations) * self.relation_batch
        normal = random.normal(normal_key, (n + 2 * related, self.num_codes))
        return priors.draw_classes(class_key, n + related), normal

    def _prior(self, priors: ClassPriors, classes, normal, adapted) -> Float[Array, "n d"]:
        """What the discriminator is to take codes for."""
        n = self.batch_size
        classes = jnp.zeros_like(classes[:n]) if self.as_released else classes[:n]
        uniform = jax.lax.erf(normal[:n] / math.sqrt(2))
        return jnp.where(adapted, priors.at(classes, normal[:n]), uniform)

    def _relate(self, state: State, h: Settings, classes, normal, adapted) -> tuple[State, Array]:
        """Step 2, with the mean squared error over relations, draws and codes."""
        shape = (len(self.relations), self.relation_batch)
        first = classes[self.batch_size :].reshape(shape)
        second = jnp.take_along_axis(jnp.asarray(targets_of(self.classes, self.relations)), first, axis=1)
        pairs = jnp.stack([first, second])
        sources, targets = state.priors.at(pairs, normal[self.batch_size :].reshape(*pairs.shape, -1))
        present = state.priors.present[second].astype(jnp.float32)

        def learn(state):
            def loss(params):
                which = jnp.broadcast_to(jnp.eye(shape[0])[:, None], (*shape, shape[0]))
                inputs = jnp.concatenate([sources, which], axis=2).reshape(-1, self.num_codes + shape[0])
                moved = apply(self._opponent(self.num_codes), params, inputs).reshape(targets.shape)
                error = (jnp.square(moved - targets).mean(2) * present).sum() / jnp.maximum(present.sum(), 1)
                return h.relation_weight * error

            value, gradients = jax.value_and_grad(loss)(state.params["relation"])
            return self._descend(state, "relation", gradients, h), value

        return jax.lax.cond(adapted, learn, lambda state: (state, jnp.zeros(())), state)

    def _oppose(self, state: State, h: Settings, images, prior) -> tuple[State, Array, Array]:
        """Steps 3 and 4: the odds are those of being a draw from the prior."""

        def loss(params):
            codes, running = self._encode(params, images, state.running["encoder"], training=True)
            odds = self._odds(state.params["discriminator"], codes)
            return h.adversarial_weight * jax.nn.softplus(-odds).mean(), running

        (of_generator, running), gradients = jax.value_and_grad(loss, has_aux=True)(state.params["encoder"])
        if self.adversarial:
            state = self._descend(state, "encoder", gradients, h)
        codes, running = self._encode(state.params["encoder"], images, running, training=True)
        state = state._replace(running={**state.running, "encoder": running})

        def opposed(params):
            of_codes, of_prior = jax.nn.softplus(self._odds(params, codes)), jax.nn.softplus(-self._odds(params, prior))
            return h.adversarial_weight * (0.5 * of_codes.mean() + 0.5 * of_prior.mean())

        of_discriminator, gradients = jax.value_and_grad(opposed)(state.params["discriminator"])
        if self.adversarial:
            state = self._descend(state, "discriminator", gradients, h)
        return state, of_generator, of_discriminator

    def _descend(self, state: State, name: str, gradients, h: Settings) -> State:
        params, moments = self.optimizer.descend(state.params[name], state.moments[name], gradients, h.learning_rate)
        return state._replace(params={**state.params, name: params}, moments={**state.moments, name: moments})

    def _odds(self, discriminator, codes: Float[Array, "n d"]) -> Float[Array, " n"]:
        no_labels = jnp.zeros((len(codes), self.num_classes))
        return apply(self._opponent(1), discriminator, jnp.concatenate([no_labels, codes], axis=1))[:, 0]

    def _opponent(self, outputs: int) -> Perceptron:
        """The discriminator, or the relation network."""
        return Perceptron((*self.opponents, outputs), jnp.tanh)

    def _encode(self, params, images, running, *, training: bool):
        features, running = self.network.features(params["stack"], images, running, training=training)
        return apply(Dense(self.num_codes), params["code"], features), running

    def params(self, state: State):
        return {"encoder": state.params["encoder"], "decoder": state.params["decoder"], "running": state.running}

    def represent(self, params, images: Float[Array, "n h w c"]) -> Posterior:
        with jax.default_matmul_precision("highest"):
            codes, _ = self._encode(params["encoder"], images, params["running"]["encoder"], training=False)
        return Posterior(codes, jnp.zeros_like(codes))

    def decode(self, params, codes: Float[Array, "n d"]) -> Float[Array, "n h w c"]:
        with jax.default_matmul_precision("highest"):
            logits, _ = self.network.logits(params["decoder"], codes, self.image_shape, params["running"]["decoder"])
        return jax.nn.sigmoid(logits)

    def check(self, hyperparameters, source, steps: int) -> None:
        check_labels(source, {position: len(group_of) for position, group_of in self.classes})
