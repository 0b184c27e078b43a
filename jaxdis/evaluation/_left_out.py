"""Which standard metrics cannot be computed with some factors, and why: the others are."""

from collections.abc import Sequence

from jaxdis.evaluation._circular import on_a_line
from jaxdis.metrics._plan import Plan, of_classes


def left_out_of(plan: Plan, sizes: Sequence[int | None], periods: Sequence[float | None] | None) -> dict[str, str]:
    """The reasons by metric.

    Args:
      sizes, periods: as in :class:`jaxdis.Factors`.
    """
    reasons = dict.fromkeys(
        of_classes(plan, tuple(sizes)), "it needs classes and was left out; Factors.binned makes some"
    )
    if any(periods or ()):
        lines = on_a_line({name: metric.source for name, metric in plan})
        reasons |= dict.fromkeys(lines, "it reads an angle as a number on a line and was left out")
    return reasons
