"""Trained probes that predict each factor from codes, linear and multilayer perceptrons: their held-out accuracy, and
how much of it is lost when codes are knocked out."""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from jaxdis._core.arrays import safe_divide
from jaxdis._core.kernels.assignment import Solver
from jaxdis._core.loops import each
from jaxdis._core.options import Count, Units
from jaxdis._core.spec import metric
from jaxdis._learners.probes import LINEAR, PRESETS, WIDTH, Preset, Recipe, predict_with_probes
from jaxdis.factors import Codes, Factors, Sample
from jaxdis.metrics._single_neuron import Alignment, align_codes, alignment
from jaxdis.relations._relation import Chance, Samples, above_chance, joint_accuracy, read


class Probed(NamedTuple):
    """``score []``: ``per_factor [k]`` on average, held-out ``accuracy [k]`` adjusted for chance: 1 is perfect.

    ``joint [k, k]``: how often both factors are classified correctly in held-out samples; the diagonal is the accuracy.
    """

    score: Float[Array, ""]
    per_factor: Float[Array, " k"]
    accuracy: Float[Array, " k"]
    joint: Float[Array, "k k"]


@metric(needs_classes=True, distinct_samples=True, judges="chance")
def linear_probe(
    key: PRNGKeyArray,
    codes: Codes,
    factors: Factors,
    *,
    test: Sample,
    preset: Preset = "converged",
    epochs: Count | None = None,
    chance: Chance = "squared",
    active: Bool[Array, " d"] | None = None,
    groups: Int[Array, " n"] | None = None,
) -> Probed:
    """Train a linear softmax classifier for each factor on all codes by Adam: chance-adjusted held-out accuracy.

    ``per_factor[j] = max(0, (a − r) / (1 − r))`` with ``r`` the training classes' ``chance``.

    Shapes: codes ``[n, d]``, factors ``[n, k]``, test codes ``[m, d]``.

    Options:
      preset, epochs: as in :func:`jaxdis.metrics.nk`.
      chance: what accuracy scores 0. ``"squared"``, the paper's: ``r = Σ_c p_c²``, reached by guessing classes as often
        as they occur. ``"majority"``: the held-out accuracy of always naming the most frequent training class.

    Contract:

    - In [0, 1]; stochastic; otherwise as :func:`jaxdis.metrics.nk`.
    - Constant codes predict the most frequent class. By ``chance="squared"`` this scores 0 for balanced classes, but
      ``(1 − 2p) / (2 (1 − p))`` for a binary factor with a class of frequency ``p ≤ ½``, which tends to ½ for a rare
      one, where noise may score less; by ``"majority"`` it scores 0.
    - Many ordered classes along one code need large weights, which no preset reaches: with 40 classes along a code with
      little noise the accuracy is 0.45 where logistic regression with a weak penalty has 1. ``downstream_logistic`` and
      ``explicitness`` are fitted to their optimum instead.

    Reference: Mahon et al. 2024, §4.2 and Table 2, whose caption states chance-adjusted values while the printed
    accuracies are raw (``accuracy``).
    """
    return _probe(key, codes, factors, test, active, groups, recipe_of(preset, epochs, None), None, chance)


@metric(needs_classes=True, distinct_samples=True, judges="chance")
def mlp_probe(
    key: PRNGKeyArray,
    codes: Codes,
    factors: Factors,
    *,
    test: Sample,
    preset: Preset = "converged",
    width: Units = WIDTH,
    epochs: Count | None = None,
    chance: Chance = "squared",
    active: Bool[Array, " d"] | None = None,
    groups: Int[Array, " n"] | None = None,
) -> Probed:
    """Train a perceptron with one hidden layer for each factor on all codes: chance-adjusted held-out accuracy.

    As :func:`linear_probe`, with a hidden layer (rectified units).

    Shapes: codes ``[n, d]``, factors ``[n, k]``, test codes ``[m, d]``.

    Options:
      preset, epochs: as in :func:`jaxdis.metrics.nk`.
      width: how many hidden units.
      chance: as in :func:`linear_probe`.

    Contract:

    - In [0, 1]; stochastic; otherwise as :func:`linear_probe`.

    Reference: Mahon et al. 2024, §4.3 and Table 2.
    """
    return _probe(key, codes, factors, test, active, groups, recipe_of(preset, epochs, width), width, chance)


def recipe_of(preset: Preset, epochs: int | None, width: int | None) -> Recipe:
    """A preset's recipe, for a perceptron or, with ``width=None``, for a linear probe."""
    if preset not in PRESETS:
        raise ValueError(f"preset: unknown name {preset!r}; the presets are {', '.join(PRESETS)}")
    recipe = LINEAR if width is None and preset == "converged" else PRESETS[preset]
    return recipe.with_epochs(epochs)


def classified_correctly(key, samples: Samples, masks, recipe: Recipe, width: int | None) -> Float[Array, "r m k"]:
    """1 where the probes that see the codes in a mask ``[d, k]`` (``r`` masks) predict the class, else 0."""
    read = key, samples.train, samples.classes, samples.sizes, samples.held_out, masks
    predicted = predict_with_probes(*read, recipe=recipe, width=width, groups=samples.groups)
    return (predicted == samples.truth[None]).astype(jnp.float32)


def _probe(key, codes, factors, test, active, groups, recipe: Recipe, width: int | None, chance: Chance) -> Probed:
    samples = read(codes, factors, test, active, groups=groups)
    mask = jnp.broadcast_to(samples.shown[:, None], (codes.shape[1], len(samples.sizes)))
    correct = classified_correctly(key, samples, mask[None], recipe, width)[0]
    accuracy = correct.mean(axis=0)
    adjusted = above_chance(accuracy, samples.chance(chance))
    joint = samples.by_pair(joint_accuracy(correct))
    return Probed(samples.mean(adjusted), samples.by_factor(adjusted), samples.by_factor(accuracy), joint)


class Knockout(NamedTuple):
    """``score []``: ``per_factor [k]``, the accuracy lost, on average; ``adjusted [k]``, the loss over ``1 − chance``.

    ``full [k]`` and ``knocked [k]`` are the held-out accuracies with all codes and without the aligned one; ``code
    [k]`` is the aligned code, −1 for none.
    """

    score: Float[Array, ""]
    per_factor: Float[Array, " k"]
    adjusted: Float[Array, " k"]
    full: Float[Array, " k"]
    knocked: Float[Array, " k"]
    code: Int[Array, " k"]


@metric(needs_classes=True, distinct_samples=True, starts_from=mlp_probe)
def nk(
    key: PRNGKeyArray,
    codes: Codes,
    factors: Factors,
    *,
    test: Sample,
    knocked: Count = 1,
    mode: Literal["paper", "code"] = "paper",
    preset: Preset = "converged",
    width: Units = WIDTH,
    epochs: Count | None = None,
    align: Alignment = "mutual_information",
    assignment: Solver = "auto",
    active: Bool[Array, " d"] | None = None,
    base: Probed | None = None,
    groups: Int[Array, " n"] | None = None,
) -> Knockout:
    """Knock out neurons: compute the accuracy that a perceptron loses without the code aligned with the factor.

    ``NK_j = a_j(all codes) − a_j(all but the aligned code)``, a one-hidden-layer perceptron's held-out accuracies; the
    score is the mean over factors. Codes are aligned with factors one to one as in
    :func:`jaxdis.metrics.snc`.

    Shapes: codes ``[n, d]``, factors ``[n, k]``, test codes ``[m, d]``.

    Options:
      knocked: how many codes to knock out per factor; after the first, each is the code that is aligned with the factor
        once the previous ones are removed.
      mode: if there are fewer codes than factors, ``"paper"`` leaves a factor without a code, which then loses nothing;
        ``"code"`` lets a code serve several factors.
      preset: ``"converged"`` (standardized codes, a rate that falls to 0 over 55 epochs or 2,000 steps, the best epoch
        on held-out samples), ``"mahon2024_paper"`` (Adam 1e-3, 75 epochs) or ``"mahon2024_code"`` (raw codes, Adam 1e-2
        with decay, 10 epochs, batches with 4096 samples: far from converged with 10,000 samples).
      epochs: replaces the preset's.
      width: how many hidden units.
      align, assignment: as in :func:`jaxdis.metrics.snc`.

    Contract:

    - In [−1, 1]; 0 if the other codes are as informative.
    - With all codes, accuracies are as by ``mlp_probe``; evaluated together with it at the same options, they cost
      nothing more.
    - Stochastic, with a standard error around ``sqrt(a (1 − a) / m)`` per factor.
    - Continuous factors, and those with one value in training or in the held-out samples, are left out and NaN in their
      part. Any non-finite code gives NaN.
    - Classes that do not occur in training are never predicted.

    Reference: Mahon et al. 2024, §4.3 and §5. Their tables print the raw difference, not adjusted for chance.
    """
    samples = read(codes, factors, test, active, groups=groups)
    orders = _orders(samples, factors, knocked, mode, align, assignment)
    gone = jax.nn.one_hot(orders, codes.shape[1], dtype=bool).any(axis=1).T  # [d, k]
    full = jnp.broadcast_to(samples.shown[:, None], gone.shape)
    masks = jnp.stack([full, full & ~gone])[0 if base is None else 1 :]
    accuracies = classified_correctly(key, samples, masks, recipe_of(preset, epochs, width), width).mean(axis=1)
    full_accuracy, without = accuracies[0] if base is None else base.accuracy, accuracies[-1]
    lost = jnp.where(orders[:, 0] >= 0, full_accuracy - without, 0.0)
    without = jnp.where(orders[:, 0] >= 0, without, full_accuracy)
    parts = map(samples.by_factor, (lost, safe_divide(lost, 1 - samples.chance()), full_accuracy, without))
    return Knockout(samples.mean(lost), *parts, orders[:, 0])


@metric()
def knockout_curve(
    key: PRNGKeyArray,
    codes: Codes,
    factors: Factors,
    *,
    test: Sample,
    most: int | None = None,
    mode: Literal["paper", "code"] = "paper",
    preset: Preset = "converged",
    width: Units = WIDTH,
    epochs: Count | None = None,
    active: Bool[Array, " d"] | None = None,
) -> Float[Array, "r k"]:
    """Compute each factor's held-out accuracy with 0, 1, … codes knocked out, ``[most + 1, k]``; up to all by default.

    Codes are removed as by :func:`nk`: the aligned one, then the one that is aligned after its removal, and so on. If
    alignment leaves no code to a factor, the most informative remaining one follows. With all codes removed, the
    accuracy is the most frequent class's share. Arguments as :func:`nk`; NaN for factors that are left out.

    Reference: Mahon et al. 2024, released code (progressive knock-out; it records training accuracy, this function
    held-out).
    """
    samples = read(codes, factors, test, active)
    d = codes.shape[1]
    most = d if most is None else min(most, d)
    orders = _orders(samples, factors, most, mode)
    gone = jnp.cumsum(jax.nn.one_hot(orders, d), axis=1) > 0  # [k, most, d]
    gone = jnp.concatenate([jnp.zeros((len(factors.sizes), 1, d), bool), gone], axis=1).transpose(1, 2, 0)
    shown = samples.shown[None, :, None]
    correct = classified_correctly(key, samples, shown & ~gone, recipe_of(preset, epochs, width), width)
    return samples.by_factor(correct.mean(axis=1))


@metric()
def knockout_table(
    key: PRNGKeyArray,
    codes: Codes,
    factors: Factors,
    *,
    test: Sample,
    mode: Literal["paper", "code"] = "paper",
    preset: Preset = "converged",
    width: Units = WIDTH,
    epochs: Count | None = None,
    active: Bool[Array, " d"] | None = None,
) -> Float[Array, "k k"]:
    """Compute the accuracy that factor ``j`` loses without the code aligned with factor ``i``, ``[i, j]``.

    The diagonal is NK; for disentangled codes the other entries are 0. Arguments as :func:`nk`; NaN for factors left
    out.

    Reference: Mahon et al. 2024, released code (the aligned code of a pair's other factor).
    """
    samples = read(codes, factors, test, active)
    k = len(factors.sizes)
    aligned = _orders(samples, factors, 1, mode)[:, 0]
    gone = jax.nn.one_hot(aligned, codes.shape[1], dtype=bool)  # [i, d]
    shown = samples.shown[None, :] & jnp.concatenate([jnp.ones((1, codes.shape[1]), bool), ~gone])
    masks = jnp.broadcast_to(shown[:, :, None], (*shown.shape, k))
    accuracy = classified_correctly(key, samples, masks, recipe_of(preset, epochs, width), width).mean(axis=1)
    return samples.by_pair(jnp.where(aligned[:, None] >= 0, accuracy[:1] - accuracy[1:], 0.0))


def _orders(
    samples: Samples,
    factors: Factors,
    count: int,
    mode: str,
    align: Alignment = "mutual_information",
    assignment: Solver = "auto",
) -> Int[Array, "k c"]:
    information = alignment(samples, factors, align, mode)
    return knockout_order(
        information, samples.shown, samples.usable, count, reuse=mode == "code", assignment=assignment
    )


def knockout_order(
    information: Float[Array, "d k"],
    shown: Bool[Array, " d"],
    usable: Bool[Array, " k"],
    count: int,
    *,
    reuse: bool = False,
    assignment: Solver = "auto",
) -> Int[Array, "k c"]:
    """The codes to knock out for each factor, in order: the aligned one, then those aligned without it; −1 for none.

    After the first, a factor that the alignment leaves without a code takes the most informative remaining one.
    """
    first = align_codes(information, shown, usable, reuse=reuse, assignment=assignment)

    def one_factor(factor):
        def further(left, number):
            aligned = align_codes(information, left, usable, reuse=reuse, assignment=assignment)[factor]
            best = jnp.argmax(jnp.where(left, information[:, factor], -jnp.inf)).astype(jnp.int32)
            aligned = jnp.where(aligned >= 0, aligned, jnp.where(left.any(), best, -1))
            chosen = jnp.where(number == 0, first[factor], aligned).astype(jnp.int32)
            return left & (jnp.arange(left.shape[0]) != chosen), chosen

        return jax.lax.scan(further, shown, jnp.arange(count))[1]

    if count == 1:
        return first[:, None]
    return each(one_factor, jnp.arange(usable.shape[0]))
