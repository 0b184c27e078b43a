"""Single-neuron classification: how well a single code, aligned with each factor, predicts the factor's classes."""

import functools
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxdis._core.arrays import class_counts, sort_columns
from jaxdis._core.kernels.assignment import Solver, assign, assign_each
from jaxdis._core.loops import each, repeat
from jaxdis._core.spec import metric
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
