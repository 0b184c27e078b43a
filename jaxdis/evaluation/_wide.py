"""Wide codes, in memory or on disk: metrics that take codes one by one see a block at a time.

Their relations' rows are computed block by block and joined before they are scored. Single-neuron classification then
reads, for each factor, the codes that could be aligned with it.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jaxdis._core import executor
from jaxdis._core.arrays import finite_codes, ordinary_codes
from jaxdis._core.spec import Spec
from jaxdis.evaluation._member import MemberCodes, Shared, samples_of, score_member_often, train_and_test
from jaxdis.evaluation._stages import shared_by
from jaxdis.metrics import METRICS
from jaxdis.metrics._metric import apply
from jaxdis.metrics._plan import Plan
from jaxdis.relations import RELATIONS, Relation

# Numbers of a member from which on it is read in blocks, and of the blocks of all members together.
WIDE = 1 << 26
BLOCK_NUMBERS = 1 << 25
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


def block_of(members: MemberCodes, bootstrap: int) -> int | None:
    """A block's codes; None for codes that are computed with as a whole."""
    m, n, d = members.codes.shape
    whole = n * d <= WIDE or bootstrap or isinstance(members.codes, jax.Array)
    return None if whole else min(d, max(1, BLOCK_NUMBERS // (m * n)))


def takes_blocks(spec: Spec) -> bool:
    """Whether a function of samples can be computed code block by code block."""
    return spec.function is _SNC or hasattr(spec.function, "rows_alone")


def score_by_blocks(stage: Plan, members: MemberCodes, shared: Shared, how: dict) -> tuple:
    """As :func:`jaxdis.evaluation._member.score_member_often` for all members, without replicates."""
    results, sound = {}, True
    for spec in _sources(stage):
        metrics = tuple((name, metric) for name, metric in stage if metric.source == spec)
        aligning = spec.function is _SNC
        alike = _ALIGNMENT.with_options(mode="code" if spec.all_options.get("mode") == "code" else "between")
        relation, finite, whole = _related(alike if aligning else spec, members, shared_by(metrics, shared), how)
        sound = sound & whole
        if aligning:
            results |= _single_neuron(metrics, relation.strength, finite, members, shared, how)
        else:
            results |= {name: executor.map_members(_finish, metric.score, relation, ()) for name, metric in metrics}
    return results, sound, {}


def _sources(stage: Plan) -> tuple[Spec, ...]:
    return tuple(dict.fromkeys(metric.source for _, metric in stage))


def _related(spec: Spec, members: MemberCodes, shared: Shared, how: dict) -> tuple[Relation, np.ndarray, np.ndarray]:
    """All members' relation with all codes, which codes are finite, and which members are sound."""
    d, width = members.codes.shape[2], block_of(members, 0)
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
    train, held_out = train_and_test(samples_of(member, shared), member, shared)
    return apply(
        spec, jax.random.fold_in(shared.key, member.number), train, held_out, member.active, offset=member.offset
    )


def _finish(score: Spec, relation: Relation, _shared) -> Any:
    return score(relation)


def _single_neuron(metrics: Plan, strength, finite, members: MemberCodes, shared: Shared, how: dict) -> dict:
    """Single-neuron classification by the codes that can be aligned: for each factor, as many best ones as there are
    factors.

    :func:`jaxdis._core.kernels.assignment.assign` shows that these suffice.
    """
    k, found = strength.shape[2], []
    shared = shared_by(metrics, shared)
    for row, of_member in enumerate(strength):
        best = np.argsort(-np.nan_to_num(of_member, nan=-1), axis=0, kind="stable")[:k]
        chosen = np.union1d(best, np.flatnonzero(~finite[row])[:1])  # of codes that are not finite, one makes all NaN
        active = np.arange(k * k + 1) < len(chosen)
        chosen = np.resize(chosen, k * k + 1)  # one program for all members
        one = cut(jax.tree.map(lambda leaf, row=row: leaf[row : row + 1], members), chosen)
        one = one._replace(active=active[None] if one.active is None else active & one.active)
        results, *_ = executor.map_members(score_member_often, (metrics, 0), one, shared, **how)
        found.append(
            {
                name: result._replace(code=np.where(result.code >= 0, chosen[result.code], -1).astype(np.int32))
                for name, result in results.items()
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
