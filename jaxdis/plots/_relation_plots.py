"""Relations between codes and factors: Hinton diagrams, heat maps, independent groups and dendrograms."""

from collections.abc import Sequence

import numpy as np

from jaxdis.plots import _canvas as canvas
from jaxdis.plots._canvas import Figure, Numbers, axes_in, figure_of, grid_of, inches, labels, numbers, text, texts

# Samples in a panel of a scatter plot.
MOST_POINTS = 2000
# More names than this do not fit below a panel.
MOST_CLASSES = 8


def hinton(strength: Numbers, names: Sequence[str], *, ax=None) -> Figure:
    """Draw one square per code (row) and factor (column) in ``strength [d, k]``, with an area proportional to it."""
    strength = numbers("strength", strength, "codes", "factors")
    d, k = strength.shape
    names = labels("names", names, k)
    axes = axes_in(ax, 1 + 0.55 * k + 0.5 * inches(names), 0.6 + 0.35 * d + inches(names))
    _hinton(axes, strength, names)
    return axes.figure


def _hinton(axes, strength: np.ndarray, names: Sequence[str]) -> None:
    d, k = strength.shape
    largest = np.nanmax(strength, initial=0.0) or 1.0
    for i in range(d):
        for j in range(k):
            side = 0.9 * np.sqrt(max(np.nan_to_num(strength[i, j]), 0) / largest)
            axes.add_patch(canvas.rectangle((j - side / 2, i - side / 2), side, side, color="#234"))
    axes.set(xlim=(-0.6, k - 0.4), ylim=(d - 0.4, -0.6), aspect="equal", ylabel="code")
    axes.set_xticks(range(k), texts(names), rotation=45, ha="right")
    axes.set_yticks(range(d), range(d))


def codes_and_factors(
    strength: Numbers,
    codes: Numbers,
    factors: Numbers,
    names: Sequence[str],
    classes: Sequence[Sequence | None] | None = None,
) -> Figure:
    """Draw a Hinton diagram of the strength ``[d, k]`` and a panel for each code ``[n, d]`` and factor ``[n, k]``.

    At most ``MOST_POINTS`` samples are drawn. ``classes`` are as in :class:`jaxdis.Factors`: texts name their factor's
    values, up to ``MOST_CLASSES``.
    """
    strength = numbers("strength", strength, "codes", "factors")
    d, k = strength.shape
    codes = numbers("codes", codes, "samples", "codes", codes=d)
    factors = numbers("factors", factors, "samples", "factors", samples=len(codes), factors=k)
    names = labels("names", names, k)
    side = 1 + 0.55 * k + 0.5 * inches(names)
    figure = figure_of(side + 0.9 + 1.2 * k, max(0.6 + 0.35 * d + inches(names), 0.5 + 0.8 * d))
    left, right = figure.subfigures(1, 2, width_ratios=(side, 0.9 + 1.2 * k))
    _hinton(left.subplots(), strength, names)
    grid = right.subplots(d, k, squeeze=False, sharex="col", sharey="row")
    thinned = slice(None, None, -(-len(codes) // MOST_POINTS))
    for i in range(d):
        for j in range(k):
            grid[i, j].plot(factors[thinned, j], codes[thinned, i], ".", ms=1.5, alpha=0.4, color="#234")
            grid[i, j].set(xticks=[], yticks=[])
        grid[i, 0].set_ylabel(f"code {i}", fontsize=8)
    for axes, name, values in zip(grid[-1], texts(names), classes or [None] * k, strict=True):
        axes.set_xlabel(name, fontsize=8)
        if values and len(values) <= MOST_CLASSES and all(isinstance(value, str) for value in values):
            axes.set_xticks(range(len(values)), texts(values), rotation=90, fontsize=6)
    return figure


def heat_map(
    matrix: Numbers, rows: Sequence[str], columns: Sequence[str], *, most: float | None = None, ax=None
) -> Figure:
    """Draw a matrix, such as a relation or p-values, as numbers on a color scale from 0, white, to ``most``."""
    matrix = numbers("matrix", matrix, "rows", "columns")
    rows, columns = labels("rows", rows, matrix.shape[0]), labels("columns", columns, matrix.shape[1])
    axes = axes_in(ax, 0.6 + 0.55 * len(columns) + inches(rows), 0.4 + 0.34 * len(rows) + inches(columns))
    finite = matrix[np.isfinite(matrix)]
    top = most if most is not None else max(float(finite.max(initial=0.0)), 1e-12)
    axes.imshow(matrix, cmap="Blues", vmin=0, vmax=top, aspect="auto")
    for i, j in np.argwhere(np.isfinite(matrix)):
        color = "white" if matrix[i, j] > 0.6 * top else "black"
        axes.text(j, i, f"{matrix[i, j]:.2f}", ha="center", va="center", fontsize=7, color=color)
    axes.set_xticks(range(len(columns)), texts(columns), rotation=45, ha="right")
    axes.set_yticks(range(len(rows)), texts(rows))
    axes.spines[:].set_visible(False)
    return axes.figure


def relation_panels(panels: Sequence[tuple[str, Numbers]], names: Sequence[str], columns: int) -> Figure:
    """Draw relations ``[d, k]`` as grays, each scaled to its largest entry; a panel for each (title, matrix)."""
    panels = [(title, numbers("panels", matrix, "codes", "factors", factors=len(names))) for title, matrix in panels]
    figure, grid = grid_of(len(panels), columns, 2.4 + 0.3 * inches(names), 1.8 + inches(names))
    for axes, (title, matrix) in zip(grid, panels, strict=False):
        axes.imshow(matrix, cmap="Blues", vmin=0, vmax=max(float(np.nanmax(matrix, initial=0.0)), 1e-12), aspect="auto")
        axes.set_title(text(title), fontsize=8)
        axes.set_xticks(range(len(names)), texts(names), rotation=45, ha="right", fontsize=7)
        axes.set_yticks([])
        axes.set_ylabel("code", fontsize=7)
    return figure


def groups_curve(threshold: Numbers, groups: Numbers, discovered: Numbers, *, ax=None) -> Figure:
    """Draw independent groups and discovered factors ``[e]`` by threshold (Locatello et al. 2020, §6.1.2)."""
    axes = axes_in(ax, 4.6, 2.6)
    _groups_curve(axes, threshold, groups, discovered)
    axes.legend(frameon=False, fontsize=7)
    return axes.figure


def _groups_curve(axes, threshold: np.ndarray, groups: np.ndarray, discovered: np.ndarray) -> None:
    threshold = numbers("threshold", threshold, "thresholds")
    groups = numbers("groups", groups, "thresholds", thresholds=len(threshold))
    discovered = numbers("discovered", discovered, "thresholds", thresholds=len(threshold))
    axes.step(threshold, groups, where="post", label="independent groups")
    axes.step(threshold, discovered, where="post", ls="--", label="factors discovered")
    axes.set(xlabel="threshold", xlim=(np.nanmax(threshold, initial=1e-6), 0))


def group_panels(panels: Sequence[tuple[str, Numbers, Numbers, Numbers]], columns: int) -> Figure:
    """Draw a panel as :func:`groups_curve` for each (title, threshold, groups, discovered)."""
    figure, grid = grid_of(len(panels), columns, 2.8, 2.0)
    for axes, (title, *curve) in zip(grid, panels, strict=False):
        _groups_curve(axes, *curve)
        axes.set_title(text(title), fontsize=8)
    grid[0].legend(frameon=False, fontsize=6)
    return figure


def dendrogram(merges: Numbers, threshold: Numbers, names: Sequence[str], *, ax=None) -> Figure:
    """Draw which factors are joined by a shared code, and at which threshold.

    ``merges [k − 1, 2]`` are cluster pairs (0 … k − 1 are the factors, higher numbers earlier merges) at ``threshold [k
    − 1]``, descending, as :func:`jaxdis.scores.independent_groups` returns them.
    """
    axes = axes_in(ax, 3.6 + inches(names), 0.9 + 0.32 * len(names))
    _dendrogram(axes, merges, threshold, names)
    return axes.figure


def _dendrogram(axes, merges: np.ndarray, threshold: np.ndarray, names: Sequence[str]) -> None:
    k = len(names)
    merges = numbers("merges", merges, "merges", "clusters", merges=k - 1, clusters=2)
    threshold = numbers("threshold", threshold, "merges", merges=k - 1)
    order = _leaves(merges, k)
    height = {cluster: float(order.index(cluster)) for cluster in range(k)}
    leaves = float(np.nanmax(threshold, initial=0.0)) * 1.05 or 1.0
    start = dict.fromkeys(range(k), leaves)
    for step, (a, b) in enumerate(np.asarray(merges).tolist()):
        at = float(threshold[step])
        for cluster in (a, b):
            axes.plot([start[cluster], at], [height[cluster]] * 2, color="#234", lw=1.2)
        axes.plot([at, at], [height[a], height[b]], color="#234", lw=1.2)
        height[k + step], start[k + step] = (height[a] + height[b]) / 2, at
    axes.set_yticks(range(k), texts([names[cluster] for cluster in order]))
    axes.set(xlabel="threshold", xlim=(leaves, 0))


def dendrogram_panels(panels: Sequence[tuple[str, Numbers, Numbers]], names: Sequence[str], columns: int) -> Figure:
    """Draw a panel as :func:`dendrogram` for each (title, merges, threshold)."""
    figure, grid = grid_of(len(panels), columns, 2.0 + inches(names), 0.9 + 0.26 * len(names))
    for axes, (title, merges, threshold) in zip(grid, panels, strict=False):
        _dendrogram(axes, merges, threshold, names)
        axes.set_title(text(title), fontsize=8)
    return figure


def _leaves(merges, k: int) -> list[int]:
    """Factors in an order in which no two branches cross."""
    members = {cluster: [cluster] for cluster in range(k)}
    for step, (a, b) in enumerate(np.asarray(merges).tolist()):
        members[k + step] = members.pop(a) + members.pop(b)
    return [leaf for group in members.values() for leaf in group]


def image_grid(images: Numbers, row_labels: Sequence[str] = (), *, ax=None) -> Figure:
    """Draw images ``[rows, columns, h, w, c]`` in [0, 1] (or uint8 in 0…255) side by side, with a label per row."""
    images = numbers("images", images, "rows", "columns", "h", "w", "c")
    row_labels = labels("row_labels", row_labels, len(images)) if len(row_labels) else ()
    images = images / 255 if images.dtype == np.uint8 else images
    rows, columns, height, width, channels = images.shape
    framed = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1), (0, 0)), constant_values=0.5)
    sheet = framed.transpose(0, 2, 1, 3, 4).reshape(rows * (height + 2), columns * (width + 2), channels)
    axes = axes_in(ax, 0.6 * columns + (0.3 + inches(row_labels) if row_labels else 0), 0.6 * rows)
    axes.imshow(np.clip(sheet.squeeze(-1) if channels == 1 else sheet, 0, 1), cmap="gray", vmin=0, vmax=1)
    axes.set_xticks([])
    axes.set_yticks(
        [(height + 2) * (row + 0.5) for row in range(rows)] if row_labels else [], texts(row_labels) or None
    )
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    return axes.figure
