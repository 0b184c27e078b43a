"""The lattice of ground-truth factors: indexing, and every way of sampling it that a training run or a metric needs."""

import dataclasses
import functools
import itertools
from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Key

from jaxdis.typing import Factors

# `jax.random.randint` is exactly uniform up to this span (beyond it its product of remainders overflows), so a cell is
# drawn as a few mixed-radix digits.
_DIGIT = 2**16
# The cells of restricted factors are listed in a constant of the program; more than this is refused.
_LISTED = 2**20


class Listed(NamedTuple):
    """The factors that a restriction or a correlation ties together, and their allowed cells.

    ``positions``: r factor positions; ``cells [c, r]`` int32; ``weights [c]`` float32, or None where all are equal.
    """

    positions: tuple[int, ...]
    cells: np.ndarray
    weights: np.ndarray | None


@dataclasses.dataclass(frozen=True)
class FactorSpace:
    """A lattice of k discrete factors, the last one fastest; immutable and hashable, so it can be a static argument.

    Attributes:
      names: k distinct names.
      sizes: number of values of each factor.
      values: the real value of each factor at each class number (hues, radians, positions), k tuples.
      excluded: combinations that :meth:`sample` never yields; each is a tuple of (factor position, class number).
      fixed: (factor position, class number) pairs that :meth:`sample` always yields.
      correlation: (first position, second position, width), or None for independent factors.

    Make one with :meth:`of`; narrow it with :meth:`without`, :meth:`only` and :meth:`correlated`. Factors are int32
    class numbers ``[..., k]`` everywhere. Samplers are pure functions of a typed key and may be jitted and vmapped.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    values: tuple[tuple[float, ...], ...]
    excluded: tuple[tuple[tuple[int, int], ...], ...] = ()
    fixed: tuple[tuple[int, int], ...] = ()
    correlation: tuple[int, int, float] | None = None

    @classmethod
    def of(cls, **factors) -> "FactorSpace":
        """``FactorSpace.of(shape=3, scale=(0.5, 0.75, 1.0))``: a factor is a number of values or the values themselves.

        Raises:
          ValueError: for a factor without values.
        """
        values = {n: tuple(float(x) for x in (range(v) if isinstance(v, int) else v)) for n, v in factors.items()}
        for name, row in values.items():
            if not row:
                raise ValueError(f"{name}: needs at least 1 value, got none")
        return cls(tuple(values), tuple(len(row) for row in values.values()), tuple(values.values()))

    # ---- the lattice -------------------------------------------------------------------------------------------------

    @property
    def num_factors(self) -> int:
        return len(self.sizes)

    @property
    def num_lattice(self) -> int:
        """Cells of the whole lattice, restrictions left aside."""
        return int(np.prod(np.array(self.sizes, object)))

    @property
    def num_cells(self) -> int:
        """Cells that :meth:`sample` can yield."""
        listed = _listed(self)
        free = [size for j, size in enumerate(self.sizes) if j not in listed.positions]
        return len(listed.cells) * int(np.prod(np.array(free, object)))

    def position(self, factor: str | int) -> int:
        """The column of a factor given by name or number."""
        if isinstance(factor, str):
            if factor not in self.names:
                raise ValueError(f"factor: needs one of {', '.join(self.names)}, got {factor!r}")
            return self.names.index(factor)
        if not 0 <= factor < self.num_factors:
            raise ValueError(f"factor: needs a number from 0 to {self.num_factors - 1}, got {factor}")
        return int(factor)

    def index(self, factors: Int[Array, "... k"]) -> Int[Array, "..."]:
        """Row-major cell number of factors, the last factor fastest."""
        strides = self._strides()
        return (factors * strides.reshape((1,) * (factors.ndim - 1) + (-1,))).sum(-1, dtype=jnp.int32)

    def factors(self, index: Int[Array, "..."]) -> Int[Array, "... k"]:
        """The inverse of :meth:`index`."""
        shape = (1,) * index.ndim + (-1,)
        sizes = np.array(self.sizes, np.int32)
        return (index[..., None] // self._strides().reshape(shape)) % sizes.reshape(shape)

    def _strides(self) -> np.ndarray:
        if self.num_lattice >= 2**31:
            raise ValueError(f"index: needs a lattice of fewer than 2³¹ cells, this one has {self.num_lattice}")
        return np.append(np.cumprod(self.sizes[:0:-1])[::-1], 1).astype(np.int32)

    def allowed(self, factors: Int[Array, "... k"]) -> Bool[Array, "..."]:
        """Whether :meth:`sample` can yield these factors."""
        keep = jnp.ones(factors.shape[:-1], bool)
        for position, value in self.fixed:
            keep &= factors[..., position] == value
        for combination in self.excluded:
            keep &= ~jnp.stack([factors[..., position] == value for position, value in combination]).all(0)
        return keep

    def cells(self) -> np.ndarray:
        """Lattice indices of all allowed cells on the host, ascending int32: the test set of a held-out combination."""
        everything = np.arange(self.num_lattice, dtype=np.int32)
        strides, sizes = self._strides(), np.array(self.sizes, np.int32)
        column = {j: everything // strides[j] % sizes[j] for j in _listed(self).positions}
        keep = np.ones(everything.shape, bool)
        for position, value in self.fixed:
            keep &= column[position] == value
        for combination in self.excluded:
            keep &= ~np.all([column[position] == value for position, value in combination], axis=0)
        return everything[keep]

    def wrap(self, factors: Int[Array, "n k"]) -> Factors:
        """The factors of n samples with this space's sizes and names, as metrics take them."""
        return Factors(factors, self.sizes, self.names)

    # ---- narrower spaces ---------------------------------------------------------------------------------------------

    def without(self, combination: Mapping[str, int]) -> "FactorSpace":
        """The space whose samples never hold the combination (factor name → class number), and are uniform otherwise."""
        return self._narrowed(excluded=(*self.excluded, self._checked(combination)))

    def only(self, combination: Mapping[str, int]) -> "FactorSpace":
        """The space whose samples always hold the combination, and are uniform otherwise."""
        return self._narrowed(fixed=(*self.fixed, *self._checked(combination)))

    def correlated(self, first: str | int, second: str | int, width: float) -> "FactorSpace":
        """The space whose samples tie two factors: p(a, b) ∝ exp(−(a − b)² / 2σ²), a and b scaled to [0, 1].

        σ = ``width``: 0.2 ties them strongly, a large one leaves them independent; every cell keeps a positive
        probability in exact arithmetic. The other factors stay uniform.

        Source: Träuble et al. 2021, "On disentangled representations learned from correlated data", section 4.
        """
        first, second = self.position(first), self.position(second)
        if first == second or not width > 0:
            raise ValueError(f"correlated: needs two factors and a width > 0, got {first}, {second} and {width}")
        return self._narrowed(correlation=(first, second, float(width)))

    def _checked(self, combination: Mapping[str, int]) -> tuple[tuple[int, int], ...]:
        pairs = sorted((self.position(name), int(value)) for name, value in combination.items())
        if not pairs:
            raise ValueError("combination: needs at least one factor, got none")
        for position, value in pairs:
            if not 0 <= value < self.sizes[position]:
                name, size = self.names[position], self.sizes[position]
                raise ValueError(f"combination: factor {name!r} needs a class number from 0 to {size - 1}, got {value}")
        return tuple(pairs)

    def _narrowed(self, **changes) -> "FactorSpace":
        narrowed = dataclasses.replace(self, **changes)
        if not len(_listed(narrowed).cells):
            raise ValueError("combination: needs to leave at least one cell of the lattice, got none left")
        return narrowed

    # ---- sampling ----------------------------------------------------------------------------------------------------

    def sample(self, key: Key[Array, ""], n: int) -> Int[Array, "n k"]:
        """n independent cells, exactly uniform over the allowed ones (or as :meth:`correlated` says)."""
        listed = _listed(self)
        tied, free = jax.random.split(key)
        rows = _pick(tied, jnp.ones(len(listed.cells), jnp.int32), listed.weights, (n,))
        return self._assembled(free, jnp.asarray(listed.cells)[rows])

    def fix(self, key: Key[Array, ""], factor: str | int | Int[Array, ""], n: int) -> Int[Array, "n k"]:
        """n cells that share the value of one factor: one batch of the FactorVAE metric (Kim and Mnih 2018, section 4).

        The shared value is that of a random cell; the others are drawn given it. ``factor`` may be traced, so that
        ``vmap`` over keys and factors makes all batches of a metric at once.
        """
        first, rest = jax.random.split(key)
        factor = self._traced(factor)
        value = self.sample(first, 1)[0][factor]
        return self._given(rest, factor, jnp.broadcast_to(value, (n,)))

    def pairs(
        self, key: Key[Array, ""], factor: str | int | Int[Array, ""], n: int
    ) -> tuple[Int[Array, "n k"], Int[Array, "n k"]]:
        """n pairs of cells, equal in one factor within each pair (BetaVAE metric, Higgins et al. 2017, section 3)."""
        first, second = jax.random.split(key)
        factor = self._traced(factor)
        left = self.sample(first, n)
        return left, self._given(second, factor, left[:, factor])

    def local_group(
        self, key: Key[Array, ""], n: int, radius: Mapping[str, int | None], circular: tuple[str, ...] = ()
    ) -> Int[Array, "n k"]:
        """n cells near one random cell: a group of Algorithm 2 of Dang-Nhu 2022; ``vmap`` over keys for many groups.

        ``radius`` gives steps each way for each factor, None (or no entry) for a free factor. Values come uniformly from
        the neighbourhood cut off at the ends of the factor; ``circular`` factors go round instead. (The paper does not
        say which; it writes ``a[i−1], a[i], a[i+1]``.)
        """
        if self.excluded or self.correlation:
            raise ValueError("local_group: needs a space without held-out combinations or correlation")
        centre_key, draw_key = jax.random.split(key)
        centre = self.sample(centre_key, 1)
        columns = {self.position(name): r for name, r in radius.items()}
        around = {self.position(name) for name in circular}
        low, high = [], []
        for j, size in enumerate(self.sizes):
            steps = 0 if j in dict(self.fixed) else columns.get(j)
            wide = steps is None or (j in around and 2 * steps + 1 >= size)
            low.append(jnp.zeros((), jnp.int32) if wide else centre[0, j] - steps)
            high.append(jnp.full((), size, jnp.int32) if wide else centre[0, j] + steps + 1)
        sizes = np.array([self.sizes], np.int32)
        bounded = np.array([[j not in around for j in range(self.num_factors)]])
        low, high = jnp.stack(low)[None], jnp.stack(high)[None]
        low, high = jnp.where(bounded, jnp.maximum(low, 0), low), jnp.where(bounded, jnp.minimum(high, sizes), high)
        shape = (n, self.num_factors)
        return jax.random.randint(draw_key, shape, jnp.broadcast_to(low, shape), jnp.broadcast_to(high, shape)) % sizes

    def _traced(self, factor) -> Int[Array, ""]:
        return jnp.int32(self.position(factor)) if isinstance(factor, str | int) else factor

    def _given(self, key, factor: Int[Array, ""], value: Int[Array, " n"]) -> Int[Array, "n k"]:
        """Cells drawn given that ``factor`` takes ``value``, sample by sample."""
        listed = _listed(self)
        tied, free = jax.random.split(key)
        if len(listed.cells) == 1:
            rows = jnp.zeros(value.shape, jnp.int32)
        else:
            slots = np.full(self.num_factors, -1, np.int32)
            slots[list(listed.positions)] = np.arange(len(listed.positions))
            slot = jnp.asarray(slots)[factor]
            column = jnp.asarray(listed.cells)[:, slot]
            match = ((slot < 0) | (column[None] == value[:, None])).astype(jnp.int32)
            pick = jax.vmap(lambda key, row: _pick(key, row, listed.weights, ()))
            rows = pick(jax.random.split(tied, value.shape[0]), match)
        drawn = self._assembled(free, jnp.asarray(listed.cells)[rows])
        return jnp.where(jnp.arange(self.num_factors)[None] == factor, value[:, None], drawn)

    def _assembled(self, key, tied: Int[Array, "n r"]) -> Int[Array, "n k"]:
        """Free factors drawn uniformly, put in their columns beside the tied ones."""
        positions = _listed(self).positions
        columns = {j: tied[:, slot] for slot, j in enumerate(positions)}
        for number, digit in enumerate(_digits(self, positions)):
            sizes = [self.sizes[j] for j in digit]
            rest = jax.random.randint(jax.random.fold_in(key, number), tied.shape[:1], 0, int(np.prod(sizes)))
            for j in reversed(digit):
                rest, columns[j] = jnp.divmod(rest, self.sizes[j])
        return jnp.stack([columns[j] for j in range(self.num_factors)], -1)


def _pick(key, match: Int[Array, " c"], weights: np.ndarray | None, shape: tuple[int, ...]) -> Int[Array, "..."]:
    """Rows drawn from those that match, equally likely or by weight."""
    if len(match) == 1:
        return jnp.zeros(shape, jnp.int32)
    if weights is None:
        total = jnp.cumsum(match)
        draw = jax.random.randint(key, shape, 0, total[-1])
    else:
        total = jnp.cumsum(match.astype(jnp.float32) * weights)
        draw = jax.random.uniform(key, shape) * total[-1]
    row = jnp.searchsorted(total, draw, side="right")
    # A float draw may round up to the total itself; the last matching row owns that point.
    return jnp.minimum(row, jnp.searchsorted(total, total[-1], side="left")).astype(jnp.int32)


@functools.lru_cache(maxsize=256)
def _listed(space: FactorSpace) -> Listed:
    """Lists the allowed cells of the factors that a restriction names; a space without any has the one empty cell."""
    named = [combination for combination in (*space.excluded, space.fixed) for combination in combination]
    tied = {position for position, _ in named} | set(space.correlation[:2] if space.correlation else ())
    positions = tuple(sorted(tied))
    fixed = dict(space.fixed)
    if len(fixed) < len(set(space.fixed)):
        return Listed(positions, np.zeros((0, len(positions)), np.int32), None)
    axes = [np.arange(space.sizes[j]) if j not in fixed else np.array([fixed[j]]) for j in positions]
    if np.prod([float(len(axis)) for axis in axes]) > _LISTED:
        raise ValueError(f"combination: needs factors with at most {_LISTED} joint cells, got {positions}")
    cells = np.array(list(itertools.product(*axes)), np.int32).reshape(-1 if axes else 1, len(positions))
    column = {j: cells[:, slot] for slot, j in enumerate(positions)}
    for combination in space.excluded:
        keep = ~np.all([column[j] == value for j, value in combination], axis=0)
        cells = cells[keep]
        column = {j: cells[:, slot] for slot, j in enumerate(positions)}
    if space.correlation is None:
        return Listed(positions, cells, None)
    first, second, width = space.correlation
    a, b = (column[j] / max(space.sizes[j] - 1, 1) for j in (first, second))
    return Listed(positions, cells, np.exp(-((a - b) ** 2) / (2 * width**2)).astype(np.float32))


@functools.lru_cache(maxsize=256)
def _digits(space: FactorSpace, tied: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Free factors in groups whose joint number of values one exact draw can cover."""
    groups: list[list[int]] = [[]]
    for j in (j for j in range(space.num_factors) if j not in tied):
        if groups[-1] and np.prod([space.sizes[i] for i in [*groups[-1], j]]) > _DIGIT:
            groups.append([])
        groups[-1].append(j)
    return tuple(tuple(group) for group in groups if group)
