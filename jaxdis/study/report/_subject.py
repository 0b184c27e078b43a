"""What a section in a report is about: a study's scores, for all members or those on one data set."""

import dataclasses
import functools
import html
import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from jaxdis.encoders._evaluate_slots import SlotMetric
from jaxdis.evaluation._notes import Known
from jaxdis.metrics import Metric
from jaxdis.metrics._between_members import Udr
from jaxdis.metrics._metric import ASPECTS, Column
from jaxdis.models import Variant
from jaxdis.study._definition import Member, Study, metric_of
from jaxdis.study.report import _statistics as results
from jaxdis.study.report._html import Html
from jaxdis.study.report._statistics import UNSAID, Table


@dataclasses.dataclass(frozen=True)
class Subject:
    """A report's members: ``table`` as in ``results.csv``, and ``names``, its columns with scores.

    ``factors`` is empty for the data sets of a study; ``study`` is None for members trained elsewhere.
    """

    metrics: tuple[tuple[str, Metric | Udr | SlotMetric], ...]
    variants: Mapping[str, Variant]
    samples: int
    sampled: str
    table: Table
    names: tuple[str, ...]
    factors: tuple[Known, ...] = ()
    study: Study | None = None

    @classmethod
    def of(cls, study: Study, table: Table) -> "Subject":
        names = tuple(name for name in table if metric_of(study, name))
        samples, sampled = study.sampling.train, study.sampling.in_words()
        return cls(study.metrics, study.variants, samples, sampled, table, names, study=study)

    def __len__(self) -> int:
        return len(self.table["id"])

    def each(self) -> Iterator[tuple[str, "Subject"]]:
        """Every data set with its members: scores on different data sets are never pooled."""
        data = np.asarray(self.table["data"]).astype(str)
        for name in dict.fromkeys(data):
            yield str(name), self.rows(data == name)

    def last(self, members: Sequence[Member]) -> "Subject":
        """Members after all their updates, without those that were kept along training; ``members`` are the rows."""
        return self.rows(np.array([member.last for member in members])).without_updates()

    def without_updates(self) -> "Subject":
        return dataclasses.replace(self, table={n: c for n, c in self.table.items() if n != "updates"})

    def rows(self, which: np.ndarray) -> "Subject":
        return dataclasses.replace(self, table={name: column[which] for name, column in self.table.items()})

    @functools.cached_property
    def regularization(self) -> np.ndarray:
        """For each member, the value of the setting over which its model is swept."""
        return results.regularizations(self.table, self.variants)

    @functools.cached_property
    def swept(self) -> str:
        """The symbol or name of the one setting over which all models are swept; "" if they differ, or have none."""
        found = set()
        for name in dict.fromkeys(map(str, self.table["model"])):
            variant = self.variants[name]
            symbols = {} if variant.about is None else variant.about.settings
            found.add(symbols.get(variant.swept, variant.swept or "").split(",")[0])
        return found.pop() if len(found) == 1 else ""

    @functools.cached_property
    def settings(self) -> list[str]:
        """For each member, its model and settings in words."""
        return [self.setting_of(label) for label in self._labels()]

    @functools.cached_property
    def models(self) -> list[str]:
        """For each member, the title of its model, with the labels that tell it from others."""
        return [self.model_of(label) for label in self._labels()]

    @functools.cached_property
    def titled(self) -> Table:
        """The table, in which models are called by their titles."""
        return {**self.table, "model": np.array(self.models)}

    @functools.cached_property
    def titles(self) -> Mapping[str, str]:
        """Column → its title for readers; no two columns share a title."""
        titles = {name: self._title_of(name) for name in self.names}
        given = list(titles.values())
        return {name: title if given.count(title) == 1 else f"{title} ({name})" for name, title in titles.items()}

    def aspect_of(self, name: str) -> str | None:
        """The one aspect that a column claims to measure; None if it claims several or none."""
        claimed = self.claims(name)
        return claimed[0] if len(claimed) == 1 else None

    def lower_is_better(self, name: str) -> bool:
        metrics = dict(self.metrics)
        column = Column.read(name, metrics)
        return column.field in metrics[column.metric].errors

    def headlines(self) -> dict[str, str]:
        """Aspect → the first column that claims to measure it alone; a metric's headline comes before its fields."""
        names = [name for name in self.names if np.isfinite(self.table[name]).any()]
        first: dict[str | None, str] = {}
        for name in sorted(names, key=lambda name: name != metric_of(self, name)):
            first.setdefault(self.aspect_of(name), name)
        return {aspect: first[aspect] for aspect in ASPECTS if aspect in first}

    def headline_columns(self, most: int = 12) -> list[str]:
        """The columns that stand for the study: one per aspect, then the first column of each metric that varies."""
        chosen = list(self.headlines().values())
        firsts: dict[str, str] = {}
        for name in self.varying():
            firsts.setdefault(metric_of(self, name), name)
        return [name for name in dict.fromkeys([*chosen, *firsts.values()]) if results.varies(self.table[name])][:most]

    def varying(self) -> Sequence[str]:
        """Columns of scores that differ between members."""
        return [name for name in self.names if results.varies(self.table[name])]

    def _labels(self) -> list[dict]:
        names = list(self.table)
        names = names[names.index("model") : names.index("seed")]
        rows = zip(*(self.table[name] for name in names), strict=True)
        return [dict(zip(names, row, strict=True)) for row in rows]

    def setting_of(self, label: Mapping) -> str:
        """``β-TCVAE, β = 4``."""
        about = self.variants[str(label["model"])].about
        symbols = {} if about is None else {key: text.split(",")[0] for key, text in about.settings.items()}
        shown = {key: value for key, value in label.items() if key not in UNSAID and not isinstance(value, str)}
        settings = (f"{symbols.get(key, key)} = {value:g}" for key, value in shown.items() if value == value)
        return ", ".join(filter(None, [self.model_of(label), *settings])) or "all members"

    def model_of(self, label: Mapping) -> str:
        """``MONet, masks decoder``: a model's title, or its name if it has none, and its labels of text."""
        about = self.variants[str(label["model"])].about
        texts = {key: value for key, value in label.items() if key not in UNSAID and isinstance(value, str) and value}
        title = str(label["model"]) if about is None else about.title
        return ", ".join(filter(None, [title, *(f"{key} {value}" for key, value in texts.items())]))

    def _title_of(self, column: str) -> str:
        """The title of a column's metric, by its abbreviation if it has one, and the field."""
        name = metric_of(self, column)
        about = getattr(dict(self.metrics)[name], "about", None)
        field = column[len(name) + 1 :].replace("_", " ")
        if about is None:
            return f"{name.replace('_', ' ')} {field}".rstrip()
        short = re.search(r"\(([^()]+)\)$", about.title)
        return f"{short[1] if short else about.title} {field}".rstrip()

    def claims(self, column: str) -> tuple[str, ...]:
        """The aspects that a column's authors claim that it measures."""
        name = metric_of(self, column)
        about = getattr(dict(self.metrics)[name], "about", None)
        return () if about is None else about.claims.get(column[len(name) + 1 :] or "score", ())

    def link_to(self, column: str) -> Html:
        """A column's title, which leads to its metric in the glossary."""
        anchor, title = html.escape(metric_of(self, column), quote=True), html.escape(self.titles[column])
        return Html(f'<a href="#metric-{anchor}">{title}</a>')
