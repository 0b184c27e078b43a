"""What :func:`jaxdis.evaluate` warns about: nothing varies, or values that are not finite or beyond float32."""

import warnings
from collections.abc import Callable, Mapping

import numpy as np

from jaxdis._core.arrays import LARGEST, SMALLEST
from jaxdis._core.lookup import some_of
from jaxdis.factors import Factors
from jaxdis.metrics._plan import Plan

# Numbers of codes that are looked at together.
AT_ONCE = 1 << 24


def warn_of_constant(plan: Plan, factors: Factors) -> None:
    """Warn the caller's caller if a metric reads factors and none varies, so that there is nothing to score."""
    values = np.asarray(factors.values)
    reads = any(metric.about is None or metric.about.reads_factors for _, metric in plan)
    if reads and (values == values[0]).all():
        warnings.warn(
            f"factors: must vary, got one value alone in {some_of(factors.names)}; scores that need a factor are NaN",
            RuntimeWarning,
            stacklevel=3,
        )


def warn_of_non_finite(roles: Mapping, suspects) -> None:
    """Warn the caller's caller about arrays ``[m, …]`` with non-finite values; only the members ``suspects`` are
    read."""
    for name, array in roles.items():
        counts = {} if array is None else {i: _of_codes(_non_finite, array[i]) for i in suspects}
        if bad := [member for member, count in counts.items() if count.any()]:
            total = sum(int(count.sum()) for count in counts.values())
            codes = np.flatnonzero(np.any([counts[member] > 0 for member in bad], axis=0))
            warnings.warn(
                f"{name}: {total} non-finite values in {len(bad)} of {len(array)} members ({some_of(bad)}), in codes "
                f"{some_of(codes)}; scores that read them are NaN, other members are not touched",
                RuntimeWarning,
                stacklevel=3,
            )


def warn_of_range(roles: Mapping, suspects) -> None:
    """Warn the caller's caller about codes ``[m, …]`` too small or large for float32; as :func:`warn_of_non_finite`."""
    for name, array in roles.items():
        members = [] if array is None else [_of_codes(_largest, array[i]) for i in suspects]
        largest = np.concatenate([*members, np.empty(0)])
        extremes = largest[np.isfinite(largest) & (largest > 0) & ((largest < SMALLEST) | (largest > LARGEST))]
        if extremes.size:
            warnings.warn(
                f"{name}: must lie within {SMALLEST:g} … {LARGEST:g}, got {extremes[0]:.1e} as the largest value of a "
                "code; float32 loses the squares of such codes, and scores with them: multiply the codes by a constant",
                RuntimeWarning,
                stacklevel=3,
            )


def _of_codes(function: Callable, member) -> np.ndarray:
    """``function`` of a member's codes, ``[n, d]``, which may be on disk: a few at a time."""
    width = max(1, AT_ONCE // len(member))
    starts = range(0, member.shape[1], width)
    return np.concatenate([function(np.asarray(member[:, start : start + width])) for start in starts])


def _non_finite(codes: np.ndarray) -> np.ndarray:
    return (~np.isfinite(codes)).sum(axis=0)


def _largest(codes: np.ndarray) -> np.ndarray:
    return np.abs(codes).max(axis=0)
