"""How near programs come to what a device can do."""

from collections.abc import Sequence

import numpy as np

from jaxdis.plots._canvas import Figure, Numbers, axes_in, labels, numbers, text


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
    """Draw the speed of programs under the roof of a device: operations by the bytes that they move.

    Args:
      names: of ``p`` programs.
      flops: ``[p]``, operations of each.
      moved: ``[p]``, bytes that each moves.
      seconds: ``[p]``, how long each takes.
      bytes_per_second: bandwidth of the device's memory.
      flops_per_second: its peak.
    """
    names = labels("names", names, len(seconds))
    given = (("flops", flops), ("moved", moved), ("seconds", seconds))
    flops, moved, seconds = (np.maximum(numbers(name, values, "programs"), 1e-12) for name, values in given)
    axes = axes_in(ax, 9.0, 5.5)
    intensity, speed = flops / moved, flops / seconds
    span = np.geomspace(min(intensity.min(initial=0.1), 0.05), max(intensity.max(initial=10.0), 100.0), 100)
    axes.loglog(span, np.minimum(span * bytes_per_second, flops_per_second), color="0.4")
    axes.loglog(intensity, speed, "o", color="#14507a")
    for name, x, y in zip(names, intensity, speed, strict=True):
        axes.annotate(text(name), (x, y), (3, 3), textcoords="offset points", fontsize=7)
    axes.set(xlabel="operations per byte", ylabel="operations per second")
    return axes.figure
