"""Spaces with ground-truth factors, regions that can be held out, and all ways to sample them.

Cells are drawn exactly and without rejection, whatever is held out: factors that a restriction ties together are drawn
jointly, from a list of allowed cells; all others are drawn independently.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Mapping
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Num, PRNGKeyArray

from jaxdis._core import random
from jaxdis._core.options import (
    CheckedFields,
    Count,
    Natural,
    Positive,
    Range,
    Seed,
    checked,
    checked_value,
    listed,
    shown,
)
from jaxdis.factors import Factors

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
def listed_cells(lattice: Lattice) -> Listed:
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


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def drawn_cells(
    sizes: tuple[int, ...], positions: tuple[int, ...], n: int, key: PRNGKeyArray, cells, weights
) -> Int[Array, "n k"]:
    """n independent cells from a lattice with these tied factors. Operation by operation, it would be fifteen
    programs."""
    tied_key, free_key = jax.random.split(key)
    rows = _pick(tied_key, weights, (n,))
    return _completed(sizes, positions, free_key, cells[rows])


def cells_given(
    lattice: Lattice, key: PRNGKeyArray, factor: Int[Array, ""], value: Int[Array, " n"]
) -> Int[Array, "n k"]:
    """One cell per value, drawn given that ``factor`` has this value, but for that factor's own column."""
    tied = listed_cells(lattice)
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
    return _completed(lattice.sizes, tied.positions, free_key, jnp.asarray(tied.cells)[rows])


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


# The values of a factor are stored individually.
MOST_VALUES = 2**20
# Folded into a key, so that continuous and discrete factors are drawn from different keys.
_APART = 2**31


@dataclasses.dataclass(frozen=True)
class Interval:
    """A continuous factor's values: uniform from ``low`` to ``high``, which are identified if ``circular``."""

    low: int | float
    high: int | float
    circular: bool = False

    def __post_init__(self):
        for name, kind in (("low", float), ("high", float), ("circular", bool)):
            object.__setattr__(self, name, checked_value(name, kind, getattr(self, name)))
        if not (math.isfinite(self.low) and math.isfinite(self.high) and np.float32(self.low) < np.float32(self.high)):
            raise ValueError(f"low: must be finite numbers low < high, got {self.low:g} and {self.high:g}")


def uniform(key: PRNGKeyArray, position: int, span: Interval, n: int) -> Float[Array, " n"]:
    """Values for the factor at ``position``, from its whole interval."""
    return random.uniform(_key_of(key, position), (n,), minval=span.low, maxval=span.high)


def completed(cells: Int[Array, "n k"], spans: Mapping[int, Interval | float], draw: Callable) -> Num[Array, "n k"]:
    """The cells with ``draw(position, span)`` in columns for continuous factors, or with their fixed values."""
    if not spans:
        return cells
    table = cells.astype(jnp.float32)
    for position, span in spans.items():
        column = jnp.full(len(cells), span, jnp.float32) if isinstance(span, float) else draw(position, span)
        table = table.at[:, position].set(column)
    return table


def _key_of(key, position: int):
    return jax.random.fold_in(jax.random.fold_in(key, _APART), position)


def middles(span: Interval, count: int) -> Float[Array, " b"]:
    """The centers of equal-width bins in an interval."""
    return span.low + (span.high - span.low) * (jnp.arange(count, dtype=jnp.float32) + 0.5) / count


def values_of(name: str, given) -> tuple[float, ...] | Interval:
    """A factor's values, from how many there are, from a sequence, or from an interval."""
    if isinstance(given, Interval):
        return given
    if isinstance(given, int | np.integer):
        return tuple(map(float, range(checked_value(name, Annotated[int, Range(1, MOST_VALUES)], given))))
    values = listed(given)
    if not values:
        raise ValueError(f"{name}: must have at least 1 value or the number of values, got {shown(given)}")
    return tuple(checked_value(name, float, value) for value in values)


# Constants of a 32-bit mixing function (Murmur3's finalizer).
_FIRST, _SECOND, _STEP = 0x85EBCA6B, 0xC2B2AE35, 0x9E3779B9


@dataclasses.dataclass(frozen=True)
class RandomCells(CheckedFields):
    """A random share of all combinations, the same for every sample with one combination.

    Continuous factors' values are distinguished to the last bit, so each sample is its own combination.
    """

    share: Annotated[float, Range(0, 1, above=True, below=True)]
    seed: Seed = 0

    def __call__(self, factors: Num[Array, "n k"]) -> Bool[Array, " n"]:
        words = factors if jnp.issubdtype(factors.dtype, jnp.integer) else factors.view(jnp.int32)
        state = jnp.full(words.shape[0], self.seed & 0xFFFFFFFF, jnp.uint32)
        for j in range(words.shape[1]):
            state = _mixed(state ^ words[:, j].astype(jnp.uint32)) + jnp.uint32(_STEP)
        return _mixed(state).astype(jnp.float32) < self.share * 2.0**32


@dataclasses.dataclass(frozen=True)
class Complement:
    region: Callable

    def __call__(self, factors: Num[Array, "n k"]) -> Bool[Array, " n"]:
        return ~self.region(factors)


def _mixed(word: jax.Array) -> jax.Array:
    word = (word ^ (word >> 16)) * jnp.uint32(_FIRST)
    word = (word ^ (word >> 13)) * jnp.uint32(_SECOND)
    return word ^ (word >> 16)


@dataclasses.dataclass(frozen=True)
class FactorSpace:
    """k factors, each discrete or continuous; immutable and hashable, so it can be a static argument.

    Attributes:
      names: k distinct names.
      sizes: how many values each factor has; None for a continuous factor.
      values: k entries: a factor's real values (hues, radians, positions) by class number, or a continuous factor's
        :class:`Interval`.
      excluded: combinations that :meth:`sample` never yields; each is a tuple of (factor position, class number).
      fixed: (factor position, class number or value) pairs that every sample has.
      regions: functions that take factors ``[n, k]``, True where :meth:`sample` never draws.
      correlations: (factor position, factor position, spread) for factors whose values go together, see
        :meth:`correlated`.
      circular: (factor position, period) pairs for factors that metrics shall take as angles, see :meth:`circling`.

    Construct it with :meth:`of`; narrow it with :meth:`without`, :meth:`outside` and :meth:`only`.
    Factors ``[..., k]`` are int32 class numbers; in a space with continuous factors they are float32, and class numbers
    are whole. Samplers are pure functions of a typed key and can be jitted and vmapped.

    A space of discrete factors only is a lattice, whose cells are numbered with the last factor fastest.
    """

    names: tuple[str, ...]
    sizes: tuple[int | None, ...]
    values: tuple[tuple[float, ...] | Interval, ...]
    excluded: tuple[tuple[tuple[int, int], ...], ...] = ()
    fixed: tuple[tuple[int, int | float], ...] = ()
    regions: tuple[Callable, ...] = ()
    correlations: tuple[tuple[int, int, float], ...] = ()
    circular: tuple[tuple[int, float], ...] = dataclasses.field(default=(), repr=False)  # no image depends on it

    @classmethod
    def of(cls, **factors) -> "FactorSpace":
        """``FactorSpace.of(shape=3, scale=(0.5, 0.75, 1.0), azimuth=Interval(0, 2 * np.pi, circular=True))``.

        A factor is given by how many values it has, by the values themselves, or by an :class:`Interval`.

        Raises:
          ValueError: for a factor without values.
        """
        if not factors:
            raise ValueError("factors: must have at least one factor, got none")
        values = {name: values_of(name, given) for name, given in factors.items()}
        sizes = (None if isinstance(row, Interval) else len(row) for row in values.values())
        return cls(tuple(values), tuple(sizes), tuple(values.values()))

    @property
    def num_factors(self) -> int:
        return len(self.sizes)

    @property
    def continuous(self) -> tuple[int, ...]:
        """Where continuous factors stand."""
        return tuple(j for j, size in enumerate(self.sizes) if size is None)

    @property
    def num_lattice(self) -> int:
        """How many cells the whole lattice has, without restrictions."""
        self._check_lattice("num_lattice")
        return int(np.prod(np.array(self.sizes, object)))

    @property
    def num_cells(self) -> int:
        """How many cells :meth:`sample` can yield."""
        self._check_lattice("num_cells")
        if self.regions:
            return len(self.cells())
        listed = listed_cells(self._lattice())
        free = [size for j, size in enumerate(self.sizes) if j not in listed.positions]
        return len(listed.cells) * int(np.prod(np.array(free, object)))

    def position(self, factor: str | int) -> int:
        """The column of a factor, given by name or number."""
        if isinstance(factor, str):
            if factor not in self.names:
                raise ValueError(f"factor: must be one of {', '.join(self.names)}, got {shown(factor)}")
            return self.names.index(factor)
        factor = checked_value("factor", int | str, factor)
        if not 0 <= factor < self.num_factors:
            raise ValueError(f"factor: must be a number from 0 to {self.num_factors - 1}, got {factor}")
        return factor

    @checked
    def index(self, factors: Int[Array | np.ndarray, "... k"]) -> Int[Array, "..."]:
        """Row-major cell number for factors, the last factor fastest."""
        self._check_lattice("index")
        self._check_last_axis(factors)
        strides = self._strides()
        return (factors * strides.reshape((1,) * (factors.ndim - 1) + (-1,))).sum(-1, dtype=jnp.int32)

    @checked
    def factors(self, index: Int[Array | np.ndarray, "..."]) -> Int[Array, "... k"]:
        """The inverse of :meth:`index`."""
        self._check_lattice("factors")
        shape = (1,) * index.ndim + (-1,)
        sizes = np.array(self.sizes, np.int32)
        return (index[..., None] // self._strides().reshape(shape)) % sizes.reshape(shape)

    def _check_lattice(self, what: str) -> None:
        if self.continuous:
            names = ", ".join(self.names[j] for j in self.continuous)
            raise ValueError(f"{what}: must have a space of discrete factors, got one with continuous factors {names}")

    def _check_last_axis(self, factors) -> None:
        if factors.shape[-1] != self.num_factors:
            raise ValueError(f"factors: must have shape [..., {self.num_factors}], got {factors.shape}")

    def _strides(self) -> np.ndarray:
        if self.num_lattice >= 2**31:
            raise ValueError(f"index: needs a lattice of fewer than 2³¹ cells, this one has {self.num_lattice}")
        return np.append(np.cumprod(self.sizes[:0:-1])[::-1], 1).astype(np.int32)

    @checked
    def allowed(self, factors: Num[Array | np.ndarray, "... k"]) -> Bool[Array, "..."]:
        """Whether :meth:`sample` can yield these factors."""
        self._check_last_axis(factors)
        keep = jnp.ones(factors.shape[:-1], bool)
        for region in self.regions:
            keep &= ~region(jnp.asarray(factors).reshape(-1, self.num_factors)).reshape(keep.shape)
        for position, value in self.fixed:
            keep &= factors[..., position] == value
        for combination in self.excluded:
            keep &= ~jnp.stack([factors[..., position] == value for position, value in combination]).all(0)
        return keep

    def cells(self) -> np.ndarray:
        """Lattice indices of all allowed cells, ascending int32 on the host: the test set for a held-out
        combination."""
        self._check_lattice("cells")
        everything = np.arange(self.num_lattice, dtype=np.int32)
        return everything[np.asarray(self.allowed(self.factors(jnp.asarray(everything))))]

    @checked
    def wrap(self, factors: Num[Array | np.ndarray, "n k"]) -> Factors:
        """The factors for n samples with this space's sizes and names, as metrics take them."""
        self._check_last_axis(factors)
        if not self.circular:
            return Factors(jnp.asarray(factors), self.sizes, self.names)
        of = dict(self.circular)
        sizes = tuple(None if j in of else size for j, size in enumerate(self.sizes))
        periods = tuple(map(of.get, range(self.num_factors)))
        return Factors(jnp.asarray(factors, jnp.float32), sizes, self.names, periods)

    @checked
    def circling(self, periods: Mapping[str, float | int]) -> "FactorSpace":
        """The space whose samples metrics take as angles: factor names, and their periods in class numbers or
        values."""
        checked_periods = {name: checked_value(f"periods: {name}", Positive, given) for name, given in periods.items()}
        circular = tuple((self.position(name), float(period)) for name, period in checked_periods.items())
        return dataclasses.replace(self, circular=circular)

    @checked
    def without(self, combination: Mapping[str, int]) -> "FactorSpace":
        """The space whose samples never have the combination (factor name → class number); uniform otherwise."""
        return self._narrowed(excluded=(*self.excluded, self._checked(combination)))

    @checked
    def only(self, combination: Mapping[str, int | float]) -> "FactorSpace":
        """The space whose samples always have the combination; uniform otherwise.

        ``combination`` maps factor names to class numbers, or, for continuous factors, to values.
        """
        return self._narrowed(fixed=(*self.fixed, *self._checked(combination, continuous=True)))

    @checked
    def correlated(self, first: str | int, second: str | int, spread: Positive) -> "FactorSpace":
        """The space whose samples have correlated values in two discrete factors; uniform otherwise.

        With class numbers ``a`` and ``b`` scaled to [0, 1], a pair is drawn in proportion to ``exp(−(a − b)² /
        2 spread²)``: .2 is a strong correlation, .7 a weak one. Interventions on one factor draw the other given it.

        Raises:
          ValueError: for continuous factors, or one factor twice.

        Reference: Träuble et al. 2021, §4.
        """
        if (i := self.position(first)) == (j := self.position(second)):
            raise ValueError(f"second: must be another factor than {self.names[i]}, got it twice")
        if None in (self.sizes[i], self.sizes[j]):
            raise ValueError(f"first, second: must be discrete factors, got {self.names[i if self.sizes[j] else j]}")
        return self._narrowed(correlations=(*self.correlations, (i, j, float(spread))))

    def outside(self, region) -> "FactorSpace":
        """The space whose samples are never in a region; uniform otherwise.

        Args:
          region: pure function from factors ``[n, k]`` to truth values ``[n]``. It must be defined at a module's top
            level, because the space's identity includes it.

        Raises:
          ValueError: for a region that cannot be hashed, returns something else, or contains 10,000 of 10,000 samples.
        """
        if not callable(region):
            raise ValueError(f"region: must be a function of factors [n, k], got {shown(region)}")
        try:
            hash(region)
        except TypeError:
            raise ValueError(f"region: must be hashable, as the space is, got {shown(region)}") from None
        drawn = self.sample(jax.random.key(0), 10_000)
        inside = region(drawn)
        if getattr(inside, "shape", None) != (10_000,) or inside.dtype != bool:
            raise ValueError(f"region: must be truth values of shape [n], got {shown(inside)}")
        if inside.all():
            raise ValueError("region: must leave a part of the space, got 10,000 of 10,000 random samples inside")
        return dataclasses.replace(self, regions=(*self.regions, region))

    def inside(self, region) -> "FactorSpace":
        """The space whose samples are all in a region; arguments and errors as for :meth:`outside`."""
        return self.outside(Complement(region))

    def _checked(self, combination: Mapping, *, continuous: bool = False) -> tuple[tuple[int, int | float], ...]:
        columns = {name: self.position(name) for name in combination}
        kinds = {name: float if self.sizes[j] is None else int for name, j in columns.items()}
        pairs = sorted(
            (columns[name], checked_value("combination", kinds[name], value)) for name, value in combination.items()
        )
        if not pairs:
            raise ValueError("combination: must have at least one factor, got none")
        for position, value in pairs:
            if self.sizes[position] is None:
                name, span = self.names[position], self.values[position]
                if not continuous:
                    raise ValueError(
                        f"combination: must be discrete factors, got {name!r}; use outside to leave out a region"
                    )
                if not span.low <= value <= span.high:
                    raise ValueError(
                        f"combination: factor {name!r} must be in [{span.low:g}, {span.high:g}], got {value:g}"
                    )
            elif not 0 <= value < self.sizes[position]:
                name, size = self.names[position], self.sizes[position]
                raise ValueError(f"combination: {name!r} must be a class number from 0 to {size - 1}, got {value}")
        return tuple(pairs)

    def _narrowed(self, **changes) -> "FactorSpace":
        narrowed = dataclasses.replace(self, **changes)
        if not len(listed_cells(narrowed._lattice()).cells):
            raise ValueError("combination: must leave at least one cell of the lattice, got none left")
        return narrowed

    @checked
    def sample(self, key: PRNGKeyArray, n: Natural) -> Num[Array, "n k"]:
        """n independent samples, exactly uniform over the allowed ones but for correlated factors."""
        return self.drawn(key, n, listed_cells(self._lattice()))

    def drawn(self, key: PRNGKeyArray, n: int, tied: Listed) -> Num[Array, "n k"]:
        """Samples with another space's tied factors, whose table may be traced; see :meth:`apart`."""
        return self._outside_regions(FactorSpace._cells, (n, tied.positions), key, tied.cells, tied.weights)

    def apart(self) -> tuple["FactorSpace", Listed]:
        """The space without restrictions on its cells, and these: spaces which differ in them alone share programs."""
        fixed = tuple((j, value) for j, value in self.fixed if self.sizes[j] is None)
        return dataclasses.replace(self, excluded=(), fixed=fixed, correlations=()), listed_cells(self._lattice())

    @checked
    def fix(self, key: PRNGKeyArray, factor: str | int | Int[Array, ""], n: Natural) -> Num[Array, "n k"]:
        """n samples that share the value of one factor: a batch for the FactorVAE metric (Kim and Mnih 2018, §4).

        A random sample gives the shared value; the other factors are drawn given this value. ``factor`` may be traced,
        so that ``vmap`` over keys and factors draws all of a metric's batches at once.
        """
        first, rest = jax.random.split(key)
        factor = self._traced(factor)
        value = self.sample(first, 1)[0][factor]
        return self.given(rest, factor, jnp.broadcast_to(value, (n,)))

    @checked
    def given(
        self, key: PRNGKeyArray, factor: str | int | Int[Array, ""], value: Num[Array, " n"]
    ) -> Num[Array, "n k"]:
        """One sample per value, drawn given that the factor has this value: an intervention on that factor.

        If regions are left out, a sample that is still inside one after 10,000 attempts is returned unchanged.
        """
        return self._outside_regions(FactorSpace._cells_given, (), key, self._traced(factor), value)

    @checked
    def pairs(
        self, key: PRNGKeyArray, factor: str | int | Int[Array, ""], n: int
    ) -> tuple[Num[Array, "n k"], Num[Array, "n k"]]:
        """n pairs of samples, equal in one factor within each pair (BetaVAE metric, Higgins et al. 2017, section 3)."""
        first, second = jax.random.split(key)
        factor = self._traced(factor)
        left = self.sample(first, n)
        return left, self.given(second, factor, left[:, factor])

    @checked
    def local_group(
        self, key: PRNGKeyArray, n: Natural, radius: Mapping[str, int | float | None], circular: tuple[str, ...] = ()
    ) -> Num[Array, "n k"]:
        """n samples near a random one: a group in Algorithm 2 of Dang-Nhu 2022. Use ``vmap`` over keys for many groups.

        Args:
          radius: for each factor how many steps it goes in each direction (a distance for a continuous factor); None,
            or no entry, leaves a factor free.
          circular: factors whose values wrap around. Any other factor's neighborhood ends at its first and last value.
            (The paper does not specify which; it writes ``a[i−1], a[i], a[i+1]``.)

        Values are uniform in the neighborhood.
        """
        columns, around = self._neighborhood(radius, circular)
        center_key, draw_key = jax.random.split(key)
        center = self.sample(center_key, 1)
        fixed, low, high = dict(self.fixed), [], []
        # A column without a radius is free, and so is one with a single value.
        for j, size in enumerate(self._class_sizes):
            steps = None if size == 1 else 0 if j in fixed else columns.get(j)
            wide = steps is None or (j in around and 2 * steps + 1 >= size)
            place = center[0, j].astype(jnp.int32)
            low.append(jnp.zeros((), jnp.int32) if wide else place - steps)
            high.append(jnp.full((), size, jnp.int32) if wide else place + steps + 1)
        sizes = np.array([self._class_sizes], np.int32)
        bounded = np.array([[j not in around for j in range(self.num_factors)]])
        low, high = jnp.stack(low)[None], jnp.stack(high)[None]
        low, high = jnp.where(bounded, jnp.maximum(low, 0), low), jnp.where(bounded, jnp.minimum(high, sizes), high)
        cells = random.randint(draw_key, (n, self.num_factors), low, high) % sizes

        def draw(j, span):
            if j not in columns:
                return uniform(draw_key, j, span, n)
            key, width, at = _key_of(draw_key, j), span.high - span.low, center[0, j]
            if span.circular or j in around:
                most = min(columns[j], width / 2)
                return span.low + (at + random.uniform(key, (n,), minval=-most, maxval=most) - span.low) % width
            low, high = jnp.maximum(at - columns[j], span.low), jnp.minimum(at + columns[j], span.high)
            return low + (high - low) * random.uniform(key, (n,))

        return completed(cells, self._spans(), draw)

    def _neighborhood(self, radius: Mapping, circular: tuple[str, ...]) -> tuple[dict, frozenset[int]]:
        """Each column's radius if it is not free, and the columns that wrap around."""
        if self.excluded or self.regions or self.correlations:
            raise ValueError("local_group: must be a space without held-out or correlated factors")
        kinds = {name: float if self.sizes[self.position(name)] is None else Natural for name in radius}
        columns = {self.position(n): checked_value("radius", kinds[n] | None, steps) for n, steps in radius.items()}
        near = {j: steps for j, steps in columns.items() if steps is not None}
        return near, frozenset(self.position(name) for name in circular)

    @checked
    def local_groups(
        self,
        key: PRNGKeyArray,
        radius: Mapping[str, int | float | None],
        *,
        groups: Count = 10,
        samples: Count = 5000,
        circular: tuple[str, ...] = (),
    ) -> Num[Array, "n k"]:
        """``groups`` groups by :meth:`local_group`, one after another: n = groups · samples.

        This is the evaluation set in Algorithm 2 (Dang-Nhu 2022, App. C.1; 10 groups of 5,000 in C.4);
        :func:`jaxdis.evaluate_structured` averages over its groups.
        """
        drawn = self._groups(jax.random.split(key, groups), samples, radius, circular)
        return drawn.reshape(groups * samples, self.num_factors)

    def _groups(self, keys, n: int, radius: Mapping, circular: tuple[str, ...]) -> Num[Array, "g n k"]:
        return jax.vmap(lambda key: self.local_group(key, n, radius, circular))(keys)

    def _traced(self, factor) -> Int[Array, ""]:
        return jnp.int32(self.position(factor)) if isinstance(factor, str | int | np.integer) else factor

    @property
    def _class_sizes(self) -> tuple[int, ...]:
        """How many classes; a continuous factor counts as one class."""
        return tuple(size or 1 for size in self.sizes)

    def _lattice(self) -> Lattice:
        fixed = tuple((j, value) for j, value in self.fixed if self.sizes[j] is not None)
        return Lattice(self._class_sizes, self.excluded, fixed, self.correlations)

    def _anywhere(self, key, cells: Int[Array, "n k"]) -> Num[Array, "n k"]:
        """Cells, with continuous factors drawn from their whole interval."""
        return completed(cells, self._spans(), lambda j, span: uniform(key, j, span, len(cells)))

    def _spans(self) -> dict[int, Interval | float]:
        """Each continuous factor's interval, or its fixed value."""
        fixed = dict(self.fixed)
        return {j: fixed.get(j, self.values[j]) for j in self.continuous}

    def _cells(self, n: int, positions: tuple[int, ...], key, cells, weights) -> Num[Array, "n k"]:
        return self._anywhere(key, drawn_cells(self._class_sizes, positions, n, key, cells, weights))

    def _cells_given(self, key, factor, value) -> Num[Array, "n k"]:
        cells = cells_given(self._lattice(), key, factor, value.astype(jnp.int32))
        drawn, held = self._anywhere(key, cells), jnp.arange(self.num_factors) == factor
        return jnp.where(held[None, :], value[:, None].astype(drawn.dtype), drawn)

    def _outside_regions(self, draw: Callable, static: tuple, key, *arrays) -> Num[Array, "n k"]:
        """``draw(self, *static, key, *arrays)``, again for samples in a region that is left out."""
        return redrawn(self, draw, static, key, *arrays) if self.regions else draw(self, *static, key, *arrays)
