"""Pictures of scores, relations and models; the only module that imports matplotlib. Each returns PNG bytes."""

import io
import warnings
from collections.abc import Mapping, Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from PIL import Image

_STYLE = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.titlesize": 10}
_MARKS = "osD^vP*X"
# Letters of a label.
_LONGEST = 32
# Samples in a panel of a scatter plot.
_MOST_POINTS = 2000
# Rows of a map of ranks whose entries are told as numbers.
_MOST_NUMBERS = 20
# Lines of a legend beside a figure.
_LEGEND_LINES = 24


def hinton(strength: np.ndarray, names: Sequence[str]) -> bytes:
    """One square per code (row) and factor (column), with an area proportional to the strength."""
    d, k = strength.shape
    figure = _figure(1 + 0.55 * k + 0.5 * _inches(names), 0.6 + 0.35 * d + _inches(names))
    _hinton(figure.subplots(), strength, names)
    return _png(figure)


def _hinton(axes, strength: np.ndarray, names: Sequence[str]) -> None:
    d, k = strength.shape
    largest = np.nanmax(strength) or 1.0
    for i in range(d):
        for j in range(k):
            side = 0.9 * np.sqrt(max(np.nan_to_num(strength[i, j]), 0) / largest)
            axes.add_patch(mpl.patches.Rectangle((j - side / 2, i - side / 2), side, side, color="#234"))
    axes.set(xlim=(-0.6, k - 0.4), ylim=(d - 0.4, -0.6), aspect="equal", ylabel="code")
    axes.set_xticks(range(k), _texts(names), rotation=45, ha="right")
    axes.set_yticks(range(d), range(d))


def codes_and_factors(strength: np.ndarray, codes: np.ndarray, factors: np.ndarray, names: Sequence[str]) -> bytes:
    """A Hinton diagram of the strength, and beside it codes ``[n, d]`` against factors ``[n, k]``, a panel per pair.

    At most ``_MOST_POINTS`` samples are drawn.
    """
    d, k = strength.shape
    side = 1 + 0.55 * k + 0.5 * _inches(names)
    figure = _figure(side + 0.9 + 1.2 * k, max(0.6 + 0.35 * d + _inches(names), 0.5 + 0.8 * d))
    left, right = figure.subfigures(1, 2, width_ratios=(side, 0.9 + 1.2 * k))
    _hinton(left.subplots(), strength, names)
    grid = right.subplots(d, k, squeeze=False, sharex="col", sharey="row")
    some = slice(None, None, -(-len(codes) // _MOST_POINTS))
    for i in range(d):
        for j in range(k):
            grid[i, j].plot(factors[some, j], codes[some, i], ".", ms=1.5, alpha=0.4, color="#234")
            grid[i, j].set(xticks=[], yticks=[])
        grid[i, 0].set_ylabel(f"code {i}", fontsize=8)
    for axes, name in zip(grid[-1], _texts(names), strict=True):
        axes.set_xlabel(name, fontsize=8)
    return _png(figure)


def throughput(rows: Sequence) -> bytes:
    """Throughput against zoo size, a line per name; rows as :class:`jaxdis.benchmark.Row`."""
    figure = _figure(9, 5)
    axes = figure.subplots()
    for position, name in enumerate(dict.fromkeys(row.name for row in rows)):
        mine = sorted((row.zoo_size, row.per_second) for row in rows if row.name == name)
        line = ("-", "--", ":", "-.")[position // 10 % 4]
        axes.plot(*zip(*mine, strict=True), line, marker=_MARKS[position % len(_MARKS)], ms=4, label=_text(name))
    axes.set(xscale="log", yscale="log", xlabel="zoo size", ylabel="members (training: updates) per second")
    axes.legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5), ncols=2)
    return _png(figure)


def rank_map(matrix: np.ndarray, names: Sequence[str], others: Sequence[str] | None = None) -> bytes:
    """Rank correlations of metrics (with ``others``) as numbers on colors, in hundredths as the papers print them;
    colors alone for more than 20 metrics."""
    others = names if others is None else others
    figure = _figure(0.6 + 0.42 * len(others) + _inches(names), 0.4 + 0.42 * len(names) + _inches(others))
    axes = figure.subplots()
    axes.imshow(matrix, cmap="RdBu_r", vmin=-1, vmax=1)
    for a, b in np.argwhere(np.isfinite(matrix)) if len(names) <= _MOST_NUMBERS else ():
        color = "white" if abs(matrix[a, b]) > 0.6 else "black"
        axes.text(b, a, f"{100 * matrix[a, b]:.0f}", ha="center", va="center", fontsize=7, color=color)
    axes.set_xticks(range(len(others)), _texts(others), rotation=60, ha="right")
    axes.set_yticks(range(len(names)), _texts(names))
    axes.spines[:].set_visible(False)
    return _png(figure)


def scores_by_strength(
    table: Mapping[str, np.ndarray], strength: np.ndarray, names: Sequence[str], columns: int = 4, *, titles=None
) -> bytes:
    """For each metric, every member's score against the strength of its model, by rank of strength; lines join medians.

    ``titles`` of the panels are the names if None.
    """
    models = list(dict.fromkeys(table["model"]))
    figure, grid = _grid(len(names), columns, 2.6, 2.2)
    for axes, name, title in zip(grid, names, titles or names, strict=False):
        for model, mark in zip(models, _MARKS * 9, strict=False):
            mine = table["model"] == model
            levels = np.unique(strength[mine])
            place = np.searchsorted(levels, strength[mine])
            axes.plot(place, table[name][mine], mark, ms=4, alpha=0.7, label=_text(model))
            medians = [median(table[name][mine][place == p]) for p in range(len(levels))]
            axes.plot(range(len(levels)), medians, color=axes.lines[-1].get_color(), lw=1)
        axes.set_title(_text(title))
        axes.set_xticks([])
    grid[0].legend(frameon=False, fontsize=7)
    figure.supxlabel("strength of each model, weakest to strongest", fontsize=9)
    return _cloud_png(figure)


def violins_by_strength(
    table: Mapping[str, np.ndarray], strength: np.ndarray, names: Sequence[str], *, titles: Sequence[str]
) -> bytes:
    """For each metric, the spread of its scores over the seeds of every model and strength (Locatello et al. 2020,
    Figure 6)."""
    models = list(dict.fromkeys(table["model"]))
    figure, grid = _grid(len(names), 2, 5.2, 2.2)
    for axes, name, title in zip(grid, names, titles, strict=False):
        place, middles = 0, []
        for position, model in enumerate(models):
            mine = np.asarray(table["model"]) == model
            first = place
            for level in np.unique(strength[mine]):
                scores = table[name][mine & (strength == level) & np.isfinite(table[name])]
                if len(scores) > 1 and np.ptp(scores) > 0:
                    parts = axes.violinplot(scores, [place], showmedians=True, widths=0.9)
                    for body in parts["bodies"]:
                        body.set_color(f"C{position % 10}")
                else:
                    axes.plot([place] * len(scores), scores, "k_")
                place += 1
            middles.append((first + place - 1) / 2)
            place += 1
        axes.set_title(_text(title))
        axes.set_xticks(middles, _texts(models), fontsize=7)
    return _cloud_png(figure)


def violins(table: Mapping[str, np.ndarray], names: Sequence[str], columns: int = 4, *, titles=None) -> bytes:
    """For each metric, the spread of its scores over the members of each model, with medians.

    ``titles`` of the panels are the names if None.
    """
    models = list(dict.fromkeys(table["model"]))
    figure, grid = _grid(len(names), columns, 2.6, 2.2)
    for axes, name, title in zip(grid, names, titles or names, strict=False):
        groups = [table[name][(table["model"] == one) & np.isfinite(table[name])] for one in models]
        for place, scores in enumerate(groups):
            if len(scores) > 1 and np.ptp(scores) > 0:
                axes.violinplot(scores, [place], showmedians=True, widths=0.8)
            else:
                axes.plot([place] * len(scores), scores, "k_")
        axes.set_title(_text(title))
        axes.set_xticks(range(len(models)), _texts(models), rotation=30, ha="right", fontsize=7)
    return _cloud_png(figure)


def scatter_matrix(table: Mapping[str, np.ndarray], names: Sequence[str], others: Sequence[str]) -> bytes:
    """Each of ``names`` (rows) against each of ``others`` (columns); a point is a member, a color a model."""
    models = list(dict.fromkeys(table["model"]))
    figure = _figure(1.5 * len(others) + 1, 1.4 * len(names) + 0.8)
    grid = figure.subplots(len(names), len(others), squeeze=False, sharex="col", sharey="row")
    for row, name in enumerate(names):
        for column, other in enumerate(others):
            for model in models:
                mine = table["model"] == model
                grid[row, column].plot(table[other][mine], table[name][mine], "o", ms=3, alpha=0.6)
            grid[row, column].tick_params(labelsize=6)
        grid[row, 0].set_ylabel(_text(name), fontsize=7)
    for column, other in enumerate(others):
        grid[-1, column].set_xlabel(_text(other), fontsize=7)
    return _cloud_png(figure)


def point_clouds(panels: Sequence[tuple[str, str, np.ndarray, np.ndarray]]) -> bytes:
    """One panel of points for each (name of x, name of y, x ``[n]``, y ``[n]``)."""
    figure, grid = _grid(len(panels), len(panels), 1.9, 1.9)
    for axes, (x_name, y_name, x, y) in zip(grid, panels, strict=False):
        axes.plot(x, y, ".", ms=1, alpha=0.4, color="#234")
        axes.set(xlabel=_text(x_name), ylabel=_text(y_name))
    return _cloud_png(figure)


def heat_map(matrix: np.ndarray, rows: Sequence[str], columns: Sequence[str], *, most: float | None = None) -> bytes:
    """A matrix of numbers on colors, such as a relation or p-values; white is 0."""
    figure = _figure(0.6 + 0.55 * len(columns) + _inches(rows), 0.4 + 0.34 * len(rows) + _inches(columns))
    axes = figure.subplots()
    known = matrix[np.isfinite(matrix)]
    top = most if most is not None else max(float(known.max(initial=0.0)), 1e-12)
    axes.imshow(matrix, cmap="Blues", vmin=0, vmax=top, aspect="auto")
    for i, j in np.argwhere(np.isfinite(matrix)):
        color = "white" if matrix[i, j] > 0.6 * top else "black"
        axes.text(j, i, f"{matrix[i, j]:.2f}", ha="center", va="center", fontsize=7, color=color)
    axes.set_xticks(range(len(columns)), _texts(columns), rotation=45, ha="right")
    axes.set_yticks(range(len(rows)), _texts(rows))
    axes.spines[:].set_visible(False)
    return _png(figure)


def dendrogram(merges: np.ndarray, threshold: np.ndarray, names: Sequence[str]) -> bytes:
    """Which factors are joined by a shared code, and at which threshold.

    ``merges [k − 1, 2]`` are pairs of clusters (0 … k − 1 are the factors, higher numbers earlier merges) at
    ``threshold [k − 1]``, descending, as :func:`jaxdis.scores.independent_groups` returns them.
    """
    figure = _figure(3.6 + _inches(names), 0.9 + 0.32 * len(names))
    _dendrogram(figure.subplots(), merges, threshold, names)
    return _png(figure)


def _dendrogram(axes, merges: np.ndarray, threshold: np.ndarray, names: Sequence[str]) -> None:
    k = len(names)
    order = _leaves(merges, k)
    height = {cluster: float(order.index(cluster)) for cluster in range(k)}
    start = dict.fromkeys(range(k), float(np.max(threshold, initial=0.0)) * 1.05 or 1.0)
    for step, (a, b) in enumerate(np.asarray(merges).tolist()):
        at = float(threshold[step])
        for cluster in (a, b):
            axes.plot([start[cluster], at], [height[cluster]] * 2, color="#234", lw=1.2)
        axes.plot([at, at], [height[a], height[b]], color="#234", lw=1.2)
        height[k + step], start[k + step] = (height[a] + height[b]) / 2, at
    axes.set_yticks(range(k), _texts([names[cluster] for cluster in order]))
    axes.set(xlabel="threshold", xlim=(max(start.values()), 0))


def relation_panels(panels: Sequence[tuple[str, np.ndarray]], names: Sequence[str], columns: int) -> bytes:
    """Relations ``[d, k]`` as grays, each scaled to its largest entry; a panel for each (title, matrix)."""
    figure, grid = _grid(len(panels), columns, 2.4, 2.6)
    for axes, (title, matrix) in zip(grid, panels, strict=False):
        axes.imshow(matrix, cmap="Blues", vmin=0, vmax=max(float(np.nanmax(matrix, initial=0.0)), 1e-12), aspect="auto")
        axes.set_title(_text(title), fontsize=8)
        axes.set_xticks(range(len(names)), _texts(names), rotation=45, ha="right", fontsize=7)
        axes.set_yticks([])
        axes.set_ylabel("code", fontsize=7)
    return _png(figure)


def group_panels(panels: Sequence[tuple[str, np.ndarray, np.ndarray, np.ndarray]], columns: int) -> bytes:
    """A panel as :func:`groups_curve` for each (title, threshold, groups, discovered)."""
    figure, grid = _grid(len(panels), columns, 2.8, 2.0)
    for axes, (title, *curve) in zip(grid, panels, strict=False):
        _groups_curve(axes, *curve)
        axes.set_title(_text(title), fontsize=8)
    grid[0].legend(frameon=False, fontsize=6)
    return _png(figure)


def dendrogram_panels(
    panels: Sequence[tuple[str, np.ndarray, np.ndarray]], names: Sequence[str], columns: int
) -> bytes:
    """A panel as :func:`dendrogram` for each (title, merges, threshold)."""
    figure, grid = _grid(len(panels), columns, 2.8, 0.9 + 0.26 * len(names))
    for axes, (title, merges, threshold) in zip(grid, panels, strict=False):
        _dendrogram(axes, merges, threshold, names)
        axes.set_title(_text(title), fontsize=8)
    return _png(figure)


def _leaves(merges, k: int) -> list[int]:
    """Factors in an order in which no two branches cross."""
    members = {cluster: [cluster] for cluster in range(k)}
    for step, (a, b) in enumerate(np.asarray(merges).tolist()):
        members[k + step] = members.pop(a) + members.pop(b)
    return [leaf for group in members.values() for leaf in group]


def loss_curves(curves: Mapping[str, Sequence[np.ndarray]], log_every: int, name: str) -> bytes:
    """A line per setting, the mean over its members ``[entries]``, in a band of one standard deviation.

    Settings beyond the room of the legend have no name.
    """
    figure = _figure(6.4 + 2.2 * (len(curves) > 8), 3.4)
    axes = figure.subplots()
    for position, (label, members) in enumerate(curves.items()):
        stacked = np.stack(members)
        steps = log_every * np.arange(1, stacked.shape[1] + 1)
        mark, mean, spread = "." if len(steps) == 1 else "", stacked.mean(axis=0), stacked.std(axis=0)
        color, line = f"C{position % 10}", ("-", "--", ":", "-.")[position // 10 % 4]
        named = _text(label) if position < _LEGEND_LINES else None
        axes.plot(steps, mean, line, marker=mark, color=color, lw=1, label=named)
        axes.fill_between(steps, mean - spread, mean + spread, color=color, alpha=0.15, lw=0)
    axes.set(xlabel="updates", ylabel=_text(name))
    outside = {"loc": "center left", "bbox_to_anchor": (1, 0.5)} if len(curves) > 8 else {}
    axes.legend(frameon=False, fontsize=7, **outside)
    return _png(figure)


def groups_curve(threshold: np.ndarray, groups: np.ndarray, discovered: np.ndarray) -> bytes:
    """Independent groups and discovered factors against the threshold (Locatello et al. 2020, §6.1.2)."""
    figure = _figure(4.6, 2.6)
    axes = figure.subplots()
    _groups_curve(axes, threshold, groups, discovered)
    axes.legend(frameon=False, fontsize=7)
    return _png(figure)


def _groups_curve(axes, threshold: np.ndarray, groups: np.ndarray, discovered: np.ndarray) -> None:
    axes.step(threshold, groups, where="post", label="independent groups")
    axes.step(threshold, discovered, where="post", ls="--", label="factors discovered")
    axes.set(xlabel="threshold", xlim=(max(threshold.max(), 1e-6), 0))


def curves(x: Sequence[float], columns: Mapping[str, np.ndarray], x_name: str, y_name: str = "score") -> bytes:
    """Each column ``[points, seeds]`` as its mean against ``x`` in a band of one standard deviation."""
    stacks = -(-len(columns) // _LEGEND_LINES)
    figure = _figure(4.7 + 2.5 * stacks, 4.2)
    axes = figure.subplots()
    _curves(axes, x, columns)
    axes.set(xlabel=x_name, ylabel=y_name)
    axes.legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5), ncols=stacks)
    return _png(figure)


def resources(sizes: Sequence[int], differences: Mapping[str, np.ndarray], seconds: Mapping[str, np.ndarray]) -> bytes:
    """Two panels over sample sizes: difference of scores from those of all samples, and seconds per representation.

    ``differences[column] [sizes − 1, seeds]``; ``seconds[metric] [sizes]``.
    """
    lines = -(-max(len(differences), len(seconds)) // 2)
    figure = _figure(9.6, 4.2 + 0.14 * lines)
    left, right = figure.subplots(1, 2)
    _curves(left, sizes[:-1], differences)
    _curves(right, sizes, {name: values[:, None] for name, values in seconds.items()})
    drawn = "samples drawn (a third is held out by metrics that do so)"
    left.set(xscale="log", xlabel=drawn, ylabel=f"distance from the score of {sizes[-1]} samples")
    right.set(xscale="log", yscale="log", xlabel=drawn, ylabel="seconds a representation")
    for axes in (left, right):
        axes.legend(frameon=False, fontsize=7, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.12))
    return _png(figure)


def _curves(axes, x, columns: Mapping[str, np.ndarray]) -> None:
    for position, (name, values) in enumerate(columns.items()):
        known = np.isfinite(values).any(axis=1)
        if not known.any():
            continue
        at, rows = np.asarray(x, float)[known], values[known]
        mean, spread = np.nanmean(rows, axis=1), np.nanstd(rows, axis=1)
        color, line = f"C{position % 10}", ("-", "--", ":", "-.")[position // 10 % 4]
        mark = ".x^"[position // 40 % 3]
        axes.plot(at, mean, line, color=color, lw=1.3, marker=mark, label=_text(name))
        axes.fill_between(at, mean - spread, mean + spread, color=color, alpha=0.15, lw=0)


def image_grid(images: np.ndarray, row_labels: Sequence[str] = ()) -> bytes:
    """Images ``[rows, columns, h, w, c]`` in [0, 1] as one picture."""
    rows, columns, height, width, channels = images.shape
    framed = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1), (0, 0)), constant_values=0.5)
    sheet = framed.transpose(0, 2, 1, 3, 4).reshape(rows * (height + 2), columns * (width + 2), channels)
    figure = _figure(0.6 * columns + (0.3 + _inches(row_labels) if row_labels else 0), 0.6 * rows)
    axes = figure.subplots()
    axes.imshow(np.clip(sheet.squeeze(-1) if channels == 1 else sheet, 0, 1), cmap="gray", vmin=0, vmax=1)
    axes.set_xticks([])
    axes.set_yticks(
        [(height + 2) * (row + 0.5) for row in range(rows)] if row_labels else [], _texts(row_labels) or None
    )
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    return _png(figure)


def median(scores: np.ndarray) -> float:
    """Of the scores that are finite; NaN if there are none."""
    known = scores[np.isfinite(scores)]
    return float(np.median(known)) if len(known) else float("nan")


def _grid(count: int, columns: int, width: float, height: float):
    """A figure and ``count`` axes in rows; the rest of the last row is empty."""
    columns = min(columns, count)
    rows = -(-count // columns)
    figure = _figure(width * columns, height * rows + 0.3)
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in grid[count:]:
        axes.set_visible(False)
    return figure, grid


def _figure(width, height) -> Figure:
    with mpl.rc_context(_STYLE):
        return Figure((width, height), layout="constrained")


def _texts(names: Sequence[str]) -> list[str]:
    return [_text(name) for name in names]


def _inches(names: Sequence[str]) -> float:
    """Room for the longest label."""
    return 0.4 + 0.075 * max((len(text) for text in _texts(names)), default=0)


def _text(name: str) -> str:
    """A name as a label: one line, not too long, and no mathematics."""
    line = "".join(letter if letter.isprintable() else " " for letter in str(name))
    line = line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
    hidden = line.startswith("_")  # a legend leaves out what begins so
    return (" " * hidden + line).replace("$", r"\$")


def _png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    with mpl.rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # a letter that the font lacks is drawn as a box
        figure.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()


def _cloud_png(figure: Figure) -> bytes:
    """As :func:`_png`, in few colors: a third of the bytes where thousands of translucent points overlap."""
    buffer = io.BytesIO()
    with Image.open(io.BytesIO(_png(figure))) as picture:
        picture.convert("RGB").quantize(64, dither=Image.Dither.NONE).save(buffer, format="png", optimize=True)
    return buffer.getvalue()
