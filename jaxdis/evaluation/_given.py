"""Codes as users give them: made single precision without loss, or refused or warned of by name."""

import warnings
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from jaxdis._core.arrays import LARGEST, SMALLEST, as_numpy, check_one_array

# Of a code this many times its range from 0, float32 keeps 2^14 levels, as many as a histogram of 20 bins needs.
FAR = 2.0**10


def read_codes(codes, **others):
    """Codes as of :func:`check_codes`, and others, pairs (codes, factors) or None, by role.

    A code of more than float32's precision that lies farther from 0 than ``FAR`` times its own range is shifted to 0,
    in float64: nearly all metrics depend only on the spread of a code, which rounding would remove. SAP, whose support
    vector machines penalize the intercept, and the information of sampled codes, whose bins are fixed, therefore score
    such a code as if it were near 0.
    """
    if isinstance(codes, jax.Array) and codes.dtype.itemsize <= 4:
        return check_codes(codes, "codes"), *others.values()
    check_one_array(codes, "codes")
    array, *others = _near_zero(as_numpy(codes, "codes"), others)
    return _single(array, "codes"), *others


def _near_zero(array: np.ndarray, others: dict) -> tuple:
    """Codes, and those of the others, without an offset that would destroy their precision."""
    if array.ndim not in (2, 3) or 0 in array.shape or array.dtype.kind not in "fiu" or array.dtype.itemsize < 4:
        return array, *others.values()
    if array.dtype == np.float32:
        return array, *others.values()
    low, high = (bound.astype(np.float64) for bound in (array.min(axis=-2), array.max(axis=-2)))
    with np.errstate(invalid="ignore"):  # non-finite codes are met later
        far = (np.maximum(np.abs(low), np.abs(high)) > FAR * (high - low)) & (high > low)
    if not far.any():
        return array, *others.values()
    offset = np.where(far, low, 0.0)[..., None, :]

    def shifted(role, pair):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            return pair
        check_one_array(pair[0], f"{role} codes")
        codes = as_numpy(pair[0], f"{role} codes")
        if codes.ndim not in (2, 3) or codes.shape[-1] != array.shape[-1] or codes.dtype.kind not in "fiub":
            return pair
        return codes - (offset[0] if codes.ndim < offset.ndim else offset), pair[1]

    return array - offset, *(shifted(role, pair) for role, pair in others.items())


def check_codes(codes, name: str):
    """Codes as float32, ``[n, d]`` or ``[m, n, d]``, on the host unless they are JAX arrays already."""
    check_one_array(codes, name)
    on_device = isinstance(codes, jax.Array) and not isinstance(codes, jax.core.Tracer) and not codes.is_deleted()
    return _single(codes if on_device else as_numpy(codes, name), name)


def _single(array, name: str):
    """Codes in single precision, of which there are enough."""
    if array.ndim not in (2, 3):
        raise ValueError(f"{name}: needs shape [n, d] or [m, n, d] (members, samples, codes), got {array.shape}")
    if array.dtype.kind not in "fiub" and array.dtype != jnp.bfloat16:
        raise ValueError(f"{name}: needs real numbers, got dtype {array.dtype}")
    if array.shape[-2] < 2:
        raise ValueError(f"{name}: needs at least 2 samples, got {array.shape[-2]} in shape {array.shape}")
    if 0 in array.shape:
        raise ValueError(f"{name}: needs at least one member and one code, got shape {array.shape}")
    if array.dtype.kind == "f" and array.dtype.itemsize > 4:
        largest = np.max(np.abs(array), where=np.isfinite(array), initial=0)
        if largest > np.finfo(np.float32).max:
            raise ValueError(
                f"{name}: must be numbers that float32 can hold, up to 3.4e38, got {float(largest):.1e}; divide them "
                "by a constant"
            )
    return array if array.dtype == np.float32 else array.astype(np.float32)


def warn_of_non_finite(roles: Mapping, suspects) -> None:
    """Warn the caller's caller of arrays ``[m, …]`` with non-finite values; only the members ``suspects`` are read."""
    for name, array in roles.items():
        counts = {} if array is None else {i: int((~np.isfinite(np.asarray(array[i]))).sum()) for i in suspects}
        if bad := [str(member) for member, count in counts.items() if count]:
            some = ", ".join(bad[:10]) + (", …" if len(bad) > 10 else "")
            warnings.warn(
                f"{name}: {sum(counts.values())} non-finite values in {len(bad)} of {len(array)} members ({some}); "
                "scores that read them are NaN, other members are not touched",
                RuntimeWarning,
                stacklevel=3,
            )


def warn_of_range(roles: Mapping, suspects) -> None:
    """Warn the caller's caller of codes ``[m, …]`` too small or large for float32; as :func:`warn_of_non_finite`."""
    for name, array in roles.items():
        members = [] if array is None else [np.abs(np.asarray(array[i])).max(axis=0) for i in suspects]
        largest = np.concatenate([*members, np.empty(0)])
        odd = largest[np.isfinite(largest) & (largest > 0) & ((largest < SMALLEST) | (largest > LARGEST))]
        if odd.size:
            warnings.warn(
                f"{name}: must lie within {SMALLEST:g} … {LARGEST:g}, got {odd[0]:.1e} as the largest value of a code; "
                "float32 loses the squares of such codes, and scores with them: multiply the codes by a constant",
                RuntimeWarning,
                stacklevel=3,
            )
