"""A pure function with its static options as a hashable value, for the tables and as a key of compiled programs."""

import dataclasses
import functools
import inspect
import json
import typing
import zlib
from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple

from jaxtyping import AbstractArray

from jaxdis._core.options import checked_value, shown
from jaxdis._core.precision import exact_products, single_precision


@dataclasses.dataclass(frozen=True, repr=False)
class Spec:
    """``function`` with some of its keyword-only options set. Hashable and comparable, unlike a closure or a partial.

    The signature of the function decides which arrays it reads besides codes and factors (:class:`Reads`); every other
    keyword-only argument is a static option and needs a default. ``title`` is a name for readers and is ignored in
    comparisons.

    Attributes:
      name: the function's.
      all_options: every static option and its value.
      reads: which arrays the function reads besides codes and factors.
      traits: what :func:`metric` declares of the function.
      errors: the fields of its result that are best when they are low.
      distinct_samples: whether the function requires distinct samples.
      needs_classes: whether continuous factors are left out.
      needs_order: whether nominal factors are left out.
      needs_validation: whether validation samples decide between several option values.
    """

    function: Callable
    options: tuple[tuple[str, Any], ...] = ()
    title: str = dataclasses.field(default="", compare=False)

    def __post_init__(self):
        if not callable(self.function):
            raise ValueError(f"function: must be a function of codes and factors, got {shown(self.function)}")
        options, traits = _checked_options(self.function, self.options), getattr(self.function, "traits", Traits())
        every = {**_static_options(self.function), **dict(options)}
        several = every.get(traits.chooses)
        found = {
            "options": options,
            "name": getattr(self.function, "__name__", type(self.function).__name__),
            "all_options": every,
            "reads": Reads(*(name in _parameters(self.function) for name in Reads._fields)),
            "traits": traits,
            "errors": () if traits.unless and every[traits.unless] else traits.errors,
            "distinct_samples": traits.distinct_samples,
            "needs_classes": traits.needs_classes and every.get("factor_bins") is None,
            "needs_order": traits.needs_order is True or traits.needs_order in dict(options).values(),
            "needs_validation": isinstance(several, tuple) and len(several) > 1,
        }
        if traits.starts_from is None:
            found["base"] = None
        for name, value in found.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        """``mutual_information(bins=30)``, or the name alone without options."""
        options = ", ".join(f"{name}={value!r}" for name, value in self.options)
        return f"{self.name}({options})" if options else self.name

    @single_precision
    @exact_products
    def __call__(self, *args, **kwargs) -> Any:
        return self.function(*args, **dict(self.options), **kwargs)

    @property
    def summary(self) -> str:
        return (inspect.getdoc(self.function) or "").split("\n")[0]

    @single_precision
    def prepare(self, key, factors) -> Any:
        """The arrays that all members share, computed once with the options of this spec; None for most functions."""
        make = self.traits.prepare
        if make is None:
            return None
        options = {name: value for name, value in self.all_options.items() if name in _parameters(make)}
        return make(key, factors, **options) if "key" in _parameters(make) else make(factors, **options)

    @functools.cached_property
    def base(self) -> "Spec | None":
        """The function whose result this one can reuse, with the options that both have; None for most."""
        function = self.traits.starts_from
        shared = _static_options(function)
        return Spec(function).with_options(**{name: value for name, value in self.options if name in shared})

    def with_options(self, **options: Any) -> "Spec":
        """The same function with other options, which are checked."""
        return dataclasses.replace(self, options=tuple({**dict(self.options), **options}.items()))

    def describe(self) -> dict[str, Any]:
        """Name and all options as plain data, which belong to the identity of a study's cells."""
        return {"function": self.name, "options": self.all_options}

    @functools.cached_property
    def seed(self) -> int:
        """A number that depends only on the name and the options, less one that judges what was drawn; it is folded
        into a member's random key.

        A function that can start from another has the seed of the other, so that both draw the same random numbers.
        """
        if self.base:
            return self.base.seed
        options = {name: value for name, value in self.all_options.items() if name != self.traits.judges}
        return zlib.crc32(json.dumps(self.describe() | {"options": options}, sort_keys=True, default=str).encode())


@dataclasses.dataclass(frozen=True)
class Traits:
    """What the signature of a function of one representation does not say; :func:`metric` declares it.

    Attributes:
      needs_classes: it leaves out continuous factors, unless its option ``factor_bins`` cuts them into classes.
      needs_order: it leaves out nominal factors, whose classes have no order; or the value of an option for which it
        does. Others read an indicator for each class, or only ask which samples have the same class.
      distinct_samples: its samples may not repeat, because it reads distances between nearest samples, or memorizes
        training samples and is evaluated on others. A bootstrap passes random halves of the samples.
      errors: the fields of its result that are best when they are low, such as ``score``; the others are scores.
      unless: the option that, if it is set, turns these errors into scores.
      chooses: the option among whose values its argument ``validation`` chooses, by the error on these samples.
      prepare: makes its argument ``prepared`` once for all members, from the factors (preceded by a key if it is
        stochastic) and any of its options.
      starts_from: the function whose result, on the same samples and with the same key, its argument ``base`` may be,
        so that metrics that use both fit once. Without ``base``, it computes everything itself.
      of_values: it takes class numbers as values: distances between them matter, and how many there are does not.
        Others only ask which samples have the same class.
      on_a_line: it reads continuous factors as numbers on a line, on which 359° are far from 0°.
      judges: the option that judges what was trained; the same random numbers are drawn whatever it is.
      placed: it reads where codes are, not only how they spread: its bins are fixed, or an intercept is penalized.
    """

    needs_classes: bool = False
    needs_order: bool | str | None = None
    distinct_samples: bool = False
    errors: tuple[str, ...] = ()
    unless: str | None = None
    chooses: str | None = None
    prepare: Callable | None = None
    starts_from: Callable | None = None
    of_values: bool = False
    on_a_line: bool = False
    judges: str | None = None
    placed: bool = False


def metric(**traits) -> Callable:
    """Declare the :class:`Traits` of a metric, a relation or a score, which computes in float32 wherever it is called.

    >>> @metric(needs_classes=True, errors=("score",))
    ... def share_of_errors(codes, factors): ...
    """
    declared = Traits(**traits)
    needed = {"validation": declared.chooses, "prepared": declared.prepare, "base": declared.starts_from}

    def mark(function: Callable) -> Callable:
        options = (declared.chooses, declared.unless)
        for name in (*(name for name, value in needed.items() if value is not None), *filter(None, options)):
            if name not in _parameters(function):
                raise ValueError(f"{function.__name__}: must have an argument {name!r} for these traits, got none")
        function = single_precision(exact_products(function))
        function.traits = declared
        return function

    return mark


class Reads(NamedTuple):
    """Which arrays a function of one representation takes besides codes and factors.

    A function asks for them by the names of its arguments, as a test asks pytest for fixtures: one that has an argument
    ``weights`` can weight samples and is given weights, one that has none is never given any. Every other keyword is an
    option. The key, if there is one, is the first argument.

    Attributes:
      key: it is stochastic.
      test: it needs held-out samples.
      validation: it can choose an option by validation samples.
      weights: it can weight samples.
      variances: it reads posterior variances.
      active: it can leave out codes.
      prepared: it reads arrays that all members share.
      base: it can start from the result of another function.
      groups: it divides its samples itself, into folds or for early stopping, and keeps groups of them whole.
    """

    key: bool
    test: bool
    validation: bool
    weights: bool
    variances: bool
    active: bool
    prepared: bool
    base: bool
    groups: bool


@functools.cache
def _parameters(function: Callable) -> dict[str, inspect.Parameter]:
    try:
        return dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # a few built-in functions have none
        return {}


@functools.cache
def _static_options(function: Callable) -> dict[str, Any]:
    options = {
        name: parameter.default
        for name, parameter in _parameters(function).items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and name not in Reads._fields
    }
    for name, default in options.items():
        annotation = _parameters(function)[name].annotation
        kinds = typing.get_args(annotation) or (annotation,)
        is_array = any(isinstance(kind, type) and issubclass(kind, AbstractArray) for kind in kinds)
        if default is inspect.Parameter.empty or is_array:
            names = ", ".join(Reads._fields)
            raise ValueError(
                f"{getattr(function, '__name__', function)}: argument {name!r} needs a default and a static value (an "
                f"option), or one of the names of arrays ({names})"
            )
    return options


def _checked_options(function: Callable, options) -> tuple[tuple[str, Hashable], ...]:
    """Options in alphabetical order, without those that are at their defaults."""
    name, defaults = getattr(function, "__name__", type(function).__name__), _static_options(function)
    try:
        options = dict(options) if isinstance(options, tuple | list | Mapping) else None
    except (TypeError, ValueError):
        options = None
    if options is None:
        raise ValueError("options: must be pairs (name, value), got something else")
    kept = {}
    for option, value in options.items():
        if option not in defaults:
            raise ValueError(f"{name}: has no option {shown(option)}; its options are {sorted(defaults)}")
        value = checked_value(option, _parameters(function)[option].annotation, value)
        try:
            hash(value)
        except TypeError:
            raise ValueError(f"{option}: must be a value that can be hashed, got {shown(value)}") from None
        if type(value) is not type(defaults[option]) or value != defaults[option]:
            kept[option] = value
    return tuple(sorted(kept.items()))
