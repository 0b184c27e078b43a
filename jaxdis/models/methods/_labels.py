"""Labels for training: the factors of the examples that a source draws."""

import jax
import jax.numpy as jnp
import numpy as np


def check_labels(source, sizes: dict[int, int]) -> None:
    """Check that a source has the factors that a method is labelled by.

    In arrays all labels are checked, from a renderer 1,024 examples.

    Args:
      source: where examples come from.
      sizes: a factor's position → how many classes it has.

    Raises:
      ValueError: for a factor that is not there, or that has other values than these classes.
    """
    if source.num_factors <= max(sizes):
        raise ValueError(f"data: must have at least {max(sizes) + 1} factors, got {source.num_factors}")
    if source.is_finite_list:
        seen = np.asarray(source.arrays[1])
    else:
        seen = np.asarray(jax.jit(lambda source: source.examples(jax.random.key(0), 1024)[1])(source))
    for position, size in sizes.items():
        column = seen[:, position]
        if column.dtype.kind == "f" or column.min() < 0 or column.max() >= size:
            raise ValueError(
                f"data: factor {position} must have class numbers from 0 to {size - 1}, got {column.min():g} to "
                f"{column.max():g}"
            )


def classes_of(factors, position: int, size: int):
    """One factor's one-hot classes ``[n, size]``."""
    return jax.nn.one_hot(factors[:, position], size, dtype=jnp.float32)
