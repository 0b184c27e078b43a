"""What is counted in compiled programs, against programs whose cost is known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdis._core.accelerators import COLLECTIVES, Cost, Module, cost_of, size_of, sums_in_any_order
from jaxdis._core.loops import MARK, repeat

FUSED = """HloModule fused

%add_one (p: f32[10,20]) -> f32[10,20] {
  %p = f32[10,20]{1,0} parameter(0)
  %one = f32[] constant(1)
  %ones = f32[10,20]{1,0} broadcast(%one), dimensions={}
  ROOT %sum = f32[10,20]{1,0} add(%p, %ones)
}

%rows (p: f32[10,20], i: s32[]) -> f32[1,20] {
  %p.1 = f32[10,20]{1,0} parameter(0)
  %i = s32[] parameter(1)
  ROOT %row = f32[1,20]{1,0} dynamic-slice(%p.1, %i, %i), dynamic_slice_sizes={1,20}
}

%body (state: (s32[], f32[10,20])) -> (s32[], f32[10,20]) {
  %state = (s32[], f32[10,20]{1,0}) parameter(0)
  %n = s32[] get-tuple-element(%state), index=0
  %x = f32[10,20]{1,0} get-tuple-element(%state), index=1
  %y = f32[10,20]{1,0} fusion(%x), kind=kLoop, calls=%add_one
  ROOT %next = (s32[], f32[10,20]{1,0}) tuple(%n, %y)
}

%condition (state: (s32[], f32[10,20])) -> pred[] {
  %state.1 = (s32[], f32[10,20]{1,0}) parameter(0)
  ROOT %true = pred[] constant(true)
}

ENTRY %main (x: f32[10,20], i: s32[]) -> f32[1,20] {
  %x.1 = f32[10,20]{1,0} parameter(0)
  %i.1 = s32[] parameter(1)
  %start = (s32[], f32[10,20]{1,0}) tuple(%i.1, %x.1)
  %known = (s32[], f32[10,20]{1,0}) while(%start), condition=%condition, body=%body, backend_config={"known_trip_count":{"n":"7"}}
  %open = (s32[], f32[10,20]{1,0}) while(%known), condition=%condition, body=%body, metadata={op_name="jit(f)/turns:newton/while"}
  %z = f32[10,20]{1,0} get-tuple-element(%open), index=1
  ROOT %last = f32[1,20]{1,0} fusion(%z, %i.1), kind=kLoop, calls=%rows
}
"""  # noqa: E501


def test_fusions_are_kernels_and_loops_count_as_often_as_they_turn():
    cost = cost_of(FUSED, lambda scope: {"newton": 3.0}[scope.rpartition(MARK)[2].partition("/")[0]])
    # Ten fusions that read and write 800 bytes each, and one that reads and writes a row of 80.
    assert cost == Cost(launches=11.0, syncs=3.0, bytes=10 * 2 * 800.0 + 2 * 80 + 4, flops=10 * 200.0, collectives=0.0)


INSIDE = """HloModule inside

%of_slices (p: f32[100,8], q: f32[100,8]) -> f32[8] {
  %p = f32[100,8]{1,0} parameter(0)
  %q = f32[100,8]{1,0} parameter(1)
  %product = f32[100,8]{1,0} multiply(%p, %q)
  %part = f32[10,8]{1,0} slice(%product), slice={[0:10], [0:8]}
  %zero = f32[] constant(0)
  ROOT %total = f32[8]{0} reduce(%part, %zero), dimensions={0}, to_apply=%add
}

ENTRY %main (p: f32[100,8], q: f32[100,8]) -> f32[8] {
  %p.1 = f32[100,8]{1,0} parameter(0)
  %q.1 = f32[100,8]{1,0} parameter(1)
  ROOT %sum = f32[8]{0} fusion(%p.1, %q.1), kind=kInput, calls=%of_slices
}
"""


def test_of_what_is_sliced_inside_a_fusion_only_the_slice_is_read():
    assert cost_of(INSIDE, lambda scope: 1.0).bytes == 4 * (2 * 10 * 8 + 8)


@pytest.mark.parametrize(
    ("type_", "size"),
    [("f32[2,3]{1,0}", 24), ("(bf16[4], pred[5])", 13), ("s4[8]", 4), ("u64[]", 8), ("c64[2]", 16), ("f8e4m3fn[3]", 3)],
)
def test_sizes_of_types(type_, size):
    assert size_of(type_) == size


def test_products_of_a_compiled_program():
    left, right = np.ones((30, 40), np.float32), np.ones((40, 50), np.float32)
    compiled = jax.jit(lambda a, b: jnp.dot(a, b, precision="highest")).lower(left, right).compile()
    cost = cost_of(compiled.as_text(), lambda scope: 1.0)
    assert cost.flops == 2 * 30 * 40 * 50
    assert cost.bytes == pytest.approx(4 * (30 * 40 + 40 * 50 + 30 * 50), rel=0.01)


def test_a_named_loop_is_recognized_in_a_compiled_program():
    def halved(x):
        return repeat("halving", lambda x: x.max() > 1, lambda x: x / 2, x)

    seen = []
    text = jax.jit(jax.vmap(halved)).lower(np.ones((3, 8), np.float32)).compile().as_text()
    once, ten = (cost_of(text, lambda scope, count=count: seen.append(scope) or count) for count in (1.0, 10.0))
    assert all(f"{MARK}halving" in scope for scope in seen)
    assert seen
    assert ten.launches > 5 * once.launches
    assert ten.syncs == 10 * once.syncs


def test_collectives_are_counted():
    text = FUSED.replace("ROOT %last = f32[1,20]{1,0} fusion(%z, %i.1), kind=kLoop, calls=%rows",
                         "ROOT %all = f32[10,20]{1,0} all-reduce(%z), replica_groups={}")  # fmt: skip
    assert "all-reduce" in COLLECTIVES
    assert Module(text).cost("main", lambda scope: 0.0).collectives == 1.0


BY_A_LIBRARY = """HloModule product

ENTRY %main (a: f32[8,100,64], b: f32[8,64,30]) -> f32[8,100,30] {
  %a = f32[8,100,64]{2,1,0} parameter(0)
  %b = f32[8,64,30]{2,1,0} parameter(1)
  %gemm = (f32[8,100,30]{2,1,0}, s8[33554432]{0}) custom-call(%a, %b), custom_call_target="__cublas$gemm", backend_config={"gemm_backend_config":{"dot_dimension_numbers":{"lhs_contracting_dimensions":["2"],"rhs_contracting_dimensions":["1"],"lhs_batch_dimensions":["0"]}}}
  ROOT %c = f32[8,100,30]{2,1,0} get-tuple-element(%gemm), index=0
}
"""  # noqa: E501


def test_products_of_a_library_are_counted_without_its_scratch_memory():
    cost = cost_of(BY_A_LIBRARY, lambda scope: 1.0)
    assert cost.flops == 2 * 8 * 100 * 30 * 64
    assert cost.bytes == 4 * 8 * (100 * 64 + 64 * 30 + 100 * 30)
    assert cost.launches == 1.0


def test_only_sums_of_floats_into_places_that_may_repeat_depend_on_their_order():
    functions = """
%sum.1 (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0), metadata={op_name="scatter-add"}
  %b = f32[] parameter(1)
  ROOT %c = f32[] add(%a, %b), metadata={op_name="scatter-add"}
}

%largest (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] maximum(%a, %b)
}

ENTRY %main (p: f32[9]) -> f32[9] {
"""
    for how, type, function, expected in (
        ("", "f32", "sum.1", 1),
        (", unique_indices=true", "f32", "sum.1", 0),
        ("", "s32", "sum.1", 0),
        ("", "f32", "largest", 0),
    ):
        line = f"  ROOT %s = {type}[9]{{0}} scatter(%p, %i, %u){how}, index_vector_dim=1, to_apply=%{function}\n}}\n"
        assert sums_in_any_order(functions + line) == expected
