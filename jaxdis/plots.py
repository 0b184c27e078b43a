"""Pictures of scores, relations and models.

Each function returns a matplotlib figure, which notebooks show and ``figure.savefig("picture.svg")`` writes; those with
one panel draw on the axes ``ax`` if these are given. Numbers that are not finite are left out. This is the only module
that imports matplotlib.
"""

import io
import warnings
from collections.abc import Callable, Mapping, Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import ArrayLike
from PIL import Image

from jaxdis._core.arrays import as_numpy
from jaxdis._core.finite import finite, median
from jaxdis._core.options import listed, shown

__all__ = ["codes_and_factors", "curves", "dendrogram", "groups_curve", "heat_map"]
__all__ += ["hinton", "image_grid", "loss_curves", "member_lines", "point_clouds", "rank_map", "relation_panels"]
__all__ += ["resources", "roofline", "scatter_matrix", "score_points", "scores_by_regularization", "throughput"]
__all__ += ["top_codes", "violins", "violins_by_regularization"]

STYLE = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.titlesize": 10}
MARKS = "osD^vP*X"
# Pixels per inch.
SHARPNESS = 110
# Letters of a label, and of the name of an axis of a whole figure.
LONGEST = 32
LONGEST_OF_AXIS = 64
# Lines of a legend beside a figure.
LEGEND_LINES = 24
# Rows of a map of ranks whose entries are told as numbers.
MOST_NUMBERS = 20
# Members in a group beyond which points hide each other.
CROWD = 200
# Values of a setting that stand below an axis.
MOST_TICKS = 8
# Samples in a panel of a scatter plot.
MOST_POINTS = 2000
# More names than this do not fit below a panel.
MOST_CLASSES = 8

# An array, or lists of numbers; checked by :func:`numbers`.
Numbers = ArrayLike | Sequence


class Picture(Figure):
    """A matplotlib figure that notebooks show without pyplot, in the library's style."""

    def draw(self, renderer):
        with mpl.rc_context(STYLE), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph")  # a letter that the font lacks is drawn as a box
            super().draw(renderer)

    def _repr_png_(self) -> bytes:
        return png(self)


def grid_of(count: int, columns: int, width: float, height: float):
    """A figure with ``count`` axes in rows; the rest of the last row is empty."""
    columns = min(columns, count)
    rows = -(-count // columns)
    figure = figure_of(width * columns, height * rows + 0.3)
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in grid[count:]:
        axes.set_visible(False)
    return figure, grid


def figure_of(width, height) -> Figure:
    with mpl.rc_context(STYLE):
        return Picture((width, height), dpi=SHARPNESS, layout="constrained")


def axes_in(ax, width: float, height: float):
    """The user's axes, or a new figure's."""
    if ax is None:
        return figure_of(width, height).subplots()
    if not isinstance(ax, mpl.axes.Axes):
        raise ValueError(f"ax: must be axes of matplotlib, got {shown(ax)}")
    return ax


def numbers(name: str, values, *axes: str, **sizes: int) -> np.ndarray:
    """An array of numbers with the named axes, which have the given sizes; NaN for those without a place in it."""
    array = as_numpy(values, name)
    wanted = [sizes.get(axis) for axis in axes]
    fits = array.ndim == len(axes) and all(size in (None, n) for size, n in zip(wanted, array.shape, strict=True))
    if not fits or array.dtype.kind not in "fiub":
        words = ", ".join(axis if size is None else f"{size} {axis}" for axis, size in zip(axes, wanted, strict=True))
        raise ValueError(f"{name}: must be numbers [{words}], got {shown(array)}")
    return drawable(array)


def drawable(array: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(array), array, np.nan) if array.dtype.kind == "f" else array


def labels(name: str, values, count: int) -> list[str]:
    entries = listed(values)
    if entries is None or len(entries) != count:
        raise ValueError(f"{name}: must be {count} names, got {shown(values) if entries is None else len(entries)}")
    return list(map(str, entries))


def columns_of(table, names: Sequence[str], *others: str) -> dict[str, np.ndarray]:
    """Columns from a mapping or a data frame, equally long."""
    found = {}
    for name in dict.fromkeys([*others, *names]):
        if isinstance(table, np.ndarray) or not hasattr(table, "keys") or name not in table:
            have = ", ".join(map(str, table.keys())) if hasattr(table, "keys") else shown(table)
            raise ValueError(f"table: must have a column {name!r}, got {have}")
        found[name] = drawable(np.asarray(table[name]))
        if found[name].ndim != 1 or len(found[name]) != len(next(iter(found.values()))):
            raise ValueError(f"table: must have columns of one length, got {shown(found[name])} in {name!r}")
    return found


def texts(names: Sequence[str]) -> list[str]:
    return [text(name) for name in names]


def inches(names: Sequence[str]) -> float:
    return 0.4 + 0.075 * max((len(text) for text in texts(names)), default=0)


def text(name: str, longest: int = LONGEST) -> str:
    """A name as a label: one line, not too long, and no mathematics."""
    line = "".join(letter if letter.isprintable() else " " for letter in str(name))
    line = line if len(line) <= longest else line[: longest - 1] + "…"
    hidden = line.startswith("_")  # a legend leaves out what begins so
    return (" " * hidden + line).replace("$", r"\$")


def png(figure: Figure) -> bytes:
    """A figure as PNG; without images, it is saved in few colors, which takes a third of the bytes."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # once; Figure.savefig would draw a figure with a layout twice
    size = canvas.get_width_height()
    picture = Image.frombuffer("RGBA", size, canvas.buffer_rgba(), "raw", "RGBA", 0, 1).convert("RGB")
    if not any(axes.images for axes in figure.axes):
        picture = picture.quantize(64, dither=Image.Dither.NONE)
    buffer = io.BytesIO()
    picture.save(buffer, format="png")
    return buffer.getvalue()


def score_points(
    columns: Mapping[str, Numbers],
    groups: Sequence[str] = (),
    bounds: Mapping[str, Numbers] | None = None,
    *,
    title: str = "",
    ax=None,
) -> Figure:
    """Draw a point per member over each score's name, and its median as a line.

    Of more than 200 members in a group, their density is drawn instead.

    Args:
      columns: ``[m]`` by score name.
      groups: ``m`` names, each with its own color and mark.
      bounds: intervals ``[m, 2]`` around some scores, drawn as lines.
      title: above the axes.
    """
    columns = {name: numbers(f"columns[{name!r}]", values, "members") for name, values in columns.items()}
    count = max(map(len, columns.values()))
    columns = columns_of(columns, list(columns))
    groups = np.array(labels("groups", groups, count) if len(groups) else [""] * count)
    axes = axes_in(ax, 1.2 + 0.6 * len(columns), 3 + 0.3 * inches(list(columns)))
    kinds = list(dict.fromkeys(groups.tolist()))
    for position, (kind, mark) in enumerate(zip(kinds, MARKS * len(kinds), strict=False)):
        rows = np.flatnonzero(groups == kind)
        at = 0.6 * ((position + 0.5) / len(kinds) - 0.5)
        for place, (name, values) in enumerate(columns.items()):
            label, color = text(kind) if not place and kind else None, f"C{position % 10}"
            known = values[rows][np.isfinite(values[rows])]
            crowded = len(rows) > CROWD and len(set(known)) > 1
            if crowded:
                density = axes.violinplot(known, [place + at], widths=0.5 / len(kinds), showextrema=False)["bodies"][0]
                density.set(facecolor=color, alpha=0.5, label=label)
            else:
                x = place + at + np.linspace(-0.2, 0.2, len(rows) + 2)[1:-1] / len(kinds)
                axes.plot(x, values[rows], mark, label=label, ms=4, alpha=0.7, color=color)
            if bounds is not None and name in bounds and not crowded:
                axes.vlines(x, *np.asarray(bounds[name])[rows].T, color=color, lw=1)
            if len(rows) > 1:
                axes.hlines(median(values[rows]), place + at - 0.15, place + at + 0.15, color="#234", lw=1.5)
    axes.set_xticks(range(len(columns)), texts(list(columns)), rotation=45, ha="right")
    axes.set(ylabel="score", title=title)
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
    table: Mapping[str, Numbers],
    regularization: Numbers,
    names: Sequence[str],
    columns: int = 4,
    *,
    titles=None,
    setting: str = "",
) -> Figure:
    """Draw every member's score against the rank of its regularization, for each metric; lines join medians.

    Args:
      titles: head the panels; the names when None.
      setting: what all models vary, if it is the same: its values are then ranked over all models and written below.
        Without it, each model has an axis of its own, with a single value in the middle.
    """
    table = columns_of(table, names, "model")
    models = list(dict.fromkeys(table["model"]))
    regularization = numbers("regularization", regularization, "members", members=len(table["model"]))
    figure, grid = grid_of(len(names), columns, 2.6, 2.2)
    common = np.unique(regularization)
    most = max(len(np.unique(regularization[table["model"] == model])) for model in models)
    for axes, name, title in zip(grid, names, titles or names, strict=False):
        for model, mark in zip(models, MARKS * 9, strict=False):
            of_model = table["model"] == model
            levels = np.unique(regularization[of_model])
            places = np.searchsorted(common, levels) if setting else np.arange(len(levels), dtype=float)
            if len(levels) == 1 and not setting:
                places = np.array([(most - 1) / 2])
            place = places[np.searchsorted(levels, regularization[of_model])]
            axes.plot(place, table[name][of_model], mark, ms=4, alpha=0.7, label=text(model))
            medians = [median(table[name][of_model][place == each]) for each in places]
            axes.plot(places, medians, color=axes.lines[-1].get_color(), lw=1)
        axes.set_title(text(title))
        ticks = common if setting and len(common) <= MOST_TICKS else common[:0]
        axes.set_xticks(range(len(ticks)), [f"{level:g}" for level in ticks], fontsize=7)
    if any(map(text, models)):
        grid[0].legend(frameon=False, fontsize=7)
    own = "regularization strength of each model, weakest to strongest"
    figure.supxlabel(text(setting) or own, fontsize=9)
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


def loss_curves(curves: Mapping[str, Numbers], log_every: int, name: str, *, ax=None) -> Figure:
    """Draw a line per setting, the mean over its members ``[entries]``, in a band one standard deviation wide.

    Of members whose training stopped, the entries until then count. Settings that do not fit into the legend are not
    named.
    """
    curves = {label: numbers(f"curves[{label!r}]", members, "members", "entries") for label, members in curves.items()}
    axes = axes_in(ax, 6.4 + 2.2 * (len(curves) > 8), 3.4)
    for position, (label, stacked) in enumerate(curves.items()):
        steps = log_every * np.arange(1, stacked.shape[1] + 1)
        named = text(label) if position < LEGEND_LINES else None
        _in_band(axes, steps, stacked.T, position, lw=1, label=named)
    axes.set(xlabel="updates", ylabel=text(name))
    outside = {"loc": "center left", "bbox_to_anchor": (1, 0.5)} if len(curves) > 8 else {}
    axes.legend(frameon=False, fontsize=7, **outside)
    return axes.figure


def curves(x: Numbers, columns: Mapping[str, Numbers], x_name: str, y_name: str = "score", *, ax=None) -> Figure:
    """Draw each column ``[points, seeds]`` as its mean against ``x [points]`` in a band one standard deviation wide."""
    stacks = -(-len(columns) // LEGEND_LINES)
    axes = axes_in(ax, 4.7 + 2.5 * stacks, 4.2)
    _curves(axes, x, columns)
    axes.set(xlabel=text(x_name, LONGEST_OF_AXIS), ylabel=text(y_name, LONGEST_OF_AXIS))
    axes.legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5), ncols=stacks)
    return axes.figure


def member_lines(values: Numbers, settings: Sequence[str], y_name: str = "score", *, ax=None) -> Figure:
    """Draw a line per member over settings, from ``values [settings, members]``: lines that cross change the
    ranking."""
    values = numbers("values", values, "settings", "members")
    settings = labels("settings", settings, len(values))
    axes = axes_in(ax, 2 + 0.8 * len(settings), 2.8 + inches(settings))
    axes.plot(range(len(settings)), values, ".-", lw=1, alpha=0.7)
    axes.set_xticks(range(len(settings)), texts(settings), rotation=30, ha="right")
    axes.set(ylabel=text(y_name, LONGEST_OF_AXIS))
    return axes.figure


def resources(sizes: Sequence[int], differences: Mapping[str, Numbers], seconds: Mapping[str, Numbers]) -> Figure:
    """Draw against sample sizes how scores differ from those on all samples, and seconds per representation.

    ``differences[column] [sizes − 1, seeds]``; ``seconds[metric] [sizes]``.
    """
    lines = -(-max(len(differences), len(seconds)) // 2)
    figure = figure_of(9.6, 4.2 + 0.14 * lines)
    left, right = figure.subplots(1, 2)
    _curves(left, sizes[:-1], differences)
    _curves(right, sizes, {name: values[:, None] for name, values in seconds.items()})
    drawn = "samples drawn (a third is held out by metrics that do so)"
    left.set(xscale="log", xlabel=drawn, ylabel=f"distance from the score of {sizes[-1]} samples")
    right.set(xscale="log", yscale="log", xlabel=drawn, ylabel="seconds per representation")
    for axes in (left, right):
        axes.legend(frameon=False, fontsize=7, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.12))
    return figure


def _curves(axes, x, columns: Mapping[str, np.ndarray]) -> None:
    x = numbers("x", x, "points")
    columns = {
        name: numbers(f"columns[{name!r}]", values, "points", "seeds", points=len(x))
        for name, values in columns.items()
    }
    for position, (name, values) in enumerate(columns.items()):
        if not np.isnan(values).all():
            _in_band(axes, x, values, position, lw=1.3, marker=".x^"[position // 40 % 3], label=text(name))


def _in_band(axes, x: np.ndarray, values: np.ndarray, position: int, **style) -> None:
    """The mean of ``values [points, seeds]`` where there is a number, in a band one standard deviation wide."""
    defined = ~np.isnan(values).all(axis=1)
    x, mean, spread = x[defined], np.nanmean(values[defined], axis=1), np.nanstd(values[defined], axis=1)
    color, line = f"C{position % 10}", ("-", "--", ":", "-.")[position // 10 % 4]
    axes.plot(x, mean, line, color=color, **{"marker": "." if len(x) == 1 else "", **style})
    axes.fill_between(x, mean - spread, mean + spread, color=color, alpha=0.15, lw=0)


def throughput(rows: Sequence, *, ax=None) -> Figure:
    """Draw throughput against zoo size, a line per name; rows have ``name``, ``zoo_size`` and ``per_second``."""
    axes = axes_in(ax, 9.0, 5.0)
    for position, name in enumerate(dict.fromkeys(row.name for row in rows)):
        points = sorted((row.zoo_size, row.per_second) for row in rows if row.name == name)
        line = ("-", "--", ":", "-.")[position // 10 % 4]
        axes.plot(*zip(*points, strict=True), line, marker=MARKS[position % len(MARKS)], ms=4, label=text(name))
    axes.set(xscale="log", yscale="log", xlabel="zoo size", ylabel="members (training: updates) per second")
    axes.legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5), ncols=2)
    return axes.figure


def roofline(
    names: Sequence[str],
    flops: Numbers,
    moved: Numbers,
    seconds: Numbers,
    bytes_per_second: float,
    flops_per_second: float,
    *,
    ax=None,
) -> Figure:
    """Draw programs' speed under a device's roof: operations by the bytes that they move.

    Args:
      names: what the ``p`` programs are called.
      flops: ``[p]``, each one's operations.
      moved: ``[p]``, bytes that each moves.
      seconds: ``[p]``, how long each takes.
      bytes_per_second: how many bytes per second the device's memory moves.
      flops_per_second: its peak.
    """
    names = labels("names", names, len(seconds))
    given = (("flops", flops), ("moved", moved), ("seconds", seconds))
    flops, moved, seconds = (np.maximum(numbers(name, values, "programs"), 1e-12) for name, values in given)
    axes = axes_in(ax, 9.0, 5.5)
    known = np.isfinite(flops + moved + seconds)
    names = [name for name, is_known in zip(names, known, strict=True) if is_known]
    intensity, speed = (flops / moved)[known], (flops / seconds)[known]
    span = np.geomspace(min(intensity.min(initial=0.1), 0.05), max(intensity.max(initial=10.0), 100.0), 100)
    axes.loglog(span, np.minimum(span * bytes_per_second, flops_per_second), color="0.4")
    axes.loglog(intensity, speed, "o", color="#14507a")
    # Programs in nearly the same place share a label.
    place = np.round(8 * np.log10(np.stack([intensity, speed], axis=1)))
    for cell in np.unique(place, axis=0):
        rows = np.flatnonzero((place == cell).all(axis=1))
        label = text(", ".join(names[row] for row in rows), 3 * LONGEST)
        axes.annotate(label, (intensity[rows[0]], speed[rows[0]]), (5, -7), textcoords="offset points", fontsize=7)
    axes.set(xlabel="operations per byte", ylabel="operations per second")
    return axes.figure


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
            axes.add_patch(mpl.patches.Rectangle((j - side / 2, i - side / 2), side, side, color="#234"))
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
    matrix: Numbers,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    most: float | None = None,
    form: str = ".2f",
    ax=None,
) -> Figure:
    """Draw a matrix, such as a relation or p-values, as numbers on a color scale from 0, white, to ``most``.

    ``form`` is how numbers are written, as in :func:`format`.
    """
    matrix = numbers("matrix", matrix, "rows", "columns")
    rows, columns = labels("rows", rows, matrix.shape[0]), labels("columns", columns, matrix.shape[1])
    axes = axes_in(ax, 0.6 + 0.55 * len(columns) + inches(rows), 0.4 + 0.34 * len(rows) + inches(columns))
    finite = matrix[np.isfinite(matrix)]
    top = most if most is not None else max(float(finite.max(initial=0.0)), 1e-12)
    axes.imshow(matrix, cmap="Blues", vmin=0, vmax=top, aspect="auto")
    for i, j in np.argwhere(np.isfinite(matrix)):
        color = "white" if matrix[i, j] > 0.6 * top else "black"
        axes.text(j, i, f"{matrix[i, j]:{form}}", ha="center", va="center", fontsize=7, color=color)
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
    threshold = numbers("threshold", threshold, "thresholds")
    groups = numbers("groups", groups, "thresholds", thresholds=len(threshold))
    discovered = numbers("discovered", discovered, "thresholds", thresholds=len(threshold))
    axes.step(threshold, groups, where="post", label="independent groups")
    axes.step(threshold, discovered, where="post", ls="--", label="factors discovered")
    axes.set(xlabel="threshold", xlim=(np.nanmax(threshold, initial=1e-6), 0))
    axes.legend(frameon=False, fontsize=7)
    return axes.figure


def dendrogram(merges: Numbers, threshold: Numbers, names: Sequence[str], *, ax=None) -> Figure:
    """Draw which factors are joined by a shared code, and at which threshold.

    ``merges [k − 1, 2]`` are cluster pairs (0 … k − 1 are the factors, higher numbers earlier merges) at ``threshold [k
    − 1]``, descending, as :func:`jaxdis.scores.independent_groups` returns them.
    """
    axes = axes_in(ax, 3.6 + inches(names), 0.9 + 0.32 * len(names))
    k = len(names)
    merges = numbers("merges", merges, "merges", "clusters", merges=k - 1, clusters=2)
    threshold = numbers("threshold", threshold, "merges", merges=k - 1)
    members = {cluster: [cluster] for cluster in range(k)}  # in an order in which no two branches cross
    for step, (a, b) in enumerate(np.asarray(merges).tolist()):
        members[k + step] = members.pop(a) + members.pop(b)
    order = [leaf for group in members.values() for leaf in group]
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
    return axes.figure


def panels_of(draw: Callable, panels: Sequence[tuple], columns: int, width: float, height: float) -> Figure:
    """Draw ``draw(*arguments, ax=axes)`` in a panel for each (title, *arguments)."""
    figure, grid = grid_of(len(panels), columns, width, height)
    for axes, (title, *arguments) in zip(grid, panels, strict=False):
        draw(*arguments, ax=axes)
        axes.set_title(text(title), fontsize=8)
    return figure


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
