"""DCI-ES: DCI with explicitness, how small a learner can read the factors, and size, how few codes there are."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from jaxdis._core import random
from jaxdis._core.arrays import moments, product_over_samples, safe_divide
from jaxdis._core.factorizations import solve_positive
from jaxdis._core.options import Count, Counts, Depth
from jaxdis._core.spec import metric
from jaxdis._learners.classes import Groups, one_hot_of
from jaxdis._learners.linear import standardized
from jaxdis.factors import Codes, Factors, Sample
from jaxdis.metrics._separation import noise_of_codes
from jaxdis.relations._learned import random_forest
from jaxdis.relations._relation import Relation, read, varied
from jaxdis.scores._entropies import entropy

# Of the squared norm of weights, per sample. With a tenth of it, rounding moves explicitness by 1e-5 on few samples.
PENALTY = 0.01


class ExtendedDci(NamedTuple):
    """``disentanglement []``, ``completeness []``, ``informativeness []`` by forests; ``explicitness []``; ``size []``.

    ``explicitness_per_factor [k]``, and ``losses [c, k]``: the held-out loss at each capacity.
    """

    disentanglement: Float[Array, ""]
    completeness: Float[Array, ""]
    informativeness: Float[Array, ""]
    explicitness: Float[Array, ""]
    size: Float[Array, ""]
    explicitness_per_factor: Float[Array, " k"]
    losses: Float[Array, "c k"]


@metric(starts_from=random_forest, of_values=True, on_a_line=True)
def dci_es(
    key: PRNGKeyArray,
    codes: Codes,
    factors: Factors,
    *,
    test: Sample,
    trees: Count = 10,
    depth: Depth = 12,
    capacities: Counts = (4, 16, 64, 256),
    active: Bool[Array, " d"] | None = None,
    base: Relation | None = None,
) -> ExtendedDci:
    """Score DCI by random forests, with explicitness ``E`` and size ``S`` (DCI-ES).

    Probes whose capacity grows predict each factor on held-out samples: ridge regressions on ``c`` random Fourier
    features ``cos(w · z + b)`` over all codes. With ``l(c)`` the smallest loss up to capacity ``c``, as a share of the
    mean's loss, ``E_j = 1 − 2 ∫ (l(c) − l_min) dlog c / (log c_max − log c_min)``. ``S`` is the number of factors over
    that of codes.

    Shapes: codes ``[n, d]``, factors ``[n, k]``, test codes ``[m, d]``.

    Options:
      trees, depth: as in :func:`jaxdis.relations.random_forest`.
      capacities: how many features the probes have, ascending.

    Contract:

    - ``explicitness`` is at most 1: 1 if the smallest probe reads a factor as well as the largest, which is also so if
      none reads anything: read it beside ``informativeness``. About 0 if the loss falls evenly in log capacity from the
      mean's loss to none, and below if only the largest probe succeeds.
    - ``size`` is 1 for as many active codes as factors, and above 1 for fewer; constant codes count.
    - A discrete factor's loss is the squared error for its classes as 0 and 1. Stochastic; ``explicitness`` does not
      depend on the codes' signs, nor on their order unless their fourth moments are equal, as balanced bits' are (four
      bits in another order, 256 samples: .76 and .88). Otherwise as ``dci_forest``, whose forests it shares.
    - One-valued factors are left out; those with one value in the held-out samples are left out of ``informativeness``
      and ``explicitness``, and NaN in these parts. Any non-finite code gives NaN.

    Reference: Eastwood et al. 2023 (there the baseline is the smallest probe's loss or the mean's).
    """
    if base is None:
        base = random_forest(key, codes, factors, test=test, trees=trees, depth=depth, active=active)
    dci = entropy(base)
    samples = read(codes, factors, test, active)
    train, held_out = standardized(samples.train), standardized(samples.held_out, like=samples.train)
    widest, (directions, phases) = max(capacities), jax.random.split(key)
    count = jnp.maximum(jnp.abs(train).max(axis=0).astype(bool).sum(), 1).astype(jnp.float32)
    weights = noise_of_codes(directions, train, widest).T / jnp.sqrt(count)
    shift = 2 * np.float32(np.pi) * random.uniform(phases, (widest,))
    features, others = (jnp.cos(given @ weights + shift[None, :]) for given in (train, held_out))
    features, others = standardized(features), standardized(others, like=features)
    # All factors' columns, for training and held-out samples, and which belong to which: classes, or the value.
    groups = Groups.of(samples.sizes)  # 1 for a continuous factor

    def columns(given: Factors, classes):
        hot = one_hot_of(classes, samples.sizes)
        for j in (j for j, size in enumerate(factors.sizes) if size is None):
            hot = hot.at[:, groups.offsets[j]].set(standardized(given.values, like=factors.values)[:, j])
        return hot

    goals, truth, member = columns(factors, samples.classes), columns(test.factors, samples.truth), groups.member
    mean, _ = moments(goals)
    gram = product_over_samples(features, features) / len(features) + PENALTY * jnp.eye(widest)
    cross = product_over_samples(features, goals - mean[None, :]) / len(features)

    def loss(capacity):
        fitted = solve_positive(gram[:capacity, :capacity], cross[:capacity])
        wrong = truth - mean[None, :] - others[:, :capacity] @ fitted
        return (wrong**2).mean(axis=0) @ member

    variance = ((truth - mean[None, :]) ** 2).mean(axis=0) @ member
    losses = jnp.stack([safe_divide(loss(capacity), variance) for capacity in capacities])
    varies = base.ceiling > 0
    judged = varies & varied(test.factors.values)
    losses = jnp.where((judged & samples.finite.all())[None, :], losses, jnp.nan)
    per_factor = explicitness_of(losses, capacities)
    explicit = jnp.where(judged, per_factor, 0.0).sum() / judged.sum().astype(jnp.float32)
    size = varies.sum().astype(jnp.float32) / jnp.maximum(base.active.sum().astype(jnp.float32), 1.0)
    size = jnp.where(samples.finite.all(), size, jnp.nan)
    return ExtendedDci(dci.disentanglement, dci.completeness, dci.informativeness, explicit, size, per_factor, losses)


def explicitness_of(losses: Float[Array, "c k"], capacities: tuple[int, ...]) -> Float[Array, " k"]:
    """One minus twice how far, on average over log capacity, the smallest losses so far exceed the least."""
    if len(capacities) < 2 or list(capacities) != sorted(set(capacities)):
        raise ValueError(f"capacities: must be at least two ascending numbers of features, got {capacities}")
    places = np.log(capacities)
    best = jax.lax.cummin(losses, axis=0)
    excess = best - best[-1][None, :]
    steps = jnp.asarray(np.diff(places) / (places[-1] - places[0]), jnp.float32)
    return 1 - (steps[:, None] * (excess[:-1] + excess[1:])).sum(axis=0)
