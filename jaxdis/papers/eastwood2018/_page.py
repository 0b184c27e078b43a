"""The page of Eastwood & Williams 2018: Tables 1, 3, 4 and 5, claims about them, and Figures 2 to 6."""

from pathlib import Path

import numpy as np

from jaxdis.papers.eastwood2018._claims import REGRESSORS, Numbers, claims
from jaxdis.papers.harness._page import Beside, Content, Figure, Measured, differences_in
from jaxdis.papers.harness._paper import Finished, Reproduction
from jaxdis.papers.harness._printed import Table, printed_in
from jaxdis.papers.harness._scale import Fact, Level

# Printed columns of Table 1 → quantities.
MEANS = {"disentanglement": "disentanglement", "completeness": "completeness", "nrmse": "error"}


def content(made: Reproduction) -> Content:
    finished = made.finished("teapots")
    numbers = Numbers.read(finished.store, finished.members)
    printed = printed_in(__package__).tables
    size = (
        f"{', '.join(numbers.models).replace('_', ' ')}; {len(numbers.seeds)} seeds, scored on"
        f" {finished.study.sampling.in_words()}."
    )
    return Content(
        size,
        [_images(finished), *differences_in(__package__)],
        claims(numbers, _dead(finished), small=made.size != "paper"),
        _tables(printed, numbers),
        _figures(made.out / "teapots"),
        levels=_levels(printed["table_1"], numbers),
    )


def _levels(printed: Table, numbers: Numbers) -> list[Level]:
    """Error of the lasso, which falls with training."""
    rows = [row for row in printed.rows if row.key["regressor"] == "lasso" and row.key["model"] in numbers.models]
    return [
        Level(
            f"NRMSE by lasso, {row.key['model'].replace('_', ' ')}",
            row.values["nrmse"],
            float(np.mean(numbers.mean(row.key["model"], "lasso", "error"))),
        )
        for row in rows
    ]


def _images(finished: Finished) -> Fact:
    source = finished.study.trainings[0].config.source
    drawn = source is None or not source.checksum
    images = "drawn with one lamp on black" if drawn else "of the official file, of which roles may share some"
    return Fact("§4.1", "teapots whose light and background are not published", images)


def _dead(finished: Finished) -> np.ndarray:
    """The third smallest importance of a code of each InfoGAN under the forest, as a share of all."""
    is_infogan = np.asarray(finished.table["model"]) == "infogan"
    importances = [part for part, own in zip(finished.parts("forest.importance"), is_infogan, strict=True) if own]
    return np.array([np.sort(part.sum(axis=1))[2] / part.sum() for part in importances])


def _tables(printed: dict[str, Table], numbers: Numbers) -> list[Beside]:
    tables = []
    for name, table in printed.items():
        measured = {}
        for place, row in enumerate(table.rows):
            by_forest = name[6] == "4" or name == "table_5b"
            regressor = REGRESSORS[row.key["regressor"]] if name == "table_1" else "forest" if by_forest else "lasso"
            for column in row.values:
                values = _entry(name, column, numbers, row.key["model"], regressor)
                if len(values):
                    spread = float(values.std(ddof=1)) if len(values) > 1 else np.nan
                    measured[place, column] = Measured(float(values.mean()), spread)
        codes = " Which code is which is arbitrary." if name in ("table_3a", "table_4a") else ""
        tables.append(Beside(table, measured, f"Means and standard deviations over seeds.{codes}"))
    return tables


def _entry(table: str, column: str, numbers: Numbers, model: str, regressor: str) -> np.ndarray:
    """Our numbers of a printed cell, one per seed."""
    if table == "table_1":
        return numbers.mean(model, regressor, MEANS[column])
    is_mean = column in ("average", "weighted_average")
    if table.startswith("table_5"):
        return numbers.error(model, regressor, "mean" if is_mean else column, unseen=True)
    quantity = {"a": "disentanglement", "b": "completeness", "c": "error"}[table[-1]]
    return numbers.mean(model, regressor, quantity) if is_mean else numbers.part(model, regressor, quantity, column)


def _figures(folder: Path) -> list[Figure]:
    """Figures of the study, in order; those of single members for the first seed."""
    paths = [
        path
        for path in sorted((folder / "figures").glob("figure_*.png"))
        if path.stem.count("_") < 2 or path.stem.endswith("_0")
    ]
    captions = {
        "2": "random teapots",
        "3": "importances of codes for factors",
        "4": "teapots of the part that is never seen",
        "5": "each factor against its most important codes",
        "6": "codes changed one at a time",
    }
    figures = []
    for path in paths:
        number, *rest = path.stem.removeprefix("figure_").split("_")
        of = " ".join(rest[:-1]) if rest else ""
        figures.append(Figure(f"Figure {number}", f"{captions[number]}{': ' + of if of else ''}", path.read_bytes()))
    return figures
