"""Small array functions against exact arithmetic."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdis import RELATIONS, Factors
from jaxdis._core import arrays
from jaxdis._core.arrays import power_of_two_below

# Programs of many small operations.
class_order = jax.jit(arrays.class_order, static_argnums=1)
running_sums, stable_order, moments = map(jax.jit, (arrays.running_sums, arrays.stable_order, arrays.moments))


def test_powers_of_two_are_exact():
    exponents = np.arange(-126, 128)
    powers = np.ldexp(np.float32(1), exponents).astype(np.float32)
    found = jax.jit(power_of_two_below)(np.r_[powers * np.float32(1.75), np.float32(0)])
    np.testing.assert_array_equal(found, np.r_[powers, 1])


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_moments_of_any_scale(scale, offset):
    columns = ((np.random.default_rng(0).normal(size=(500, 3)) + offset) * scale).astype(np.float32)
    mean, deviation = moments(columns)
    np.testing.assert_allclose(mean, columns.astype(float).mean(axis=0), rtol=1e-6, atol=1e-6 * scale)
    np.testing.assert_allclose(deviation, columns.astype(float).std(axis=0), rtol=1e-5)
    assert moments(np.full((500, 3), 0.1, np.float32))[1].max() == 0


@pytest.mark.parametrize("name", ["r2", "correlation"])
def test_no_argmax_over_constant_weights(name):
    """XLA evaluates one as it compiles, sample by sample: 15 s and more with 737,280 samples."""
    factors = Factors.of(np.arange(300)[:, None] % 4, (4,))
    codes = jax.ShapeDtypeStruct((300, 3), jnp.float32)
    assert "argmax" not in str(jax.make_jaxpr(lambda codes: RELATIONS[name](codes, factors).strength)(codes))


@pytest.mark.parametrize("shape", [(1,), (3, 1000), (2, 2, 50), (1 << 16,), ((1 << 16) + 1,)])
def test_order_of_keys_is_stable(shape):
    """Negative keys, ties, and more keys than two sorts of single integers can hold."""
    rng = np.random.default_rng(0)
    keys = rng.choice(np.array([-(2**31), -70000, -1, 0, 1, 5, 70000, 2**31 - 1], np.int32), size=shape)
    keys = np.where(rng.random(shape) < 0.5, keys, rng.integers(-(2**31), 2**31, shape)).astype(np.int32)
    np.testing.assert_array_equal(stable_order(keys), np.argsort(keys, axis=-1, kind="stable"))


@jax.jit
def reductions(columns):
    return [arrays.over_samples(reduce, columns) for reduce in (jnp.min, jnp.max, jnp.sum)]


@pytest.mark.parametrize("n", [1, 31, 63, 64, 511, 512, 545, 10_000, 1_000_001])
def test_reductions_over_samples_are_those_of_numpy(n):
    columns = np.random.default_rng(n).normal(size=(n, 3)).astype(np.float32)
    least, most, _ = reductions(columns)
    np.testing.assert_array_equal(least, columns.min(axis=0))
    np.testing.assert_array_equal(most, columns.max(axis=0))
    # Sums of at most 63 terms at a time; one after another, a million equal numbers sum to 1 % too much.
    for positive in (np.abs(columns), np.full((n, 3), 0.1, np.float32)):
        np.testing.assert_allclose(reductions(positive)[2], positive.sum(axis=0, dtype=float), rtol=1e-6)


FULL = 2**31 // 70  # classes of 70 samples that fill an integer


@pytest.mark.parametrize(("n", "size"), [(1, 1), (64, 1), (65, 2), (5000, 31), (700, 500), (70, FULL), (70, FULL + 1)])
def test_order_of_classes_is_stable(n, size):
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, size, n).astype(np.int32)
    for classes in (drawn, np.sort(drawn)[::-1], np.full(n, size - 1, np.int32)):
        order = class_order(classes, size)
        np.testing.assert_array_equal(order, np.argsort(classes, kind="stable"))


@pytest.mark.parametrize("shape", [(1, 1), (64, 2), (65, 3), (5000, 2)])
def test_running_sums_are_those_of_numpy(shape):
    rows = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    np.testing.assert_allclose(running_sums(rows), np.cumsum(rows.astype(float), axis=0), atol=1e-4)
    whole = np.random.default_rng(0).integers(0, 9, size=shape).astype(np.float32)
    np.testing.assert_array_equal(running_sums(whole), np.cumsum(whole, axis=0))
