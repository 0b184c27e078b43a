"""What :func:`jaxdis.evaluate` traces: one member's metrics, and the same for replicates."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from jaxdis._core import random
from jaxdis._core.arrays import finite_codes, ordinary_codes
from jaxdis._core.spec import Spec
from jaxdis.factors import Factors, Sample
from jaxdis.metrics._metric import apply, metric_seed, prepared_for, sources_of
from jaxdis.metrics._plan import Plan
from jaxdis.relations import Relation

# Codes that notes look at.
MOST_CODES = 64
# Numbers of a member from which on it is read in blocks, and of the blocks of all members together.
WIDE = 1 << 26
BLOCK_NUMBERS = 1 << 25
# What functions of other packages make of class numbers is not known.
PACKAGE = f"{__name__.partition('.')[0]}."
BOOTSTRAP_SEED = metric_seed("bootstrap")


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

    def block(self, replicates: int) -> int | None:
        """How many codes metrics read at a time; None for codes that are computed with as a whole."""
        m, n, d = self.codes.shape
        whole = n * d <= WIDE or replicates or isinstance(self.codes, jax.Array)
        return None if whole else min(d, max(1, BLOCK_NUMBERS // (m * n)))

    def few(self, members: int) -> tuple[np.ndarray, np.ndarray | None]:
        """The first members' codes, ``MOST_CODES`` at most, and what these were shifted by; on the host."""
        m, _, d = self.codes.shape
        codes = self.codes if m <= members and d <= MOST_CODES else self.codes[:members, :, :MOST_CODES]
        return np.asarray(codes), None if self.offset is None else np.asarray(self.offset)[:members, :MOST_CODES]


class Stage(NamedTuple):
    """What one program computes: some metrics, with how many replicates, and whether also the relations behind them."""

    plan: Plan
    replicates: int = 0
    relations: bool = False


class Strengths(NamedTuple):
    """What is kept from a relation, for :meth:`Scores.top`; after a bootstrap with its standard error."""

    strength: Float[Array, "*m d k"]
    ceiling: Float[Array, "*m k"]
    error: Float[Array, "*m d k"] | None = None


class Results(NamedTuple):
    """What a run found, with a leading member axis, or what a program returns for one member.

    Attributes:
      metrics: each metric's own NamedTuple, by name.
      sound: whether all codes that were read of a member are finite and within float32, ``[m]``.
      replicates: the fields that are numbers, for each replicate: ``{name: {field: [m, count]}}``.
      relations: what is kept of those behind scores, by text.
      nulls: the same by chance, once for each permutation; a program has none.
    """

    metrics: dict[str, tuple]
    sound: Bool[Array, "*m"] | np.ndarray = np.ones(0, bool)
    replicates: dict[str, dict[str, Array | np.ndarray]] = {}
    relations: dict[str, Strengths] = {}
    nulls: tuple["Results", ...] = ()


class Roles(NamedTuple):
    """A member's samples: all, those that train, those held out, and those on which options are chosen."""

    whole: Sample
    train: Sample
    test: Sample | None
    validation: Sample | None


class Shared(NamedTuple):
    key: PRNGKeyArray
    factors: Factors
    weights: jax.Array | None
    test_factors: Factors | None
    train_rows: jax.Array | None
    test_rows: jax.Array | None
    prepared: tuple = ()  # for each source of the plan
    validation_factors: Factors | None = None
    groups: jax.Array | None = None


def score_member(plan: Plan, member: MemberCodes, shared: Shared) -> tuple[dict[str, tuple], Array]:
    """One member's metrics, ``{name: NamedTuple}``, and whether all that they read is sound. Pure."""
    return score_member_often(Stage(plan), member, shared)[:2]


def score_member_often(stage: tuple, member: MemberCodes, shared: Shared) -> Results:
    """One member's metrics, relations and replicates. Traced, pure."""
    stage = Stage(*stage)
    roles, key = roles_of(member, shared), jax.random.fold_in(shared.key, member.number)
    by_source = _measured(stage.plan, key, roles, member, shared.prepared)
    results = {name: metric.finish(by_source[metric.source]) for name, metric in stage.plan}
    relations = {}
    if stage.relations:
        kept = {spec: found for spec, found in by_source.items() if isinstance(found, Relation)}
        relations = {repr(spec): Strengths(found.strength, found.ceiling) for spec, found in kept.items()}
    sound = [ordinary_codes(roles.whole.codes).all()]
    for name, array, check in (
        ("variances", roles.whole.variances, finite_codes),
        ("test", roles.test and roles.test.codes, ordinary_codes),
        ("validation", roles.validation and roles.validation.codes, ordinary_codes),
    ):
        if array is not None and any(getattr(spec.reads, name) for spec in by_source):
            sound.append(check(array).all())
    scored = Results(results, jnp.stack(sound).all(), relations=relations)
    return _with_replicates(stage, member, shared, roles, scored) if stage.replicates else scored


def _with_replicates(stage: Stage, member: MemberCodes, shared: Shared, roles: Roles, scored: Results) -> Results:
    """The same with every number for each replicate, and the relations' errors."""
    sources = sources_of(metric for _, metric in stage.plan)
    replicates_key = jax.random.fold_in(shared.key, BOOTSTRAP_SEED)

    def again(number):
        draw = jax.random.fold_in(replicates_key, number)  # the same for all members
        # Roles are drawn apart, or a sample could have two of them.
        keys = jax.random.split(draw, 4)
        drawn = [None if role is None else replicate(key, role) for key, role in zip(keys, roles, strict=True)]
        own = {}
        for spec in sources:
            kind = "halved" if spec.distinct_samples else "weighted" if spec.reads.weights else "drawn"
            whole, train = (getattr(each, kind) for each in drawn[:2])
            own[spec] = Roles(whole, train, *(each and each.drawn for each in drawn[2:]))
        factors = {spec: (roles.train if spec.reads.test else roles.whole).factors for spec, roles in own.items()}
        prepared = [prepared_for((spec,), draw, factors[spec])[0] for spec in sources]
        by_source = _measured(stage.plan, jax.random.fold_in(draw, member.number), own, member, prepared)
        numbers = {name: scalars(metric.finish(by_source[metric.source])) for name, metric in stage.plan}
        kept = {repr(spec): found.strength for spec, found in by_source.items() if repr(spec) in scored.relations}
        return numbers, kept

    # One after another: memory is that of one replicate.
    numbers, strengths = jax.lax.map(again, jnp.arange(stage.replicates, dtype=jnp.uint32))
    centering = {name for name, metric in stage.plan if metric.source.distinct_samples}
    for name in centering:
        scores = scalars(scored.metrics[name])
        numbers[name] = {field: centered(values, scores[field]) for field, values in numbers[name].items()}
    relations = {
        label: found._replace(error=strengths[label].std(axis=0, ddof=1)) for label, found in scored.relations.items()
    }
    return scored._replace(replicates=numbers, relations=relations)


def _measured(plan: Plan, key, roles: Roles | dict[Spec, Roles], member: MemberCodes, prepared) -> dict[Spec, Any]:
    """Call every function that reads samples once.

    A bootstrap weights samples for some functions and repeats them for others, which then have roles of their own.
    """
    results, read = {}, {}
    for spec, shared in zip(sources_of(metric for _, metric in plan), prepared, strict=True):
        own = roles[spec] if isinstance(roles, dict) else roles
        read[spec], test = (own.train, own.test) if spec.reads.test else (own.whole, None)
        base = results[spec.base] if spec.base in results and read[spec.base] is read[spec] else None
        results[spec] = apply(spec, key, read[spec], test, member.active, shared, own.validation, base, member.offset)
    return results


def scalars(result: tuple) -> dict[str, jax.Array]:
    """The fields in a metric's result that are columns."""
    return {field: value for field, value in result._asdict().items() if value is not None and value.ndim == 0}


def roles_of(member: MemberCodes, shared: Shared) -> Roles:
    """A member's samples, by what metrics do with them."""
    whole = Sample(member.codes, shared.factors, shared.weights, member.variances, shared.groups)
    train, test, validation = whole, None, None
    if member.test_codes is not None:
        test = Sample(member.test_codes, shared.test_factors)
    elif shared.train_rows is not None:
        train, test = whole.take(shared.train_rows), whole.take(shared.test_rows)
    if member.validation_codes is not None:
        validation = Sample(member.validation_codes, shared.validation_factors)
    return Roles(whole, train, test, validation)


class Again(NamedTuple):
    """One replicate in three forms: ``weighted``, the same rows with counts as weights; ``drawn``, rows drawn with
    replacement; ``halved``, half the rows at random, without repetition."""

    weighted: Sample
    drawn: Sample
    halved: Sample


def replicate(key: PRNGKeyArray, sample: Sample) -> Again:
    """Draw ``n`` from ``n`` samples with replacement: as multinomial counts that weight them, and as rows.

    Both forms are the same draw: a metric that takes weights reads the first, which moves no data, and others read the
    second. Functions that need distinct samples, such as nearest-neighbor estimates, would misread repeated samples;
    for these a replicate is half the samples at random. To first order, the estimate on half the samples scatters
    around that on all samples with the variance that the latter has itself: ``σ² (2 / n − 1 / n) = σ² / n``.

    Samples that belong together are drawn as whole groups until there are ``n`` samples, or half as many; the last
    group is cut.

    Reference: Efron & Tibshirani 1993, §6; Politis et al. 1999, §2 (subsampling); Davison & Hinkley 1997, §3.8 (whole
    groups).
    """
    n = sample.codes.shape[0]
    rows = random.drawn_rows(key, sample.groups, n)
    counts = jnp.zeros(n).at[rows].add(1.0)
    weights = counts if sample.weights is None else counts * sample.weights
    half = random.shuffled_rows(jax.random.fold_in(key, 1), sample.groups, n)[: max(1, n // 2)]
    return Again(sample._replace(weights=weights), sample.take(rows), sample.take(half))


def centered(replicates: jax.Array, score: jax.Array) -> jax.Array:
    """Shift scores ``[count, …]`` on half the samples so that their mean is the score on all samples.

    With fewer samples, such estimates are systematically smaller or larger. That difference does not estimate the bias
    at ``n``, which need not fall as ``1 / n``.
    """
    return replicates - replicates.mean(axis=0)[None] + score[None]
