"""Loops have one meaning on every platform, and say how often they turn."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdis._core.loops import each, repeat, times
from jaxdis._core.platforms import tracing_for
from tests.turns import counting


def _loops_of(function, *arguments) -> str:
    return str(jax.make_jaxpr(function)(*arguments))


@pytest.mark.parametrize("together", [None, 2])
def test_each_gives_the_same_on_every_platform(together):
    rows = np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32)
    results, programs = {}, {}
    for platform in ("cpu", "gpu", "tpu"):
        with tracing_for(platform):
            results[platform] = each(lambda row: (row.sum(), jnp.sort(row)), rows, together=together)
            programs[platform] = _loops_of(lambda rows: each(jnp.sort, rows, together=together), rows)
    for platform in ("gpu", "tpu"):
        jax.tree.map(np.testing.assert_array_equal, results["cpu"], results[platform])
    assert "scan" in programs["cpu"]
    assert ("scan" in programs["gpu"]) == (together is not None)


def summed(count):
    return times("sum", count, lambda number, total: total + number, jnp.int32(0))


def test_turns_are_counted_by_name():
    def collatz(number):
        return repeat("collatz", lambda n: n != 1, lambda n: jnp.where(n % 2 == 0, n // 2, 3 * n + 1), number)

    with counting() as observed:
        assert int(jax.jit(collatz)(jnp.int32(6))) == 1
        jax.block_until_ready(jax.jit(lambda n: summed(n))(jnp.int32(5)))
    assert {name: [int(count) for count in counts] for name, counts in observed.items()} == {"collatz": [8], "sum": [5]}
    assert "callback" not in _loops_of(collatz, jnp.int32(6))


def test_loops_are_those_of_jax():
    assert int(jax.jit(summed)(jnp.int32(5))) == 10
    counted = jax.vmap(lambda n: repeat("up", lambda x: x < n, lambda x: x + 2, jnp.int32(0)))(jnp.arange(5))
    np.testing.assert_array_equal(counted, [0, 2, 2, 4, 4])


def test_members_that_are_done_step_on_where_that_is_harmless():
    """A table is filled up to each member's count; of whole tables, none is copied in a turn."""

    def filled(count, harmless):
        def write(state):
            number, table = state
            return number + 1, table.at[jnp.where(number < count, number, 9)].set(number * count, mode="drop")

        start = jnp.int32(0), jnp.zeros(8, jnp.int32)
        return repeat("fill", lambda state: state[0] < count, write, start, harmless=harmless)[1]

    each_member = [jax.vmap(lambda count, harmless=harmless: filled(count, harmless)) for harmless in (False, True)]
    counts = jnp.arange(6, dtype=jnp.int32)
    copying, harmless = (np.asarray(jax.jit(members)(counts)) for members in each_member)
    np.testing.assert_array_equal(harmless, copying)
    of_two_zoos = jax.vmap(each_member[1])(counts.reshape(2, 3))
    np.testing.assert_array_equal(of_two_zoos.reshape(6, 8), copying)
    lowered = [jax.jit(members).lower(counts).as_text() for members in each_member]
    assert ["stablehlo.select" in text and "tensor<6x8xi1>" in text for text in lowered] == [True, False]
