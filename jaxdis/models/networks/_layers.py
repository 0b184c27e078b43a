"""Layers for the library's networks: those in ``flax.linen``, with convolutions in their fast forms.

This is the one place where a form is chosen: ``flax.linen.Conv`` makes the parameters, and what it is given as
``conv_general_dilated`` computes.

References: Hochreiter & Schmidhuber 1997 (``Lstm``); Ba et al. 2016 (``ImageNorm``); Ulyanov et al. 2016
(``InstanceNorm``).
"""

import dataclasses
import functools
from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxdis._core.kernels import convolution
from jaxdis._core.options import check_fields

Dense = nn.Dense
Lstm = nn.OptimizedLSTMCell
Conv = functools.partial(nn.Conv, conv_general_dilated=convolution.convolution)
# Of stride 2 with kernels of 4 and 5, and with a mean of 2 × 2 pixels after it or an enlargement before it.
ConvTranspose = functools.partial(nn.Conv, kernel_size=(4, 4), conv_general_dilated=convolution.transposed_convolution)
ConvTransposeFive = functools.partial(
    nn.Conv, kernel_size=(5, 5), conv_general_dilated=convolution.transposed_convolution_five
)
PooledConv = functools.partial(nn.Conv, kernel_size=(3, 3), conv_general_dilated=convolution.pooled_convolution)
EnlargedConv = functools.partial(nn.Conv, kernel_size=(3, 3), conv_general_dilated=convolution.enlarged_convolution)
# Flax's default variance, E x² − (E x)², loses digits of maps that are far from 0.
_EXACT = {"epsilon": 1e-5, "use_fast_variance": False}
InstanceNorm = functools.partial(nn.InstanceNorm, **_EXACT)
# Over all positions and channels of an image, with a scale and an offset per channel.
ImageNorm = functools.partial(nn.LayerNorm, reduction_axes=(-3, -2, -1), feature_axes=-1, **_EXACT)
BatchNorm = functools.partial(nn.BatchNorm, momentum=0.9, **_EXACT)


class Network(nn.Module):
    """A module whose fields are checked against their annotations."""

    def __post_init__(self):
        check_fields(self)
        super().__post_init__()

    def __repr__(self) -> str:
        fields = (field.name for field in dataclasses.fields(self) if field.name not in ("parent", "name"))
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in fields)})"


class UnbiasedBatchNorm(nn.Module):
    """Batch normalization whose running variances have n − 1 degrees of freedom, as in PyTorch; Flax's have n."""

    momentum: float = 0.9

    @nn.compact
    def __call__(self, hidden: Float[Array, "n h w c"], training: bool) -> Float[Array, "n h w c"]:
        channels = hidden.shape[-1:]
        scale = self.param("scale", nn.initializers.ones, channels)
        offset = self.param("bias", nn.initializers.zeros, channels)
        fills = {"mean": jnp.zeros, "var": jnp.ones}
        running = [self.variable("batch_stats", name, fill, channels) for name, fill in fills.items()]
        mean, variance = (moment.value for moment in running)
        if training:
            mean, variance = hidden.mean((0, 1, 2)), hidden.var((0, 1, 2))
            count = hidden.size // hidden.shape[-1]
            batch = mean, variance * (count / max(count - 1, 1))
            for moment, new in zip(running, batch, strict=True):
                moment.value = self.momentum * moment.value + (1 - self.momentum) * new
        factor = scale * jax.lax.rsqrt(variance + 1e-5)
        mean, factor, offset = (part.reshape(1, 1, 1, -1) for part in (mean, factor, offset))
        return (hidden - mean) * factor + offset


class Perceptron(nn.Module):
    """Dense layers with an activation between them."""

    widths: tuple[int, ...]
    activation: Callable

    @nn.compact
    def __call__(self, hidden: Float[Array, "n i"]) -> Float[Array, "n o"]:
        return chain([Dense(width, name=f"dense_{i}") for i, width in enumerate(self.widths)], hidden, self.activation)


def chain(layers, hidden: Array, activation: Callable = nn.relu) -> Array:
    """The layers in sequence, with an activation between them."""
    for layer in layers[:-1]:
        hidden = activation(layer(hidden))
    return layers[-1](hidden)


def leaky(values: Array, slope: float) -> Array:
    return jax.nn.leaky_relu(values, slope) if slope else jax.nn.relu(values)


def shapes_of(module: nn.Module, *inputs, **named) -> dict:
    """The shapes of a module's variables, by collection, for inputs like these."""
    return jax.eval_shape(functools.partial(module.init, **named), jax.random.key(0), *inputs)


def blank_statistics(shapes: dict) -> dict:
    """Running moments before the first update: mean 0 and variance 1."""
    fill = {"mean": jnp.zeros, "var": jnp.ones}
    return jax.tree.map_with_path(lambda path, leaf: fill[path[-1].key](leaf.shape), shapes.get("batch_stats", {}))


def apply(module: nn.Module, params: dict, *inputs, **named):
    """What a module makes of inputs with these parameters."""
    return module.apply({"params": params}, *inputs, **named)


def normalized(module: nn.Module, params: dict, statistics: dict, *inputs, training: bool, **named):
    """A module's outputs, and its running moments after them, which only training moves."""
    variables = {"params": params, "batch_stats": statistics}
    if not training:
        return module.apply(variables, *inputs, training=False, **named), statistics
    outputs, moved = module.apply(variables, *inputs, training=True, mutable=["batch_stats"], **named)
    return outputs, moved.get("batch_stats", {})
