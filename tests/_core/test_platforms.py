"""Forms follow the devices that run a program; traces of different platforms stay apart; loops mean the same on all."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdis import evaluate
from jaxdis._core import executor, platforms
from jaxdis._core.loops import each, repeat, times
from jaxdis._core.platforms import tracing_for
from tests.turns import counting

TRACED = []


@jax.jit
def form(value):
    TRACED.append("cpu" if platforms.on_cpu() else "other")
    return value + (1.0 if platforms.on_cpu() else 2.0)


def of_member(static, member, shared):
    return form(member.sum())


@pytest.fixture
def fresh(monkeypatch):
    monkeypatch.delenv(platforms.FORMS_VARIABLE, raising=False)
    jax.clear_caches()
    TRACED.clear()


def test_a_traced_function_is_traced_again_for_another_platform(fresh):
    for platform, expected in (("cpu", 1.0), ("gpu", 2.0), ("cpu", 1.0), ("tpu", 2.0)):
        with platforms.tracing_for(platform):
            assert form(jnp.zeros(())) == expected
    assert TRACED == ["cpu", "other", "other"]


def test_a_layout_traces_for_its_devices(fresh, monkeypatch):
    monkeypatch.setattr(executor, "platform_of", lambda devices: "gpu")
    members = np.zeros((4, 3), np.float32)
    np.testing.assert_array_equal(executor.map_members(of_member, "gpu forms", members, ()), np.full(4, 2.0))
    assert platforms.on_cpu()  # of the process, outside of programs
    assert set(TRACED) == {"other"}


def test_forms_can_be_chosen_anywhere(fresh, monkeypatch):
    monkeypatch.setenv(platforms.FORMS_VARIABLE, "gpu")
    assert not platforms.on_cpu()
    assert platforms.platform_of(jax.devices("cpu")) == "gpu"
    with platforms.tracing_for("cpu"):
        assert platforms.on_cpu()


def test_programs_for_gpus_are_deterministic_on_request(monkeypatch):
    """Scores on a CPU are, and share their programs with those that need not be."""
    chosen = []

    def jit(function, compiler_options=None, **how):
        def run(*arguments):
            chosen.append(compiler_options)

        return run

    monkeypatch.setattr(jax, "jit", jit)
    program = platforms.Program(of_member, layout=0)
    for platform, deterministic in (("gpu", False), ("gpu", True), ("cpu", True)):
        program(SimpleNamespace(devices=[SimpleNamespace(platform=platform)], deterministic=deterministic))
    assert [options and options.get("xla_gpu_deterministic_ops", False) for options in chosen] == [False, True, None]


def test_on_a_cpu_nothing_is_compiled_again_to_be_deterministic():
    codes = np.random.default_rng(0).normal(size=(50, 3))
    plain = evaluate(codes, np.arange(50)[:, None] % 3, "mig")
    before = executor._run._cache_size()
    again = evaluate(codes, np.arange(50)[:, None] % 3, "mig", deterministic=True)
    assert executor._run._cache_size() == before
    assert again["mig"] == plain["mig"]


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
