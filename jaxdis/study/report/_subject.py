"""What a section of a report is about: the scores of a study, of all members or of those on one data set."""

import dataclasses
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np

from jaxdis.evaluation._notes import Known
from jaxdis.metrics import Metric
from jaxdis.metrics._metric import ASPECTS, is_error
from jaxdis.models import Variant
from jaxdis.study._cells import Member
from jaxdis.study._definition import Study, metric_of
from jaxdis.study.report import _result_table as results
from jaxdis.study.report._seed_statistics import Table

# Parts of a label that a setting is not called by.
UNSAID = ("model", "seed", "held_out", "learning_rate", "discriminator_learning_rate", "warmup_steps", "capacity_steps")


@dataclasses.dataclass(frozen=True)
class SomeSamples:
    """The samples on which codes were scored; see :class:`jaxdis.study.Sampling`."""

    train: int
    held_out: int | None

    def in_words(self) -> str:
        """``10,000 samples (learners are evaluated on 3,333 that they are not trained on)``."""
        held_out = (
            f" (learners are evaluated on {self.held_out:,} that they are not trained on)" if self.held_out else ""
        )
        return f"{self.train:,} samples{held_out}"


@dataclasses.dataclass(frozen=True)
class Outside:
    """What the sections of a report ask of a :class:`jaxdis.study.Study`, for models that no study trained."""

    metrics: tuple[tuple[str, Metric], ...]
    variants: Mapping[str, Variant]
    sampling: SomeSamples
    factors: tuple[Known, ...]
    has_slots: ClassVar[bool] = False
    novel: ClassVar[tuple[str, ...]] = ()

    @property
    def metrics_of_members(self) -> tuple[tuple[str, Metric], ...]:
        return self.metrics


@dataclasses.dataclass(frozen=True)
class Subject:
    """The members of a report: ``table`` as in ``results.csv``, ``names`` of its columns of scores."""

    study: Study | Outside
    table: Table
    names: tuple[str, ...]

    @classmethod
    def of(cls, study: Study | Outside, table: Table) -> "Subject":
        return cls(study, table, tuple(name for name in table if metric_of(study, name)))

    def __len__(self) -> int:
        return len(self.table["id"])

    def each(self) -> Iterator[tuple[str, "Subject"]]:
        """Every data set with its members: scores on different data sets are never pooled."""
        data = np.asarray(self.table["data"]).astype(str)
        for name in dict.fromkeys(data):
            yield str(name), self.rows(data == name)

    def last(self, members: Sequence[Member]) -> "Subject":
        """Members after all their updates, without those that were kept along training; ``members`` are the rows."""
        trained = self.rows(np.array([member.last for member in members]))
        return dataclasses.replace(trained, table={n: c for n, c in trained.table.items() if n != "updates"})

    def rows(self, which: np.ndarray) -> "Subject":
        return dataclasses.replace(self, table={name: column[which] for name, column in self.table.items()})

    @functools.cached_property
    def regularization(self) -> np.ndarray:
        """For each member, the value of the setting over which its model is swept."""
        return results.regularizations(self.table, self.study.variants)

    @functools.cached_property
    def settings(self) -> list[str]:
        """For each member, its model and settings in words."""
        return [setting_in_words(self.study, label) for label in self._labels()]

    @functools.cached_property
    def models(self) -> list[str]:
        """For each member, the title of its model, with the labels that tell it from others."""
        return [model_in_words(self.study, label) for label in self._labels()]

    @functools.cached_property
    def titles(self) -> Mapping[str, str]:
        """Column → its title for readers; no two columns share a title."""
        titles = {name: title_of(self.study, name) for name in self.names}
        given = list(titles.values())
        return {name: title if given.count(title) == 1 else f"{title} ({name})" for name, title in titles.items()}

    def aspect_of(self, name: str) -> str | None:
        """The one aspect that a column claims to measure; None if it claims several or none."""
        claimed = claims(self.study, name)
        return claimed[0] if len(claimed) == 1 else None

    def lower_is_better(self, name: str) -> bool:
        """Whether a column is best when it is low."""
        return is_error(name, dict(self.study.metrics))

    def headlines(self) -> dict[str, str]:
        """Aspect → the first column that claims to measure it alone; a metric's headline comes before its fields."""
        names = [name for name in self.names if np.isfinite(self.table[name]).any()]
        names.sort(key=lambda name: name != metric_of(self.study, name))
        return {
            aspect: next(name for name in names if self.aspect_of(name) == aspect)
            for aspect in ASPECTS
            if any(self.aspect_of(name) == aspect for name in names)
        }

    def headline_columns(self, most: int = 12) -> list[str]:
        """The columns that stand for the study: one per aspect, then the first column of each metric that varies."""
        chosen = list(self.headlines().values())
        firsts: dict[str, str] = {}
        for name in self.varying():
            firsts.setdefault(metric_of(self.study, name), name)
        return [name for name in dict.fromkeys([*chosen, *firsts.values()]) if results.varies(self.table[name])][:most]

    def varying(self) -> Sequence[str]:
        """Columns of scores that differ between members."""
        return [name for name in self.names if results.varies(self.table[name])]

    def _labels(self) -> list[dict]:
        names = list(self.table)
        names = names[names.index("model") : names.index("seed")]
        rows = zip(*(self.table[name] for name in names), strict=True)
        return [dict(zip(names, row, strict=True)) for row in rows]


def setting_in_words(study: Study | Outside, label: Mapping) -> str:
    """``β-TCVAE, β = 4``."""
    about = study.variants[str(label["model"])].about
    symbols = {} if about is None else {key: text.split(",")[0] for key, text in about.settings.items()}
    shown = {key: value for key, value in label.items() if key not in UNSAID and not isinstance(value, str)}
    settings = (f"{symbols.get(key, key)} = {value:g}" for key, value in shown.items() if value == value)
    return ", ".join([model_in_words(study, label), *settings])


def model_in_words(study: Study | Outside, label: Mapping) -> str:
    """``MONet, masks decoder``: a model's title, and its labels of text."""
    texts = [f"{key} {value}" for key, value in label.items() if key not in UNSAID and isinstance(value, str) and value]
    return ", ".join([model_title(study, label["model"]), *texts])


def model_title(study: Study | Outside, name: str) -> str:
    """A variant's title, or its name if it has none."""
    about = study.variants[str(name)].about
    return about.title if about is not None else str(name)


def title_of(study: Study | Outside, column: str) -> str:
    """The title of a column's metric, by its abbreviation if it has one, and the field."""
    name = metric_of(study, column)
    about = getattr(dict(study.metrics)[name], "about", None)
    field = column[len(name) + 1 :].replace("_", " ")
    if about is None:
        return f"{name.replace('_', ' ')} {field}".rstrip()
    short = re.search(r"\(([^()]+)\)$", about.title)
    return f"{short[1] if short else about.title} {field}".rstrip()


def claims(study: Study | Outside, column: str) -> tuple[str, ...]:
    """The aspects that a column's authors claim that it measures."""
    name = metric_of(study, column)
    about = getattr(dict(study.metrics)[name], "about", None)
    return () if about is None else about.claims.get(column[len(name) + 1 :] or "score", ())
