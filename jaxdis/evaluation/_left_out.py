"""Factors of a kind that a metric cannot read: the metric is refused, or left out of the standard ones."""

from collections.abc import Mapping, Sequence

from jaxdis._core.lookup import some_of
from jaxdis._core.spec import Spec
from jaxdis.factors import Factors
from jaxdis.metrics import METRICS
from jaxdis.metrics._plan import Plan, of_classes
from jaxdis.relations import RELATIONS

# Networks, trees and regressions see 359° far from 0°.
_ON_A_LINE = {
    RELATIONS[name].function
    for name in (
        "mutual_information_neural",
        "lasso_importance",
        "boosted_trees",
        "random_forest",
    )
}
_ON_A_LINE |= {METRICS[name].source.function for name in ("r2_linear", "r2_kernel", "monotonicity", "dci_es")}


def on_a_line(sources: Mapping[str, Spec]) -> list[str]:
    """Who reads continuous factors as numbers on a line."""
    return [
        name
        for name, source in sources.items()
        if source.function in _ON_A_LINE or "neural" in dict(source.options).values()  # the estimator of an option
    ]


def check_circular(sources: Mapping[str, Spec], factors: Factors) -> None:
    """Check that no metric reads a circular factor as a number on a line.

    Args:
      sources: what reads the samples, by metric.

    Raises:
      ValueError: naming the metrics and the factors.
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
