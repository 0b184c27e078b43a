"""What differs from a paper: facts that its folder states, and what a study lacks of the published protocol."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxdis.metrics import Blend, Direct
from jaxdis.models import Pca
from jaxdis.study._definition import Study, Training
from jaxdis.study.certificate._calibration import Calibration


class Fact(NamedTuple):
    """A difference of protocol: what is printed and where, what is done here, and how much that was found to change."""

    where: str
    printed: str
    here: str
    effect: str = ""


class Level(NamedTuple):
    """A printed number that tells whether models are trained, such as an accuracy, and the measured one."""

    name: str
    printed: float
    measured: float


def shortfalls(study: Any, published: Any) -> list[Fact]:
    """What a study has less of than the published one, or has otherwise; none if they are the same.

    Args:
      study: what was run.
      published: the same study of the size ``paper``; None if that size lacks it.
    """
    if published is None or study == published:
        return []
    if isinstance(study, Calibration):
        return _of_calibration(study, published)
    found = [
        _lacking("data sets", *((_data_of(one)) for one in (study, published))),
        _lacking("models", *((_models_of(one)) for one in (study, published))),
        *_of_trainings(_alike(study, published)),
        *_of_numbers(study, published),
        _of_metrics(study, published),
    ]
    return [fact for fact in found if fact is not None]


def _of_calibration(study: Calibration, published: Calibration) -> list[Fact]:
    names = {
        "seeds": "seeds",
        "size_seeds": "seeds of the curve over sizes",
        "case_samples": "samples of a case",
        "sweep_samples": "samples of a point of a sweep",
        "full_size": "largest size",
    }
    pairs = [(words, getattr(published, name), getattr(study, name)) for name, words in names.items()]
    return [Fact("size", f"{theirs:,} {words}", f"{ours:,}") for words, theirs, ours in pairs if theirs > ours]


def _data_of(study: Study) -> list[str]:
    return list(dict.fromkeys(training.config.data for training in study.trainings))


def _models_of(study: Study) -> list[str]:
    return list(dict.fromkeys(name for training in study.trainings for name, _ in training.sweep))


def _lacking(what: str, ours: Sequence[str], theirs: Sequence[str]) -> Fact | None:
    missing = [name for name in theirs if name not in ours]
    return Fact(what, _words(theirs), f"without {_words(missing)}") if missing else None


def _words(names: Iterable[str]) -> str:
    return ", ".join(names).replace("_", " ")


def _alike(study: Study, published: Study) -> list[tuple[Training, Training]]:
    """Trainings with one of the same data and models in the published study."""
    by_kind: dict[tuple, Training] = {}
    for training in published.trainings:
        for name, _ in training.sweep:
            by_kind.setdefault((training.config.data, name, *sorted(training.labels)), training)
    pairs = []
    for training in study.trainings:
        theirs = by_kind.get((training.config.data, training.sweep[0][0], *sorted(training.labels)))
        if theirs is not None:
            pairs.append((training, theirs))
    return pairs


def _of_trainings(pairs: Sequence[tuple[Training, Training]]) -> list[Fact]:
    found = []
    iterated = [(a, b) for a, b in pairs if not isinstance(a.config.method, Pca)]
    fewer = [(a.config.steps, b.config.steps) for a, b in iterated if a.config.steps < b.config.steps]
    if fewer:
        ours, theirs = max(fewer, key=lambda pair: pair[1])
        found.append(Fact("updates", f"{theirs:,}", f"{ours:,}"))
    if any(_network(a) != _network(b) for a, b in iterated):
        found.append(Fact("networks", "the paper's", "small ones"))
    if any(a.config.source is not None and a.config.source != b.config.source for a, b in pairs):
        given = {option for a, _ in pairs if a.config.source for option in a.config.source.options}
        options = [f"{name}={value}" for name, value in given]
        found.append(Fact("images", "as published", f"with {_words(sorted(options))}"))
    pools = [a.pool for a, b in pairs if a.pool is not None and a.pool < (b.pool or np.inf)]
    if pools:
        found.append(Fact("training images", "all, or as many as published", f"{min(pools):,}, drawn once"))
    return found


def _network(training: Training):
    """What is small in small forms; methods with slots have no field for a network, and are small as a whole."""
    method = training.config.method
    if "network" not in (field.name for field in dataclasses.fields(method)):
        return method
    return [getattr(method, name, None) for name in ("network", "channels", "opponents", "batch_size")]


def _of_numbers(study: Study, published: Study) -> list[Fact]:
    """Samples, seeds, settings and combinations."""
    found = []
    for role in ("train", "test", "validation"):
        ours, theirs = (getattr(one.sampling, role) for one in (study, published))
        if ours < theirs:
            found.append(Fact("samples", f"{theirs:,} to {_ROLES[role]}", f"{ours:,}"))
    counts = {
        "seeds": lambda one: max(len(training.seeds) for training in one.trainings),
        "settings of a model": lambda one: max(
            int(np.prod([len(values) for _, values in row])) for training in one.trainings for _, row in training.sweep
        ),
        "combinations held out": lambda one: len({training.held_out for training in one.trainings} - {()}),
    }
    for what, count in counts.items():
        ours, theirs = count(study), count(published)
        if ours < theirs:
            found.append(Fact(what, f"{theirs:,}", f"{ours:,}"))
    return found


_ROLES = {"train": "score on", "test": "evaluate learners on", "validation": "choose options on"}


def _of_metrics(study: Study, published: Study) -> Fact | None:
    theirs = dict(published.metrics)
    changed = {}
    for name, metric in study.metrics:
        if name in theirs and isinstance(metric, Blend | Direct):
            before = theirs[name].all_options
            options = [f"{key}={value}" for key, value in metric.all_options.items() if before.get(key) != value]
            if options:
                changed[name] = " ".join(options)
    words = "; ".join(
        f"{options} in {_words(n for n, o in changed.items() if o == options)}"
        for options in dict.fromkeys(changed.values())
    )
    return Fact("metrics", "as published", words) if changed else None
