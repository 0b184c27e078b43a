"""How a zoo trains: one update for one member, and the two programs that begin and advance all members."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxdis._core.executor import Layout, members_that_fit
from jaxdis._core.platforms import Program
from jaxdis.models.methods._method import Method
from jaxdis.models.training._image_source import Source

# Folded into a member's key before its first update; updates fold in their own number.
_BEGIN = 2**31 - 1


class State(NamedTuple):
    """The method's own state (``learner``), updates done, and the update that was not finite and rejected, or −1."""

    learner: Any
    step: Array
    stopped: Array


def begin(method: Method, key) -> State:
    return State(method.begin(jax.random.fold_in(key, _BEGIN)), jnp.zeros((), jnp.int32), jnp.full((), -1, jnp.int32))


def update(method: Method, state: State, key, hyperparameters, source: Source) -> tuple[State, Any]:
    """One update. A member whose update is not finite is left unchanged from then on, and its losses are NaN."""

    def go(learner):
        return method.update(learner, state.step, jax.random.fold_in(key, state.step), hyperparameters, source)

    def stay(learner):
        return learner, method.losses(*(jnp.full((), jnp.nan) for _ in method.losses._fields))

    learner, losses = jax.lax.cond(state.stopped < 0, go, stay, state.learner)
    sound = jnp.stack([jnp.isfinite(loss) for loss in losses]).all()
    stopped = jnp.where((state.stopped < 0) & ~sound, state.step, state.stopped)
    return State(learner, state.step + sound.astype(jnp.int32), stopped), losses


def run_block(method: Method, state: State, key, hyperparameters, source: Source, count) -> tuple[State, Any]:
    """``count`` updates for one member and their mean losses. The count is traced: a shorter last block recompiles
    nothing."""

    def one_more(_, carry):
        state, total = carry
        state, losses = update(method, state, key, hyperparameters, source)
        return state, jax.tree.map(jnp.add, total, losses)

    zero = method.losses(*(jnp.zeros(()) for _ in method.losses._fields))
    state, total = jax.lax.fori_loop(0, count, one_more, (state, zero))
    return state, jax.tree.map(lambda leaf: leaf / jnp.float32(count), total)


# Share of a device's free memory that members running together may fill.
_SHARE = 0.6
# With this many members at once, matrix products fill any device, and more members only cost memory.
_MOST_AT_ONCE = 128


class Runner:
    """A zoo's members on their devices.

    ``execution``: ``map``: the members on one device run one after another, each with all its updates before the next;
    ``vmap``: they run together, ``members_at_once`` or as many as memory is estimated to hold; ``auto``: ``map`` on
    CPU, ``vmap`` elsewhere.
    """

    def __init__(
        self,
        method: Method,
        keys,
        hyperparameters,
        source: Source,
        devices: Sequence[jax.Device] | None = None,
        execution: str = "auto",
        members_at_once: int | None = None,
    ):
        self.num_members = len(keys)
        self.layout = Layout.over(devices, self.num_members)
        on_cpu = self.layout.platform == "cpu"
        together = execution == "vmap" or (execution == "auto" and not on_cpu)
        if on_cpu and not together:
            # On all devices, even with fewer members: a zoo of one then shares the program of a zoo of two.
            self.layout = Layout(tuple(jax.devices()) if devices is None else tuple(devices))
        self.method = method.tuned(self.layout.platform)
        self._keys, self._hyperparameters = self.layout.place((keys, hyperparameters))
        self._source = self.layout.share(source)
        if together:
            self.layout = dataclasses.replace(self.layout, at_once=members_at_once or self._most_at_once())

    def begin(self) -> State:
        return _begin(self.method, self.layout, self._keys)

    def advance(self, state: State, count: int) -> tuple[State, Any]:
        """``count`` updates for every member and their mean losses, ``[m]`` on the host. The state is donated."""
        members = (self._keys, self._hyperparameters)
        each = -(-self.num_members // len(self.layout.devices))
        real = np.clip(self.num_members - each * np.arange(len(self.layout.devices)), 0, each).astype(np.int32)
        state, losses = _advance(self.method, self.layout, state, members, self._source, np.int32(count), real)
        return state, self.gathered(losses)

    def params(self, state: State) -> Any:
        """The parameters with which the members represent images, ``[m, …]``."""
        return _params(self.method, self.layout, state.learner)

    def gathered(self, tree):
        """Leaves ``[m, …]`` on the host."""
        return jax.tree.map(lambda leaf: np.asarray(leaf)[: self.num_members], tree)

    def shapes(self) -> State:
        """Shapes and dtypes in the ``m`` members' state."""
        shapes = jax.eval_shape(functools.partial(_begin, self.method, self.layout), self._keys)
        return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((self.num_members, *leaf.shape[1:]), leaf.dtype), shapes)

    def memory(self, at_once: int = 1) -> int:
        """Temporary memory in bytes that ``at_once`` members need on one device, by the compiler's analysis."""
        layout = dataclasses.replace(self.layout, at_once=at_once)
        m = at_once * len(layout.devices)
        members = jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct((m, *leaf.shape[1:]), leaf.dtype), (self._keys, self._hyperparameters)
        )
        state = jax.eval_shape(functools.partial(_begin, self.method, layout), members[0])
        real = np.full(len(layout.devices), at_once, np.int32)
        lowered = _advance.lower(self.method, layout, state, members, self._source, np.int32(1), real)
        return lowered.compile().memory_analysis().temp_size_in_bytes

    def _most_at_once(self) -> int:
        """As many members as a device's free memory holds; all if the device does not report it."""
        most = min(-(-self.num_members // len(self.layout.devices)), _MOST_AT_ONCE)
        stats = self.layout.devices[0].memory_stats() or {}
        if most == 1 or "bytes_limit" not in stats:
            return most
        free = stats["bytes_limit"] - stats.get("bytes_in_use", 0)
        return members_that_fit(int(_SHARE * free), self.memory(1), most)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _begin(method: Method, layout: Layout, keys) -> State:
    return layout.map(lambda key, _: begin(method, key), keys)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _params(method: Method, layout: Layout, learners) -> Any:
    return layout.map(lambda learner, _: method.params(learner), learners)


@functools.partial(Program, layout=1, static_argnums=(0, 1), donate_argnums=2)
def _advance(method: Method, layout: Layout, state: State, members, source: Source, count, real) -> tuple[State, Any]:
    """``real``: how many members on each device are not repetitions; where members run one by one, only these run."""

    def block(member, shared):
        return run_block(method, *member, *shared)

    if layout.at_once > 1:
        return layout.map(block, (state, *members), (source, count))
    return layout.map_first(block, (state, *members), real, (source, count))
