"""Classes of several factors side by side: which columns belong to which factor."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxdis._core.kernels.sums import spread_over_classes, sums_over_classes


class Groups(NamedTuple):
    """Which of ``s`` columns belong to which of ``k`` factors, as the 0/1 matrix ``member [s, k]``."""

    member: Float[np.ndarray, "s k"]
    offsets: tuple[int, ...]
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, sizes: tuple[int, ...]) -> "Groups":
        member = np.repeat(np.eye(len(sizes), dtype=np.float32), sizes, axis=0)
        return cls(member, tuple(int(start) for start in np.cumsum([0, *sizes[:-1]])), tuple(sizes))

    def slices(self) -> list[slice]:
        return [slice(start, start + size) for start, size in zip(self.offsets, self.sizes, strict=True)]

    def over_classes(self, values: Float[Array, "s n"]) -> Float[Array, "k n"]:
        """Sums over the classes of each factor."""
        return sums_over_classes(values, self.sizes)

    def to_classes(self, values: Float[Array, "k n"]) -> Float[Array, "s n"]:
        """Each factor's row for all its classes."""
        return spread_over_classes(values, self.sizes)


def one_hot_of(classes: Int[Array, "n k"], sizes: tuple[int, ...]) -> Float[Array, "n s"]:
    """Each factor's class as a block of 0/1 columns."""
    return jnp.concatenate([jax.nn.one_hot(classes[:, j], size) for j, size in enumerate(sizes)], axis=1)
