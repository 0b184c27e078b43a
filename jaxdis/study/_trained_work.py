"""The work in a study with trained models: train → encode → score, and one table with all members.

What its cells cost before it runs is estimated: arithmetic, time and disk space.
"""

import functools
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdis._core.files import csv_text, read_csv_columns
from jaxdis._core.resources import live_bytes, operations
from jaxdis._core.store import KINDS, Store, number
from jaxdis.data import DATASETS
from jaxdis.encoders._evaluate_slots import SlotMetric
from jaxdis.evaluation._costs import Size, bytes_of, usual_seconds
from jaxdis.metrics import Metric
from jaxdis.metrics._metric import LIGHT_SECONDS
from jaxdis.models._config import Config
from jaxdis.models._zoo import code_shape, images_at_once
from jaxdis.models.networks._architectures import num_parameters
from jaxdis.models.training._image_source import as_source
from jaxdis.models.training._train import begin, resolved_config, update
from jaxdis.study import _compute_cells
from jaxdis.study._definition import ROLES, Member, Study, Training, cells
from jaxdis.study._given_codes import write_parquet
from jaxdis.study._run_study import WORKS, Batch, Digest, Totals, Updates, Work, status, work_of
from jaxdis.study.report._answer import digest
from jaxdis.study.report._subject import Subject

# Seconds of scores of studies that no row of METRICS knows, at the size of ``usual_seconds``.
SCORE_SECONDS: Mapping[str, float] = {"dci_histogram": 2.0, "novel_combination": 2.2}
# Of the rate of a large matrix product, what training reaches (benchmarks/bench_training.py).
TRAINING_EFFICIENCY = 0.5
RECORD_BYTES = 4096


class ModelCost(NamedTuple):
    """Floating-point operations to update once and to represent one image, parameters, numbers per image, and the most
    memory in bytes to update and to represent the images that are encoded at a time."""

    update_flops: int
    image_flops: int
    parameters: int
    width: int
    update_bytes: int
    images_bytes: int


def model_cost(training: Training) -> ModelCost:
    name, file = training.config.data, training.config.source
    shape = DATASETS[name].shape if file is None else DATASETS[name].open(name, file)[1].shape
    factors = np.zeros((2, len(DATASETS[name].space.sizes)), np.int32)
    source = as_source((np.zeros((2, *shape), np.uint8), factors))
    method = resolved_config(training.config, source).method
    _, columns, _ = training.members()
    hyperparameters = jax.tree.map(lambda column: jnp.float32(column[0]), columns)
    key = jax.random.key(0)
    state = jax.eval_shape(lambda key: begin(method, key), key)
    params = jax.eval_shape(method.params, state.learner)
    image = jax.ShapeDtypeStruct((1, *method.image_shape), np.float32)
    given = (functools.partial(update, method, source=source), state, key, hyperparameters)
    stacked = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((1, *leaf.shape), leaf.dtype), params)
    at_once = images_at_once(method.represent, stacked, method.image_shape)
    return ModelCost(
        operations(*given),
        operations(method.represent, params, image),
        num_parameters(params),
        int(np.prod(code_shape(method, stacked))),
        live_bytes(*given),
        at_once * live_bytes(method.represent, params, image),
    )


def score_seconds(metrics: Iterable[tuple[str, Metric | SlotMetric]], samples: int, num_codes: int) -> float:
    seconds = (
        SCORE_SECONDS.get(name) or (usual_seconds(metric) if isinstance(metric, Metric) else LIGHT_SECONDS)
        for name, metric in metrics
    )
    return samples / 10_000 * num_codes / 10 * sum(seconds)


def product_rate(size: int = 1024, seconds: float = 0.3) -> float:
    """Floating-point operations per second in a float32 matrix product on the default device, measured now."""
    square = jnp.ones((size, size), jnp.float32)
    product = jax.jit(lambda a: a @ a)
    product(square).block_until_ready()
    start, count = time.perf_counter(), 0
    while (elapsed := time.perf_counter() - start) < seconds:
        product(square).block_until_ready()
        count += 1
    return 2 * size**3 * count / elapsed


class Cost(NamedTuple):
    """What remains to be computed for one kind of cell."""

    cells: int
    missing: int
    flops: float
    seconds: float
    disk_bytes: float
    memory_bytes: float


def plan(study, out: str | Path | None = None, *, extend: bool = False) -> dict[str, Cost]:
    """What the cells missing in ``out`` cost, by kind (all cells when None).

    - ``flops``: for training, the products in one update (:func:`~jaxdis._core.resources.operations`, without
      rendering) times updates times members. Operations in scores are not counted, since their loops depend on the
      data; ``flops`` is then 0.
    - ``seconds``: if this machine does nothing else. Training runs at :data:`TRAINING_EFFICIENCY` of a matrix product's
      rate, measured now; scores take the times in a table. Expect a factor of two either way.
    - ``disk_bytes``: for records, without checkpoints.
    - ``memory_bytes``: for one member, with the largest model and metric, see
      :func:`~jaxdis._core.resources.live_bytes`. A CPU device holds one member at a time, an accelerator as many as
      fit.
    """
    work = work_of(study)
    total = {kind: len(names) for kind, names in work.wanted().items()}
    done = dict.fromkeys(total, 0) if out is None else status(work, out, extend=extend).done
    missing = {}
    for kind, totals in work.costs().items():
        share = 1 - done[kind] / total[kind]
        remaining = (share * value for value in totals[:3])
        missing[kind] = Cost(total[kind], total[kind] - done[kind], *remaining, totals.memory_bytes)
    return missing


TRAIN_BATCH = 16
SCORE_BATCH = 64


class TrainedWork(Work):
    """See :class:`jaxdis.study.Work`."""

    def __init__(self, study: Study):
        self.study = study

    @functools.cached_property
    def _members(self) -> list[Member]:
        return list(cells(self.study))

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
        study, members = self.study, self._members
        per_second = TRAINING_EFFICIENCY * product_rate()
        flops, disk, seconds, memory = (dict.fromkeys(KINDS, 0.0) for _ in range(4))
        cost_of_config: dict[Config, ModelCost] = {}
        for position, training in enumerate(study.trainings):
            share = sum(member.training == position for member in members)
            if training.config not in cost_of_config:
                cost_of_config[training.config] = model_cost(training)
            model, sampling = cost_of_config[training.config], study.sampling
            samples = sampling.train + sampling.validation + sampling.test * (1 + training.has_novel)
            flops["train"] += share / (1 + len(training.keep)) * training.config.steps * model.update_flops
            flops["encode"] += share * samples * model.image_flops
            disk["train"] += share * (4 * model.parameters + 16 * training.config.steps / 100 + RECORD_BYTES)
            sizes = DATASETS[training.config.data].space.sizes
            disk["encode"] += share * (samples * (8 * model.width + len(sizes)) + RECORD_BYTES)
            disk["score"] += share * len(study.metrics) * RECORD_BYTES
            seconds["score"] += share * score_seconds(study.metrics, sampling.train, model.width)
            size = Size.of(sampling.train, model.width, sizes, held_out=sampling.test)
            of_metrics = (bytes_of(metric.source, size) for _, metric in study.metrics if isinstance(metric, Metric))
            needed = {"train": model.update_bytes, "encode": model.images_bytes, "score": max(of_metrics, default=0.0)}
            memory = {kind: max(memory[kind], needed[kind]) for kind in KINDS}
        for kind in ("train", "encode"):
            seconds[kind] = flops[kind] / per_second
        return {kind: Totals(flops[kind], seconds[kind], disk[kind], memory[kind]) for kind in KINDS}


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
    csv_text(names, rows, path)
    write_parquet({name: [row.get(name) for row in rows] for name in names}, path)


def _cut(rows: Sequence[Member], size: int) -> list[tuple[Member, ...]]:
    return [tuple(rows[start : start + size]) for start in range(0, len(rows), size)]


WORKS[Study] = TrainedWork
