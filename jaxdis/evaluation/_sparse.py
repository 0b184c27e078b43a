"""Sparse codes as dense ones: in memory if they are few, else in a temporary file that is read in blocks."""

import tempfile

import numpy as np

from jaxdis._core.arrays import check_real

# Bytes of dense codes that are kept in memory, and of those that are made dense at once.
IN_MEMORY = 256 << 20
AT_ONCE = 64 << 20


def is_sparse(codes) -> bool:
    """Whether codes are a matrix or an array from ``scipy.sparse``, or JAX's BCOO array."""
    return _is_bcoo(codes) or (type(codes).__module__.startswith("scipy.sparse") and hasattr(codes, "tocsr"))


def _is_bcoo(codes) -> bool:
    return type(codes).__module__.startswith("jax.experimental.sparse") and type(codes).__name__ == "BCOO"


def dense(codes, name: str) -> np.ndarray:
    """The codes as float32; what is not stored is 0.

    Raises:
      ValueError: for numbers that are not real, and for BCOO arrays in another form than ``[n, d]`` without batches.
    """
    check_real(codes, name)
    codes = _of_bcoo(codes, name) if _is_bcoo(codes) else codes
    n, d = codes.shape
    if 4 * n * d <= IN_MEMORY:
        return codes.astype(np.float32).toarray()
    with tempfile.TemporaryFile() as file:  # without a name; its bytes are gone with the array
        array = np.memmap(file, np.float32, "w+", shape=(n, d))
    rows, step = codes.tocsr(), max(1, AT_ONCE // (4 * d))
    for start in range(0, n, step):
        array[start : start + step] = rows[start : start + step].astype(np.float32).toarray()
    return array


def _of_bcoo(codes, name: str):
    """JAX's BCOO array as a SciPy matrix; entries that are stored twice are added."""
    import scipy.sparse

    if codes.ndim != 2 or codes.n_batch or codes.n_dense:
        form = f"{codes.n_batch} batch and {codes.n_dense} dense axes"
        raise ValueError(f"{name}: must be BCOO [n, d] with sparse axes alone, got {codes.shape} with {form}")
    places = np.asarray(codes.indices)
    stored = (places < np.array(codes.shape)).all(axis=1)  # what lies outside is padding
    return scipy.sparse.coo_array((np.asarray(codes.data)[stored], places[stored].T), shape=codes.shape)
