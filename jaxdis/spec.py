"""A pure function with its static options, as a value: what the tables hold, what a compiled program is keyed by."""

import dataclasses
import functools
import inspect
import json
import zlib
from collections.abc import Callable, Hashable
from typing import Any


@dataclasses.dataclass(frozen=True)
class Spec:
    """``function`` with some of its keyword-only options set. Hashable and comparable, unlike a closure or a partial.

    What the function takes is read off its signature: a stochastic one has ``key``, one that needs held-out samples has
    ``test``, one that can weigh samples has ``weights``.
    """

    function: Callable
    options: tuple[tuple[str, Hashable], ...] = ()

    def __call__(self, *args, **kwargs) -> Any:
        return self.function(*args, **dict(self.options), **kwargs)

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def summary(self) -> str:
        """The first line of the function's docstring."""
        return (inspect.getdoc(self.function) or "").split("\n")[0]

    @property
    def knobs(self) -> dict[str, Any]:
        """Every static option with its value here."""
        return {**_static_options(self.function), **dict(self.options)}

    def takes(self, argument: str) -> bool:
        return argument in _parameters(self.function)

    def with_options(self, **options: Hashable) -> "Spec":
        """The same function with other options.

        Raises:
          ValueError: for a name that is no option of the function.
        """
        known = _static_options(self.function)
        for name in options:
            if name not in known:
                raise ValueError(f"{self.name}: has no option {name!r}; its options are {sorted(known)}")
        merged = {**dict(self.options), **options}
        kept = {name: value for name, value in merged.items() if value != known[name]}
        return dataclasses.replace(self, options=tuple(sorted(kept.items())))

    def describe(self) -> dict[str, Any]:
        """Name and all options, as plain data: the part of a cell's identity that this value is."""
        return {"function": self.name, "options": self.knobs}

    @property
    def seed(self) -> int:
        """A number that depends on the name and the options alone, folded into a member's key."""
        return zlib.crc32(json.dumps(self.describe(), sort_keys=True, default=str).encode())


# Arguments that carry arrays; everything else behind the `*` of a signature is a static option.
ARRAY_ARGUMENTS = frozenset({"weights", "variances", "test", "active", "draws", "groups"})


@functools.cache
def _parameters(function: Callable) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(function).parameters)


@functools.cache
def _static_options(function: Callable) -> dict[str, Any]:
    return {
        name: parameter.default
        for name, parameter in _parameters(function).items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and name not in ARRAY_ARGUMENTS
    }
