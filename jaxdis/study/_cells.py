"""A study's cells, train → encode → score: the members, and what identifies each cell."""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence

from jaxdis.encoders._slot_metrics import SlotMetric
from jaxdis.metrics import Metric
from jaxdis.metrics._seed_metrics import Udr
from jaxdis.models import Config
from jaxdis.models._config import describe
from jaxdis.study._definition import NUMERICS, Study, Training, restrictions_of
from jaxdis.study._store import cell_id, ids_of_children


@dataclasses.dataclass(frozen=True)
class Member:
    """One row in a study: a trained model with its cells' ids. Small, since it is sent to workers.

    ``seeds`` are the ids of the codes under all seeds of its setting, its own among them. ``last`` is False for members
    that are kept along training, whose label says after how many updates.
    """

    training: int
    row: int
    label: dict = dataclasses.field(hash=False)
    train: str
    encode: str
    scores: tuple[str, ...]
    seeds: tuple[str, ...] = ()
    last: bool = True


def cells(study: Study) -> Iterator[Member]:
    """Every member in order: trainings, then variants, settings, seeds, and updates."""
    ids = [_score_ids(study, name) for name, _ in study.metrics]
    encode_id = ids_of_children(lambda train: encode_spec(study, train))
    for position, training in enumerate(study.trainings):
        _, hyperparameters, of_rows = training.members()
        ends = [{"updates": number} for number in (*training.keep, training.config.steps)] if training.keep else [{}]
        rows = [row for row in range(len(of_rows)) for _ in ends]
        labels = [{**label, **end} for label in of_rows for end in ends]
        pairs = list(zip(rows, labels, strict=True))
        trained = [cell_id(train_spec(training, hyperparameters, label, row)) for row, label in pairs]
        encoded = [encode_id(train) for train in trained]
        alike: dict[tuple, list[str]] = {}
        for label, encode in zip(labels, encoded, strict=True):
            alike.setdefault(_setting(label), []).append(encode)
        for (row, label), train, encode in zip(pairs, trained, encoded, strict=True):
            seeds = tuple(alike[_setting(label)])
            scores = tuple(score_id(encode, seeds) for score_id in ids)
            last = label.get("updates", training.config.steps) == training.config.steps
            yield Member(position, row, label, train, encode, scores, seeds if study.metrics_of_seeds else (), last)


def _score_ids(study: Study, name: str) -> Callable[[str, Sequence[str]], str]:
    """A score's id by the ids of codes: the member's, and those of all seeds of its setting."""
    if name in dict(study.metrics_of_seeds):
        return lambda encode, seeds: cell_id(score_spec(study, encode, name, seeds))
    of_member = ids_of_children(functools.partial(score_spec, study, name=name))
    return lambda encode, seeds: of_member(encode)


def _setting(label: Mapping) -> tuple:
    return tuple((key, value) for key, value in label.items() if key != "seed")


def train_spec(training: Training, hyperparameters, label: dict, row: int) -> dict:
    numbers = {name: float(column[row]) for name, column in zip(hyperparameters._fields, hyperparameters, strict=True)}
    return {
        "kind": "train",
        "config": _config(training.config, label["model"]),
        "hyperparameters": numbers,
        "seed": label["seed"],
        "pool": training.pool,
        "held_out": training.held_out,
        "held_out_share": training.held_out_share,
        **restrictions_of(training),
        **_updates(training, label),
        "numerics": NUMERICS,
    }


@functools.lru_cache(maxsize=256)
def _config(config: Config, model: str) -> dict:
    """What describes the program that trains one variant alone."""
    return describe(dataclasses.replace(config, method=config.method.alone(model)))


def _updates(training: Training, label: Mapping) -> dict:
    """The updates after which a member was kept; nothing after all, so that it is the same member in any study."""
    return {} if label.get("updates") in (None, training.config.steps) else {"updates": label["updates"]}


def encode_spec(study: Study, train: str) -> dict:
    return {"kind": "encode", "train": train, "sampling": dataclasses.asdict(study.sampling), "numerics": NUMERICS}


def score_spec(study: Study, encode: str, name: str, seeds: Sequence[str] = ()) -> dict:
    """What specifies a score of the codes ``encode``; a metric of seeds depends on the codes of all ``seeds``."""
    metric = dict(study.metrics)[name]
    cell = {"kind": "score", "encode": encode, "metric": _described(metric), "numerics": NUMERICS}
    if isinstance(metric, Udr):
        return {**cell, "seeds": sorted(seeds)}
    return {**cell, "novel": name in study.novel}


@functools.cache
def _described(metric: Metric | Udr | SlotMetric) -> dict:
    return metric.describe()
