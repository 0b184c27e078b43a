"""One function of one member, run over all members: chunks that bound memory, devices, the form each backend likes.

On CPU members run one after the other inside the program (``lax.map``): ``vmap`` was measured 1.2–4.3 times slower
there and costs memory times members. On accelerators they run ``batch_size`` at a time. Devices take equal shares of a
chunk, by ``shard_map`` outside ``lax.map``: no communication.
"""

import functools
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

AXIS = "zoo"
# Inputs that are on the devices at one time. Small enough that a zoo streams through in bounded memory, large enough
# that the cost of starting a program vanishes.
CHUNK_BYTES = 16 << 20
# Temporaries of the members that run at one time on one accelerator.
BATCH_BYTES = 4 << 30
MAX_BATCH = 256


def map_members(
    function: Callable,
    static: Hashable,
    members: Any,
    shared: Any,
    *,
    batch_size: int | None = None,
    devices: tuple[jax.Device, ...] | None = None,
    chunk_bytes: int = CHUNK_BYTES,
    progress: Callable[[int, int], None] | None = None,
) -> Any:
    """``function(static, member, shared)`` for every member, as a pytree of NumPy arrays with a leading member axis.

    Args:
      function: pure, of one member; a module-level function, since it is the key of the compiled program.
      static: hashable, part of the same key.
      members: pytree of arrays ``[m, …]``; they may be memory-mapped and are read chunk by chunk.
      shared: pytree of arrays that every member reads.
      batch_size: members at one time on one device; by backend and the compiler's memory analysis when None.
      devices: all devices of the default backend when None.
      progress: called with members done and members in all after every chunk.
    """
    devices = tuple(jax.devices()) if devices is None else tuple(devices)
    count = jax.tree.leaves(members)[0].shape[0]
    devices = devices[: max(1, min(len(devices), count))]
    # One device that is the default needs no mesh: the program takes host arrays as they are and starts faster.
    mesh = None if devices == tuple(jax.devices()[:1]) else Mesh(np.array(devices), (AXIS,))
    if mesh is not None:
        shared = jax.device_put(shared, NamedSharding(mesh, PartitionSpec()))
    size = chunk_size(count, members, len(devices), chunk_bytes)
    if batch_size is None:
        batch_size = choose_batch_size(function, static, members, shared, size // len(devices), devices[0].platform)
    finished, pending, done = [], None, 0
    for rows in chunks(count, size):
        chunk = jax.tree.map(lambda leaf, rows=rows: _take(leaf, rows), members)
        if mesh is not None:
            chunk = jax.device_put(chunk, NamedSharding(mesh, PartitionSpec(AXIS)))
        running = _run(function, static, mesh, batch_size, chunk, shared)
        if pending is not None:  # fetch a chunk while the next one runs
            finished.append(jax.tree.map(np.asarray, pending))
            done = min(done + size, count)
            if progress is not None:
                progress(done, count)
        pending = running
    finished.append(jax.tree.map(np.asarray, pending))
    if progress is not None:
        progress(count, count)
    return jax.tree.map(lambda *parts: np.concatenate(parts)[:count], *finished)


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _run(function, static, mesh, batch_size, chunk, shared):
    def share(members, shared):
        one = functools.partial(_call, function, static, shared)
        return jax.lax.map(one, members, batch_size=batch_size if batch_size > 1 else None)

    if mesh is None:
        return share(chunk, shared)
    specs = (PartitionSpec(AXIS), PartitionSpec())
    return jax.shard_map(share, mesh=mesh, in_specs=specs, out_specs=PartitionSpec(AXIS), check_vma=False)(
        chunk, shared
    )


def _call(function, static, shared, member):
    return function(static, member, shared)


def chunk_size(count: int, members: Any, num_devices: int, chunk_bytes: int) -> int:
    """Members in a chunk: as many as fit, a multiple of the devices, and chunks as equal as can be."""
    bytes_each = sum(leaf.size * leaf.dtype.itemsize for leaf in map(_sized, jax.tree.leaves(members))) / count
    most = max(num_devices, int(chunk_bytes / max(bytes_each, 1)) // num_devices * num_devices)
    rounds = -(-count // most)
    return -(-count // (rounds * num_devices)) * num_devices


def chunks(count: int, size: int) -> Iterator[np.ndarray]:
    """Member numbers of each chunk; the last is filled up with the last member."""
    for start in range(0, count, size):
        yield np.minimum(np.arange(start, start + size), count - 1)


def choose_batch_size(function, static, members, shared, most: int, platform: str, budget: int = BATCH_BYTES) -> int:
    """Members at one time on one device: 1 on CPU; else what the compiler's memory analysis says fits the budget."""
    if platform == "cpu" or most <= 1:
        return 1
    return max(1, min(most, MAX_BATCH, budget // max(member_bytes(function, static, members, shared), 1)))


def member_bytes(function, static, members, shared) -> int:
    """Temporary memory of one member, by the compiler's own analysis."""
    one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], _sized(leaf).dtype), members)
    like = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), shared)
    analysis = jax.jit(function, static_argnums=0).lower(static, one, like).compile().memory_analysis()
    return int(analysis.temp_size_in_bytes + analysis.output_size_in_bytes)


def _take(leaf, rows):
    """Rows of a leaf; a view where they are consecutive."""
    if rows[-1] - rows[0] == len(rows) - 1:
        return leaf[rows[0] : rows[-1] + 1]
    return leaf[rows] if isinstance(leaf, np.ndarray) else jnp.take(leaf, rows, axis=0)


def _sized(leaf):
    return leaf if hasattr(leaf, "itemsize") or hasattr(leaf, "dtype") else np.asarray(leaf)
