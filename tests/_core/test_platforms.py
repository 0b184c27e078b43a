"""Forms follow the devices that run a program, not the default device, and traces of different platforms stay apart."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdis import evaluate
from jaxdis._core import executor, platforms

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
