"""Running a study: list the missing cells, compute them in batches, publish each under its own id, repeat."""

import concurrent.futures
import csv
import importlib.util
import io
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

from jaxdis.files import full, is_full
from jaxdis.study.definition import ROLES, Member, Study, cells
from jaxdis.study.leases import clear_all
from jaxdis.study.make import Batch, run_batch
from jaxdis.study.store import Store, number, publish

TRAIN_BATCH = 16
SCORE_BATCH = 64
# Rounds that an engine may lose whole (its scheduler restarted, a worker was killed) before that is no progress.
LOST_ROUNDS = 3
LOST = (concurrent.futures.CancelledError, concurrent.futures.BrokenExecutor)

log = logging.getLogger(__name__)

Progress = Callable[[str, float], None]


class Status(NamedTuple):
    """Numbers of finished cells and of all cells, by kind."""

    done: dict[str, int]
    total: dict[str, int]

    @property
    def complete(self) -> bool:
        return self.done == self.total


def run(
    study: Study,
    out: str | Path,
    *,
    executor: concurrent.futures.Executor | None = None,
    extend: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Compute every missing cell of a study; returns the path of the table ``results.csv``.

    Args:
      out: the study's directory. Run again after any failure: published cells are never recomputed. Workers of an
        executor must see it under the same path.
      executor: any ``concurrent.futures.Executor`` (:func:`jaxdis.study.executors.opened` provides two); None runs
        here.
      extend: allow the directory of a smaller version of this study to grow.
      progress: called with a kind and the number of its cells computed by this call; members in training count in part.

    Raises:
      StoreError: if the directory belongs to another study.
      OSError: if the directory cannot be written, for example because the disk is full.
      ValueError: if the samples or the metrics do not suit each other.
      RuntimeError: if a round of batches makes no progress, with the last failure as its cause.
    """
    try:
        return _run(study, Store(out), executor, extend, progress)
    except OSError as error:
        if not is_full(error):
            raise
        raise full(error, out, "what is finished is kept: make room and run again") from error


def _run(study: Study, store: Store, executor, extend: bool, progress: Progress | None) -> Path:
    store.open(study.describe(), extend=extend)
    members = list(cells(study))
    lost = 0
    made = dict.fromkeys(("train", "encode", "score"), 0)
    while batches := list(missing(store, study, members)):
        before, failures = _count(store), []
        for batch, error in _make(study, store.root, batches, executor, _training(progress, made)):
            if error is not None:
                log.info("batch of %d %s cells failed: %r", len(batch.members), batch.kind, error)
                failures.append(error)
                continue
            made[batch.kind] += len(batch.members) * (len(study.metrics) if batch.kind == "score" else 1)
            if progress is not None:
                progress(batch.kind, made[batch.kind])
        if _count(store) > before:
            continue
        if lost < LOST_ROUNDS and any(isinstance(error, LOST) for error in failures):
            lost += 1
            continue
        _stop(store, batches, failures)
    clear_all(store.root / "partial")
    return write_results(study, store, members)


def _stop(store: Store, batches: Sequence[Batch], failures: Sequence[BaseException]) -> NoReturn:
    """Raise the cause of a round without progress: bad input and full disks unchanged, on workers as here."""
    for error in failures:
        if is_full(error) or isinstance(error, ValueError):
            raise error
    cause = failures[-1] if failures else None
    words = f"{cause}" or type(cause).__name__
    raise RuntimeError(f"{store.root}: {len(batches)} batches made no progress; the last failure: {words}") from cause


def missing(store: Store, study: Study, members: Sequence[Member]) -> Iterator[Batch]:
    """Batches of missing cells whose parents exist, complete and as first divided.

    A batch that was published in part is computed whole: its programs, and so the last bits of its numbers, then do not
    depend on when a run was interrupted.
    """
    done = {kind: store.ids(kind) for kind in ("train", "encode", "score")}
    of_training = [[] for _ in study.trainings]
    for member in members:
        of_training[member.training].append(member)
    for rows in of_training:
        for batch in _cut(rows, TRAIN_BATCH):
            if any(member.train not in done["train"] for member in batch):
                yield Batch("train", batch)
        for batch in _cut(rows, SCORE_BATCH):
            if not done["train"].issuperset(member.train for member in batch):
                continue
            if not done["encode"].issuperset(member.encode for member in batch):
                yield Batch("encode", batch)
            elif not all(done["score"].issuperset(member.scores) for member in batch):
                yield Batch("score", batch)


def status(study: Study, out: str | Path, *, extend: bool = False) -> Status:
    """How much of a study its directory holds; nothing if there is no directory yet.

    Raises:
      StoreError: if the directory holds another study, unless ``extend`` allows it to grow into this one.
    """
    store, members = Store(out), list(cells(study))
    if not extend and (store.root / "study.json").exists():
        store.check(study.describe())
    wanted = {
        "train": {member.train for member in members},
        "encode": {member.encode for member in members},
        "score": {score for member in members for score in member.scores},
    }
    done = {kind: len(names & store.ids(kind)) for kind, names in wanted.items()}
    return Status(done, {kind: len(names) for kind, names in wanted.items()})


def write_results(study: Study, store: Store, members: Sequence[Member]) -> Path:
    """The table of all members, derived from the records: it can be deleted without loss."""
    rows = [row_of(study, store, member) for member in members]
    names = _columns(rows, members)
    text = io.StringIO()
    writer = csv.DictWriter(text, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    path = store.root / "results.csv"
    publish(path, text.getvalue().encode(), replace=True)
    _write_parquet(names, rows, path.with_suffix(".parquet"))
    return path


def _write_parquet(names: Sequence[str], rows: Sequence[dict], path: Path) -> None:
    """The same table for pandas, polars and DuckDB, if pyarrow is installed."""
    if importlib.util.find_spec("pyarrow") is None:
        return
    import pyarrow
    import pyarrow.parquet

    content = io.BytesIO()
    table = pyarrow.table({name: [row.get(name) for row in rows] for name in names})
    pyarrow.parquet.write_table(table, content)
    publish(path, content.getvalue(), replace=True)


def _columns(rows: Sequence[dict], members: Sequence[Member]) -> list[str]:
    """Column names in order: id, data, model, its settings, seed and the rest of the label, losses, scores."""
    settings = dict.fromkeys(name for member in members for name in member.label)
    after = [name for name in ("seed", "held_out") if name in settings]
    label = [name for name in settings if name not in after] + after
    return list(dict.fromkeys(["id", "data", *label, *(name for row in rows for name in row)]))


def row_of(study: Study, store: Store, member: Member) -> dict:
    """A member's label, the numbers of samples it was scored on, losses and scores, as columns."""
    row = {"id": member.train, "data": study.trainings[member.training].config.data, **member.label}
    row |= {f"{role}_samples": getattr(study.sampling, role) for role in ROLES}
    row |= {name: number(value) for name, value in store.result("train", member.train).items()}
    for score in member.scores:
        row |= {name: number(value) for name, value in store.result("score", score)["columns"].items()}
    return row


def _training(progress: Progress | None, made: dict[str, int]) -> Callable[[float], None] | None:
    """Report members that are part-way through their training."""
    if progress is None:
        return None
    return lambda members: progress("train", made["train"] + members)


def _make(study, root, batches, executor, on_updates) -> Iterator[tuple[Batch, BaseException | None]]:
    """Run batches here or on an executor; yield each with its failure, if any."""
    if executor is None:
        for batch in batches:
            run_batch(root, study, batch, on_updates)
            yield batch, None
        return
    futures = {executor.submit(run_batch, str(Path(root).resolve()), study, batch): batch for batch in batches}
    for future in concurrent.futures.as_completed(futures):
        try:
            error = future.exception()
        except concurrent.futures.CancelledError as cancelled:
            error = cancelled
        yield futures[future], error


def _cut(rows: Sequence[Member], size: int) -> list[tuple[Member, ...]]:
    return [tuple(rows[start : start + size]) for start in range(0, len(rows), size)]


def _count(store: Store) -> int:
    return sum(len(store.ids(kind)) for kind in ("train", "encode", "score"))
