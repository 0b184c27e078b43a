"""Probes: multilayer perceptrons and linear softmax classifiers, one per factor × input mask, in one program."""

import dataclasses
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from jaxdis._core import random
from jaxdis._core.loops import each, repeat
from jaxdis._learners.classes import Groups, one_hot_of
from jaxdis._learners.linear import standardized
from jaxdis._learners.logistic_problem import LARGEST_LOGIT

# Logit of a class without training samples, so that it is never predicted.
NEVER = -1e30
# Least number of held-out samples for the choice among epochs, if that is at most a quarter of all.
LEAST_HELD_OUT = 200


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How probes are trained: Adam on cross-entropy, with batches from a new permutation in every epoch.

    Attributes:
      updates: the fewest steps if no probe stops before. Few samples are therefore passed over more often, at a rate
        that is lower in proportion; at the full one they are soon fitted too closely.
      wide: number of codes above which the rate falls, by the power of 3/4; None: it never does.
      batch: samples per step; at most ``1 / smallest_epoch`` of the training samples.
      smallest_epoch: the fewest steps per epoch, so that small samples still get enough steps.
      select: the epoch whose weights are kept. ``held_out``: the least cross-entropy on a share of the training samples
        that is kept from training; ``train``: the highest accuracy on the epoch's batches during training; ``last``:
        the last.
      patience: epochs without improvement after which a probe stops; None: never.
      stop_at: a probe stops after an epoch with a higher accuracy on its batches; that epoch is not kept unless it is
        the first.
      decay: factor applied to the rate at epochs 1, 2, 4, 8, …; ``cosine``: the rate falls to 0 over all epochs.
    """

    rate: float = 1e-3
    epochs: int = 75
    updates: int = 0
    cosine: bool = False
    wide: int | None = None
    batch: int = 1024
    smallest_epoch: int = 1
    standardize: bool = True
    select: Literal["held_out", "train", "last"] = "last"
    held_out: float = 0.1
    patience: int | None = None
    stop_at: float | None = None
    decay: float = 1.0

    def with_epochs(self, epochs: int | None) -> "Recipe":
        return self if epochs is None else dataclasses.replace(self, epochs=epochs, updates=0)

    def steps(self, trained: int) -> tuple[int, int]:
        """Samples per step, and steps per epoch."""
        batch = max(1, min(self.batch, trained // self.smallest_epoch))
        return batch, -(-trained // batch)

    def most_epochs(self, trained: int) -> int:
        return max(self.epochs, -(-self.updates // self.steps(trained)[1]))

    def rate_of(self, epoch: Int[Array, ""], epochs: int, codes: Float[Array, ""]) -> Float[Array, ""]:
        """The step size in one of so many epochs, with so many codes."""
        share = jnp.float32(self.epochs / epochs)
        if self.wide is not None:
            share = jnp.minimum(share, (self.wide / jnp.maximum(codes, 1.0)) ** 0.75)
        if self.cosine:
            share = share * (1 + jnp.cos(jnp.pi * epoch.astype(jnp.float32) / epochs)) / 2
        # As often as there are 1, 2, 4, 8, … up to the epoch.
        return self.rate * share * self.decay ** (32 - jax.lax.clz(epoch)).astype(jnp.float32)


Preset = Literal["converged", "mahon2024_paper", "mahon2024_code"]

# ``mahon2024_paper``: §5, which states neither the batch size nor the scaling. ``mahon2024_code``: the released code,
# including its choice of epoch: it leaves the loop at 99 % before it stores the epoch that reached it.
PRESETS: dict[str, Recipe] = {
    "converged": Recipe(
        2e-2, epochs=55, updates=2000, cosine=True, wide=16, batch=256, smallest_epoch=8, select="held_out", patience=20
    ),
    "mahon2024_paper": Recipe(rate=1e-3, epochs=75, batch=1024),
    "mahon2024_code": Recipe(
        rate=1e-2, epochs=10, batch=4096, standardize=False, select="train", stop_at=0.99, decay=0.65
    ),
}
# Linear probes of the preset "converged": perceptrons' rates end far from the optimum (accuracy .45 on 1,000 samples of
# eight ordered classes, where logistic regression has .92 and this rate .91).
LINEAR = Recipe(rate=0.1, epochs=200, batch=256, smallest_epoch=8, select="held_out", patience=20)
WIDTH = 256


class Probe(NamedTuple):
    """Weights for the probes of ``k`` factors; ``s`` runs over all factors' values, factor by factor.

    ``hidden [d + 1, k h]`` (the last row is the bias; None for linear probes), ``output [s, h]`` (``[s, d]`` for linear
    probes) and ``bias [s]``. Outputs are rows because the matrix product of their gradient is then seven times as fast
    on CPU.
    """

    hidden: Float[Array, "e kh"] | None
    output: Float[Array, "s h"]
    bias: Float[Array, " s"]


def predict_with_probes(
    key: PRNGKeyArray,
    codes: Float[Array, "n d"],
    classes: Int[Array, "n k"],
    sizes: tuple[int, ...],
    held_out: Float[Array, "m d"],
    masks: Bool[Array, "r d k"],
    *,
    recipe: Recipe,
    width: int | None = WIDTH,
    groups: Int[Array, " n"] | None = None,
) -> Int[Array, "r m k"]:
    """Train ``r × k`` probes and predict the classes of the held-out samples.

    Args:
      masks: the codes that each of ``r`` probes sees for each of ``k`` factors; the others are 0 for it.
      width: how many rectified hidden units; None: a linear softmax classifier.
      groups: equal numbers for samples that belong together; the choice among epochs keeps whole ones from training.

    Contract:

    - Codes must be finite. A class without training samples is never predicted.
    - How codes are ordered does not matter: weights are drawn for codes in a canonical order.
    - All masks see the same batches, and no probe depends on how many others are trained, up to float32 rounding. Its
      first weights depend on how many classes a factor has at most.
    - Temporary memory suffices for one mask on CPU, where masks run one after the other, and for all masks on an
      accelerator.
    """
    if recipe.standardize:
        codes, held_out = standardized(codes), standardized(held_out, like=codes)
    order_key, key = jax.random.split(key)
    order = jnp.argsort(random.normal(order_key, (codes.shape[0],)) @ codes)
    codes, held_out, masks = codes[:, order], held_out[:, order], masks[:, order].astype(jnp.float32)
    absent = jnp.where(one_hot_of(classes, sizes).any(axis=0), 0.0, NEVER)

    def one_mask(mask):
        probe = fit_probes(key, codes, classes, sizes, mask, recipe=recipe, width=width, groups=groups)
        logits = probe_logits(probe, held_out, mask, sizes) + absent[None, :]
        predicted = [jnp.argmax(logits[:, part], axis=1) for part in Groups.of(sizes).slices()]
        return jnp.stack(predicted, axis=1).astype(jnp.int32)

    return each(one_mask, masks)


def probe_logits(
    probe: Probe, codes: Float[Array, "n d"], mask: Float[Array, "d k"], sizes: tuple[int, ...]
) -> Float[Array, "n s"]:
    """Logits of all factors' classes, from the codes that the mask shows."""
    parts = zip(_units(probe, *_inputs(codes, mask, probe.hidden is not None)), Groups.of(sizes).slices(), strict=True)
    return jnp.concatenate([units @ probe.output[part].T for units, part in parts], axis=1) + probe.bias[None, :]


def fit_probes(
    key: PRNGKeyArray,
    codes: Float[Array, "n d"],
    classes: Int[Array, "n k"],
    sizes: tuple[int, ...],
    mask: Float[Array, "d k"],
    *,
    recipe: Recipe,
    width: int | None = WIDTH,
    groups: Int[Array, " n"] | None = None,
) -> Probe:
    """The probes of all factors under one mask, trained together: one loop over epochs around a scan over batches.

    A probe that has stopped keeps its weights while the others continue; the loop ends when all have stopped.
    """
    n, k = codes.shape[0], len(sizes)
    of_classes, hot = Groups.of(sizes), one_hot_of(classes, sizes)
    member = jnp.asarray(of_classes.member)
    import optax

    start_key, split_key, batch_key = jax.random.split(key, 3)
    kept = 0
    if recipe.select == "held_out" and n > 1:
        kept = max(1, round(n * recipe.held_out), min(n // 4, LEAST_HELD_OUT))
    if groups is None or not kept:
        rows = _shuffled(split_key, n) if kept else jnp.arange(n)
        valid, rows = rows[:kept], rows[kept:]
    else:
        valid, rows = random.divided_rows(split_key, groups, n, kept)
    optimizer, trained = optax.scale_by_adam(), n - kept
    batch, steps = recipe.steps(trained)
    epochs, shown = recipe.most_epochs(trained), (mask > 0).any(axis=1).sum().astype(jnp.float32)

    def epoch(state: _State) -> _State:
        rate = recipe.rate_of(state.epoch, epochs, shown)

        def step(carry, chosen):
            probe, moments = carry
            picked, counted = chosen
            number = counted.sum()
            gradient, right = _gradient(probe, inputs[picked], hot[picked], counted / number, seen, of_classes)
            with jax.numpy_dtype_promotion("standard"):  # optax raises a float to the power of an int32 count
                updates, moments = optimizer.update(gradient, moments)
            moved = jax.tree.map(lambda leaf, update: leaf - rate * update, probe, updates)
            return (_pick(state.running, moved, probe, member), moments), right * number

        drawn = rows[_shuffled(jax.random.fold_in(batch_key, state.epoch), trained)]
        # The samples of each batch, and 1 where one counts, 0 where it fills the last batch.
        chosen = jnp.pad(drawn, (0, steps * batch - trained)).reshape(steps, batch)
        counted = (jnp.arange(steps * batch) < trained).astype(jnp.float32).reshape(steps, batch)
        (probe, moments), right = jax.lax.scan(step, (state.probe, state.moments), (chosen, counted))
        merit = accuracy = right.sum(axis=0) / trained
        if recipe.select == "held_out":
            logits = jnp.clip(probe_logits(probe, codes[valid], mask, sizes), -LARGEST_LOGIT, LARGEST_LOGIT)
            merit = -(jnp.log(jnp.exp(logits) @ member) - (logits * hot[valid]) @ member).mean(axis=0)
        return state.after(probe, moments, accuracy, merit, recipe, member)

    start = _initial(start_key, codes.shape[1], sizes, mask, width)
    inputs, seen = _inputs(codes, mask, width is not None)
    zero = jnp.zeros(k, jnp.int32)
    state = _State(jnp.int32(0), jnp.ones(k, bool), zero, jnp.full(k, -jnp.inf), start, optimizer.init(start), start)
    return repeat("epochs", lambda state: (state.epoch < epochs) & state.running.any(), epoch, state).best


class _State(NamedTuple):
    """How all factors' probes are trained: which still run, the epochs since each was ``best`` and its merit."""

    epoch: Int[Array, ""]
    running: Bool[Array, " k"]
    waited: Int[Array, " k"]
    merit: Float[Array, " k"]
    probe: Probe
    moments: PyTree
    best: Probe

    def after(self, probe: Probe, moments, accuracy, merit, recipe: Recipe, member) -> "_State":
        """The state after an epoch with these accuracies on its batches and merits ``[k]``."""
        better = self.running & ((merit > self.merit) | (recipe.select == "last"))
        stop = jnp.zeros(self.running.shape, bool)
        if recipe.stop_at is not None:
            stop = accuracy > recipe.stop_at
            better &= ~stop | (self.epoch == 0)
        waited = jnp.where(better, 0, self.waited + 1)
        if recipe.patience is not None:
            stop |= waited >= recipe.patience
        merit = jnp.where(better, merit, self.merit)
        best = _pick(better, probe, self.best, member)
        return _State(self.epoch + 1, self.running & ~stop, waited, merit, probe, moments, best)


def _pick(running: Bool[Array, " k"], left: Probe, right: Probe, member: Float[Array, "s k"]) -> Probe:
    """The probes of running factors from ``left``, the others from ``right``."""
    columns = (running.astype(jnp.float32) @ member.T) > 0
    hidden = left.hidden
    if hidden is not None:
        units = jnp.repeat(running, hidden.shape[1] // len(running))[None, :]
        hidden = jnp.where(units, hidden, right.hidden)
    output = jnp.where(columns[:, None], left.output, right.output)
    return Probe(hidden, output, jnp.where(columns, left.bias, right.bias))


def _inputs(codes, mask, biased: bool) -> tuple[Float[Array, "n e"], Float[Array, "e k"]]:
    """The codes and their mask, with a last column of ones for the bias of hidden units.

    So the bias is part of the product, and accelerators rectify its result before they write it.
    """
    if not biased:
        return codes, mask
    return jnp.pad(codes, ((0, 0), (0, 1)), constant_values=1.0), jnp.pad(mask, ((0, 1), (0, 0)), constant_values=1.0)


def _units(probe: Probe, inputs, mask) -> list[Float[Array, "n h"]]:
    """The inputs of each factor's output layer: its rectified hidden units, or the codes that its mask shows."""
    factors = range(mask.shape[1])
    if probe.hidden is None:
        return [inputs * mask[None, :, j] for j in factors]
    weights = probe.hidden.reshape(*mask.shape, -1) * mask[:, :, None]
    # Behind the barrier, units are compared with 0; before it, products would be, and then be written as well.
    return [jax.lax.optimization_barrier(jax.nn.relu(inputs @ weights[:, j])) for j in factors]


def _gradient(probe: Probe, inputs, hot, share, mask, groups: Groups) -> tuple[Probe, Float[Array, " k"]]:
    """The gradient of the mean cross-entropy, and how often the largest logit is the true class's.

    The gradient is written out, which halves the program that automatic differentiation would compile.
    """
    hidden, output, bias, hits = [], [], [], []
    for j, (units, part) in enumerate(zip(_units(probe, inputs, mask), groups.slices(), strict=True)):
        logits = units @ probe.output[part].T + probe.bias[None, part]
        exponentials = jnp.exp(jnp.clip(logits, -LARGEST_LOGIT, LARGEST_LOGIT))
        error = (exponentials / exponentials.sum(axis=1, keepdims=True) - hot[:, part]) * share[:, None]
        output.append(error.T @ units)
        bias.append(error.sum(axis=0))
        hits.append(share @ ((logits * hot[:, part]).sum(axis=1) >= logits.max(axis=1)).astype(jnp.float32))
        if probe.hidden is not None:
            back = jnp.where(units > 0, error @ probe.output[part], 0.0)
            hidden.append((inputs.T @ back) * mask[:, j, None])
    first = jnp.concatenate(hidden, axis=1) if hidden else None
    return Probe(first, jnp.concatenate(output), jnp.concatenate(bias)), jnp.stack(hits)


def _initial(key, d: int, sizes, mask, width: int | None) -> Probe:
    """Uniform weights within one over the root of the number of inputs (those that the mask shows), as in PyTorch."""
    k, most, h = len(sizes), max(sizes), width or d
    # A random number depends only on its place: factors come first, so that none depends on the number of others (but
    # on the largest number of classes among them).
    draws = random.uniform(key, (k, d + 1 + most, h + 1), minval=-1.0, maxval=1.0)
    bounds = 1 / jnp.sqrt(jnp.maximum(mask.sum(axis=0), 1.0))
    first = None
    if width is not None:
        first = (bounds[:, None, None] * draws[:, : d + 1, :h]).transpose(1, 0, 2).reshape(d + 1, k * h)
        bounds = jnp.full(k, 1 / np.sqrt(width, dtype=np.float32))
    last = bounds[:, None, None] * draws[:, d + 1 :]
    rows = jnp.concatenate([last[j, :size] for j, size in enumerate(sizes)])
    return Probe(first, rows[:, :h], rows[:, h])


def _shuffled(key, n: int) -> Int[Array, " n"]:
    """The integers below n in random order: one sort of random bits that carry the integer in their low bits."""
    bits = random.bits(key, (n,)).astype(jnp.int32)
    numbers = jnp.arange(n, dtype=jnp.int32)
    low = (1 << (n - 1).bit_length()) - 1
    if low < 1 << 16:  # enough random bits remain above
        return jax.lax.sort(bits & ~low | numbers, is_stable=True) & low
    return jax.lax.sort((bits, numbers), num_keys=1, is_stable=False)[1]
