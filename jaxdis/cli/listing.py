"""``jaxdis list`` and ``jaxdis data``: the tables of the library as rows of text, and pictures of its data sets."""

import dataclasses
import inspect
import itertools
import re
import textwrap
from pathlib import Path
from typing import Literal

import tyro

from jaxdis.cli import terminal
from jaxdis.references import cited_in


def listing(what: str) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Column heads and rows of a table of the library."""
    if what == "data":
        from jaxdis.data import DATASETS

        heads = ("name", "what it is", "factors (values)", "source", "origin and terms")
        return heads, [
            (
                name,
                row.description,
                ", ".join(f"{factor} {size}" for factor, size in zip(row.space.names, row.space.sizes, strict=True)),
                " or ".join(part for part in ("drawn" if row.renders else "", row.reads) if part),
                row.origin,
            )
            for name, row in DATASETS.items()
        ]
    if what == "studies":
        from jaxdis.study.certificate import calibration
        from jaxdis.study.library import STUDIES

        certificate = (
            "calibration",
            calibration.__doc__.split("\n")[0],
            ", ".join(f"{f.name}={f.default}" for f in dataclasses.fields(calibration.Calibration)[1:]),
        )
        return ("name", "what it is", "sizes"), [
            (
                name,
                (inspect.getdoc(make) or "").split("\n")[0],
                ", ".join(f"{n}={p.default}" for n, p in inspect.signature(make).parameters.items() if n != "metrics"),
            )
            for name, make in STUDIES.items()
        ] + [certificate]
    if what in ("objectives", "models"):
        heads = ("name", "objective", "what it does") if what == "objectives" else ("name", "paper", "what it trains")
        return heads, [(name, row.about.title, row.about.summary) for name, row in _trained(what).items()]
    if what == "references":
        from jaxdis.references import REFERENCES

        return ("key", "publication", "link"), [
            (key, f"{'; '.join(entry.authors)} ({entry.year}). {entry.title}. {entry.venue}", entry.url)
            for key, entry in REFERENCES.items()
        ]
    if what == "metrics":
        return ("name", "what it asks", "claims to measure"), _metrics() + _of_slots()
    rows = _specs(what)
    return ("name", "what it is", "options"), [(name, plain(row.summary), _options(row)) for name, row in rows.items()]


def _specs(what: str) -> dict:
    from jaxdis.metrics import METRICS
    from jaxdis.relations import RELATIONS
    from jaxdis.scores import SCORES

    return {"metrics": METRICS, "relations": RELATIONS, "scores": SCORES}[what]


def _options(row) -> str:
    return ", ".join(f"{option}={value}" for option, value in row.all_options.items() if option != "method")


def _metrics() -> list[tuple[str, str, str]]:
    """Metrics by what their authors claim that they measure."""
    rows = [(name, plain(metric.summary), _claims(metric.about)) for name, metric in _specs("metrics").items()]
    return sorted(rows, key=lambda row: (row[2] == "", row[2]))


def _claims(about) -> str:
    claimed = [aspect for aspects in about.claims.values() for aspect in aspects] if about else []
    return ", ".join(dict.fromkeys(claimed))


def whole_row(what: str, name: str) -> str:
    """Everything known of one row of the metrics, relations, scores, objectives or models.

    Raises:
      ValueError: for another table, or an unknown name.
    """
    if what not in ("metrics", "relations", "scores", "objectives", "models"):
        raise ValueError(f"names: needs the table of metrics, relations, scores, objectives or models, got {what}")
    from jaxdis.evaluation.inputs import look_up
    from jaxdis.metrics import Blend

    if what in ("objectives", "models"):
        return _whole_training(name, look_up(name, _trained(what), what.removesuffix("s")))
    row = look_up(name, _specs(what), what.removesuffix("s"))
    about, parts = getattr(row, "about", None), (row,)
    if what == "metrics":
        parts = (row.relation, row.score) if isinstance(row, Blend) else (row.function,)
    lines = [f"{name}: {about.title}. {about.question}" if about else name]
    if about:
        lines += [
            f"Claims to measure: {_claims(about) or 'nothing of the kind'}.",
            f"About {about.seconds} s per member.",
        ]
    for part in parts:
        lines += ["", f"{part.name}({_options(part)})", "", plain(inspect.getdoc(part.function) or "")]
    keys = about.references if about else cited_in(inspect.getdoc(row.function) or "")
    return "\n".join([*lines, *_references(keys)])


def _trained(what: str) -> dict:
    """Objectives, or the published training runs."""
    from jaxdis.models import OBJECTIVES
    from jaxdis.models.presets import PRESETS

    return {"objectives": OBJECTIVES, "models": PRESETS}[what]


def _whole_training(name: str, row) -> str:
    """A row of the objectives or of the published training runs."""
    about, function = row.about, getattr(row, "settings", None) or row.make
    options = {n: f"{n}={_number(p.default)}" for n, p in inspect.signature(function).parameters.items()}
    lines = [f"{name}: {about.title}. {about.summary}", "", plain(inspect.getdoc(function) or ""), ""]
    if about.settings:
        width = max(map(len, options.values())) + 4
        settings = (f"  {option:{width - 2}}{about.settings[n]}" for n, option in options.items())
        lines += ["Settings", *(textwrap.fill(line, 80, subsequent_indent=" " * width) for line in settings)]
    else:
        lines += [f"{name}({', '.join(options.values())})"]
    return "\n".join([*lines, *_references(about.references)])


def _number(value) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _references(keys) -> list[str]:
    return ["", "References", *(f"  {key}: {_entry(key)}" for key in keys)]


def _entry(key: str) -> str:
    from jaxdis.references import REFERENCES

    entry = REFERENCES[key]
    return f"{'; '.join(entry.authors)} ({entry.year}). {entry.title}. {entry.venue}. {entry.url}"


def plain(text: str) -> str:
    """A docstring as text for a terminal."""
    text = re.sub(r":\w+:`~?(?:[\w.]+\.)?(\w+)`", r"\1", text)
    return text.replace("``", "")


def cited_by(name: str) -> tuple[str, ...]:
    """Keys of the publications behind a metric, relation, score, objective or data set; or a key itself.

    Raises:
      ValueError: for a name that is none of these.
    """
    from jaxdis.data import DATASETS
    from jaxdis.models import OBJECTIVES
    from jaxdis.references import REFERENCES

    if name in REFERENCES:
        return (name,)
    for what in ("metrics", "relations", "scores"):
        if name in (rows := _specs(what)):
            about = getattr(rows[name], "about", None)
            return about.references if about else tuple(cited_in(inspect.getdoc(rows[name].function) or ""))
    if name in OBJECTIVES:
        return OBJECTIVES[name].about.references
    if name in DATASETS:
        return tuple(cited_in(DATASETS[name].origin))
    raise ValueError(f"names: needs names of metrics, relations, scores, objectives, data or references, got {name!r}")


@dataclasses.dataclass(frozen=True)
class List:
    """Show the tables of the library; with names after a table, everything known of these rows.

    `jaxdis list references --bibtex mig dci dsprites` prints BibTeX entries of what was used.
    """

    what: tyro.conf.Positional[
        Literal["metrics", "relations", "scores", "objectives", "models", "data", "studies", "references"]
    ]
    """Which table."""
    names: tyro.conf.Positional[tuple[str, ...]] = ()
    """Rows to show in full; with references, metrics, objectives and data sets whose publications to show."""
    bibtex: bool = False
    """Print references as BibTeX entries."""

    def run(self) -> None:
        if self.bibtex and self.what != "references":
            raise ValueError(f"--bibtex: needs the table references, got {self.what}")
        if self.what == "references" and (self.names or self.bibtex):
            return self._references()
        if self.names:
            for name in self.names:
                terminal.console().print(whole_row(self.what, name), markup=False)
            return None
        return self._table()

    def _references(self) -> None:
        from jaxdis.references import REFERENCES, bibliography

        keys = list(dict.fromkeys(key for name in self.names or REFERENCES for key in cited_by(name)))
        text = bibliography(keys) if self.bibtex else "\n".join(f"{key}: {_entry(key)}" for key in keys)
        terminal.console().print(text, markup=False, soft_wrap=True)

    def _table(self) -> None:
        from rich.table import Table
        from rich.text import Text

        heads, rows = listing(self.what)
        table = Table(*heads, title=self.what)
        for row, following in itertools.zip_longest(rows, rows[1:]):
            last = self.what == "metrics" and following is not None and following[2] != row[2]
            table.add_row(*map(Text, row), end_section=last)
        terminal.console().print(table)


@dataclasses.dataclass(frozen=True)
class Data:
    """Look at a data set: a contact sheet with one row for each factor, traversed."""

    action: tyro.conf.Positional[Literal["show"]]
    """Draw the sheet."""
    name: tyro.conf.Positional[str]
    """As `jaxdis list data` shows it."""
    out: Path = Path("sheet.png")
    """The picture to write."""
    source: Path | None = None
    """The official file, for sets that are read."""
    seed: int = 0
    """Of the point from which factors are traversed."""
    zoom: int = 2
    """Screen pixels a pixel."""

    def run(self) -> None:
        from jaxdis.options import Seed, checked_value

        checked_value("--seed", Seed, self.seed)
        terminal.start(None)
        from jaxdis.data.show import save_sheet

        save_sheet(self.name, self.out, self.source, self.seed, self.zoom)
        terminal.console().print(f"wrote {self.out}", markup=False)


def _of_slots() -> list[tuple[str, str, str]]:
    """Metrics that take more than codes and factors, and are functions of their own."""
    from jaxdis.structured import ari, mean_segmentation_covering
    from jaxdis.structured.evaluate import evaluate_structured

    rows = []
    for place, function in (
        ("", evaluate_structured),
        ("structured.", ari),
        ("structured.", mean_segmentation_covering),
    ):
        defaults = {
            name: parameter.default
            for name, parameter in inspect.signature(function).parameters.items()
            if parameter.default not in (inspect.Parameter.empty, None)
            and isinstance(parameter.default, str | int | float)
        }
        summary = (inspect.getdoc(function) or "").split("\n")[0]
        options = ", ".join(f"{name}={value}" for name, value in defaults.items() if name != "method")
        rows.append((f"jaxdis.{place}{function.__name__}", summary, options))
    return rows
