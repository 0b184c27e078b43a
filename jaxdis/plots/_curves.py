"""Curves: losses by update, scores over a parameter, throughput over zoo size, programs under a device's roof."""

from collections.abc import Mapping, Sequence

import numpy as np

from jaxdis.plots import _canvas as canvas
from jaxdis.plots._canvas import Figure, Numbers, axes_in, figure_of, inches, labels, numbers, text, texts


def loss_curves(curves: Mapping[str, Numbers], log_every: int, name: str, *, ax=None) -> Figure:
    """Draw a line per setting, the mean over its members ``[entries]``, in a band one standard deviation wide.

    Of members whose training stopped, the entries until then count. Settings that do not fit into the legend are not
    named.
    """
    curves = {label: numbers(f"curves[{label!r}]", members, "members", "entries") for label, members in curves.items()}
    axes = axes_in(ax, 6.4 + 2.2 * (len(curves) > 8), 3.4)
    for position, (label, stacked) in enumerate(curves.items()):
        steps = log_every * np.arange(1, stacked.shape[1] + 1)
        named = text(label) if position < canvas.LEGEND_LINES else None
        _in_band(axes, steps, stacked.T, position, lw=1, label=named)
    axes.set(xlabel="updates", ylabel=text(name))
    outside = {"loc": "center left", "bbox_to_anchor": (1, 0.5)} if len(curves) > 8 else {}
    axes.legend(frameon=False, fontsize=7, **outside)
    return axes.figure


def curves(x: Numbers, columns: Mapping[str, Numbers], x_name: str, y_name: str = "score", *, ax=None) -> Figure:
    """Draw each column ``[points, seeds]`` as its mean against ``x [points]`` in a band one standard deviation wide."""
    stacks = -(-len(columns) // canvas.LEGEND_LINES)
    axes = axes_in(ax, 4.7 + 2.5 * stacks, 4.2)
    _curves(axes, x, columns)
    axes.set(xlabel=text(x_name, canvas.LONGEST_OF_AXIS), ylabel=text(y_name, canvas.LONGEST_OF_AXIS))
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
    axes.set(ylabel=text(y_name, canvas.LONGEST_OF_AXIS))
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
        axes.plot(
            *zip(*points, strict=True), line, marker=canvas.MARKS[position % len(canvas.MARKS)], ms=4, label=text(name)
        )
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
        label = text(", ".join(names[row] for row in rows), 3 * canvas.LONGEST)
        axes.annotate(label, (intensity[rows[0]], speed[rows[0]]), (5, -7), textcoords="offset points", fontsize=7)
    axes.set(xlabel="operations per byte", ylabel="operations per second")
    return axes.figure
