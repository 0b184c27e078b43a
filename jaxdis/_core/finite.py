"""Mean and median of what is defined."""

import numpy as np


def finite(values) -> np.ndarray:
    """Return the finite values as real numbers."""
    values = np.asarray(values, float)
    return values[np.isfinite(values)]


def mean(values) -> float:
    """Return the mean of the finite values, of equal ones exactly; NaN if there are none."""
    values = finite(values)
    # Six times 0.3 add up to less than 1.8: a plain mean ranks equal scores by how many there are.
    return float(values.flat[0] + (values - values.flat[0]).mean()) if len(values) else float("nan")


def median(values) -> float:
    """Return the median of the finite values; NaN if there are none."""
    values = finite(values)
    return float(np.median(values)) if len(values) else float("nan")
