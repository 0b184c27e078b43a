"""A pinhole camera, and how to broadcast a vector against an array of vectors."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped


def look_at(
    eye: Float[Array, "3"], target: Float[Array, "3"], field_of_view: float, side: int
) -> Float[Array, "side side 3"]:
    """Directions from ``eye`` through the centers of side × side pixels, row 0 at the top, z up in the world.

    ``field_of_view`` is the angle from top to bottom in radians; directions are not of unit length.
    """
    forward = target - eye
    forward = forward / jnp.linalg.norm(forward)
    right = jnp.cross(forward, np.array([0, 0, 1], np.float32))
    right = right / jnp.linalg.norm(right)
    up = jnp.cross(right, forward)
    reach = (np.tan(field_of_view / 2) * ((2 * np.arange(side) + 1) / side - 1)).astype(np.float32)
    across, down = reach[None, :, None] * spread(right, 3), reach[:, None, None] * spread(up, 3)
    return spread(forward, 3) + across - down


def spread(vector: Shaped[Array, " c"], rank: int) -> Shaped[Array, "... c"]:
    """A vector ``[c]`` reshaped to ``[1, …, 1, c]`` with ``rank`` axes, so that it broadcasts against ``[…, c]``."""
    return jnp.reshape(vector, (1,) * (rank - 1) + vector.shape)
