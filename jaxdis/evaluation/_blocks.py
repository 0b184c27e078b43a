"""Wide codes, in memory or on disk: metrics that take codes one by one see a block at a time.

Their relations' rows are computed block by block and joined before they are scored. Single-neuron classification then
reads, for each factor, the codes that could be aligned with it.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jaxdis._core import executor
from jaxdis._core.arrays import finite_codes, ordinary_codes
from jaxdis._core.spec import Spec
from jaxdis.evaluation._member import MemberCodes, Scored, Shared, Stage, Strengths, roles_of, score_member_often
from jaxdis.metrics import METRICS
from jaxdis.metrics._metric import apply
from jaxdis.metrics._plan import Plan
from jaxdis.relations import RELATIONS, Relation

_SNC = METRICS["snc"].source.function
_ALIGNMENT = RELATIONS["mutual_information_equal_count"]


class _Rows(NamedTuple):
    """A code block's relation, which codes are finite, and whether all that was read is sound."""

    strength: Float[Array, "d k"]
    code_ceiling: Float[Array, " d"]
    active: Bool[Array, " d"]
    finite: Bool[Array, " d"]
    ceiling: Float[Array, " k"]
    capacity: Float[Array, ""]
    sound: Bool[Array, ""]


def takes_blocks(spec: Spec) -> bool:
    """Whether a function of samples can be computed code block by code block."""
    return spec.function is _SNC or hasattr(spec.function, "rows_alone")


def score_by_blocks(stage: Stage, members: MemberCodes, shared_by: Callable[[Plan], Shared], how: dict) -> Scored:
    """As :func:`jaxdis.evaluation._member.score_member_often` for all members, without replicates.

    Args:
      shared_by: what the members share for some metrics.
    """
    results, relations, sound = {}, {}, True
    for spec in dict.fromkeys(metric.source for _, metric in stage.plan):
        metrics = tuple((name, metric) for name, metric in stage.plan if metric.source == spec)
        shared, aligning = shared_by(metrics), spec.function is _SNC
        alike = _ALIGNMENT.with_options(mode="code" if spec.all_options.get("mode") == "code" else "between")
        relation, finite, whole = _related(alike if aligning else spec, members, shared, how)
        sound = sound & whole
        if aligning:
            results |= _single_neuron(metrics, relation.strength, finite, members, shared, how)
            continue
        results |= {name: executor.map_members(_finish, metric.score, relation, ()) for name, metric in metrics}
        if stage.relations:
            relations[repr(spec)] = Strengths(np.asarray(relation.strength), np.asarray(relation.ceiling))
    return Scored(results, sound, relations=relations)


def _related(spec: Spec, members: MemberCodes, shared: Shared, how: dict) -> tuple[Relation, np.ndarray, np.ndarray]:
    """All members' relation with all codes, which codes are finite, and which members are sound."""
    d, width = members.codes.shape[2], members.block(0)
    # The last block overlaps the one before, so that one program computes all.
    starts = [*range(0, d - width, width), d - width]
    blocks = []
    for start, end in zip(starts, [*starts[1:], d], strict=True):
        part = executor.map_members(_rows, spec, cut(members, slice(start, start + width)), shared, **how)
        blocks.append(part._replace(**{field: getattr(part, field)[:, : end - start] for field in _Rows._fields[:4]}))
    rows = {name: np.concatenate([getattr(block, name) for block in blocks], axis=1) for name in _Rows._fields[:4]}
    finite, sound = rows.pop("finite"), np.all([block.sound for block in blocks], axis=0)
    arrays = {name: jnp.asarray(array) for name, array in {**rows, "ceiling": blocks[0].ceiling}.items()}
    capacity = blocks[0].capacity[0].item()
    relation = Relation(fit=None, capacity=math.nan if math.isnan(capacity) else capacity, **arrays)
    return relation, finite, sound


def _rows(spec: Spec, member: MemberCodes, shared: Shared) -> _Rows:
    relation = _relation(spec, member, shared)
    arrays = [array for array in (member.codes, member.test_codes) if array is not None]
    finite = jnp.stack([finite_codes(array) for array in arrays]).all(axis=0)
    sound = jnp.stack([ordinary_codes(array).all() for array in arrays]).all()
    own = relation.strength, relation.code_ceiling, relation.active, finite, relation.ceiling
    return _Rows(*own, jnp.float32(relation.capacity), sound)


def _relation(spec: Spec, member: MemberCodes, shared: Shared) -> Relation:
    roles, key = roles_of(member, shared), jax.random.fold_in(shared.key, member.number)
    return apply(spec, key, roles.train, roles.test, member.active, offset=member.offset)


def _finish(score: Spec, relation: Relation, _shared) -> Any:
    return score(relation)


def _single_neuron(metrics: Plan, strength, finite, members: MemberCodes, shared: Shared, how: dict) -> dict:
    """Single-neuron classification by the codes that can be aligned: for each factor, as many best ones as there are
    factors.

    :func:`jaxdis._core.kernels.assignment.assign` shows that these suffice.
    """
    k, found = strength.shape[2], []
    for row, of_member in enumerate(strength):
        best = np.argsort(-np.nan_to_num(of_member, nan=-1), axis=0, kind="stable")[:k]
        chosen = np.union1d(best, np.flatnonzero(~finite[row])[:1])  # of codes that are not finite, one makes all NaN
        active = np.arange(k * k + 1) < len(chosen)
        chosen = np.resize(chosen, k * k + 1)  # one program for all members
        one = cut(jax.tree.map(lambda leaf, row=row: leaf[row : row + 1], members), chosen)
        one = one._replace(active=active[None] if one.active is None else active & one.active)
        scored = executor.map_members(score_member_often, Stage(metrics), one, shared, **how)
        found.append(
            {
                name: result._replace(code=np.where(result.code >= 0, chosen[result.code], -1).astype(np.int32))
                for name, result in scored.metrics.items()
            }
        )
    return jax.tree.map(lambda *parts: np.concatenate(parts), *found)


def cut(members: MemberCodes, codes) -> MemberCodes:
    """The members with some codes."""
    names = ("codes", "variances", "test_codes", "active", "validation_codes", "offset")
    arrays = {name: getattr(members, name) for name in names}
    return members._replace(
        **{name: None if array is None else np.ascontiguousarray(array[..., codes]) for name, array in arrays.items()}
    )
