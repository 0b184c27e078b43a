"""What ``jaxdis benchmark --target`` shows, in the terminal, as JSON and as a page with a roofline."""

import json
from collections.abc import Sequence

from jaxdis._core.targets import Target
from jaxdis._core.version import __version__
from jaxdis.cli._estimates import Estimate, Failure

TITLE = "Estimated from programs compiled for {}, not measured"
MODEL = (
    "A call takes the longest of: its kernels, 3 µs each, and 10 µs for each wait of the host; the bytes it moves, at "
    "the bandwidth of the memory; its operations, at the peak of float32; its inputs, copied from the host. The model "
    "ignores caches and faster sorts of the device (too slow), lets the three overlap fully (too fast), and counts "
    "loops that end when the data say so on two members. Sums that are added "
    "in place count as bytes alone (too fast). On an H200, most metrics took 0.7 to 3 times as long, SAP 24 times."
)
COLUMNS = ("ms per member", "bound by", "together", "fit", "half", "kernels", "MB", "MFLOP", "memory MB", "compile s")
# Of these, as many as fit a terminal.
SHOWN = 6
MEANINGS = (
    "together: members in one call; fit: members that the memory holds; half: members of which starting kernels takes "
    "as long as their work; MB moved, MFLOP and MB of memory per member; compile: seconds of CPU"
)


def cells(row: Estimate | Failure) -> list[str]:
    """The cells of a row after its name."""
    if isinstance(row, Failure):
        return ["does not compile", row.error[:60], *[""] * (len(COLUMNS) - 2)]
    return [
        f"{row.ms:.3g}",
        row.bound,
        f"{row.members:,}",
        f"{row.fits:,}",
        f"{row.half:,}",
        f"{row.launches:,.0f}",
        f"{row.bytes / 1e6:,.3g}",
        f"{row.flops / 1e6:,.3g}",
        f"{row.memory / 1e6:,.3g}",
        f"{row.compile_seconds:.1f}",
    ]


def to_json(target: Target, rows: Sequence[Estimate | Failure]) -> str:
    contents = {
        "measured": False,
        "target": target.title,
        "model": MODEL,
        "jaxdis": __version__,
        "rows": [row._asdict() for row in rows],
    }
    return json.dumps(contents, indent=1, allow_nan=False) + "\n"


def to_page(target: Target, rows: Sequence[Estimate | Failure]) -> str:
    """A page that opens in a browser without a network."""
    from jaxdis import plots
    from jaxdis.plots._canvas import png
    from jaxdis.study.report import _html as html

    finished = [row for row in rows if isinstance(row, Estimate)]
    drawn = plots.roofline(
        [row.name for row in finished],
        [row.flops for row in finished],
        [row.bytes for row in finished],
        [row.ms / 1e3 for row in finished],
        target.bytes_per_second,
        target.flops_per_second,
    )
    names = ["", *COLUMNS]
    columns = dict(zip(names, zip(*([row.name, *cells(row)] for row in rows), strict=True), strict=True))
    text = f"<p>{MODEL}</p>"
    picture = html.image(png(drawn), "operations per second of each program against its operations per byte")
    sections = [("Table", html.table(names, columns) + f"<p>{MEANINGS}.</p>"), ("Roofline", picture)]
    return html.page(TITLE.format(target.title), sections, opening=text, note="")
