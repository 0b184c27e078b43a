"""GECO: a KL divergence's weight as a Lagrange multiplier, moved until the reconstruction meets a goal."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array

# Largest multiplier, and the share of the old average error that an update keeps.
MOST = 1e10
DECAY = 0.99
# How much faster the multiplier grows where the goal is met than it shrinks where it is not.
SPEEDUP = 10.0


class Geco(NamedTuple):
    """Scalars: the KL divergence's ``multiplier``, the errors' moving ``average``, and whether there is one."""

    multiplier: Array
    average: Array
    begun: Array

    @classmethod
    def begin(cls) -> "Geco":
        return cls(jnp.ones(()), jnp.zeros(()), jnp.zeros((), bool))

    def after(self, error: Array, goal: Array, step: Array, least: Array) -> "Geco":
        """The state after an update with this error, whose loss had the multiplier before it.

        ``a ← 0.99 a + 0.01 error`` (the first error itself), ``c = goal − a`` and
        ``multiplier ← clip(multiplier · exp(s c), least, 1e10)`` with ``s = 10 step`` where the goal is met, c > 0, and
        ``s = step`` elsewhere. All arguments may be traced.

        Reference: Rezende & Viola 2018, in the form that Engelcke et al. 2020 released.
        """
        average = jnp.where(self.begun, DECAY * self.average + (1 - DECAY) * error, error)
        slack = goal - average
        # Factors beyond e⁸⁰ reach the bound just as well, and an infinite one would turn a multiplier of 0 into NaN.
        factor = jnp.exp(jnp.minimum(step * jnp.where(slack > 0, SPEEDUP, 1.0) * slack, 80.0))
        multiplier = jnp.clip(self.multiplier * factor, least, MOST)
        return Geco(multiplier, average, jnp.ones((), bool))
