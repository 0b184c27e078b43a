"""``jaxdis list`` and ``jaxdis data``: the tables of the library as rows of text, and pictures of its data sets."""

import dataclasses
import inspect
from pathlib import Path
from typing import Literal

import tyro

from jaxdis.cli import terminal


def listing(what: str) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Column heads and rows of the table of metrics, relations, scores, models, data or studies."""
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
    if what == "models":
        from jaxdis.models import OBJECTIVES

        return ("name", "what it is", "settings"), [
            (
                name,
                (inspect.getdoc(row.settings) or "").split("\n")[0],
                ", ".join(f"{n}={p.default:g}" for n, p in inspect.signature(row.settings).parameters.items()),
            )
            for name, row in OBJECTIVES.items()
        ]
    from jaxdis.metrics import METRICS
    from jaxdis.relations import RELATIONS
    from jaxdis.scores import SCORES

    rows = {"metrics": METRICS, "relations": RELATIONS, "scores": SCORES}[what]
    listed = [
        (name, row.summary, ", ".join(f"{knob}={value}" for knob, value in row.knobs.items() if knob != "method"))
        for name, row in rows.items()
    ]
    return ("name", "what it is", "options"), listed + (_of_slots() if what == "metrics" else [])


@dataclasses.dataclass(frozen=True)
class List:
    """Show what there is: each name with what it is and its options."""

    what: tyro.conf.Positional[Literal["metrics", "relations", "scores", "models", "data", "studies"]]
    """Which table."""

    def run(self) -> None:
        from rich.table import Table
        from rich.text import Text

        heads, rows = listing(self.what)
        table = Table(*heads, title=self.what)
        for row in rows:
            table.add_row(*map(Text, row))
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
        knobs = {
            name: parameter.default
            for name, parameter in inspect.signature(function).parameters.items()
            if parameter.default not in (inspect.Parameter.empty, None)
            and isinstance(parameter.default, str | int | float)
        }
        summary = (inspect.getdoc(function) or "").split("\n")[0]
        options = ", ".join(f"{name}={value}" for name, value in knobs.items() if name != "method")
        rows.append((f"jaxdis.{place}{function.__name__}", summary, options))
    return rows
