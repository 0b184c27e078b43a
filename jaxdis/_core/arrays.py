"""Small array functions that several subpackages share, and conversion of arrays of other libraries to NumPy."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Integer, Num

from jaxdis._core.kernels.entries import entries_at
from jaxdis._core.options import shown

# Rows summed at a time: float32 sums of many equal terms drift when they are added one by one.
BLOCK = 128
# Products of so many pairs of columns are added up one block at a time, not kept for all blocks.
MANY_PRODUCTS = 1 << 18
# Samples of a running sum that are one product: the fastest of 32, 64 and 128.
RUN = 64
# Squares of codes within these bounds, and sums of them, neither vanish nor overflow in a few products.
SMALLEST, LARGEST = 1e-30, 1e30


def safe_divide(numerator, denominator):
    """The quotient, 0 where the denominator is 0."""
    zero = denominator == 0
    return jnp.where(zero, 0.0, numerator / jnp.where(zero, 1.0, denominator))


def over_samples(reduction: Callable, columns: Float[Array, "n c"]) -> Float[Array, " c"]:
    """``reduction(columns, axis=0)`` of a sum, a maximum, or the like.

    Rows are read 32 at a time, since a few columns alone do not fill a register. Each of several rounds reduces at most
    16 such rows to one, so that rounding errors stay those of short sums.
    """
    width = columns.shape[1]
    while len(columns) >= 64:
        run = min(16, len(columns) // 32)
        cut = len(columns) // (32 * run) * 32 * run
        fewer = reduction(columns[:cut].reshape(-1, run, 32 * width), axis=1).reshape(-1, width)
        columns = jnp.concatenate([fewer, columns[cut:]])
    return reduction(columns, axis=0)


def finite_codes(codes: Float[Array, "n d"]) -> Bool[Array, " d"]:
    """Which codes hold only finite values."""
    return jnp.isfinite(codes).all(axis=0)


def ordinary_codes(codes: Float[Array, "n d"]) -> Bool[Array, " d"]:
    """Which codes are finite and neither constant 0 by rounding nor close to overflow: see :data:`SMALLEST`.

    Bits are compared: a processor may take numbers below 1e-38 for 0.
    """
    n, d = codes.shape
    cut = n // 32 * 32
    bits = jax.lax.bitcast_convert_type(codes, jnp.int32) & 0x7FFFFFFF
    largest = jnp.maximum(
        bits[:cut].reshape(-1, 32 * d).max(axis=0, initial=0).reshape(32, d).max(axis=0),
        bits[cut:].max(axis=0, initial=0),
    )
    low, high = (int(np.float32(bound).view(np.int32)) for bound in (SMALLEST, LARGEST))
    return (largest == 0) | ((largest >= low) & (largest <= high))


def product_over_samples(left: Float[Array, "n a"], right: Float[Array, "n b"]) -> Float[Array, "a b"]:
    """``leftᵀ right``, summed in blocks of samples so that float32 rounding stays that of a short sum."""
    blocks = -(-left.shape[0] // BLOCK)

    def blocked(array):
        return jnp.pad(array, ((0, blocks * BLOCK - array.shape[0]), (0, 0))).reshape(blocks, BLOCK, -1)

    def product(left, right):
        return jnp.einsum("...na,...nb->...ab", left, right, precision=jax.lax.Precision.HIGHEST)

    if left.shape[1] * right.shape[1] <= MANY_PRODUCTS:
        return product(blocked(left), blocked(right)).sum(axis=0)
    start = jnp.zeros((left.shape[1], right.shape[1]))
    return jax.lax.scan(lambda sums, pair: (sums + product(*pair), None), start, (blocked(left), blocked(right)))[0]


def weighted_mean(columns: Float[Array, "n c"], weights: Float[Array, " n"]) -> Float[Array, " c"]:
    """Mean of each column under weights that are not all 0."""
    return product_over_samples(weights[:, None], columns)[0] / weights.sum()


def running_sums(rows: Float[Array, "n c"]) -> Float[Array, "n c"]:
    """Cumulative sums over samples: see :func:`running_in_runs`."""
    return running_in_runs(rows.T, RUN).reshape(rows.shape[1], -1)[:, : len(rows)].T


def running_in_runs(columns: Float[Array, "c n"], run: int) -> Float[Array, "c r run"]:
    """Cumulative sums of each column: within short runs, as products with a triangle of ones, and over runs.

    Rounding errors stay those of short sums, and a CPU takes a third of the time of ``cumsum``.
    """
    count, n = columns.shape
    runs = -(-n // run)
    within = jnp.pad(columns, ((0, 0), (0, runs * run - n))).reshape(count * runs, run)
    within = jnp.dot(within, jnp.triu(jnp.ones((run, run))), precision=jax.lax.Precision.HIGHEST)
    within = within.reshape(count, runs, run)
    own = within[:, :, -1]
    return within + (jnp.cumsum(own, axis=1) - own)[:, :, None]


def settled(values: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Return the values unchanged, so that every reader sees the same numbers.

    A compiler may compute a product anew for each reader and contract it with the reader's own sum. The results differ
    in the last place, so that exact comparisons (``==``, counts of ties, ``>=`` a divider) of equal samples fail. It
    cannot contract across a maximum. (An ``optimization_barrier`` does not help: on CPU it is gone before loops are
    fused.)
    """
    return jnp.where(values < 0, -jnp.maximum(-values, 0.0), jnp.maximum(values, 0.0))


def power_of_two_below(values: Float[Array, "..."]) -> Float[Array, "..."]:
    """The largest power of two that is no larger than each positive value, exactly; 1 for 0.

    It is computed from the bits of the exponent, since ``exp2`` of an integer may be off by one in the last place.
    """
    values = jnp.where(values > 0, jnp.maximum(values, jnp.finfo(jnp.float32).tiny), 1.0)
    exponent = jax.lax.bitcast_convert_type(values, jnp.int32) & jnp.int32(0x7F800000)
    return jax.lax.bitcast_convert_type(exponent, jnp.float32)


def moments(
    columns: Float[Array, "n c"], weights: Float[Array, " n"] | None = None
) -> tuple[Float[Array, " c"], Float[Array, " c"]]:
    """Mean and standard deviation of each column, the latter 0 for a column that is constant up to rounding.

    Accurate for columns of any offset, and of any scale, even if their squares are outside float32.
    """
    # A shift near the data keeps the mean exact for a constant column.
    if weights is None:
        weights, counted, first = jnp.ones(columns.shape[0]), jnp.array(True), columns[0]
    else:
        # By a minimum: XLA evaluates the argmax of constant weights at compile time, sample by sample.
        n = weights.shape[0]
        place = jnp.where(weights > 0, jnp.arange(n, dtype=jnp.int32), n - 1).min()
        counted, first = (weights > 0)[:, None], columns[place]
    moved = jnp.where(counted, columns - first[None, :], 0.0)
    reach = jnp.abs(moved).max(axis=0)
    unit = jnp.where(reach > 0, reach, 1.0)
    moved = moved / unit[None, :]
    mean = weighted_mean(moved, weights)
    variance = weighted_mean((moved - mean[None, :]) ** 2, weights)
    # The root of 0 has no derivative.
    deviation = jnp.where(variance > 0, jnp.sqrt(jnp.where(variance > 0, variance, 1.0)), 0.0) * unit
    rounding = rounding_of(jnp.abs(jnp.where(counted, columns, 0.0)).max(axis=0))
    return first + mean * unit, jnp.where(deviation > rounding, deviation, 0.0)


def rounding_of(largest: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """By how much rounding may move equal numbers of this largest magnitude apart: four units in the last place."""
    return 4 * jnp.finfo(largest.dtype).eps * largest


def class_counts(
    classes: Int[Array, "n k"], sizes: tuple[int, ...], weights: Float[Array, " n"] | None = None
) -> Num[Array, "k v"]:
    """How often (or with how much weight) each value of each factor occurs; ``v`` is the largest size."""
    table = jnp.zeros((len(sizes), max(sizes)), jnp.int32 if weights is None else weights.dtype)
    amount = 1 if weights is None else weights[None, :]
    return table.at[jnp.arange(len(sizes))[:, None], classes.T].add(amount)


def ordered_keys(values: Float[Array, "..."]) -> Int[Array, "..."]:
    """int32 keys in the order of float32 values: sorting them is five times faster on CPU, and fast on GPU too."""
    # One zero, not two: adding 0.0 would do, but compilers take such a sum away.
    bits = jax.lax.bitcast_convert_type(jnp.where(values == 0, 0.0, values), jnp.int32)
    return jnp.where(bits < 0, bits ^ jnp.int32(0x7FFFFFFF), bits)


def from_keys(keys: Int[Array, "..."]) -> Float[Array, "..."]:
    """The inverse of :func:`ordered_keys`."""
    return jax.lax.bitcast_convert_type(jnp.where(keys < 0, keys ^ jnp.int32(0x7FFFFFFF), keys), jnp.float32)


def stable_order(keys: Int[Array, "*rows n"]) -> Int[Array, "*rows n"]:
    """The places of int32 keys in ascending order along the last axis; equal keys keep their order.

    Up to 65,536 keys are sorted by their lower, then by their upper 16 bits, each packed with the place into one
    integer: on CPU, sorting integers twice takes a third of the time of sorting pairs once.
    """
    n = keys.shape[-1]
    place = jax.lax.broadcasted_iota(jnp.uint32, keys.shape, keys.ndim - 1)
    if n > 1 << 16:
        return jax.lax.sort((keys, place.astype(jnp.int32)), num_keys=1, is_stable=True)[1]
    keys = jax.lax.bitcast_convert_type(keys, jnp.uint32) ^ jnp.uint32(1 << 31)
    place_bits = jnp.uint32((1 << 16) - 1)

    def order(upper):
        return jax.lax.sort(upper | place, is_stable=True) & place_bits

    by_lower = order(keys << 16)
    return along_rows(by_lower, order(along_rows(keys, by_lower) & ~place_bits)).astype(jnp.int32)


def along_rows(array: Num[Array, "*rows n"], places: Integer[Array, "*rows m"]) -> Num[Array, "*rows m"]:
    """Return the entries of each row at places within it."""
    return jnp.vectorize(entries_at, signature="(n),(m)->(m)")(array, places.astype(jnp.int32))


def class_order(classes: Int[Array, " n"], size: int) -> Int[Array, " n"]:
    """The order of samples by class, stable within a class; classes are below ``size``.

    Integers that hold class and place are sorted, if there are such.
    """
    n = classes.shape[0]
    if size * n > 1 << 31:
        return stable_order(classes)
    return jax.lax.sort(classes * n + jnp.arange(n, dtype=jnp.int32)) % n


def sort_columns(codes: Float[Array, "n d"]) -> Float[Array, "n d"]:
    return from_keys(jax.lax.sort(ordered_keys(codes.T), dimension=1, is_stable=True)).T


def as_numpy(array, name: str, advice: str = "; convert it by numpy.asarray(…, float)") -> np.ndarray:
    """A NumPy view (copied only where it must be) of a NumPy, JAX or DLPack array, or nested lists with numbers."""
    if isinstance(array, jax.core.Tracer):
        raise ValueError(
            f"{name}: must be concrete numbers, got a traced array; call this outside jit and vmap; inside, call "
            "jaxdis.METRICS[name](codes, factors)"
        )
    if isinstance(array, jax.Array) and array.is_deleted():
        raise ValueError(f"{name}: must be an array that holds numbers, got a deleted one; keep a copy of it")
    if np.ma.isMaskedArray(array) and np.ma.is_masked(array):
        raise ValueError(f"{name}: must be an array without a mask, got one with masked entries; drop those samples")
    if isinstance(array, str | bytes) or array is None:
        raise ValueError(f"{name}: must be an array of numbers, got {shown(array)}")
    kind = type(array).__name__
    if advice_for_parts := _parts_of(array):
        raise ValueError(f"{name}: must be an array of numbers, got {kind}; give {advice_for_parts}")
    if dense := _to_dense(array):
        raise ValueError(f"{name}: must be a dense array, got {kind}, which is sparse; convert it by {dense}")
    try:
        converted = _converted(array)
    except Exception as error:  # whatever another library's conversion raises
        if isinstance(array, tuple | list) and "inhomogeneous" in str(error):
            raise ValueError(f"{name}: must be an array, got a {kind} of entries of different lengths") from None
        reason = " ".join(str(error).split())[:200]
        raise ValueError(f"{name}: must be an array of numbers, got {kind} ({reason})") from None
    if converted.dtype == object:
        if any(getattr(entry, "ndim", 0) or isinstance(entry, list | tuple) for entry in converted.ravel()[:1]):
            advice = "; make the arrays or lists in it one array by numpy.stack(list(column))"
            kind = f"a column of {kind}" if converted.ndim > 1 else kind
        raise ValueError(f"{name}: must be an array of numbers, got {kind} of Python objects{advice}")
    return converted


def is_real(array) -> bool:
    """Whether an array has whole or real numbers, JAX's small types included, or truth values."""
    return array.dtype.kind in "fiub" or jnp.issubdtype(array.dtype, jnp.floating)


def check_real(array, name: str) -> None:
    """Refuse an array of other numbers than :func:`is_real`, with the Python line that converts it."""
    if is_real(array):
        return
    advice = ""
    if array.dtype.kind == "c":
        advice = "; give real and imaginary parts: numpy.concatenate([x.real, x.imag], axis=-1)"
    if str(array.dtype) == "|V2":
        advice = "; NumPy's files forget bfloat16: give x.view(ml_dtypes.bfloat16)"
    if str(array.dtype) == "|V1":
        advice = "; NumPy's files forget float8: give x.view(ml_dtypes.float8_e4m3fn), or what it was, as float32"
    raise ValueError(f"{name}: must be real numbers, got dtype {array.dtype}{advice}")


def as_one_array(array, name: str) -> np.ndarray:
    """As :func:`as_numpy`, after :func:`check_one_array`."""
    check_one_array(array, name)
    return as_numpy(array, name)


def check_one_array(values, name: str) -> None:
    """Refuse a list or tuple of arrays with samples of their own, whose meaning would be a guess."""
    if not isinstance(values, tuple | list) or not any(getattr(value, "ndim", 0) > 1 for value in values):
        return
    raise ValueError(
        f"{name}: must be one array, got a {type(values).__name__} of {len(values)}; of means and log-variances give "
        "the means, join batches by numpy.concatenate, and make the members of a zoo one array by jaxdis.stack"
    )


def _parts_of(array) -> str | None:
    """How to name one representation in AnnData, MuData or the like; None for others."""
    if hasattr(array, "mod") and hasattr(array, "obsm"):
        return f"one modality's representation, such as mudata[{next(iter(array.mod), 'rna')!r}].X"
    if hasattr(array, "X") and hasattr(array, "obsm"):
        return " or ".join([".X", *(f".obsm[{key!r}]" for key in list(array.obsm)[:8])])
    if hasattr(array, "column_names") and callable(getattr(array, "to_pandas", None)):
        return "one column by numpy.stack(list(table['…'])), or .to_pandas().to_numpy() where all are codes"
    return None


def _to_dense(array) -> str | None:
    """The method that makes a sparse array of SciPy, torch or JAX dense; None for others."""
    if isinstance(array, np.ndarray | jax.Array):
        return None
    if str(getattr(array, "layout", "")).startswith("torch.sparse"):
        return ".to_dense()"
    return next((f".{method}()" for method in ("toarray", "todense") if hasattr(array, method)), None)


def _converted(array) -> np.ndarray:
    of_arrow = type(array).__module__.startswith("pyarrow")  # whose lists and text have no DLPack
    if isinstance(array, np.ndarray | jax.Array) or of_arrow or not hasattr(array, "__dlpack__"):
        return np.asarray(array)
    array = array.detach() if hasattr(array, "detach") else array
    try:
        return np.from_dlpack(array)
    except (BufferError, RuntimeError):  # on an accelerator: through JAX
        return np.asarray(jnp.from_dlpack(array))
