"""One update for one member, and blocks of these: pure functions, the same for every method."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from jaxdis.models.methods._method import Method
from jaxdis.models.training._image_source import Source

# Folded into a member's key before its first update; updates fold in their own number.
_BEGIN = 2**31 - 1


class State(NamedTuple):
    """Everything that training carries from one update to the next, for one member.

    Attributes:
      learner: the method's own state.
      step: updates done.
      stopped: the update that was rejected because it was not finite; −1 if there is none.
    """

    learner: Any
    step: Array
    stopped: Array


def begin(method: Method, key) -> State:
    """A member before its first update."""
    return State(method.begin(jax.random.fold_in(key, _BEGIN)), jnp.zeros((), jnp.int32), jnp.full((), -1, jnp.int32))


def update(method: Method, state: State, key, hyperparameters, source: Source) -> tuple[State, Any]:
    """One update. A member whose update is not finite is left unchanged from then on, and its losses are NaN.

    Args:
      method: static.
      state: the member's.
      key: the member's; the update's own key is ``fold_in(key, step)``.
      hyperparameters: NamedTuple with scalars.
      source: images.
    """

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
