"""Predictions outside the training distribution: familiar values in new combinations, factors in new regions."""

import dataclasses
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from jaxdis._core.arrays import safe_divide, weighted_mean
from jaxdis._core.spec import metric
from jaxdis._learners.linear import lasso, standardized
from jaxdis._learners.probes import WIDTH, Preset
from jaxdis.factors import Codes, Factors, Sample
from jaxdis.metrics._probe_accuracy import classified_correctly, recipe_of
from jaxdis.relations._relation import above_chance, joint_accuracy, read, varied

# Of the samples, the share that probes learn from; the rest is the control.
TRAIN_SHARE = 2 / 3


class Composition(NamedTuple):
    """How well probes predict factors on combinations that were absent from training.

    ``accuracy [k]`` raw and ``per_factor [k]`` adjusted for chance; ``joint [k, k]``: how often both factors are
    classified correctly in held-out samples, and ``adjusted_joint [k, k]``, adjusted for the two chances' product.
    """

    accuracy: Float[Array, " k"]
    per_factor: Float[Array, " k"]
    joint: Float[Array, "k k"]
    adjusted_joint: Float[Array, "k k"]


class CompositionalGeneralization(NamedTuple):
    """What a perceptron and a linear probe reach."""

    mlp: Composition
    linear: Composition


@metric()
def compositional_generalization(
    key: PRNGKeyArray,
    codes: Codes,
    factors: Factors,
    test_codes: Float[Array, "m d"],
    test_factors: Factors,
    *,
    preset: Preset = "converged",
    width: int = WIDTH,
    epochs: int | None = None,
) -> CompositionalGeneralization:
    """Train probes on the combinations that are kept and evaluate them on the combination left out.

    The caller splits the data: the test samples are all those with one pair of values in two factors (the smallest
    square, for example), the training samples all others, and the representation was learned on the latter.
    :meth:`jaxdis.data.FactorSpace.without` and ``only`` give the two spaces; an equally large random
    split is the control. Read ``joint[i, j]`` for the two factors, and ``accuracy`` and ``per_factor`` for each factor.

    Args:
      codes: ``[n, d]`` training codes, with ``factors [n, k]``.
      test_codes: ``[m, d]``, with ``test_factors [m, k]``.
      preset: as in :func:`jaxdis.metrics.nk`; ``epochs`` replaces the preset's.
      width: how many hidden units the perceptron has.

    Contract:

    - Chance is computed on the training samples, ``r_j = Σ_c p_c²``, since in the test samples the two factors have a
      single class (among them chance would be 1); a pair's chance is ``r_i r_j``. Adjusted values are ``max(0, (a − r)
      / (1 − r))``.
    - Continuous factors and those with a single training value are NaN. Classes absent from training are never
      predicted.
    - Any non-finite code gives NaN; stochastic.

    Reference: Mahon et al. 2024, §5.2 (no code for the split was released).
    """
    novel = Sample(test_codes, test_factors)
    mlp, linear = (_read_out(key, codes, factors, (novel,), preset, units, epochs)[0] for units in (width, None))
    return CompositionalGeneralization(mlp, linear)


class NovelCombination(NamedTuple):
    """How often both factors in the pair are classified correctly, adjusted for chance.

    By a perceptron, ``score []``, and by a linear probe, ``linear []``, on the combination left out; ``familiar`` and
    ``linear_familiar`` on samples from the others. ``both`` and ``linear_both`` are the first two before the
    adjustment. Of each factor in the combination left out: ``per_factor [k]`` and ``linear_per_factor``; before the
    adjustment, ``accuracy`` and ``linear_accuracy``.
    """

    score: Float[Array, ""]
    familiar: Float[Array, ""]
    linear: Float[Array, ""]
    linear_familiar: Float[Array, ""]
    both: Float[Array, ""]
    linear_both: Float[Array, ""]
    per_factor: Float[Array, " k"]
    linear_per_factor: Float[Array, " k"]
    accuracy: Float[Array, " k"]
    linear_accuracy: Float[Array, " k"]


@metric(needs_classes=True, distinct_samples=True)
def novel_combination(
    key: PRNGKeyArray,
    codes: Codes,
    factors: Factors,
    *,
    test: Sample,
    preset: Preset = "converged",
    width: int = WIDTH,
    epochs: int | None = None,
) -> NovelCombination:
    """Score :func:`compositional_generalization`, with its control: can the pair left out be predicted?

    The pair is the two factors with a single value in the test samples. Probes are trained on the first two thirds; the
    last third is the control (samples are assumed to be in random order).

    Options:
      preset, epochs, width: as in :func:`jaxdis.metrics.nk`.

    Contract:

    - In [0, 1]; chance is 0. Stochastic. Any non-finite code gives NaN.
    - NaN unless exactly two factors that vary in training are constant in the test samples.

    Reference: Mahon et al. 2024, §5.2 and Table 3 ("both" for CG, linear CG and normal test set).
    """
    cut = max(1, round(codes.shape[0] * TRAIN_SHARE))
    kept, control = jnp.arange(cut, dtype=jnp.int32), jnp.arange(cut, codes.shape[0], dtype=jnp.int32)
    evaluated = (Sample(test.codes, test.factors), Sample(codes[control], factors.take(control)))
    mlp, linear = (
        _read_out(key, codes[kept], factors.take(kept), evaluated, preset, units, epochs) for units in (width, None)
    )
    values = test.factors.values
    left_out = ~varied(values) & varied(factors.values)
    pair = jnp.triu(left_out[:, None] & left_out[None, :], 1)
    one_pair = pair.sum() == 1

    def of_pair(joint: Float[Array, "k k"]) -> Float[Array, ""]:
        return jnp.where(one_pair, jnp.where(pair, joint, 0.0).sum(), jnp.nan)

    adjusted = (of_pair(read.adjusted_joint) for read in (*mlp, *linear))
    joint, per_factor, accuracy = zip(
        *((of_pair(read.joint), read.per_factor, read.accuracy) for read in (mlp[0], linear[0])), strict=True
    )
    return NovelCombination(*adjusted, *joint, *per_factor, *accuracy)


def _read_out(key, codes, factors: Factors, evaluated: tuple[Sample, ...], preset, units, epochs) -> list[Composition]:
    """Probes trained once and evaluated on several sample sets; a non-finite code in any is one in all."""
    values = jnp.concatenate([sample.factors.values for sample in evaluated])
    joined = jnp.concatenate([sample.codes for sample in evaluated])
    samples = read(codes, factors, Sample(joined, dataclasses.replace(evaluated[0].factors, values=values)), None)
    # The pair left out has one value each in the new samples: what is asked is whether it is recognized.
    samples = samples._replace(judged=samples.usable)
    mask = jnp.ones((codes.shape[1], len(samples.sizes)), bool)
    correct = classified_correctly(key, samples, mask[None], recipe_of(preset, epochs, units), units)[0]
    chance = samples.chance()
    chance_of_pair = jnp.where(jnp.eye(len(chance), dtype=bool), chance[:, None], chance[:, None] * chance[None, :])

    def composition(correct):
        accuracy, joint = correct.mean(axis=0), joint_accuracy(correct)
        adjusted, adjusted_joint = above_chance(accuracy, chance), above_chance(joint, chance_of_pair)
        return Composition(
            *map(samples.by_factor, (accuracy, adjusted)), *map(samples.by_pair, (joint, adjusted_joint))
        )

    ends = np.cumsum([len(sample.codes) for sample in evaluated])[:-1]
    return [composition(part) for part in jnp.split(correct, ends)]


class ZeroShot(NamedTuple):
    """Each factor's normalized root-mean-square error: ``seen [k]`` where it was fitted, ``unseen [k]`` elsewhere.

    ``score []``: ``unseen`` on average. 0 is perfect; predicting the evaluated samples' mean gives 1.
    """

    score: Float[Array, ""]
    seen: Float[Array, " k"]
    unseen: Float[Array, " k"]


@metric()
def zero_shot(
    codes: Codes,
    factors: Factors,
    *,
    test: Sample,
    penalty: float = 0.02,
    active: Bool[Array, " d"] | None = None,
) -> ZeroShot:
    """Fit a lasso where factors lie in one region and evaluate it in another: ``RMSE_j / σ_j`` there.

    Codes and factors are standardized by the training samples for the fit. The caller chooses the regions:
    in the paper, red teapots seen from above are the test samples, and all others are for training. A factor varies
    less inside a narrow region, so that an equal error weighs more there.

    Shapes: codes ``[n, d]``, factors ``[n, k]`` inside the region; test codes ``[m, d]`` and factors outside.

    Options:
      penalty: weight of the L1 norm.

    Contract:

    - At least 0; invariant under affine maps, code by code and factor by factor; deterministic. Class numbers are taken
      as values.
    - A factor that does not vary where the model is fitted or evaluated is NaN there. A constant code changes nothing.
    - Any non-finite code gives NaN.

    Reference: Eastwood & Williams 2018, appendix B.2 (penalty fixed at 0.02 in their notebook).
    """
    values = factors.values.astype(jnp.float32)
    unseen = test.factors.values.astype(jnp.float32)
    samples = read(codes, factors, test, active)
    inputs = standardized(samples.train)
    weights = lasso(inputs, standardized(values), penalty)
    defined = varied(values) & samples.finite.all()

    def error(inputs, targets):
        goal = standardized(targets, like=values)
        error = jnp.sqrt(weighted_mean((goal - inputs @ weights) ** 2, jnp.ones(len(goal))))
        return jnp.where(defined & varied(targets), safe_divide(error, goal.std(axis=0)), jnp.nan)

    outside = error(standardized(samples.held_out, like=samples.train), unseen)
    return ZeroShot(jnp.nanmean(outside), error(inputs, values), outside)
