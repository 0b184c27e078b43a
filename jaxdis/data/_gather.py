"""Rendering by look-up: images gathered from a lattice on the device or on disk."""

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray, UInt8

from jaxdis._core import random
from jaxdis.data._factor_space import FactorSpace


@dataclasses.dataclass(frozen=True)
class Gather:
    """A ``draw`` for :class:`~jaxdis.data._render.Render`: rows ``space.index(factors)`` from ``tables[0]``."""

    space: FactorSpace

    def __call__(self, tables: tuple[Array, ...], factors: Int[Array, "n k"], key=None) -> UInt8[Array, "n h w c"]:
        return tables[0][self.space.index(factors)]


@dataclasses.dataclass(frozen=True)
class HiddenGather:
    """As :class:`Gather`, over a space with an additional factor ``hidden`` that is drawn uniformly for each image."""

    space: FactorSpace
    hidden: str

    def __call__(
        self, tables: tuple[Array, ...], factors: Int[Array, "n k"], key: PRNGKeyArray
    ) -> UInt8[Array, "n h w c"]:
        return tables[0][self.space.index(with_hidden(self.space, self.hidden, factors, key))]


def with_hidden(space: FactorSpace, hidden: str, factors: Int[Array, "n k"], key: PRNGKeyArray) -> Array:
    """Factors ``[n, k + 1]`` of ``space``, with its factor ``hidden`` drawn uniformly."""
    column = space.position(hidden)
    drawn = random.randint(key, (len(factors), 1), 0, space.sizes[column])
    return jnp.concatenate([factors[:, :column], drawn, factors[:, column:]], 1)


@dataclasses.dataclass(frozen=True)
class HostGather:
    """A ``draw`` that reads images from a memory-mapped file, for lattices larger than memory.

    It indexes the file directly outside ``jit`` and through a host callback inside. ``open`` is a module-level function
    ``path → array [cells, height, width, channels]`` uint8.
    """

    open: Callable[[str], np.ndarray]
    path: str = dataclasses.field(metadata={"identity": False})
    sizes: tuple[int, ...]
    shape: tuple[int, int, int]

    def __call__(self, tables: tuple[Array, ...], factors: Int[Array, "n k"], key=None) -> UInt8[Array, "n h w c"]:
        if not isinstance(factors, jax.core.Tracer):
            return jnp.asarray(self._read(factors))
        result = jax.ShapeDtypeStruct((factors.shape[0], *self.shape), jnp.uint8)
        return jax.pure_callback(self._read, result, factors, vmap_method="sequential")

    def _read(self, factors) -> np.ndarray:
        rows = np.ravel_multi_index(tuple(np.asarray(factors).T), self.sizes)
        return np.ascontiguousarray(_opened(self.open, self.path)[rows])


@functools.lru_cache(maxsize=32)
def _opened(open_file: Callable[[str], np.ndarray], path: str) -> np.ndarray:
    return open_file(path)
