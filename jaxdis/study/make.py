"""Making cells: train, encode or score a batch of members in one program and publish each under its own id."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from jaxdis import models, runtime
from jaxdis.data import DATASETS
from jaxdis.evaluation.evaluate import evaluate
from jaxdis.models.images import Images
from jaxdis.models.zoo import concatenate
from jaxdis.study.definition import (
    Member,
    Sampling,
    Study,
    Training,
    encode_spec,
    metric_of,
    random_number,
    score_spec,
    train_spec,
)
from jaxdis.study.leases import claimed, clear, renew
from jaxdis.study.store import Store, cell_id
from jaxdis.typing import Factors

# Images rendered at one time; 64 × 64 × 3 floats of these are 25 MB.
RENDER_BATCH = 512
# Of the samples that are scored, how many are drawn of a held-out combination.
NOVEL_SHARE = 0.5


class Batch(NamedTuple):
    """Cells that one compiled program makes: a kind, and members of one training."""

    kind: str
    members: tuple[Member, ...]


def run_batch(root: str | Path, study: Study, batch: Batch, on_updates: Callable[[float], None] | None = None) -> None:
    """Make and publish the cells of one batch. What an executor runs; small values in, nothing out.

    ``on_updates`` is told how many members' worth of training is done.
    """
    store = Store(root)
    if batch.kind == "train":
        _train(store, study, batch.members, on_updates)
    else:
        {"encode": _encode, "score": _score}[batch.kind](store, study, batch.members)
    runtime.forget_programs_if_many()


def samples_of(training: Training, sampling: Sampling):
    """What a training's members are scored on: ``(Factors, render)``, drawn from what they were trained on."""
    space, render = _seen(training)
    return space.wrap(space.sample(jax.random.key(sampling.seed), sampling.num_samples)), render


def novel_samples_of(training: Training, sampling: Sampling) -> Factors:
    """Samples of the combination that a training held out."""
    space = DATASETS[training.config.data].space
    count = max(1, round(NOVEL_SHARE * sampling.num_samples))
    key = jax.random.fold_in(jax.random.key(sampling.seed), 1)
    return space.wrap(space.only(dict(training.held_out)).sample(key, count))


def member_zoo(store: Store, member: Member) -> models.Zoo:
    """A trained member as a zoo of one."""
    return models.load(store.path("train", member.train, ".npz"))


def _seen(training: Training, **options):
    """The data set that a training draws from: all but the combination it holds out."""
    space, render = DATASETS[training.config.data].make(**options)
    return (space.without(dict(training.held_out)) if training.held_out else space), render


def _train(store: Store, study: Study, chosen: Sequence[Member], on_updates) -> None:
    """Train a whole batch from its last checkpoint and publish the members that are not there."""
    training = study.trainings[chosen[0].training]
    name = cell_id({"members": [member.train for member in chosen]})
    with claimed(store.root / "partial" / name) as partial:

        def progress(done: int, total: int) -> None:
            renew(partial)
            if on_updates is not None:
                on_updates(len(chosen) * done / total)

        _train_in(partial, store, training, chosen, progress)


def _train_in(partial: Path, store: Store, training: Training, chosen, progress) -> None:
    keys, hyperparameters, labels = training.members()
    rows = np.array([member.row for member in chosen])
    zoo = models.train(
        training.config,
        keys[rows],
        jax.tree.map(lambda column: column[rows], hyperparameters),
        data=_training_data(training),
        labels=[labels[row] for row in rows],
        directory=partial,
        progress=progress,
    )
    for position, member in enumerate(chosen):
        alone = zoo[position]
        spec = train_spec(training, hyperparameters, member.label, member.row)
        final = {f"final_{name}": float(np.asarray(curve)[0, -1]) for name, curve in alone.losses._asdict().items()}
        store.publish("train", spec, {**final, "stopped": int(alone.stopped[0])}, alone.packed())
    clear(partial)


def _encode(store: Store, study: Study, chosen: Sequence[Member]) -> None:
    """Posterior means and variances of the study's samples, rendered batch by batch for all members at once."""
    training = study.trainings[chosen[0].training]
    factors, render = samples_of(training, study.sampling)
    zoo = concatenate([member_zoo(store, member) for member in chosen])
    key = jax.random.key(study.sampling.seed)
    seen = zoo.encode(factors.values, render=render, key=key)
    shared = {"factors": _small(factors)}
    columns = {"mean": seen.mean, "variance": seen.variance}
    if training.held_out:
        novel = novel_samples_of(training, study.sampling)
        shared["novel_factors"] = _small(novel)
        columns["novel_mean"] = zoo.encode(novel.values, render=render, key=jax.random.fold_in(key, 1)).mean
    for position, member in enumerate(chosen):
        arrays = {**{name: column[position] for name, column in columns.items()}, **shared}
        store.publish("encode", encode_spec(study, member.train), {"samples": factors.num_samples}, arrays)


def _score(store: Store, study: Study, chosen: Sequence[Member]) -> None:
    """All metrics of all members in one program; every (member, metric) is a cell of its own."""
    training = study.trainings[chosen[0].training]
    encoded = [store.arrays("encode", member.encode) for member in chosen]
    stacked = {name: np.stack([arrays[name] for arrays in encoded]) for name in encoded[0] if "factors" not in name}
    factors, _ = samples_of(training, study.sampling)
    novel = (stacked["novel_mean"], novel_samples_of(training, study.sampling)) if training.held_out else None
    for on_novel, test in ((False, None), (True, novel)):
        metrics = {name: metric for name, metric in study.metrics if (name in study.novel) == on_novel}
        if not metrics:
            continue
        scores = evaluate(
            stacked["mean"],
            factors,
            metrics,
            test=test,
            variances=stacked["variance"],
            numbers=[random_number(member) for member in chosen],
        )
        for position, member in enumerate(chosen):
            for name in metrics:
                store.publish("score", score_spec(study, member.encode, name), _result(study, scores, name, position))


def _result(study: Study, scores, name: str, position: int) -> dict:
    columns = {column: float(scores[column][position]) for column in scores if metric_of(study, column) == name}
    parts = {part: scores.part(part)[position] for part in scores.parts if metric_of(study, part) == name}
    return {"columns": columns, "parts": parts}


def _training_data(training: Training):
    """The images that a training draws from, rendered once; without a pool, what draws them anew."""
    if training.pool is None:
        return _seen(training) if training.held_out else None
    space, render = _seen(training, dtype="uint8")
    factor_key, image_key = jax.random.split(jax.random.key(training.pool))
    rows = space.sample(factor_key, training.pool)
    draw = jax.jit(lambda images, rows, key: images(rows, key))
    parts = [
        np.asarray(draw(Images.of(render), rows[start : start + RENDER_BATCH], jax.random.fold_in(image_key, start)))
        for start in range(0, training.pool, RENDER_BATCH)
    ]
    return np.concatenate(parts)


def _small(factors: Factors) -> np.ndarray:
    return np.asarray(factors.values).astype(np.min_scalar_type(max(factors.sizes)))
