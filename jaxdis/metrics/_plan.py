"""A plan: metrics under their columns' names, checked, and what they ask from samples and kinds of factors."""

from collections.abc import Collection, Mapping, Sequence

from jaxdis._core.options import look_up, names_of, shown, some_of
from jaxdis._core.spec import Spec
from jaxdis.factors import Factors
from jaxdis.metrics._metric import Metric
from jaxdis.metrics._metric_table import METRICS

Plan = tuple[tuple[str, Metric], ...]

# The metrics that are computed when none are named: one or two of each family, in 3 s per member of 10,000 samples.
# Boosted trees for DCI would take 7 s, and 27 s instead of 10 s to compile.
STANDARD = ("mig", "modularity", "sap", "mcc", "explicitness", "dci_forest")
# With an encoder, also one that intervenes and draws few images.
STANDARD_OF_ENCODERS = (*STANDARD, "irs")
# The column of member numbers in tables.
RESERVED = "member"
# Metrics that are not of the codes of one member: what they read, and where they are.
ELSEWHERE = {
    "udr": "compares the seeds of a setting: name it in a study, or call jaxdis.metrics.udr",
    "linear_cka": "compares members with each other: call jaxdis.metrics.linear_cka",
    "matched_cosine": "compares two sets of directions: call jaxdis.metrics.matched_cosine",
    "svcca": "compares members with each other: call jaxdis.metrics.svcca",
    "structured_slots": "reads slots: score a zoo of slots without --metrics, or call jaxdis.evaluate_slots",
    "segmentation": "reads masks of slots: score a zoo of slots without --metrics, or call jaxdis.evaluate_slots",
}
# Fields that a bootstrap and permutations add to a column.
ADDED = ("error", "bias", "low", "high", "null", "above_null", "p")
_INSTEAD = {"weights": ", on samples drawn in proportion to their weights"}


def plan_of(metrics) -> Plan:
    """Names and metrics in order, each checked."""
    if isinstance(metrics, str) and metrics in METRICS:
        return ((metrics, METRICS[metrics]),)
    if not isinstance(metrics, Mapping):
        names = STANDARD if isinstance(metrics, str) and metrics == "standard" else metrics
        return tuple((name, METRICS[name]) for name in names_of(names, METRICS, "metric", ELSEWHERE))
    if not metrics:
        raise ValueError(f"metrics: must have at least one metric, got none; the metrics are {', '.join(METRICS)}")
    plan = {name: _metric(name, metric) for name, metric in metrics.items()}
    for name in plan:  # `a` has columns `a.field`: no other metric may have such a name
        for place in (place for place, letter in enumerate(name) if letter == "."):
            stem, field = name[:place], name[place + 1 :]
            if stem in plan and field in (*plan[stem].axes, *plan[stem].scalar_fields, *ADDED):
                raise ValueError(f"metrics: must have names whose columns differ, got {name!r}, a column of {stem!r}")
    return tuple(plan.items())


def _metric(name, metric) -> Metric:
    if not isinstance(name, str) or not name or name == RESERVED:
        raise ValueError(f"metrics: must have column names that are text other than {RESERVED!r}, got {shown(name)}")
    if isinstance(metric, str):
        return look_up(metric, METRICS, "metric", elsewhere=ELSEWHERE)
    if not isinstance(metric, Metric):
        raise ValueError(f"metrics: must be a Blend, a Direct or a name for {shown(name)}, got {shown(metric)}")
    return metric


def of_classes(plan: Plan, sizes: tuple[int | None, ...]) -> tuple[str, ...]:
    """The names of metrics that need classes, if there are none: they leave continuous factors out."""
    return () if any(sizes) else tuple(name for name, metric in plan if metric.source.needs_classes)


def check_validation(plan: Plan, given: bool) -> None:
    """Metrics that choose among several option values need validation samples."""
    needing = [name for name, metric in plan if metric.source.needs_validation]
    if needing and not given:
        raise ValueError(f"validation: needs samples on which {', '.join(needing)} can choose an option, got none")


def check_plan(plan: Plan, n: int, sizes: tuple[int | None, ...], given: Collection[str], *, halved: bool) -> None:
    """Check that the metrics can read what is given, and can do without what is not.

    ``given`` are the names of arrays; ``halved``: whether a bootstrap passes half the samples to metrics that need
    distinct ones.
    """
    for argument in ("weights", "active"):
        unread = [name for name, metric in plan if not getattr(metric.source.reads, argument)]
        if argument in given and unread:
            raise ValueError(
                f"{argument}: needs metrics that read it, got {len(unread)} of {len(plan)} that do not "
                f"({some_of(unread)}); evaluate those in a call of their own without {argument}"
                + _INSTEAD.get(argument, "")
            )
    if "validation" not in given and any(metric.source.needs_validation for _, metric in plan):
        check_validation(plan, False)
    for name, metric in plan:
        neighbors = metric.all_options.get("neighbors", 0)
        if halved and metric.source.distinct_samples and neighbors >= n // 2:
            raise ValueError(
                f"bootstrap: must have more than {2 * neighbors + 1} samples for {name}, whose replicates are halves "
                f"of them, got {n}"
            )
        if neighbors >= n:
            raise ValueError(f"neighbors: must have fewer than the {n} samples, got {neighbors} for {name}")
    if not any(sizes) and (needing := of_classes(plan, sizes)):
        raise ValueError(
            f"factors: must have at least one discrete factor for {', '.join(needing)}, got continuous ones alone; "
            "cut them into classes by Factors.binned, or leave these metrics out"
        )


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
    """Check that none of the metrics, by what reads the samples, reads a circular factor as a number on a line."""
    angles = [name for name, kind in zip(factors.names, factors.kinds, strict=True) if kind == "circular"]
    refused = on_a_line(sources)
    if angles and refused:
        raise ValueError(
            f"factors: must not be circular for {', '.join(refused)}, got {some_of(angles)}; leave these metrics "
            f"out, or read the table with kinds={{{angles[0]!r}: 'continuous'}} or 'classes'"
        )


def left_out_of(plan: Plan, sizes: Sequence[int | None], periods: Sequence[float | None] | None) -> dict[str, str]:
    """Why metrics are left out, by metric; ``sizes`` and ``periods`` are the factors'."""
    reasons = dict.fromkeys(
        of_classes(plan, tuple(sizes)), "it needs classes and was left out; Factors.binned makes some"
    )
    if any(periods or ()):
        lines = on_a_line({name: metric.source for name, metric in plan})
        reasons |= dict.fromkeys(lines, "it reads an angle as a number on a line and was left out")
    return reasons
