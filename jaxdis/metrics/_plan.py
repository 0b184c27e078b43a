"""A plan: metrics under their columns' names, checked, and what they ask from the samples."""

import inspect
import typing
from collections.abc import Mapping

from jaxdis._core.lookup import look_up, names_of
from jaxdis._core.options import shown
from jaxdis.factors import Factors
from jaxdis.metrics._metric import Blend, Direct, Metric
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
_INSTEAD = {"weights": ", on samples drawn in proportion to their weights"}


def plan_of(metrics) -> Plan:
    """Names and metrics in order, each checked.

    Raises:
      ValueError: for an empty list, an unknown name, with the nearest known one, something that is not a metric, or
        names whose columns would collide.
    """
    if isinstance(metrics, Mapping):
        plan = tuple((name, _metric(name, metric)) for name, metric in metrics.items())
    else:
        names = STANDARD if isinstance(metrics, str) and metrics == "standard" else metrics
        names = names_of(names, METRICS, "metric", ELSEWHERE)
        plan = tuple((name, METRICS[name]) for name in names)
    if not plan:
        raise ValueError(f"metrics: must have at least one metric, got none; the metrics are {', '.join(METRICS)}")
    _check_columns(plan)
    return plan


def _metric(name, metric) -> Metric:
    if not isinstance(name, str) or not name or name == RESERVED:
        raise ValueError(f"metrics: must have column names that are text other than {RESERVED!r}, got {shown(name)}")
    if isinstance(metric, str):
        return look_up(metric, METRICS, "metric", elsewhere=ELSEWHERE)
    if not isinstance(metric, Blend | Direct):
        raise ValueError(f"metrics: must be a Blend, a Direct or a name for {shown(name)}, got {shown(metric)}")
    return metric


def _check_columns(plan: Plan) -> None:
    """``a`` has columns ``a.field``: no other metric may have such a name."""
    metrics = dict(plan)
    for name in metrics:
        for place, letter in enumerate(name):
            stem, field = name[:place], name[place + 1 :]
            if letter == "." and stem in metrics and field in _fields(metrics[stem]):
                raise ValueError(f"metrics: must have names whose columns differ, got {name!r}, a column of {stem!r}")


def _fields(metric: Metric) -> set[str]:
    """The fields that a metric's result may have, by its annotation, and what a bootstrap and permutations add."""
    function = (metric.score if isinstance(metric, Blend) else metric.function).function
    result = inspect.signature(function).return_annotation
    kinds = typing.get_args(result) or (result,)
    own = {field for kind in kinds for field in getattr(kind, "_fields", ())}
    return own | {"error", "bias", "low", "high", "null", "above_null", "p"}


def refuse_ignored(argument: str, plan: Plan) -> None:
    """Refuse an argument that some metrics do not read.

    Raises:
      ValueError: naming those metrics.
    """
    unread = [name for name, metric in plan if not getattr(metric.source.reads, argument)]
    if unread:
        listing = ", ".join(unread[:10]) + (", …" if len(unread) > 10 else "")
        raise ValueError(
            f"{argument}: needs metrics that read it, got {len(unread)} of {len(plan)} that do not ({listing}); "
            f"evaluate those in a call of their own without {argument}" + _INSTEAD.get(argument, "")
        )


def of_classes(plan: Plan, sizes: tuple[int | None, ...]) -> tuple[str, ...]:
    """The names of metrics that need classes, if there are none: they leave continuous factors out."""
    return () if any(sizes) else tuple(name for name, metric in plan if metric.source.needs_classes)


def check_classes(plan: Plan, factors: Factors) -> None:
    """Metrics that need classes leave continuous factors out: at least one factor must be discrete.

    Raises:
      ValueError: naming those metrics.
    """
    if needing := of_classes(plan, factors.sizes):
        raise ValueError(
            f"factors: must have at least one discrete factor for {', '.join(needing)}, got continuous ones alone; "
            "cut them into classes by Factors.binned, or leave these metrics out"
        )


def check_validation(plan: Plan, given: bool) -> None:
    """Metrics that choose among several option values need validation samples.

    Raises:
      ValueError: naming those metrics.
    """
    needing = [name for name, metric in plan if metric.source.needs_validation]
    if needing and not given:
        raise ValueError(f"validation: needs samples on which {', '.join(needing)} can choose an option, got none")


def check_neighbors(options: Mapping, name: str, n: int, *, halved: bool = False) -> None:
    """Check that there are enough samples for the neighbors; ``halved``: a bootstrap passes half to the metric.

    Raises:
      ValueError: for as many neighbors as samples, or more.
    """
    if halved and options.get("neighbors", 0) >= n // 2:
        raise ValueError(
            f"bootstrap: must have more than {2 * options['neighbors'] + 1} samples for {name}, whose replicates are "
            f"halves of them, got {n}"
        )
    if options.get("neighbors", 0) >= n:
        raise ValueError(f"neighbors: must have fewer than the {n} samples, got {options['neighbors']} for {name}")


def check_reads(plan: Plan, *, weights: bool, active: bool, validation: bool) -> None:
    """Refuse arguments that are given and not read by all metrics, and validation samples that are needed and missing.

    Raises:
      ValueError: naming the metrics.
    """
    if weights:
        refuse_ignored("weights", plan)
    if active:
        refuse_ignored("active", plan)
    check_validation(plan, validation)


def check_samples(plan: Plan, factors: Factors, *, bootstrap: bool) -> None:
    """Check that the samples are enough for the metrics, and what kind they read.

    Raises:
      ValueError: naming the metrics.
    """
    for name, metric in plan:
        halved = bootstrap and metric.source.distinct_samples
        check_neighbors(metric.all_options, name, factors.num_samples, halved=halved)
    check_classes(plan, factors)
