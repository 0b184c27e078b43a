"""An evaluation's arrays, bound once: checked, made single precision, split into members and what they share."""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdis._core import random
from jaxdis._core.arrays import as_numpy, as_one_array, check_real
from jaxdis._core.options import checked_key, shown
from jaxdis.evaluation._groups import as_groups, check_groups, split_groups
from jaxdis.evaluation._member import MemberCodes, Shared
from jaxdis.evaluation._sparse import dense, is_sparse
from jaxdis.evaluation._table_rows import as_numbered, at_rows
from jaxdis.factors import Factors
from jaxdis.metrics._metric import metric_seed

# Of the samples given without a test set, the share that a metric with held-out samples trains on (2 : 1).
TRAIN_SHARE = 2 / 3
SPLIT_SEED = metric_seed("train and test")
# Whole weights of no larger a sum are counts of samples.
MOST_COUNTED = 2**24
# A code this many times its range from 0 is shifted before float32 rounds it: edges of bins move with the last digits.
FAR = 1.0


class Inputs(NamedTuple):
    """An evaluation's arrays: each member's, what all members share, and whether a single member was given."""

    members: MemberCodes
    shared: Shared
    single: bool


def bind(
    codes,
    factors,
    key=None,
    *,
    test=None,
    validation=None,
    weights=None,
    variances=None,
    active=None,
    numbers=None,
    groups=None,
    split: bool = False,
) -> Inputs:
    """Check what :func:`jaxdis.evaluate` is given and bring them into the forms that are computed with.

    Args:
      split: whether a metric needs held-out samples; without ``test``, the samples are then split 2 : 1 by the key, of
        groups whole ones.
    """
    codes, offset, test, validation = read_codes(codes, test=test, validation=validation)
    factors, key = Factors.checked(factors), checked_key(key)
    weights, variances = at_rows(weights, factors, 0), at_rows(variances, factors)
    codes = at_rows(codes, factors)
    single = codes.ndim == 2
    codes = codes[None] if single else codes
    m, n, d = codes.shape
    check_same_samples("codes", codes, factors)
    test_codes, test_factors = _check_others("test", test, codes, factors)
    train_rows = test_rows = None
    groups = as_groups(groups, factors)
    if split and test is None:
        train_rows, test_rows = _split(key, groups, n)
    validation_codes, validation_factors = _check_others("validation", validation, codes, factors)
    if variances is not None:
        variances = check_variances(check_codes(variances, "variances"), codes.shape)
    if active is not None:
        active = check_active(active, m, d)
    members = MemberCodes(check_numbers(numbers, m), codes, variances, test_codes, active, validation_codes)
    if offset is not None:
        members = members._replace(offset=np.broadcast_to(offset.astype(np.float32), (m, 1, d))[:, 0])
    # Programs never see what is known of a table, whether factors are traced or closed over.
    factors = dataclasses.replace(factors, classes=None, rows=None, num_rows=None)
    shared = Shared(key, factors, check_weights(weights, n), test_factors, train_rows, test_rows)
    groups = None if groups is None else jnp.asarray(groups)
    return Inputs(members, shared._replace(validation_factors=validation_factors, groups=groups), single)


def _split(key, groups: np.ndarray | None, n: int):
    """Which samples train, and which are held out."""
    if groups is None:
        return random.split_rows(key, SPLIT_SEED, n, max(1, min(n - 1, round(n * TRAIN_SHARE))))
    check_groups(groups, "a split")
    return tuple(map(jnp.asarray, split_groups(key, SPLIT_SEED, groups, TRAIN_SHARE)))


def read_codes(codes, **others):
    """Bring codes, and codes on other samples, into single precision without loss.

    A code more precise than float32 that lies farther from 0 than ``FAR`` times its own range is shifted by one of its
    middle values, in float64: nearly all metrics depend only on a code's spread, which rounding would remove. The few
    that do not (``placed`` in :class:`~jaxdis.metrics.Traits`) add the offset again, and score a code where it is,
    whatever its type.

    Args:
      codes: ``[n, d]`` or ``[m, n, d]``.
      others: pairs (codes, factors) on other samples by role, or None.

    Returns:
      The codes, their offset ``[…, 1, d]`` (None for none), and the pairs.
    """
    array = converted(codes, "codes")
    pairs = {
        role: (converted(pair[0], f"{role} codes"), pair[1]) if is_pair(pair) else pair for role, pair in others.items()
    }
    if (offset := _offset(array)) is not None:
        array = array - offset
        pairs = {role: _shifted(pair, offset) if is_pair(pair) else pair for role, pair in pairs.items()}
    return _single(array, "codes"), offset, *pairs.values()


def is_pair(value) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2


def _offset(array) -> np.ndarray | None:
    """Each code's offset that would destroy its precision, ``[…, 1, d]`` in float64; None if there is none."""
    if isinstance(array, jax.Array) or array.dtype == np.float32:
        return None
    if array.ndim not in (2, 3) or 0 in array.shape or array.dtype.kind not in "fiu" or array.dtype.itemsize < 4:
        return None
    low, high = (bound.astype(np.float64) for bound in (array.min(axis=-2), array.max(axis=-2)))
    with np.errstate(invalid="ignore"):  # non-finite codes are met later
        largest = np.maximum(np.abs(low), np.abs(high))
        far = (largest > FAR * (high - low)) & (high > low) & (largest <= np.finfo(np.float32).max)
    if not far.any():
        return None
    middle = np.partition(array, array.shape[-2] // 2, axis=-2)[..., array.shape[-2] // 2, :]
    return np.where(far, middle.astype(np.float64), 0.0)[..., None, :]


def _shifted(pair, offset: np.ndarray):
    codes, factors = np.asarray(pair[0]), pair[1]
    if codes.ndim not in (2, 3) or codes.shape[-1] != offset.shape[-1] or codes.dtype.kind not in "fiub":
        return pair
    return codes - (offset[0] if codes.ndim < offset.ndim else offset), factors


def check_codes(codes, name: str):
    """Codes as float32, ``[n, d]`` or ``[m, n, d]``, on the host unless they are JAX arrays already."""
    return _single(converted(codes, name), name)


def converted(codes, name: str):
    """A JAX array with at most 32 bits as it is, anything else as a NumPy array, sparse codes as dense ones."""
    if is_sparse(codes):
        return dense(codes, name)
    concrete = isinstance(codes, jax.Array) and not isinstance(codes, jax.core.Tracer) and not codes.is_deleted()
    return codes if concrete and codes.dtype.itemsize <= 4 else as_one_array(codes, name)


def _single(array, name: str):
    """Codes in single precision, and enough samples."""
    if array.ndim not in (2, 3):
        raise ValueError(f"{name}: must have shape [n, d] or [m, n, d] (members, samples, codes), got {array.shape}")
    check_real(array, name)
    if array.shape[-2] < 2:
        raise ValueError(f"{name}: must have at least 2 samples, got {array.shape[-2]} in shape {array.shape}")
    if 0 in array.shape:
        raise ValueError(f"{name}: must have at least one member and one code, got shape {array.shape}")
    if array.dtype.kind == "f" and array.dtype.itemsize > 4:
        largest = np.max(np.abs(array), where=np.isfinite(array), initial=0)
        if largest > np.finfo(np.float32).max:
            raise ValueError(
                f"{name}: must be numbers that float32 can hold, up to 3.4e38, got {float(largest):.1e}; divide them "
                "by a constant"
            )
    return array if array.dtype == np.float32 else array.astype(np.float32)


def check_same_samples(name: str, codes, factors: Factors) -> None:
    if codes.shape[1] != factors.num_samples:
        raise ValueError(
            f"{name}: must have as many samples as factors, got {codes.shape[1]} (axis 1 of [m, n, d] or 0 of [n, d]) "
            f"against {factors.num_samples}"
        )


def as_pair(role: str, pair, factors: Factors) -> tuple:
    """Codes and factors on other samples, numbered as the training factors.

    Raises:
      ValueError: if they are no pair, or the factors have other names or classes.
    """
    if not is_pair(pair):
        raise ValueError(f"{role}: must be a pair (codes, factors), got {type(pair).__name__}")
    codes, values = converted(pair[0], f"{role} codes"), pair[1]
    values = values if isinstance(values, Factors) else Factors.of(values, factors.sizes, factors.names)
    return at_rows(codes, values), as_numbered(role, values, factors)


def _check_others(role: str, pair, codes, factors: Factors):
    """Codes ``[m, n, d]`` and factors on other samples than the training samples; None for no samples."""
    if pair is None:
        return None, None
    if not is_pair(pair):
        raise ValueError(f"{role}: must be a pair (codes, factors), got {type(pair).__name__}")
    role_codes, values = pair
    if isinstance(values, Factors):
        role_codes, values = at_rows(role_codes, values), as_numbered(role, values, factors)
    role_codes = _single(role_codes, f"{role} codes")
    role_codes = role_codes[None] if role_codes.ndim == 2 else role_codes
    if (role_codes.shape[0], role_codes.shape[2]) != (codes.shape[0], codes.shape[2]):
        raise ValueError(
            f"{role}: must have as many members and codes as the training codes, {codes.shape}, got {role_codes.shape}"
        )
    try:
        if not isinstance(values, Factors):
            values = as_numpy(values, "factors")
            if values.ndim == 2 and values.shape[1] != factors.num_factors:
                raise ValueError(f"factors: must have {factors.num_factors} columns, got {values.shape[1]}")
            values = Factors.of(values, factors.sizes, factors.names)
        values = Factors.checked(values)
    except ValueError as error:
        raise ValueError(f"{role} {error}{_enough_sizes(values, factors)}") from None
    if values.sizes != factors.sizes:
        raise ValueError(f"{role}: must have factors of sizes {factors.sizes}, got {values.sizes}")
    check_same_samples(f"{role} codes", role_codes, values)
    return role_codes, dataclasses.replace(factors, values=values.values, present=values.present)


def _enough_sizes(values, factors: Factors) -> str:
    """The advice to declare classes that training lacks, if held-out class numbers are beyond its sizes."""
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "iu" or values.ndim not in (1, 2):
        return ""
    highest = values.reshape(len(values), -1).max(axis=0, initial=0).tolist()
    pairs = list(zip(factors.sizes, highest, strict=False))
    if len(pairs) != len(highest) or not any(size is not None and high >= size for size, high in pairs):
        return ""
    sizes = tuple(size if size is None else max(size, high + 1) for size, high in pairs)
    return f"; declare classes that training lacks: Factors.of(values, sizes={sizes})"


def check_weights(weights, n: int):
    if weights is None:
        return None
    array = _numbers(weights, "weights")
    if array.shape != (n,):
        raise ValueError(f"weights: must have shape [{n}] (samples), got {array.shape}")
    array = array.astype(np.float64)
    if not np.isfinite(array).all() or (array < 0).any() or not array.max() > 0:
        raise ValueError("weights: must be finite numbers of at least 0 that are not all 0")
    counts = (array == np.round(array)).all() and array.sum() <= MOST_COUNTED
    return jnp.asarray(array if counts else effective(array), jnp.float32)


def effective(weights: np.ndarray) -> np.ndarray:
    """Weights rescaled to sum to the effective sample size, ``(Σ w)² / Σ w²`` (Kish 1965, §11.7)."""
    shares = weights / weights.max()
    shares = shares / shares.sum()
    return shares / (shares**2).sum()


def check_variances(variances, shape: tuple[int, int, int]):
    """Posterior variances, shaped like codes, ``[m, n, d]``."""
    variances = variances[None] if variances.ndim == 2 else variances
    if variances.shape != shape:
        raise ValueError(f"variances: must have the shape of codes, {shape}, got {variances.shape}")
    if (variances < 0).any():
        raise ValueError(
            f"variances: must be numbers of at least 0, got {float(variances.min()):g}; give numpy.exp of log-variances"
        )
    return variances


def check_active(active, m: int, d: int) -> np.ndarray:
    """Truth values ``[m, d]``."""
    array = _numbers(active, "active")
    if array.shape not in ((d,), (m, d)):
        raise ValueError(f"active: must have shape [{d}] or [{m}, {d}] (members, codes), got {array.shape}")
    if array.dtype != bool and not np.isin(array, (0, 1)).all():
        raise ValueError("active: must be truth values (or 0 and 1), got other numbers")
    return np.broadcast_to(array.astype(bool), (m, d))


def check_numbers(numbers, m: int) -> np.ndarray:
    """Integer ids ``[m]`` that fit 32 bits."""
    if numbers is None:
        return np.arange(m, dtype=np.uint32)
    array = _numbers(numbers, "numbers")
    if array.shape != (m,):
        raise ValueError(f"numbers: must have {m} entries, one per member, got shape {array.shape}")
    if array.dtype.kind not in "iu" or array.min() < 0 or array.max() >= 2**32:
        raise ValueError(f"numbers: must be whole numbers from 0 to 2^32 - 1, got {shown(array.tolist())}")
    return array.astype(np.uint32)


def _numbers(values, name: str) -> np.ndarray:
    array = as_numpy(values, name)
    check_real(array, name)
    return array
