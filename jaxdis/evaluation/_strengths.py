"""The relations behind scores, kept for :meth:`Scores.top`: which codes tell most about a factor."""

from typing import Any, NamedTuple, get_type_hints

import numpy as np
from jaxtyping import Array, Float

from jaxdis._core.spec import Spec
from jaxdis.metrics import Blend
from jaxdis.metrics._plan import Plan
from jaxdis.relations import Relation

# Numbers of a relation, of all members and replicates together, that are kept: 64 MB.
MOST_KEPT = 1 << 24
_PREFIX = "relation "


class Strengths(NamedTuple):
    """What is kept from a relation."""

    strength: Float[Array, "d k"]
    ceiling: Float[Array, " k"]


def strengths_of(relation: Relation) -> Strengths:
    """Return the relation itself, in place of a score."""
    return Strengths(relation.strength, relation.ceiling)


def with_relations(plan: Plan) -> Plan:
    """The metrics, and the relations that they score under their own names."""
    specs = dict.fromkeys(metric.relation for _, metric in plan if isinstance(metric, Blend))
    specs = [spec for spec in specs if get_type_hints(spec.function).get("return") is Relation]
    return plan + tuple((f"{_PREFIX}{spec!r}", Blend(spec, Spec(strengths_of))) for spec in specs)


def largest(results: dict[str, Any]) -> dict[str, np.ndarray]:
    """The largest strength of any code for each factor ``[…, k]``, from the relations among a plan's results."""
    relations = {name: result for name, result in results.items() if name.startswith(_PREFIX)}
    return {name: np.fmax.reduce(relation.strength, axis=1) for name, relation in relations.items()}


def kept(results: dict[str, Any], replicates: dict[str, Any], nulls: list[dict], single: bool) -> dict[str, np.ndarray]:
    """The relations among a plan's results, each as ``name.strength``, ``name.ceiling``, after a bootstrap also
    ``name.error``, and with permutations ``name.null``, what was :func:`largest` in each, ``[…, k, count]``."""
    found = {}
    for name in (name for name in results if name.startswith(_PREFIX)):
        fields = results[name]._asdict()
        if name in replicates:
            fields["error"] = replicates[name]["error"]
        if nulls:
            fields["null"] = np.stack([null[name] for null in nulls], axis=-1)
        label = name.removeprefix(_PREFIX)
        found |= {f"{label}.{field}": np.asarray(array[0] if single else array) for field, array in fields.items()}
    return found
