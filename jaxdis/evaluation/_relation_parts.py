"""Relations in parts: wide codes block by block, and factors that lack values by the samples that have them.

Rows for blocks of codes, which are in memory or on disk, are joined before they are scored; single-neuron
classification then reads, for each factor, the codes that could be aligned with it. So are columns for the pieces of
factors that the same samples have; what concerns each factor alone is joined afterwards.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jaxdis._core import executor
from jaxdis._core.arrays import finite_codes, ordinary_codes
from jaxdis._core.spec import Spec
from jaxdis.evaluation._groups import as_groups
from jaxdis.evaluation._inputs import as_pair, converted
from jaxdis.evaluation._member import MemberCodes, Results, Shared, Stage, Strengths, roles_of, score_member_often
from jaxdis.factors import Factors
from jaxdis.metrics import METRICS, Blend, Metric
from jaxdis.metrics._metric import apply
from jaxdis.metrics._plan import Plan
from jaxdis.relations import RELATIONS, Relation
from jaxdis.scores import SCORES

_SNC = METRICS["snc"].source.function
_ALIGNMENT = RELATIONS["mutual_information_equal_count"]
# Each field of their results is a mean over factors of what the samples say of one factor alone, or lists it.
_BY_FACTOR = {METRICS[name].source.function for name in ("explicitness", "infoe")}
_BY_FACTOR |= {SCORES[name].function for name in ("gap", "joint_gap")}
# Relations whose columns do not depend on each other: all of the library.
_BY_COLUMN = {spec.function for spec in RELATIONS.values()}


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


def score_by_blocks(stage: Stage, members: MemberCodes, shared_by: Callable[[Plan], Shared], how: dict) -> Results:
    """As :func:`jaxdis.evaluation._member.score_member_often` for all members, without replicates; ``shared_by`` says
    what the members share for some metrics."""
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
        results |= {name: score_relations(metric.score, relation) for name, metric in metrics}
        if stage.relations:
            relations[repr(spec)] = Strengths(np.asarray(relation.strength), np.asarray(relation.ceiling))
    return Results(results, sound, relations=relations)


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
    roles, key = roles_of(member, shared), jax.random.fold_in(shared.key, member.number)
    relation = apply(spec, key, roles.train, roles.test, member.active, offset=member.offset)
    arrays = [array for array in (member.codes, member.test_codes) if array is not None]
    finite = jnp.stack([finite_codes(array) for array in arrays]).all(axis=0)
    sound = jnp.stack([ordinary_codes(array).all() for array in arrays]).all()
    own = relation.strength, relation.code_ceiling, relation.active, finite, relation.ceiling
    return _Rows(*own, jnp.float32(relation.capacity), sound)


def score_relations(score: Spec, relation: Relation) -> Any:
    """The scores of all members' relations."""
    return executor.map_members(_scored, score, relation, ())


def _scored(score: Spec, relation: Relation, _shared) -> Any:
    return score(relation)


def _single_neuron(metrics: Plan, strength, finite, members: MemberCodes, shared: Shared, how: dict) -> dict:
    """Single-neuron classification by the codes that can be aligned: for each factor, as many best ones as there are
    factors, which suffice (:func:`jaxdis._core.kernels.assignment.assign`)."""
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
    names = ("codes", "variances", "test_codes", "active", "validation_codes", "offset")
    arrays = {name: getattr(members, name) for name in names}
    return members._replace(
        **{name: None if array is None else np.ascontiguousarray(array[..., codes]) for name, array in arrays.items()}
    )


class Matrix(NamedTuple):
    """A relation's fields that can be joined over factors."""

    strength: Float[Array, "d k"]
    ceiling: Float[Array, " k"]
    fit: Float[Array, " k"] | None
    active: Bool[Array, " d"]
    chosen: Float[Array, " k"] | None


def matrix_of(relation: Relation) -> Matrix:
    return Matrix(*(getattr(relation, field) for field in Matrix._fields))


def check_gaps(plan: Plan, factors, bootstrap: int, nulls: int) -> Factors:
    """Check that metrics can score each factor on its own samples."""
    if nulls:
        raise ValueError("null: must have factors without missing values; read them with missing='drop'")
    refused = [name for name, metric in plan if metric.reads_factors and not (_by_factor(metric) or _by_column(metric))]
    if refused:
        raise ValueError(
            f"factors: must have a value in every sample for {', '.join(refused)}, got missing ones; read them by "
            "Factors.from_table(…, missing='drop'), or leave these metrics out"
        )
    if bootstrap:
        raise ValueError("bootstrap: needs factors without missing values; read them with missing='drop'")
    return Factors.checked(factors, gaps=True)


def pieces_of(codes, factors: Factors, arrays: dict) -> tuple[list[tuple[list[int], tuple]], tuple]:
    """Split factors by the samples that have them: each piece's factors by number, with its codes, factors and arrays.

    Then those of all samples with whatever stands for missing values, for metrics that read codes alone.
    """
    codes, factors = converted(codes, "codes"), Factors.checked(factors, gaps=True)
    if codes.ndim not in (2, 3) or codes.shape[-2] != factors.num_samples:
        raise ValueError(f"codes: must have as many samples as factors, {factors.num_samples}, got shape {codes.shape}")
    arrays = {**arrays, "groups": as_groups(arrays["groups"], factors)}
    pairs = {role: arrays[role] for role in ("test", "validation") if arrays[role] is not None}
    pairs = {role: as_pair(role, pair, factors, gaps=True) for role, pair in pairs.items()}
    masks = [factors.there, *(given.there for _, given in pairs.values())]
    by_samples: dict[bytes, list[int]] = {}
    for j in range(factors.num_factors):
        by_samples.setdefault(b"".join(mask[:, j].tobytes() for mask in masks), []).append(j)

    def piece(columns):
        rows, *held_out = (np.flatnonzero(mask[:, columns[0]]) for mask in masks)
        for role, there in zip(("factors", *pairs), (rows, *held_out), strict=True):
            if len(there) < 2:
                raise ValueError(f"{role}: must have 2 samples with {factors.names[columns[0]]}, got {len(there)}")
        cut = {name: np.asarray(arrays[name])[rows] for name in ("weights", "groups") if arrays[name] is not None}
        if arrays["variances"] is not None:
            cut["variances"] = converted(arrays["variances"], "variances")[..., rows, :]
        for (role, (others_codes, given)), there in zip(pairs.items(), held_out, strict=True):
            cut[role] = (others_codes[..., there, :], _selected(given, there, columns))
        return columns, (codes[..., rows, :], _selected(factors, rows, columns), {**arrays, **cut})

    filled = {role: (given[0], given[1].bare()) for role, given in pairs.items()}
    return [piece(columns) for columns in by_samples.values()], (codes, factors.bare(), {**arrays, **filled})


def joined_relations(relations: Sequence[Relation], columns: Sequence[Sequence[int]]) -> Relation:
    """One relation to all factors. A code's entropy differs from factor to factor and is left out."""
    return _relation([matrix_of(relation)._asdict() for relation in relations], columns)


def in_pieces(metric: Metric) -> Metric:
    """What is computed on each piece: a metric of single factors itself, or the relation that is joined."""
    return metric if _by_factor(metric) else Blend(metric.relation, Spec(matrix_of), about=metric.about)


def joined(metric: Metric, pieces: Sequence[tuple[Sequence[int], Factors]], found: Sequence[tuple | None]) -> tuple:
    """A metric's result over all factors, from those on each piece, which is given by its factors' numbers and values;
    None stands for a piece that has nothing to score."""
    if _by_factor(metric):
        return _mean_fields(metric, pieces, found)
    columns = [places for places, _ in pieces]
    return score_relations(metric.score, _relation([result and result._asdict() for result in found], columns))


def _relation(pieces: Sequence[Mapping | None], columns: Sequence[Sequence[int]]) -> Relation:
    """A relation's pieces joined over factors, for one member or all."""
    known = next(fields for fields in pieces if fields)
    total = sum(map(len, columns))
    whole = {
        field: np.full((*known[field].shape[:-1], total), 0.0 if field == "ceiling" else np.nan, np.float32)
        for field in ("strength", "ceiling", "fit", "chosen")
        if known.get(field) is not None
    }
    for places, fields in zip(columns, pieces, strict=True):
        for field in whole if fields else ():
            whole[field][..., places] = fields[field]
    arrays = {"fit": None, "chosen": None, **whole, "active": np.asarray(known["active"], bool)}
    arrays["code_ceiling"] = np.full(arrays["active"].shape, np.nan, np.float32)
    return Relation(**{name: array if array is None else jnp.asarray(array) for name, array in arrays.items()})


def _mean_fields(metric: Metric, pieces: Sequence[tuple[Sequence[int], Factors]], found: Sequence) -> tuple:
    """Numbers about single factors in their places, and means weighted by how many factors they cover."""
    by_factor = [field for field, letters in metric.axes.items() if letters == ("k",)]
    known = next(result for result in found if result is not None)
    means, total = {}, sum(len(places) for places, _ in pieces)
    for field, example in known._asdict().items():
        whole, weights = np.full((len(example), total), np.nan, np.float32), np.zeros(len(example))
        mean = np.zeros(len(example))
        for (places, factors), result in zip(pieces, found, strict=True):
            if result is None:
                continue
            values = getattr(result, field)
            if field in by_factor:
                whole[:, places] = values
                continue
            count = (~np.isnan(result.per_factor)).sum(axis=-1)
            varying = (np.ptp(np.asarray(factors.values), axis=0) > 0).sum()
            weight = np.where(np.isnan(values), varying, count)  # undefined for a reason, or of no factor
            mean, weights = mean + np.where(weight > 0, values, 0.0) * weight, weights + weight
        undefined = np.full(len(example), np.nan)
        means[field] = whole if field in by_factor else np.divide(mean, weights, out=undefined, where=weights > 0)
    return known._replace(**{field: values.astype(np.float32) for field, values in means.items()})


def _by_factor(metric) -> bool:
    return (metric.score if isinstance(metric, Blend) else metric.source).function in _BY_FACTOR


def _by_column(metric) -> bool:
    divides_by_codes = metric.all_options.get("normalize") == "code"
    return isinstance(metric, Blend) and metric.source.function in _BY_COLUMN and not divides_by_codes


def _selected(factors: Factors, rows: np.ndarray, columns: list[int]) -> Factors:
    """Some factors at some samples, which have them all."""

    def of(entries):
        return None if entries is None else tuple(entries[j] for j in columns)

    values, sizes = np.asarray(factors.values)[np.ix_(rows, columns)], of(factors.sizes)
    values = values.astype(np.float32 if None in sizes else np.int32)
    periods = of(factors.periods)
    periods = periods if any(periods or ()) else None
    nominal, classes = of(factors.nominal), of(factors.classes)
    nominal = nominal if any(nominal or ()) else None
    return Factors(jnp.asarray(values), sizes, of(factors.names), periods, nominal, classes)
