"""Planned metrics in stages, each compiled by itself: the first scores are known before the slow metrics start.

A stage does not depend on metrics in other stages, so that plans which have it in common share its program.
"""

import jax

from jaxdis.evaluation._costs import usual_seconds
from jaxdis.evaluation._member import Plan, Shared
from jaxdis.evaluation._numbering import numbered
from jaxdis.metrics._metric import prepared_for, sources_of


def stages_of(plan: Plan) -> tuple[Plan, ...]:
    """The metrics that share what they compute, together; stages ordered by expected time.

    These are the metrics that one function of the samples yields, whatever its options, and those that start from its
    result.
    """
    stages = {}
    for name, metric in plan:
        stages.setdefault((metric.source.base or metric.source).function, []).append((name, metric))
    return tuple(sorted(map(tuple, stages.values()), key=seconds_of))


def seconds_of(stage: Plan) -> float:
    """About how long a CPU core takes for one member."""
    return max(usual_seconds(metric) for _, metric in stage)


def shared_by(stage: Plan, shared: Shared) -> Shared:
    """What the members share in a stage: the classes that occur, the arrays that its metrics prepare, no idle split."""
    sources = sources_of(metric for _, metric in stage)
    shared = numbered(sources, shared)
    if not any(spec.reads.test for spec in sources):
        shared = shared._replace(train_rows=None, test_rows=None)
    if not any(spec.reads.prepared for spec in sources):
        return shared._replace(prepared=(None,) * len(sources))
    return shared._replace(prepared=_prepared(sources, shared.key, shared.factors))


_prepared = jax.jit(prepared_for, static_argnums=0)
