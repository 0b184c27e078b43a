"""What an argument or an option may be, derived from annotations: types, choices and ranges, checked in one place.

``Literal["exact", "histogram"]`` gives choices, ``int``, ``float``, ``bool`` and ``None`` give types, and
``Annotated[int, Range(1)]`` (``Count``, ``Share``, …) adds a range. Options are checked when a
:class:`~jaxdis._core.spec.Spec` is constructed, arguments of public functions by the decorator :func:`checked`. Other
annotations, such as arrays', are left to the function itself.
"""

import ast
import collections.abc
import contextlib
import dataclasses
import difflib
import functools
import inspect
import math
import numbers
import operator
import pathlib
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal, TypeVar

import jax
import jaxtyping
import numpy as np

from jaxdis._core.precision import single_precision

MOST = 2**31 - 1
Function = TypeVar("Function", bound=Callable)


@dataclasses.dataclass(frozen=True)
class Range:
    """Numbers from ``low`` to ``high``; ``above`` excludes ``low`` itself, ``below`` excludes ``high``."""

    low: float | int = -math.inf
    high: float | int = math.inf
    above: bool = False
    below: bool = False

    def __contains__(self, value) -> bool:
        return (value > self.low if self.above else value >= self.low) and (
            value < self.high if self.below else value <= self.high
        )

    def __str__(self) -> str:
        if self.above and self.below:
            return f"between {self.low:g} and {self.high:g}"
        low = f"above {self.low:g}" if self.above else f"of at least {self.low:g}"
        if self.high in (math.inf, MOST):
            return low
        high = f"below {self.high:,}" if self.below else f"at most {self.high:,}"
        if not self.above and not self.below:
            return f"from {self.low:g} to {self.high:,}"
        return f"{low} and {high}"


@dataclasses.dataclass(frozen=True)
class Entries:
    """Tuples of at least ``low`` entries."""

    low: int = 1

    def __contains__(self, value) -> bool:
        return len(value) >= self.low

    def __str__(self) -> str:
        return f"with at least {self.low} {'entry' if self.low == 1 else 'entries'}"


Natural = Annotated[int, Range(0, MOST)]
Count = Annotated[int, Range(1, MOST)]
# Dense tables have a row for each bin and 2^depth leaves: beyond this they fill any memory.
Bins = Annotated[int, Range(1, 2**16)]
Cuts = Annotated[int, Range(2, 2**16)]
Units = Annotated[int, Range(1, 2**16)]
Batches = Annotated[int, Range(1, 10**6)]
Counts = Annotated[tuple[Count, ...], Entries(1)]
Depth = Annotated[int, Range(1, 24)]
Depths = Annotated[tuple[Depth, ...], Entries(1)]
BatchSize = Annotated[int, Range(2, 10**4)]  # a variance needs two
Seed = Annotated[int, Range(0, MOST)]
Positive = Annotated[float, Range(0, above=True)]
NonNegative = Annotated[float, Range(0)]
Penalties = Annotated[tuple[NonNegative, ...], Entries(1)]
Share = Annotated[float, Range(0, 1)]
Level = Annotated[float, Range(0, 1, above=True, below=True)]


class Refused(Exception):
    """The value does not match the annotation; internal: users see a ValueError."""


def checked(function: Function) -> Function:
    """Wrap the function so that arguments that its annotations do not allow raise a ValueError that names them, and
    so that it computes in single precision."""
    parameters = inspect.signature(function).parameters
    in_order = [name for name, parameter in parameters.items() if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]

    @functools.wraps(function)
    def call(*args, **kwargs):
        positional = [
            checked_value(name, parameters[name].annotation, value) for name, value in zip(in_order, args, strict=False)
        ]
        named = {
            name: checked_value(name, parameters[name].annotation, value) if name in parameters else value
            for name, value in kwargs.items()
        }
        return function(*positional, *args[len(positional) :], **named)

    return single_precision(typing.cast(Function, call))


def check_fields(value) -> None:
    """Check every field of a frozen dataclass against its annotation; for ``__post_init__``."""
    for field in dataclasses.fields(value):
        given = getattr(value, field.name)
        accepted = checked_value(field.name, field.type, given)
        if accepted is not given:
            object.__setattr__(value, field.name, accepted)


class CheckedFields:
    """A frozen dataclass that checks every field against its annotation when it is made."""

    def __post_init__(self):
        check_fields(self)


def from_texts(kind: type, texts: collections.abc.Mapping[str, str], **fields):
    """A dataclass whose positional fields are given, some as Python literals: ``3``, ``0.5``, ``(32, 32)`` or text."""
    types = {
        field.name: field.type
        for field in dataclasses.fields(kind)
        if not (field.kw_only or field.name in fields or dataclasses.is_dataclass(field.type))
    }
    for name, text in texts.items():
        if name not in types:
            raise ValueError(f"{kind.__name__}: must have options among {', '.join(types)}, got {shown(name)}")
        fields[name] = checked_value(name, types[name], literal(text))
    return kind(**fields)


def literal(text: str):
    """A Python literal, or the text itself: ``30``, ``0.5``, ``(1,2)``, ``None``, ``histogram``."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def checked_value(name: str, annotation: Any, value: Any) -> Any:
    """The value as Python's own type, so that ``np.int64(30)`` and ``30`` are one option."""
    try:
        return _accept(annotation, value)
    except Refused:
        advice = getattr(annotation, "advice", "")  # a class may tell the way out
        raise ValueError(f"{name}: must be {_said(annotation)}, got {shown(value)}{advice and f'; {advice}'}") from None


def shown(value: Any) -> str:
    """A value for an error message: short, and on one line."""
    if isinstance(value, np.ndarray | jax.Array) and getattr(value, "ndim", 0):
        return f"an array of shape {value.shape} and dtype {value.dtype}"
    try:
        text = repr(value)
    except Exception:
        text = f"a {type(value).__name__}"
    text = " ".join(text.split())
    return text if len(text) <= 200 else f"{text[:197]}…"


def listed(value: Any) -> list | None:
    """The entries of a sequence; None for text, mappings and everything else that is not one."""
    if isinstance(value, str | bytes | collections.abc.Mapping) or not isinstance(value, collections.abc.Iterable):
        return None
    try:
        return list(value)
    except TypeError:  # an array without axes
        return None


def is_key(value: Any) -> bool:
    """Whether a value is one typed key, such as ``jax.random.key(0)``."""
    return is_keys(value) and value.ndim == 0


def is_keys(value: Any) -> bool:
    return isinstance(value, jax.Array) and jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key)


def checked_key(key: Any) -> jax.Array:
    """The typed key that is given as such, as a raw one (``jax.random.PRNGKey(0)``) or as a seed; None: the seed 0."""
    key = 0 if key is None else key
    if isinstance(key, numbers.Integral) and not isinstance(key, bool) and 0 <= key < 2**32:
        return jax.random.key(int(key))
    if isinstance(key, np.ndarray | jax.Array) and key.dtype == np.uint32 and key.shape == (2,):
        return jax.random.wrap_key_data(key, impl="threefry2x32")
    if not is_key(key):
        raise ValueError(
            f"key: must be a typed key such as jax.random.key(0), got {shown(key)}; a seed from 0 works too"
        )
    return key


def checked_devices(devices: Any) -> tuple[jax.Device, ...] | None:
    """Distinct devices, at least one; None for None."""
    if devices is None:
        return None
    given = listed(devices)
    if not given or not all(isinstance(device, jax.Device) for device in given):
        raise ValueError(f"devices: must have at least one device of jax.devices(), got {shown(devices)}")
    if len(set(given)) != len(given):
        raise ValueError(f"devices: must be distinct devices, got {shown(given)}")
    return tuple(given)


def _accept(annotation: Any, value: Any) -> Any:
    """The value if the annotation allows it; raises Refused."""
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        value = _accept(parts[0], value)
        if all(value in bound for bound in parts[1:] if isinstance(bound, Range | Entries)):
            return value
        raise Refused
    if origin in (typing.Union, types.UnionType):
        for part in _alternatives(parts, value):
            with contextlib.suppress(Refused):
                return _accept(part, value)
        raise Refused
    if origin is Literal:
        kind = str if isinstance(value, str) else type(value)  # NumPy's text as well: a choice may come out of an array
        choices = [choice for choice in parts if type(choice) is kind and choice == value]
        return _only(bool(choices), choices[0] if choices else value)
    if origin is tuple:  # lists are converted, text and single numbers are refused
        value = value.tolist() if isinstance(value, np.ndarray) and value.ndim == 1 else value
        if not isinstance(value, tuple | list):
            raise Refused
        kinds = [parts[0]] * len(value) if len(parts) == 2 and parts[1] is ... else parts
        if len(kinds) != len(value):
            raise Refused
        return tuple(map(_accept, kinds, value))
    if _is_array_type(annotation):
        return _accept_array(annotation, value)
    if plain := _PLAIN.get(_kind(annotation)):
        return plain[1](value)
    return _only(not dataclasses.is_dataclass(annotation) or isinstance(value, annotation), value)


def _whole(value) -> int:
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Integral):
        raise Refused
    return operator.index(value)


def _real(value) -> float:
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise Refused
    try:
        return _only(math.isfinite(value), float(value))
    except OverflowError:
        raise Refused from None


# What plain annotations are in words, and their values as Python's own types.
_PLAIN: dict[Any, tuple[str, Callable]] = {
    type(None): ("None", lambda value: _only(value is None, None)),
    int: ("a whole number", _whole),
    float: ("a finite number", _real),
    bool: ("True or False", lambda value: bool(_only(isinstance(value, bool | np.bool_), value))),
    str: ("text", lambda value: str(_only(isinstance(value, str), value))),
    pathlib.Path: ("a path", lambda value: _only(isinstance(value, pathlib.PurePath), value)),
    Callable: ("a function", lambda value: _only(callable(value), value)),
    collections.abc.Mapping: ("a mapping", lambda value: _only(isinstance(value, collections.abc.Mapping), value)),
}


def _kind(annotation: Any) -> Any:
    """The key of a plain annotation: ``Callable`` for ``Callable[..., int]``."""
    origin = typing.get_origin(annotation)
    return origin if origin in (Callable, collections.abc.Mapping) else type(None) if annotation is None else annotation


def _only(allowed: bool, value):
    if not allowed:
        raise Refused
    return value


def _is_array_type(annotation) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, jaxtyping.AbstractArray)


def _is_key_type(annotation) -> bool:
    return _is_array_type(annotation) and "prng_key" in annotation.dtypes


def _alternatives(parts, value=None) -> tuple:
    """A union's members that can check a value.

    Of jaxtyping's union of keys the typed ones; of a number and an array, the former for plain numbers.
    """
    if isinstance(value, numbers.Number) and not all(map(_is_array_type, parts)):
        return tuple(part for part in parts if not _is_array_type(part))
    if not any(map(_is_key_type, parts)):
        return parts
    return tuple(part for part in parts if _is_key_type(part) or not _is_array_type(part))


def _accept_array(annotation, value):
    """Arrays (traced ones too) of the annotation's rank and kind; a number where it has no axes."""
    rank = len(annotation.dims)
    if _is_key_type(annotation):
        return _only(is_keys(value) and value.ndim == rank, value)
    kinds = _kinds(annotation)
    if not isinstance(value, np.ndarray | np.generic | jax.Array):
        return _only(rank == 0, value) if kinds == "b" else _only(rank == 0, (_real if "f" in kinds else _whole)(value))
    kind = "f" if jax.numpy.issubdtype(value.dtype, np.floating) else getattr(value.dtype, "kind", None)
    fits = value.ndim == rank if annotation.index_variadic is None else value.ndim >= rank - 1
    return _only(fits and kind is not None and kind in kinds, value)


def _kinds(annotation) -> str:
    """The kinds of numbers that an array annotation takes; whole numbers may stand for real ones."""
    names = annotation.dtypes
    if names is jaxtyping.Shaped.dtypes or "float32" in names:
        return "fiub"
    return "iu" if "int32" in names else "iub" if "uint8" in names else "b"


def _said(annotation: Any) -> str:
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        bounds = " ".join(str(bound) for bound in parts[1:] if isinstance(bound, Range | Entries))
        return f"{_said(parts[0]).replace('finite ', '')} {bounds}"
    if origin in (typing.Union, types.UnionType):
        return " or ".join(dict.fromkeys(map(_said, _alternatives(parts))))
    if origin is Literal:
        return " or ".join(part for part in (", ".join(map(repr, parts[:-1])), repr(parts[-1])) if part)
    if origin is tuple:
        each = dict.fromkeys(_said(part) for part in parts if part is not ...)
        return f"a tuple of {', '.join(each)}"
    if _is_key_type(annotation):
        several = "typed keys, such as jax.random.split(jax.random.key(0))"
        return several if annotation.dims else "a typed key such as jax.random.key(0)"
    if _is_array_type(annotation):
        numbers_said = {"fiub": "numbers", "iu": "whole numbers", "iub": "whole numbers", "b": "truth values"}
        shape = ", ".join(annotation.dim_str.split())
        return f"an array [{shape}] of {numbers_said[_kinds(annotation)]}"
    if plain := _PLAIN.get(_kind(annotation)):
        return plain[0]
    name = getattr(annotation, "__name__", str(annotation))
    return f"{'an' if name[0] in 'AEIO' else 'a'} {name}"


# Names that a text lists, and letters of each: users have thousands of columns, factors and files.
MOST_NAMED = 8
LONGEST_NAME = 80


def some_of(names: Iterable, most: int = MOST_NAMED) -> str:
    """Names in a text, however many there are: all if few, else the first ones and how many more.

    >>> some_of(range(1380), most=2)
    '0, 1 and 1,378 more'
    """
    names = [name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…" for name in map(printable, names)]
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {len(names) - most:,} more"


def printable(name) -> str:
    """A name, of a file or a class, without the control characters that would reach the terminal."""
    return "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in str(name))


def names_of(names, table: Mapping, kind: str, elsewhere: Mapping[str, str] | None = None) -> list[str]:
    """Return distinct row names in a table, in the order given; all for ``"all"``."""
    if isinstance(names, str):
        names = list(table) if names == "all" else [names]
    given, names = names, listed(names)
    if names is None:
        raise ValueError(f"{kind}s: must be names, got {shown(given)}")
    if not names:
        raise ValueError(f"{kind}s: must have at least one {kind}, got none; the {kind}s are {', '.join(table)}")
    for name in names:
        look_up(name, table, kind, elsewhere=elsewhere)
    return list(dict.fromkeys(spelled(name, table) for name in names))


def spelled(name, table: Mapping) -> str:
    """Return the name as the table has it, without regard to capitals and dashes."""
    if name in table or not isinstance(name, str):
        return name
    plain = name.lower().replace("-", "_")
    return plain if plain in table else name


def look_up(name, table: Mapping, kind: str, kinds: str | None = None, elsewhere: Mapping[str, str] | None = None):
    """Return the row with this name in a table.

    Args:
      elsewhere: names that users may expect in the table, and what to do instead.
    """
    kinds = kinds or f"{kind}s"
    if not isinstance(name, str):
        raise ValueError(
            f"{kinds}: must be names, got {shown(name)}; give {kinds} of your own as a mapping name → {kind}"
        )
    if name in (elsewhere or ()):
        raise ValueError(f"{kinds}: must be {kinds} of the codes of one member, got {name!r}, which {elsewhere[name]}")
    found = spelled(name, table)
    if found not in table:
        stem, _, options = name.partition(":")
        near = difflib.get_close_matches(name.lower(), table, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"the {kinds} are {', '.join(table)}"
        if options and stem in table:
            options = options.replace(":", ", ")
            hint = f"give options by {kinds.upper()}[{stem!r}].with_options({options}), in a mapping from names"
        raise ValueError(f"{kinds}: unknown {kind} {shown(name)}; {hint}")
    return table[found]
