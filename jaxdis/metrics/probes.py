"""What trained probes of all codes say of each factor: linear and multilayer perceptrons, held-out accuracy."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from jaxdis.arrays import safe_divide
from jaxdis.learners.probes import PRESETS, WIDTH, Preset, Recipe, predict_with_probes
from jaxdis.metrics.single_neuron import chance_of, joint_accuracy
from jaxdis.options import Count, Units
from jaxdis.relations.information import mutual_information_equal_count
from jaxdis.relations.relation import finite_codes
from jaxdis.typing import Codes, Factors, Sample


class Probed(NamedTuple):
    """``score []``: mean of ``per_factor [k]``, held-out ``accuracy [k]`` adjusted for chance (0 chance, 1 perfect).

    ``joint [k, k]``: share of held-out samples of which both factors are named; the accuracy itself on the diagonal.
    """

    score: Float[Array, ""]
    per_factor: Float[Array, " k"]
    accuracy: Float[Array, " k"]
    joint: Float[Array, "k k"]


def linear_probe(
    key: Key[Array, ""],
    codes: Codes,
    factors: Factors,
    *,
    test: Sample,
    preset: Preset = "converged",
    epochs: Count | None = None,
    active: Bool[Array, " d"] | None = None,
) -> Probed:
    """Chance-adjusted held-out accuracy of a linear softmax classifier of each factor on all codes, trained by Adam.

    ``per_factor[j] = max(0, (a − r) / (1 − r))`` with ``r = Σ_c p_c²`` of the training classes. Arguments, shapes and
    contract as :func:`nk`.

    Reference: Mahon et al. 2024, §4.2 and Table 2, whose caption says chance-adjusted while the printed accuracies are
    raw (``accuracy``).
    """
    return _probe(key, codes, factors, test, active, recipe_of(preset, epochs), None)


def mlp_probe(
    key: Key[Array, ""],
    codes: Codes,
    factors: Factors,
    *,
    test: Sample,
    preset: Preset = "converged",
    width: Units = WIDTH,
    epochs: Count | None = None,
    active: Bool[Array, " d"] | None = None,
) -> Probed:
    """Chance-adjusted held-out accuracy of a perceptron with one hidden layer for each factor on all codes.

    As :func:`linear_probe`, with ``width`` rectified units between.
    """
    return _probe(key, codes, factors, test, active, recipe_of(preset, epochs), width)


class Problem(NamedTuple):
    codes: Float[Array, "n d"]
    held_out: Float[Array, "m d"]
    classes: Int[Array, "n k"]
    truth: Int[Array, "m k"]
    sizes: tuple[int, ...]
    shown: Bool[Array, " d"]
    usable: Bool[Array, " k"]
    finite: Bool[Array, ""]
    chance: Float[Array, " k"]
    information: Float[Array, "d k"]


def problem_of(codes, factors: Factors, test: Sample, active) -> Problem:
    """Clean samples, every factor as a class (a continuous one as a single class, left out by ``usable``)."""
    sizes = tuple(size or 1 for size in factors.sizes)
    finite = (finite_codes(codes) & finite_codes(test.codes)).all()
    codes, held_out = jnp.nan_to_num(codes), jnp.nan_to_num(test.codes)
    last = np.array([sizes], np.int32) - 1
    classes, truth = (jnp.clip(sample.values.astype(jnp.int32), 0, last) for sample in (factors, test.factors))
    relation = mutual_information_equal_count(codes, factors, active=active)
    usable = (relation.ceiling > 0) & np.array([size is not None for size in factors.sizes])
    chance = chance_of(classes, sizes)
    shown = relation.active
    # What a code that does not count holds must not matter, not even to the order in which weights are drawn.
    codes, held_out = (jnp.where(shown[None, :], sample, 0.0) for sample in (codes, held_out))
    return Problem(codes, held_out, classes, truth, sizes, shown, usable, finite, chance, relation.strength)


def recipe_of(preset: Preset, epochs: int | None) -> Recipe:
    if preset not in PRESETS:
        raise ValueError(f"preset: unknown name {preset!r}; the presets are {', '.join(PRESETS)}")
    return PRESETS[preset].with_epochs(epochs)


def named_correctly(key, problem: Problem, masks, recipe: Recipe, width: int | None) -> Float[Array, "r m k"]:
    named = predict_with_probes(
        key, problem.codes, problem.classes, problem.sizes, problem.held_out, masks, recipe=recipe, width=width
    )
    return (named == problem.truth[None]).astype(jnp.float32)


def _probe(key, codes, factors, test, active, recipe: Recipe, width: int | None) -> Probed:
    problem = problem_of(codes, factors, test, active)
    mask = jnp.broadcast_to(problem.shown[:, None], (codes.shape[1], len(problem.sizes)))
    correct = named_correctly(key, problem, mask[None], recipe, width)[0]
    accuracy = correct.mean(axis=0)
    adjusted = jnp.maximum(safe_divide(accuracy - problem.chance, 1 - problem.chance), 0.0)
    keep = only_usable(problem)
    defined = problem.usable & problem.finite
    joint = jnp.where(defined[:, None] & defined[None, :], joint_accuracy(correct), jnp.nan)
    return Probed(mean_over_usable(problem, adjusted), keep(adjusted), keep(accuracy), joint)


def only_usable(problem: Problem):
    return lambda values: jnp.where(problem.usable & problem.finite, values, jnp.nan)


def mean_over_usable(problem: Problem, values: Float[Array, " k"]) -> Float[Array, ""]:
    mean = jnp.where(problem.usable, values, 0.0).sum() / problem.usable.sum().astype(jnp.float32)
    return jnp.where(problem.finite, mean, jnp.nan)
