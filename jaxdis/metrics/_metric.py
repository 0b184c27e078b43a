"""What a metric is: a scored relation (Blend), or a function that reads samples itself (Direct)."""

import dataclasses
import types
import typing
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from jaxdis._core.options import shown
from jaxdis._core.spec import Spec
from jaxdis.factors import Factors, Sample
from jaxdis.relations import RELATIONS
from jaxdis.scores import SCORES

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
        frequent values, or with one at 2 or 10 %.
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


@dataclasses.dataclass(frozen=True, repr=False)
class Blend:
    """A metric that scores a relation, both given by a spec or by name in ``RELATIONS`` or ``SCORES``.

    ``about`` is for readers and is ignored in comparisons.
    """

    relation: Spec | str
    score: Spec | str
    about: About | None = dataclasses.field(default=None, compare=False)

    def __post_init__(self):
        object.__setattr__(self, "relation", _resolve(self.relation, RELATIONS, "relation"))
        object.__setattr__(self, "score", _resolve(self.score, SCORES, "score"))

    def __repr__(self) -> str:
        return f"Blend({self.relation!r}, {self.score!r})"

    @property
    def summary(self) -> str:
        return self.about.question if self.about else self.score.summary

    @property
    def all_options(self) -> dict[str, Any]:
        return {**self.relation.all_options, **self.score.all_options}

    def with_options(self, **options: Any) -> "Blend":
        """The same metric with options for its relation or its score.

        An option that both have is set in both.

        Raises:
          ValueError: for an option that neither has.
        """
        unknown = [name for name in options if name not in self.all_options]
        if unknown:
            raise ValueError(
                f"{self.relation.name} × {self.score.name}: has no option {shown(unknown[0])}; its options are "
                f"{sorted(self.all_options)}"
            )

        def given(spec):
            return spec.with_options(**{name: value for name, value in options.items() if name in spec.all_options})

        return dataclasses.replace(self, relation=given(self.relation), score=given(self.score))

    def describe(self) -> dict[str, Any]:
        return {"relation": self.relation.describe(), "score": self.score.describe()}

    @property
    def errors(self) -> tuple[str, ...]:
        """The fields that are best when they are low."""
        return self.score.errors

    @property
    def source(self) -> Spec:
        """The function that reads the samples; metrics with the same source share its result."""
        return self.relation

    def finish(self, relation) -> tuple:
        """The metric, given what its source returned."""
        return self.score(relation)


@dataclasses.dataclass(frozen=True, repr=False)
class Direct:
    """A metric that reads samples itself and returns a NamedTuple with scalars (columns) and arrays (parts)."""

    function: Spec
    about: About | None = dataclasses.field(default=None, compare=False)

    def __post_init__(self):
        if not isinstance(self.function, Spec):
            raise ValueError(f"function: must be a Spec, such as Spec(my_metric), got {shown(self.function)}")

    def __repr__(self) -> str:
        return f"Direct({self.function!r})"

    @property
    def summary(self) -> str:
        return self.about.question if self.about else self.function.summary

    @property
    def all_options(self) -> dict[str, Any]:
        return self.function.all_options

    def with_options(self, **options: Any) -> "Direct":
        return dataclasses.replace(self, function=self.function.with_options(**options))

    def describe(self) -> dict[str, Any]:
        return {"metric": self.function.describe()}

    @property
    def errors(self) -> tuple[str, ...]:
        """The fields that are best when they are low."""
        return self.function.errors

    @property
    def source(self) -> Spec:
        """The function that reads the samples."""
        return self.function

    def finish(self, result) -> tuple:
        """The metric, given what its source returned."""
        if not hasattr(result, "_asdict"):
            raise ValueError(f"{self.function.name}: must return a NamedTuple of arrays, got {shown(result)}")
        return result


Metric = Blend | Direct


def is_error(column: str, metrics: Mapping[str, Any]) -> bool:
    """Whether a column from these metrics, such as ``dci.informativeness``, is best when it is low."""
    owner = max((name for name in metrics if column == name or column.startswith(f"{name}.")), key=len)
    return (column[len(owner) + 1 :] or "score") in metrics[owner].errors


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

    Args:
      offset: ``[d]``, what codes were shifted by, to which functions are blind unless they are ``placed``.
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


def per_factor_fields(metric) -> tuple[str, ...]:
    """Fields in a metric's result that hold one number per factor."""
    return tuple(field for field, letters in axes_of(metric).items() if letters == ("k",))


def scalar_fields(metric) -> tuple[str, ...]:
    """Fields in a metric's result that are columns, by the annotations; ``score`` if there are none."""
    function = (metric.score if isinstance(metric, Blend) else metric.function).function
    result, arrays = typing.get_type_hints(function).get("return"), axes_of(metric)
    found = (field for kind in _alternatives(result) for field in getattr(kind, "_fields", ("score",)))
    return tuple(dict.fromkeys(field for field in found if field not in arrays))


def axes_of(metric) -> dict[str, tuple[str, ...]]:
    """The letters for each array's axes in a metric's result, such as ``("d", "k")``, by the annotations."""
    last = {Blend: "score", Direct: "function"}.get(type(metric))
    if last is None:
        return {}
    result = typing.get_type_hints(getattr(metric, last).function).get("return")
    fields = typing.get_type_hints(result) if isinstance(result, type) else {}
    dims = {field: max((_dims(part) for part in _alternatives(kind)), key=len) for field, kind in fields.items()}
    return {field: tuple(text.split()) for field, text in dims.items() if text}


def _alternatives(kind) -> tuple:
    """A union's members, or the type itself."""
    return typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)


def _dims(kind) -> str:
    return getattr(kind, "dim_str", "").strip()


def metric_seed(name: str) -> int:
    """A number that depends on a metric's name alone."""
    return zlib.crc32(name.encode())


def _resolve(value, table: dict[str, Spec], kind: str) -> Spec:
    if isinstance(value, str):
        if value not in table:
            raise ValueError(f"{kind}: unknown name {shown(value)}; the {kind}s are {sorted(table)}")
        return table[value]
    if not isinstance(value, Spec):
        raise ValueError(f"{kind}: must be a name or a Spec, got {shown(value)}")
    return value
