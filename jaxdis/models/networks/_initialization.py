"""Networks' random parameters, from their shapes alone."""

import itertools
import math
from collections.abc import Callable
from typing import Literal

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array

from jaxdis._core import random
from jaxdis.models.networks._layers import blank_statistics, shapes_of

Initialization = Literal["glorot", "kaiming", "torch"]


def draw(key, shapes, scheme: str):
    """Fill a module's parameter tree.

    Args:
      key: typed key.
      shapes: nested dicts whose leaves have a ``shape``; kernels are ``[…, in, out]``. Layers without a kernel are
        normalizations, which begin with scale 1 and bias 0.
      scheme: how weights are distributed:

        * ``glorot``: uniform ±√(6 / (fan_in + fan_out)), with zero biases (Locatello et al. 2020, released code).
        * ``torch``: PyTorch's default, uniform ±1/√fan_in, also for biases (Julka et al. 2024).
        * ``kaiming``: uniform ±√(6 / fan_in), with biases as in ``torch`` (the code behind Mahon et al. 2024).

        PyTorch takes a transposed convolution's fan-in from its *output* channels, and so do the last two schemes for
        layers named ``transposed…``.

    Returns:
      The tree, float32.
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
