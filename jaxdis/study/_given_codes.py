"""A study whose codes are given: files are scored into a folder, here or by an executor's workers.

Files are read where they are scored, some at a time, by quick metrics before slow ones. Numbers are kept by content, so
that a run which was stopped goes on, and a later one computes what is new; the tables are derived from them.
"""

import concurrent.futures
import dataclasses
import importlib.util
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxdis._core.files import csv_text, full, is_full, is_zoo, read_json, write_json, write_whole
from jaxdis._core.store import FILES
from jaxdis.evaluation import evaluate
from jaxdis.evaluation._arrays_file import Arrays, grouped, load_arrays, read_files, together
from jaxdis.evaluation._costs import Size, said_before, seconds_at
from jaxdis.evaluation._kept import content
from jaxdis.evaluation._run import turns_of
from jaxdis.evaluation._score_core import NAME, added, wide
from jaxdis.metrics._metric import Column, sources_of
from jaxdis.metrics._plan import Plan, left_out_of
from jaxdis.study._run_study import LOST_ROUNDS

# Files that a worker scores before it says so, and about how many seconds that takes.
MOST_FILES, SECONDS = 256, 60.0
# With an executor, there are at least so many tasks for all of its workers, if these have FEWEST_FILES.
TASKS, FEWEST_FILES = 64, 8
TABLE = "results.csv"


@dataclasses.dataclass(frozen=True)
class Given:
    """How files are read and scored; small values, since workers are sent them.

    Attributes:
      store: the folder that keeps numbers.
      plan: the metrics.
      standard: whether metrics that do not suit the factors are left out.
      reading: arguments of ``load_arrays`` besides the path.
      test: a file of held-out codes and factors.
      seed: for everything random.
      how: further arguments of :func:`jaxdis.evaluate`.
      preset: the library whose numbers the metrics reproduce, or None.
    """

    store: Path
    plan: Plan
    standard: bool
    reading: Mapping[str, Any]
    test: Path | None
    seed: int
    how: Mapping[str, Any]
    preset: str | None = None


class Piece(NamedTuple):
    """What a worker returns for files that were scored together.

    Attributes:
      members: each member's name, with the places of its file and of itself in it.
      codes: what each file holds, hashed.
      columns: numbers by name, each with an entry for every member.
      notes: pairs of a metric and a note.
      refused: what is wrong with files that cannot be scored.
    """

    members: list[tuple[str, int, int]]
    codes: dict[str, str]
    columns: dict[str, np.ndarray]
    notes: Sequence[tuple[str, str]]
    refused: dict[str, str]


class Task(NamedTuple):
    """Some files, by the place of the first one, for some metrics, and how many seconds one core usually takes."""

    names: tuple[str, ...]
    first: int
    files: dict[str, Path]
    seconds: float

    @property
    def count(self) -> int:
        return len(self.names) * len(self.files)


class Table:
    """All members' numbers that have been scored."""

    def __init__(self, plan: Plan):
        self.metrics = [name for name, _ in plan]
        self.members: dict[str, tuple[int, int]] = {}
        self.codes: dict[str, str] = {}
        self.refused: dict[str, str] = {}
        self._notes: dict[str, list[tuple[list, int]]] = {}
        self._pieces: dict[str, list[tuple[list[str], np.ndarray]]] = {}

    def add(self, piece: Piece) -> None:
        for file, codes in piece.codes.items():
            if self.codes.setdefault(file, codes) != codes:
                raise ValueError(f"{file}: must stay as it is while it is scored, got other codes; run it again")
        self.members |= {name: places for name, *places in piece.members}
        self.refused |= piece.refused
        names = [name for name, *_ in piece.members]
        for column, values in piece.columns.items():
            self._pieces.setdefault(column, []).append((names, values))
        metrics = [*(metric for metric, _ in piece.notes), *map(self._metric_of, piece.columns)]
        for metric in dict.fromkeys(metrics):
            own = [note for note in piece.notes if note[0] == metric]
            self._notes.setdefault(metric, []).append((own, len(names)))

    def _metric_of(self, column: str) -> str:
        return Column.read(column, self.metrics).metric

    def columns(self) -> dict[str, Any]:
        """The members' names in the files' order, and all columns in the metrics' order; NaN where there is none."""
        rows = {name: row for row, name in enumerate(sorted(self.members, key=self.members.get))}
        columns: dict[str, Any] = {NAME: list(rows)}
        for name in sorted(self._pieces, key=lambda name: ("[" in name, self.metrics.index(self._metric_of(name)))):
            columns[name] = np.full(len(rows), np.nan, np.float32)
            for names, values in self._pieces[name]:
                columns[name][[rows[member] for member in names]] = values
        return columns

    def write(self, folder: Path) -> None:
        """Write ``results.csv`` and, if pyarrow is installed, ``results.parquet``."""
        columns = self.columns()
        texts = [[text(value) for value in column] for column in columns.values()]
        csv_text(list(columns), zip(*texts, strict=True), folder / TABLE)
        write_parquet(columns, folder / TABLE)

    def notes(self) -> tuple[tuple[str, str], ...]:
        """Pairs: a metric, and a note on all members together."""
        return tuple(note for notes in self._notes.values() for note in added(notes))


def write_parquet(columns: Mapping[str, Sequence], table: Path) -> None:
    """Write columns beside a table as text, if pyarrow is installed: for pandas, polars and DuckDB."""
    if importlib.util.find_spec("pyarrow") is not None:
        import pyarrow
        from pyarrow import parquet

        whole = pyarrow.table(columns)
        write_whole(table.with_suffix(".parquet"), lambda file: parquet.write_table(whole, file))


def text(value) -> str:
    """A number with all digits that float32 has, nothing for NaN, and text as it is."""
    return value if isinstance(value, str) else "" if value != value else str(value)


def score_given(
    given: Given,
    files: Mapping[str, Path],
    executor: concurrent.futures.Executor | None = None,
    told: Callable[[Table, int, int, float], None] | None = None,
) -> Table:
    """Score files; what was kept is taken, and the rest is computed and kept.

    Args:
      told: called after every piece with the table, how many files × metrics are finished, how many there are, and how
        many seconds the rest takes, by what was measured and the usual seconds of each metric.

    Raises:
      OSError: if the folder cannot be written.
      RuntimeError: if an executor's workers make no progress.
      ValueError: for a file that changes in between, or if no file can be read.
    """
    table, tasks = Table(given.plan), tasks_of(given, files, executor is not None)
    total, left = sum(task.count for task in tasks), sum(task.seconds for task in tasks)
    done, usual, took, last = 0, 0.0, 0.0, time.monotonic()
    try:
        for task, pieces in _computed(given, tasks, executor):
            for piece in pieces:
                table.add(piece)
            done, left, now = done + task.count, left - task.seconds, time.monotonic()
            if task.first:  # the first files of a turn wait for programs to be compiled
                usual, took = usual + task.seconds, took + now - last
            last = now
            if told is not None:
                told(table, done, total, left * (took / usual if usual else 1.0))
    except OSError as error:
        if not is_full(error):
            raise
        raise full(error, given.store, "what is finished is kept: make room and run again") from error
    return table


def tasks_of(given: Given, files: Mapping[str, Path], shared: bool) -> list[Task]:
    """The tasks, quick metrics first; ``shared``: by workers."""
    names, found = list(files), []
    try:
        first = next(arrays for _, arrays in _read(given, dict(files), {}))
    except StopIteration:  # all are refused, which the tasks will say
        size, members = None, 1
    else:
        size, members = Size.of(*first.codes.shape[-2:], first.factors.sizes), len(first.codes[..., 0, 0].ravel())
    again = 1 + given.how.get("bootstrap", 0)
    for turn in turns_of(given.plan):
        each = members * again * sum(seconds_at(spec, size) for spec in sources_of(m for _, m in turn)) if size else 0.0
        each = max(each, SECONDS / MOST_FILES / 100)
        count = max(1, min(MOST_FILES, int(SECONDS / each)))
        if shared:
            count = min(count, max(FEWEST_FILES, -(-len(names) // TASKS)))
        for start in range(0, len(names), count):
            some = {name: files[name] for name in names[start : start + count]}
            found.append(Task(tuple(name for name, _ in turn), start, some, each * len(some)))
    return found


def _computed(given: Given, tasks: list[Task], executor) -> Iterator[tuple[Task, list[Piece]]]:
    """Each task with its pieces, as they come; what a lost worker had is given to another."""
    if executor is None:
        for task in tasks:
            yield task, score_files(given, task)
        return
    lost = 0
    while tasks:
        futures = {executor.submit(score_files, given, task): task for task in tasks}
        failed, cause = [], None
        for future in concurrent.futures.as_completed(futures):
            try:
                pieces = future.result()
            except (Exception, concurrent.futures.CancelledError) as error:
                if isinstance(error, ValueError) or is_full(error):
                    raise
                failed.append(futures[future])
                cause = error
            else:
                yield futures[future], pieces
        lost = 0 if len(failed) < len(tasks) else lost + 1
        if lost > LOST_ROUNDS:
            words = f"{len(failed)} tasks made no progress; the last failure: {cause or type(cause).__name__}"
            raise RuntimeError(f"{given.store}: {words}") from cause
        tasks = failed


def score_files(given: Given, task: Task) -> list[Piece]:
    """Read files and score them, those that are alike together; executors run this."""
    refused: dict[str, str] = {}
    pieces, places = [], {name: task.first + place for place, name in enumerate(task.files)}
    for group in grouped(_read(given, task.files, refused)):
        try:
            pieces.append(_scored(given, task.names, group, places))
        except ValueError as error:
            refused |= dict.fromkeys(group, str(error))
    return [*pieces, Piece([], {}, {}, (), refused)] if refused else pieces


def _read(given: Given, files: Mapping[str, Path], refused: dict[str, str]) -> Iterator[tuple[str, Arrays]]:

    def load(path: Path) -> Arrays:
        if path.is_dir() and is_zoo(path):
            raise ValueError("must be a file of codes, got a zoo; score it without --out, or encode images by it")
        arrays = load_arrays(path, **given.reading)
        if arrays.codes.ndim == 4 or arrays.slots:
            raise ValueError("must hold codes without slots, got slots; score it without --out")
        return arrays

    return read_files(files, load, refused)


def _scored(given: Given, names: Sequence[str], group: Mapping[str, Arrays], places: Mapping[str, int]) -> Piece:
    """Score alike files together; each is the member 0 that it would be alone."""
    first, codes = next(iter(group.values())), {name: content(arrays.codes) for name, arrays in group.items()}
    arrays, variances, test = together(group, given.test)
    plan = {name: metric for name, metric in given.plan if name in names}
    left = left_out_of(tuple(plan.items()), first.factors.sizes, first.factors.periods) if given.standard else {}
    plan = {name: metric for name, metric in plan.items() if name not in left}
    if len(group) == 1 and arrays.ndim == 3:
        ((file, place),) = ((name, places[name]) for name in group)
        members, numbers = [(f"{file}[{row}]", place, row) for row in range(len(arrays))], None
    else:
        members, numbers = [(name, places[name], 0) for name in group], [0] * len(group)
    if not plan:
        return Piece(members, codes, {}, tuple(left.items()), {})
    how = {"test": test, "variances": variances, "groups": first.groups, "numbers": numbers, **given.how}
    how |= {"members": [name for name, *_ in members], "store": given.store}
    with said_before():
        scores = evaluate(arrays, first.factors, plan, jax.random.key(given.seed), **how)
    columns = {str(name): np.asarray(column) for name, column in wide(scores, per_factor=True).items() if name != NAME}
    return Piece(members, codes, columns, (*scores.notes, *left.items()), {})


def changed_files(folder: Path, table: Table) -> list[str]:
    """The files that held other codes when the folder's table was last written."""
    path = folder / FILES
    before = read_json(path)["files"] if path.exists() else {}
    return [name for name, codes in table.codes.items() if before.get(name, [codes])[-1] != codes]


def write_files(given: Given, files: Mapping[str, Path], table: Table) -> None:
    """Write which files the table lists and how they were read, for commands that read the folder."""
    found = {name: [str(files[name].resolve()), codes] for name, codes in table.codes.items()}
    reading = dict(given.reading)
    test, reading["factors_path"] = (
        None if path is None else str(path.resolve()) for path in (given.test, reading["factors_path"])
    )
    metrics = ["standard"] if given.standard else table.metrics
    how = {"metrics": metrics, "reading": reading, "test": test, "seed": given.seed, "preset": given.preset}
    write_json(given.store / FILES, {"files": found, **how})
