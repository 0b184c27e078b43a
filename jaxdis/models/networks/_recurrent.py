"""The long short-term memory, as a pure function of one step."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxdis._core import random


class Memory(NamedTuple):
    """What a cell carries: its output ``hidden [n, u]`` and its ``cell [n, u]``."""

    hidden: Array
    cell: Array

    @classmethod
    def blank(cls, n: int, units: int) -> "Memory":
        return cls(jnp.zeros((n, units)), jnp.zeros((n, units)))


def begin_lstm(key, inputs: int, units: int) -> dict:
    """Parameters, uniform on ±1/√units as in PyTorch, whose two biases are one here."""
    shapes = {"input": (inputs, 4 * units), "state": (units, 4 * units), "bias": (4 * units,)}
    bound = 1 / math.sqrt(units)
    keys = jax.random.split(key, len(shapes))
    return {
        name: random.uniform(key, shape, -bound, bound) for key, (name, shape) in zip(keys, shapes.items(), strict=True)
    }


def lstm(params: dict, inputs: Float[Array, "n i"], memory: Memory) -> Memory:
    """One step: ``c' = σ(f) c + σ(i) tanh(g)`` and ``h' = σ(o) tanh(c')``, with gates in the order i, f, g, o.

    Reference: Hochreiter & Schmidhuber 1997.
    """
    gates = inputs @ params["input"] + memory.hidden @ params["state"] + params["bias"][None]
    entry, forget, value, exit_gate = jnp.split(gates, 4, axis=1)
    cell = jax.nn.sigmoid(forget) * memory.cell + jax.nn.sigmoid(entry) * jnp.tanh(value)
    return Memory(jax.nn.sigmoid(exit_gate) * jnp.tanh(cell), cell)
