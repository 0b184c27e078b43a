"""What a reproduction consists of: studies to run, smaller pieces to compute once, and the page made of both."""

import dataclasses
import functools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import jax
import numpy as np

from jaxdis._core import runtime
from jaxdis._core.files import csv_text, read_csv_columns
from jaxdis._core.precision import single_precision
from jaxdis._core.store import Store, canonical, number, publish, read_object
from jaxdis.data import DataSource
from jaxdis.data._data_source import check_used
from jaxdis.factors import Factors
from jaxdis.models import About, Config, Members
from jaxdis.models._zoo import concatenate
from jaxdis.papers.harness._page import Content, CsvRow, csv_rows, render
from jaxdis.papers.harness._printed import printed_in, words_in
from jaxdis.papers.harness._scale import Scale, scaled, shortfalls
from jaxdis.study._compute_cells import member_zoo, samples_of
from jaxdis.study._definition import Member, Study, cells
from jaxdis.study._run_study import run, work_of
from jaxdis.study._trained_work import TRAIN_BATCH
from jaxdis.study.report import _statistics as results
from jaxdis.study.report._subject import Subject


class Run(NamedTuple):
    """One program and its members: ``train(run.config, *run.members)``."""

    config: Config
    members: Members


@dataclasses.dataclass(frozen=True)
class Preset:
    """A function from a data set's name and options to runs, and its description for ``jaxdis list presets``."""

    make: Callable[..., tuple[Run, ...]]
    about: About

    @classmethod
    def described(cls, make: Callable[..., tuple[Run, ...]], package: str) -> "Preset":
        """With the description in the paper's ``page.json``."""
        words = words_in(package)["preset"]
        return cls(make, About(words["title"], words["summary"], tuple(words["references"])))


Size = Literal["minutes", "hour", "day", "paper"]
Sources = Mapping[str, DataSource] | None


class Finished:
    """A finished study of trained models: its members, its table and their records."""

    def __init__(self, study: Study, out: Path):
        self.study, self.store = study, Store(out)
        self.members: list[Member] = list(cells(study))

    @functools.cached_property
    def table(self) -> dict[str, np.ndarray]:
        """``results.csv`` as columns, and the column ``regularization``: the value of the setting that is swept."""
        columns = read_csv_columns(self.store.root / "results.csv")
        return {**columns, "regularization": results.regularizations(columns, self.study.variants)}

    @property
    def subject(self) -> Subject:
        """The subject that sections of a report take."""
        return Subject.of(self.study, self.table)

    def parts(self, name: str) -> list[np.ndarray | None]:
        """A metric's part, for each member; None for those that lack it."""
        metric = name.split(".")[0]
        place = [metric for metric, _ in self.study.metrics].index(metric)
        parts = (self.store.score(member.scores[place], metric)["parts"].get(name) for member in self.members)
        return [None if part is None else np.array(part, float) for part in parts]

    def scores(self, member: Member) -> tuple[dict[str, float], dict[str, np.ndarray]]:
        """A member's scores by column, and their parts by name."""
        columns, parts = {}, {}
        for (name, _), score in zip(self.study.metrics, member.scores, strict=True):
            result = self.store.score(score, name)
            columns |= {column: number(value) for column, value in result["columns"].items()}
            parts |= {part: np.array(value, float) for part, value in result["parts"].items()}
        return columns, parts

    def factors(self, data: str) -> Factors:
        """The factors of the samples that members on this data set are scored on."""
        training = next(training for training in self.study.trainings if training.config.data == data)
        return samples_of(training, self.study.sampling).train

    def encoded(self, data: str, samples: int, seed: int = 1) -> tuple[np.ndarray, Factors]:
        """Posterior means ``[m, n, d]`` for the members on this data set, on new samples, and their factors."""
        sampling = dataclasses.replace(self.study.sampling, train=samples, seed=seed)
        codes = []
        for place, training in enumerate(self.study.trainings):
            if training.config.data == data:
                drawn = samples_of(training, sampling)
                own = [member for member in self.members if member.training == place]
                for start in range(0, len(own), TRAIN_BATCH):
                    chosen = own[start : start + TRAIN_BATCH]
                    zoo = concatenate([member_zoo(self.study, self.store, member) for member in chosen])
                    key = jax.random.key(seed)
                    codes.append(zoo.encode(drawn.train.values, render=drawn.render, key=key).mean)
        return np.concatenate(codes), drawn.train

    def codes(self, which: np.ndarray | None = None) -> np.ndarray:
        """Posterior means ``[m, n, d]`` for the members in these rows; all if None."""
        rows = range(len(self.members)) if which is None else np.flatnonzero(which)
        return np.stack([self.store.arrays("encode", self.members[row].encode)["mean"] for row in rows])


@dataclasses.dataclass(frozen=True)
class Piece:
    """Something computed without training: ``function(finished studies, **options)`` returns plain data.

    The page gets it with every number as a float, NaN included. The result is kept with the options and with what it
    was computed from, and computed again when these change.
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
    """What a page is made from; ``published`` are the studies of the size ``paper``."""

    size: Size
    out: Path
    studies: Mapping[str, Any]
    pieces: Mapping[str, dict]
    published: Mapping[str, Any] = MappingProxyType({})

    def finished(self, name: str) -> Finished:
        return Finished(self.studies[name], self.out / name)


@dataclasses.dataclass(frozen=True)
class Paper:
    """A paper that can be reproduced. Its folder is a package that also holds ``printed.json``.

    The last part of the ``package``'s name is the key of the paper. ``runs`` gives the studies in the sizes ``minutes``
    and ``paper`` by folder name, given the data sets' files, ``pieces`` the pieces of these sizes, and ``sizes`` the
    sizes ``hour`` and ``day``, as scales of ``paper``: hours on one H100. ``studies`` are functions that make the
    paper's studies, by the names that ``jaxdis study run`` takes; ``preset``, its training runs for ``jaxdis list
    presets``.
    """

    package: str
    runs: Callable[[Size, Sources], dict[str, Any]]
    content: Callable[[Reproduction], Content]
    pieces: Callable[[Size], dict[str, Piece]] = lambda size: {}
    studies: Mapping[str, Callable[..., Any]] = dataclasses.field(default_factory=dict)
    preset: Preset | None = None
    sizes: Mapping[str, Scale] = dataclasses.field(default_factory=dict)

    @property
    def key(self) -> str:
        return self.package.rpartition(".")[2]

    def planned(self, size: Size, sources: Sources, scale: Scale) -> tuple[dict[str, Any], dict[str, Piece]]:
        """The studies and pieces of a size at a scale, by name."""
        base = "minutes" if size == "minutes" else "paper"
        studies = self.runs(base, sources)
        known = list(dict.fromkeys(t.config.data for s in studies.values() for t in getattr(s, "trainings", ())))
        if unknown := [name for name in scale.data if name not in known]:
            rest = f"got {unknown[0]!r}; give the files of others as sources"
            raise ValueError(f"data: must be some of {', '.join(known)}, {rest}")
        check_used(sources or {}, known)
        scale = scale.within(self.sizes.get(size, Scale()))
        at_scale = {name: scaled(study, scale) for name, study in studies.items()}
        pieces = {
            name: dataclasses.replace(piece, options=tuple(scale.options(dict(piece.options)).items()))
            for name, piece in self.pieces(base).items()
        }
        return {name: study for name, study in at_scale.items() if study is not None}, pieces


def kept(piece: Piece, path: Path, studies: Mapping[str, Any], out: Path) -> dict:
    """The result of a piece, from its file if that was computed from the same inputs."""
    description = json.loads(canonical(piece.describe(studies)))
    if path.exists():
        stored = read_object(path)
        if stored.get("piece") == description:
            return floats(stored["result"])
    finished = {name: Finished(study, out / name) for name, study in studies.items() if isinstance(study, Study)}
    result = piece.function(finished, **dict(piece.options))
    publish(path, canonical({"piece": description, "result": result}).encode(), replace=True)
    return floats(json.loads(canonical(result)))


def floats(plain: Any) -> Any:
    """What was written as canonical JSON, with its numbers as floats again: that writes 1.0 as 1, and NaN as null."""
    if isinstance(plain, dict):
        return {key: floats(value) for key, value in plain.items()}
    if isinstance(plain, list):
        return [floats(value) for value in plain]
    written = plain is None or type(plain) is int or plain in ("Infinity", "-Infinity")
    return number(plain) if written else plain


# Columns of ``claims.csv``: a claim's statistic, what is expected from it, the verdicts on both, what its models lack.
CLAIM_HEAD = ("claim", "verdict", "statistic", "value", "low", "high", "above", "below", "part_verdict", "unmet")


@single_precision
def reproduce(
    paper: Paper,
    out: str | Path,
    *,
    size: Size = "minutes",
    sources: Sources = None,
    scale: Scale | None = None,
    step: Callable[[str, str, Any], None] | None = None,
) -> Path:
    """Run what is missing and write ``page.html``, ``tables.csv`` and ``claims.csv``; returns the path of the page.

    Args:
      paper: a row in :data:`jaxdis.papers.PAPERS`.
      out: folder; studies are in folders of their own below. Run again after any failure: finished cells and pieces are
        kept.
      size: ``minutes`` for small forms, ``paper`` for the published protocol; ``hour`` and ``day`` for as much of it as
        one H100 is estimated to run in that time.
      sources: official files by data set.
      scale: what changes in that size, such as ``Scale(updates=10_000, seeds=1)``.
      step: ``step("study", name, study)`` runs one study in ``out / name``; None: :func:`jaxdis.study.run`
        and the study's report. It is also called with ``"piece"`` and the piece, before that is computed.

    Raises:
      StoreError: if a folder below holds another study.
      ValueError: for a data set that the paper does not have.
    """
    out = Path(out)
    studies, planned_pieces = paper.planned(size, sources, scale or Scale())
    for name, study in studies.items():
        if step is not None:
            step("study", name, study)
            continue
        work, store = work_of(study), Store(out / name)
        run(work, out / name, extend=store.described)
        work.report(store)
    pieces = {}
    for name, piece in planned_pieces.items():
        if step is not None:
            step("piece", name, piece)
        pieces[name] = kept(piece, out / "pieces" / f"{name}.json", studies, out)
        runtime.forget_programs_if_many()
    published = studies if size == "paper" and scale is None else paper.runs("paper", sources)
    return write(paper, Reproduction(size, out, studies, pieces, published))


def write(paper: Paper, made: Reproduction) -> Path:
    """The page and its numbers, from what is finished."""
    content = judged(paper.content(made), made)
    path = made.out / "page.html"
    csv_text(CsvRow._fields, (row for beside in content.tables for row in csv_rows(beside)), made.out / "tables.csv")
    claims = []
    for finding in content.claims:
        for part in finding.parts:
            row = (finding.claim.id, finding.verdict, part.name, *part.interval, part.above, part.below)
            claims.append((*row, finding.verdict_of(part), "; ".join(finding.unmet)))
    csv_text(CLAIM_HEAD, claims, made.out / "claims.csv")
    publish(path, render(printed_in(paper.package), content, list(made.studies)).encode(), replace=True)
    return path


def judged(content: Content, made: Reproduction) -> Content:
    """The content with what each study lacks of the published one, as differences and as its claims' needs."""
    lacking = {name: shortfalls(study, made.published.get(name)) for name, study in made.studies.items()}
    facts, claims = [fact for found in lacking.values() for fact in found], []
    if sum(map(bool, lacking.values())) > 1:
        facts = [fact._replace(where=f"{name}: {fact.where}") for name, found in lacking.items() for fact in found]
    for finding in content.claims:
        less = (f"{fact.where}: {fact.here} for {fact.printed}" for fact in lacking.get(finding.study, ()))
        claims.append(finding._replace(unmet=(*finding.unmet, *less)))
    return content._replace(differences=[*facts, *content.differences], claims=claims)
