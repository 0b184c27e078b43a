"""How a zoo runs: members over devices (``shard_map``), and on each device one after another or together."""

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from jaxdis.models.config import Config
from jaxdis.models.networks.architectures import Convolutional
from jaxdis.models.objectives.losses import Losses
from jaxdis.models.training.source import Source
from jaxdis.models.training.step import Program, State, begin, run_block

# Share of a device's free memory that members running together may fill.
_SHARE = 0.6
# Beyond this many, matrix products fill any device and more members only cost memory.
_MOST_AT_ONCE = 128


@dataclasses.dataclass(frozen=True)
class Spread:
    """One compiled zoo. Hashable; nothing in it depends on the number of members.

    ``at_once``: members in one ``vmap``; 1: ``lax.map``, each with all its updates before the next.
    """

    program: Program
    devices: tuple[jax.Device, ...]
    key_impl: str
    at_once: int | None

    @classmethod
    def over(
        cls,
        program: Program,
        devices: tuple[jax.Device, ...],
        key_impl: str,
        execution: str = "auto",
        members_at_once: int | None = None,
    ) -> "Spread":
        """Resolve the choices that a user leaves open; ``at_once`` None is settled by memory, in :class:`Runner`."""
        if execution not in ("auto", "map", "vmap"):
            raise ValueError(f"execution: needs auto, map or vmap, got {execution!r}")
        if members_at_once is not None and members_at_once < 1:
            raise ValueError(f"members_at_once: needs at least 1, got {members_at_once}")
        together = devices[0].platform != "cpu" if execution == "auto" else execution == "vmap"
        return cls(program, devices, key_impl, members_at_once if together else 1)

    def mesh(self) -> Mesh:
        return Mesh(np.array(self.devices), ("zoo",))

    def each(self, function: Callable) -> Callable:
        """``function`` of one member's leaves → the same over the leading axis of this device's members."""
        if self.at_once == 1:
            return lambda *members: jax.lax.map(lambda member: function(*member), members)
        return lambda *members: jax.lax.map(lambda member: function(*member), members, batch_size=self.at_once)


class Runner:
    """A zoo's constant arguments in place on its devices, and the two programs that run it."""

    def __init__(self, spread: Spread, key_data: np.ndarray, hyperparameters, source: Source):
        self.num_members = len(key_data)
        self._num_padded = -(-self.num_members // len(spread.devices)) * len(spread.devices)
        self._members = NamedSharding(spread.mesh(), P("zoo"))
        everywhere = NamedSharding(spread.mesh(), P())
        self._keys, self._hyperparameters = self.placed((key_data, hyperparameters))
        self._source = jax.device_put(source, everywhere)
        if spread.at_once is None:
            spread = dataclasses.replace(spread, at_once=self._fitting(spread))
        self.spread = spread

    def begin(self) -> State:
        """All members before their first update."""
        return _begin(self.spread, self._keys)

    def advance(self, state: State, count: int) -> tuple[State, Losses]:
        """``count`` updates of every member; the state is donated. The losses are means, ``[m]`` on the host."""
        state, losses = _advance(self.spread, state, self._keys, self._hyperparameters, self._source, np.int32(count))
        return state, self.gathered(losses)

    def placed(self, tree):
        """Leaves ``[m, …]`` on the devices, the last member repeated until all devices hold as many."""
        missing = self._num_padded - self.num_members

        def padded(leaf):
            leaf = np.asarray(leaf)
            return np.concatenate([leaf, np.repeat(leaf[-1:], missing, axis=0)]) if missing else leaf

        return jax.device_put(jax.tree.map(padded, tree), self._members)

    def gathered(self, tree):
        """Leaves ``[m, …]`` on the host."""
        return jax.tree.map(lambda leaf: np.asarray(leaf)[: self.num_members], tree)

    def shapes(self) -> State:
        """Shapes and dtypes of the state of the ``m`` members."""
        shapes = jax.eval_shape(functools.partial(_begin, self.spread), self._keys)
        return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((self.num_members, *leaf.shape[1:]), leaf.dtype), shapes)

    def memory(self, at_once: int = 1) -> int:
        """Bytes of temporary memory that ``at_once`` members together need on one device, as the compiler reckons."""
        spread = dataclasses.replace(self.spread, at_once=at_once)
        m = at_once * len(spread.devices)
        few = jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct((m, *leaf.shape[1:]), leaf.dtype), (self._keys, self._hyperparameters)
        )
        state = jax.eval_shape(functools.partial(_begin, spread), few[0])
        compiled = _advance.lower(spread, state, *few, self._source, np.int32(1)).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    def _fitting(self, spread: Spread) -> int:
        """As many members as the free memory of a device holds; all of them where it does not say."""
        most = min(self._num_padded // len(spread.devices), _MOST_AT_ONCE)
        stats = spread.devices[0].memory_stats() or {}
        if most == 1 or "bytes_limit" not in stats:
            return most
        self.spread = spread
        free = stats["bytes_limit"] - stats.get("bytes_in_use", 0)
        return members_that_fit(free, self.memory(1), most)


def members_that_fit(free: int, each: int, most: int) -> int:
    """How many members of ``each`` bytes run together in a share of the ``free`` bytes, from 1 to ``most``."""
    return int(np.clip(_SHARE * free / max(each, 1), 1, most))


def default_piece(config: Config, platform: str) -> int | None:
    """Images per micro-batch: 4 for convolutions as matrix products on CPU (measured), else the whole batch."""
    network = config.network
    small = platform == "cpu" and isinstance(network, Convolutional) and network.compute == "matmul"
    return 4 if small and config.batch_size % 4 == 0 and config.batch_size > 4 else None


@functools.partial(jax.jit, static_argnums=0)
def _begin(spread: Spread, key_data) -> State:
    def one(data):
        return begin(spread.program, jax.random.wrap_key_data(data, impl=spread.key_impl))

    return _sharded(spread, spread.each(one), 1)(key_data)


@functools.partial(jax.jit, static_argnums=0, donate_argnums=1)
def _advance(spread: Spread, state: State, key_data, hyperparameters, source: Source, count):
    def block(state, key_data, hyperparameters, source, count):
        def one(state, data, hyperparameters):
            key = jax.random.wrap_key_data(data, impl=spread.key_impl)
            return run_block(spread.program, state, key, hyperparameters, source, count)

        return spread.each(one)(state, key_data, hyperparameters)

    return _sharded(spread, block, 3, 2)(state, key_data, hyperparameters, source, jnp.asarray(count))


def _sharded(spread: Spread, function: Callable, num_split: int, num_whole: int = 0) -> Callable:
    """``function`` on every device: the first arguments split by members, the rest whole."""
    specs = (P("zoo"),) * num_split + (P(),) * num_whole
    return jax.shard_map(function, mesh=spread.mesh(), in_specs=specs, out_specs=P("zoo"), check_vma=False)
