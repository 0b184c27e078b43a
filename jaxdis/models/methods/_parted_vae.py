"""PartedVAE: a Gaussian code, a category, and a code whose prior depends on the category."""

import dataclasses
import math
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxdis._core import random
from jaxdis._core.options import CheckedFields, Count, Entries, Level, Natural, NonNegative, Positive, Units
from jaxdis.codes import Posterior
from jaxdis.models.methods._labelled_partition import check_labels
from jaxdis.models.methods._method import Adam, Method, Variant, about_of, accepted
from jaxdis.models.networks._architectures import Dense, Stacks, apply, draw, shapes_of
from jaxdis.models.objectives._losses import divergence, negative_log_likelihood


class PlateauState(NamedTuple):
    """Scalars: the lowest mean loss in an epoch (``best``), how many epochs in a row were no better (``bad``), and how
    many cooldown epochs are left (``rest``); the learning rate's factor (``scale``); and this epoch's summed losses so
    far (``total``)."""

    best: Array
    bad: Array
    rest: Array
    scale: Array
    total: Array


@dataclasses.dataclass(frozen=True)
class Plateau(CheckedFields):
    """PyTorch's ``ReduceLROnPlateau`` with a relative threshold, stepped by every epoch's mean loss.

    An epoch is better if its loss is below ``best · (1 − threshold)``. After more than ``patience`` epochs in a row
    that are not, the learning rate is multiplied by ``factor``, and the next ``cooldown`` epochs do not count.
    Reductions by ``smallest_change`` or less are not made.
    """

    patience: Natural = 1
    threshold: Level = 1e-2
    cooldown: Natural = 4
    factor: Level = 0.5
    smallest_change: NonNegative = 1e-7

    def begin(self) -> PlateauState:
        zero = jnp.zeros((), jnp.int32)
        return PlateauState(jnp.full((), jnp.inf), zero, zero, jnp.ones(()), jnp.zeros(()))

    def after(self, state: PlateauState, loss: Array, learning_rate: Array, step: Array, epoch: int) -> PlateauState:
        """The state after one update: ``step`` updates were done before it, and an epoch has ``epoch``."""
        state = state._replace(total=state.total + loss)
        mean = state.total / jnp.float32(epoch)
        better = mean < state.best * (1 - self.threshold)
        resting = state.rest > 0
        bad = jnp.where(better | resting, 0, state.bad + 1)
        reduce = bad > self.patience
        change = learning_rate * state.scale * (1 - self.factor)
        ended = PlateauState(
            best=jnp.where(better, mean, state.best),
            bad=jnp.where(reduce, 0, bad),
            rest=jnp.where(reduce, self.cooldown, jnp.maximum(state.rest - 1, 0)),
            scale=jnp.where(reduce & (change > self.smallest_change), state.scale * self.factor, state.scale),
            total=jnp.zeros(()),
        )
        ends = (step + 1) % epoch == 0
        return jax.tree.map(lambda new, old: jnp.where(ends, new, old), ended, state)


# Terms of the loss are in nats. ``log_categories [n, v]`` are log q(c_i|x) for all categorical variables, one after
# another; ``classes`` are their sizes.


class Settings(NamedTuple):
    """Coefficients in the loss of :class:`jaxdis.models.PartedVae`, by default as released for dSprites."""

    learning_rate: Any = 5e-4
    labelled_learning_rate: Any = 5e-4
    z_capacity: Any = 30.0
    z_weight: Any = 50.0
    u_capacity: Any = 5.0
    u_weight: Any = 50.0
    capacity_steps: Any = 300_000.0
    category_weight: Any = 100.0
    entropy_weight: Any = 10.0
    overlap_weight: Any = 10.0
    overlap_threshold: Any = 0.1


class Losses(NamedTuple):
    """Total and its parts without their weights, nats; ``labelled``: cross-entropy of the labels (0 without)."""

    loss: Array
    reconstruction: Array
    z_kl: Array
    u_kl: Array
    category_kl: Array
    entropy: Array
    overlap: Array
    labelled: Array


class Latents(NamedTuple):
    """Posteriors for all codes (z, then u), and log-probabilities for all classes."""

    mean: Float[Array, "n d"]
    log_variance: Float[Array, "n d"]
    log_categories: Float[Array, "n v"]


def capacity_at(capacity, step: Array, steps) -> Float[Array, ""]:
    """``C(t)``; the released code counts an update before it computes its loss, so that C is positive at the first."""
    return jnp.minimum(capacity, capacity * (step.astype(jnp.float32) + 1) / steps)


def overlap(
    mean: Float[Array, "v u"], log_variance: Float[Array, "v u"], classes: tuple[int, ...], threshold
) -> Float[Array, ""]:
    """Σ ``max(0, BC − threshold)`` over class pairs within one variable.

    The Bhattacharyya coefficient of two diagonal Gaussians is ``exp(−⅛ Σ Δm²/σ̄² − ½ (Σ log σ̄² − ½ Σ (log σ_k² + log
    σ_l²)))`` with σ̄² both variances' mean.
    """
    variable = np.repeat(np.arange(len(classes)), classes)
    pairs = np.tril(variable[:, None] == variable[None], -1)
    first, second = np.nonzero(pairs)
    between = 0.5 * (jnp.exp(log_variance[first]) + jnp.exp(log_variance[second]))
    distance = jnp.square(mean[first] - mean[second]) / between
    spread = jnp.log(between) - 0.5 * (log_variance[first] + log_variance[second])
    coefficient = jnp.exp(-(distance / 8 + spread / 2).sum(1))
    return jnp.maximum(coefficient - threshold, 0).sum()


# Of the gate's slope: per update, and at the end, which is also that of representations.
_STEEPER, _STEEPEST = 2e-4, 8.0
# What labelled updates move: the features and the logits of the categories.
LABELLED = ("encoder", "category")


class State(NamedTuple):
    """Parameters, and for both kinds of updates Adam's moments and the schedule (``()`` without labels)."""

    params: Any
    moments: Any
    schedule: Any
    labelled_moments: Any
    labelled_schedule: Any


class Draws(NamedTuple):
    """Random numbers for one update: ``uniform [n, v]`` for the categories, ``normal [n, d]`` for the codes."""

    uniform: Float[Array, "n v"]
    normal: Float[Array, "n d"]


# The released network: with the default codes, 762 966 parameters on one channel, 6 of them of the priors.
RELEASED = Stacks((32, 32, 64, 64), (256,), (256,), (64, 64, 32, 32), last_slope=0.1, hidden_slope=0.1)


@dataclasses.dataclass(frozen=True)
class PartedVae(Method):
    """PartedVAE (Hajimiri et al. 2021), unsupervised or semi-supervised.

    From an image's features h, the encoder yields Gaussian codes z, categories c_i, and codes u_i that depend on the
    category: ``u_i ~ N(A(h ⊙ a_i), …)`` with the gate ``a_i = sigmoid(s·(W_i c_i + b_i))``. In training, c_i is a draw
    from the Gumbel-softmax of ``temperature`` (Jang et al. 2017), and s rises from 1 by 2e-4 per update to 8;
    representations use the most probable category and s = 8. The decoder reads [z, u]. Class k of c_i has a learned
    prior N(m_k, exp(2 tanh r_k − 1)) for u_i. The loss, with KL and expectations as means over the batch, is

        reconstruction
        + γ_z |C_z(t) − KL(q(z|x) ‖ N(0, I))| + γ_u |C_u(t) − Σ_i E_q(c_i|x) KL(q(u_i|x, c_i) ‖ prior of c_i)|
        + γ_c Σ_i KL(mean q(c_i|x) ‖ p(c_i)) + γ_h Σ_i H(q(c_i|x)) + γ_b Σ_i Σ_{k>l} max(0, BC(k, l) − threshold)

    where the capacities C(t) rise linearly over ``capacity_steps`` and BC is two priors' Bhattacharyya coefficient. The
    learning rate falls on a plateau in the total loss (PyTorch's ``ReduceLROnPlateau``), which includes the moving
    capacities, as released.

    With ``labelled``, each update is preceded by one for the encoder and the logits of c on one batch with labels: the
    labels' cross-entropy, by its own Adam and plateau. The second update starts from its result.

    Attributes:
      network: features and decoder.
      num_z: how many codes do not depend on a category.
      num_u: how many codes per categorical variable.
      priors: p(c_i) for each categorical variable.
      temperature: the Gumbel-softmax's temperature.
      batch_size: images per update, and labelled images per labelled update.
      reconstruction: ``bernoulli`` (cross-entropy), ``squared`` or ``absolute`` error, summed over pixels.
      labelled: the semi-supervised form.
      label_factors: for each categorical variable, the position of the factor that labels it.
      num_labelled: how many images are labelled. The released code balances its 10,000 over shape, scale and halves of
        the other factors; here they are the first in the source's fixed sequence, balanced in expectation.
      epoch_steps: updates per epoch of the plateau; None: as many as go through the data once.
      optimizer, plateau, labelled_plateau: for both kinds of updates. The defaults are those for dSprites; for other
        data sets the code has patience 2, and cooldown 3 for labels.

    Codes are z, then u. Contract:

    - Representations are the means of z and u, as the released metrics and Mahon et al. (2024) read them.
    - How many codes and classes Shapes3D and MPI3D had is not published.

    Source: Hajimiri et al. (2021), §3, and the released code, which is the default where they differ.
    """

    network: Stacks = RELEASED
    num_z: Units = 5
    num_u: Units = 1
    priors: Annotated[tuple[Annotated[tuple[Positive, ...], Entries(2)], ...], Entries(1)] = ((0.33, 0.33, 0.34),)
    temperature: Positive = 0.67
    batch_size: Count = 64
    reconstruction: Literal["bernoulli", "squared", "absolute"] = "bernoulli"
    labelled: bool = False
    label_factors: tuple[Natural, ...] = (0,)
    num_labelled: Count = 10_000
    epoch_steps: Count | None = None
    optimizer: Any = Adam()
    plateau: Plateau = Plateau()
    labelled_plateau: Plateau = Plateau(threshold=0.1, cooldown=2, smallest_change=1e-6)

    types: ClassVar = (*Method.types, Stacks, Plateau)
    about: ClassVar = about_of("parted_vae")
    variants: ClassVar = {
        name: Variant(Settings, "z_weight", about=about_of(name)) for name in ("parted_vae", "parted_vae_ss")
    }
    losses: ClassVar = Losses

    def __post_init__(self):
        super().__post_init__()
        if self.optimizer.has_own_rate:
            raise ValueError(
                "optimizer: must be a function learning rate → transformation, such as optax.adamw, since the plateau "
                "moves the learning rate"
            )
        if self.labelled and len(self.label_factors) != len(self.priors):
            raise ValueError(
                f"label_factors: must have one factor for each of {len(self.priors)} categorical variables, got "
                f"{len(self.label_factors)}"
            )

    @property
    def needs_labels(self) -> bool:
        return self.labelled

    @property
    def trained(self) -> tuple[str, ...]:
        return ("parted_vae_ss",) if self.labelled else ("parted_vae",)

    @property
    def num_codes(self) -> int:
        return self.num_z + self.num_u * len(self.priors)

    @property
    def classes(self) -> tuple[int, ...]:
        """How many classes each categorical variable has."""
        return tuple(map(len, self.priors))

    def begin(self, key) -> State:
        stacks_key, heads_key, prior_key = jax.random.split(key, 3)
        width, classes = self.network.hidden[-1], self.classes
        heads = {
            "category": self._logits,
            "z": Dense(2 * self.num_z),
            "u": {f"of_{i}": Dense(2 * self.num_u) for i in range(len(classes))},
        }
        shapes = jax.tree.map(lambda head: shapes_of(head, jnp.zeros((1, width)))["params"], heads)
        gates = (shapes_of(Dense(width), jnp.zeros((1, size)))["params"] for size in classes)
        shapes["gate"] = {f"of_{i}": gate for i, gate in enumerate(gates)}
        prior = random.normal(prior_key, (2, sum(classes), self.num_u))
        params = {
            **self.network.init(stacks_key, self.image_shape, self.num_codes)[0],
            **draw(heads_key, shapes, self.network.initialization),
            "prior": {"mean": prior[0], "before_tanh": prior[1]},
        }
        state = State(params, self.optimizer.begin(params), self.plateau.begin(), (), ())
        if not self.labelled:
            return state
        moved = {name: params[name] for name in LABELLED}
        return state._replace(
            labelled_moments=self.optimizer.begin(moved), labelled_schedule=self.labelled_plateau.begin()
        )

    def update(self, state: State, step, key, hyperparameters, source) -> tuple[State, Losses]:
        labelled_key, data_key, noise_key = jax.random.split(key, 3)
        epoch = self.epoch(source.num_data)
        with jax.default_matmul_precision("highest"):
            new, of_labels = state, (jnp.zeros(()), ())
            if self.labelled:
                examples = source.examples(labelled_key, self.batch_size, self.num_labelled)
                new, of_labels = self._labelled_update(state, step, hyperparameters, examples, epoch)
            images = source.images(data_key, self.batch_size)
            draws = self.draws(noise_key, self.batch_size)
            gradients, losses = jax.grad(self.loss, has_aux=True)(new.params, images, draws, step, hyperparameters)

        def descend() -> State:
            rate = hyperparameters.learning_rate
            scaled = rate * state.schedule.scale
            params, moments = self.optimizer.descend(new.params, new.moments, gradients, scaled)
            schedule = self.plateau.after(state.schedule, losses.loss, rate, step, epoch)
            return new._replace(params=params, moments=moments, schedule=schedule)

        losses = losses._replace(labelled=of_labels[0])
        return accepted((losses, gradients, of_labels), descend, state, losses)

    def _labelled_update(self, state: State, step, h: Settings, examples, epoch: int):
        """The labels' cross-entropy, summed over the categorical variables, is lowered."""
        (images, factors), moved = examples, {name: state.params[name] for name in LABELLED}
        sizes = zip(self.label_factors, self.classes, strict=True)
        targets = [jax.nn.one_hot(factors[:, position], size, dtype=jnp.float32) for position, size in sizes]

        def entropy(params):
            logits = apply(self._logits, params["category"], self.network.features(params["encoder"], images)[0])
            return -(jnp.concatenate(targets, axis=1) * self._log_softmax(logits)).sum(1).mean()

        loss, gradients = jax.value_and_grad(entropy)(moved)
        scaled = h.labelled_learning_rate * state.labelled_schedule.scale
        moved, moments = self.optimizer.descend(moved, state.labelled_moments, gradients, scaled)
        schedule = self.labelled_plateau.after(state.labelled_schedule, loss, h.labelled_learning_rate, step, epoch)
        new = state._replace(params={**state.params, **moved}, labelled_moments=moments, labelled_schedule=schedule)
        return new, (loss, gradients)

    def loss(self, params, images: Float[Array, "n h w c"], draws: Draws, step, h: Settings) -> tuple[Array, Losses]:
        """The loss on one batch after ``step`` updates, and its parts."""
        slope = jnp.minimum(1 + _STEEPER * (step.astype(jnp.float32) + 1), _STEEPEST)
        latents = self.latents(params, images, draws.uniform, slope)
        mean, log_variance = latents.mean, latents.log_variance
        codes = mean + jnp.exp(0.5 * log_variance) * draws.normal
        reconstruction = self._error(params, codes, images) / len(images)
        z_kl = divergence(mean[:, : self.num_z], log_variance[:, : self.num_z])
        prior = params["prior"]["mean"], 2 * jnp.tanh(params["prior"]["before_tanh"]) - 1
        # Σ_i E_q(c_i|x) KL(q(u_i|x) ‖ N(m_c, s_c)), mean over the batch
        u = (part[:, self.num_z :].reshape(-1, len(self.classes), self.num_u) for part in (mean, log_variance))
        u_mean, u_log_variance = (part[:, np.repeat(np.arange(len(self.classes)), self.classes)] for part in u)
        square = jnp.exp(u_log_variance) + jnp.square(prior[0][None] - u_mean)
        by_class = 0.5 * (prior[1][None] - u_log_variance - 1 + square * jnp.exp(-prior[1])[None])
        u_kl = (jnp.exp(latents.log_categories) * by_class.sum(2)).sum(1).mean()
        # Σ_i KL(mean over the batch of q(c_i|x) ‖ p(c_i))
        log_mean = jax.nn.logsumexp(latents.log_categories, axis=0) - math.log(len(images))
        log_prior = jnp.asarray(np.log(np.concatenate(self.priors)).astype(np.float32))
        category_kl = (jnp.exp(log_mean) * (log_mean - log_prior)).sum()
        # Σ_i H(q(c_i|x)), mean over the batch
        uncertainty = -(jnp.exp(latents.log_categories) * latents.log_categories).sum(1).mean()
        shared = overlap(*prior, self.classes, h.overlap_threshold)
        loss = (
            reconstruction
            + h.z_weight * jnp.abs(capacity_at(h.z_capacity, step, h.capacity_steps) - z_kl)
            + h.u_weight * jnp.abs(capacity_at(h.u_capacity, step, h.capacity_steps) - u_kl)
            + h.category_weight * category_kl
            + h.entropy_weight * uncertainty
            + h.overlap_weight * shared
        )
        return loss, Losses(loss, reconstruction, z_kl, u_kl, category_kl, uncertainty, shared, jnp.zeros(()))

    def draws(self, key, n: int) -> Draws:
        first, second = jax.random.split(key)
        return Draws(random.uniform(first, (n, sum(self.classes))), random.normal(second, (n, self.num_codes)))

    def latents(self, params, images, uniform=None, slope=_STEEPEST) -> Latents:
        """Images' posteriors; categories are drawn by ``uniform`` random numbers, or else the most probable ones."""
        features, _ = self.network.features(params["encoder"], images)
        logits = apply(self._logits, params["category"], features)
        if uniform is None:
            chosen = [jax.nn.one_hot(part.argmax(1), part.shape[1], dtype=jnp.float32) for part in self._parts(logits)]
        else:
            gumbel = -jnp.log(-jnp.log(uniform + 1e-12) + 1e-12)
            chosen = self._parts(jnp.exp(self._log_softmax((logits + gumbel) / self.temperature)))
        outputs = [apply(Dense(2 * self.num_z), params["z"], features)]
        for i, category in enumerate(chosen):
            gate = jax.nn.sigmoid(slope * apply(Dense(features.shape[1]), params["gate"][f"of_{i}"], category))
            outputs.append(apply(Dense(2 * self.num_u), params["u"][f"of_{i}"], features * gate))
        heads = [jnp.split(head, 2, axis=1) for head in outputs]
        mean, log_variance = (jnp.concatenate(parts, axis=1) for parts in zip(*heads, strict=True))
        return Latents(mean, log_variance, self._log_softmax(logits))

    def categories(self, params, images: Float[Array, "n h w c"]) -> Float[Array, "n v"]:
        """q(c_i|x) for every categorical variable, one after another."""
        with jax.default_matmul_precision("highest"):
            return jnp.exp(self.latents(params, images).log_categories)

    def represent(self, params, images: Float[Array, "n h w c"]) -> Posterior:
        with jax.default_matmul_precision("highest"):
            latents = self.latents(params, images)
        return Posterior(latents.mean, jnp.exp(latents.log_variance))

    def decode(self, params, codes: Float[Array, "n d"]) -> Float[Array, "n h w c"]:
        with jax.default_matmul_precision("highest"):
            return jax.nn.sigmoid(self.network.logits(params["decoder"], codes, self.image_shape)[0])

    def check(self, hyperparameters, source, steps: int) -> None:
        if self.epoch_steps is None and source.num_data is None:
            raise ValueError("epoch_steps: must be a number for data without end, got None")
        if self.labelled:
            check_labels(source, dict(zip(self.label_factors, self.classes, strict=True)))

    def epoch(self, num_data: int | None) -> int:
        """Updates per epoch; the released loader's last batch may be smaller."""
        return self.epoch_steps or -(-num_data // self.batch_size)

    def _error(self, params, codes, images) -> Float[Array, ""]:
        logits, _ = self.network.logits(params["decoder"], codes, self.image_shape)
        if self.reconstruction == "bernoulli":
            return negative_log_likelihood(logits, images)
        difference = jax.nn.sigmoid(logits) - images
        return (jnp.square(difference) if self.reconstruction == "squared" else jnp.abs(difference)).sum()

    @property
    def _logits(self) -> Dense:
        return Dense(sum(self.classes))

    def _parts(self, columns: Float[Array, "n v"]) -> list[Array]:
        """Columns by categorical variable."""
        ends = [sum(self.classes[: i + 1]) for i in range(len(self.classes) - 1)]
        return jnp.split(columns, ends, axis=1)

    def _log_softmax(self, logits: Float[Array, "n v"]) -> Float[Array, "n v"]:
        return jnp.concatenate([jax.nn.log_softmax(part) for part in self._parts(logits)], axis=1)
