"""Pictures and scenes are the same on every platform: no product of float32 is left to the platform's precision."""

import jax
import pytest

from jaxdis.data import DATASETS
from tests.programs import check_products


@pytest.mark.parametrize("name", [name for name, row in DATASETS.items() if row.renders])
def test_products_of_a_data_set_are_of_full_precision(name):
    space, render = DATASETS[name].make(cached=False) if name == "shapes3d" else DATASETS[name].make()
    check_products(lambda key: space.sample(key, 2), jax.random.key(0))
    factors = space.sample(jax.random.key(0), 2)
    check_products(lambda factors, key: render(factors, key), factors, jax.random.key(1))
