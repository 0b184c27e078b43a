"""Factors with missing values: every factor is scored on the samples that have it.

The factors that the same samples have are a piece. Relations are computed piece by piece and joined before they are
scored; what concerns each factor alone is joined afterwards.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jaxdis._core import executor
from jaxdis._core.spec import Spec
from jaxdis.evaluation._groups import as_groups
from jaxdis.evaluation._inputs import as_pair, converted
from jaxdis.factors import Factors
from jaxdis.metrics import METRICS, Blend, Metric
from jaxdis.metrics._plan import Plan
from jaxdis.relations import RELATIONS, Relation
from jaxdis.scores import SCORES

# Each field of their results is a mean over factors of what the samples say of one factor alone, or lists it.
_BY_FACTOR = {METRICS[name].source.function for name in ("explicitness", "infoe")}
_BY_FACTOR |= {SCORES[name].function for name in ("gap", "joint_gap")}
# Relations whose columns do not depend on each other: all of the library.
_BY_COLUMN = {spec.function for spec in RELATIONS.values()}


class Matrix(NamedTuple):
    """A relation's fields that can be joined over factors."""

    strength: Float[Array, "d k"]
    ceiling: Float[Array, " k"]
    fit: Float[Array, " k"] | None
    active: Bool[Array, " d"]
    chosen: Float[Array, " k"] | None


def matrix_of(relation: Relation) -> Matrix:
    """The relation itself, in place of a score."""
    return Matrix(*(getattr(relation, field) for field in Matrix._fields))


def lack_values(*pairs) -> bool:
    """Whether factors, or those in a pair (codes, factors), lack values."""
    each = (pair[1] if isinstance(pair, tuple | list) and len(pair) == 2 else pair for pair in pairs)
    return any(isinstance(factors, Factors) and factors.present is not None for factors in each)


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
    """Split factors by the samples that have them, and cut all arrays to these samples.

    Returns:
      For each piece its factors by number, and ``(codes, factors, arrays)``; then all samples with whatever stands for
      missing values, for metrics that read codes alone.
    """
    codes, factors = converted(codes, "codes"), Factors.checked(factors, gaps=True)
    if codes.ndim not in (2, 3) or codes.shape[-2] != factors.num_samples:
        raise ValueError(f"codes: must have as many samples as factors, {factors.num_samples}, got shape {codes.shape}")
    arrays = {**arrays, "groups": as_groups(arrays["groups"], factors)}
    pairs = {role: arrays[role] for role in ("test", "validation") if arrays[role] is not None}
    pairs = {role: as_pair(role, pair, factors) for role, pair in pairs.items()}
    masks = [_present(factors), *(_present(given) for _, given in pairs.values())]
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
    """A metric's result over all factors, from those on each piece, which is given by its factors' numbers and values.

    None stands for a piece that has nothing to score.
    """
    if _by_factor(metric):
        return _mean_fields(metric, pieces, found)
    columns = [places for places, _ in pieces]
    relation = _relation([result and result._asdict() for result in found], columns)
    return executor.map_members(_finish, metric.score, relation, ())


def _finish(score: Spec, relation: Relation, _shared):
    return score(relation)


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


def _present(factors: Factors) -> np.ndarray:
    return np.ones(factors.values.shape, bool) if factors.present is None else factors.present


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
