"""Running a study: list the missing cells, make them in batches, publish each under its own id, list again."""

import concurrent.futures
import contextlib
import csv
import io
import logging
import os
import shutil
import socket
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from jaxdis import models
from jaxdis.evaluate import evaluate
from jaxdis.models.zoo import concatenate
from jaxdis.study.grid import (
    Member,
    Sampling,
    Study,
    Training,
    cells,
    encode_spec,
    random_number,
    score_spec,
    train_spec,
)
from jaxdis.study.store import Store, cell_id, number, publish
from jaxdis.typing import Factors

TRAIN_BATCH = 16
SCORE_BATCH = 64
# Images rendered at one time; 64 × 64 × 3 floats of these are 25 MB.
RENDER_BATCH = 512

log = logging.getLogger(__name__)

OnUpdates = Callable[[float], None]
Progress = Callable[[str, float], None]


class Batch(NamedTuple):
    """Cells that one compiled program makes: a kind, and positions among the study's members."""

    kind: str
    members: tuple[int, ...]


class Status(NamedTuple):
    """Cells done and in all, by kind."""

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
    """Make every cell of a study that is not there yet; returns the path of the table ``results.csv``.

    Args:
      out: the study's directory. Run again after any failure: what is published is never made again.
      executor: any ``concurrent.futures.Executor`` (Dask's ``client.get_executor()`` too); None runs here.
      extend: let a directory of this study's smaller self grow.
      progress: called with a kind and the cells of that kind made so far by this call; members that train count in
        part.

    Raises:
      StoreError: when the directory belongs to another study.
      RuntimeError: when a round of batches makes no progress.
    """
    store = Store(out)
    store.open(study.describe(), extend=extend)
    members = list(cells(study))
    failure: BaseException | None = None
    made = dict.fromkeys(("train", "encode", "score"), 0)
    while batches := list(missing(store, study, members)):
        before = _count(store)
        for batch, error in _make(study, store.root, batches, executor, _training(progress, made)):
            if error is not None:
                log.warning("batch of %d %s cells failed: %s", len(batch.members), batch.kind, error)
                failure = error
                continue
            made[batch.kind] += len(batch.members) * (len(study.metrics) if batch.kind == "score" else 1)
            if progress is not None:
                progress(batch.kind, made[batch.kind])
        if _count(store) == before:
            raise RuntimeError(f"{store.root}: a round of {len(batches)} batches made no progress") from failure
    return write_results(study, store, members)


def missing(store: Store, study: Study, members: Sequence[Member]) -> Iterator[Batch]:
    """Batches of cells whose parents are there and which are not. Train batches are whole, as first cut."""
    done = {kind: store.ids(kind) for kind in ("train", "encode", "score")}
    for position in range(len(study.trainings)):
        rows = [i for i, member in enumerate(members) if member.training == position]
        for batch in _cut(rows, TRAIN_BATCH):
            if any(members[i].train not in done["train"] for i in batch):
                yield Batch("train", batch)
        ready = [i for i in rows if members[i].train in done["train"] and members[i].encode not in done["encode"]]
        yield from (Batch("encode", batch) for batch in _cut(ready, SCORE_BATCH))
        ready = [
            i for i in rows if members[i].encode in done["encode"] and not done["score"].issuperset(members[i].scores)
        ]
        yield from (Batch("score", batch) for batch in _cut(ready, SCORE_BATCH))


def status(study: Study, out: str | Path) -> Status:
    store, members = Store(out), list(cells(study))
    wanted = {
        "train": {member.train for member in members},
        "encode": {member.encode for member in members},
        "score": {score for member in members for score in member.scores},
    }
    done = {kind: len(names & store.ids(kind)) for kind, names in wanted.items()}
    return Status(done, {kind: len(names) for kind, names in wanted.items()})


def run_batch(root: str | Path, study: Study, batch: Batch, on_updates: OnUpdates | None = None) -> None:
    """Make and publish the cells of one batch. What an executor runs; small values in, nothing out."""
    store, members = Store(root), list(cells(study))
    chosen = [members[i] for i in batch.members]
    if batch.kind == "train":
        counted = on_updates and (lambda done, total: on_updates(len(chosen) * done / total))
        _train(store, study, chosen, counted)
    else:
        {"encode": _encode, "score": _score}[batch.kind](store, study, chosen)


def write_results(study: Study, store: Store, members: Sequence[Member]) -> Path:
    """The table of all members, derived from the records: delete it and nothing is lost."""
    rows = [row_of(study, store, member) for member in members]
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    path = store.root / "results.csv"
    publish(path, text.getvalue().encode(), replace=True)
    return path


def row_of(study: Study, store: Store, member: Member) -> dict:
    """A member's label, losses and scores, as columns."""
    row = {"id": member.train, "data": study.trainings[member.training].config.data, **member.label}
    row |= {name: number(value) for name, value in store.result("train", member.train).items()}
    for score in member.scores:
        row |= {name: number(value) for name, value in store.result("score", score)["columns"].items()}
    return row


def samples_of(data: str, sampling: Sampling):
    """The factors and images on which a data set's zoos are scored: ``(Factors, render, factors [n, k])``."""
    from jaxdis import data as sets

    space, render = getattr(sets, data)()
    rows = space.sample(jax.random.key(sampling.seed), sampling.num_samples)
    return Factors.of(rows, space.sizes, space.names), render, rows


def member_zoo(store: Store, study: Study, member: Member) -> models.Zoo:
    """A trained member as a zoo of one."""
    return models.load(store.path("train", member.train, ".npz"))


def _train(store: Store, study: Study, chosen: Sequence[Member], on_updates: Callable | None) -> None:
    """Train a whole batch from its last checkpoint and publish the members that are not there."""
    training = study.trainings[chosen[0].training]
    name = cell_id({"members": [member.train for member in chosen]})
    with _claimed(store.root / "partial" / name) as partial:
        _train_in(partial, store, training, chosen, on_updates)


def _train_in(partial: Path, store: Store, training: Training, chosen, on_updates) -> None:
    keys, hyperparameters, labels = training.members()
    rows = np.array([member.row for member in chosen])
    zoo = models.train(
        training.config,
        keys[rows],
        jax.tree.map(lambda column: column[rows], hyperparameters),
        data=_pool(training),
        labels=[labels[row] for row in rows],
        directory=partial,
        progress=on_updates or False,
    )
    for position, member in enumerate(chosen):
        alone = zoo[position]
        spec = train_spec(training, hyperparameters, member.label, member.row)
        final = {f"final_{name}": float(np.asarray(curve)[0, -1]) for name, curve in alone.losses._asdict().items()}
        alone.save(partial / "member.npz")
        with np.load(partial / "member.npz", allow_pickle=False) as archive:
            store.publish("train", spec, {**final, "stopped": int(alone.stopped[0])}, dict(archive))
    shutil.rmtree(partial)


@contextlib.contextmanager
def _claimed(partial: Path) -> Iterator[Path]:
    """The folder of a batch's checkpoints, or one of this process's own while another driver works in it.

    A lease names its holder; that of a process which is gone is taken over, checkpoints and all.
    """
    partial.parent.mkdir(parents=True, exist_ok=True)
    lease = partial.with_suffix(".lease")
    for _ in range(2):
        try:
            with open(lease, "x", encoding="utf-8") as file:
                file.write(f"{socket.gethostname()} {os.getpid()}")
        except FileExistsError:
            if not _abandoned(lease):
                break
            lease.unlink(missing_ok=True)
            continue
        try:
            yield partial
        finally:
            lease.unlink(missing_ok=True)
        return
    yield partial.with_name(f"{partial.name}.{os.getpid()}")


def _abandoned(lease: Path) -> bool:
    """Whether the holder was a process of this host that no longer runs."""
    try:
        host, pid = lease.read_text(encoding="utf-8").split()
        if host == socket.gethostname():
            os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except (OSError, ValueError):  # gone meanwhile, or not yet written
        return False
    return False


def _encode(store: Store, study: Study, chosen: Sequence[Member]) -> None:
    """Posterior means and variances of the study's samples, rendered batch by batch for all members at once."""
    training = study.trainings[chosen[0].training]
    factors, render, rows = samples_of(training.config.data, study.sampling)
    zoo = concatenate([member_zoo(store, study, member) for member in chosen])
    posterior = zoo.encode(rows, render=render)
    small = np.asarray(factors.values).astype(np.min_scalar_type(max(factors.sizes)))
    for position, member in enumerate(chosen):
        arrays = {"mean": posterior.mean[position], "variance": posterior.variance[position], "factors": small}
        store.publish("encode", encode_spec(study, member.train), {"samples": len(small)}, arrays)


def _score(store: Store, study: Study, chosen: Sequence[Member]) -> None:
    """All metrics of all members in one program; every (member, metric) is a cell of its own."""
    training = study.trainings[chosen[0].training]
    factors, _, _ = samples_of(training.config.data, study.sampling)
    encoded = [store.arrays("encode", member.encode) for member in chosen]
    scores = evaluate(
        np.stack([arrays["mean"] for arrays in encoded]),
        factors,
        dict(study.metrics),
        variances=np.stack([arrays["variance"] for arrays in encoded]),
        numbers=[random_number(member) for member in chosen],
    )
    for position, member in enumerate(chosen):
        for name, metric in study.metrics:
            mine = [column for column in scores if column == name or column.startswith(f"{name}.")]
            columns = {column: float(scores[column][position]) for column in mine}
            parts = {part: scores.part(part)[position] for part in scores.parts if part.startswith(f"{name}.")}
            spec = score_spec(study, member.encode, metric)
            store.publish("score", spec, {"columns": columns, "parts": parts})


def _training(progress: Progress | None, made: dict[str, int]) -> OnUpdates | None:
    """Tell of members that are part-way through their training."""
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
    futures = {executor.submit(run_batch, str(root), study, batch): batch for batch in batches}
    for future in concurrent.futures.as_completed(futures):
        yield futures[future], future.exception()


def _pool(training: Training) -> np.ndarray | None:
    """The images that a training draws from, rendered once; None to draw from the data set itself."""
    if training.pool is None:
        return None
    from jaxdis import data as sets

    space, render = getattr(sets, training.config.data)(dtype="uint8")
    factor_key, noise_key = jax.random.split(jax.random.key(training.pool))
    rows = space.sample(factor_key, training.pool)
    draw = jax.jit(lambda rows, key: render(rows, key))
    parts = [
        np.asarray(draw(rows[start : start + RENDER_BATCH], jax.random.fold_in(noise_key, start)))
        for start in range(0, training.pool, RENDER_BATCH)
    ]
    return np.concatenate(parts)


def _cut(rows: Sequence[int], size: int) -> list[tuple[int, ...]]:
    return [tuple(rows[start : start + size]) for start in range(0, len(rows), size)]


def _count(store: Store) -> int:
    return sum(len(store.ids(kind)) for kind in ("train", "encode", "score"))
