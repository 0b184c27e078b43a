"""The work in a study with trained models: train → encode → score, and one table with all members."""

import functools
import importlib.util
import io
from collections.abc import Iterator, Sequence
from pathlib import Path

from jaxdis._core.files import read_csv_columns, write_csv
from jaxdis.data import DATASETS
from jaxdis.study import _compute_cells
from jaxdis.study._cost import costs
from jaxdis.study._definition import ROLES, Member, Study, cells
from jaxdis.study._run_study import WORKS, Batch, Digest, Totals, Updates
from jaxdis.study._store import Store, number, publish
from jaxdis.study.report._answer import digest
from jaxdis.study.report._subject import Subject

TRAIN_BATCH = 16
SCORE_BATCH = 64


class TrainedWork:
    """See :class:`jaxdis.study.Work`."""

    def __init__(self, study: Study):
        self.study = study

    @functools.cached_property
    def _members(self) -> list[Member]:
        return list(cells(self.study))

    def describe(self) -> dict:
        return self.study.describe()

    def wanted(self) -> dict[str, set[str]]:
        return {
            "train": {member.train for member in self._members},
            "encode": {member.encode for member in self._members},
            "score": {score for member in self._members for score in member.scores},
        }

    def missing(self, store: Store) -> Iterator[Batch]:
        """The batches with missing cells, each complete and always divided in the same way.

        A batch that was published in part is computed as a whole, so that its programs, and thus the last bits of its
        numbers, do not depend on when a run was interrupted.
        """
        done = {kind: store.ids(kind) for kind in ("train", "encode", "score")}
        of_training = [[] for _ in self.study.trainings]
        for member in self._members:
            of_training[member.training].append(member)
        for rows in of_training:
            ends = 1 + len(self.study.trainings[rows[0].training].keep) if rows else 1
            for batch in _cut(rows, TRAIN_BATCH * ends):
                if lacking := {member.train for member in batch} - done["train"]:
                    yield Batch("train", batch, len(lacking))
            for batch in _cut(rows, SCORE_BATCH):
                if not done["train"].issuperset(member.train for member in batch):
                    continue
                if lacking := {member.encode for member in batch} - done["encode"]:
                    yield Batch("encode", batch, len(lacking))
                elif not done["encode"].issuperset(name for member in batch for name in member.seeds):
                    continue  # other batches encode the other seeds
                elif lacking := {score for member in batch for score in member.scores} - done["score"]:
                    yield Batch("score", batch, len(lacking))

    def compute(self, store: Store, batch: Batch, on_updates: Updates | None = None) -> None:
        _compute_cells.compute(store, self.study, batch, on_updates)

    def finish(self, store: Store) -> Path:
        """``results.csv``, and ``results_by_factor.csv`` for scores that have one number per factor.

        Both are derived from the records: they can be deleted without loss.
        """
        by_factor = [row for member in self._members for row in rows_by_factor(self.study, store, member)]
        if by_factor:
            _write(by_factor, _columns(by_factor, self._members, "factor"), store.root / "results_by_factor.csv")
        rows = [row_of(self.study, store, member) for member in self._members]
        path = store.root / "results.csv"
        _write(rows, _columns(rows, self._members), path)
        return path

    def report(self, store: Store) -> Path:
        from jaxdis.study.report._report import write_report  # matplotlib is not needed to compute cells

        return write_report(self.study, store.root, self._members)

    def digest(self, store: Store) -> Digest | None:
        subject = Subject.of(self.study, read_csv_columns(store.root / "results.csv"))
        return digest(subject.last(self._members))

    def costs(self) -> dict[str, Totals]:
        return costs(self.study, self._members)


def row_of(study: Study, store: Store, member: Member) -> dict:
    """A member's label, how many samples it was scored on, losses and scores, as columns."""
    row = {"id": member.train, "data": study.trainings[member.training].config.data, **member.label}
    row |= {f"{role}_samples": getattr(study.sampling, role) for role in ROLES}
    row |= {name: number(value) for name, value in store.result("train", member.train).items()}
    encoded = store.result("encode", member.encode)
    row |= {name: number(value) for name, value in encoded.items() if name.startswith("sample_")}
    for (name, _), score in zip(study.metrics, member.scores, strict=True):
        result = store.score(score, name)
        row |= {column: number(value) for column, value in result["columns"].items()}
        parts = result["parts"]
        if f"{name}.by_size" in parts:  # a learning curve, by the samples that were there: downstream_trees.100
            curve = zip(parts[f"{name}.samples"], parts[f"{name}.by_size"], strict=True)
            row |= {f"{name}.{size}": number(value) for size, value in curve}
    return row


def rows_by_factor(study: Study, store: Store, member: Member) -> list[dict]:
    """One row per factor: a member's label, the factor's name, and parts of metrics with one number for each."""
    label = {"id": member.train, "data": study.trainings[member.training].config.data, **member.label}
    names = DATASETS[label["data"]].space.names
    columns: dict[str, list] = {}
    for (name, metric), score in zip(study.metrics, member.scores, strict=True):
        parts = store.score(score, name)["parts"]
        by_factor = (f"{name}.{field}" for field, letters in metric.axes.items() if letters == ("k",))
        columns |= {part: parts[part] for part in by_factor if part in parts}
    return [
        {**label, "factor": factor, **{part: number(values[j]) for part, values in columns.items()}}
        for j, factor in enumerate(names)
    ]


def _columns(rows: Sequence[dict], members: Sequence[Member], *others: str) -> list[str]:
    """Column names in order: id, data, model, its settings, seed and what else the label has, others, the rest."""
    settings = dict.fromkeys(name for member in members for name in member.label)
    after = [name for name in ("updates", "seed", "held_out") if name in settings]
    label = [name for name in settings if name not in after] + after
    return list(dict.fromkeys(["id", "data", *label, *others, *(name for row in rows for name in row)]))


def _write(rows: Sequence[dict], names: Sequence[str], path: Path) -> None:
    """As CSV and, if pyarrow is installed, Parquet for pandas, polars and DuckDB."""
    write_csv(path, names, rows)
    if importlib.util.find_spec("pyarrow") is None:
        return
    import pyarrow
    import pyarrow.parquet

    content = io.BytesIO()
    table = pyarrow.table({name: [row.get(name) for row in rows] for name in names})
    pyarrow.parquet.write_table(table, content)
    publish(path.with_suffix(".parquet"), content.getvalue(), replace=True)


def _cut(rows: Sequence[Member], size: int) -> list[tuple[Member, ...]]:
    return [tuple(rows[start : start + size]) for start in range(0, len(rows), size)]


WORKS[Study] = TrainedWork
