"""Counts of operations against what they are by hand."""

import jax
import jax.numpy as jnp
import pytest

from jaxdis._core.resources import live_bytes, operations

MATRIX = jax.ShapeDtypeStruct((8, 8), jnp.float32)
PRODUCT = 2 * 8**3


def repeated(a, b, turns):
    return jax.lax.fori_loop(0, turns, lambda _, x: x @ b, a)


@pytest.mark.parametrize(
    ("function", "count"),
    [
        (lambda a, b: a @ b, PRODUCT),
        (jax.jit(lambda a, b: (a @ b).T), PRODUCT),
        (lambda a, b: repeated(a, b, 5), 5 * PRODUCT),
        (lambda a, b: jax.lax.map(lambda row: row @ b, a), PRODUCT),
        (lambda a, b: jax.vmap(lambda x: repeated(x[None], b, 3))(a), 3 * PRODUCT),
        (lambda a, b: jax.lax.cond(a[0, 0] > 0, lambda: a @ b, lambda: a + b), PRODUCT),
        (jax.checkpoint(lambda a, b: a @ b), PRODUCT),
        (lambda a, b: jnp.where(a > 0, a, b).reshape(64)[:9], 0),
        (lambda a, b: (a + b).sum(axis=0), 0),
        (lambda a, b: (jax.debug.callback(print, a), a @ b)[1], PRODUCT),
    ],
)
def test_counts_are_those_by_hand(function, count):
    assert operations(function, MATRIX, MATRIX) == count


def test_a_gradient_of_a_product_is_two_more():
    with_gradients = jax.value_and_grad(lambda a, b: (a @ b).sum(), argnums=(0, 1))
    assert operations(with_gradients, MATRIX, MATRIX) == 3 * PRODUCT


def test_a_convolution_multiplies_every_tap():
    images, kernel = (jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((2, 9, 9, 3), (4, 4, 3, 5)))

    def convolve(images, kernel):
        return jax.lax.conv_general_dilated(images, kernel, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    assert operations(convolve, images, kernel) == 2 * 2 * 6 * 6 * 5 * 4 * 4 * 3


def test_zeros_between_pixels_are_not_multiplied():
    images, kernel = (jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((2, 4, 4, 3), (4, 4, 5, 3)))

    def enlarge(images, kernel):
        return jax.lax.conv_transpose(
            images, kernel, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), transpose_kernel=True
        )

    assert operations(enlarge, images, kernel) == 2 * 2 * 8 * 8 * 5 * 4 * 4 * 3 // 4


def test_unused_results_count_nothing():
    assert operations(lambda a, b: (a @ b, jnp.exp(a @ a))[0], MATRIX, MATRIX) == PRODUCT


def test_unknown_turns_count_once():
    def until(a, b):
        return jax.lax.while_loop(lambda x: x[0, 0] < 1, lambda x: x @ b, a)

    assert operations(until, MATRIX, MATRIX) == PRODUCT


def test_what_is_alive_at_once_is_counted():
    """A chain holds what it reads and what it writes; the sum holds the first two results and their product."""
    matrix = 4 * 8 * 8

    def chain(a):
        return jnp.exp(jnp.exp(jnp.exp(a)))

    def wide(a):
        first = jnp.exp(a)
        second = jnp.sin(first)
        return first @ second + second

    assert live_bytes(chain, MATRIX) == 2 * matrix
    assert live_bytes(wide, MATRIX) == 3 * matrix
    assert live_bytes(lambda a: jax.lax.map(chain, a), jax.ShapeDtypeStruct((5, 8, 8), jnp.float32)) == 7 * matrix
    assert live_bytes(lambda a: (chain(a), wide(a))[0], MATRIX) == 2 * matrix
