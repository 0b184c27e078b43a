"""What a reproduction consists of: studies to run, smaller pieces to compute once, and the page made of both."""

import dataclasses
import functools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from jaxdis.data import DataSource
from jaxdis.factors import Factors
from jaxdis.papers.harness._paper_page import Content
from jaxdis.papers.harness._presets import Preset
from jaxdis.study._definition import Member, Study, cells
from jaxdis.study._make import samples_of
from jaxdis.study._store import Store, canonical, publish, read_object
from jaxdis.study.report import _result_table as results
from jaxdis.study.report._subject import Subject

Size = Literal["minutes", "paper"]
Sources = Mapping[str, DataSource] | None


class Finished:
    """A finished study of trained models: its members, its table and their records."""

    def __init__(self, study: Study, out: Path):
        self.study, self.store = study, Store(out)
        self.members: list[Member] = list(cells(study))

    @functools.cached_property
    def table(self) -> dict[str, np.ndarray]:
        """``results.csv`` as columns, and the column ``regularization``: the value of the setting that is swept."""
        columns = results.read_results(self.store.root / "results.csv")
        return {**columns, "regularization": results.regularizations(columns, self.study.variants)}

    @property
    def subject(self) -> Subject:
        """The subject that sections of a report take."""
        return Subject.of(self.study, self.table)

    def parts(self, name: str) -> list[np.ndarray]:
        """A part of a metric, for each member."""
        metric = name.split(".")[0]
        place = [metric for metric, _ in self.study.metrics].index(metric)
        parts = (self.store.score(member.scores[place], metric)["parts"][name] for member in self.members)
        return [np.array(part, float) for part in parts]

    def factors(self, data: str) -> Factors:
        """The factors of the samples that members on this data set are scored on."""
        training = next(training for training in self.study.trainings if training.config.data == data)
        return samples_of(training, self.study.sampling).train

    def codes(self, which: np.ndarray | None = None) -> np.ndarray:
        """Posterior means ``[m, n, d]`` of the members in these rows; all of them if None."""
        rows = range(len(self.members)) if which is None else np.flatnonzero(which)
        return np.stack([self.store.arrays("encode", self.members[row].encode)["mean"] for row in rows])


@dataclasses.dataclass(frozen=True)
class Piece:
    """Something computed without training: ``function(finished studies, **options)`` returns plain data.

    The result is kept with the options and with what it was computed from, and computed again when these change.
    """

    function: Callable[..., dict]
    options: tuple[tuple[str, Any], ...] = ()
    version: int = 1

    def describe(self, studies: Mapping[str, Any]) -> dict:
        return {
            "function": f"{self.function.__module__}.{self.function.__qualname__}",
            "options": dict(self.options),
            "version": self.version,
            "studies": {name: study.describe() for name, study in studies.items()},
        }


class Reproduction(NamedTuple):
    """What a page is made from."""

    size: Size
    out: Path
    studies: Mapping[str, Any]
    pieces: Mapping[str, dict]

    def finished(self, name: str) -> Finished:
        return Finished(self.studies[name], self.out / name)


@dataclasses.dataclass(frozen=True)
class Paper:
    """A paper that can be reproduced. Its folder is a package that also holds ``printed.json``.

    Attributes:
      package: the package, by ``__name__``; its last part is the key of the paper.
      runs: the studies of a size by the names of their folders, given the files of data sets.
      content: the page.
      pieces: the pieces of a size by name.
      studies: functions that make the paper's studies, by the names that ``jaxdis study run`` takes.
      preset: its training runs, for ``jaxdis list presets``.
    """

    package: str
    runs: Callable[[Size, Sources], dict[str, Any]]
    content: Callable[[Reproduction], Content]
    pieces: Callable[[Size], dict[str, Piece]] = lambda size: {}
    studies: Mapping[str, Callable[..., Any]] = dataclasses.field(default_factory=dict)
    preset: Preset | None = None

    @property
    def key(self) -> str:
        return self.package.rpartition(".")[2]


def kept(piece: Piece, path: Path, studies: Mapping[str, Any], out: Path) -> dict:
    """The result of a piece, from its file if that was computed from the same inputs."""
    description = json.loads(canonical(piece.describe(studies)))
    if path.exists():
        stored = read_object(path)
        if stored.get("piece") == description:
            return stored["result"]
    finished = {name: Finished(study, out / name) for name, study in studies.items() if isinstance(study, Study)}
    result = json.loads(canonical(piece.function(finished, **dict(piece.options))))
    publish(path, canonical({"piece": description, "result": result}).encode(), replace=True)
    return result
