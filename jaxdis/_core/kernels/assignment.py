"""One-to-one assignment of rows to columns, as a function that jit and vmap accept."""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxdis._core.platforms import Kernel, on_cpu

Solver = Literal["auto", "optax", "scipy"]

# Measured on one CPU core (benchmarks/bench_assignment.py): optax's solver, which runs inside the program, is faster
# for small matrices; a callback to scipy costs 20–90 µs and is faster from 24 on. But JAX keeps no program with a
# callback in its compilation cache, and compiling all metrics again costs more than ten thousand assignments.
CALLBACK_FROM_SIDE = 64
# More numbers than these are assigned inside the program, so that those of SNC, of 200 bins, can be kept.
CALLBACK_MAX_SIZE = 16384
# Callbacks from several CPU devices wait for one another forever once an argument exceeds about 100 KB. Matrices are
# passed in pieces of so many numbers.
PIECE = 8192
# Of more rows than this, and than the columns squared, only the best ones of each column are assigned.
MANY_ROWS = 64


class Assignment(NamedTuple):
    """``column [r]``: the column given to each row; ``row [c]``: the row given to each column; −1 for none."""

    column: Int[Array, " r"]
    row: Int[Array, " c"]


def assign(cost: Float[Array, "r c"], *, maximize: bool = False, method: Solver = "auto") -> Assignment:
    """The one-to-one assignment of ``min(r, c)`` pairs with the least total cost (the largest with ``maximize``).

    Args:
      cost: ``[r, c]``, of any shape. An entry that is not finite forbids its pair: the pair is used only when no other
        is left, and is then reported as −1.
      maximize: whether to maximize the total instead.
      method: ``"optax"`` (inside the program), ``"scipy"`` (a host callback with one matrix at a time, also under
        ``vmap``) or ``"auto"``: scipy for matrices of medium size on CPU.

    Deterministic. The methods may choose differently among equally good assignments; the total is the same.

    Reference: Kuhn 1955; Crouse 2016 (scipy's and optax's algorithm).
    """
    return jax.tree.map(lambda leaf: leaf[0], assign_each(cost[None], maximize=maximize, method=method))


def assign_each(costs: Float[Array, "t r c"], *, maximize: bool = False, method: Solver = "auto") -> Assignment:
    """As :func:`assign`, for each of ``t`` matrices with a single host callback: ``[t, r]`` and ``[t, c]``."""
    t, r, c = costs.shape
    if 0 in costs.shape:
        return Assignment(jnp.full((t, r), -1, jnp.int32), jnp.full((t, c), -1, jnp.int32))
    costs = -costs if maximize else costs
    if r > max(c * c, MANY_ROWS):
        return _assign_best_rows(costs, method)
    allowed = jnp.isfinite(costs)
    finite = jnp.where(allowed, costs, 0.0)
    # Costs more than any detour: more than the largest total of allowed pairs can exceed the smallest.
    highest, lowest = finite.max(axis=(1, 2)), finite.min(axis=(1, 2))
    forbidden = highest + (highest - lowest + 1.0) * min(r, c)
    if method == "auto":
        medium = max(r, c) >= CALLBACK_FROM_SIDE and costs.size <= CALLBACK_MAX_SIZE
        method = "scipy" if medium and on_cpu() else "optax"
    rows, columns = pairs_of(jnp.where(allowed, finite, forbidden[:, None, None]), form=method)

    def placed(allowed, rows, columns):
        taken = allowed[rows, columns]
        column = jnp.full(r, -1, jnp.int32).at[rows].set(jnp.where(taken, columns, -1))
        row = jnp.full(c, -1, jnp.int32).at[columns].set(jnp.where(taken, rows, -1))
        return Assignment(column, row)

    return jax.vmap(placed)(allowed, rows, columns)


def _assign_best_rows(costs: Float[Array, "t r c"], method: Solver) -> Assignment:
    """As :func:`assign_each`, in ``O(r c)`` and an assignment with ``c²`` rows: each column's ``c`` best ones.

    They suffice. Take a best assignment in which a column has a row that is not among its ``c`` best. The other columns
    have at most ``c − 1`` of these, so one is left, and costs no more: exchange the two, column by column.
    """
    _, r, c = costs.shape

    def best_rows(cost):
        _, best = jax.lax.top_k(jnp.where(jnp.isfinite(cost), -cost, -jnp.inf).T, c)
        chosen = jnp.zeros(r, bool).at[best.reshape(-1)].set(True)
        return jnp.nonzero(chosen, size=c * c, fill_value=r)[0].astype(jnp.int32)

    best = jax.vmap(best_rows)(costs)
    few = jax.vmap(lambda cost, rows: cost.at[rows].get(mode="fill", fill_value=jnp.nan))(costs, best)
    found = assign_each(few, method=method)

    def placed(rows, found):
        column = jnp.full(r, -1, jnp.int32).at[rows].set(found.column, mode="drop")
        return Assignment(column, jnp.where(found.row >= 0, rows[found.row], -1))

    return jax.vmap(placed)(best, found)


def _pairs_by_optax(costs):
    import optax

    rows, columns = jax.vmap(optax.assignment.hungarian_algorithm)(costs)
    return rows.astype(jnp.int32), columns.astype(jnp.int32)


def _pairs_by_scipy(costs):
    pair = jax.ShapeDtypeStruct((costs.shape[0], min(costs.shape[1:])), jnp.int32)
    flat, shape = costs.reshape(-1), costs.shape
    pieces = [flat[start : start + PIECE] for start in range(0, flat.size, PIECE)]

    def solve(*pieces):
        from scipy.optimize import linear_sum_assignment

        costs = np.concatenate([np.asarray(piece) for piece in pieces]).reshape(shape)
        pairs = np.array([linear_sum_assignment(cost) for cost in costs], np.int32)
        return pairs[:, 0], pairs[:, 1]

    return jax.pure_callback(solve, (pair, pair), *pieces, vmap_method="sequential")


# ``pairs_of(costs [t, r, c]) -> [t, p], [t, p]``: rows and columns of the ``min(r, c)`` pairs of least total cost.
pairs_of = Kernel(
    cpu=_pairs_by_optax,
    accelerator=_pairs_by_optax,
    named={"optax": _pairs_by_optax, "scipy": _pairs_by_scipy},
)
