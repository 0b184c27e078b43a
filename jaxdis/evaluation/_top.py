"""The codes that tell most about a factor, as a table's rows."""

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from jaxdis._core.lookup import some_of
from jaxdis._core.options import checked_value, shown
from jaxdis.evaluation._null import p_value
from jaxdis.evaluation._strengths import MOST_KEPT

if TYPE_CHECKING:
    from jaxdis.evaluation._results import Scores


def best_codes(scores: "Scores", factor: str | int, count: int, relation: str | None) -> list[dict[str, Any]]:
    """As :meth:`Scores.top`."""
    from scipy.special import stdtrit

    labels = list(dict.fromkeys(name.rpartition(".")[0] for name in scores.relations))
    if not labels:
        raise ValueError(
            "top: must have a relation that a metric scores, of complete factors and at most "
            f"{MOST_KEPT:,} codes × factors × members (× replicates), got none; score mig, or fewer members"
        )
    if not scores.single:
        raise ValueError("top: must be asked of one member, got a zoo; take one by scores[0]")
    label = checked_value("relation", Literal[tuple(labels)], labels[0] if relation is None else relation)
    names = scores.factor_names
    column = names.index(factor) if factor in names else factor
    if isinstance(column, str) or not 0 <= column < len(names):
        raise ValueError(f"factor: must be one of {some_of(names)}, or its number from 0, got {shown(factor)}")
    fields = ("strength", "ceiling", "error", "null")
    strength, ceiling, error, null = (scores.relations.get(f"{label}.{field}") for field in fields)
    values, rows = strength[:, column].astype(float), []
    for code in np.argsort(-values, kind="stable")[:count].tolist():
        if np.isnan(value := values[code].item()):
            break
        row = {"rank": len(rows) + 1, "code": code, "value": value, "share": value / ceiling[column].item()}
        if error is not None:
            reach = -stdtrit(scores.evaluation["bootstrap"] - 1, 0.025).item() * error[code, column].item()
            row |= {"low": value - reach, "high": value + reach}
        if null is not None:
            row["p"] = p_value(value, null[column], error=False).item()
        rows.append(row)
    return rows
