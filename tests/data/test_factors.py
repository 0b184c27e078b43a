"""The lattice and its samplers: exact cells, exact probabilities, exact exclusions."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from jaxdis.data import FactorSpace, Interval

SMALL = FactorSpace.of(shape=3, scale=(0.5, 0.75, 1.0, 1.25), x=5)
# A chi-squared statistic this unlikely is a failure; all draws are from fixed keys.
RARE = 1e-6
EVERY = np.array(list(itertools.product(range(3), range(4), range(5))), np.int32)

# Called directly, each compiles some ten programs of one operation.
pairs = jax.jit(FactorSpace.pairs, static_argnums=(0, 2, 3))
given = jax.jit(FactorSpace.given, static_argnums=(0, 2))
allowed_in = jax.jit(FactorSpace.allowed, static_argnums=0)
sample = jax.jit(FactorSpace.sample, static_argnums=(0, 2))


def counts(space, factors):
    index = np.ravel_multi_index(tuple(np.asarray(factors).T), space.sizes)
    return np.bincount(index, minlength=space.num_lattice)


def assert_drawn_from(found, probability):
    """Counts agree with probabilities, and nothing impossible was drawn."""
    probability = np.asarray(probability, float)
    probability = probability / probability.sum()
    assert found[probability == 0].sum() == 0
    possible = probability > 0
    if possible.sum() == 1:
        return
    assert stats.chisquare(found[possible], found.sum() * probability[possible]).pvalue > RARE


def test_index_is_row_major_and_factors_its_inverse():
    @jax.jit
    def both(every, numbers):
        return SMALL.index(every), SMALL.factors(numbers), SMALL.factors(numbers.reshape(3, 20))

    index, factors, cube = both(EVERY, np.arange(60, dtype=np.int32))
    np.testing.assert_array_equal(index, np.arange(60))
    np.testing.assert_array_equal(factors, EVERY)
    np.testing.assert_array_equal(np.asarray(cube)[1, 3], EVERY[23])


def test_sample_is_uniform_over_the_lattice():
    assert_drawn_from(counts(SMALL, sample(SMALL, jax.random.key(1), 60_000)), np.ones(60))


def test_sample_is_uniform_where_the_lattice_needs_several_draws():
    # One draw over 1.6e9 cells would favor the lower two thirds of them by half.
    space = FactorSpace.of(a=1170, b=1170, c=1170)
    drawn = np.asarray(sample(space, jax.random.key(2), 50_000)) // 117
    for column in drawn.T:
        assert_drawn_from(np.bincount(column, minlength=10), np.ones(10))
    assert_drawn_from(np.bincount(drawn[:, 0] * 10 + drawn[:, 1], minlength=100), np.ones(100))


def test_without_never_yields_the_combination_and_is_uniform_elsewhere():
    space = SMALL.without({"scale": 3, "shape": 2}).without({"shape": 2, "x": 0}).without({"scale": 1})
    shape, scale, x = EVERY.T
    allowed = ~((scale == 3) & (shape == 2)) & ~((shape == 2) & (x == 0)) & (scale != 1)
    assert space.num_cells == allowed.sum()
    np.testing.assert_array_equal(space.cells(), np.flatnonzero(allowed))
    np.testing.assert_array_equal(allowed_in(space, EVERY), allowed)
    assert_drawn_from(counts(space, sample(space, jax.random.key(3), 60_000)), allowed)


def test_only_always_yields_the_combination():
    space = SMALL.only({"scale": 3, "shape": 2})
    drawn = np.asarray(sample(space, jax.random.key(4), 5_000))
    assert space.num_cells == 5
    assert (drawn[:, 0] == 2).all()
    assert (drawn[:, 1] == 3).all()
    assert_drawn_from(np.bincount(drawn[:, 2], minlength=5), np.ones(5))
    np.testing.assert_array_equal(space.cells(), np.ravel_multi_index((2, 3, np.arange(5)), SMALL.sizes))


@pytest.mark.parametrize("space", [SMALL, SMALL.without({"shape": 2, "scale": 3}), SMALL.only({"scale": 1})])
def test_fix_shares_one_value_and_draws_the_rest_given_it(space):
    factors = ("shape", 1, "x")
    columns = np.array([space.position(factor) for factor in factors])
    assert columns.tolist() == [0, 1, 2]

    @jax.jit
    def draw(keys, columns):
        over_keys = jax.vmap(lambda key, column: space.fix(key, column, 8), in_axes=(0, None))
        first = [space.fix(keys[0], factor, 8) for factor in factors]
        return jax.vmap(over_keys, in_axes=(None, 0))(keys, columns), first, space.allowed(EVERY)

    drawn, first, allowed = jax.tree.map(np.asarray, draw(jax.random.split(jax.random.key(5), 4_000), columns))
    index = np.flatnonzero(allowed)
    for column, batches, named in zip(columns, drawn, first, strict=True):
        np.testing.assert_array_equal(batches[0], named)
        assert (batches[:, :, column] == batches[:, :1, column]).all()
        assert np.isin(np.ravel_multi_index(tuple(batches.reshape(-1, 3).T), space.sizes), index).all()
        values = np.bincount(EVERY[allowed][:, column], minlength=space.sizes[column])
        assert_drawn_from(np.bincount(batches[:, 0, column], minlength=space.sizes[column]), values)
        for value in np.flatnonzero(values):
            given = allowed & (EVERY[:, column] == value)
            chosen = batches[batches[:, 0, column] == value].reshape(-1, 3)
            assert_drawn_from(counts(space, chosen), given)


@pytest.mark.parametrize("space", [SMALL, SMALL.without({"shape": 2, "scale": 3})])
def test_pairs_are_equal_in_the_factor_alone(space):
    left, right = (np.asarray(side) for side in pairs(space, jax.random.key(7), "scale", 20_000))
    np.testing.assert_array_equal(left[:, 1], right[:, 1])
    allowed = np.asarray(allowed_in(space, EVERY))
    assert_drawn_from(counts(space, left), allowed)
    assert_drawn_from(counts(space, right), allowed)
    # Given the shared value, the other factors of the two sides are independent.
    first = left[:, 1] == 0
    table = np.histogram2d(left[first, 2], right[first, 2], bins=5)[0]
    assert stats.chi2_contingency(table).pvalue > RARE


def test_local_group_stays_near_one_cell():
    space = FactorSpace.of(color=5, shape=3, orientation=40, x=32)
    radius = {"color": 1, "orientation": 3, "x": 2, "shape": None}
    draw = jax.jit(jax.vmap(lambda key: space.local_group(key, 400, radius, circular=("orientation",))))
    groups = np.asarray(draw(jax.random.split(jax.random.key(12), 200)))
    assert (groups >= 0).all()
    assert (groups < np.array(space.sizes)).all()
    spread = groups.max(1) - groups.min(1)
    assert (spread[:, 0] <= 2).all()
    assert (spread[:, 3] <= 4).all()
    # At an end of the factor the neighborhood is cut off, so such groups hold two colors; elsewhere three.
    assert set(np.unique(spread[:, 0])) == {1, 2}
    assert (spread[:, 1] == 2).all()
    turned = (groups[:, :, 2] - groups[:, :1, 2] + 6) % 40
    assert (turned <= 12).all()
    assert (spread[:, 2] > 30).any()
    assert (spread[:, 2] <= 6).any()


def test_local_group_is_uniform_over_the_cut_off_neighborhood():
    space = FactorSpace.of(x=6)

    @jax.jit
    def draw(keys):
        alone = space.only({"x": 0}).local_group(jax.random.key(13), 100, {"x": 2})
        return alone, jax.vmap(lambda key: space.local_group(key, 3_000, {"x": 2}))(keys)

    alone, groups = jax.tree.map(np.asarray, draw(jax.random.split(jax.random.key(14), 64)))
    assert (alone == 0).all()
    groups = groups[..., 0]
    for group in groups:
        values, found = np.unique(group, return_counts=True)
        assert (np.diff(values) == 1).all()
        assert stats.chisquare(found).pvalue > RARE
    assert {tuple(np.unique(group)) for group in groups} == {
        (0, 1, 2), (0, 1, 2, 3), (0, 1, 2, 3, 4), (1, 2, 3, 4, 5), (2, 3, 4, 5), (3, 4, 5)
    }  # fmt: skip


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (lambda: FactorSpace.of(a=()), "a: must have at least 1 value"),
        (lambda: SMALL.without({"hue": 0}), "must be one of shape, scale, x, got 'hue'"),
        (lambda: SMALL.only({"shape": 3}), "class number from 0 to 2, got 3"),
        (lambda: SMALL.without({}), "at least one factor"),
        (lambda: SMALL.only({"shape": 1}).only({"shape": 2}), "got none left"),
        (lambda: SMALL.only({"shape": 1}).without({"shape": 1}), "got none left"),
        (lambda: SMALL.position(3), "from 0 to 2, got 3"),
        (lambda: FactorSpace.of(a=2**16, b=2**16).index(jnp.zeros((1, 2), jnp.int32)), "fewer than 2³¹"),
        (lambda: FactorSpace.of(a=2000, b=2000).without({"a": 0, "b": 0}), "joint cells"),
        (lambda: SMALL.without({"x": 0}).local_group(jax.random.key(0), 2, {}), "without held-out"),
    ],
)
def test_bad_input_is_refused(attempt, message):
    with pytest.raises(ValueError, match=message):
        attempt()


def test_correlated_factors_are_drawn_as_often_as_the_density_says():
    space = FactorSpace.of(a=3, b=5, c=2).correlated("a", "b", 0.3)
    drawn = np.asarray(space.sample(jax.random.key(0), 200_000))
    counts = np.zeros((3, 5))
    np.add.at(counts, (drawn[:, 0], drawn[:, 1]), 1)
    a, b = np.meshgrid(np.arange(3) / 2, np.arange(5) / 4, indexing="ij")
    density = np.exp(-((a - b) ** 2) / (2 * 0.3**2))
    np.testing.assert_allclose(counts / counts.sum(), density / density.sum(), atol=0.004)  # four standard deviations
    assert drawn[:, 2].mean() == pytest.approx(0.5, abs=0.005)
    other = np.asarray(given(space, jax.random.key(1), "a", np.full(100_000, 2, np.int32)))
    np.testing.assert_allclose(np.bincount(other[:, 1]) / 1e5, density[2] / density[2].sum(), atol=0.007)
    assert (other[:, 0] == 2).all()


def test_correlated_factors_go_with_what_is_held_out():
    space = FactorSpace.of(a=3, b=3).correlated("a", "b", 0.5).without({"a": 1, "b": 1})
    drawn = np.asarray(space.sample(jax.random.key(0), 5000))
    assert not ((drawn == 1).all(axis=1)).any()
    assert np.corrcoef(drawn.T)[0, 1] > 0.3
    weak = FactorSpace.of(a=3, b=3).correlated("a", "b", 100.0)
    assert abs(np.corrcoef(np.asarray(weak.sample(jax.random.key(0), 5000)).T)[0, 1]) < 0.06


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a", "a", 0.2), "another factor"),
        (("a", "x", 0.2), "must be discrete factors, got x"),
        (("a", "z", 0.2), "must be one of a, b, x"),
        (("a", "b", 0.0), "spread: must be a number above 0"),
    ],
)
def test_what_cannot_be_correlated_is_refused(arguments, message):
    space = FactorSpace.of(a=3, b=3, x=Interval(0, 1))
    with pytest.raises(ValueError, match=message):
        space.correlated(*arguments)
    with pytest.raises(ValueError, match="local_group"):
        space.correlated("a", "b", 1.0).local_group(jax.random.key(0), 2, {})
