"""Relations without bins of codes: information by nearest neighbors or trained networks, and aligned neighbors."""

from collections.abc import Callable
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import entr
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from jaxdis._core.arrays import class_counts, finite_codes, ordered_keys, safe_divide, stable_order
from jaxdis._core.loops import each
from jaxdis._core.options import Bins, Count, NonNegative, Units
from jaxdis._core.spec import metric
from jaxdis._learners import neighbors as nearest
from jaxdis._learners.classes import Groups
from jaxdis._learners.neural_information import Judge, joint_neural_information, pairwise_neural_information
from jaxdis.factors import Codes, Factors
from jaxdis.relations._binning import factor_classes
from jaxdis.relations._relation import Relation, by_code

Estimator = Literal["neighbors", "neural"]


@metric(distinct_samples=True)
@by_code
def mutual_information_neighbors(
    codes: Codes,
    factors: Factors,
    *,
    neighbors: Count = 3,
    bins: Bins = 30,
    bounded: bool = True,
    method: nearest.Method | None = None,
    active: Bool[Array, " d"] | None = None,
) -> Relation:
    """Estimate mutual information in nats between each code and each factor from distances to nearest neighbors.

    Discrete factors use Ross's estimator (2014), continuous ones Kraskov et al.'s (2004). Around a circular factor,
    distances take the shorter way, in turns of length 4. ``ceiling[j] = H(factor j)``.

    Shapes: codes ``[n, d]``, factors ``[n, k]``.

    Options:
      neighbors: the neighbor whose distance is read, 3 by default.
      bins: equal-width bins for the entropy of a continuous factor.
      bounded: clip the information about a continuous factor at the ceiling, its bins' entropy. A noiseless code has
        infinite information: without a bound its estimate, and every score from it, grows as ``log n``.
      method: how neighbors are searched; the numbers are the same. Circular factors: by all pairs.

    Contract:

    - Strength is in [0, ceiling], by clipping; unless ``bounded``, it may exceed a continuous factor's ceiling. A code
      as informative about a continuous factor as its ``bins`` are scores as if it were perfect.
    - A constant code's row is 0. Ties and repeated values need no added noise.
    - Invariant under affine maps, code by code, and nearly so under increasing ones (neighborhoods change).
      Deterministic.
    - For independent variables the estimate scatters around 0 by about ``0.8 / √n`` before it is clipped at 0.

    Reference: Julka et al. 2024 (three neighbors, 30 bins for entropies: MIG-KSG and modularity as they ran them); Hsu
    et al. 2023 (ten neighbors, for InfoM and InfoC).
    """
    finite = finite_codes(codes)
    shown = jnp.where(finite[None, :], codes, 0.0)

    def circular(values, periods):
        def one_code(code):
            return nearest.joint_continuous_information(code[:, None], values, periods, neighbors=neighbors)

        return jax.lax.map(one_code, shown.T)  # one at a time: each compares all pairs of samples

    strength = _by_kind(
        factors,
        lambda classes, sizes: nearest.discrete_information(shown, classes, sizes, neighbors=neighbors),
        lambda values: nearest.continuous_information(shown, values, neighbors=neighbors, method=method),
        circular,
    )
    ceiling = factor_entropies(factors, bins)
    limit = ceiling if bounded else _discrete_ceiling(factors, ceiling)
    return Relation.of(jnp.minimum(strength, limit[None, :]), ceiling, active=active, finite=finite)


@metric(distinct_samples=True, needs_order=True, on_a_line=True)
def mutual_information_neural(
    key: PRNGKeyArray,
    codes: Codes,
    factors: Factors,
    *,
    judge: Judge = "held_out",
    max_epochs: Count = 200,
    width: Units = 32,
    bins: Bins = 30,
    active: Bool[Array, " d"] | None = None,
    groups: Int[Array, " n"] | None = None,
) -> Relation:
    """Bound mutual information in nats from below by a network that is trained for each code and factor (MINE).

    The network has four hidden layers and maximizes the Donsker–Varadhan bound with Adam. Training stops when more than
    five epochs have passed since the first that came within 0.05 nats of the best. Class numbers are taken as values,
    and ``ceiling[j] = H(factor j)``.

    Shapes: codes ``[n, d]``, factors ``[n, k]``.

    Options:
      judge: samples on which the bound is evaluated, ``"held_out"`` or the training samples.
      max_epochs: the most epochs.
      width: hidden units per layer.
      bins: equal-width bins for the entropy of a continuous factor.

    Contract:

    - Strength is at least 0, and at most the ceiling for a discrete factor. A constant code's row is 0.
    - Near 0 for fewer than 768 samples, whatever the information, since training then stops after six steps.
      A bootstrap passes on half the samples, so it needs 1,536. :func:`mutual_information_neighbors` has no
      such limit.
    - How classes are numbered matters: 40 classes that a code lists in order give 3.7 nats, relabeled at random 1.5.
      Nominal factors are left out.
    - Stochastic, with the same random numbers for every pair. Takes seconds per pair.

    Reference: Belghazi et al. 2018; Julka et al. 2024, §III-A.
    """
    finite = finite_codes(codes)
    shown = jnp.where(finite[None, :], codes, 0.0)
    values = factors.values.astype(jnp.float32)
    network = {"judge": judge, "max_epochs": max_epochs, "width": width, "groups": groups}
    strength = pairwise_neural_information(key, shown, values, **network)
    ceiling = factor_entropies(factors, bins)
    strength = jnp.minimum(strength, _discrete_ceiling(factors, ceiling)[None, :])
    return Relation.of(strength, ceiling, active=active, finite=finite)


@metric(distinct_samples=True, needs_order="neural")
def impact_intensity(
    key: PRNGKeyArray,
    codes: Codes,
    factors: Factors,
    *,
    pairwise: Estimator = "neighbors",
    joint: Estimator = "neighbors",
    neighbors: Count = 3,
    judge: Judge = "held_out",
    max_epochs: Count = 200,
    width: Units = 32,
    bins: Bins = 30,
    noise: NonNegative = 2.5,
    capped: bool = True,
    active: Bool[Array, " d"] | None = None,
    groups: Int[Array, " n"] | None = None,
) -> Relation:
    """Compute one code's share of the information that all codes carry: ``I(c_i; z_j) / I(c_1 … c_d; z_j)``.

    ``ceiling`` is 1; ``fit[j] = min(1, I(c; z_j) / H(z_j))`` is EDI's explicitness. A discrete factor's entropy is
    exact; a continuous one's depends on ``bins``, which makes its ``fit`` a convention.

    Shapes: codes ``[n, d]``, factors ``[n, k]``.

    Options:
      pairwise, joint: how ``I(c_i; z_j)`` and ``I(c; z_j)`` are estimated, ``"neighbors"`` or ``"neural"``.
      neighbors: for nearest neighbors, the neighbor whose distance is read.
      judge, max_epochs, width: for networks, as in :func:`mutual_information_neural`.
      bins: equal-width bins for the entropy of a continuous factor.
      noise: a factor for which no estimate exceeds ``noise / √n`` nats is considered not encoded: its column is 0, and
        EDI is NaN if all are. Where there is no information, estimates scatter that widely, and the ratio between two
        is arbitrary: without this guard pure noise has scored 1.
      capped: divide by the joint estimate or the best pairwise one, whichever is larger, since no code carries more
        than all codes. Otherwise divide by the joint estimate, as in the authors' code; two estimators that disagree
        then give shares above 1.

    Contract:

    - Strength is in [0, 1] if ``capped``. A constant code's row is 0. Stochastic only if a network is used.
    - Explicitness (``fit``) needs ``joint="neural"`` from five codes on. Nearest neighbors in many dimensions miss
      information: for five perfect codes they find half (0.51 instead of 1), and 0.30 with five noise codes added.
      Capping hides this, because explicitness is then the best single code's. Networks in turn miss relations that are
      not monotone, and everything with fewer than 768 samples: on five codes ``sin(z W + b)`` with three factors
      explicitness is 0.74 (3,000 samples), and 0.99 by nearest neighbors.
    - Joint neighbors compare all samples, ``n² d`` operations, except samples that equal others.

    Reference: Julka et al. 2024, §III-A. The paper uses networks throughout. The released code uses neighbors for pairs
    and for the joint part with fewer than four codes, networks above, and a network for every factor's entropy. A
    perfect code for a continuous factor is thus 0.75 explicit there.
    """
    finite = finite_codes(codes)
    usable = finite if active is None else finite & active
    shown = jnp.where(usable[None, :], codes, 0.0)
    network = {"judge": judge, "max_epochs": max_epochs, "width": width, "groups": groups}
    values = factors.values.astype(jnp.float32)
    if pairwise == "neighbors":
        each = mutual_information_neighbors(shown, factors, neighbors=neighbors, bins=bins).strength
    else:
        each = mutual_information_neural(key, shown, factors, bins=bins, **network).strength
    each = jnp.nan_to_num(each)  # a one-valued factor's column
    if joint == "neighbors":
        together = _by_kind(
            factors,
            lambda classes, sizes: nearest.joint_discrete_information(shown, classes, sizes, neighbors=neighbors),
            lambda values: nearest.joint_continuous_information(shown, values, neighbors=neighbors),
            lambda values, periods: nearest.joint_continuous_information(shown, values, periods, neighbors=neighbors),
        )
    else:
        together = joint_neural_information(key, shown, values, **network)
    entropy = factor_entropies(factors, bins)
    together = jnp.minimum(together, _discrete_ceiling(factors, entropy))
    total = jnp.maximum(together, each.max(axis=0)) if capped else together
    encoded = (jnp.maximum(together, each.max(axis=0)) > noise * codes.shape[0] ** -0.5) & (total > 0)
    strength = jnp.where(encoded[None, :], each / jnp.where(encoded, total, 1.0)[None, :], 0.0)
    several = entropy > 0
    fit = jnp.where(several, jnp.minimum(total / jnp.where(several, entropy, 1.0), 1.0), jnp.nan)
    fit = jnp.where(finite.all(), fit, jnp.nan)
    return Relation.of(strength, several.astype(jnp.float32), fit=fit, active=active, finite=finite)


def factor_entropies(factors: Factors, bins: int) -> Float[Array, " k"]:
    """Each factor's entropy in nats, a continuous one's in ``bins`` equal-width bins."""
    classes, sizes = factor_classes(factors, bins)
    return entr(class_counts(classes, sizes).astype(jnp.float32) / classes.shape[0]).sum(axis=1)


def _discrete_ceiling(factors: Factors, ceiling):
    """The ceiling for discrete factors; none for continuous ones."""
    continuous = np.array([size is None for size in factors.sizes])
    return jnp.where(continuous, jnp.inf, ceiling)


def _by_kind(factors: Factors, discrete: Callable, continuous: Callable, circular: Callable) -> Float[Array, "... k"]:
    """``discrete(classes, sizes)``, ``continuous(values)`` and ``circular(values, periods)`` for the factors of each
    kind, in the factors' order."""
    kinds = np.array(factors.kinds)
    columns = {kind: np.flatnonzero(kinds == kind) for kind in ("classes", "continuous", "circular")}
    parts = []
    if columns["classes"].size:
        parts.append(discrete(factors.discrete(), tuple(size for size in factors.sizes if size is not None)))
    if columns["continuous"].size:
        parts.append(continuous(factors.values[:, columns["continuous"]].astype(jnp.float32)))
    if columns["circular"].size:
        periods = tuple(factors.periods[j] for j in columns["circular"])
        parts.append(circular(factors.values[:, columns["circular"]].astype(jnp.float32), periods))
    return jnp.concatenate(parts, axis=-1)[..., np.argsort(np.concatenate(list(columns.values())))]


@metric(distinct_samples=True)
def neighbor_alignment(
    codes: Codes, factors: Factors, *, bins: Bins = 20, active: Bool[Array, " d"] | None = None
) -> Relation:
    """Measure how much more often than by chance samples next to each other along a code share the factor's class.

    With ``n_v`` samples in class ``v``, a share ``a_v = pairs / (n_v − 1)`` of them followed by another one when sorted
    by code ``i``: ``strength[i, j] = mean_v max(0, (a_v − n_v / n) / (1 − n_v / n))``. For a factor with two values,
    such as a one-hot column, class 1 alone is read. ``ceiling`` is 1.

    Shapes: codes ``[n, d]``, factors ``[n, k]``.

    Options:
      bins: equal-width bins for a continuous factor.

    Contract:

    - In [0, 1]; a constant code's row is 0. Samples with equal codes count as if in random order, by the expected
      number of pairs: deterministic.
    - Invariant under increasing maps, code by code, and under sign. A class with one sample counts 0.
    - A code need not be monotone in the factor, and a class need not be in one piece; noise within a piece is ignored.

    Reference: Moinfar & Theis 2024 (SPN, the alignment of nearest neighbors).
    """
    classes, sizes = factor_classes(factors, bins)
    # A column for each class; with two classes, for the second.
    hot = [jax.nn.one_hot(classes[:, j], size)[:, -1 if size == 2 else 0 :] for j, size in enumerate(sizes)]
    presence = jnp.concatenate(hot, axis=1)
    member = Groups.of(tuple(1 if size == 2 else size for size in sizes)).member
    count = presence.sum(axis=0)
    expected, occurring = count / len(codes), jnp.where(count > 0, 1.0, 0.0)

    def one_code(keys):
        order = stable_order(keys)
        rows, new = presence[order], jnp.diff(keys[order]) != 0

        def tied():
            run = jnp.cumsum(jnp.pad(new, (1, 0))).astype(jnp.int32)
            inside = jnp.zeros_like(rows).at[run].add(rows, indices_are_sorted=True)
            length = jnp.zeros(len(keys)).at[run].add(1.0, indices_are_sorted=True)[:, None]
            share = safe_divide(inside, length)
            return (share * (inside - 1)).sum(axis=0) + (share[:-1] * share[1:]).sum(axis=0)

        pairs = jax.lax.cond(new.all(), lambda: (rows[:-1] * rows[1:]).sum(axis=0), tied)
        aligned = safe_divide(pairs, count - 1) - expected
        aligned = jnp.where(count > 1, jnp.clip(safe_divide(aligned, 1 - expected), 0.0, 1.0), 0.0)
        return (aligned @ member) / jnp.maximum(occurring @ member, 1.0)

    strength = each(one_code, ordered_keys(jnp.nan_to_num(codes).T))
    varies = (classes.max(axis=0) > classes.min(axis=0)).astype(jnp.float32)
    return Relation.of(strength, varies, active=active, finite=finite_codes(codes))
