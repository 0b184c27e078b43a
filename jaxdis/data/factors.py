"""The lattice of ground-truth factors: indexing, and every way of sampling it that a training run or a metric needs."""

import dataclasses
from collections.abc import Mapping
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Key

from jaxdis.data import draws
from jaxdis.options import Count, Natural, Range, checked, checked_value, listed, shown
from jaxdis.typing import Factors

# The values of a factor are held one by one.
MOST_VALUES = 2**20


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
        if not factors:
            raise ValueError("factors: needs at least one factor, got none")
        values = {name: _values(name, given) for name, given in factors.items()}
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
        listed = draws.listed(self._lattice())
        free = [size for j, size in enumerate(self.sizes) if j not in listed.positions]
        return len(listed.cells) * int(np.prod(np.array(free, object)))

    def position(self, factor: str | int) -> int:
        """The column of a factor given by name or number."""
        if isinstance(factor, str):
            if factor not in self.names:
                raise ValueError(f"factor: needs one of {', '.join(self.names)}, got {shown(factor)}")
            return self.names.index(factor)
        factor = checked_value("factor", int | str, factor)
        if not 0 <= factor < self.num_factors:
            raise ValueError(f"factor: needs a number from 0 to {self.num_factors - 1}, got {factor}")
        return factor

    @checked
    def index(self, factors: Int[Array | np.ndarray, "... k"]) -> Int[Array, "..."]:
        """Row-major cell number of factors, the last factor fastest."""
        self._check_last_axis(factors)
        strides = self._strides()
        return (factors * strides.reshape((1,) * (factors.ndim - 1) + (-1,))).sum(-1, dtype=jnp.int32)

    @checked
    def factors(self, index: Int[Array | np.ndarray, "..."]) -> Int[Array, "... k"]:
        """The inverse of :meth:`index`."""
        shape = (1,) * index.ndim + (-1,)
        sizes = np.array(self.sizes, np.int32)
        return (index[..., None] // self._strides().reshape(shape)) % sizes.reshape(shape)

    def _check_last_axis(self, factors) -> None:
        if factors.shape[-1] != self.num_factors:
            raise ValueError(f"factors: needs shape [..., {self.num_factors}], got {factors.shape}")

    def _strides(self) -> np.ndarray:
        if self.num_lattice >= 2**31:
            raise ValueError(f"index: needs a lattice of fewer than 2³¹ cells, this one has {self.num_lattice}")
        return np.append(np.cumprod(self.sizes[:0:-1])[::-1], 1).astype(np.int32)

    @checked
    def allowed(self, factors: Int[Array | np.ndarray, "... k"]) -> Bool[Array, "..."]:
        """Whether :meth:`sample` can yield these factors."""
        self._check_last_axis(factors)
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
        column = {j: everything // strides[j] % sizes[j] for j in draws.listed(self._lattice()).positions}
        keep = np.ones(everything.shape, bool)
        for position, value in self.fixed:
            keep &= column[position] == value
        for combination in self.excluded:
            keep &= ~np.all([column[position] == value for position, value in combination], axis=0)
        return everything[keep]

    @checked
    def wrap(self, factors: Int[Array | np.ndarray, "n k"]) -> Factors:
        """The factors of n samples with this space's sizes and names, as metrics take them."""
        self._check_last_axis(factors)
        return Factors(factors, self.sizes, self.names)

    # ---- narrower spaces ---------------------------------------------------------------------------------------------

    @checked
    def without(self, combination: Mapping[str, int]) -> "FactorSpace":
        """The space whose samples never hold the combination (factor name → class number); uniform otherwise."""
        return self._narrowed(excluded=(*self.excluded, self._checked(combination)))

    @checked
    def only(self, combination: Mapping[str, int]) -> "FactorSpace":
        """The space whose samples always hold the combination, and are uniform otherwise."""
        return self._narrowed(fixed=(*self.fixed, *self._checked(combination)))

    @checked
    def correlated(self, first: str | int, second: str | int, width: float) -> "FactorSpace":
        """The space whose samples tie two factors: p(a, b) ∝ exp(−(a − b)² / 2σ²), a and b scaled to [0, 1].

        σ = ``width``: 0.2 ties them strongly, a large one leaves them independent; every cell keeps a positive
        probability in exact arithmetic. The other factors stay uniform.

        Source: Träuble et al. 2021, "On disentangled representations learned from correlated data", section 4.
        """
        first, second = self.position(first), self.position(second)
        if first == second or not 1e-6 <= width <= 1e6:
            raise ValueError(
                "correlated: needs two factors and a width > 0 (1e-6 to 1e6), got "
                f"{first}, {second} and a width of {width}"
            )
        if self.correlation is not None:
            raise ValueError(
                f"correlated: needs a space without correlation, got one of factors {self.correlation[:2]}"
            )
        return self._narrowed(correlation=(first, second, float(width)))

    def _checked(self, combination: Mapping[str, int]) -> tuple[tuple[int, int], ...]:
        pairs = sorted(
            (self.position(name), checked_value("combination", int, value)) for name, value in combination.items()
        )
        if not pairs:
            raise ValueError("combination: needs at least one factor, got none")
        for position, value in pairs:
            if not 0 <= value < self.sizes[position]:
                name, size = self.names[position], self.sizes[position]
                raise ValueError(f"combination: factor {name!r} needs a class number from 0 to {size - 1}, got {value}")
        return tuple(pairs)

    def _narrowed(self, **changes) -> "FactorSpace":
        narrowed = dataclasses.replace(self, **changes)
        if not len(draws.listed(narrowed._lattice()).cells):
            raise ValueError("combination: needs to leave at least one cell of the lattice, got none left")
        return narrowed

    # ---- sampling ----------------------------------------------------------------------------------------------------

    @checked
    def sample(self, key: Key[Array, ""], n: Natural) -> Int[Array, "n k"]:
        """n independent cells, exactly uniform over the allowed ones (or as :meth:`correlated` says)."""
        return draws.cells(self._lattice(), key, n)

    @checked
    def fix(self, key: Key[Array, ""], factor: str | int | Int[Array, ""], n: Natural) -> Int[Array, "n k"]:
        """n cells that share the value of one factor: one batch of the FactorVAE metric (Kim and Mnih 2018, section 4).

        The shared value is that of a random cell; the others are drawn given it. ``factor`` may be traced, so that
        ``vmap`` over keys and factors makes all batches of a metric at once.
        """
        first, rest = jax.random.split(key)
        factor = self._traced(factor)
        value = self.sample(first, 1)[0][factor]
        return self.given(rest, factor, jnp.broadcast_to(value, (n,)))

    @checked
    def given(
        self, key: Key[Array, ""], factor: str | int | Int[Array, ""], value: Int[Array, " n"]
    ) -> Int[Array, "n k"]:
        """One cell for each value, drawn given that the factor takes it: an intervention on that factor."""
        return draws.cells_given(self._lattice(), key, self._traced(factor), value)

    @checked
    def pairs(
        self, key: Key[Array, ""], factor: str | int | Int[Array, ""], n: int
    ) -> tuple[Int[Array, "n k"], Int[Array, "n k"]]:
        """n pairs of cells, equal in one factor within each pair (BetaVAE metric, Higgins et al. 2017, section 3)."""
        first, second = jax.random.split(key)
        factor = self._traced(factor)
        left = self.sample(first, n)
        return left, self.given(second, factor, left[:, factor])

    @checked
    def local_group(
        self, key: Key[Array, ""], n: Natural, radius: Mapping[str, int | None], circular: tuple[str, ...] = ()
    ) -> Int[Array, "n k"]:
        """n cells near one random cell: a group of Algorithm 2 of Dang-Nhu 2022; ``vmap`` over keys for many groups.

        ``radius`` gives steps each way for each factor, None (or no entry) for a free factor. Values come uniformly
        from the neighborhood cut off at the ends of the factor; ``circular`` factors go round instead. (The paper does
        not say which; it writes ``a[i−1], a[i], a[i+1]``.)
        """
        if self.excluded or self.correlation:
            raise ValueError("local_group: needs a space without held-out combinations or correlation")
        center_key, draw_key = jax.random.split(key)
        center = self.sample(center_key, 1)
        columns = {self.position(n): checked_value("radius", Natural | None, steps) for n, steps in radius.items()}
        around = {self.position(name) for name in circular}
        low, high = [], []
        for j, size in enumerate(self.sizes):
            steps = 0 if j in dict(self.fixed) else columns.get(j)
            wide = steps is None or (j in around and 2 * steps + 1 >= size)
            low.append(jnp.zeros((), jnp.int32) if wide else center[0, j] - steps)
            high.append(jnp.full((), size, jnp.int32) if wide else center[0, j] + steps + 1)
        sizes = np.array([self.sizes], np.int32)
        bounded = np.array([[j not in around for j in range(self.num_factors)]])
        low, high = jnp.stack(low)[None], jnp.stack(high)[None]
        low, high = jnp.where(bounded, jnp.maximum(low, 0), low), jnp.where(bounded, jnp.minimum(high, sizes), high)
        shape = (n, self.num_factors)
        return jax.random.randint(draw_key, shape, jnp.broadcast_to(low, shape), jnp.broadcast_to(high, shape)) % sizes

    @checked
    def local_groups(
        self,
        key: Key[Array, ""],
        radius: Mapping[str, int | None],
        *,
        groups: Count = 10,
        samples: Count = 5000,
        circular: tuple[str, ...] = (),
    ) -> Int[Array, "n k"]:
        """``groups`` groups of :meth:`local_group`, one after the other: n = groups · samples cells.

        The evaluation set of Algorithm 2 (Dang-Nhu 2022, App. C.1; 10 groups of 5,000 in C.4), over whose groups
        :func:`jaxdis.evaluate_structured` averages.
        """
        keys = jax.random.split(key, groups)
        drawn = jax.vmap(lambda key: self.local_group(key, samples, radius, circular))(keys)
        return drawn.reshape(groups * samples, self.num_factors)

    def _traced(self, factor) -> Int[Array, ""]:
        return jnp.int32(self.position(factor)) if isinstance(factor, str | int | np.integer) else factor

    def _lattice(self) -> draws.Lattice:
        return draws.Lattice(self.sizes, self.excluded, self.fixed, self.correlation)


def _values(name: str, given) -> tuple[float, ...]:
    """The values of a factor from their number, or from a sequence of them."""
    if isinstance(given, int | np.integer):
        return tuple(map(float, range(checked_value(name, Annotated[int, Range(1, MOST_VALUES)], given))))
    values = listed(given)
    if not values:
        raise ValueError(f"{name}: needs at least 1 value or the number of values, got {shown(given)}")
    return tuple(checked_value(name, float, value) for value in values)
