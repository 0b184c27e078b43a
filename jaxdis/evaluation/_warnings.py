"""What :func:`jaxdis.evaluate` warns about: nothing varies, or values that are not finite or beyond float32."""

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from jaxdis._core.arrays import LARGEST, SMALLEST
from jaxdis._core.lookup import some_of
from jaxdis.evaluation._member import MemberCodes
from jaxdis.factors import Factors
from jaxdis.metrics._plan import Plan

PACKAGE = __name__.partition(".")[0]
# Numbers of codes that are looked at together.
AT_ONCE = 1 << 24


def warn(message: str) -> None:
    """Warn at the line that called this package."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals["__name__"].partition(".")[0] == PACKAGE:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, RuntimeWarning, stacklevel=level)


def warn_of_constant(plan: Plan, pieces: Sequence[Factors]) -> None:
    """Warn if a metric reads factors, of which none varies: there is nothing to score."""
    if any(metric.reads_factors for _, metric in plan):
        names = some_of(name for factors in pieces for name in factors.names)
        warn(f"factors: must vary, got one value alone in {names}; scores that need a factor are NaN")


def warn_of_codes(members: MemberCodes, sounds: Sequence[np.ndarray]) -> None:
    """Warn of codes and variances with values that are not finite or beyond float32, where ``sounds [m]`` says so."""
    suspects = np.flatnonzero(~np.all(sounds, axis=0)) if len(sounds) else ()
    if len(suspects):
        roles = {"codes": members.codes, "test codes": members.test_codes, "validation codes": members.validation_codes}
        warn_of_non_finite({**roles, "variances": members.variances}, suspects)
        warn_of_range(roles, suspects)


def warn_of_non_finite(roles: Mapping, suspects) -> None:
    """Warn about arrays ``[m, …]`` with non-finite values; only the members ``suspects`` are
    read."""
    for name, array in roles.items():
        counts = {} if array is None else {i: _of_codes(_non_finite, array[i]) for i in suspects}
        if bad := [member for member, count in counts.items() if count.any()]:
            total = sum(int(count.sum()) for count in counts.values())
            codes = np.flatnonzero(np.any([counts[member] > 0 for member in bad], axis=0))
            warn(
                f"{name}: {total} non-finite values in {len(bad)} of {len(array)} members ({some_of(bad)}), in codes "
                f"{some_of(codes)}; scores that read them are NaN, other members are not touched"
            )


def warn_of_range(roles: Mapping, suspects) -> None:
    """Warn about codes ``[m, …]`` too small or large for float32; as :func:`warn_of_non_finite`."""
    for name, array in roles.items():
        members = [] if array is None else [_of_codes(_largest, array[i]) for i in suspects]
        largest = np.concatenate([*members, np.empty(0)])
        extremes = largest[np.isfinite(largest) & (largest > 0) & ((largest < SMALLEST) | (largest > LARGEST))]
        if extremes.size:
            warn(
                f"{name}: must lie within {SMALLEST:g} … {LARGEST:g}, got {extremes[0]:.1e} as the largest value of a "
                "code; float32 loses the squares of such codes, and scores with them: multiply the codes by a constant"
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
