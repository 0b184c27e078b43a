"""A learning rate that is halved when the loss stops falling, as traced state."""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from jaxdis._core.options import Level, Natural, NonNegative, check_fields


class PlateauState(NamedTuple):
    """Scalars: the lowest mean loss in an epoch (``best``), how many epochs in a row were no better (``bad``), and how
    many cooldown epochs are left (``rest``); the learning rate's factor (``scale``); and this epoch's summed losses so
    far (``total``)."""

    best: Array
    bad: Array
    rest: Array
    scale: Array
    total: Array


@dataclasses.dataclass(frozen=True)
class Plateau:
    """PyTorch's ``ReduceLROnPlateau`` with a relative threshold, stepped by every epoch's mean loss.

    An epoch is better if its loss is below ``best · (1 − threshold)``. After more than ``patience`` epochs in a row
    that are not, the learning rate is multiplied by ``factor``, and the next ``cooldown`` epochs do not count.
    Reductions by ``smallest_change`` or less are not made.
    """

    patience: Natural = 1
    threshold: Level = 1e-2
    cooldown: Natural = 4
    factor: Level = 0.5
    smallest_change: NonNegative = 1e-7

    def __post_init__(self):
        check_fields(self)

    def begin(self) -> PlateauState:
        zero = jnp.zeros((), jnp.int32)
        return PlateauState(jnp.full((), jnp.inf), zero, zero, jnp.ones(()), jnp.zeros(()))

    def after(self, state: PlateauState, loss: Array, learning_rate: Array, step: Array, epoch: int) -> PlateauState:
        """The state after one update: ``step`` updates were done before it, and an epoch has ``epoch``."""
        state = state._replace(total=state.total + loss)
        ends = (step + 1) % epoch == 0
        return jax.tree.map(lambda new, old: jnp.where(ends, new, old), self._epoch(state, learning_rate, epoch), state)

    def _epoch(self, state: PlateauState, learning_rate: Array, epoch: int) -> PlateauState:
        mean = state.total / jnp.float32(epoch)
        better = mean < state.best * (1 - self.threshold)
        resting = state.rest > 0
        bad = jnp.where(better | resting, 0, state.bad + 1)
        reduce = bad > self.patience
        change = learning_rate * state.scale * (1 - self.factor)
        return PlateauState(
            best=jnp.where(better, mean, state.best),
            bad=jnp.where(reduce, 0, bad),
            rest=jnp.where(reduce, self.cooldown, jnp.maximum(state.rest - 1, 0)),
            scale=jnp.where(reduce & (change > self.smallest_change), state.scale * self.factor, state.scale),
            total=jnp.zeros(()),
        )
