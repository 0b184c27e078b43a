"""Random arrays have the values of jax.random."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdis._core import random
from tests.programs import compiled_whole

KEY = jax.random.key(3)


@pytest.mark.parametrize("shape", [(), (7,), (5, 11), (3, 5, 7), (0, 4)])
def test_values_are_those_of_jax(shape):
    for name, arguments in (
        ("bits", (jnp.uint32,)),
        ("normal", ()),
        ("uniform", ()),
        ("randint", (2, 90)),
        ("randint", (jnp.zeros(shape, jnp.int32), 1000)),
    ):
        mine, theirs = (
            compiled_whole(getattr(module, name))(KEY, shape, *arguments) for module in (random, jax.random)
        )
        np.testing.assert_array_equal(mine, theirs)
        assert mine.dtype == theirs.dtype
        assert mine.shape == shape


def test_bounds_and_batches():
    low = np.array([[0, 10], [20, 30], [40, 50]])
    drawn = random.randint(KEY, (3, 2), low, low + 3)
    assert ((drawn >= low) & (drawn < low + 3)).all()
    np.testing.assert_array_equal(drawn, jax.random.randint(KEY, (3, 2), low, low + 3))
    assert random.uniform(KEY, (50,), -2.0, -1.0).max() < -1
    keys = jax.random.split(KEY, 4)
    several = jax.vmap(lambda key: random.normal(key, (2, 3)))(keys)
    for one, key in zip(several, keys, strict=True):
        np.testing.assert_array_equal(one, jax.random.normal(key, (2, 3)))
