"""Strict numerics for every test: no silent promotion, two CPU devices, one compilation cache for all runs."""

import gc

import jax
import pytest

from jaxdis import runtime

runtime.use_cpu_devices(2)
runtime.use_compilation_cache()
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture(autouse=True)
def let_programs_go():
    """A process has a limit of memory maps, and every compiled program holds some."""
    yield
    if runtime.forget_programs_if_many():
        gc.collect()


@pytest.fixture(scope="module", autouse=True)
def let_all_programs_go():
    yield
    jax.clear_caches()
