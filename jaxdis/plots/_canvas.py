"""What all pictures share: figures, axes, labels, checks, and PNG bytes; the only module that imports matplotlib."""

import io
import warnings
from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import ArrayLike
from PIL import Image

from jaxdis._core.arrays import as_numpy
from jaxdis._core.options import listed, shown

STYLE = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.titlesize": 10}
MARKS = "osD^vP*X"
# Pixels per inch.
SHARPNESS = 110
# Letters of a label, and of the name of an axis of a whole figure.
LONGEST = 32
LONGEST_OF_AXIS = 64
# Lines of a legend beside a figure.
LEGEND_LINES = 24

# An array, or lists of numbers; checked by :func:`numbers`.
Numbers = ArrayLike | Sequence
rectangle = mpl.patches.Rectangle


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
