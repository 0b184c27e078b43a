"""Members that run together on an accelerator: sizes, memory, and what happens when memory ends; all on CPU."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdis._core import batches, executor

pytestmark = pytest.mark.two_devices


@pytest.mark.parametrize("most", [1, 5, 8, 100, 300, 5000])
def test_chunks_hold_all_members_in_few_sizes(most):
    for count in [*range(1, 300), 511, 512, 600, 1000, 1024, 1310, 1360, 1500, 5000]:
        sizes = batches.rungs_of(count, most)
        assert set(sizes) <= set(batches.RUNGS)
        assert len(set(sizes)) <= batches.MOST_SIZES
        assert sum(sizes) >= count > sum(sizes[:-1])
        assert max(sizes) <= max(most, 1)
        assert count <= 8 or sum(sizes) < 2 * count + 8


def total_of_squares(static, member, shared):
    square = jnp.outer(member, member) ** 2
    return static * (jnp.sort(square, axis=0) * shared).sum()


@pytest.fixture
def accelerator(monkeypatch):
    """Two CPU devices whose programs are laid out as an accelerator's; the numbers of members of compiled programs."""
    monkeypatch.setattr(executor, "platform_of", lambda devices: "gpu")
    jax.clear_caches()
    compiled, bytes_of = [], batches.Bounded._bytes

    def counted(self, arguments):
        compiled.append(self.at_once)
        return bytes_of(self, arguments)

    monkeypatch.setattr(batches.Bounded, "_bytes", counted)
    return compiled


def of_all(members, **how):
    return executor.map_members(total_of_squares, 2.0, members, jnp.float32(3), **how)


MEMBERS = np.random.default_rng(0).normal(size=(150, 60)).astype(np.float32)


def test_few_programs_serve_zoos_of_any_size(accelerator):
    traced = []

    def of_member(static, member, shared):
        traced.append(1)
        return static * (member * shared).sum()

    for count in (150, 140, 100, 90, 130):  # per device 64, 8 and 1
        scores = executor.map_members(of_member, 2.0, MEMBERS[:count], jnp.float32(3))
        np.testing.assert_allclose(scores, 6 * MEMBERS[:count].sum(axis=1), rtol=1e-3, atol=1e-3)
    assert len(traced) == 3


def test_memory_bounds_the_members_that_run_together(accelerator, monkeypatch):
    whole = of_all(MEMBERS)
    monkeypatch.setattr(batches, "UNKNOWN_LIMIT", 20 * 60 * 60 * 4)
    few = of_all(MEMBERS)
    assert accelerator[0] == 64
    assert accelerator[-1] == 8
    np.testing.assert_allclose(few, whole, rtol=1e-5)
    monkeypatch.setattr(batches, "UNKNOWN_LIMIT", 1)
    np.testing.assert_allclose(of_all(MEMBERS), whole, rtol=1e-5)  # one by one


def test_few_members_share_a_long_step_on_a_tpu(accelerator, monkeypatch):
    whole = of_all(MEMBERS)  # of 75 members per device, 64 are in the largest chunk
    monkeypatch.setattr(executor, "platform_of", lambda devices: "tpu")
    quick, slow = (of_all(MEMBERS, seconds_of=lambda stage, seconds=seconds: seconds) for seconds in (0.0, 2.0))
    assert set(accelerator) == {64, 8}
    assert accelerator[-1] == 8
    np.testing.assert_allclose(quick, whole, rtol=1e-5)
    np.testing.assert_allclose(slow, whole, rtol=1e-5)
    assert [batches.together(rung, "tpu", 0.0) for rung in batches.RUNGS] == [1, 8, 64, 64, 64]


class Exhausted:
    """A program for which more than eight members together are too many."""

    def __init__(self, program):
        self.lower, self._program = program.lower, program

    def __call__(self, function, stage, layout, *arguments):
        if layout.at_once > 8:
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 9 bytes.")
        return self._program(function, stage, layout, *arguments)


def test_a_run_goes_on_with_fewer_members_where_memory_ends(accelerator, monkeypatch):
    whole = of_all(MEMBERS)
    monkeypatch.setattr(executor, "_run", Exhausted(executor._run))
    with pytest.warns(RuntimeWarning, match="memory: 64 members together exhausted that of a device; going on with 8"):
        np.testing.assert_allclose(of_all(MEMBERS), whole, rtol=1e-5)


def test_other_errors_are_raised(accelerator, monkeypatch):
    def broken(*arguments):
        raise jax.errors.JaxRuntimeError("INTERNAL: it is broken")

    broken.lower = executor._run.lower
    monkeypatch.setattr(executor, "_run", broken)
    with pytest.raises(jax.errors.JaxRuntimeError, match="INTERNAL"):
        of_all(MEMBERS)
