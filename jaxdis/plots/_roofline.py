"""How near programs come to what a device can do."""

from collections.abc import Sequence

import numpy as np

from jaxdis.plots._canvas import LONGEST, Figure, Numbers, axes_in, labels, numbers, text


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
