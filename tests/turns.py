"""How often loops turn whose end depends on the data, by their names."""

import collections
import contextlib
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from jaxdis._core import loops


class Counted:
    """A module in which some functions are others."""

    def __init__(self, module, **functions):
        self.module, self.functions = module, functions

    def __getattr__(self, name):
        return self.functions.get(name) or getattr(self.module, name)


@contextlib.contextmanager
def counting() -> Iterator[dict[str, list[np.ndarray]]]:
    """Observe how often each named loop turns in programs that are traced inside a ``with`` statement."""
    observed, begun = collections.defaultdict(list), []

    def named_scope(name):
        begun.append(name.removeprefix(loops.MARK))
        return jax.named_scope(name)

    def observe(name, turns):
        jax.debug.callback(lambda turns: observed[name].append(np.asarray(turns)), turns)

    def while_loop(going, step, state):
        name = begun.pop()
        turns, state = jax.lax.while_loop(
            lambda counted: going(counted[1]), lambda counted: (counted[0] + 1, step(counted[1])), (jnp.int32(0), state)
        )
        observe(name, turns)
        return state

    def fori_loop(low, high, step, state):
        if begun:  # other loops have no name
            observe(begun.pop(), high)
        return jax.lax.fori_loop(low, high, step, state)

    jax.clear_caches()
    lax = Counted(jax.lax, while_loop=while_loop, fori_loop=fori_loop)
    loops.jax = Counted(jax, named_scope=named_scope, lax=lax)
    try:
        yield observed
        jax.effects_barrier()
    finally:
        loops.jax = jax
        jax.clear_caches()
