"""Random arrays have the values of jax.random."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdis._core import random

KEY = jax.random.key(3)


@pytest.mark.parametrize("shape", [(), (5, 11), (0, 4)])
def test_values_are_those_of_jax(shape):
    calls = (
        ("bits", (jnp.uint32,)),
        ("normal", ()),
        ("uniform", ()),
        ("randint", (2, 90)),
        ("randint", (np.zeros(shape, np.int32), 1000)),
    )

    @jax.jit
    def drawn(key):
        return [
            [getattr(module, name)(key, shape, *arguments) for name, arguments in calls]
            for module in (random, jax.random)
        ]

    for mine, theirs in zip(*drawn(KEY), strict=True):
        np.testing.assert_array_equal(mine, theirs)
        assert mine.dtype == theirs.dtype
        assert mine.shape == shape


def test_bounds_and_batches():
    low = np.array([[0, 10], [20, 30], [40, 50]])

    @jax.jit
    def drawn(key):
        keys = jax.random.split(key, 4)
        several = jax.vmap(lambda key: random.normal(key, (2, 3)))(keys)
        integers = [module.randint(key, (3, 2), low, low + 3) for module in (random, jax.random)]
        return *integers, random.uniform(key, (50,), -2.0, -1.0), several, [jax.random.normal(k, (2, 3)) for k in keys]

    integers, expected, uniform, several, one_by_one = map(np.asarray, drawn(KEY))
    assert ((integers >= low) & (integers < low + 3)).all()
    np.testing.assert_array_equal(integers, expected)
    assert uniform.max() < -1
    np.testing.assert_array_equal(several, one_by_one)
