"""What metrics do with kinds of factors: those without an order, and those that a metric cannot read."""

from collections.abc import Mapping, Sequence

from jaxdis._core.lookup import some_of
from jaxdis._core.spec import Spec
from jaxdis.factors import Factors
from jaxdis.metrics._plan import Plan, of_classes


def without_order(source: Spec) -> str:
    """What a function does with a factor whose classes have no order, in words."""
    if source.needs_order:
        return "are left out"
    return "have an indicator for each class" if source.traits.of_values else "count by class"


def on_a_line(sources: Mapping[str, Spec]) -> list[str]:
    """Who reads continuous factors as numbers on a line."""
    return [
        name
        for name, source in sources.items()
        if source.traits.on_a_line or "neural" in dict(source.options).values()  # the estimator of an option
    ]


def check_circular(sources: Mapping[str, Spec], factors: Factors) -> None:
    """Check that no metric reads a circular factor as a number on a line.

    Args:
      sources: what reads the samples, by metric.
    """
    angles = [name for name, kind in zip(factors.names, factors.kinds, strict=True) if kind == "circular"]
    refused = on_a_line(sources)
    if angles and refused:
        raise ValueError(
            f"factors: must not be circular for {', '.join(refused)}, got {some_of(angles)}; leave these metrics "
            f"out, or read the table with kinds={{{angles[0]!r}: 'continuous'}} or 'classes'"
        )


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
