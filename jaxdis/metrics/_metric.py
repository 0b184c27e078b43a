"""What a metric is: a scored relation (Blend), or a function that reads samples itself (Direct)."""

import dataclasses
import functools
import types
import typing
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from jaxdis._core import random
from jaxdis._core.options import checked_key, shown
from jaxdis._core.precision import single_precision
from jaxdis._core.spec import Spec
from jaxdis.factors import Factors, Sample
from jaxdis.relations import RELATIONS
from jaxdis.scores import SCORES


def metric_seed(name: str) -> int:
    """A number that depends on a metric's name alone."""
    return zlib.crc32(name.encode())


# Of the samples given without a test set, the share that a metric with held-out samples trains on (2 : 1).
TRAIN_SHARE = 2 / 3
SPLIT_SEED = metric_seed("train and test")
ASPECTS = ("modularity", "compactness", "explicitness")
# Expected seconds of a metric whose time was not measured.
LIGHT_SECONDS = 0.05


@dataclasses.dataclass(frozen=True)
class About:
    """What describes a metric, for its row in ``METRICS``.

    Attributes:
      title: the name in full.
      question: what the metric asks about a representation, in one sentence.
      references: keys that ``jaxdis list references`` shows, the defining paper first.
      claims: which aspect (:data:`ASPECTS`) each field in its result measures according to its authors; ``score`` is
        the headline field. There is no claim about a field that is missing here.
      measured_seconds: for a metric outside the library, its time per member with 10,000 samples × 10 codes and
        dSprites' factors, on one core, after compilation; None: hardly any. The library's own metrics have formulas
        (``jaxdis list metrics NAME``).
      reads_factors: False for a metric that reads codes alone.
      chance: for each field, the least and the largest score for codes that know nothing about the factors: constant
        codes, and four that are noise or rare spikes, on 2,000 samples and three factors with two to four equally
        frequent values, or one at 2 or 10 %. Other draws of those reach 0.5 in SAP, 0.65 in SNC, 0.6 in explicitness.
      differentiable: whether the gradient of every score with respect to codes is finite and, for codes that vary
        smoothly with the factors, not 0. Others count, sort or fit step by step: their gradient is 0.
      intervenes: whether :func:`jaxdis.evaluate_encoder`, which has a simulator, holds a factor in it and encodes new
        images.
    """

    title: str
    question: str
    references: tuple[str, ...]
    claims: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    chance: Mapping[str, tuple[float | int, float | int]] = dataclasses.field(default_factory=dict)
    measured_seconds: float | None = None
    reads_factors: bool = True
    intervenes: bool = False
    differentiable: bool = False


class Column(str):
    """A column's or a part's name, which knows its metric and the field in the metric's result: ``dci.completeness``.

    A column of the field ``score``, the headline, has the metric's own name.
    """

    metric: str
    field: str

    def __new__(cls, metric: str, field: str = "score", text: str | None = None):
        text = (metric if field == "score" else f"{metric}.{field}") if text is None else text
        name = super().__new__(cls, text)
        name.metric, name.field = metric, field
        return name

    def __getnewargs__(self):
        return self.metric, self.field, str(self)

    @classmethod
    def read(cls, text: str, metrics: Iterable[str] = ()) -> "Column":
        """Read a name that was written: of these metrics the one with the longest name, else what precedes the last
        point."""
        if isinstance(text, Column):
            return text
        owners = [name for name in metrics if text == name or text.startswith(f"{name}.")]
        owner = max(owners, key=len) if owners else text.rpartition(".")[0] or text
        return cls(owner, text[len(owner) + 1 :] or "score", text)


class Metric:
    """What a row of ``METRICS`` is: :class:`Blend`, a scored relation, or :class:`Direct`, a function of samples.

    A metric is a hashable value. Call it with one representation; :func:`jaxdis.evaluate` scores many, with checks.

    Attributes:
      about: what describes it; None for a metric of one's own.
      specs: the functions with their options, in the order in which they are called.
      source: the function that reads the samples; metrics with the same source share its result.
      errors: the fields that are best when they are low.
      all_options: every option and its value.
      reads_factors: False for a metric that reads codes alone.
    """

    about: About | None

    def _know(self, *specs: Spec) -> None:
        found = {
            "specs": specs,
            "source": specs[0],
            "errors": specs[-1].errors,
            "all_options": {name: value for spec in specs for name, value in spec.all_options.items()},
            "reads_factors": self.about is None or self.about.reads_factors,
        }
        for name, value in found.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.specs))})"

    @property
    def summary(self) -> str:
        return self.about.question if self.about else self.specs[-1].summary

    @functools.cached_property
    def axes(self) -> dict[str, tuple[str, ...]]:
        """The letters for each array's axes in the result, such as ``("d", "k")``, by the annotations."""
        result, found = typing.get_type_hints(self.specs[-1].function).get("return"), {}
        for field, kind in (typing.get_type_hints(result) if isinstance(result, type) else {}).items():
            kinds = typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
            letters = max((getattr(each, "dim_str", "").split() for each in kinds), key=len)
            found |= {field: tuple(letters)} if letters else {}
        return found

    @property
    def scalar_fields(self) -> tuple[str, ...]:
        """The result's fields that are columns, by the annotations; ``score`` if there are none."""
        result = typing.get_type_hints(self.specs[-1].function).get("return")
        kinds = typing.get_args(result) if isinstance(result, types.UnionType) else (result,)
        found = (field for kind in kinds for field in getattr(kind, "_fields", ("score",)))
        return tuple(dict.fromkeys(field for field in found if field not in self.axes))

    @single_precision
    def __call__(
        self,
        codes,
        factors,
        key=None,
        *,
        test=None,
        validation=None,
        weights=None,
        variances=None,
        active=None,
        groups=None,
    ) -> tuple:
        """Compute the metric for one representation, by one program; also inside ``jit``, ``vmap`` and ``grad``.

        All metrics take the same arguments; those that a metric does not read change nothing. In traced code nothing is
        checked. Numbers are those of :func:`jaxdis.evaluate` for a single member, up to rounding.

        Args:
          codes: ``[n, d]``.
          factors: :class:`~jaxdis.Factors`, or class numbers ``[n, k]`` that are known while a program is traced.
          key: PRNG key for stochastic metrics, or a seed; 0 when None. Without ``test``, metrics that need held-out
            samples split these 2 : 1 by the key.
          test: held-out ``(codes, factors)``.
          validation: ``(codes, factors)`` on which an option is chosen that was given several values.
          weights: ``[n]`` ≥ 0.
          variances: posterior variances ``[n, d]``.
          active: which codes are scored, ``[d]``.
          groups: numbers of groups of samples that belong together, ``[n]``, as in :func:`jaxdis.evaluate`.

        Returns:
          The metric's own NamedTuple: numbers ``[]``, and arrays per code and factor.

        The gradient with respect to codes is that of the score if :attr:`About.differentiable` says so. For other
        metrics, which count, sort or fit step by step, it is 0; those that sample codes (``rmig``, ``jemmig``) have one
        if variances are given.

        Example:
          >>> values = np.random.default_rng(0).integers(0, 3, (200, 2))
          >>> mig = jaxdis.METRICS["mig"](values.astype(np.float32), values)
          >>> mig.score.shape, mig.per_factor.shape
          ((), (2,))
          >>> zoo = jnp.stack([values, values[:, ::-1]]).astype(jnp.float32)
          >>> jax.vmap(lambda codes: jaxdis.METRICS["mcc"](codes, values).score)(zoo).shape
          (2,)
        """
        if not isinstance(factors, Factors):
            if isinstance(factors, jax.core.Tracer):
                raise ValueError("factors: must be jaxdis.Factors where they are traced, got an array without sizes")
            factors = Factors.of(factors)
        if factors.present is not None:
            Factors.checked(factors)  # says that values are missing
        if groups is not None and not isinstance(groups, jax.core.Tracer):
            groups = np.unique(np.asarray(groups), return_inverse=True)[1].astype(np.int32)
        codes, key = jnp.asarray(codes, jnp.float32), checked_key(key)
        if weights is not None:
            # Whole ones are counts of samples; others are scaled to sum to the effective sample size (Kish 1965).
            weights = jnp.asarray(weights, jnp.float32)
            shares = weights / weights.sum()
            weights = jnp.where((weights == jnp.round(weights)).all(), weights, shares / (shares**2).sum())
        sample = Sample(codes, factors.bare(), weights, _array(variances), _array(groups))
        pairs = (
            None if pair is None else Sample(_array(pair[0]), factors.alike(pair[1]).bare())
            for pair in (test, validation)
        )
        test, validation = pairs
        if self.source.reads.test and test is None:
            train, held_out = divided(key, groups, codes.shape[0])
            sample, test = sample.take(train), sample.take(held_out)
        return _of_one(self, key, sample, test, validation, _array(active), factors.bare())


@dataclasses.dataclass(frozen=True, repr=False)
class Blend(Metric):
    """A metric that scores a relation, both given by a spec or by name in ``RELATIONS`` or ``SCORES``.

    ``about`` is for readers and is ignored in comparisons.
    """

    relation: Spec | str
    score: Spec | str
    about: About | None = dataclasses.field(default=None, compare=False)

    def __post_init__(self):
        object.__setattr__(self, "relation", _resolve(self.relation, RELATIONS, "relation"))
        object.__setattr__(self, "score", _resolve(self.score, SCORES, "score"))
        self._know(self.relation, self.score)

    def with_options(self, **options: Any) -> "Blend":
        """The same metric with options for its relation or its score.

        An option that both have is set in both.
        """
        known = self.all_options
        unknown = [name for name in options if name not in known]
        if unknown:
            raise ValueError(
                f"{self.relation.name} × {self.score.name}: has no option {shown(unknown[0])}; its options are "
                f"{sorted(known)}"
            )

        def given(spec):
            return spec.with_options(**{name: value for name, value in options.items() if name in spec.all_options})

        return dataclasses.replace(self, relation=given(self.relation), score=given(self.score))

    def describe(self) -> dict[str, Any]:
        return {"relation": self.relation.describe(), "score": self.score.describe()}

    def finish(self, result) -> tuple:
        """The metric, given the relation."""
        return self.score(result)


@dataclasses.dataclass(frozen=True, repr=False)
class Direct(Metric):
    """A metric that reads samples itself and returns a NamedTuple with scalars (columns) and arrays (parts)."""

    function: Spec
    about: About | None = dataclasses.field(default=None, compare=False)

    def __post_init__(self):
        if not isinstance(self.function, Spec):
            raise ValueError(f"function: must be a Spec, such as Spec(my_metric), got {shown(self.function)}")
        self._know(self.function)

    def with_options(self, **options: Any) -> "Direct":
        return dataclasses.replace(self, function=self.function.with_options(**options))

    def describe(self) -> dict[str, Any]:
        return {"metric": self.function.describe()}

    def finish(self, result) -> tuple:
        """The metric, given what its function returned."""
        if not hasattr(result, "_asdict"):
            raise ValueError(f"{self.function.name}: must return a NamedTuple of arrays, got {shown(result)}")
        return result


@functools.partial(jax.jit, static_argnums=0)
def _of_one(metric: Metric, key, sample: Sample, test, validation, active, factors: Factors) -> tuple:
    """One member's metric, as in a zoo; ``factors``: of all samples, from which arrays are prepared."""
    source = metric.source
    if metric.about is not None and not (
        metric.about.differentiable or (sample.variances is not None and source.reads.variances)
    ):
        sample, test = jax.lax.stop_gradient((sample, test))  # iterations without an end have no reverse mode
    prepared = source.prepare(jax.random.fold_in(key, source.seed), factors)
    result = apply(source, jax.random.fold_in(key, 0), sample, test, active, prepared, validation)
    return metric.finish(result)


def _array(given):
    return None if given is None else jnp.asarray(given)


def apply(
    spec: Spec,
    key: PRNGKeyArray,
    sample: Sample,
    test: Sample | None = None,
    active=None,
    prepared=None,
    validation: Sample | None = None,
    base=None,
    offset=None,
):
    """Call a function on one representation with the arrays that it reads.

    The key is folded with the spec's own seed, so that no number depends on which other metrics are requested.
    Functions that are not ``placed`` are blind to the ``offset [d]`` by which codes were shifted.
    """
    reads = spec.reads
    if spec.needs_order and sample.factors.nominal is not None:
        sample, test, validation = (None if role is None else _ordered(role) for role in (sample, test, validation))
    placed = spec.traits.placed or spec.all_options.get("zero") == "bin" or spec.all_options.get("kind") == "cosine"
    if offset is not None and placed:
        sample, test = (each and each._replace(codes=each.codes + offset[None, :]) for each in (sample, test))
    optional = {
        "weights": sample.weights,
        "variances": sample.variances,
        "active": active,
        "prepared": prepared,
        "validation": validation,
        "base": base,
        "groups": sample.groups,
    }
    arguments = {name: value for name, value in optional.items() if getattr(reads, name) and value is not None}
    if reads.test:
        arguments["test"] = test
    keys = (jax.random.fold_in(key, spec.seed),) if reads.key else ()
    return spec(*keys, sample.codes, sample.factors, **arguments)


def _ordered(sample: Sample) -> Sample:
    """The sample with one value in each nominal factor, which every function leaves out."""
    factors = sample.factors
    values = jnp.where(np.array(factors.nominal)[None, :], jnp.zeros_like(factors.values), factors.values)
    return sample._replace(factors=dataclasses.replace(factors, values=values))


def sources_of(metrics: Iterable[Metric]) -> tuple[Spec, ...]:
    """The functions that read samples for these metrics, each listed once, after the one that it starts from."""
    wanted = dict.fromkeys(metric.source for metric in metrics)
    return tuple(dict.fromkeys(spec for source in wanted for spec in (source.base, source) if spec in wanted))


def prepared_for(sources: tuple[Spec, ...], key: PRNGKeyArray, factors: Factors) -> tuple:
    """The arrays that all members share, for each source."""
    return tuple(spec.prepare(jax.random.fold_in(key, spec.seed), factors) for spec in sources)


def divided(key: PRNGKeyArray, groups, n: int):
    """Divide samples 2 : 1 into those that train and those that are held out, with each group on one side."""
    if groups is None:
        return random.split_rows(key, SPLIT_SEED, n, max(1, min(n - 1, round(n * TRAIN_SHARE))))
    if isinstance(groups, jax.core.Tracer) or isinstance(key, jax.core.Tracer):
        raise ValueError("groups: must be known outside of traced code, as must the key, to be split; or give test=")
    key, groups = jax.random.fold_in(key, SPLIT_SEED), np.asarray(groups)
    sizes = np.bincount(groups)
    order = np.asarray(jax.random.permutation(jax.random.fold_in(key, 0), len(sizes)))
    cut = np.abs(np.cumsum(sizes[order])[:-1] - TRAIN_SHARE * n).argmin() + 1
    rows = np.asarray(jax.random.permutation(jax.random.fold_in(key, 1), n))
    chosen = np.isin(groups[rows], order[:cut])
    return jnp.asarray(rows[chosen]), jnp.asarray(rows[~chosen])


def _resolve(value, table: dict[str, Spec], kind: str) -> Spec:
    if isinstance(value, str):
        if value not in table:
            raise ValueError(f"{kind}: unknown name {shown(value)}; the {kind}s are {sorted(table)}")
        return table[value]
    if not isinstance(value, Spec):
        raise ValueError(f"{kind}: must be a name or a Spec, got {shown(value)}")
    return value
