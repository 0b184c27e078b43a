"""What a plan of metrics does with one member: the traced part of :func:`jaxdis.evaluate`."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxdis.evaluation.bootstrap import SEED, replicate
from jaxdis.metrics import Metric
from jaxdis.metrics.metric import prepared
from jaxdis.relations.relation import finite_codes
from jaxdis.typing import Factors, Sample

Plan = tuple[tuple[str, Metric], ...]


class Member(NamedTuple):
    """What differs between members: arrays with a leading member axis outside, without it inside."""

    number: jax.Array
    codes: jax.Array
    variances: jax.Array | None
    test_codes: jax.Array | None
    active: jax.Array | None


class Shared(NamedTuple):
    """What all members read."""

    key: jax.Array
    factors: Factors
    weights: jax.Array | None
    test_factors: Factors | None
    train_rows: jax.Array | None
    test_rows: jax.Array | None
    draws: dict


def score_member(plan: Plan, member: Member, shared: Shared):
    """All metrics of one member, ``{name: NamedTuple}``, and whether its codes are finite. Traced, pure."""
    whole, train, held_out = _samples(member, shared)

    def read_by(metric):
        return (train, held_out) if metric.needs("test") else (whole, None)

    key = jax.random.fold_in(shared.key, member.number)
    return _measure(plan, key, read_by, member.active, shared.draws), finite_codes(member.codes).all()


def score_member_often(plan_and_count: tuple[Plan, int], member: Member, shared: Shared):
    """As :func:`score_member`, and every column of each replicate, ``{name: {field: [count]}}``. Traced, pure."""
    plan, count = plan_and_count
    whole, train, held_out = _samples(member, shared)
    often = jax.random.fold_in(shared.key, SEED)

    def again(number):
        draw = jax.random.fold_in(often, number)  # the same for all members
        keys = jax.random.split(draw, 3)
        samples, trains = replicate(keys[0], whole), replicate(keys[1], train)
        # Train and test are drawn apart, or a sample could be in both.
        tests = None if held_out is None else replicate(keys[2], held_out).drawn

        def read_by(metric):
            version = trains if metric.needs("test") else samples
            return version.for_metric(metric), tests if metric.needs("test") else None

        draws = {name: prepared(metric, draw, read_by(metric)[0].factors) for name, metric in plan}
        results = _measure(plan, jax.random.fold_in(draw, member.number), read_by, member.active, draws)
        return {name: scalars(result) for name, result in results.items()}

    # One after the other: memory is that of one replicate.
    again = jax.lax.map(again, jnp.arange(count, dtype=jnp.uint32))
    return *score_member(plan, member, shared), again


def _measure(plan: Plan, key, read_by: Callable, active, draws: dict) -> dict[str, tuple]:
    relations, split_relations, results = {}, {}, {}
    for name, metric in plan:
        known = split_relations if metric.needs("test") else relations
        results[name] = metric.measure(key, *read_by(metric), active, known, draws[name])
    return results


def scalars(result: tuple) -> dict[str, jax.Array]:
    """The fields of a metric's result that are columns."""
    return {field: value for field, value in result._asdict().items() if value is not None and value.ndim == 0}


def _samples(member: Member, shared: Shared) -> tuple[Sample, Sample, Sample | None]:
    whole = Sample(member.codes, shared.factors, shared.weights, member.variances)
    return whole, *train_and_test(whole, member, shared)


def train_and_test(whole: Sample, member: Member, shared: Shared) -> tuple[Sample, Sample | None]:
    if member.test_codes is not None:
        return whole, Sample(member.test_codes, shared.test_factors)
    if shared.train_rows is None:
        return whole, None

    def take(rows):
        weights = None if whole.weights is None else whole.weights[rows]
        variances = None if whole.variances is None else whole.variances[rows]
        return Sample(whole.codes[rows], whole.factors.take(rows), weights, variances)

    return take(shared.train_rows), take(shared.test_rows)
