"""What one-dimensional projections imply for their union: bounds on a joint score; its exact value for two levels."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxdis._core.options import checked, listed, shown
from jaxdis.scores._projection import project
from jaxdis.scores._structure import Levels, Side, Structure

Of = Literal["completeness", "disentanglement"]


class LowerBound(NamedTuple):
    """``simple ≤ tight ≤`` the joint score."""

    simple: Float[Array, ""]
    tight: Float[Array, ""]


class TwoLevels(NamedTuple):
    """``score``, the joint score; ``tight``, theorem 2's bound; and what the bound leaves out, each ≥ 0.

    For completeness ``first = I(X₁; Y₂ | Y₁)``, ``second = I(X₂; Y₁ | Y₂)``, ``between = I(X₁; X₂ | Y₁, Y₂)``, to the
    base of the number of joint groups; for disentanglement with ``X`` and ``Y`` exchanged.
    """

    score: Float[Array, ""]
    tight: Float[Array, ""]
    first: Float[Array, ""]
    second: Float[Array, ""]
    between: Float[Array, ""]


@checked
def lower_bound(
    strength: Float[Array, "d k"], structure: Structure, parts: Sequence[Levels], *, of: Of = "completeness"
) -> LowerBound:
    """Compute the bounds in theorem 2: ``1 − k + Σ C(ρ_s) ≤ 1 − Σ (1 − C(ρ_s)) / log_{L_s} L ≤ C(∪ ρ_s)``.

    ``L_s`` and ``L`` count the groups of codes (factors, for disentanglement) under ``ρ_s`` and under the union. A part
    with one group costs nothing.

    Args:
      parts: the projections, each a level or several; no level twice.

    Raises:
      ValueError: for parts that share a level.

    Reference: Dang-Nhu 2022, §3.3 and App. B.3.
    """
    missing = [_spread(strength, structure, part, part, of) for part in _disjoint(structure, parts)]
    size = _log_groups(structure, _union(structure, parts), of)
    each = [_to_base(h, _log_groups(structure, part, of)) for h, part in zip(missing, parts, strict=True)]
    return LowerBound(1 - sum(each), 1 - sum(_to_base(h, size) for h in missing))


@checked
def upper_bound(
    strength: Float[Array, "d k"], structure: Structure, parts: Sequence[Levels], *, of: Of = "completeness"
) -> Float[Array, ""]:
    """Compute the bound in theorem 3: ``C(∪ ρ_s) ≤ 1 − max_s ((1 − C(ρ_s)) / log_{L_s} L − A_s)``.

    Arguments as :func:`lower_bound`; for disentanglement ``X`` and ``Y`` are exchanged.

    Reference: Dang-Nhu 2022, App. B.4.
    """
    parts = _disjoint(structure, parts)
    union = _union(structure, parts)
    size = _log_groups(structure, union, of)
    # (1 − C(ρ_s)) / log_{L_s} L − A_s is H_L(X_s | Y of the union): written out by its two terms.
    terms = [
        _spread(strength, structure, part, part, of) - _information(strength, structure, part, part, union, of)
        for part in parts
    ]
    return 1 - jnp.stack([_to_base(term, size) for term in terms]).max()


@checked
def two_levels(
    strength: Float[Array, "d k"], structure: Structure, first: Levels, second: Levels, *, of: Of = "completeness"
) -> TwoLevels:
    """Compute the parts in theorem 4: two projections' joint score, its bound and three conditional informations.

    ``C = 1 − (1 − C₁) / log_{L₁} L − (1 − C₂) / log_{L₂} L + I_L(X₁; Y₂ | Y₁) + I_L(X₂; Y₁ | Y₂)
    + I_L(X₁; X₂ | Y₁, Y₂)``. Arguments as :func:`lower_bound`.

    Reference: Dang-Nhu 2022, App. B.4. The paper prints the first two informations as ``I(X₁; Y₁ | Y₂)`` and
    ``I(X₂; Y₂ | Y₁)``, with which the identity does not hold: ``H(X₁ | Y₁, Y₂) = H(X₁ | Y₁) − I(X₁; Y₂ | Y₁)`` by its
    own lemma 3, as in its theorem 3.
    """
    first, second = _disjoint(structure, (first, second))
    union = _union(structure, (first, second))
    size = _log_groups(structure, union, of)

    def spread(part):
        return _spread(strength, structure, part, union, of)

    terms = (
        _information(strength, structure, first, first, union, of),
        _information(strength, structure, second, second, union, of),
        spread(first) + spread(second) - spread(union),
    )
    terms = tuple(_to_base(term, size) for term in terms)
    tight = lower_bound(strength, structure, (first, second), of=of).tight
    return TwoLevels(tight + sum(terms), tight, *terms)


def _to_base(nats: Float[Array, ""], logarithm: float) -> Float[Array, ""]:
    """An entropy in nats to another base; 0 to the base 1."""
    return nats / logarithm if logarithm > 0 else 0.0 * nats


def _spread(strength, structure, own: Levels, given: Levels, of: Of):
    """``H(own levels of X | given levels of Y)`` in nats; of Y given X for disentanglement."""
    return _entropy(strength, structure, own, given, of) - _entropy(strength, structure, (), given, of)


def _information(strength, structure, own: Levels, given: Levels, more: Levels, of: Of):
    """``I(own levels of X; more levels of Y | given levels of Y)`` in nats."""
    return _spread(strength, structure, own, given, of) - _spread(strength, structure, own, more, of)


def _entropy(strength, structure: Structure, own: Levels, given: Levels, of: Of):
    """Joint entropy of levels of X and of Y, in nats: from the identity projection, summed into groups."""
    rows, columns = (own, given) if of == "completeness" else (given, own)
    joint = project(strength, structure)
    table = _indicator(structure, "codes", rows).T @ joint @ _indicator(structure, "factors", columns)
    return -(table * jnp.log(jnp.where(table > 0, table, 1.0))).sum()


def _indicator(structure: Structure, side: Side, levels: Levels) -> np.ndarray:
    """``[d, groups]`` or ``[k, groups]``; without levels, one group."""
    if levels == ():
        return np.ones((len(getattr(structure, side)), 1), np.float32)
    return structure.groups(side, levels).indicator


def _log_groups(structure: Structure, levels: Levels, of: Of) -> float:
    side = "codes" if of == "completeness" else "factors"
    return float(np.log(len(structure.groups(side, levels).names)))


def _union(structure: Structure, parts: Sequence[Levels]) -> tuple[str, ...]:
    return structure.chosen([level for part in parts for level in structure.chosen(part)])


def _disjoint(structure: Structure, parts: Sequence[Levels]) -> list[tuple[str, ...]]:
    if listed(parts) is None:
        raise ValueError(f"parts: must be a sequence of projections, each a level or several, got {shown(parts)}")
    parts = [structure.chosen(part) for part in parts]
    flat = [level for part in parts for level in part]
    if len(set(flat)) != len(flat):
        raise ValueError(f"parts: needs projections without a level in common, got {parts}")
    return parts
