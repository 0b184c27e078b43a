"""Running a study: list the missing cells, compute them in batches, publish each under its own id, repeat."""

import concurrent.futures
import logging
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Protocol, runtime_checkable

from jaxdis._core import runtime
from jaxdis._core.files import full, is_full
from jaxdis._core.options import shown
from jaxdis._core.precision import single_precision
from jaxdis._core.store import KINDS, Store, clear_all

Updates = Callable[[float], None]


class Batch(NamedTuple):
    """So many cells of a kind that are computed together, and what the work needs for that: small values, since they
    are sent to workers."""

    kind: str
    members: tuple
    cells: int


class Totals(NamedTuple):
    """What all cells of one kind cost: floating-point operations, seconds, bytes, and one member's memory."""

    flops: float
    seconds: float
    disk_bytes: float
    memory_bytes: float = 0.0


class Digest(NamedTuple):
    """A short table for a terminal: title, heads, text rows, and a remark below."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    remark: str


@runtime_checkable
class Work(Protocol):
    """A study as the driver sees it. Each kind of study has a row in :data:`WORKS`."""

    study: Any

    def describe(self) -> dict:
        """The identity of the study's directory."""
        return self.study.describe()

    def wanted(self) -> dict[str, set[str]]:
        """Ids of all cells, by kind."""

    def missing(self, store: Store) -> Iterator[Batch]:
        """Batches of missing cells whose parents exist."""

    def compute(self, store: Store, batch: Batch, on_updates: Updates | None = None) -> None:
        """Compute and publish the cells of a batch.

        ``on_updates`` is called with the training done so far, in members: 1.5 is one and a half members' updates.
        """

    def finish(self, store: Store) -> Path:
        """Write the tables that are derived from all cells; returns the path of the first."""

    def report(self, store: Store) -> Path:
        """Write the report from the tables; returns its path. The tables themselves, if there is no other."""
        return self.finish(store)

    def digest(self, store: Store) -> Digest | None:
        """A short table to print once all cells are there; None if there is none."""

    def costs(self) -> dict[str, Totals]:
        """Estimated costs of all cells, by kind."""


# The work of each class of studies. The module that defines a work adds its row.
WORKS: MutableMapping[type, Callable[..., Work]] = {}


def work_of(study) -> Work:
    """Wrap a study as the driver sees it; a work is returned as it is, so that the ids of its cells are made once.

    A class without a row has the work of the class that it derives from.
    """
    if isinstance(study, Work):
        return study
    for kind in type(study).__mro__:
        if kind in WORKS:
            return WORKS[kind](study)
    kinds = ", ".join(kind.__name__ for kind in WORKS)
    raise TypeError(f"study: must be one of {kinds}, got {type(study).__name__}")


# Rounds that an engine may lose whole (its scheduler restarted, a worker was killed) before that is no progress.
LOST_ROUNDS = 3
LOST = (concurrent.futures.CancelledError, concurrent.futures.BrokenExecutor)

log = logging.getLogger(__name__)

Progress = Callable[[str, float], None]


class Status(NamedTuple):
    """How many cells are finished and how many there are, by kind."""

    done: dict[str, int]
    total: dict[str, int]

    @property
    def complete(self) -> bool:
        return self.done == self.total


@single_precision
def run(
    study,
    out: str | Path,
    *,
    executor: concurrent.futures.Executor | None = None,
    extend: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Compute every missing cell in a study; return the path to its table, such as ``results.csv``.

    Args:
      study: a :class:`~jaxdis.study.Study` or a :class:`~jaxdis.study.Calibration`, or its work
        (:func:`~jaxdis.study.work_of`), whose ids are then not made again.
      out: the study's directory. Run again after any failure: published cells are never recomputed, except together
        with missing ones in their batch. An executor's workers must see it under the same path.
      executor: any ``concurrent.futures.Executor``, such as a process pool or a Dask client's; None runs here.
      extend: allow the directory to grow if it holds a smaller version of this study, with fewer members or metrics.
      progress: called with a kind and how many of its cells this call has computed; members in training count in part.

    Raises:
      StoreError: if the directory belongs to another study.
      OSError: if the directory cannot be written, for example because the disk is full.
      ValueError: if the samples or the metrics do not suit each other, or the executor is none.
      RuntimeError: if a round makes no progress, with the last failure as its cause.
    """
    if executor is not None and not callable(getattr(executor, "submit", None)):
        words = f"{shown(executor)}; of a Dask client, give client.get_executor()"
        raise ValueError(f"executor: must be a concurrent.futures.Executor or None, got {words}")
    try:
        return _run(work_of(study), Store(out), executor, extend, progress)
    except OSError as error:
        if not is_full(error):
            raise
        raise full(error, out, "what is finished is kept: make room and run again") from error


def _run(work: Work, store: Store, executor, extend: bool, progress: Progress | None) -> Path:
    if extend and store.described:
        store.check_smaller(work.describe(), work.wanted().get("train", ()))
    store.open(work.describe(), extend=extend)
    lost, made = 0, dict.fromkeys(KINDS, 0)

    def published() -> int:
        return sum(len(store.ids(kind)) for kind in KINDS)

    def training(members: float) -> None:
        """Report members that are part-way through their training."""
        progress("train", made["train"] + members)

    while batches := list(work.missing(store)):
        before, failures = published(), []
        for batch, error in _make(work, store.root, batches, executor, training if progress else None):
            if error is not None:
                log.info("batch of %d %s cells failed: %r", batch.cells, batch.kind, error)
                failures.append(error)
                continue
            made[batch.kind] += batch.cells
            if progress is not None:
                progress(batch.kind, made[batch.kind])
        if published() > before:
            continue
        if lost < LOST_ROUNDS and any(isinstance(error, LOST) for error in failures):
            lost += 1
            continue
        _stop(store, batches, failures)
    clear_all(store.root / "partial")
    return work.finish(store)


def _stop(store: Store, batches: Sequence[Batch], failures: Sequence[BaseException]) -> NoReturn:
    """Raise the cause of a round without progress: bad input and full disks unchanged, on workers as here."""
    for error in failures:
        if is_full(error) or isinstance(error, ValueError):
            raise error
    cause = failures[-1] if failures else None
    words = f"{cause}" or type(cause).__name__
    raise RuntimeError(f"{store.root}: {len(batches)} batches made no progress; the last failure: {words}") from cause


@single_precision
def status(study, out: str | Path, *, extend: bool = False) -> Status:
    """Count which cells of a study, or of its work, its directory holds; none if there is no directory yet.

    Raises:
      StoreError: if the directory holds another study; with ``extend``, other than a smaller version of this one.
    """
    store, work = Store(out), work_of(study)
    wanted = work.wanted()
    if store.described and extend:
        store.check_smaller(work.describe(), wanted.get("train", ()))
    elif store.described:
        store.check(work.describe())
    done = {kind: len(names & store.ids(kind)) for kind, names in wanted.items()}
    return Status(done, {kind: len(names) for kind, names in wanted.items()})


@single_precision
def run_batch(root: str | Path, study, batch: Batch, on_updates: Updates | None = None) -> None:
    """Compute and publish one batch's cells. Executors run this; it takes small values and returns nothing."""
    work_of(study).compute(Store(root), batch, on_updates)
    runtime.forget_programs_if_many()


def _make(work: Work, root, batches, executor, on_updates) -> Iterator[tuple[Batch, BaseException | None]]:
    """Run batches here or on an executor; yield each with its failure, if any."""
    if executor is None:
        for batch in batches:
            run_batch(root, work, batch, on_updates)
            yield batch, None
        return
    futures = {executor.submit(run_batch, str(Path(root).resolve()), work.study, batch): batch for batch in batches}
    for future in concurrent.futures.as_completed(futures):
        try:
            error = future.exception()
        except concurrent.futures.CancelledError as cancelled:
            error = cancelled
        yield futures[future], error
