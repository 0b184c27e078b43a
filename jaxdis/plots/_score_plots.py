"""Scores of members: against regularization strength, by model, against each other."""

from collections.abc import Mapping, Sequence

import numpy as np

from jaxdis._core.finite import median
from jaxdis.plots._canvas import MARKS, cloud_png, figure_of, grid_of, inches, png, text, texts

# Rows of a map of ranks whose entries are told as numbers.
MOST_NUMBERS = 20


def rank_map(matrix: np.ndarray, names: Sequence[str], others: Sequence[str] | None = None) -> bytes:
    """Rank correlations of metrics (with ``others``) as numbers on a color scale, in hundredths as the papers print
    them; only colors for more than 20 metrics."""
    others = names if others is None else others
    figure = figure_of(0.6 + 0.42 * len(others) + inches(names), 0.4 + 0.42 * len(names) + inches(others))
    axes = figure.subplots()
    axes.imshow(matrix, cmap="RdBu_r", vmin=-1, vmax=1)
    for a, b in np.argwhere(np.isfinite(matrix)) if len(names) <= MOST_NUMBERS else ():
        color = "white" if abs(matrix[a, b]) > 0.6 else "black"
        axes.text(b, a, f"{100 * matrix[a, b]:.0f}", ha="center", va="center", fontsize=7, color=color)
    axes.set_xticks(range(len(others)), texts(others), rotation=60, ha="right")
    axes.set_yticks(range(len(names)), texts(names))
    axes.spines[:].set_visible(False)
    return png(figure)


def scores_by_regularization(
    table: Mapping[str, np.ndarray], regularization: np.ndarray, names: Sequence[str], columns: int = 4, *, titles=None
) -> bytes:
    """For each metric, every member's score against its rank of regularization strength; lines join medians.

    ``titles`` are those of the panels; the names when None.
    """
    models = list(dict.fromkeys(table["model"]))
    figure, grid = grid_of(len(names), columns, 2.6, 2.2)
    for axes, name, title in zip(grid, names, titles or names, strict=False):
        for model, mark in zip(models, MARKS * 9, strict=False):
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
    return cloud_png(figure)


def violins_by_regularization(
    table: Mapping[str, np.ndarray], regularization: np.ndarray, names: Sequence[str], *, titles: Sequence[str]
) -> bytes:
    """For each metric, the spread of its scores over the seeds of every model and regularization strength.

    Reference: Locatello et al. 2020, Figure 6.
    """
    models = list(dict.fromkeys(table["model"]))
    figure, grid = grid_of(len(names), 2, 5.2, 2.2)
    for axes, name, title in zip(grid, names, titles, strict=False):
        place, middles = 0, []
        for position, model in enumerate(models):
            of_model = np.asarray(table["model"]) == model
            first = place
            for level in np.unique(regularization[of_model]):
                scores = table[name][of_model & (regularization == level) & np.isfinite(table[name])]
                if len(scores) > 1 and np.ptp(scores) > 0:
                    parts = axes.violinplot(scores, [place], showmedians=True, widths=0.9)
                    for body in parts["bodies"]:
                        body.set_color(f"C{position % 10}")
                else:
                    axes.plot([place] * len(scores), scores, "k_")
                place += 1
            middles.append((first + place - 1) / 2)
            place += 1
        axes.set_title(text(title))
        axes.set_xticks(middles, texts(models), fontsize=7)
    return cloud_png(figure)


def violins(table: Mapping[str, np.ndarray], names: Sequence[str], columns: int = 4, *, titles=None) -> bytes:
    """For each metric, the spread of its scores over the members of each model, with medians.

    ``titles`` are those of the panels; the names when None.
    """
    models = list(dict.fromkeys(table["model"]))
    figure, grid = grid_of(len(names), columns, 2.6, 2.2)
    for axes, name, title in zip(grid, names, titles or names, strict=False):
        groups = [table[name][(table["model"] == model) & np.isfinite(table[name])] for model in models]
        for place, scores in enumerate(groups):
            if len(scores) > 1 and np.ptp(scores) > 0:
                axes.violinplot(scores, [place], showmedians=True, widths=0.8)
            else:
                axes.plot([place] * len(scores), scores, "k_")
        axes.set_title(text(title))
        axes.set_xticks(range(len(models)), texts(models), rotation=30, ha="right", fontsize=7)
    return cloud_png(figure)


def scatter_matrix(table: Mapping[str, np.ndarray], names: Sequence[str], others: Sequence[str]) -> bytes:
    """Each of ``names`` (rows) against each of ``others`` (columns); a point is a member, a color a model."""
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
    return cloud_png(figure)


def point_clouds(panels: Sequence[tuple[str, str, np.ndarray, np.ndarray]]) -> bytes:
    """One panel of points for each (name of x, name of y, x ``[n]``, y ``[n]``)."""
    figure, grid = grid_of(len(panels), len(panels), 1.9, 1.9)
    for axes, (x_name, y_name, x, y) in zip(grid, panels, strict=False):
        axes.plot(x, y, ".", ms=1, alpha=0.4, color="#234")
        axes.set(xlabel=text(x_name), ylabel=text(y_name))
    return cloud_png(figure)
