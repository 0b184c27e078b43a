"""Warnings of :func:`jaxdis.evaluate`: nothing varies, or values that are not finite or beyond float32."""

import warnings
from collections.abc import Mapping

import numpy as np

from jaxdis._core.arrays import LARGEST, SMALLEST
from jaxdis.factors import Factors
from jaxdis.metrics._plan import Plan


def warn_of_constant(plan: Plan, factors: Factors) -> None:
    """Warn the caller's caller if a metric reads factors of which none varies, so that there is nothing to score."""
    values = np.asarray(factors.values)
    reads = any(metric.about is None or metric.about.reads_factors for _, metric in plan)
    if reads and (values == values[0]).all():
        warnings.warn(
            f"factors: must vary, got one value alone in {', '.join(factors.names)}; scores that need a factor are NaN",
            RuntimeWarning,
            stacklevel=3,
        )


def warn_of_non_finite(roles: Mapping, suspects) -> None:
    """Warn the caller's caller of arrays ``[m, …]`` with non-finite values; only the members ``suspects`` are read."""
    for name, array in roles.items():
        counts = {} if array is None else {i: int((~np.isfinite(np.asarray(array[i]))).sum()) for i in suspects}
        if bad := [str(member) for member, count in counts.items() if count]:
            listing = ", ".join(bad[:10]) + (", …" if len(bad) > 10 else "")
            warnings.warn(
                f"{name}: {sum(counts.values())} non-finite values in {len(bad)} of {len(array)} members ({listing}); "
                "scores that read them are NaN, other members are not touched",
                RuntimeWarning,
                stacklevel=3,
            )


def warn_of_range(roles: Mapping, suspects) -> None:
    """Warn the caller's caller of codes ``[m, …]`` too small or large for float32; as :func:`warn_of_non_finite`."""
    for name, array in roles.items():
        members = [] if array is None else [np.abs(np.asarray(array[i])).max(axis=0) for i in suspects]
        largest = np.concatenate([*members, np.empty(0)])
        extremes = largest[np.isfinite(largest) & (largest > 0) & ((largest < SMALLEST) | (largest > LARGEST))]
        if extremes.size:
            warnings.warn(
                f"{name}: must lie within {SMALLEST:g} … {LARGEST:g}, got {extremes[0]:.1e} as the largest value of a "
                "code; float32 loses the squares of such codes, and scores with them: multiply the codes by a constant",
                RuntimeWarning,
                stacklevel=3,
            )
