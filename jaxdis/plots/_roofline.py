"""How near programs come to what a device can do."""

from collections.abc import Sequence

import numpy as np

from jaxdis.plots import _canvas as canvas


def roofline(
    names: Sequence[str],
    flops: Sequence[float],
    moved: Sequence[float],
    seconds: Sequence[float],
    bytes_per_second: float,
    flops_per_second: float,
):
    """Draw the speed of programs under the roof of a device.

    Args:
      names: of the programs.
      flops: operations of each.
      moved: bytes that each moves.
      seconds: how long each takes.
      bytes_per_second: bandwidth of the device's memory.
      flops_per_second: its peak.

    Returns:
      a matplotlib figure.
    """
    flops, moved, seconds = (np.maximum(np.asarray(values, float), 1e-12) for values in (flops, moved, seconds))
    figure = canvas.figure_of(9.0, 5.5)
    axes = figure.subplots()
    intensity, speed = flops / moved, flops / seconds
    span = np.geomspace(min(intensity.min(initial=0.1), 0.05), max(intensity.max(initial=10.0), 100.0), 100)
    axes.loglog(span, np.minimum(span * bytes_per_second, flops_per_second), color="0.4")
    axes.loglog(intensity, speed, "o", color="#14507a")
    for name, x, y in zip(names, intensity, speed, strict=True):
        axes.annotate(canvas.text(name), (x, y), (3, 3), textcoords="offset points", fontsize=7)
    axes.set_xlabel("operations per byte")
    axes.set_ylabel("operations per second")
    return figure
