"""Without a device: every metric traces in the forms of accelerators and lowers for a GPU and a TPU.

Lowering shows what would reach the compiler: no callback into Python, no 64-bit float, and no product of float32 whose
operands may be rounded. Compiling for absent devices needs their compilers.
"""

import functools
import re

import jax
import numpy as np
import pytest

from jaxdis._core.platforms import tracing_for
from jaxdis._core.precision import single_precision
from jaxdis.evaluation._inputs import bind
from jaxdis.evaluation._member import score_member
from jaxdis.evaluation._run import shared_by
from jaxdis.metrics._plan import plan_of
from tests.metrics.test_contracts import every_source, family, zoo
from tests.programs import check_products_of

# Targets of custom calls that hand control to Python.
CALLBACK = re.compile(r"custom_call @\w*(callback|py_)\w*")
# Integers of 64 bits stand in attributes of operations, and in JAX's counters of random bits.
WIDE = re.compile(r"[x<]f64>")


@every_source
@single_precision
def test_a_metric_lowers_for_accelerators(name):
    codes, factors = zoo()
    plan = plan_of(family(name))
    members, shared, _ = bind(codes, factors, variances=np.ones_like(codes), split=True)
    shared = shared_by(plan, shared)
    of_all = jax.vmap(functools.partial(score_member, plan), in_axes=(0, None))
    for platform, target in (("gpu", "cuda"), ("tpu", "tpu")):
        with tracing_for(platform):
            traced = jax.jit(of_all).trace(members, shared)
            text = traced.lower(lowering_platforms=(target,)).as_text()
        check_products_of(traced.jaxpr.jaxpr)
        assert not CALLBACK.search(text), CALLBACK.search(text)
        assert not WIDE.search(text), WIDE.search(text)


def test_what_must_not_reach_a_compiler_would_be_seen():
    def called_back(values):
        return jax.pure_callback(np.sin, jax.ShapeDtypeStruct(values.shape, values.dtype), values)

    def text_of(function, dtype):
        return jax.jit(function).lower(jax.ShapeDtypeStruct((3,), dtype)).as_text()

    assert CALLBACK.search(text_of(called_back, np.float32))
    with jax.enable_x64(True):
        assert WIDE.search(text_of(lambda values: values * 2, np.float64))
    with pytest.raises(AssertionError):
        check_products_of(jax.make_jaxpr(lambda values: values @ values)(np.ones((2, 2), np.float32)).jaxpr)
