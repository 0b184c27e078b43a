"""Run a function of one member for every member of a zoo; scoring, training and encoding all run this way.

A :class:`Layout` places members on devices and maps over them: devices hold equal shares, by ``shard_map`` outside of
the loop over members, and do not communicate. On CPU, members run one after another inside the program, because
``vmap`` was measured to be 1.2 to 4.3 times slower there and needs the memory of all members at once. On accelerators,
several members run at once. :func:`map_members` adds chunks, so that a zoo of any size passes through bounded memory.
"""

import dataclasses
import functools
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxdis._core import batches, programs, runtime
from jaxdis._core.platforms import DETERMINISTIC_OPTIONS, Program, platform_of, tracing_for

AXIS = "zoo"
# Bytes of inputs on CPU at once. Small enough that a zoo streams through in bounded memory, large enough that
# the cost of starting a program vanishes.
CHUNK_BYTES = 16 << 20
# Members per device and chunk, if they run one after another. A zoo of up to half as many has one member in each chunk,
# so that two programs, with room for one member and for FEW, serve zoos of any size.
FEW = 8


@dataclasses.dataclass(frozen=True)
class Layout:
    """Where members are, and how many run at once. Hashable: part of the key for compiled programs.

    Attributes:
      devices: each holds an equal share of the members.
      at_once: members that run together on one device (``vmap``); with 1, they run one after another (``lax.map``).
      deterministic: whether programs repeat their results bit by bit on platforms that need to be told.
      platform: whose forms are traced.
      mesh: the devices; None for the default device alone.
    """

    devices: tuple[jax.Device, ...]
    at_once: int = 1
    deterministic: bool = False

    def __post_init__(self):
        # The platform whose forms are traced. Without a mesh, a program for the default device alone starts faster.
        alone = self.devices == tuple(jax.devices()[:1])
        object.__setattr__(self, "platform", platform_of(self.devices))
        object.__setattr__(self, "mesh", None if alone else Mesh(np.array(self.devices), (AXIS,)))

    @classmethod
    def over(cls, devices: Sequence[jax.Device] | None, count: int, at_once: int = 1) -> "Layout":
        """How ``count`` members lie over devices (None: all on the default backend), at most one per member."""
        devices = tuple(jax.devices()) if devices is None else tuple(devices)
        return cls(devices[: max(1, min(len(devices), count))], at_once)

    def place(self, members: Any) -> Any:
        """Leaves ``[m, …]`` on the devices; the last member is repeated until all devices hold equally many."""
        count = jax.tree.leaves(members)[0].shape[0]
        rows = next(chunks(count, -(-count // len(self.devices)) * len(self.devices)))
        return self._put(jax.tree.map(lambda leaf: take(leaf, rows), members), PartitionSpec(AXIS))

    def share(self, tree: Any) -> Any:
        """Arrays that every member reads, on every device."""
        return self._put(tree, PartitionSpec())

    def map(self, function: Callable[[Any, Any], Any], members: Any, shared: Any = ()) -> Any:
        """``function(member, shared)`` for every placed member; to be called inside a program."""

        def on_one_device(members, shared):
            batch_size = self.at_once if self.at_once > 1 else None
            return jax.lax.map(lambda member: function(member, shared), members, batch_size=batch_size)

        return self.spread(on_one_device, members, shared)

    def map_first(self, function: Callable[[Any, Any], Any], members: Any, counts: jax.Array, shared: Any = ()) -> Any:
        """``function(member, shared)`` for the first ``counts[i]`` members placed on device ``i``, one after another.

        All other members, which only fill up the devices, give zeros. ``counts`` is an array that the program reads, so
        that the same compiled program serves few members and many. To be called inside a program.
        """
        traced_once = jax.jit(function)

        def on_one_device(rows, shared):
            members, counts = rows

            def of_member(number, results=None):
                member = jax.tree.map(lambda leaf: jax.lax.dynamic_index_in_dim(leaf, number, keepdims=False), members)
                result = traced_once(member, shared)
                if results is None:
                    return result
                fill = functools.partial(jax.lax.dynamic_update_index_in_dim, index=number, axis=0)
                return jax.tree.map(fill, results, result)

            size = jax.tree.leaves(members)[0].shape[0]
            shapes = jax.eval_shape(of_member, jnp.int32(0))
            results = jax.tree.map(lambda result: jnp.zeros((size, *result.shape), result.dtype), shapes)
            return jax.lax.fori_loop(0, counts[0], of_member, results)

        return self.spread(on_one_device, (members, counts), shared)

    def spread(self, function: Callable[[Any, Any], Any], rows: Any, shared: Any = ()) -> Any:
        """``function(share, shared)`` on every device, for its share of the rows; to be called inside a program.

        Devices must divide the rows evenly.
        """

        def on_one_device(rows, shared):
            # Accelerators would round the operands of products; what may lose precision says so by name.
            with tracing_for(self.platform, self.deterministic), jax.default_matmul_precision("highest"):
                return function(rows, shared)

        if self.mesh is None:
            return on_one_device(rows, shared)
        split, whole = PartitionSpec(AXIS), PartitionSpec()
        return jax.shard_map(on_one_device, mesh=self.mesh, in_specs=(split, whole), out_specs=split, check_vma=False)(
            rows, shared
        )

    def _put(self, tree, spec: PartitionSpec):
        return jax.device_put(tree, None if self.mesh is None else NamedSharding(self.mesh, spec))


def map_members(function: Callable, static: Hashable, members: Any, shared: Any, **how: Any) -> Any:
    """``function(static, member, shared)`` for every member, as a pytree of NumPy arrays with a leading member axis.

    Args:
      function: a pure function of one member, defined at module level, since the compilation key includes it.
      static: hashable; part of the same key.
      members: pytree of arrays ``[m, …]``. They may be memory-mapped and are read chunk by chunk.
      shared: pytree of arrays that every member reads.
      how: further arguments of :func:`map_stages`.
    """
    return map_stages(function, (static,), members, lambda static: shared, **how)[0]


def map_stages(
    function: Callable,
    stages: Sequence[Hashable],
    members: Any,
    shared_of: Callable[[Hashable], Any],
    *,
    batch_size: int | None = None,
    devices: tuple[jax.Device, ...] | None = None,
    deterministic: bool = False,
    chunk_bytes: int = CHUNK_BYTES,
    progress: Callable[[int, int], None] | None = None,
    arrived: Callable[[Hashable, Any], None] | None = None,
    seconds_of: Callable[[Hashable], float] = lambda stage: 0.0,
) -> list:
    """As :func:`map_members` for several values of ``static``, each with its own program.

    Every chunk passes through all stages, so that members are read and placed once.

    Args:
      shared_of: of a stage, the arrays that every member reads; called when the first chunk comes to the stage.
      batch_size: members at once on one device; None: one on CPU; on accelerators as many as the memory of a device
        allows, on the ladder :data:`jaxdis._core.batches.RUNGS`.
      devices: when None, one per member on the default backend. On CPU, given devices are all used, even by fewer
        members: one program then serves zoos large and small.
      chunk_bytes: bytes of members on the devices at once, on CPU or with a batch size.
      progress: called after every chunk with how many members are finished and how many there are.
      arrived: called with each stage and its result for each chunk; for the first chunk, before the next stage is
        compiled.
      seconds_of: of a stage, about how long a CPU core takes for one member.
    """
    runtime.keep_programs()
    count = jax.tree.leaves(members)[0].shape[0]
    chunks = Chunks.of(members, count, batch_size, devices, deterministic, chunk_bytes)
    layout, num_devices = chunks.layout, len(chunks.layout.devices)
    starts = np.cumsum([0, *chunks.sizes[:-1]]).tolist()

    @functools.cache
    def program(stage):
        shared = layout.share(shared_of(stage)) if layout.mesh is not None else shared_of(stage)
        if not chunks.bounded:
            of_stage = dataclasses.replace(layout, at_once=batch_size or 1)
            return functools.partial(_run, function, stage, of_stage), shared

        # For as many members at once as the memory of a device allows.
        def statics(at_once, *arguments):
            each = jax.tree.leaves(arguments[0])[0].shape[0] // num_devices if arguments else at_once
            return function, stage, dataclasses.replace(layout, at_once=min(at_once, each))

        at_once = batches.together(max(chunks.sizes) // num_devices, layout.platform, seconds_of(stage))
        return batches.Bounded(_run, statics, at_once, batches.limit_of(layout.devices[0])), shared

    def results():
        for start, size in zip(starts, chunks.sizes, strict=True):
            rows = np.minimum(np.arange(start, start + size), count - 1)
            chunk = jax.tree.map(lambda leaf, rows=rows: take(leaf, rows), members)
            # Without a mesh, a single program takes host arrays, which starts faster than placing them first.
            chunk = layout.place(chunk) if layout.mesh is not None or len(stages) > 1 else chunk
            each = size // num_devices
            real = np.clip(count - start - each * np.arange(num_devices), 0, each).astype(np.int32)
            for stage in stages:
                run, shared = program(stage)
                yield run(chunk, real, shared)

    finished = [[] for _ in stages]
    for number, part in enumerate(fetched(results(), first=0 if arrived is None else len(stages))):
        chunk, stage = divmod(number, len(stages))
        start, done = starts[chunk], min(starts[chunk] + chunks.sizes[chunk], count)
        part = jax.tree.map(lambda rows, real=done - start: rows[:real], part)
        finished[stage].append(part)
        if arrived is not None:
            arrived(stages[stage], part)
        if progress is not None and stage == len(stages) - 1:
            progress(done, count)
    return [jax.tree.map(lambda *parts: np.concatenate(parts), *parts) for parts in finished]


class Chunks(NamedTuple):
    """How members pass over devices: the size of each chunk, and whether memory bounds how many run at once."""

    layout: Layout
    sizes: list[int]
    bounded: bool

    @classmethod
    def of(cls, members: Any, count: int, batch_size: int | None, devices, deterministic: bool, bytes: int) -> "Chunks":
        """Choose the sizes; arguments as for :func:`map_stages`."""
        used = tuple(jax.devices()) if devices is None else tuple(devices)
        if devices is None or used[0].platform != "cpu":
            used = used[: max(1, count)]
        layout = Layout(used, deterministic=deterministic and platform_of(used) in DETERMINISTIC_OPTIONS)
        on_devices, bounded = len(used), batch_size is None and layout.platform != "cpu"
        if bounded:
            most = most_in_a_chunk(count, members, on_devices, batches.INPUT_BYTES * on_devices) // on_devices
            return cls(layout, [size * on_devices for size in batches.rungs_of(-(-count // on_devices), most)], True)
        if batch_size in (1, None) and 2 * count <= FEW * on_devices:
            size = on_devices
        else:
            most = most_in_a_chunk(count, members, on_devices, bytes)
            size = min(FEW * on_devices, most) if batch_size in (1, None) else even_size(count, most, on_devices)
        return cls(layout, [size] * -(-count // size), False)


@functools.partial(Program, layout=2, static_argnums=(0, 1, 2))
def _run(function, static, layout: Layout, members, counts, shared):
    if layout.at_once > 1:
        return layout.map(functools.partial(function, static), members, shared)
    on_disk = layout.platform == "cpu" and programs.folder_of_programs is not None
    of_member = programs.kept(function, static) if on_disk else functools.partial(function, static)
    return layout.map_first(of_member, members, counts, shared)


def fetched(running: Iterable, first: int = 0) -> Iterator:
    """The results of programs as NumPy arrays; each is fetched, all arrays together, while the next program runs.

    The ``first`` ones are fetched before the next program starts, since it may have to be compiled.
    """
    pending = []
    for number, result in enumerate(running):
        pending.append(result)
        if number < first or len(pending) > 1:
            yield jax.device_get(pending.pop(0))
    for result in pending:
        yield jax.device_get(result)


def most_in_a_chunk(count: int, members: Any, num_devices: int, chunk_bytes: int) -> int:
    leaves = (leaf if hasattr(leaf, "dtype") else np.asarray(leaf) for leaf in jax.tree.leaves(members))
    bytes_each = sum(leaf.size * leaf.dtype.itemsize for leaf in leaves) / count
    return max(num_devices, int(chunk_bytes / max(bytes_each, 1)) // num_devices * num_devices)


def even_size(count: int, most: int, num_devices: int) -> int:
    """Members per chunk, at most ``most``, so that chunks are nearly equal: a multiple of the devices."""
    rounds = -(-count // most)
    return -(-count // (rounds * num_devices)) * num_devices


def chunks(count: int, size: int) -> Iterator[np.ndarray]:
    """Each chunk's row numbers; the last row is repeated to fill the last chunk."""
    for start in range(0, count, size):
        yield np.minimum(np.arange(start, start + size), count - 1)


def members_that_fit(budget: int, bytes_each: int, most: int) -> int:
    """How many members with ``bytes_each`` fit a budget in bytes, from 1 to ``most``."""
    return max(1, min(most, budget // max(bytes_each, 1)))


def take(leaf, rows: np.ndarray):
    """Rows of an array; a view where they are consecutive."""
    if rows[-1] - rows[0] == len(rows) - 1:
        return leaf[rows[0] : rows[-1] + 1]
    return leaf[rows] if isinstance(leaf, np.ndarray) else jnp.take(leaf, rows, axis=0)
