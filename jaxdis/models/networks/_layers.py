"""Layers for the library's networks: those in ``flax.linen``, with convolutions in their fast forms.

This is the one place where a form is chosen: ``flax.linen.Conv`` makes the parameters, and what it is given as
``conv_general_dilated`` computes.

References: Hochreiter & Schmidhuber 1997 (``Lstm``); Ba et al. 2016 (``ImageNorm``); Ulyanov et al. 2016
(``InstanceNorm``).
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable
from typing import Literal

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxdis._core import random
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
    return module.apply({"params": params}, *inputs, **named)


def normalized(module: nn.Module, params: dict, statistics: dict, *inputs, training: bool, **named):
    """A module's outputs, and its running moments after them, which only training moves."""
    variables = {"params": params, "batch_stats": statistics}
    if not training:
        return module.apply(variables, *inputs, training=False, **named), statistics
    outputs, moved = module.apply(variables, *inputs, training=True, mutable=["batch_stats"], **named)
    return outputs, moved.get("batch_stats", {})


Initialization = Literal["glorot", "kaiming", "torch"]


def draw(key, shapes, scheme: str):
    """Fill a module's parameter tree.

    Args:
      shapes: nested dicts whose leaves have a ``shape``; kernels are ``[…, in, out]``. Layers without a kernel are
        normalizations, which begin with scale 1 and bias 0.
      scheme: how weights are distributed:

        * ``glorot``: uniform ±√(6 / (fan_in + fan_out)), with zero biases (Locatello et al. 2020, released code).
        * ``torch``: PyTorch's default, uniform ±1/√fan_in, also for biases (Julka et al. 2024).
        * ``kaiming``: uniform ±√(6 / fan_in), with biases as in ``torch`` (the code behind Mahon et al. 2024).

        PyTorch takes a transposed convolution's fan-in from its *output* channels, and so do the last two schemes for
        layers named ``transposed…``.
    """
    if scheme not in ("glorot", "kaiming", "torch"):
        raise ValueError(f"initialization: must be 'glorot', 'kaiming' or 'torch', got {scheme!r}")
    number = itertools.count()

    def layer(path: tuple[str, ...], shapes: dict) -> dict[str, Array]:
        if "kernel" not in shapes:
            return blank(shapes)
        return _layer(jax.random.fold_in(key, next(number)), path, shapes, scheme)

    return fill(shapes, layer)


def blank(shapes: dict) -> dict[str, Array]:
    """A normalization before the first update."""
    return {"scale": jnp.ones(shapes["scale"].shape), "bias": jnp.zeros(shapes["bias"].shape)}


def fill(tree: dict, draw_layer: Callable, order: Callable | None = None, path: tuple[str, ...] = ()) -> dict:
    """A tree of layers, each of which ``draw_layer(path, shapes)`` draws in turn.

    Layers are ordered by their names, or by the sorting key ``order`` for names, however the dict orders them.
    """
    if "kernel" in tree or "scale" in tree:
        return draw_layer(path, tree)
    return {name: fill(tree[name], draw_layer, order, (*path, name)) for name in sorted(tree, key=order)}


def draw_lstm(key, shapes: dict) -> dict:
    """Parameters for a ``flax.linen.OptimizedLSTMCell``, uniform on ±1/√units as in PyTorch, with one bias where that
    has two."""
    inputs, units = shapes["ii"]["kernel"].shape
    names = [f"{side}{gate}" for side in "ih" for gate in "ifgo"]
    drawn = [
        jnp.split(_uniform(part, shape, 1 / math.sqrt(units)), 4, axis=-1)
        for part, shape in zip(
            jax.random.split(key, 3), ((inputs, 4 * units), (units, 4 * units), (4 * units,)), strict=True
        )
    ]
    cell = {name: {"kernel": kernel} for name, kernel in zip(names, drawn[0] + drawn[1], strict=True)}
    for name, bias in zip(names[4:], drawn[2], strict=True):
        cell[name]["bias"] = bias
    return cell


def begin(key, module: nn.Module, *inputs, scheme: str = "torch", **named) -> tuple[dict, dict]:
    """A module's parameters and running moments, for inputs like these."""
    shapes = shapes_of(module, *inputs, **named)
    return draw(key, shapes["params"], scheme), blank_statistics(shapes)


def _layer(key, path: tuple[str, ...], layer: dict, scheme: str) -> dict[str, Array]:
    kernel = layer["kernel"].shape
    field = math.prod(kernel[:-2])
    fan_in, fan_out = field * kernel[-2], field * kernel[-1]
    if scheme != "glorot" and any(name.startswith("transposed") for name in path):
        fan_in = fan_out
    bound = {
        "glorot": math.sqrt(6 / (fan_in + fan_out)),
        "kaiming": math.sqrt(6 / fan_in),
        "torch": 1 / math.sqrt(fan_in),
    }[scheme]
    bias_bound = 0.0 if scheme == "glorot" else 1 / math.sqrt(fan_in)
    bounds = zip(("kernel", "bias"), jax.random.split(key), (bound, bias_bound), strict=True)
    return {name: _uniform(key, layer[name].shape, bound) for name, key, bound in bounds if name in layer}


def _uniform(key, shape: tuple[int, ...], bound: float) -> Array:
    return random.uniform(key, shape, -bound, bound) if bound else jnp.zeros(shape, jnp.float32)
