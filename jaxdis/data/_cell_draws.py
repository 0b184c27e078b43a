"""How :class:`~jaxdis.data._factor_space.FactorSpace` draws cells: exactly and without rejection, whatever is held out.

Factors that a restriction ties together are drawn jointly, from a list of allowed cells; all others are drawn
independently.
"""

import functools
import itertools
from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Num, PRNGKeyArray

from jaxdis._core import random

# `jax.random.randint` is exactly uniform up to this span (beyond it, its product of remainders overflows), so free
# factors are drawn as a few mixed-radix digits.
_DIGIT = 2**16
# Sum of the weights of correlated cells; a cell that is drawn less often than once in so many draws never is.
_WEIGHT = 2**30
# The cells of tied factors are listed in a table; more than this many raise an error.
_LISTED = 2**20


# Samples in a region that is left out are drawn again, at most this many times.
MOST_REDRAWS = 10_000


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def redrawn(space, draw: Callable, static: tuple, key: PRNGKeyArray, *arrays) -> Num[Array, "n k"]:
    """``draw(space, *static, key, *arrays)``, in which samples that the space does not allow are drawn again."""

    def redraw(state):
        number, samples, keep = state
        fresh = draw(space, *static, jax.random.fold_in(key, number), *arrays)
        samples = jnp.where(keep[:, None], samples, fresh)
        return number + 1, samples, space.allowed(samples)

    first = draw(space, *static, key, *arrays)
    start = (jnp.int32(1), first, space.allowed(first))
    return jax.lax.while_loop(lambda state: ~state[2].all() & (state[0] < MOST_REDRAWS), redraw, start)[1]


class Lattice(NamedTuple):
    """What determines the cells of a :class:`~jaxdis.data._factor_space.FactorSpace`; see there for the attributes."""

    sizes: tuple[int, ...]
    excluded: tuple[tuple[tuple[int, int], ...], ...]
    fixed: tuple[tuple[int, int], ...]
    correlations: tuple[tuple[int, int, float], ...] = ()


class Listed(NamedTuple):
    """Where r tied factors stand, their allowed joint cells ``[c, r]`` int32, and how often each is drawn, ``[c]``
    int32, relative to the others."""

    positions: tuple[int, ...]
    cells: np.ndarray
    weights: np.ndarray


@functools.lru_cache(maxsize=256)
def listed(lattice: Lattice) -> Listed:
    """A lattice's tied factors; a lattice without restrictions has a single empty cell."""
    restricted = {position for pairs in (*lattice.excluded, lattice.fixed) for position, _ in pairs}
    positions = tuple(sorted(restricted.union(*(pair[:2] for pair in lattice.correlations))))
    fixed = dict(lattice.fixed)
    if len(fixed) < len(set(lattice.fixed)):
        return Listed(positions, np.zeros((0, len(positions)), np.int32), np.zeros(0, np.int32))
    axes = [range(lattice.sizes[j]) if j not in fixed else (fixed[j],) for j in positions]
    if np.prod([float(len(axis)) for axis in axes]) > _LISTED:
        raise ValueError(
            f"combination: must have factors with at most {_LISTED} joint cells, got positions {positions}"
        )
    cells = np.array(list(itertools.product(*axes)), np.int32).reshape(-1 if axes else 1, len(positions))
    slot = {j: number for number, j in enumerate(positions)}
    for combination in lattice.excluded:
        cells = cells[~np.all([cells[:, slot[j]] == value for j, value in combination], axis=0)]
    return Listed(positions, cells, _weights(lattice, {j: cells[:, slot[j]] for j in positions}, len(cells)))


def _weights(lattice: Lattice, columns: Mapping[int, np.ndarray], count: int) -> np.ndarray:
    """Whole numbers whose sum is a span of exact draws; 1 without correlations."""
    if not lattice.correlations:
        return np.ones(count, np.int32)
    share = np.ones(count)
    for i, j, spread in lattice.correlations:
        first, second = (columns[each] / max(lattice.sizes[each] - 1, 1) for each in (i, j))
        share *= np.exp(-((first - second) ** 2) / (2 * spread**2))
    return np.round(share / share.sum() * _WEIGHT).astype(np.int32)


def cells(sizes: tuple[int, ...], tied: Listed, key: PRNGKeyArray, n: int) -> Int[Array, "n k"]:
    """n independent cells from a lattice with these tied factors."""
    return _cells(sizes, tied.positions, n, key, tied.cells, tied.weights)


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _cells(sizes, positions, n: int, key, tied, weights) -> Int[Array, "n k"]:
    """One program; operation by operation, it would be fifteen."""
    tied_key, free_key = jax.random.split(key)
    rows = _pick(tied_key, weights, (n,))
    return _completed(sizes, positions, free_key, tied[rows])


def cells_given(
    lattice: Lattice, key: PRNGKeyArray, factor: Int[Array, ""], value: Int[Array, " n"]
) -> Int[Array, "n k"]:
    """One cell per value, drawn given that ``factor`` has this value."""
    tied = listed(lattice)
    tied_key, free_key = jax.random.split(key)
    slots = np.full(len(lattice.sizes), -1, np.int32)
    for number, j in enumerate(tied.positions):
        slots[j] = number
    if len(tied.cells) == 1:
        rows = jnp.zeros(value.shape, jnp.int32)
    else:
        slot = jnp.asarray(slots)[factor]
        column = jnp.asarray(tied.cells)[:, slot]
        match = jnp.where((slot < 0) | (column[None] == value[:, None]), jnp.asarray(tied.weights)[None], 0)
        pick = jax.vmap(lambda key, row: _pick(key, row, ()))
        rows = pick(jax.random.split(tied_key, value.shape[0]), match)
    drawn = _completed(lattice.sizes, tied.positions, free_key, jnp.asarray(tied.cells)[rows])
    return jnp.where(jnp.arange(len(lattice.sizes))[None] == factor, value[:, None], drawn)


def cells_near(
    lattice: Lattice,
    key: PRNGKeyArray,
    n: int,
    center: Int[Array, "1 k"],
    radius: Mapping[int, int | float],
    around: frozenset[int],
) -> Int[Array, "n k"]:
    """Cells within a radius of a center, by column, in a lattice where no combination is left out.

    A column without a radius is free, and so is one with a single value; the columns in ``around`` wrap around.
    """
    low, high = [], []
    for j, size in enumerate(lattice.sizes):
        steps = None if size == 1 else 0 if j in dict(lattice.fixed) else radius.get(j)
        wide = steps is None or (j in around and 2 * steps + 1 >= size)
        low.append(jnp.zeros((), jnp.int32) if wide else center[0, j] - steps)
        high.append(jnp.full((), size, jnp.int32) if wide else center[0, j] + steps + 1)
    sizes = np.array([lattice.sizes], np.int32)
    bounded = np.array([[j not in around for j in range(len(lattice.sizes))]])
    low, high = jnp.stack(low)[None], jnp.stack(high)[None]
    low, high = jnp.where(bounded, jnp.maximum(low, 0), low), jnp.where(bounded, jnp.minimum(high, sizes), high)
    return random.randint(key, (n, len(lattice.sizes)), low, high) % sizes


def _pick(key: PRNGKeyArray, match: Int[Array, " c"], shape: tuple[int, ...]) -> Int[Array, "..."]:
    """Rows drawn in proportion to whole numbers: 1 for those that match, or their weights, and 0."""
    if len(match) == 1:
        return jnp.zeros(shape, jnp.int32)
    total = jnp.cumsum(match)
    draw = random.randint(key, shape, 0, total[-1])
    return jnp.searchsorted(total, draw, side="right").astype(jnp.int32)


def _completed(
    sizes: tuple[int, ...], positions: tuple[int, ...], key: PRNGKeyArray, tied: Int[Array, "n r"]
) -> Int[Array, "n k"]:
    """The tied factors together with the free factors, which are drawn uniformly."""
    columns = {j: tied[:, slot] for slot, j in enumerate(positions)}
    for number, digit in enumerate(_digits(sizes, positions)):
        span = int(np.prod([sizes[j] for j in digit]))
        rest = random.randint(jax.random.fold_in(key, number), tied.shape[:1], 0, span)
        for j in reversed(digit):
            rest, columns[j] = jnp.divmod(rest, sizes[j])
    return jnp.stack([columns[j] for j in range(len(sizes))], -1)


@functools.lru_cache(maxsize=256)
def _digits(sizes: tuple[int, ...], tied: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Free factors in groups that a single exact draw can cover jointly."""
    groups: list[list[int]] = [[]]
    for j in (j for j in range(len(sizes)) if j not in tied):
        if groups[-1] and np.prod([sizes[i] for i in [*groups[-1], j]]) > _DIGIT:
            groups.append([])
        groups[-1].append(j)
    return tuple(tuple(group) for group in groups if group)
