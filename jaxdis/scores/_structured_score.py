"""Disentanglement and completeness at any level in a structured representation.

What one-dimensional projections imply for their union follows: bounds on a joint score; its exact value for two levels.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jaxdis._core.arrays import safe_divide
from jaxdis._core.options import Share, checked, listed, shown
from jaxdis._core.spec import metric
from jaxdis.relations._relation import Relation
from jaxdis.scores._entropies import one_minus_entropy
from jaxdis.scores._reading import read
from jaxdis.scores._structure import Levels, Side, Structure

# Strengths below this share of the largest of their factor are noise (Dang-Nhu 2022, App. C.4).
NOISE = 0.03

Of = Literal["completeness", "disentanglement"]
Mask = Bool[Array | np.ndarray, "_"]


class StructuredScore(NamedTuple):
    """``disentanglement []``, ``completeness []``; ``per_code_group [u]``, ``per_factor_group [v]``; ``joint [u, v]``.

    ``joint`` is the projected matrix, summing to 1: groups of codes are rows, groups of factors columns.
    """

    disentanglement: Float[Array, ""]
    completeness: Float[Array, ""]
    per_code_group: Float[Array, " u"]
    per_factor_group: Float[Array, " v"]
    joint: Float[Array, "u v"]


@checked
def drop_small(strength: Float[Array, "d k"], share: Share = NOISE) -> Float[Array, "d k"]:
    """Set strengths below ``share`` of the largest in their column to 0.

    Reference: Dang-Nhu 2022, App. C.4 (3 %).
    """
    return jnp.where(strength < share * strength.max(axis=0, keepdims=True), 0.0, strength)


@checked
def project(
    strength: Float[Array, "d k"],
    structure: Structure,
    levels: Levels = None,
    *,
    codes: Mask | None = None,
    factors: Mask | None = None,
) -> Float[Array, "u v"]:
    """Sum strengths within code groups and factor groups, and divide by their sum: a joint distribution.

    Args:
      strength: ``[d, k]``; those below 0 count as 0.
      levels: the levels that the projection keeps; all when None (the identity).
      codes, factors: ``[d]`` and ``[k]``, which count; all when None.

    Returns:
      ``[u, v]`` ordered as ``structure.groups``; all 0 if every strength is 0.

    Raises:
      ValueError: if the structure has more or fewer codes or factors than the matrix.

    Reference: Dang-Nhu 2022, §3.2.
    """
    _check(strength, structure, codes=codes, factors=factors)
    kept = jnp.maximum(strength, 0.0)
    if codes is not None:
        kept = jnp.where(jnp.asarray(codes)[:, None], kept, 0.0)
    if factors is not None:
        kept = jnp.where(jnp.asarray(factors)[None], kept, 0.0)
    rows = structure.groups("codes", levels).indicator
    columns = structure.groups("factors", levels).indicator
    return safe_divide(jnp.einsum("du,dk,kv->uv", rows, kept, columns, precision="highest"), kept.sum())


def disentanglement(strength, structure: Structure, levels: Levels = None, **masks) -> Float[Array, ""]:
    """Measure how exclusively each group of codes encodes one group of factors: ``D(ρ) = 1 − H_V(ρ(Y) | ρ(X))``.

    See :func:`structured_score`, which has this as one number; arguments as :func:`project`.
    """
    return score_of(strength, structure, levels, **masks).disentanglement


def completeness(strength, structure: Structure, levels: Levels = None, **masks) -> Float[Array, ""]:
    """Measure how exclusively one group of codes encodes each group of factors: ``C(ρ) = 1 − H_U(ρ(X) | ρ(Y))``.

    See :func:`structured_score`, which has this as one number; arguments as :func:`project`.
    """
    return score_of(strength, structure, levels, **masks).completeness


@checked
def informativeness(
    predicted: Float[Array, "n k"], values: Float[Array, "n k"], factors: Mask | None = None
) -> Float[Array, ""]:
    """Average ``‖f(z) − v‖ / ‖v − mean v‖`` over factors: 0 is perfect, 1 no better than the mean. Lower is better.

    A factor that does not vary is left out; NaN if none varies.

    Reference: Dang-Nhu 2022, §3.2. The formula prints ``‖v‖``; only deviations from the mean reproduce the paper's
    table 6, errors at 106 % for a factor that cannot be predicted (uncentered, a uniform rotation's mean would give 50
    %).
    """
    if predicted.shape != values.shape:
        raise ValueError(f"predicted: must have the shape of values, {values.shape}, got {predicted.shape}")
    if 0 in values.shape:
        raise ValueError(f"values: must have at least one sample and one factor, got shape {values.shape}")
    _check_mask("factors", factors, values.shape[1])
    centered = values - values.mean(axis=0, keepdims=True)
    size = (centered**2).sum(axis=0)
    error = jnp.sqrt(safe_divide(((predicted - values) ** 2).sum(axis=0), size))
    counted = size > 0 if factors is None else (size > 0) & jnp.asarray(factors)
    return jnp.where(counted, error, 0.0).sum() / counted.sum().astype(jnp.float32)


@checked
def background(
    strength: Float[Array, "d k"], structure: Structure, label: str = "background", level: str | None = None
) -> tuple[Bool[Array, " d"], Bool[Array, " k"]]:
    """Mask everything but the background, ``codes [d]`` and ``factors [k]``, for the scores' arguments.

    The background's code group is the one with the largest strength for its factors, those with ``label`` in ``level``
    (the first when None). If no code encodes them, the first group is left out.

    Reference: Dang-Nhu 2022, App. C.4 (the slot that matters more for the background's color). If the slot is known,
    pass its mask instead: ``~structure.where("codes", "object", "slot 1")``.
    """
    _check(strength, structure)
    level = structure.levels[0] if level is None else level
    there = structure.where("factors", level, label)
    number, names = structure.groups("codes", level)
    affinity = jnp.zeros(len(names)).at[number].add(jnp.where(there[None], strength, 0.0).sum(axis=1))
    return number != jnp.argmax(affinity), jnp.asarray(~there)


@checked
@metric()
def structured_score(
    relation: Relation,
    *,
    structure: Structure | None = None,
    levels: tuple[str, ...] | None = None,
    threshold: Share = NOISE,
) -> StructuredScore:
    """Score how disentangled and complete groups of codes and factors are, at chosen levels in a structure.

    Strengths, divided by their sum, are the joint distribution of a code ``X`` and a factor ``Y``; a projection ``ρ``
    keeps some of the structure's levels and sums over the others. With ``U`` groups of codes and ``V`` of factors,
    ``D(ρ) = 1 − H_V(ρ(Y) | ρ(X))`` and ``C(ρ) = 1 − H_U(ρ(X) | ρ(Y))``, with entropies to the base of the subscript.

    Options:
      structure: a :class:`~jaxdis.structured.Structure`; None gives every code and factor its own group.
      levels: the levels that the projection keeps; all when None.
      threshold: strengths are first set to 0 if they are below this share of the largest in their column (0 keeps all).

    Contract:

    - In [0, 1]. With all levels and threshold 0 it is DCI with weighted completeness (Theorem 1).
    - With one factor group ``D`` is 1, with one code group ``C`` is 1 (the entropy to base 1 is undefined). Both are 0
      for a relation that is 0 everywhere.
    - A group counts in ``U`` or ``V`` if it holds an active code, or a factor with several values. Any non-finite code
      gives NaN.

    Reference: Dang-Nhu 2022, §3.2; threshold: App. C.4.
    """
    reading = read(relation)
    structure = structure or Structure.flat(*relation.strength.shape)
    strength = drop_small(reading.strength, threshold)
    return score_of(strength, structure, levels, codes=reading.active, factors=reading.valid)


@checked
def score_of(
    strength: Float[Array, "d k"],
    structure: Structure,
    levels: Levels = None,
    *,
    codes: Mask | None = None,
    factors: Mask | None = None,
) -> StructuredScore:
    """Compute :func:`structured_score` on a bare matrix, with no threshold; arguments as :func:`project`."""
    joint = project(strength, structure, levels, codes=codes, factors=factors)
    rows, columns = (
        jnp.ones(joint.shape[axis], bool)
        if mask is None
        else jnp.zeros(joint.shape[axis], bool).at[structure.groups(side, levels).number].max(jnp.asarray(mask))
        for axis, (side, mask) in enumerate((("codes", codes), ("factors", factors)))
    )
    per_row = one_minus_entropy(joint, columns.sum().astype(jnp.float32))
    per_column = one_minus_entropy(joint.T, rows.sum().astype(jnp.float32))
    d = (joint.sum(axis=1) * per_row).sum()
    c = (joint.sum(axis=0) * per_column).sum()
    return StructuredScore(jnp.clip(d, 0.0, 1.0), jnp.clip(c, 0.0, 1.0), per_row, per_column, joint)


def _check(strength, structure: Structure, **masks) -> None:
    if strength.shape != (len(structure.codes), len(structure.factors)):
        raise ValueError(f"strength: must have the shape of the structure ({structure.summary}), got {strength.shape}")
    for (name, mask), count in zip(masks.items(), strength.shape, strict=False):
        _check_mask(name, mask, count)


def _check_mask(name: str, mask, count: int) -> None:
    if mask is not None and mask.shape != (count,):
        raise ValueError(f"{name}: must have shape [{count}], got {mask.shape}")


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
