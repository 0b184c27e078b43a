"""How floats are ordered.

On CPU, one sort on integers that hold a cell of the range and a value's place, and a few exchanges between neighbors
within cells, take two thirds of an exact sort's time.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from jaxdis._core.arrays import from_keys, stable_order
from jaxdis._core.kernels.kernel import Kernel
from jaxdis._core.loops import repeat

# Values that crowd in a cell are sorted exactly; two exchanges bring a value two places further.
CROWD, ROUNDS = 8, 8


def _order_by_cells(keys: Int[Array, " n"]) -> Int[Array, " n"]:
    n = len(keys)
    bits = (n - 1).bit_length()
    if bits > 16:
        return stable_order(keys)
    place = jnp.arange(n, dtype=jnp.uint32)
    values = from_keys(keys)
    low, high = values.min(), values.max()
    # The largest cell must not round up to one too many.
    scale = np.float32((1 << 32 - bits) - 256) / jnp.where(high > low, high - low, 1.0)
    packed = jax.lax.sort(((values - low) * scale).astype(jnp.uint32) << bits | place)
    order, cells = (packed & jnp.uint32((1 << bits) - 1)).astype(jnp.int32), packed >> bits
    ordered = keys[order]

    def exchanged(keys, order, start):
        first = (place % 2 == start) & (place < n - 1)

        def partner(array):
            return jnp.where(first, jnp.roll(array, -1), jnp.roll(array, 1))

        other = partner(keys)
        wrong = jnp.where(first, keys > other, jnp.roll(first, 1) & (other > keys))
        return jnp.where(wrong, other, keys), jnp.where(wrong, partner(order), order)

    def unsorted(keys):
        return (keys[:-1] > keys[1:]).any()

    def exchange(state):
        number, keys, order, _ = state
        keys, order = exchanged(*exchanged(keys, order, 0), 1)
        return number + 1, keys, order, unsorted(keys)

    crowded = ((cells[CROWD:] == cells[:-CROWD]) & (ordered[CROWD:] != ordered[:-CROWD])).any()
    start = jnp.where(crowded, ROUNDS, 0).astype(jnp.int32), ordered, order, unsorted(ordered)
    _, _, order, left = repeat("rounds", lambda state: state[3] & (state[0] < ROUNDS), exchange, start)
    return jax.lax.cond(left, lambda: stable_order(keys), lambda: order)


# ``float_order(keys [n]) -> [n]``: places of :func:`jaxdis._core.arrays.ordered_keys` in ascending order, equal keys in
# theirs.
float_order = Kernel(
    lambda keys: np.argsort(keys, kind="stable"),
    {"cells": _order_by_cells, "twice": stable_order},
    cpu="cells",
    accelerator="twice",
)
