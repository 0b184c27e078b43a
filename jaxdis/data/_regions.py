"""Regions in a factor space that can be held out from training: pure functions, True inside."""

import dataclasses
from collections.abc import Callable
from typing import Annotated

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Num

from jaxdis._core.options import Range, Seed, check_fields

# Constants of a 32-bit mixing function (Murmur3's finalizer).
_FIRST, _SECOND, _STEP = 0x85EBCA6B, 0xC2B2AE35, 0x9E3779B9


@dataclasses.dataclass(frozen=True)
class RandomCells:
    """A random share of all combinations, the same for every sample with one combination.

    Continuous factors' values are distinguished to the last bit, so each sample is its own combination.
    """

    share: Annotated[float, Range(0, 1, above=True, below=True)]
    seed: Seed = 0

    def __post_init__(self):
        check_fields(self)

    def __call__(self, factors: Num[Array, "n k"]) -> Bool[Array, " n"]:
        words = factors if jnp.issubdtype(factors.dtype, jnp.integer) else factors.view(jnp.int32)
        state = jnp.full(words.shape[0], self.seed & 0xFFFFFFFF, jnp.uint32)
        for j in range(words.shape[1]):
            state = _mixed(state ^ words[:, j].astype(jnp.uint32)) + jnp.uint32(_STEP)
        return _mixed(state).astype(jnp.float32) < self.share * 2.0**32


@dataclasses.dataclass(frozen=True)
class Complement:
    """Everything outside a region."""

    region: Callable

    def __call__(self, factors: Num[Array, "n k"]) -> Bool[Array, " n"]:
        return ~self.region(factors)


def _mixed(word: jax.Array) -> jax.Array:
    word = (word ^ (word >> 16)) * jnp.uint32(_FIRST)
    word = (word ^ (word >> 13)) * jnp.uint32(_SECOND)
    return word ^ (word >> 16)
