"""Loops in traced programs: over independent inputs, and until the data say that it is enough.

:data:`each` takes the form that suits the platform. The others give a loop whose end depends on the data a name, by
which the loop is recognized in a compiled program.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from jaxdis._core.platforms import Kernel

# What precedes the name of a loop in the scopes of a program.
MARK = "turns:"


def _all_together(function: Callable, inputs: Any, *, together: int | None = None) -> Any:
    return jax.vmap(function)(inputs) if together is None else jax.lax.map(function, inputs, batch_size=together)


# ``each(function, inputs, together=None)``: ``function(input)`` for each entry along the leading axis of ``inputs``. On
# CPU one after another, so that the tables of one stay in cache. On accelerators all together, or ``together`` at a
# time where the tables of all would be too large: a kernel costs as much to start for one entry as for hundreds. That
# holds on TPUs, too: by XLA's cycles, MIG by nearest neighbors takes 4.2 ms a member together and 18 one by one.
each = Kernel(
    cpu=lambda function, inputs, together=None: jax.lax.map(function, inputs),
    accelerator=_all_together,
)


def _one_after_another(step: Callable, numbers: Sequence[int], state: Any) -> Any:
    return functools.reduce(lambda state, number: step(number, state), numbers, state)


def _in_a_loop(step: Callable, numbers: Sequence[int], state: Any) -> Any:
    listed = jnp.array(numbers, jnp.int32)
    return jax.lax.fori_loop(0, len(numbers), lambda i, state: step(listed[i], state), state)


# ``stepwise(step, numbers, state)``: ``state = step(number, state)`` for each of a few known numbers. On GPUs without a
# loop, which would read and write the state at each step; elsewhere XLA would compile each step by itself.
stepwise = Kernel(cpu=_in_a_loop, accelerator=_one_after_another, tpu=_in_a_loop)


@jax.custom_batching.custom_vmap
def _any_member(going: jax.Array) -> jax.Array:
    """Under ``vmap``, whether any member goes on: one answer for all."""
    return going


@_any_member.def_vmap
def _any_of_members(_size, in_batched, going):
    return _any_member(going.any() if in_batched[0] else going), False


def repeat(
    name: str, going: Callable[[Any], jax.Array], step: Callable[[Any], Any], state: Any, *, harmless: bool = False
) -> Any:
    """``state = step(state)`` as long as ``going(state)``.

    ``harmless``: further steps change nothing that is read. Under ``vmap``, a member that is done then steps on with
    the others; otherwise each turn copies the states of all members, to leave out those that are done.
    """
    if harmless:
        alone = going
        going = lambda state: _any_member(alone(state))  # noqa: E731
    with jax.named_scope(MARK + name):
        return jax.lax.while_loop(going, step, state)


def times(name: str, count: jax.Array, step: Callable[[jax.Array, Any], Any], state: Any) -> Any:
    """``state = step(number, state)`` for the numbers below ``count``, which may be traced."""
    with jax.named_scope(MARK + name):
        return jax.lax.fori_loop(0, count, step, state)
