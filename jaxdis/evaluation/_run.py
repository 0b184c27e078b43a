"""The run: passes over one request's samples, replicates, permutations and pieces, each by the executor."""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from jaxdis._core import executor
from jaxdis._core.display import reported
from jaxdis._core.spec import Spec
from jaxdis._core.store import StoreError
from jaxdis.evaluation._costs import usual_seconds
from jaxdis.evaluation._kept import addresses_of, batches_of, opened
from jaxdis.evaluation._member import PACKAGE, Results, Shared, Stage, score_member_often
from jaxdis.evaluation._relation_parts import in_pieces, joined, score_by_blocks, takes_blocks
from jaxdis.evaluation._request import Request, judged_by_chance, permuted, warn_of_codes
from jaxdis.factors import Factors
from jaxdis.metrics._metric import prepared_for, sources_of
from jaxdis.metrics._plan import Plan

# Metrics that take no longer for 10,000 samples, in seconds, are computed for all members before any other.
QUICK = 0.1

Tell = Callable[[Stage, Results], None]


def run(request: Request, arrived: Callable[[Plan, Results], None] | None = None) -> Results:
    """Compute a request's metrics, less what its store holds, and warn of codes that are not sound.

    ``arrived`` hears of the results by some metrics for a chunk, or for members that are kept together.
    """
    results = compute(request, arrived) if request.store is None else _kept(request, arrived)
    if not results.sound.all():
        warn_of_codes(request.members, results.sound)
    return results


def _kept(request: Request, arrived: Callable[[Plan, Results], None] | None) -> Results:
    """Take what a request's store holds, and compute and keep the rest, batch by batch, quick metrics first.

    Processes that share a store wait for one another's batches.
    """
    kept, addresses, m = opened(request.store), addresses_of(request), len(request.rows)
    told, done, total = request.progress if callable(request.progress) else None, 0, m * len(request.plan)
    with reported(request.progress is True or None, "scoring", "metrics × members") as show:
        for turn in turns_of(request.plan):
            for rows in batches_of(request, turn):
                kept.fill(request, turn, rows, addresses, compute)
                done += len(turn) * len(rows)
                show(done, total, ", ".join(name for name, _ in turn))
                if told is not None:
                    told(done * m // total, m)
                if arrived is not None:
                    arrived(turn, kept.results(request, turn, rows, addresses))
    # In the order in which a run without a store finds relations.
    plan = [each for stage in stages_of(request.plan) for each in sorted(stage, key=lambda each: repr(each[1].source))]
    try:
        return kept.results(request, tuple(plan), np.arange(m), addresses)
    except StoreError:  # a damaged record, which is removed
        return _kept(request, arrived)


def compute(request: Request, arrived: Callable[[Plan, Results], None] | None = None) -> Results:
    """Compute a request's metrics, and again for permuted factors; ``arrived`` hears of a chunk's by each stage."""
    judged, count, m = request.plan, request.null.count, len(request.rows)
    judged = judged_by_chance(request.plan, 0) if count else ()
    total, done = m * (len(request.plan) + count * len(judged)), 0
    told = request.progress if callable(request.progress) else None

    def came(show: Callable | None, stage: Stage, scored: Results, arrived=arrived) -> None:
        nonlocal done
        done += len(stage.plan) * len(scored.sound)
        if show is not None:
            show(done, total, ", ".join(name for name, _ in stage.plan))
        if arrived is not None:
            arrived(stage.plan, _merged([scored]))

    watched = reported(True, "scoring", "metrics × members") if request.progress is True else contextlib.nullcontext()
    with watched as show:
        tell = functools.partial(came, show) if request.progress is True or arrived is not None else None
        if request.parts:
            return _over_pieces(request, tell, told)
        scored = _scored(
            request, request.shared, request.plan, request.bootstrap, tell, told and _in_turn(told, 0, 1 + count)
        )
        tell, nulls = tell and functools.partial(tell, arrived=None), []
        for number in range(1, 1 + count) if judged else ():
            shared, of_pass = permuted(request.shared, request.null, number), told and _in_turn(told, number, 1 + count)
            nulls.append(_merged(_scored(request, shared, judged, 0, tell, of_pass)))
    return _merged(scored)._replace(nulls=tuple(nulls))


def _in_turn(told: Callable, number: int, passes: int) -> Callable:
    return lambda done, count: told(number * count + done, passes * count)


def _over_pieces(request: Request, tell: Tell | None, told: Callable | None) -> Results:
    """Each stage on the pieces of factors that the same samples have, joined."""
    whole, found, sounds = ((), request.members, request.shared), {}, []
    stages, m = stages_of(request.plan), len(request.rows)
    for number, stage in enumerate(stages):
        reads_factors = stage[0][1].reads_factors
        pieces, of_pieces = request.parts if reads_factors else [whole], []
        for place, (_, members, shared) in enumerate(pieces, 1):
            usable = [each for each in stage if any(shared.factors.sizes) or not each[1].source.needs_classes]
            asked = tuple((name, in_pieces(metric) if reads_factors else metric) for name, metric in usable)
            piece = dataclasses.replace(request, members=members, parts=())
            scored = _merged(_scored(piece, shared, asked, 0) if asked else [])
            of_pieces.append(scored.metrics)
            sounds.append(scored.sound)
            if told is not None:
                told(m * (number * len(pieces) + place) // (len(stages) * len(pieces)), m)
        results = of_pieces[0]
        if reads_factors:
            known = [(columns, shared.factors) for columns, _, shared in pieces]
            results = {name: joined(metric, known, [each.get(name) for each in of_pieces]) for name, metric in stage}
        found |= results
        if tell is not None:
            tell(Stage(stage), Results(results, np.ones(m, bool)))
    return Results(found, sound=np.all([sound for sound in sounds if len(sound)], axis=0))


def _scored(
    request: Request, shared: Shared, plan: Plan, replicates: int, tell: Tell | None = None, told=None
) -> list[Results]:
    """Pass over all members once, stage by stage; stages that read wide codes block by block come first."""
    if not plan:
        return []
    members, how, found = request.members, request.how, []
    stages = [Stage(stage, replicates, request.relations) for stage in stages_of(plan)]
    in_blocks = [s for s in stages if members.block(replicates) is not None and takes_blocks(s.plan[0][1].source)]
    for stage in in_blocks:
        found.append(score_by_blocks(stage, members, functools.partial(shared_by, shared=shared), how))
        if tell is not None:
            tell(stage, found[-1])
    return found + executor.map_stages(
        score_member_often,
        [stage for stage in stages if stage not in in_blocks],
        members,
        lambda stage: shared_by(stage.plan, shared),
        arrived=tell,
        seconds_of=lambda stage: seconds_of(stage.plan),
        progress=told,
        **how,
    )


def _merged(scored: Sequence[Results]) -> Results:
    metrics, replicates, relations = {}, {}, {}
    for stage in scored:
        metrics |= stage.metrics
        replicates |= stage.replicates
        relations |= stage.relations
    sound = np.all([stage.sound for stage in scored], axis=0) if scored else np.ones(0, bool)
    return Results(metrics, sound, replicates, relations)


def stages_of(plan: Plan) -> tuple[Plan, ...]:
    """The metrics that share what they compute, together, in stages that are compiled apart, quick ones first.

    A stage has the metrics that one function of the samples yields, whatever its options, and those that start from its
    result. It does not depend on metrics in other stages, so that plans which have it in common share its program.
    """
    stages = {}
    for name, metric in plan:
        stages.setdefault((metric.source.base or metric.source).function, []).append((name, metric))
    stages = tuple(map(tuple, stages.values()))
    return stages if len(stages) == 1 else tuple(sorted(stages, key=seconds_of))


def turns_of(plan: Plan) -> list[Plan]:
    """What is computed for all members before the next: the quick metrics together, then stage by stage."""
    stages = stages_of(plan)
    quick = tuple(each for stage in stages if seconds_of(stage) <= QUICK for each in stage)
    return [each for each in (quick, *(stage for stage in stages if seconds_of(stage) > QUICK)) if each]


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


def numbered(sources: Iterable[Spec], shared: Shared) -> Shared:
    """Number the classes that occur in training, held-out or validation samples from 0, in order.

    Each size becomes how many classes occur, whatever is declared. Nominal classes are numbered as they first occur: a
    learner's rounding and first weights then do not depend on the table's order, either. For functions that take class
    numbers as values those of ordered factors stay, and so does everything for users' functions and for binned classes.
    """
    sources = tuple(sources)
    known = all(spec.function.__module__.startswith(PACKAGE) for spec in sources)
    of_values = any(spec.traits.of_values for spec in sources)
    in_bins = any(spec.all_options.get("factor_bins") is not None for spec in sources)
    nominal = shared.factors.nominal is not None
    if not known or (in_bins and not nominal):
        return shared
    roles = ("factors", "test_factors", "validation_factors")
    given = {role: getattr(shared, role) for role in roles if getattr(shared, role) is not None}
    keeps = "sizes" if in_bins else "values" if of_values else None
    sizes, numbers = _occurring(tuple(given.values()), keeps)
    if sizes == shared.factors.sizes and not numbers:
        return shared

    def counted(factors):
        values = np.array(factors.values)
        for j, of_class in numbers.items():
            values[:, j] = of_class[values[:, j].astype(np.int32)]
        return dataclasses.replace(factors, values=jnp.asarray(values), sizes=sizes)

    return shared._replace(**{role: counted(factors) for role, factors in given.items()})


def _occurring(roles: tuple[Factors, ...], keeps: Literal["sizes", "values"] | None) -> tuple:
    """Each factor's size by the classes that occur, and its classes' numbers where these change."""
    sizes, numbers = list(roles[0].sizes), {}
    nominal = roles[0].nominal or (False,) * len(sizes)
    for j, size in enumerate(roles[0].sizes):
        if size is None:
            continue
        column = np.concatenate([np.asarray(factors.values)[:, j].astype(np.int32) for factors in roles])
        occurs = np.bincount(column, minlength=size) > 0
        if nominal[j]:
            classes, first = np.unique(column, return_index=True)
            sizes[j], numbers[j] = len(classes), np.zeros(size, int)
            numbers[j][classes[np.argsort(first)]] = np.arange(len(classes))
            continue
        if occurs.all() or keeps == "sizes":
            continue
        sizes[j] = int(occurs.nonzero()[0][-1]) + 1 if keeps == "values" else int(occurs.sum())
        if keeps is None:
            numbers[j] = np.cumsum(occurs) - 1
    return tuple(sizes), numbers
