"""Members' scores: against regularization strength, by model, against each other."""

from collections.abc import Mapping, Sequence

import numpy as np

from jaxdis._core.finite import finite, median
from jaxdis.plots import _canvas as canvas
from jaxdis.plots._canvas import (
    Figure,
    Numbers,
    axes_in,
    columns_of,
    figure_of,
    grid_of,
    inches,
    labels,
    numbers,
    text,
    texts,
)

# Rows of a map of ranks whose entries are told as numbers.
MOST_NUMBERS = 20


def score_points(
    columns: Mapping[str, Numbers], groups: Sequence[str] = (), bounds: Mapping[str, Numbers] | None = None, *, ax=None
) -> Figure:
    """Draw a point per member over each score's name, and its median as a line.

    Args:
      columns: ``[m]`` by score name.
      groups: ``m`` names, each with its own color and mark.
      bounds: intervals ``[m, 2]`` around some scores, drawn as lines.
    """
    columns = {name: numbers(f"columns[{name!r}]", values, "members") for name, values in columns.items()}
    count = max(map(len, columns.values()))
    columns = columns_of(columns, list(columns))
    groups = np.array(labels("groups", groups, count) if len(groups) else [""] * count)
    axes = axes_in(ax, 1.2 + 0.6 * len(columns), 3 + 0.3 * inches(list(columns)))
    kinds = list(dict.fromkeys(groups.tolist()))
    for position, (kind, mark) in enumerate(zip(kinds, canvas.MARKS * len(kinds), strict=False)):
        rows = np.flatnonzero(groups == kind)
        at = 0.6 * ((position + 0.5) / len(kinds) - 0.5)
        for place, (name, values) in enumerate(columns.items()):
            x = place + at + np.linspace(-0.2, 0.2, len(rows) + 2)[1:-1] / len(kinds)
            style = {"ms": 4, "alpha": 0.7, "color": f"C{position % 10}"}
            axes.plot(x, values[rows], mark, label=text(kind) if not place and kind else None, **style)
            if bounds is not None and name in bounds:
                axes.vlines(x, *np.asarray(bounds[name])[rows].T, color=f"C{position % 10}", lw=1)
            if len(rows) > 1:
                axes.hlines(median(values[rows]), place + at - 0.15, place + at + 0.15, color="#234", lw=1.5)
    axes.set_xticks(range(len(columns)), texts(list(columns)), rotation=45, ha="right")
    axes.set(ylabel="score")
    if kinds != [""]:
        axes.legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    return axes.figure


def top_codes(rows: Sequence[Mapping], *, ax=None) -> Figure:
    """Draw rows from :meth:`jaxdis.Scores.top` as bars, the best code on top, with intervals if there are any."""
    if not rows:
        raise ValueError(
            "rows: must be those of Scores.top, got none; either the factor has a single value or no code is a number"
        )
    table = columns_of({name: [row[name] for row in rows] for name in rows[0]}, ["code", "value"])
    axes = axes_in(ax, 4.0, 0.6 + 0.24 * len(rows))
    places = np.arange(len(rows))
    axes.barh(places, table["value"], color="C0")
    if "low" in rows[0]:
        axes.hlines(places, *([row[end] for row in rows] for end in ("low", "high")), color="#234", lw=1.5)
    axes.set_yticks(places, [f"code {int(code)}" for code in table["code"]])
    axes.invert_yaxis()
    axes.set(xlabel="value of the relation")
    return axes.figure


def rank_map(matrix: Numbers, names: Sequence[str], others: Sequence[str] | None = None, *, ax=None) -> Figure:
    """Draw metrics' rank correlations (with ``others``) as numbers on a color scale, in hundredths.

    Above 20 metrics, only colors are drawn.
    """
    matrix, others = numbers("matrix", matrix, "names", "others"), names if others is None else others
    names, others = labels("names", names, matrix.shape[0]), labels("others", others, matrix.shape[1])
    axes = axes_in(ax, 0.6 + 0.42 * len(others) + inches(names), 0.4 + 0.42 * len(names) + inches(others))
    axes.imshow(matrix, cmap="RdBu_r", vmin=-1, vmax=1)
    for a, b in np.argwhere(np.isfinite(matrix)) if len(names) <= MOST_NUMBERS else ():
        color = "white" if abs(matrix[a, b]) > 0.6 else "black"
        axes.text(b, a, f"{100 * matrix[a, b]:.0f}", ha="center", va="center", fontsize=7, color=color)
    axes.set_xticks(range(len(others)), texts(others), rotation=60, ha="right")
    axes.set_yticks(range(len(names)), texts(names))
    axes.spines[:].set_visible(False)
    return axes.figure


def scores_by_regularization(
    table: Mapping[str, Numbers], regularization: Numbers, names: Sequence[str], columns: int = 4, *, titles=None
) -> Figure:
    """Draw every member's score against its regularization rank, for each metric; lines join medians.

    ``titles`` head the panels; the names when None.
    """
    table = columns_of(table, names, "model")
    models = list(dict.fromkeys(table["model"]))
    regularization = numbers("regularization", regularization, "members", members=len(table["model"]))
    figure, grid = grid_of(len(names), columns, 2.6, 2.2)
    for axes, name, title in zip(grid, names, titles or names, strict=False):
        for model, mark in zip(models, canvas.MARKS * 9, strict=False):
            of_model = table["model"] == model
            levels = np.unique(regularization[of_model])
            place = np.searchsorted(levels, regularization[of_model])
            axes.plot(place, table[name][of_model], mark, ms=4, alpha=0.7, label=text(model))
            medians = [median(table[name][of_model][place == p]) for p in range(len(levels))]
            axes.plot(range(len(levels)), medians, color=axes.lines[-1].get_color(), lw=1)
        axes.set_title(text(title))
        axes.set_xticks([])
    grid[0].legend(frameon=False, fontsize=7)
    figure.supxlabel("regularization strength of each model, weakest to strongest", fontsize=9)
    return figure


def violins_by_regularization(
    table: Mapping[str, Numbers], regularization: Numbers, names: Sequence[str], *, titles: Sequence[str]
) -> Figure:
    """Draw for each metric how its scores spread over seeds, for every model and regularization strength.

    Reference: Locatello et al. 2020, Figure 6.
    """
    table = columns_of(table, names, "model")
    models = list(dict.fromkeys(table["model"]))
    regularization = numbers("regularization", regularization, "members", members=len(table["model"]))
    figure, grid = grid_of(len(names), 2, 5.2, 2.2)
    for axes, name, title in zip(grid, names, titles, strict=False):
        place, middles = 0, []
        for position, model in enumerate(models):
            of_model = np.asarray(table["model"]) == model
            first = place
            for level in np.unique(regularization[of_model]):
                _violin(axes, table[name][of_model & (regularization == level)], place, 0.9, f"C{position % 10}")
                place += 1
            middles.append((first + place - 1) / 2)
            place += 1
        axes.set_title(text(title))
        axes.set_xticks(middles, texts(models), fontsize=7)
    return figure


def violins(table: Mapping[str, Numbers], names: Sequence[str], columns: int = 4, *, titles=None) -> Figure:
    """Draw for each metric how its scores spread over each model's members, with medians.

    ``titles`` head the panels; the names when None.
    """
    table = columns_of(table, names, "model")
    models = list(dict.fromkeys(table["model"]))
    figure, grid = grid_of(len(names), columns, 2.6, 2.2)
    for axes, name, title in zip(grid, names, titles or names, strict=False):
        for place, model in enumerate(models):
            _violin(axes, table[name][table["model"] == model], place, 0.8)
        axes.set_title(text(title))
        axes.set_xticks(range(len(models)), texts(models), rotation=30, ha="right", fontsize=7)
    return figure


def _violin(axes, scores: np.ndarray, place: int, width: float, color: str | None = None) -> None:
    """How scores spread; a line for each where they do not."""
    scores = finite(scores)
    if len(scores) < 2 or np.ptp(scores) == 0:
        axes.plot([place] * len(scores), scores, "k_")
        return
    for body in axes.violinplot(scores, [place], showmedians=True, widths=width)["bodies"]:
        body.set_color(color) if color else None


def scatter_matrix(table: Mapping[str, Numbers], names: Sequence[str], others: Sequence[str]) -> Figure:
    """Draw each of ``names`` (rows) against each of ``others`` (columns); a point is a member, a color a model."""
    table = columns_of(table, [*names, *others], "model")
    models = list(dict.fromkeys(table["model"]))
    figure = figure_of(1.5 * len(others) + 1, 1.4 * len(names) + 0.8)
    grid = figure.subplots(len(names), len(others), squeeze=False, sharex="col", sharey="row")
    for row, name in enumerate(names):
        for column, other in enumerate(others):
            for model in models:
                of_model = table["model"] == model
                grid[row, column].plot(table[other][of_model], table[name][of_model], "o", ms=3, alpha=0.6)
            grid[row, column].tick_params(labelsize=6)
        grid[row, 0].set_ylabel(text(name), fontsize=7)
    for column, other in enumerate(others):
        grid[-1, column].set_xlabel(text(other), fontsize=7)
    return figure


def point_clouds(panels: Sequence[tuple[str, str, Numbers, Numbers]]) -> Figure:
    """Draw one panel with points for each (name of x, name of y, x ``[n]``, y ``[n]``)."""
    panels = [(a, b, *(numbers("panels", each, "points") for each in (x, y))) for a, b, x, y in panels]
    figure, grid = grid_of(len(panels), len(panels), 1.9, 1.9)
    for axes, (x_name, y_name, x, y) in zip(grid, panels, strict=False):
        axes.plot(x, y, ".", ms=1, alpha=0.4, color="#234")
        axes.set(xlabel=text(x_name), ylabel=text(y_name))
    return figure
