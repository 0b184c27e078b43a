"""Factors' values, intervals for continuous ones, and how these are drawn in addition to a lattice's cells."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Num, PRNGKeyArray

from jaxdis._core import random
from jaxdis._core.options import Range, checked_value, listed, shown

# The values of a factor are stored individually.
MOST_VALUES = 2**20
# Folded into a key, so that continuous and discrete factors are drawn from different keys.
_APART = 2**31


@dataclasses.dataclass(frozen=True)
class Interval:
    """A continuous factor's values: uniform from ``low`` to ``high``, which are identified if ``circular``."""

    low: int | float
    high: int | float
    circular: bool = False

    def __post_init__(self):
        for name, kind in (("low", float), ("high", float), ("circular", bool)):
            object.__setattr__(self, name, checked_value(name, kind, getattr(self, name)))
        if not (math.isfinite(self.low) and math.isfinite(self.high) and np.float32(self.low) < np.float32(self.high)):
            raise ValueError(f"low: must be finite numbers low < high, got {self.low:g} and {self.high:g}")


def uniform(key: PRNGKeyArray, position: int, span: Interval, n: int) -> Float[Array, " n"]:
    """Values for the factor at ``position``, from its whole interval."""
    return random.uniform(_key_of(key, position), (n,), minval=span.low, maxval=span.high)


def near(
    key: PRNGKeyArray,
    position: int,
    span: Interval,
    n: int,
    center: Float[Array, ""],
    radius: float | None,
    *,
    circular: bool,
) -> Float[Array, " n"]:
    """Values within ``radius`` of ``center``; they continue beyond the ends only if circular."""
    if radius is None:
        return uniform(key, position, span, n)
    key, width = _key_of(key, position), span.high - span.low
    if span.circular or circular:
        most = min(radius, width / 2)
        return span.low + (center + random.uniform(key, (n,), minval=-most, maxval=most) - span.low) % width
    low, high = jnp.maximum(center - radius, span.low), jnp.minimum(center + radius, span.high)
    return low + (high - low) * random.uniform(key, (n,))


def completed(cells: Int[Array, "n k"], spans: Mapping[int, Interval | float], draw: Callable) -> Num[Array, "n k"]:
    """The cells with ``draw(position, span)`` in columns for continuous factors, or with their fixed values."""
    if not spans:
        return cells
    table = cells.astype(jnp.float32)
    for position, span in spans.items():
        column = jnp.full(len(cells), span, jnp.float32) if isinstance(span, float) else draw(position, span)
        table = table.at[:, position].set(column)
    return table


def _key_of(key, position: int):
    return jax.random.fold_in(jax.random.fold_in(key, _APART), position)


def middles(span: Interval, count: int) -> Float[Array, " b"]:
    """The centers of equal-width bins in an interval."""
    return span.low + (span.high - span.low) * (jnp.arange(count, dtype=jnp.float32) + 0.5) / count


def values_of(name: str, given) -> tuple[float, ...] | Interval:
    """A factor's values, from how many there are, from a sequence, or from an interval."""
    if isinstance(given, Interval):
        return given
    if isinstance(given, int | np.integer):
        return tuple(map(float, range(checked_value(name, Annotated[int, Range(1, MOST_VALUES)], given))))
    values = listed(given)
    if not values:
        raise ValueError(f"{name}: must have at least 1 value or the number of values, got {shown(given)}")
    return tuple(checked_value(name, float, value) for value in values)
