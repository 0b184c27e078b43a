"""An evaluation's arrays, bound once: checked, made single precision, split into members and what they share."""

import dataclasses
import tempfile
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdis._core.arrays import as_numpy, as_one_array, check_real
from jaxdis._core.options import checked_key, shown, some_of
from jaxdis.evaluation._groups import as_groups, check_groups
from jaxdis.evaluation._member import MemberCodes, Shared
from jaxdis.factors import Factors
from jaxdis.metrics._metric import divided

# Whole weights of no larger a sum are counts of samples.
MOST_COUNTED = 2**24
# A code this many times its range from 0 is shifted before float32 rounds it: edges of bins move with the last digits.
FAR = 1.0
# Bytes of dense codes that are kept in memory, and of those that are made dense at once.
IN_MEMORY = 256 << 20
AT_ONCE = 64 << 20


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

    ``split``: whether a metric needs held-out samples; without ``test``, the samples are then split by the key.
    """
    codes, offset, test, validation = read_codes(codes, test=test, validation=validation)
    factors, key = Factors.checked(factors), checked_key(key)
    codes = codes if factors.rows is None else factors.at_rows(codes)
    single = codes.ndim == 2
    codes = codes[None] if single else codes
    m, n, d = codes.shape
    if n != factors.num_samples:
        refuse_samples("codes", codes.shape, factors)
    test_codes, test_factors = (None, None) if test is None else _check_others("test", test, codes, factors)
    groups = None if groups is None else as_groups(groups, factors)
    rows = None, None
    if split and test is None:
        check_groups(groups, "a split")
        rows = divided(key, groups, n)
    validation_codes = validation_factors = None
    if validation is not None:
        validation_codes, validation_factors = _check_others("validation", validation, codes, factors)
    if weights is not None:
        weights = check_weights(factors.at_rows(weights, 0), n)
    if variances is not None:
        variances = check_variances(check_codes(factors.at_rows(variances), "variances"), codes.shape)
    if active is not None:
        active = check_active(active, m, d)
    numbers = np.arange(m, dtype=np.uint32) if numbers is None else check_numbers(numbers, m)
    members = MemberCodes(numbers, codes, variances, test_codes, active, validation_codes)
    if offset is not None:
        members = members._replace(offset=np.broadcast_to(offset.astype(np.float32), (m, 1, d))[:, 0])
    shared = Shared(key, factors.bare(), weights, test_factors, *rows, validation_factors=validation_factors)
    return Inputs(members, shared._replace(groups=None if groups is None else jnp.asarray(groups)), single)


def read_codes(codes, **others):
    """Bring codes, and codes on other samples, into single precision without loss.

    A code more precise than float32 that lies farther from 0 than ``FAR`` times its own range is shifted by one of its
    middle values, in float64: nearly all metrics depend only on a code's spread, which rounding would remove. The few
    that do not (``placed`` in :class:`~jaxdis.metrics.Traits`) add the offset again, and score a code where it is,
    whatever its type.

    Returns the codes, their offset ``[…, 1, d]`` (None for none), and the ``others``, pairs (codes, factors) or None.
    """
    array = converted(codes, "codes")
    given = {role: pair for role, pair in others.items() if pair is not None and is_pair(pair)}
    pairs = {role: (converted(codes, f"{role} codes"), factors) for role, (codes, factors) in given.items()}
    offset = None if array.dtype == np.float32 else _offset(array)
    if offset is not None:
        array = array - offset
        pairs = {role: _shifted(pair, offset) for role, pair in pairs.items()}
    return _single(array, "codes"), offset, *(others | pairs).values()


def is_pair(value) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2


def _offset(array) -> np.ndarray | None:
    """Each code's offset that would destroy its precision, ``[…, 1, d]`` in float64; None if there is none."""
    if isinstance(array, jax.Array):
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
    if type(codes) in (np.ndarray, np.memmap) and codes.dtype.kind in "fiu":
        return codes
    if _is_bcoo(codes) or (type(codes).__module__.startswith("scipy.sparse") and hasattr(codes, "tocsr")):
        return dense(codes, name)
    concrete = isinstance(codes, jax.Array) and not isinstance(codes, jax.core.Tracer) and not codes.is_deleted()
    return codes if concrete and codes.dtype.itemsize <= 4 else as_one_array(codes, name)


def _single(array, name: str):
    """Codes in single precision, and enough samples."""
    if array.ndim not in (2, 3):
        raise ValueError(f"{name}: must have shape [n, d] or [m, n, d] (members, samples, codes), got {array.shape}")
    if array.dtype.kind not in "fiu":
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


def refuse_samples(name: str, shape: tuple[int, ...], factors: Factors) -> None:
    """Raise an error about codes ``[m, n, d]`` that have other samples than the factors."""
    transposed = "; did you mean codes.swapaxes(-1, -2)?" if shape[-1] == factors.num_samples else ""
    raise ValueError(
        f"{name}: must have as many samples as factors, got {shape[-2]} (axis 1 of [m, n, d] or 0 of [n, d]) "
        f"against {factors.num_samples}{transposed}"
    )


def as_pair(role: str, pair, factors: Factors, *, gaps: bool = False) -> tuple:
    """Codes and factors on other samples, numbered as the training factors; ``gaps``: whether values may be missing."""
    if not is_pair(pair):
        raise ValueError(f"{role}: must be a pair (codes, factors), got {type(pair).__name__}")
    codes, values = converted(pair[0], f"{role} codes"), pair[1]
    try:
        if not isinstance(values, Factors):
            values = as_numpy(values, "factors")
            if values.ndim == 2 and values.shape[1] != factors.num_factors:
                raise ValueError(f"factors: must have {factors.num_factors} columns, got {values.shape[1]}")
            values = Factors.of(values, factors.sizes, factors.names)
        values = Factors.checked(values, gaps=gaps)
    except ValueError as error:
        raise ValueError(f"{role} {error}") from None
    return values.at_rows(codes), as_numbered(role, values, factors)


def _check_others(role: str, pair, codes, factors: Factors):
    """Codes ``[m, n, d]`` and factors on other samples than the training samples."""
    role_codes, values = as_pair(role, pair, factors)
    role_codes = _single(role_codes, f"{role} codes")
    role_codes = role_codes[None] if role_codes.ndim == 2 else role_codes
    if (role_codes.shape[0], role_codes.shape[2]) != (codes.shape[0], codes.shape[2]):
        raise ValueError(
            f"{role}: must have as many members and codes as the training codes, {codes.shape}, got {role_codes.shape}"
        )
    if values.sizes != factors.sizes:
        raise ValueError(f"{role}: must have factors of sizes {factors.sizes}, got {values.sizes}")
    if role_codes.shape[1] != values.num_samples:
        refuse_samples(f"{role} codes", role_codes.shape, values)
    return role_codes, dataclasses.replace(factors, values=values.values, present=values.present)


def check_weights(weights, n: int):
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
    variances = variances[None] if variances.ndim == 2 else variances
    if variances.shape != shape:
        raise ValueError(f"variances: must have the shape of codes, {shape}, got {variances.shape}")
    if (variances < 0).any():
        raise ValueError(
            f"variances: must be numbers of at least 0, got {float(variances.min()):g}; give numpy.exp of log-variances"
        )
    return variances


def check_active(active, m: int, d: int) -> np.ndarray:
    array = _numbers(active, "active")
    if array.shape not in ((d,), (m, d)):
        raise ValueError(f"active: must have shape [{d}] or [{m}, {d}] (members, codes), got {array.shape}")
    if array.dtype != bool and not np.isin(array, (0, 1)).all():
        raise ValueError("active: must be truth values (or 0 and 1), got other numbers")
    return np.broadcast_to(array.astype(bool), (m, d))


def check_numbers(numbers, m: int) -> np.ndarray:
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


def as_numbered(role: str, values: Factors, factors: Factors) -> Factors:
    """One table's factors in the order and with the class numbers of another."""
    if values.classes is None or factors.classes is None:
        return values
    if sorted(values.names) != sorted(factors.names):
        raise ValueError(
            f"{role}: must have the factors {some_of(factors.names)}, got {some_of(values.names)}; choose them by "
            "columns="
        )
    places = [values.names.index(name) for name in factors.names]
    array, given = np.array(values.values)[:, places], [values.classes[place] for place in places]
    for j, (name, wanted, classes) in enumerate(zip(factors.names, factors.classes, given, strict=True)):
        if (wanted is None) != (classes is None):
            raise ValueError(f"{role}: must hold classes of {name} in both tables or in none; say which by kinds=")
        if wanted is None or wanted == classes:
            continue
        numbers = {value: number for number, value in enumerate(wanted)}
        if unknown := [value for value in classes if value not in numbers]:
            raise ValueError(
                f"{role}: must have classes of {name} that training has, got {shown(unknown[0])}; declare all of them, "
                "as categories of pandas or by reading both from one table"
            )
        of_class = np.array([numbers[value] for value in classes])
        array[:, j] = of_class[array[:, j].astype(np.int32)]
    present = None if values.present is None else values.present[:, places]
    return dataclasses.replace(factors, values=jnp.asarray(array), rows=None, num_rows=None, present=present)


def _is_bcoo(codes) -> bool:
    return type(codes).__module__.startswith("jax.experimental.sparse") and type(codes).__name__ == "BCOO"


def dense(codes, name: str) -> np.ndarray:
    """The codes as float32; what is not stored is 0."""
    check_real(codes, name)
    if _is_bcoo(codes):  # as a SciPy matrix; entries that are stored twice are added
        import scipy.sparse

        if codes.ndim != 2 or codes.n_batch or codes.n_dense:
            form = f"{codes.n_batch} batch and {codes.n_dense} dense axes"
            raise ValueError(f"{name}: must be BCOO [n, d] with sparse axes alone, got {codes.shape} with {form}")
        places = np.asarray(codes.indices)
        stored = (places < np.array(codes.shape)).all(axis=1)  # what lies outside is padding
        entries = np.asarray(codes.data)[stored], places[stored].T
        codes = scipy.sparse.coo_array(entries, shape=codes.shape)
    n, d = codes.shape
    if 4 * n * d <= IN_MEMORY:
        return codes.astype(np.float32).toarray()
    with tempfile.TemporaryFile() as file:  # without a name; its bytes are gone with the array
        array = np.memmap(file, np.float32, "w+", shape=(n, d))
    rows, step = codes.tocsr(), max(1, AT_ONCE // (4 * d))
    for start in range(0, n, step):
        array[start : start + step] = rows[start : start + step].astype(np.float32).toarray()
    return array
