"""Images side by side."""

from collections.abc import Sequence

import numpy as np

from jaxdis.plots._canvas import Figure, Numbers, axes_in, inches, labels, numbers, texts


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
