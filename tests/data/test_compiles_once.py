"""Programs of every data set: each is compiled once, and none leaves a product to a platform's precision."""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import pytest

from jaxdis.data import DATASETS
from tests.programs import check_products

ROWS = 1
# These can be drawn without a file.
DRAWN = sorted(name for name, about in DATASETS.items() if about.renders)


def last_third(factors):
    """A region."""
    return factors[:, -1] > 2


def calls(name: str) -> dict[str, Callable]:
    """What can be asked of a data set, each by a random key."""
    about = DATASETS[name]
    space, render = about.open(name, None)
    # As by space.outside, which first draws 10,000 samples.
    outside, zeros = dataclasses.replace(space, regions=(last_third,)), jnp.zeros(ROWS, jnp.int32)
    radius = dict.fromkeys(space.names, 1) if about.scenes is None else about.scenes.radius(space)
    asked = {
        "sample": lambda key: space.sample(key, ROWS),
        "given": lambda key: space.given(key, 0, zeros),
        "fix": lambda key: space.fix(key, 0, ROWS),
        "local_group": lambda key: space.local_group(key, ROWS, radius),
        "local_groups": lambda key: space.local_groups(key, radius, groups=2, samples=ROWS),
        "allowed": lambda key: space.allowed(space.sample(key, ROWS)),
        "sample outside": lambda key: outside.sample(key, ROWS),
        "given outside": lambda key: outside.given(key, 0, zeros),
        "render": lambda key: render(space.sample(key, ROWS), key),
    }
    if about.scenes is not None:
        asked["masks"] = lambda key: about.scenes.masks(space, space.sample(key, ROWS))
        asked["samples"] = lambda key: about.scenes.samples(space, space.wrap(space.sample(key, ROWS))).masks
    return asked


# One of each kind of space and of what is drawn; the others share their code.
QUICK = ("clevr6", "dsprites", "hearts", "teapots")


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in QUICK)) for name in DRAWN])
def test_a_second_call_compiles_nothing(name, compiled):
    """However often it is asked: programs hold memory maps, of which a process has a limit."""
    for asked, call in calls(name).items():
        jax.block_until_ready(call(jax.random.key(0)))
        before = len(compiled)
        jax.block_until_ready(call(jax.random.key(1)))
        assert len(compiled) == before, asked


@pytest.mark.parametrize("name", DRAWN)
def test_products_of_a_data_set_are_of_full_precision(name):
    """Pictures and scenes are the same on every platform."""
    space, render = DATASETS[name].make(cached=False) if name == "shapes3d" else DATASETS[name].make()
    check_products(lambda key: space.sample(key, 2), jax.random.key(0))
    factors = space.sample(jax.random.key(0), 2)
    check_products(lambda factors, key: render(factors, key), factors, jax.random.key(1))
