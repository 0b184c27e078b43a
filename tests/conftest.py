"""Strict numerics for every test: no silent promotion, two CPU devices, one compilation cache for all runs."""

import jax

from jaxdis import runtime

runtime.use_cpu_devices(2)
runtime.use_compilation_cache()
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
