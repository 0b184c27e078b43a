"""How well each factor is predicted: from all codes by trained probes, linear and multilayer perceptrons, also with
codes knocked out, and from the single code that is aligned with it."""

import functools
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from jaxdis._core.arrays import class_counts, safe_divide, sort_columns
from jaxdis._core.kernels.assignment import Solver, assign, assign_each
from jaxdis._core.loops import each, repeat
from jaxdis._core.options import Count, Units
from jaxdis._core.spec import metric
from jaxdis._learners.probes import LINEAR, PRESETS, WIDTH, Preset, Recipe, predict_with_probes
from jaxdis.factors import Codes, Factors, Sample
from jaxdis.relations._binning import Dividers, count_dividers, divided, dividers_at
from jaxdis.relations._correlation import correlation, r2
from jaxdis.relations._information import mutual_information_equal_count
from jaxdis.relations._relation import Chance, Samples, above_chance, joint_accuracy, read, width_of

# Unbalanced classes: bins are no smaller than this share of the samples, so that they cannot learn labels by heart.
SMALLEST_BIN = 1 / 200
# Class counts that uniform sampling would give with at least this probability are taken for balanced.
LEVEL = 1e-3
# The relation by which codes are aligned with factors.
Alignment = Literal["mutual_information", "correlation", "r2"]


class SingleNeuron(NamedTuple):
    """``score []``, the mean over ``per_factor [k]``, which is the held-out ``accuracy [k]`` adjusted for chance.

    ``code [k]``: the code aligned with each factor, −1 for none; ``joint [k, k]``: how often both factors are
    classified correctly in held-out samples (the diagonal is the accuracy).
    """

    score: Float[Array, ""]
    per_factor: Float[Array, " k"]
    accuracy: Float[Array, " k"]
    code: Int[Array, " k"]
    joint: Float[Array, "k k"]


@metric(needs_classes=True, judges="chance")
def snc(
    codes: Codes,
    factors: Factors,
    *,
    test: Sample,
    mode: Literal["paper", "code"] = "paper",
    chance: Chance = "squared",
    align: Alignment = "mutual_information",
    assignment: Solver = "auto",
    active: Bool[Array, " d"] | None = None,
) -> SingleNeuron:
    """Classify each factor by the one code aligned with it, cut into bins: chance-adjusted accuracy.

    Codes are aligned with factors one to one by mutual information (with as many equal-count bins as classes). The
    aligned code is cut at its training quantiles, the bins are matched to classes so that most training samples agree,
    and the same cuts classify the held-out samples. ``SNC_j = max(0, (a − r) / (1 − r))``, with ``r`` the training
    classes' ``chance``; the score is the mean over factors.

    If the classes are balanced (equal counts, or counts that uniform sampling would give: chi-square, 0.1 % level),
    there are as many equal-count bins as classes. Otherwise all bins are as large as the class counts' greatest common
    divisor, or about 1/200 of the samples if it is less, and a class gets as many bins as its count requires.

    Shapes: codes ``[n, d]``, factors ``[n, k]``, test codes ``[m, d]``.

    Options:
      mode: ``"paper"`` as above. ``"code"`` always takes as many bins as classes, and if there are fewer codes than
        factors lets a code serve several factors; its quantiles are sorted values, which belong to the bin above.
      chance: what accuracy scores 0. ``"squared"``, the paper's: ``r = Σ_c p_c²``, reached by guessing classes as often
        as they occur. ``"majority"``: the held-out accuracy of always naming the most frequent training class.
      align: relation by which codes are aligned with factors: ``"mutual_information"`` by bins, ``"correlation"`` or
        ``"r2"``, which take class numbers for values.
      assignment: how codes and bins are assigned: ``"optax"`` inside the program, ``"scipy"`` on the host, or
        ``"auto"``. Equally good assignments may differ.

    Contract:

    - In [0, 1]; invariant under increasing maps, code by code.
    - A constant code predicts the most frequent class. By ``chance="squared"`` this scores 0 for balanced classes, but
      ``(1 − 2p) / (2 (1 − p))`` for a binary factor with a class of frequency ``p ≤ ½``, which tends to ½ for a rare
      one, where noise may score less; by ``"majority"`` it scores 0.
    - Equal values are never separated: a quantile that falls among them moves to their nearer end, so that a code that
      equals a factor scores 1, and a code and its negation score the same but for a sample at each cut. The released
      code puts equal values into the bin above. Without ties, information is the released code's; where values repeat
      it departs, by 5e-4 for codes in half precision, and from .137 to .010 for codes with few values.
    - With ``mode="code"``, two classes may share a bin, and a code that equals a factor with 3 sampled classes scores
      0.5 or 1.
    - Only values that occur in the training samples count as classes, however many are declared.
    - Continuous factors, and those with one value in training or in the held-out samples, are left out and NaN in their
      part. Any non-finite code gives NaN.
    - A factor left without a code (fewer codes than factors, ``mode="paper"``) counts 0.
    - Deterministic. If several ways to match bins with classes agree with equally many training samples, the released
      code may choose another one: its training accuracy is identical, its held-out accuracy was 0.074 and 0.103 where
      this function gives 0.071 and 0.106, on two autoencoders whose codes hardly encode the factor.

    Reference: Mahon et al. 2024, §4.1–4.2. The bins by greatest common divisor are in the paper only; on sampled data
    they would hold a single sample each and memorize the labels, hence the smallest size here. The released code takes
    as many bins as classes and reports raw accuracy (``accuracy``); the paper's Table 1 prints ``a − 1/2``.
    """
    samples = read(codes, factors, test, active)
    dividers = "code" if mode == "code" else "between"
    strength = alignment(samples, factors, align, mode)
    aligned = align_codes(strength, samples.shown, samples.usable, reuse=mode == "code", assignment=assignment)
    # A code is a row. The alignment of few codes has sorted them all; of many, it sorted a block at a time.
    trained, held_out = (table.T[jnp.maximum(aligned, 0)] for table in (samples.train, samples.held_out))
    few = width_of(*samples.train.shape) == samples.train.shape[1]
    ordered = sort_columns(samples.train).T[jnp.maximum(aligned, 0)] if few else sort_columns(trained.T).T

    # Factors together or one after the other with classes padded to the most: one program, whatever the sizes.
    most, classes = max(samples.sizes), samples.classes.T
    counts = class_counts(samples.classes, samples.sizes)
    aligned_codes = ordered, trained, held_out
    predicted = _as_many_bins_as_classes(*aligned_codes, classes, counts > 0, dividers, assignment)
    if mode == "paper":

        def one_factor(factor):
            predicted, classes, counts, *aligned_codes = factor
            return jax.lax.cond(
                _balanced(counts.astype(jnp.float32)),
                lambda: predicted,
                lambda: _bins_of_common_size(*aligned_codes, classes, most, assignment),
            )

        predicted = each(one_factor, (predicted, classes, counts, *aligned_codes))
    correct = jnp.where((aligned >= 0)[None, :], (samples.truth == predicted.T).astype(jnp.float32), 0.0)
    accuracy = correct.mean(axis=0)
    adjusted = jnp.where(aligned >= 0, above_chance(accuracy, samples.chance(chance)), 0.0)
    parts = map(samples.by_factor, (adjusted, accuracy))
    return SingleNeuron(samples.mean(adjusted), *parts, aligned, samples.by_pair(joint_accuracy(correct)))


def alignment(samples: Samples, factors: Factors, align: Alignment, mode: str) -> Float[Array, "d k"]:
    """How strongly each code goes with each factor on the training samples."""
    if align == "mutual_information":
        dividers = "code" if mode == "code" else "between"
        return mutual_information_equal_count(samples.train, factors, mode=dividers, active=samples.shown).strength
    return {"correlation": correlation, "r2": r2}[align](samples.train, factors, active=samples.shown).strength


def align_codes(information, active, usable, *, reuse: bool, assignment: Solver) -> Int[Array, " k"]:
    """Each factor's code, one to one; with ``reuse`` a code may serve as many factors as necessary."""
    d, k = information.shape
    allowed = jnp.where(active[:, None] & usable[None, :], information, jnp.nan)
    copies = -(-k // d) if reuse else 1
    row = assign(jnp.tile(allowed, (copies, 1)), maximize=True, method=assignment).row
    return jnp.where(row >= 0, row % d, -1)


def _balanced(counts: Float[Array, " v"]) -> Bool[Array, ""]:
    """Whether the classes that occur are as frequent as uniform sampling makes them."""
    from scipy.special import chdtri

    limits = np.array([chdtri(max(size - 1, 1), LEVEL) for size in range(counts.shape[0] + 1)], np.float32)
    occurs = counts > 0
    expected = counts.sum() / occurs.sum().astype(jnp.float32)
    distance = jnp.where(occurs, (counts - expected) ** 2, 0.0).sum() / expected
    return distance <= jnp.asarray(limits)[occurs.sum()]


def _as_many_bins_as_classes(
    ordered, trained, held_out, classes, occurs: Bool[Array, "k v"], mode: Dividers, assignment: Solver
) -> Int[Array, "k m"]:
    """Equal-count bins for each factor's code, as many as classes occur, matched one to one. A factor is a row."""
    most, used = occurs.shape[1], occurs.sum(axis=1, dtype=jnp.int32)[:, None]
    cut = np.arange(1, most, dtype=np.int32)[None, :]
    place, excess = divided(cut, ordered.shape[1], used)
    dividers = jax.vmap(functools.partial(dividers_at, mode=mode))(ordered, place, excess)
    dividers = jnp.where(cut < used, dividers, jnp.inf)
    cell = count_dividers(trained, dividers) * most + classes

    def table(cell):
        return jnp.zeros(most * most).at[cell].add(1.0, mode="promise_in_bounds").reshape(most, most)

    agree = each(table, cell)
    worth = jnp.where((np.arange(most)[None, :] < used)[:, :, None] & occurs[:, None, :], agree, jnp.nan)
    class_of_bin = assign_each(worth, maximize=True, method=assignment).column
    return jnp.take_along_axis(class_of_bin, count_dividers(held_out, dividers), axis=1)


def _bins_of_common_size(ordered, column, held_out, classes, most: int, assignment: Solver) -> Int[Array, " m"]:
    """Bins as large as the class counts' common divisor; a class gets as many bins as its count needs."""
    n, bins = ordered.shape[0], int(round(1 / SMALLEST_BIN))
    counts = jnp.zeros(most, jnp.int32).at[classes].add(1)
    width = jnp.maximum(_common_divisor(counts), max(1, -(-n // bins)))
    used, cut = -(-n // width), np.arange(1, bins, dtype=np.int32)
    # Places round to the nearest, halves to the median: the negated code has the same bins in reverse.
    place, rest = divided(cut, n, used)
    place = place + (rest > jnp.where(2 * place < n, 0.49, 0.51)).astype(jnp.int32)
    between = dividers_at(ordered, jnp.minimum(place, n - 1), jnp.zeros(bins - 1), mode="between")
    dividers = jnp.where(cut < used, between, jnp.inf)
    agree = jnp.zeros((bins, most)).at[count_dividers(column, dividers), classes].add(1.0)
    # One slot for each bin that a class needs, in order of class; slots beyond the last are worth nothing.
    slots = jnp.cumsum(-(-counts // width))
    class_of_slot = jnp.searchsorted(slots, jnp.arange(bins + most), side="right").astype(jnp.int32)
    worth = jnp.where((class_of_slot < most)[None, :], agree[:, jnp.minimum(class_of_slot, most - 1)], 0.0)
    class_of_bin = class_of_slot[assign(worth, maximize=True, method=assignment).column]
    # A bin beyond the last, which is empty, may have a slot of no class.
    class_of_bin = jnp.where(class_of_bin < most, class_of_bin, jnp.argmax(agree, axis=1).astype(jnp.int32))
    return class_of_bin[count_dividers(held_out, dividers)]


def _common_divisor(counts) -> Int[Array, ""]:
    """The counts' greatest common divisor, by Euclid's algorithm; 0 counts as nothing."""

    def fold(divisor, count):
        def step(pair):
            return pair[1], pair[0] % pair[1]

        return repeat("divisor", lambda pair: pair[1] > 0, step, (divisor, count))[0], None

    return jax.lax.scan(fold, jnp.int32(0), counts)[0]


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
