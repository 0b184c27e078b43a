"""Mutual-information gaps where factors depend on each other: XMIG, DMIG and DLIG."""

from typing import Annotated, Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxdis._core.kernels.assignment import assign
from jaxdis._core.kernels.contingency import joint_tables
from jaxdis._core.options import Bins, Count, Entries, Natural
from jaxdis._core.spec import metric
from jaxdis.factors import Codes, Factors
from jaxdis.relations._binless import mutual_information_neighbors
from jaxdis.relations._binning import factor_classes
from jaxdis.relations._information import information_of_tables, mutual_information
from jaxdis.relations._relation import Relation
from jaxdis.scores._gaps import FactorScore
from jaxdis.scores._reading import Reading, mean_over_factors, only_valid, read

Dimensions = Annotated[tuple[Natural, ...], Entries(1)]
# Fewer nats than this share of a factor's entropy are rounding: another factor determines it.
DETERMINED = 1e-5
# Shares of entropy that differ by less are equal: which code or factor comes first must not depend on rounding.
EQUAL = 2.0**-16


class Dependent(NamedTuple):
    """A ``relation`` in nats, and ``given [k, k]``: factor ``j``'s entropy (row) given factor ``l`` (column)."""

    relation: Relation
    given: Float[Array, "k k"]


@metric(distinct_samples=True)
def dependent_information(
    codes: Codes,
    factors: Factors,
    *,
    estimator: Literal["bins", "neighbors"] = "bins",
    bins: Bins = 20,
    neighbors: Count = 3,
    active: Bool[Array, " d"] | None = None,
) -> Dependent:
    """Mutual information between each code and factor, and between each two factors, in nats.

    Shapes: codes ``[n, d]``, factors ``[n, k]``.

    Options:
      estimator: how information in codes is estimated, by ``"bins"`` (:func:`jaxdis.relations.mutual_information`) or
        ``"neighbors"`` (:func:`jaxdis.relations.mutual_information_neighbors`).
      bins: equal-width bins for codes, and for continuous factors.
      neighbors: the neighbor whose distance is read.

    Contract:

    - A constant code's row is 0; any non-finite code gives NaN. Deterministic.
    """
    if estimator == "bins":
        relation = mutual_information(codes, factors, bins=bins, active=active)
    else:
        relation = mutual_information_neighbors(codes, factors, neighbors=neighbors, bins=bins, active=active)
    classes, sizes = factor_classes(factors, bins)
    between, entropy, _ = information_of_tables(joint_tables(classes, max(sizes), classes, sizes), sizes)
    given = entropy[:, None] - between  # of factors as classes; the table is symmetric
    return Dependent(relation, jnp.where(given > DETERMINED * entropy[:, None], given, 0.0))


@metric()
def dmig(information: Dependent, *, reg_dim: Dimensions | None = None) -> FactorScore:
    """Dependency-aware gap: between a factor's own code and the next, as a share of what could differ (DMIG).

    ``(I(z_j; y_j) − max_{i ≠ j} I(z_i; y_j)) / H(y_j | y_l)`` with ``z_j`` the factor's own code, and ``l`` the factor
    whose own code is the next one; ``H(y_j)`` if that code is no factor's own, or if there is none. Where factors
    depend on each other, another factor's code informs about this one, which MIG counts as the representation's fault.

    Options:
      reg_dim: for each factor, the number of its own code, as models have it that regularize codes by attributes; the
        one-to-one assignment when None that makes the sum of ``I(z_j; y_j) / H(y_j)`` largest: shares, not nats, which
        would favor factors with many values.

    Contract:

    - At most 1 up to estimation bias; negative if another code is more informative than the given one.
    - 0 for a factor that another one determines, which no code can tell apart, and for a factor without a code.
    - One-valued factors are left out and NaN in their part. Any non-finite code gives NaN.

    Reference: Watcharasupat & Lerch 2021 (``reg_dim`` always given there; the factor's number by default).
    """
    reading = read(information.relation)
    own = _own_codes(reading, reg_dim)
    numbers = jnp.arange(reading.strength.shape[0], dtype=jnp.int32)
    others = jnp.where(numbers[:, None] == own[None, :], -jnp.inf, reading.strength)
    next_code = _first_of_largest(others, reading.ceiling[None, :], axis=0)
    # [k, l]: the next code of k is that of l, not its own for want of another
    owned = (own[None, :] == next_code[:, None]) & jnp.isfinite(others.max(axis=0))[:, None]
    left = jnp.where(owned, jnp.where(reading.valid[None, :], information.given, jnp.inf), jnp.inf).min(axis=1)
    possible = jnp.where(jnp.isfinite(left), left, reading.ceiling)
    return _score(_gap(reading, own, others), possible, own, reading)


@metric()
def xmig(information: Dependent, *, reg_dim: Dimensions | None = None) -> FactorScore:
    """Dependency-blind gap: between a factor's own code and the best among the codes that are no factor's own (XMIG).

    ``(I(z_j; y_j) − max_i I(z_i; y_j)) / H(y_j)`` over the codes ``i`` that are no factor's own; without such codes,
    their information is 0.

    Options:
      reg_dim: as for ``dmig``.

    Contract:

    - In [−1, 1]; 0 for a factor without a code. It does not say whether factors share codes.
    - One-valued factors are left out and NaN in their part. Any non-finite code gives NaN.

    Reference: Watcharasupat 2021; latte.
    """
    reading = read(information.relation)
    own = _own_codes(reading, reg_dim)
    numbers = jnp.arange(reading.strength.shape[0], dtype=jnp.int32)
    owned = ((numbers[:, None] == own[None, :]) & reading.valid[None, :]).any(axis=1)
    free = jnp.where(owned[:, None], -jnp.inf, reading.strength)
    return _score(_gap(reading, own, free), reading.ceiling, own, reading)


@metric()
def dlig(information: Dependent, *, reg_dim: Dimensions | None = None) -> FactorScore:
    """Dependency-aware latent gap: between a code's own factor and its next, as a share of what could differ (DLIG).

    ``(I(z_j; y_j) − max_{l ≠ j} I(z_j; y_l)) / H(y_j | y_l)`` with ``l`` the next factor; ``H(y_j)`` if there is none.

    Options:
      reg_dim: as for ``dmig``.

    Contract:

    - At most 1 up to estimation bias; negative if the code informs more about another factor.
    - 0 for a factor that the next one determines, and for a factor without a code.
    - One-valued factors are left out and NaN in their part. Any non-finite code gives NaN.

    Reference: Watcharasupat 2021; latte.
    """
    reading = read(information.relation)
    own = _own_codes(reading, reg_dim)
    of_own = reading.strength[jnp.maximum(own, 0)]  # [j, l]: what the code of j says of l
    k = of_own.shape[0]
    rivals = jnp.where(np.eye(k, dtype=bool) | ~reading.valid[None, :], -jnp.inf, of_own)
    following = _first_of_largest(rivals, reading.ceiling[None, :], axis=1)
    several = reading.num_factors > 1
    conditional = jnp.take_along_axis(information.given, following[:, None], axis=1)[:, 0]
    gap = _gap(reading, own, rivals.T)
    return _score(gap, jnp.where(several, conditional, reading.ceiling), own, reading)


def _own_codes(reading: Reading, reg_dim: tuple[int, ...] | None) -> Int[Array, " k"]:
    """Each factor's code, −1 for none."""
    d, k = reading.strength.shape
    if reg_dim is None:
        allowed = reading.active[:, None] & reading.valid[None, :]
        share = jnp.round(reading.strength / reading.ceiling[None, :] / EQUAL) * EQUAL
        return assign(jnp.where(allowed, share, jnp.nan), maximize=True).row
    if len(reg_dim) != k or max(reg_dim) >= d:
        raise ValueError(f"reg_dim: must be {k} numbers of codes from 0 to {d - 1}, one per factor, got {reg_dim}")
    return jnp.asarray(reg_dim, jnp.int32)


def _first_of_largest(values, scale, axis: int) -> Int[Array, " k"]:
    """The first among the largest values along an axis, where values that differ by rounding are equal."""
    near = values >= values.max(axis=axis, keepdims=True) - EQUAL * jnp.where(jnp.isfinite(scale), scale, 1.0)
    return jnp.argmax(near, axis=axis).astype(jnp.int32)


def _gap(reading: Reading, own, others: Float[Array, "r k"]) -> Float[Array, " k"]:
    """The information of own codes minus the largest of the others, which is at least 0."""
    mine = jnp.take_along_axis(reading.strength, jnp.maximum(own, 0)[None, :], axis=0)[0]
    return mine - jnp.maximum(others.max(axis=0), 0.0)


def _score(gap, possible, own, reading: Reading) -> FactorScore:
    share = jnp.where((own >= 0) & (possible > 0), gap / jnp.where(possible > 0, possible, 1.0), 0.0)
    share = jnp.where(jnp.isnan(reading.strength).any(), jnp.nan, share)
    return FactorScore(mean_over_factors(share, reading), only_valid(share, reading))
