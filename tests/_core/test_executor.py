"""The zoo executor: chunks, devices, padding, memory."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdis._core import executor

pytestmark = pytest.mark.two_devices


def summarize(static, member, shared):
    return {"sum": (member["x"] * shared).sum() * static, "first": member["x"][0]}


@pytest.mark.parametrize("members", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("batch_size", [None, 1, 3])
@pytest.mark.parametrize("chunk_bytes", [1, 100, 1 << 20])
def test_every_member_is_there_once_and_in_order(members, batch_size, chunk_bytes):
    x = np.arange(members * 5, dtype=np.float32).reshape(members, 5)
    result = executor.map_members(
        summarize, 2.0, {"x": x}, jnp.float32(3), batch_size=batch_size, chunk_bytes=chunk_bytes
    )
    np.testing.assert_array_equal(result["sum"], x.sum(axis=1) * 6)
    np.testing.assert_array_equal(result["first"], x[:, 0])


@pytest.mark.parametrize("devices", [1, 2])
def test_zoos_of_any_number_share_two_programs(devices):
    """One has room for a member per device, one for several."""
    traced = []

    def noting(static, member, shared):
        traced.append(static)
        return member.sum() * shared

    few = executor.FEW * devices
    for counts in ((1, devices, few // 2), (few // 2 + 1, few, 5 * few + 3)):
        for count in counts:
            members = np.arange(count * 3, dtype=np.float32).reshape(count, 3)
            found = executor.map_members(
                noting, few, members, jnp.float32(2), batch_size=1, devices=tuple(jax.devices()[:devices])
            )
            np.testing.assert_array_equal(found, 2 * members.sum(axis=1))
        assert traced == [few]
        traced.clear()


@pytest.mark.parametrize("devices", [1, 2])
def test_every_chunk_passes_through_all_stages(devices):
    x, known = np.arange(20, dtype=np.float32).reshape(10, 2), []

    def shared_of(static):
        known.append(f"shared {static}")
        return jnp.float32(3)

    results = executor.map_stages(
        summarize,
        (2.0, 5.0),
        {"x": x},
        shared_of,
        devices=tuple(jax.devices()[:devices]),
        chunk_bytes=32,
        progress=lambda done, total: known.append((done, total)),
        arrived=lambda static, part: known.append(f"{len(part['first'])} of {static}"),
    )
    for static, result in zip((2.0, 5.0), results, strict=True):
        np.testing.assert_array_equal(result["sum"], x.sum(axis=1) * 3 * static)
        np.testing.assert_array_equal(result["first"], x[:, 0])
    # What the second stage needs is made after the first one has a result.
    first = ["shared 2.0", "4 of 2.0", "shared 5.0", "4 of 5.0", (4, 10)]
    assert known == [*first, "4 of 2.0", "4 of 5.0", (8, 10), "2 of 2.0", "2 of 5.0", (10, 10)]


@pytest.mark.parametrize(
    ("count", "num_devices", "most"), [(1000, 2, 100), (7, 2, 3), (1, 2, 10), (5, 1, 2), (64, 8, 20)]
)
def test_chunks_are_multiples_of_the_devices_and_nearly_equal(count, num_devices, most):
    members = {"x": np.zeros((count, 25), np.float32)}
    fitting = executor.most_in_a_chunk(count, members, num_devices, most * 100)
    size = executor.even_size(count, fitting, num_devices)
    assert size % num_devices == 0
    assert size <= max(most, num_devices)
    rows = np.concatenate(list(executor.chunks(count, size)))
    assert set(rows) == set(range(count))
    waste = len(rows) - count
    assert waste < num_devices * -(-count // size) + num_devices


def test_members_that_fit_a_budget():
    assert executor.members_that_fit(600, 100, most=128) == 6
    assert executor.members_that_fit(600, 1, most=128) == 128
    assert executor.members_that_fit(6, 100, most=128) == 1


@pytest.mark.parametrize("members", [1, 2, 3])
@pytest.mark.parametrize("at_once", [1, 2])
def test_a_layout_maps_placed_members(members, at_once):
    x = np.arange(members * 5, dtype=np.float32).reshape(members, 5)
    keys = jax.random.split(jax.random.key(0), members)
    layout = executor.Layout.over(None, members, at_once)
    assert len(layout.devices) == min(members, 2)

    @jax.jit
    def run(members, shared):
        return layout.map(lambda member, shared: (member[0] * shared, jax.random.normal(member[1])), members, shared)

    products, noise = run(layout.place((x, keys)), layout.share(np.float32(3)))
    assert len(products) % len(layout.devices) == 0
    np.testing.assert_array_equal(products[:members], 3 * x)
    np.testing.assert_array_equal(noise[:members], jax.vmap(jax.random.normal)(keys))


MEMORY = """
import resource, numpy as np, jax
jax.config.update("jax_num_cpu_devices", 2)
import jaxdis
from jaxdis._core import runtime
runtime.use_compilation_cache()
rng = np.random.default_rng(0)
factors = jaxdis.Factors.of(np.stack([rng.integers(0, s, 10000) for s in (3, 6, 40, 32, 32)], axis=1))
codes = np.empty((600, 10000, 10), np.float32)
codes[:] = rng.normal(size=(10000, 10))
jaxdis.evaluate(codes[:40], factors, ["mig", "modularity"])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
jaxdis.evaluate(codes, factors, ["mig", "modularity"])
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


def test_memory_does_not_grow_with_the_zoo():
    """600 members are 229 MiB of codes; scoring them after 40 may add a few chunks, not another copy."""
    printed = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True).stdout
    assert float(printed) < 140
