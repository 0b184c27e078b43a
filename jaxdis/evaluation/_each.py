"""Factors with missing values: every factor is scored on the samples that have it.

The factors that the same samples have are a part. Relations are computed part by part and joined before they are
scored; what concerns each factor alone is joined afterwards.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jaxdis._core import executor
from jaxdis._core.spec import Spec
from jaxdis.evaluation._groups import as_groups
from jaxdis.evaluation._inputs import as_pair, converted
from jaxdis.evaluation._stages import stages_of
from jaxdis.factors import Factors
from jaxdis.metrics import METRICS, Blend
from jaxdis.metrics._metric import per_factor_fields
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


class Part(NamedTuple):
    """The factors that the same samples have, and the arguments for evaluating these samples."""

    columns: list[int]
    codes: np.ndarray
    factors: Factors
    arguments: dict[str, Any]

    @property
    def usable(self) -> int:
        """How many factors vary."""
        values = np.asarray(self.factors.values)
        return int((values.max(axis=0) > values.min(axis=0)).sum())


def lack_values(*pairs) -> bool:
    """Whether factors, or those in a pair (codes, factors), lack values."""
    each = (pair[1] if isinstance(pair, tuple | list) and len(pair) == 2 else pair for pair in pairs)
    return any(isinstance(factors, Factors) and factors.present is not None for factors in each)


class Parts(NamedTuple):
    """The parts of an evaluation, and all samples with whatever stands for missing values, for metrics that read codes
    alone."""

    parts: list[Part]
    whole: Part


def parts_of(
    codes, factors, *, test=None, validation=None, weights=None, variances=None, groups=None, **others
) -> Parts:
    """Split factors by the samples that have them, and cut all arrays to these samples."""
    codes, factors = converted(codes, "codes"), Factors.checked(factors, gaps=True)
    if codes.ndim not in (2, 3) or codes.shape[-2] != factors.num_samples:
        raise ValueError(f"codes: must have as many samples as factors, {factors.num_samples}, got shape {codes.shape}")
    groups = as_groups(groups, factors)
    pairs = {"test": test, "validation": validation}
    pairs = {role: as_pair(role, pair, factors) for role, pair in pairs.items() if pair is not None}
    masks = [_present(factors), *(_present(given) for _, given in pairs.values())]
    by_samples: dict[bytes, list[int]] = {}
    for j in range(factors.num_factors):
        by_samples.setdefault(b"".join(mask[:, j].tobytes() for mask in masks), []).append(j)

    def part(columns):
        rows, *held_out = (np.flatnonzero(mask[:, columns[0]]) for mask in masks)
        for role, there in zip(("factors", *pairs), (rows, *held_out), strict=True):
            if len(there) < 2:
                raise ValueError(f"{role}: must have 2 samples with {factors.names[columns[0]]}, got {len(there)}")
        cut = {"weights": None if weights is None else np.asarray(weights)[rows]}
        cut["groups"] = None if groups is None else groups[rows]
        cut["variances"] = None if variances is None else converted(variances, "variances")[..., rows, :]
        for (role, (others_codes, given)), there in zip(pairs.items(), held_out, strict=True):
            cut[role] = (others_codes[..., there, :], _selected(given, there, columns))
        return Part(columns, codes[..., rows, :], _selected(factors, rows, columns), {**others, **cut})

    filled = {role: (given[0], dataclasses.replace(given[1], present=None)) for role, given in pairs.items()}
    arguments = {**others, **filled, "weights": weights, "variances": variances, "groups": groups}
    whole = Part(list(range(factors.num_factors)), codes, dataclasses.replace(factors, present=None), arguments)
    return Parts([part(columns) for columns in by_samples.values()], whole)


def check_each(plan: Plan, bootstrap: int) -> None:
    """Check that metrics can score each factor on its own samples.

    Raises:
      ValueError: naming those that need all of a sample's factors, or for a bootstrap.
    """
    refused = [name for name, metric in plan if not (_by_factor(metric) or _by_column(metric) or _of_codes(metric))]
    if refused:
        raise ValueError(
            f"factors: must have a value in every sample for {', '.join(refused)}, got missing ones; read them by "
            "Factors.from_table(…, missing='drop'), or leave these metrics out"
        )
    if bootstrap:
        raise ValueError("bootstrap: needs factors without missing values; read them with missing='drop'")


def evaluate_each(
    evaluate: Callable, table: Callable, plan: Plan, given: Parts, key, arrived, progress=None, **how
) -> dict[str, "_Fields"]:
    """A plan's results by metric, with a leading member axis, from evaluations part by part.

    Args:
      evaluate: :func:`jaxdis.evaluate`.
      table: brings a plan and its results into :class:`Scores`, for ``arrived``.
    """
    results, stages = {}, stages_of(plan)
    count = len(given.whole.codes) if given.whole.codes.ndim == 3 else 1
    for number, stage in enumerate(stages):
        parts = [given.whole] if _of_codes(stage[0][1]) else given.parts
        asked = {name: metric if _by_factor(metric) or _of_codes(metric) else _raw(metric) for name, metric in stage}
        found = []
        for place, part in enumerate(parts, 1):
            found.append(_scored(evaluate, asked, part, key, how))
            if progress is not None:
                progress(count * (number * len(parts) + place) // (len(stages) * len(parts)), count)
        joined = {name: _joined(name, metric, parts, found) for name, metric in stage}
        results |= joined
        if arrived is not None:
            arrived(table(stage, joined))
    return results


def joined_relations(relations: list[Relation], parts: list[Part]) -> Relation:
    """One relation to all factors. A code's entropy differs from factor to factor and is left out."""
    matrices = [matrix_of(relation)._asdict() for relation in relations]
    return _relation([{name: _with_members(array) for name, array in each.items()} for each in matrices], parts, 0)


def _scored(evaluate: Callable, asked: Mapping, part: Part, key, how: Mapping) -> dict[str, dict[str, np.ndarray]]:
    """Each metric's fields ``[m, …]`` on one part; none if it leaves all its factors out."""
    asked = {name: metric for name, metric in asked.items() if _reads(metric, part.factors)}
    if not asked:
        return {}
    single = part.codes.ndim == 2
    scores = evaluate(part.codes, part.factors, asked, key, **part.arguments, **how)
    fields: dict[str, dict[str, np.ndarray]] = {name: {} for name in asked}
    for column, values in {**scores.columns, **scores.parts}.items():
        name = max((name for name in asked if column == name or column.startswith(f"{name}.")), key=len)
        fields[name][column[len(name) + 1 :] or "score"] = values[None] if single else values
    return fields


def _joined(name: str, metric, parts: list[Part], found: list[Mapping]) -> "_Fields":
    """A metric's fields over all factors."""
    of_parts = [each.get(name) for each in found]
    if _of_codes(metric):
        return _Fields(of_parts[0])
    if _by_factor(metric):
        return _Fields(_mean_fields(metric, parts, of_parts))
    relation = _relation(of_parts, parts, None)
    return _Fields(executor.map_members(_finish, metric.score, relation, ())._asdict())


class _Fields(dict):
    """A result's fields, as a NamedTuple has them."""

    def _asdict(self) -> dict:
        return self


def _finish(score: Spec, relation: Relation, _shared):
    return score(relation)


def _relation(of_parts: list[Mapping | None], parts: list[Part], member: int | None) -> Relation:
    """A relation's parts joined over factors, for all members or for one."""
    known = next(fields for fields in of_parts if fields)
    total = sum(len(part.columns) for part in parts)
    whole = {
        field: np.full((*known[field].shape[:-1], total), 0.0 if field == "ceiling" else np.nan, np.float32)
        for field in ("strength", "ceiling", "fit", "chosen")
        if known.get(field) is not None
    }
    for part, fields in zip(parts, of_parts, strict=True):
        for field in whole if fields else ():
            whole[field][..., part.columns] = fields[field]
    arrays = {"fit": None, "chosen": None, **whole, "active": np.asarray(known["active"], bool)}
    arrays["code_ceiling"] = np.full(arrays["active"].shape, np.nan, np.float32)
    return Relation(
        **{name: a if a is None else jnp.asarray(a if member is None else a[member]) for name, a in arrays.items()}
    )


def _mean_fields(metric, parts: list[Part], of_parts: list[Mapping | None]) -> dict[str, np.ndarray]:
    """Numbers about single factors in their columns, and means weighted by how many factors they cover."""
    by_factor = per_factor_fields(metric)
    known = next(fields for fields in of_parts if fields)
    joined, total = {}, sum(len(part.columns) for part in parts)
    for field, example in known.items():
        whole, weights = np.full((len(example), total), np.nan, np.float32), np.zeros(len(example))
        mean = np.zeros(len(example))
        for part, fields in zip(parts, of_parts, strict=True):
            if fields is None:
                continue
            if field in by_factor:
                whole[:, part.columns] = fields[field]
                continue
            count = (~np.isnan(fields["per_factor"])).sum(axis=-1)
            weight = np.where(np.isnan(fields[field]), part.usable, count)  # undefined for a reason, or of no factor
            mean, weights = mean + np.where(weight > 0, fields[field], 0.0) * weight, weights + weight
        undefined = np.full(len(example), np.nan)
        joined[field] = whole if field in by_factor else np.divide(mean, weights, out=undefined, where=weights > 0)
    return {field: values.astype(np.float32) for field, values in joined.items()}


def _by_factor(metric) -> bool:
    return (metric.score if isinstance(metric, Blend) else metric.source).function in _BY_FACTOR


def _by_column(metric) -> bool:
    divides_by_codes = metric.all_options.get("normalize") == "code"
    return isinstance(metric, Blend) and metric.source.function in _BY_COLUMN and not divides_by_codes


def _of_codes(metric) -> bool:
    return metric.about is not None and not metric.about.reads_factors


def _raw(metric: Blend) -> Blend:
    return Blend(metric.relation, Spec(matrix_of), about=metric.about)


def _reads(metric, factors: Factors) -> bool:
    return not metric.source.needs_classes or any(factors.sizes)


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
    return Factors(jnp.asarray(values), sizes, of(factors.names), periods, of(factors.classes))


def _with_members(array):
    return None if array is None else np.asarray(array)[None]
