"""The scores of a finished study ``mahon2024``, with factors in the paper's order and by its names."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jaxdis._core.files import write_csv
from jaxdis._core.finite import mean as finite_mean
from jaxdis.data import DATASETS
from jaxdis.papers.mahon2024._study import HELD_OUT
from jaxdis.study._cells import cells
from jaxdis.study._definition import Study
from jaxdis.study._store import Store, number

_ARM = {
    "hor": "horizontal_axis",
    "vert": "vertical_axis",
    "size": "object_size",
    "obj h": "object_color",
    "shape": "object_shape",
    "cam he": "camera_height",
    "bg h": "background_color",
}
_SPRITE = {"x": "x", "y": "y", "size": "scale", "orient": "orientation", "shape": "shape"}
_ROOM = {"floor h": "floor_hue", "wall h": "wall_hue", "size": "scale", "orient": "orientation"}
_HUE, _SHAPE = {"obj h": "object_hue"}, {"shape": "shape"}
# Columns of the tables per factor, by data set: of the normal test set, and of new combinations.
NORMAL_COLUMNS = {"dsprites": _SPRITE, "shapes3d": {**_ROOM, **_SHAPE, **_HUE}, "mpi3d": _ARM, "standin_arm": _ARM}
NOVEL_COLUMNS = NORMAL_COLUMNS | {"shapes3d": {**_ROOM, **_HUE, **_SHAPE}}


# Named for what it is wherever it stands in a table.
PARTITION = "labelled_partition"


class Table(NamedTuple):
    """A head, and rows of text and numbers."""

    head: list[str]
    rows: list[list]

    def write(self, path: Path) -> None:
        """Write to a file, numbers with six digits."""
        write_csv(path, self.head, ([_cell(value) for value in row] for row in self.rows))

    def under(self, key: tuple[str, ...]) -> dict[str, float]:
        """Return the numbers by head of the last row that begins with these texts; none if there is no such row."""
        count = len(key)
        rows = {tuple(row[:count]): row[count:] for row in self.rows}
        return dict(zip(self.head[count:], rows[key], strict=True)) if key in rows else {}


class Scored(NamedTuple):
    """One member: its label, ``pair`` (size, shape) of the combination held out or None, scores and their parts."""

    data: str
    model: str
    seed: int
    pair: tuple[int, int] | None
    columns: dict[str, float]
    parts: dict[str, np.ndarray]

    def column(self, name: str) -> float:
        """A score; NaN if the study has none of this name."""
        return self.columns.get(name, float("nan"))

    def part(self, name: str) -> np.ndarray:
        """A part of a score, with NaN for every factor if the study has none of this name."""
        return self.parts.get(name, np.full(len(DATASETS[self.data].space.sizes), np.nan))

    def joint(self, name: str) -> float:
        """The entry for size and shape of a part ``[k, k]``."""
        table = self.parts.get(name)
        return float("nan") if table is None else float(table[*size_and_shape(self.data)])


def read(study: Study, out: str | Path) -> list[Scored]:
    """All members of a finished study.

    Raises:
      StoreError: if the folder holds another study, or a record is damaged.
    """
    store = Store(out)
    store.check({**study.describe(), "name": store.description().get("name")})
    scored_members = []
    for member in cells(study):
        training = study.trainings[member.training]
        columns: dict[str, float] = {}
        parts: dict[str, np.ndarray] = {}
        for (name, _), score in zip(study.metrics, member.scores, strict=True):
            result = store.score(score, name)
            columns |= {column: number(value) for column, value in result["columns"].items()}
            parts |= {part: _floats(value) for part, value in result["parts"].items()}
        pair = tuple(dict(training.held_out).values()) or None
        scored_members.append(
            Scored(training.config.data, member.label["model"], member.label["seed"], pair, columns, parts)
        )
    return scored_members


def size_and_shape(data: str) -> tuple[int, int]:
    """Positions of the two factors."""
    space = DATASETS[data].space
    return tuple(space.position(name) for name in HELD_OUT[data][0])


def chance(data: str) -> tuple[float, float]:
    """Chance accuracy of size and of shape; that of both is the product."""
    return tuple(1 / DATASETS[data].space.sizes[position] for position in size_and_shape(data))


def above(accuracy: float, chance: float) -> float:
    """Percent: ``100 max(0, (a − r) / (1 − r))``."""
    return 100 * max(0.0, (accuracy - chance) / (1 - chance)) if np.isfinite(accuracy) else float("nan")


def mean(members: Sequence[Scored], value: Callable[[Scored], float]) -> float:
    """The mean over the members for which the value is defined."""
    return finite_mean([value(member) for member in members])


def of(members: Sequence[Scored], data: str, model: str, *, normal: bool) -> list[Scored]:
    """Members of a model on a data set: of the normal test set, or with combinations held out."""
    return [
        member for member in members if (member.data, member.model) == (data, model) and (member.pair is None) == normal
    ]


def data_of(members: Sequence[Scored]) -> list[str]:
    return list(dict.fromkeys(member.data for member in members))


def models_of(members: Sequence[Scored]) -> list[str]:
    return list(dict.fromkeys(member.model for member in members))


def _floats(value) -> np.ndarray:
    nested = np.array(value, object)
    return np.array([number(entry) for entry in nested.ravel()], float).reshape(nested.shape)


def _cell(value) -> str:
    return value if isinstance(value, str) else "" if np.isnan(value) else f"{value:.6g}"
