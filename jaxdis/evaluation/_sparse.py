"""Sparse codes of SciPy as dense ones: in memory if they are few, else in a temporary file that is read in blocks."""

import tempfile

import numpy as np

# Bytes of dense codes that are kept in memory, and of those that are made dense at once.
IN_MEMORY = 256 << 20
AT_ONCE = 64 << 20


def is_sparse(codes) -> bool:
    """Whether codes are a matrix or an array of ``scipy.sparse``."""
    return type(codes).__module__.startswith("scipy.sparse") and hasattr(codes, "tocsr")


def dense(codes, name: str) -> np.ndarray:
    """The codes as float32; what is not stored is 0.

    Raises:
      ValueError: for numbers that are not real.
    """
    if np.dtype(codes.dtype).kind not in "fiub":
        raise ValueError(f"{name}: needs real numbers, got dtype {codes.dtype}")
    n, d = codes.shape
    if 4 * n * d <= IN_MEMORY:
        return codes.astype(np.float32).toarray()
    with tempfile.TemporaryFile() as file:  # without a name; its bytes are gone with the array
        array = np.memmap(file, np.float32, "w+", shape=(n, d))
    rows, step = codes.tocsr(), max(1, AT_ONCE // (4 * d))
    for start in range(0, n, step):
        array[start : start + step] = rows[start : start + step].astype(np.float32).toarray()
    return array
