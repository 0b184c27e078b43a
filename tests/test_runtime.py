"""Process-wide settings."""

import sys

import jax
import jax.numpy as jnp

from jaxdis import runtime


def test_programs_are_forgotten_when_they_hold_too_many_maps():
    traces = []

    @jax.jit
    def program(x):
        traces.append(1)
        return x + 1

    program(jnp.zeros(3))
    assert not runtime.forget_programs_if_many(share=1.0)
    program(jnp.zeros(3))
    assert len(traces) == 1
    forgotten = runtime.forget_programs_if_many(share=0.0)
    assert forgotten == sys.platform.startswith("linux")  # elsewhere nothing is counted, and nothing forgotten
    program(jnp.zeros(3))
    assert len(traces) == 1 + forgotten


def test_caches_live_where_the_environment_says(monkeypatch, tmp_path):
    monkeypatch.setenv("JAXDIS_CACHE", str(tmp_path / "mine"))
    assert runtime.default_cache_directory() == tmp_path / "mine"
    monkeypatch.delenv("JAXDIS_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert runtime.default_cache_directory() == tmp_path / "jaxdis"
