"""Many files' scores as they are computed: in which turn, and what has arrived so far."""

import dataclasses
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from jaxdis.evaluation import _affordable as affordable
from jaxdis.evaluation._affordable import Run
from jaxdis.evaluation._costs import Size
from jaxdis.evaluation._results import Scores
from jaxdis.evaluation._stages import seconds_of, stages_of

# Metrics that take no longer for 10,000 samples, in seconds, are computed for all files before any other.
QUICK = 0.1
_TABLES = "columns", "parts", "replicates", "nulls", "relations", "axes"


def in_turn(plan: Mapping) -> list[Mapping]:
    """The metrics that are computed for all files before the next ones: the quick ones, then stage by stage."""
    stages = stages_of(tuple(plan.items()))
    quick = [each for stage in stages if seconds_of(stage) <= QUICK for each in stage]
    return [dict(each) for each in (quick, *(stage for stage in stages if seconds_of(stage) > QUICK)) if each]


def say_seconds(arrays, plan: Mapping, count: int, bootstrap: int, null: int) -> None:
    """Say how long so many files take, by the first one; nothing about a zoo or slots."""
    if isinstance(arrays, Path) or arrays.codes.ndim not in (2, 3):
        return
    members = count * (1 if arrays.codes.ndim == 2 else len(arrays.codes))
    size = Size.of(*arrays.codes.shape[-2:], arrays.factors.sizes)
    run = Run.of(size, 0, members, batch_size=None, devices=None, bootstrap=bootstrap, null=null)
    affordable.say_seconds(tuple(plan.items()), run)


def now_and_then(write: Callable) -> Callable:
    """A function that writes what another one gives, for a tenth of the time at most: many rows take a second."""
    due = 0.0

    def write_if_due(given: Callable):
        nonlocal due
        began = time.monotonic()
        if began >= due:
            write(given())
            due = 10 * time.monotonic() - 9 * began

    return write_if_due


def joined(arrived: Sequence[Scores]) -> Scores:
    """The columns that have arrived, for the members that they all have.

    Members come in chunks: the first chunk's metrics arrive one after the other, then the next chunk's.
    """
    columns, replicates = _whole(arrived, "columns"), _whole(arrived, "replicates")
    if any(map(np.ndim, columns.values())):
        count = min(map(len, columns.values()))
        columns, replicates = ({name: rows[:count] for name, rows in each.items()} for each in (columns, replicates))
    return Scores(columns, {}, arrived[0].factor_names, replicates)


def by_file(arrived: Sequence[Scores], names: Sequence[str]) -> dict[str, Scores]:
    """For each file, which is a member, the columns that have arrived."""
    columns, replicates = _whole(arrived, "columns"), _whole(arrived, "replicates")
    found = {}
    for row, name in enumerate(names):
        own = [{key: each[row] for key, each in table.items() if row < len(each)} for table in (columns, replicates)]
        if own[0]:
            found[name] = Scores(own[0], {}, arrived[0].factor_names, own[1])
    return found


def merged(tables: Sequence[Scores], order: Iterable[str] = ()) -> Scores:
    """Join the same members' columns from several evaluations, in the metrics' order."""
    first, *others = tables
    if not others:
        return first
    fields = {field: {name: each for t in tables for name, each in getattr(t, field).items()} for field in _TABLES}
    places = {metric: place for place, metric in enumerate(order)}
    fields["columns"] = dict(
        sorted(fields["columns"].items(), key=lambda pair: places.get(_metric_of(pair[0], places), len(places)))
    )
    records = [table.evaluation for table in tables if table.evaluation]
    evaluation = dict(records[0]) if records else {}
    for record in records[1:]:
        evaluation |= {name: evaluation.get(name, {}) | record.get(name, {}) for name in ("options", "metrics")}
        evaluation["held_out"] = evaluation["held_out"] or record["held_out"]
    return dataclasses.replace(
        first,
        **fields,
        notes=tuple(dict.fromkeys(note for table in tables for note in table.notes)),
        errors=tuple(dict.fromkeys(name for table in tables for name in table.errors)),
        evaluation=evaluation,
    )


def _metric_of(column: str, metrics) -> str:
    """The metric that a column belongs to: its name, or the name before a field."""
    return column if column in metrics else column.rpartition(".")[0]


def _whole(arrived: Sequence[Scores], field: str) -> dict:
    tables = [getattr(scores, field) for scores in arrived]
    pieces = {name: [table[name] for table in tables if name in table] for table in tables for name in table}
    return {name: np.concatenate(piece) if len(piece) > 1 else piece[0] for name, piece in pieces.items()}
