"""Disentanglement and completeness at any level in a structured representation."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jaxdis._core.arrays import safe_divide
from jaxdis._core.options import Share, checked
from jaxdis._core.spec import metric
from jaxdis.relations._relation import Relation
from jaxdis.scores._entropies import one_minus_entropy
from jaxdis.scores._reading import read
from jaxdis.scores._structure import Levels, Structure

# Strengths below this share of the largest of their factor are noise (Dang-Nhu 2022, App. C.4).
NOISE = 0.03

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
    kept = _kept(jnp.maximum(strength, 0.0), codes, factors)
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
        jnp.ones(joint.shape[axis], bool) if mask is None else _any(mask, structure.groups(side, levels))
        for axis, (side, mask) in enumerate((("codes", codes), ("factors", factors)))
    )
    per_row = one_minus_entropy(joint, columns.sum().astype(jnp.float32))
    per_column = one_minus_entropy(joint.T, rows.sum().astype(jnp.float32))
    d = (joint.sum(axis=1) * per_row).sum()
    c = (joint.sum(axis=0) * per_column).sum()
    return StructuredScore(jnp.clip(d, 0.0, 1.0), jnp.clip(c, 0.0, 1.0), per_row, per_column, joint)


def _any(mask, groups):
    return jnp.zeros(len(groups.names), bool).at[groups.number].max(jnp.asarray(mask))


def _kept(strength, codes, factors):
    if codes is not None:
        strength = jnp.where(jnp.asarray(codes)[:, None], strength, 0.0)
    if factors is not None:
        strength = jnp.where(jnp.asarray(factors)[None], strength, 0.0)
    return strength


def _check(strength, structure: Structure, **masks) -> None:
    if strength.shape != (len(structure.codes), len(structure.factors)):
        raise ValueError(f"strength: must have the shape of the structure ({structure.summary}), got {strength.shape}")
    for (name, mask), count in zip(masks.items(), strength.shape, strict=False):
        _check_mask(name, mask, count)


def _check_mask(name: str, mask, count: int) -> None:
    if mask is not None and mask.shape != (count,):
        raise ValueError(f"{name}: must have shape [{count}], got {mask.shape}")
