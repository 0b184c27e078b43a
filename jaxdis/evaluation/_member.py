"""How planned metrics are applied to one member: what :func:`jaxdis.evaluate` traces."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from jaxdis._core.arrays import finite_codes, ordinary_codes
from jaxdis.evaluation._bootstrap import SEED, centered, replicate
from jaxdis.evaluation._strengths import Strengths
from jaxdis.factors import Factors, Sample
from jaxdis.metrics._metric import apply, prepared_for, sources_of
from jaxdis.metrics._plan import Plan

# Codes that notes look at.
MOST_CODES = 64


class MemberCodes(NamedTuple):
    """What differs between members: arrays with a leading member axis outside traced code, and without it inside."""

    number: jax.Array
    codes: jax.Array
    variances: jax.Array | None
    test_codes: jax.Array | None
    active: jax.Array | None
    validation_codes: jax.Array | None = None
    offset: jax.Array | None = None  # [d], what codes were shifted by

    @classmethod
    def of(cls, codes) -> "MemberCodes":
        """Members with nothing but codes, ``[n, d]`` or ``[m, n, d]``."""
        codes = codes[None] if codes.ndim == 2 else codes
        return cls(np.arange(len(codes)), codes, None, None, None)

    def few(self, members: int) -> tuple[np.ndarray, np.ndarray | None]:
        """The first members' codes, ``MOST_CODES`` at most, and what these were shifted by; on the host."""
        m, _, d = self.codes.shape
        codes = self.codes if m <= members and d <= MOST_CODES else self.codes[:members, :, :MOST_CODES]
        return np.asarray(codes), None if self.offset is None else np.asarray(self.offset)[:members, :MOST_CODES]


class Shared(NamedTuple):
    """The arrays that all members share."""

    key: PRNGKeyArray
    factors: Factors
    weights: jax.Array | None
    test_factors: Factors | None
    train_rows: jax.Array | None
    test_rows: jax.Array | None
    prepared: tuple = ()  # for each source of the plan
    validation_factors: Factors | None = None
    groups: jax.Array | None = None


def score_member(plan: Plan, member: MemberCodes, shared: Shared):
    """One member's metrics, ``{name: NamedTuple}``, and whether all that they read is sound. Pure."""
    whole, train, held_out, validation = _samples(member, shared)

    def samples_for(spec):
        return (train, held_out) if spec.reads.test else (whole, None)

    key = jax.random.fold_in(shared.key, member.number)
    sources, sound = sources_of(metric for _, metric in plan), [ordinary_codes(whole.codes).all()]
    for name, array, check in (
        ("variances", whole.variances, finite_codes),
        ("test", _codes(held_out), ordinary_codes),
        ("validation", _codes(validation), ordinary_codes),
    ):
        if array is not None and any(getattr(spec.reads, name) for spec in sources):
            sound.append(check(array).all())
    results = _measure(plan, key, samples_for, validation, member, shared.prepared)
    return results, jnp.stack(sound).all()


def score_member_often(plan_and_count: tuple[Plan, int], member: MemberCodes, shared: Shared):
    """As :func:`score_member`, with every column for each replicate, ``{name: {field: [count]}}``, and the relations'
    errors, ``{name: {"error": [d, k]}}``. Traced, pure."""
    plan, count = plan_and_count
    if not count:
        return *score_member(plan, member, shared), {}
    all_samples, train, held_out, validation = _samples(member, shared)
    replicates_key = jax.random.fold_in(shared.key, SEED)

    def again(number):
        draw = jax.random.fold_in(replicates_key, number)  # the same for all members
        keys = jax.random.split(draw, 4)
        samples, trains = replicate(keys[0], all_samples), replicate(keys[1], train)
        # Roles are drawn apart, or a sample could have two of them.
        tests, validations = (
            None if sample is None else replicate(key, sample).drawn
            for key, sample in zip(keys[2:], (held_out, validation), strict=True)
        )

        def samples_for(spec):
            return (trains.version_for(spec), tests) if spec.reads.test else (samples.version_for(spec), None)

        sources = sources_of(metric for _, metric in plan)
        prepared = [prepared_for((spec,), draw, samples_for(spec)[0].factors)[0] for spec in sources]
        key = jax.random.fold_in(draw, member.number)
        results = _measure(plan, key, samples_for, validations, member, prepared)
        return {name: _drawn(result) for name, result in results.items()}

    # One after another: memory is that of one replicate.
    replicates = jax.lax.map(again, jnp.arange(count, dtype=jnp.uint32))
    results, finite = score_member(plan, member, shared)
    for name, metric in plan:
        if metric.source.distinct_samples:
            scores = _drawn(results[name])
            replicates[name] = {field: centered(values, scores[field]) for field, values in replicates[name].items()}
    for name, result in results.items():
        if isinstance(result, Strengths):
            replicates[name] = {"error": replicates[name]["strength"].std(axis=0, ddof=1)}
    return results, finite, replicates


def _measure(plan: Plan, key, samples_for: Callable, validation, member: MemberCodes, prepared) -> dict[str, tuple]:
    """Call every function that reads samples once, then compute the metrics from their results."""
    sources = sources_of(metric for _, metric in plan)
    results = {}
    for spec, shared in zip(sources, prepared, strict=True):
        samples = samples_for(spec)
        # A bootstrap weights samples for some functions and repeats them for others, which then share nothing.
        alike = spec.base in results and samples_for(spec.base)[0] is samples[0]
        base = results[spec.base] if alike else None
        results[spec] = apply(spec, key, *samples, member.active, shared, validation, base, member.offset)
    return {name: metric.finish(results[metric.source]) for name, metric in plan}


def scalars(result: tuple) -> dict[str, jax.Array]:
    """The fields in a metric's result that are columns."""
    return {field: value for field, value in result._asdict().items() if value is not None and value.ndim == 0}


def _drawn(result: tuple) -> dict[str, jax.Array]:
    """A result's fields that vary between replicates."""
    return {"strength": result.strength} if isinstance(result, Strengths) else scalars(result)


def _codes(sample: Sample | None):
    return None if sample is None else sample.codes


def _samples(member: MemberCodes, shared: Shared) -> tuple[Sample, Sample, Sample | None, Sample | None]:
    all_samples = samples_of(member, shared)
    return all_samples, *train_and_test(all_samples, member, shared), validation_of(member, shared)


def samples_of(member: MemberCodes, shared: Shared) -> Sample:
    return Sample(member.codes, shared.factors, shared.weights, member.variances, shared.groups)


def validation_of(member: MemberCodes, shared: Shared) -> Sample | None:
    return None if member.validation_codes is None else Sample(member.validation_codes, shared.validation_factors)


def train_and_test(all_samples: Sample, member: MemberCodes, shared: Shared) -> tuple[Sample, Sample | None]:
    if member.test_codes is not None:
        return all_samples, Sample(member.test_codes, shared.test_factors)
    if shared.train_rows is None:
        return all_samples, None
    return all_samples.take(shared.train_rows), all_samples.take(shared.test_rows)
