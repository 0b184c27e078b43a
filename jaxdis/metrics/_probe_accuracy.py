"""Trained probes that predict each factor from all codes: linear and multilayer perceptrons, held-out accuracy."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from jaxdis._core.options import Count, Units
from jaxdis._core.spec import metric
from jaxdis._learners.probes import LINEAR, PRESETS, WIDTH, Preset, Recipe, predict_with_probes
from jaxdis.factors import Codes, Factors, Sample
from jaxdis.relations._samples import Chance, Samples, above_chance, joint_accuracy, read


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
