"""What all pictures share: figures, grids of axes, labels, and PNG bytes; the only module that imports matplotlib."""

import io
import warnings
from collections.abc import Sequence

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

STYLE = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.titlesize": 10}
MARKS = "osD^vP*X"
# Pixels per inch.
SHARPNESS = 110
# Letters of a label, and of the name of an axis of a whole figure.
LONGEST = 32
LONGEST_OF_AXIS = 64
# Lines of a legend beside a figure.
LEGEND_LINES = 24

rectangle = mpl.patches.Rectangle


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
        return Figure((width, height), dpi=SHARPNESS, layout="constrained")


def texts(names: Sequence[str]) -> list[str]:
    return [text(name) for name in names]


def inches(names: Sequence[str]) -> float:
    """Room for the longest label."""
    return 0.4 + 0.075 * max((len(text) for text in texts(names)), default=0)


def text(name: str, longest: int = LONGEST) -> str:
    """A name as a label: one line, not too long, and no mathematics."""
    line = "".join(letter if letter.isprintable() else " " for letter in str(name))
    line = line if len(line) <= longest else line[: longest - 1] + "…"
    hidden = line.startswith("_")  # a legend leaves out what begins so
    return (" " * hidden + line).replace("$", r"\$")


def png(figure: Figure) -> bytes:
    return _bytes_of(_drawn(figure))


def cloud_png(figure: Figure) -> bytes:
    """As :func:`png`, in few colors: a third of the bytes where thousands of translucent points overlap."""
    return _bytes_of(_drawn(figure).quantize(64, dither=Image.Dither.NONE), optimize=True)


def _drawn(figure: Figure) -> Image.Image:
    """The figure drawn once; ``Figure.savefig`` would draw one with a layout twice."""
    canvas = FigureCanvasAgg(figure)
    with mpl.rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # a letter that the font lacks is drawn as a box
        canvas.draw()
    return Image.frombuffer("RGBA", canvas.get_width_height(), canvas.buffer_rgba(), "raw", "RGBA", 0, 1).convert("RGB")


def _bytes_of(picture: Image.Image, **options) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, format="png", **options)
    return buffer.getvalue()
