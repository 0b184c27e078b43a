"""What all codes tell of each factor through a trained probe, and what is lost when codes are knocked out."""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from jaxdis.arrays import safe_divide
from jaxdis.learners.probes import PRESETS, WIDTH, Preset, Recipe, predict_with_probes
from jaxdis.options import Count, Units
from jaxdis.relations.information import mutual_information_equal_count
from jaxdis.relations.relation import finite_codes
from jaxdis.single_neuron import align_codes, chance_of, joint_accuracy
from jaxdis.typing import Codes, Factors, Sample


class Knockout(NamedTuple):
    """``score []``: mean of ``per_factor [k]``, the accuracy lost; ``adjusted [k]``, that over ``1 − chance``.

    ``full [k]`` and ``knocked [k]`` are the accuracies on held-out samples with all codes and without; ``code [k]`` is
    the aligned code, −1 for none.
    """

    score: Float[Array, ""]
    per_factor: Float[Array, " k"]
    adjusted: Float[Array, " k"]
    full: Float[Array, " k"]
    knocked: Float[Array, " k"]
    code: Int[Array, " k"]


class Probed(NamedTuple):
    """``score []``: mean of ``per_factor [k]``, held-out ``accuracy [k]`` adjusted for chance (0 chance, 1 perfect).

    ``joint [k, k]``: share of held-out samples of which both factors are named; the accuracy itself on the diagonal.
    """

    score: Float[Array, ""]
    per_factor: Float[Array, " k"]
    accuracy: Float[Array, " k"]
    joint: Float[Array, "k k"]


def nk(
    key: Key[Array, ""],
    codes: Codes,
    factors: Factors,
    *,
    test: Sample,
    knocked: Count = 1,
    mode: Literal["paper", "code"] = "paper",
    preset: Preset = "converged",
    width: Units = WIDTH,
    epochs: Count | None = None,
    active: Bool[Array, " d"] | None = None,
) -> Knockout:
    """Neuron knock-out: accuracy a perceptron loses when it may not see the code aligned with the factor.

    ``NK_j = a_j(all codes) − a_j(all but the aligned code)``, held-out accuracies of a one-layer perceptron;
    the score is the mean over factors. Codes are aligned with factors one to one as in
    :func:`jaxdis.single_neuron.snc`. With ``knocked`` > 1 the next code is the one aligned after the first is gone, and
    so on. A factor left without a code (fewer codes than factors) loses nothing; with ``mode="code"`` codes serve
    several factors instead.

    ``preset``: ``converged`` (standardised codes, held-out selection), ``mahon2024_paper`` (Adam 1e-3, 75 epochs) or
    ``mahon2024_code`` (raw codes, Adam 1e-2 with decay, 10 epochs, batches of 4096: at 10,000 samples far from
    converged); see :data:`jaxdis.learners.probes.PRESETS`. ``epochs``: instead of the preset's.

    Shapes: codes ``[n, d]``, factors ``[n, k]``, test codes ``[m, d]``.
    Contract: in [−1, 1], 0 where the other codes say as much; stochastic, a standard error of about
    ``sqrt(a (1 − a) / m)`` a factor; continuous and one-valued factors are left out and NaN in their part; classes that
    do not occur in training are never named; any non-finite code gives NaN.

    Reference: Mahon et al. 2024, §4.3 and §5. Tables print the raw difference, not adjusted for chance.
    """
    problem = _problem(codes, factors, test, active)
    orders = knockout_order(problem.information, problem.shown, problem.usable, knocked, reuse=mode == "code")
    gone = jax.nn.one_hot(orders, codes.shape[1], dtype=bool).any(axis=1).T  # [d, k]
    full = jnp.broadcast_to(problem.shown[:, None], gone.shape)
    correct = _correct(key, problem, jnp.stack([full, full & ~gone]), _recipe(preset, epochs), width)
    whole, without = correct.mean(axis=1)
    lost = jnp.where(orders[:, 0] >= 0, whole - without, 0.0)
    keep = _keep(problem)
    return Knockout(
        _mean(problem, lost),
        keep(lost),
        keep(safe_divide(lost, 1 - problem.chance)),
        keep(whole),
        keep(jnp.where(orders[:, 0] >= 0, without, whole)),
        orders[:, 0],
    )


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
    return _probe(key, codes, factors, test, active, _recipe(preset, epochs), None)


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
    return _probe(key, codes, factors, test, active, _recipe(preset, epochs), width)


def knockout_curve(
    key: Key[Array, ""],
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
    """Held-out accuracy of each factor with 0, 1, … codes knocked out, ``[most + 1, k]``; up to all by default.

    Codes go in the order of :func:`nk`: the aligned one, then the one aligned after it is gone. Where no code is left
    to a factor, the one that tells most of it goes next. With all codes gone the commonest class is what remains.
    Arguments as :func:`nk`; NaN for factors left out.

    Reference: Mahon et al. 2024, released code (progressive knock-out; it records training accuracy, this is held out).
    """
    problem = _problem(codes, factors, test, active)
    d = codes.shape[1]
    most = d if most is None else min(most, d)
    orders = knockout_order(problem.information, problem.shown, problem.usable, most, reuse=mode == "code")
    gone = jnp.cumsum(jax.nn.one_hot(orders, d), axis=1) > 0  # [k, most, d]
    gone = jnp.concatenate([jnp.zeros((len(factors.sizes), 1, d), bool), gone], axis=1).transpose(1, 2, 0)
    correct = _correct(key, problem, problem.shown[None, :, None] & ~gone, _recipe(preset, epochs), width)
    return jax.vmap(_keep(problem))(correct.mean(axis=1))


def knockout_table(
    key: Key[Array, ""],
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
    """Accuracy that factor ``j`` loses when the code aligned with factor ``i`` is knocked out, ``[i, j]``.

    The diagonal is NK; off it 0 is what disentangled codes show. Arguments as :func:`nk`; NaN for factors left out.

    Reference: Mahon et al. 2024, released code (the aligned code of the other factor of a pair).
    """
    problem = _problem(codes, factors, test, active)
    k = len(factors.sizes)
    aligned = knockout_order(problem.information, problem.shown, problem.usable, 1, reuse=mode == "code")[:, 0]
    gone = jax.nn.one_hot(aligned, codes.shape[1], dtype=bool)  # [i, d]
    shown = problem.shown[None, :] & jnp.concatenate([jnp.ones((1, codes.shape[1]), bool), ~gone])
    masks = jnp.broadcast_to(shown[:, :, None], (*shown.shape, k))
    accuracy = _correct(key, problem, masks, _recipe(preset, epochs), width).mean(axis=1)
    lost = jnp.where(aligned[:, None] >= 0, accuracy[:1] - accuracy[1:], 0.0)
    defined = problem.usable & problem.finite
    return jnp.where(defined[:, None] & defined[None, :], lost, jnp.nan)


def knockout_order(
    information: Float[Array, "d k"],
    shown: Bool[Array, " d"],
    usable: Bool[Array, " k"],
    count: int,
    *,
    reuse: bool = False,
) -> Int[Array, "k c"]:
    """For each factor the codes to knock out, in order: aligned, then aligned without those before; −1 for none.

    From the second on, a factor that the alignment leaves without a code takes the one that tells most of it.
    """
    first = align_codes(information, shown, usable, reuse=reuse)

    def one_factor(factor):
        def further(left, number):
            again = align_codes(information, left, usable, reuse=reuse)[factor]
            best = jnp.argmax(jnp.where(left, information[:, factor], -jnp.inf)).astype(jnp.int32)
            again = jnp.where(again >= 0, again, jnp.where(left.any(), best, -1))
            chosen = jnp.where(number == 0, first[factor], again).astype(jnp.int32)
            return left & (jnp.arange(left.shape[0]) != chosen), chosen

        return jax.lax.scan(further, shown, jnp.arange(count))[1]

    if count == 1:
        return first[:, None]
    return jax.lax.map(one_factor, jnp.arange(usable.shape[0]))


class _Problem(NamedTuple):
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


def _problem(codes, factors: Factors, test: Sample, active) -> _Problem:
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
    return _Problem(codes, held_out, classes, truth, sizes, shown, usable, finite, chance, relation.strength)


def _recipe(preset: Preset, epochs: int | None) -> Recipe:
    if preset not in PRESETS:
        raise ValueError(f"preset: unknown name {preset!r}; the presets are {', '.join(PRESETS)}")
    return PRESETS[preset].with_epochs(epochs)


def _correct(key, problem: _Problem, masks, recipe: Recipe, width: int | None) -> Float[Array, "r m k"]:
    named = predict_with_probes(
        key, problem.codes, problem.classes, problem.sizes, problem.held_out, masks, recipe=recipe, width=width
    )
    return (named == problem.truth[None]).astype(jnp.float32)


def _probe(key, codes, factors, test, active, recipe: Recipe, width: int | None) -> Probed:
    problem = _problem(codes, factors, test, active)
    mask = jnp.broadcast_to(problem.shown[:, None], (codes.shape[1], len(problem.sizes)))
    correct = _correct(key, problem, mask[None], recipe, width)[0]
    accuracy = correct.mean(axis=0)
    adjusted = jnp.maximum(safe_divide(accuracy - problem.chance, 1 - problem.chance), 0.0)
    keep = _keep(problem)
    defined = problem.usable & problem.finite
    joint = jnp.where(defined[:, None] & defined[None, :], joint_accuracy(correct), jnp.nan)
    return Probed(_mean(problem, adjusted), keep(adjusted), keep(accuracy), joint)


def _keep(problem: _Problem):
    return lambda values: jnp.where(problem.usable & problem.finite, values, jnp.nan)


def _mean(problem: _Problem, values: Float[Array, " k"]) -> Float[Array, ""]:
    mean = jnp.where(problem.usable, values, 0.0).sum() / problem.usable.sum().astype(jnp.float32)
    return jnp.where(problem.finite, mean, jnp.nan)
