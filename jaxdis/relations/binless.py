"""Mutual information of a code and a factor without bins: by nearest neighbors, and by a trained network."""

from collections.abc import Callable
from typing import Literal

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import entr
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from jaxdis.arrays import class_counts
from jaxdis.learners.neighbors import Method, continuous_information, discrete_information
from jaxdis.learners.neighbors_joint import joint_continuous_information, joint_discrete_information
from jaxdis.learners.neural_information import Judge, joint_neural_information, pairwise_neural_information
from jaxdis.options import Bins, Count, NonNegative, Units
from jaxdis.relations.binning import factor_classes
from jaxdis.relations.relation import Relation, finite_codes
from jaxdis.spec import distinct_samples
from jaxdis.typing import Codes, Factors

Estimator = Literal["neighbors", "neural"]


@distinct_samples
def mutual_information_neighbors(
    codes: Codes,
    factors: Factors,
    *,
    neighbors: Count = 3,
    bins: Bins = 30,
    method: Method | None = None,
    active: Bool[Array, " d"] | None = None,
) -> Relation:
    """Mutual information in nats by distances to nearest neighbors, without bins.

    A discrete factor: :func:`jaxdis.learners.neighbors.discrete_information` (Ross 2014); a continuous one:
    :func:`jaxdis.learners.neighbors.continuous_information` (Kraskov et al. 2004). ``ceiling[j] = H(factor j)``, a
    continuous factor's by ``bins`` equal-width bins.

    Shapes: codes ``[n, d]``, factors ``[n, k]``.
    Contract: strength is ≥ 0, and at most the ceiling for a discrete factor (the estimate is cut there); with a
    continuous factor it may pass the ceiling, since the information of a noiseless code is infinite and the estimate
    grows like ``log n``. A constant code's row is 0; ties and repeated values need no noise; deterministic; invariant
    under affine maps of a code, and under increasing ones up to the change of neighborhoods. The estimate of nothing
    scatters around 0 by about ``0.8 / √n`` before it is cut at 0.

    Reference: Julka et al. 2024 (three neighbors, 30 bins for entropies: MIG-KSG and modularity as they ran them);
    Hsu et al. 2023 (ten neighbors, under InfoM and InfoC).
    """
    finite = finite_codes(codes)
    shown = jnp.where(finite[None, :], codes, 0.0)
    strength = _by_kind(
        factors,
        lambda classes, sizes: discrete_information(shown, classes, sizes, neighbors=neighbors),
        lambda values: continuous_information(shown, values, neighbors=neighbors, method=method),
    )
    ceiling = factor_entropies(factors, bins)
    strength = jnp.minimum(strength, _discrete_ceiling(factors, ceiling)[None, :])
    return Relation.of(strength, ceiling, active=active, finite=finite)


@distinct_samples
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
) -> Relation:
    """Mutual information in nats as a trained network bounds it from below, one network a pair (MINE).

    :func:`jaxdis.learners.neural_information.neural_information`, with class numbers as values;
    ``ceiling[j] = H(factor j)``, a continuous factor's by ``bins`` equal-width bins.

    Shapes: codes ``[n, d]``, factors ``[n, k]``.
    Contract: strength is ≥ 0, and at most the ceiling for a discrete factor; a constant code's row is 0; stochastic,
    with the same random numbers for every pair; costs seconds a pair.

    Reference: Belghazi et al. 2018; Julka et al. 2024, §III-A.
    """
    finite = finite_codes(codes)
    shown = jnp.where(finite[None, :], codes, 0.0)
    values = factors.values.astype(jnp.float32)
    strength = pairwise_neural_information(key, shown, values, judge=judge, max_epochs=max_epochs, width=width)
    ceiling = factor_entropies(factors, bins)
    strength = jnp.minimum(strength, _discrete_ceiling(factors, ceiling)[None, :])
    return Relation.of(strength, ceiling, active=active, finite=finite)


@distinct_samples
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
) -> Relation:
    """The share of what all codes together tell of a factor that one code tells: ``I(c_i; z_j) / I(c_1 … c_d; z_j)``.

    ``ceiling`` is 1; ``fit[j] = min(1, I(c; z_j) / H(z_j))``, EDI's explicitness. ``pairwise`` and ``joint`` name the
    estimator of each part: nearest neighbors, or a trained network with ``judge``, ``max_epochs`` and ``width``. The
    entropy of a discrete factor is exact; a continuous one's is by ``bins`` equal-width bins, which makes its ``fit`` a
    convention.

    A code never tells more than all codes: the larger of the joint estimate and the best pairwise one divides
    (``capped``). Without ``capped`` the joint estimate alone does, as in the authors' code, and two estimators that
    disagree give shares above 1.

    A factor on which neither estimate passes ``noise / √n`` nats is told by nothing: its column is 0, and EDI is NaN
    where all are. Estimates of nothing scatter that far, and the ratio of two such is any number: pure noise has
    scored 1.

    Shapes: codes ``[n, d]``, factors ``[n, k]``.
    Contract:

    - Strength is in [0, 1] if ``capped``; a constant code's row is 0; stochastic only where a network is asked for.
    - Explicitness (``fit``) needs ``joint="neural"`` from five codes on. Nearest neighbors in many dimensions miss
      information: with five perfect codes they find half of it (0.51 for 1), with five codes of noise beside these
      0.30. The cap hides this, since explicitness then is that of the best single code.
    - Joint neighbors compare all samples, ``n² d``, except those that equal others.

    Reference: Julka et al. 2024, §III-A. The paper names networks for all parts; the released code takes neighbors for
    the pairs, neighbors for the joint part of fewer than four codes and networks above, and a network for the entropy
    of every factor, so that a perfect code of a continuous factor is 0.75 explicit there.
    """
    finite = finite_codes(codes)
    usable = finite if active is None else finite & active
    shown = jnp.where(usable[None, :], codes, 0.0)
    network = {"judge": judge, "max_epochs": max_epochs, "width": width}
    values = factors.values.astype(jnp.float32)
    if pairwise == "neighbors":
        each = mutual_information_neighbors(shown, factors, neighbors=neighbors, bins=bins).strength
    else:
        each = mutual_information_neural(key, shown, factors, bins=bins, **network).strength
    each = jnp.nan_to_num(each)  # a one-valued factor's column
    if joint == "neighbors":
        together = _by_kind(
            factors,
            lambda classes, sizes: joint_discrete_information(shown, classes, sizes, neighbors=neighbors),
            lambda values: joint_continuous_information(shown, values, neighbors=neighbors),
        )
    else:
        together = joint_neural_information(key, shown, values, **network)
    entropy = factor_entropies(factors, bins)
    together = jnp.minimum(together, _discrete_ceiling(factors, entropy))
    whole = jnp.maximum(together, each.max(axis=0)) if capped else together
    told = (jnp.maximum(together, each.max(axis=0)) > noise * codes.shape[0] ** -0.5) & (whole > 0)
    strength = jnp.where(told[None, :], each / jnp.where(told, whole, 1.0)[None, :], 0.0)
    several = entropy > 0
    fit = jnp.where(several, jnp.minimum(whole / jnp.where(several, entropy, 1.0), 1.0), jnp.nan)
    fit = jnp.where(finite.all(), fit, jnp.nan)
    return Relation.of(strength, several.astype(jnp.float32), fit=fit, active=active, finite=finite)


def factor_entropies(factors: Factors, bins: int) -> Float[Array, " k"]:
    """Entropy of each factor in nats; of a continuous one in ``bins`` equal-width bins."""
    classes, sizes = factor_classes(factors, bins)
    return entr(class_counts(classes, sizes).astype(jnp.float32) / classes.shape[0]).sum(axis=1)


def _discrete_ceiling(factors: Factors, ceiling):
    """The ceiling of discrete factors; none for continuous ones."""
    continuous = np.array([size is None for size in factors.sizes])
    return jnp.where(continuous, jnp.inf, ceiling)


def _by_kind(factors: Factors, discrete: Callable, continuous: Callable) -> Float[Array, "... k"]:
    """``discrete(classes, sizes)`` and ``continuous(values)`` of the factors of each kind, in the factors' order."""
    kinds = [size is None for size in factors.sizes]
    order = [j for j, kind in enumerate(kinds) if not kind] + [j for j, kind in enumerate(kinds) if kind]
    parts = []
    if not all(kinds):
        parts.append(discrete(factors.discrete(), tuple(size for size in factors.sizes if size is not None)))
    if any(kinds):
        columns = np.array([j for j, kind in enumerate(kinds) if kind])
        parts.append(continuous(factors.values[:, columns].astype(jnp.float32)))
    return jnp.concatenate(parts, axis=-1)[..., np.argsort(order)]
