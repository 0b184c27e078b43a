"""Compute cells: train, encode or score a batch of members together, and publish each under its own id."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from jaxdis import models
from jaxdis._core.store import Store, cell_id, clear, lock_of, locked
from jaxdis.data import DATASETS, FactorSpace
from jaxdis.data._factor_space import RandomCells
from jaxdis.encoders import _simulated as simulated
from jaxdis.encoders._evaluate_slots import DrawnScenes, MemberSlots, slots_of_zoo, slots_scored
from jaxdis.evaluation._evaluate import evaluate
from jaxdis.factors import Factors
from jaxdis.models._evidence import Evidence, evidence
from jaxdis.models._images import Images
from jaxdis.models._zoo import concatenate
from jaxdis.models.training._train import OtherRunError
from jaxdis.study._definition import Member, Sampling, Study, Training, encode_spec, score_spec, train_spec
from jaxdis.study._run_study import Batch, Updates

# Images rendered at one time; 64 × 64 × 3 floats of these are 25 MB.
RENDER_BATCH = 512
# Folded into the key of the samples: each role is drawn independently of the others.
_NOVEL, _TEST, _VALIDATION = 1, 2, 3


def compute(store: Store, study: Study, batch: Batch, on_updates: Updates | None = None) -> None:
    if batch.kind == "train":
        _train(store, study, batch.members, on_updates)
    else:
        {"encode": _encode, "score": _score}[batch.kind](store, study, batch.members)


class Samples(NamedTuple):
    """What trained members are scored on, drawn from what they were trained on: factors, and the renderer."""

    train: Factors
    test: Factors
    validation: Factors | None
    render: Callable


def samples_of(training: Training, sampling: Sampling) -> Samples:
    space, render = _seen(training)
    unseen = space
    if training.held_out_share:
        unseen = _restricted(_whole_space(training), training).inside(RandomCells(training.held_out_share))
    key = jax.random.key(sampling.seed)
    train = space.wrap(space.sample(key, sampling.train))
    test = space.wrap(unseen.sample(jax.random.fold_in(key, _TEST), sampling.test))
    chosen_on = space.sample(jax.random.fold_in(key, _VALIDATION), sampling.validation) if sampling.validation else None
    return Samples(train, test, None if chosen_on is None else space.wrap(chosen_on), render)


def scenes_of(training: Training, sampling: Sampling) -> DrawnScenes:
    """The scenes that trained slots are scored on."""
    scenes, (space, render) = DATASETS[training.config.data].scenes, _seen(training)
    rows = scenes.draw(space, jax.random.key(sampling.seed), sampling.train, sampling.groups)
    return DrawnScenes(scenes, space, render, np.asarray(rows))


def novel_samples_of(training: Training, sampling: Sampling) -> Factors:
    """Samples from the combination or the region that a training held out."""
    space = _whole_space(training)
    key = jax.random.fold_in(jax.random.key(sampling.seed), _NOVEL)
    inside = space.only(dict(training.held_out)) if training.held_out else space.inside(training.region)
    return space.wrap(inside.sample(key, sampling.test))


def member_zoo(study: Study, store: Store, member: Member) -> models.Zoo:
    method = study.trainings[member.training].config.method
    return models.load(store.path("train", member.train, ".npz"), method)


def _seen(training: Training, **options):
    """The data set that a training draws from: everything except the combinations that it holds out."""
    space, render = DATASETS[training.config.data].open(training.config.data, training.config.source, **options)
    space = _restricted(space, training)
    return (space.outside(RandomCells(training.held_out_share)) if training.held_out_share else space), render


def _whole_space(training: Training) -> FactorSpace:
    return DATASETS[training.config.data].space_of(training.config.data, training.config.source)


def _restricted(space: FactorSpace, training: Training) -> FactorSpace:
    """The space with a training's correlations, without the combination or the region that it holds out."""
    for first, second, spread in training.correlated:
        space = space.correlated(first, second, spread)
    if training.region is not None:
        return space.outside(training.region)
    return space.without(dict(training.held_out)) if training.held_out else space


def _train(store: Store, study: Study, chosen: Sequence[Member], on_updates) -> None:
    """Train a whole batch from its last checkpoint and publish the members that are missing.

    A process that finds another one at it waits, and has nothing left to train if that one has finished.
    """
    partial = store.root / "partial" / cell_id({"members": [member.train for member in chosen]})
    with locked(lock_of(partial)):
        if not all(store.path("train", member.train).exists() for member in chosen):
            training = study.trainings[chosen[0].training]
            try:
                _train_in(partial, store, training, chosen, on_updates)
            except OtherRunError as error:  # begun by another version; the folder is the study's own
                warnings.warn(f"training starts over: {error}", stacklevel=2)
                clear(partial)
                _train_in(partial, store, training, chosen, on_updates)
        clear(partial)


def _train_in(partial: Path, store: Store, training: Training, chosen: Sequence[Member], on_updates) -> None:
    keys, hyperparameters, labels = training.members()
    rows = list(dict.fromkeys(member.row for member in chosen))
    ends = [*training.keep, training.config.steps]
    own = jax.tree.map(lambda column: column[np.array(rows)], (keys, hyperparameters))
    how = {"labels": [labels[row] for row in rows], "directory": partial, "keep": training.keep}
    progress = on_updates is not None and (lambda done, total: on_updates(len(chosen) * done / total))
    zoo = models.train(training.config, *own, data=training_data(training), progress=progress, **how)
    for member in chosen:
        turn = ends.index(member.label.get("updates", ends[-1]))
        alone = zoo[turn * len(rows) + rows.index(member.row)]
        spec = train_spec(training, hyperparameters, member.label, member.row)
        final = {f"final_{name}": float(np.asarray(curve)[0, -1]) for name, curve in alone.losses._asdict().items()}
        store.publish("train", spec, {**final, "stopped": int(alone.stopped[0])}, alone.packed())


def _encode(store: Store, study: Study, chosen: Sequence[Member]) -> None:
    """Representations for the study's samples, rendered batch by batch for all members at once."""
    training = study.trainings[chosen[0].training]
    zoo = concatenate([member_zoo(study, store, member) for member in chosen])
    columns, shared = (_slots if study.has_slots else _posteriors)(study, training, zoo)
    losses = sample_losses(zoo, training, study.sampling) if isinstance(training.config.method, models.Vae) else {}
    for position, member in enumerate(chosen):
        arrays = {**{name: column[position] for name, column in columns.items()}, **shared}
        result = {"samples": study.sampling.train, **{name: float(column[position]) for name, column in losses.items()}}
        store.publish("encode", encode_spec(study, member.train), result, arrays)


def sample_losses(zoo: models.Zoo, training: Training, sampling: Sampling) -> dict[str, np.ndarray]:
    """What the models make of the study's samples, means in nats, each ``[m]``: the fields of ``Evidence``."""
    samples, total = samples_of(training, sampling), 0.0
    for images, noise in _in_batches(samples.render, samples.train.values, jax.random.key(sampling.seed)):
        total = total + np.array(evidence(zoo, images, noise)) * len(images)
    return {f"sample_{name}": column / sampling.train for name, column in zip(Evidence._fields, total, strict=True)}


def _in_batches(render: Callable, rows, key) -> Iterator[tuple]:
    """Images, and the random key of each batch of them."""
    renderer = Images.of(render)
    for start in range(0, len(rows), RENDER_BATCH):
        noise = jax.random.fold_in(key, start)
        yield simulated.drawn(renderer, rows[start : start + RENDER_BATCH], noise), noise


def _slots(study: Study, training: Training, zoo: models.Zoo) -> tuple[dict, dict]:
    """Every member's codes and segments, and the factors that all members share."""
    drawn = scenes_of(training, study.sampling)
    codes, segments = slots_of_zoo(zoo, drawn.rows, drawn.render, study.sampling.seed)
    return {"codes": codes, "segments": segments}, {"factors": _small(drawn.space.wrap(drawn.rows))}


def _posteriors(study: Study, training: Training, zoo: models.Zoo) -> tuple[dict, dict]:
    """Every member's means and variances, and the factors that all members share."""
    samples, key = samples_of(training, study.sampling), jax.random.key(study.sampling.seed)
    seen = zoo.encode(samples.train.values, render=samples.render, key=key)
    columns, shared = {"mean": seen.mean, "variance": seen.variance}, {"factors": _small(samples.train)}
    roles = {"test": (samples.test, _TEST)}
    if samples.validation is not None:
        roles["validation"] = (samples.validation, _VALIDATION)
    if training.has_novel:
        roles["novel"] = (novel_samples_of(training, study.sampling), _NOVEL)
    for name, (factors, fold) in roles.items():
        shared[f"{name}_factors"] = _small(factors)
        noise = jax.random.fold_in(key, fold)
        columns[f"{name}_mean"] = zoo.encode(factors.values, render=samples.render, key=noise).mean
    return columns, shared


def _score(store: Store, study: Study, chosen: Sequence[Member]) -> None:
    """All metrics for all members together; every (member, metric) is its own cell."""
    training = study.trainings[chosen[0].training]
    encoded = [store.arrays("encode", member.encode) for member in chosen]
    stacked = {name: np.stack([arrays[name] for arrays in encoded]) for name in encoded[0] if "factors" not in name}
    # Folded into members' random keys: these depend on a member's own id alone, not on other members.
    numbers = [int(member.encode[:8], 16) for member in chosen]
    if study.has_slots:
        scenes, groups = scenes_of(training, study.sampling).samples(), study.sampling.groups
        kinds = training.config.method.code_kinds
        given = MemberSlots(stacked["codes"], stacked["segments"], scenes, groups, numbers, kinds)
        for name, scores in slots_scored(dict(study.metrics), given).items():
            _publish_scores(store, study, chosen, [name], scores)
        return
    _score_seeds(store, study, chosen)
    samples = samples_of(training, study.sampling)
    test = (stacked["test_mean"], samples.test)
    validation = (stacked["validation_mean"], samples.validation) if study.sampling.validation else None
    novel = (stacked["novel_mean"], novel_samples_of(training, study.sampling)) if training.has_novel else test
    how = {"validation": validation, "variances": stacked["variance"], "numbers": numbers}
    how["devices"] = jax.devices()  # batches of one member and of several then share their programs
    for on_novel, held_out in ((False, test), (True, novel)):
        metrics = {name: metric for name, metric in study.metrics_of_members if (name in study.novel) == on_novel}
        if metrics:
            scores = evaluate(stacked["mean"], samples.train, metrics, test=held_out, **how)
            _publish_scores(store, study, chosen, metrics, scores)


def _score_seeds(store: Store, study: Study, chosen: Sequence[Member]) -> None:
    """Metrics that compare a setting's seeds, published for the chosen members."""
    for seeds in dict.fromkeys(member.seeds for member in chosen if study.metrics_of_seeds):
        encoded = [store.arrays("encode", name) for name in seeds]
        means, variances = (np.stack([arrays[name] for arrays in encoded]) for name in ("mean", "variance"))
        for name, metric in study.metrics_of_seeds:
            scores = dict(zip(seeds, metric.score(means, variances), strict=True))
            for member in chosen:
                if member.seeds == seeds:
                    result = {"columns": {name: float(scores[member.encode])}, "parts": {}}
                    store.publish("score", score_spec(study, member.encode, name, seeds), result)


def _publish_scores(store: Store, study: Study, chosen: Sequence[Member], names, scores) -> None:
    for position, member in enumerate(chosen):
        for name in names:
            columns = {column: float(scores[column][position]) for column in scores if column.metric == name}
            parts = {part: scores.part(part)[position] for part in scores.parts if part.metric == name}
            store.publish("score", score_spec(study, member.encode, name), {"columns": columns, "parts": parts})


def training_data(training: Training):
    """The images that a training draws from, rendered once; without a pool, the renderer that draws new ones."""
    if training.pool is None:
        return _seen(training)
    space, render = _seen(training, dtype="uint8")
    factor_key, image_key = jax.random.split(jax.random.key(training.pool))
    rows = space.sample(factor_key, training.pool)
    images = np.concatenate([np.asarray(batch) for batch, _ in _in_batches(render, rows, image_key)])
    return (images, np.asarray(rows)) if training.config.method.needs_labels else images


def _small(factors: Factors) -> np.ndarray:
    """Class numbers in as few bytes as they need; continuous factors as they are."""
    values = np.asarray(factors.values)
    return values if None in factors.sizes else values.astype(np.min_scalar_type(max(factors.sizes)))
