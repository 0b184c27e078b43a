"""Normalizations: over each image, over each of its channels, or over the batch with running moments as training state.

All are ``normalize(name, scale_and_offset, hidden) → hidden``, with channels last and one scale and offset each.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array

EPSILON = 1e-5
# Share of the old moments that an update keeps.
DECAY = 0.9


def layer_norm(name: str, params: dict, hidden: Array) -> Array:
    """Standardized over all positions and channels of each image (Ba et al. 2016)."""
    axes = tuple(range(1, hidden.ndim))
    return _affine(params, hidden, hidden.mean(axes, keepdims=True), hidden.var(axes, keepdims=True))


def instance_norm(name: str, params: dict, hidden: Array) -> Array:
    """Standardized over all positions of each channel of each image (Ulyanov et al. 2016)."""
    return _affine(params, hidden, hidden.mean((1, 2), keepdims=True), hidden.var((1, 2), keepdims=True))


class BatchNorm:
    """Standardized per channel, over the batch in training and by running moments otherwise (Ioffe & Szegedy 2015).

    An instance serves one pass through a network.

    Attributes:
      statistics: ``{layer: {"mean" [c], "variance" [c]}}``.
      training: whether the moments are those of the batch.
      moved: the running moments after the pass, as ``statistics``; complete when the pass is.
    """

    def __init__(self, statistics: dict, *, training: bool):
        self.statistics, self.training = statistics, training
        self.moved = dict(statistics)

    def __call__(self, name: str, params: dict, hidden: Array) -> Array:
        running = self.statistics[name]
        if not self.training:
            return _affine(params, hidden, _last(running["mean"], hidden), _last(running["variance"], hidden))
        axes = tuple(range(hidden.ndim - 1))
        mean, variance = hidden.mean(axes, keepdims=True), hidden.var(axes, keepdims=True)
        batch = {"mean": mean.reshape(-1), "variance": variance.reshape(-1)}
        self.moved[name] = jax.tree.map(lambda old, new: DECAY * old + (1 - DECAY) * new, running, batch)
        return _affine(params, hidden, mean, variance)


def begin_statistics(params: dict) -> dict:
    """Running moments of all normalizations of a network before the first update."""
    scales = {name: layer["scale"] for name, layer in params.items() if "scale" in layer}
    return {name: {"mean": jnp.zeros_like(scale), "variance": jnp.ones_like(scale)} for name, scale in scales.items()}


def _affine(params: dict, hidden: Array, mean: Array, variance: Array) -> Array:
    scale, offset = (_last(params[name], hidden) for name in ("scale", "offset"))
    return (hidden - mean) * (scale / jnp.sqrt(variance + EPSILON)) + offset


def _last(channels: Array, hidden: Array) -> Array:
    """Numbers of channels, to broadcast against what has them last."""
    return channels.reshape((1,) * (hidden.ndim - 1) + (-1,))
