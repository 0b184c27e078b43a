"""Strict numerics for every test: no silent promotion, two CPU devices, one compilation cache for all runs."""

import jax
import pytest

from jaxdis import runtime

runtime.use_cpu_devices(2)
runtime.use_compilation_cache()
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture(scope="module", autouse=True)
def let_programs_go():
    """Every compiled program holds memory maps, of which a process has a limit: forget a module when it is done."""
    yield
    jax.clear_caches()
