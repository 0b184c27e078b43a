"""Spaces with continuous factors: drawing, holding, narrowing, rendering, and the metrics on top."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import kstest

import jaxdis
from jaxdis.data import FactorSpace, Interval, Render
from jaxdis.data import _datasets as show

SPACE = FactorSpace.of(shape=3, azimuth=Interval(0, 2 * np.pi, circular=True), x=Interval(-1, 1), side=2)
KEY = jax.random.key(0)
# Called directly, each compiles some ten programs of one operation.
sample = jax.jit(FactorSpace.sample, static_argnums=(0, 2))
pairs = jax.jit(FactorSpace.pairs, static_argnums=(0, 3))
fix = jax.jit(FactorSpace.fix, static_argnums=(0, 3))


def near_the_origin(factors):
    return (factors[:, 1] < 1) & (jnp.abs(factors[:, 2]) < 0.5)


@dataclasses.dataclass
class Below:
    """A region that is not frozen, and so not hashable."""

    value: float

    def __call__(self, factors):
        return factors[:, 2] < self.value


def draw_spot(tables, factors, key):
    """A spot whose place is ``x`` and the azimuth, on a ground as bright as its shape."""
    down = jnp.linspace(-1, 1, 8)[None, :] - factors[:, 2, None]
    across = jnp.linspace(0, 2 * np.pi, 8)[None, :] - factors[:, 1, None]
    distance = down[:, :, None] ** 2 + across[:, None, :] ** 2
    return jnp.clip(jnp.exp(-distance) + 0.1 * factors[:, 0, None, None], 0, 1)[..., None]


RENDER = Render((), draw_spot, SPACE.sizes, (8, 8, 1))


def test_samples_are_uniform_and_independent():
    drawn = np.asarray(sample(SPACE, KEY, 5000))
    assert drawn.dtype == np.float32
    assert np.array_equal(np.unique(drawn[:, 0]), [0, 1, 2])
    assert np.array_equal(np.unique(drawn[:, 3]), [0, 1])
    assert kstest(drawn[:, 1] / (2 * np.pi), "uniform").pvalue > 1e-3
    assert kstest((drawn[:, 2] + 1) / 2, "uniform").pvalue > 1e-3
    assert np.abs(np.corrcoef(drawn.T) - np.eye(4)).max() < 5 / np.sqrt(5000)


def test_a_lattice_beside_it_draws_as_before():
    """Discrete columns do not depend on continuous ones, and a lattice has whole numbers."""
    lattice = FactorSpace.of(shape=3, side=2)
    drawn = sample(lattice, KEY, 5000)
    assert drawn.dtype == jnp.int32
    assert np.array_equal(np.asarray(sample(SPACE, KEY, 5000))[:, [0, 3]], drawn)


@pytest.mark.parametrize("factor", ["shape", "azimuth", "x", "side"])
def test_a_held_factor_has_one_value_and_the_others_vary(factor):
    place = SPACE.position(factor)
    held = np.asarray(fix(SPACE, KEY, jnp.int32(place), 300))
    assert len(np.unique(held[:, place])) == 1
    assert all(len(np.unique(held[:, j])) > 1 for j in range(4) if j != place)
    left, right = map(np.asarray, pairs(SPACE, KEY, jnp.int32(place), 300))
    assert np.array_equal(left[:, place], right[:, place])
    assert all((left[:, j] != right[:, j]).any() for j in range(4) if j != place)


def test_fixed_values_and_regions_left_out():
    narrow = SPACE.only({"x": 0.25, "shape": 2}).outside(near_the_origin)
    drawn = np.asarray(narrow.sample(KEY, 2000))
    assert (drawn[:, 0] == 2).all()
    assert (drawn[:, 2] == np.float32(0.25)).all()
    assert drawn[:, 1].min() >= 1
    assert kstest((drawn[:, 1] - 1) / (2 * np.pi - 1), "uniform").pvalue > 1e-3
    assert np.asarray(narrow.allowed(drawn)).all()
    held = np.asarray(SPACE.outside(near_the_origin).given(KEY, "azimuth", jnp.full(500, 0.5)))
    assert (np.abs(held[:, 2]) >= 0.5).all()
    assert not near_the_origin(
        np.asarray(
            jax.vmap(lambda key: SPACE.outside(near_the_origin).fix(key, 2, 20))(jax.random.split(KEY, 30))
        ).reshape(-1, 4)
    ).any()


def test_combinations_of_discrete_factors_are_left_out_beside_continuous_ones():
    drawn = np.asarray(sample(SPACE.without({"shape": 1, "side": 0}), KEY, 2000))
    assert not ((drawn[:, 0] == 1) & (drawn[:, 3] == 0)).any()


def test_local_groups_stay_near_and_go_round():
    group = np.asarray(SPACE.local_group(KEY, 2000, {"azimuth": 0.3, "x": 0.2, "shape": 0}))
    assert len(np.unique(group[:, 0])) == 1
    assert np.ptp(group[:, 2]) <= 0.4
    center = np.angle(np.exp(1j * group[:, 1]).mean())
    assert np.abs(np.angle(np.exp(1j * (group[:, 1] - center)))).max() < 0.32
    assert group[:, 1].min() >= 0
    assert group[:, 1].max() <= 2 * np.pi
    assert SPACE.local_groups(KEY, {"x": 0.2}, groups=2, samples=5).shape == (10, 4)


def test_factors_of_a_space_are_continuous_where_they_should_be():
    factors = SPACE.wrap(sample(SPACE, KEY, 5000))
    assert factors.sizes == (3, None, None, 2)
    assert factors.names == ("shape", "azimuth", "x", "side")
    jaxdis.Factors.checked(factors)


def test_it_renders_and_is_drawn_as_a_sheet():
    images = jax.jit(RENDER)(sample(SPACE, KEY, 5000)[:5])
    assert images.shape == (5, 8, 8, 1)
    sheet = show.contact_sheet(SPACE, RENDER, KEY, 5)
    assert np.ptp(sheet[12:20, 2:10].astype(int)) > 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Interval(1, 1), "low: must be finite numbers low < high, got 1 and 1"),
        (lambda: Interval(2, 1), "low: must be finite numbers low < high"),
        (lambda: Interval(0, np.inf), "high: must|low: must be finite"),
        (lambda: Interval(np.nan, 1), "low: must"),
        (lambda: SPACE.num_cells, "num_cells: must have a space of discrete factors.* azimuth, x"),
        (lambda: SPACE.cells(), "cells: must have a space of discrete factors"),
        (lambda: SPACE.index(np.zeros((1, 4), np.int32)), "index: must have a space of discrete factors"),
        (lambda: SPACE.without({"x": 0}), "combination: must"),
        (lambda: SPACE.only({"x": 3.0}), r"factor 'x' must be in \[-1, 1\], got 3"),
        (lambda: SPACE.outside(3), "region: must be a function"),
        (lambda: SPACE.inside(Below(0.5)), "region: must be hashable"),
        (lambda: SPACE.outside(lambda factors: factors[:, 0]), r"region: must be truth values of shape \[n\]"),
        (lambda: SPACE.outside(lambda factors: factors[:, 0] >= 0), "region: must leave a part"),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
