"""Random parameters of networks, from their shapes alone."""

import math
from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array

from jaxdis._core import random

Initialization = Literal["glorot", "kaiming", "torch"]


def draw(key, shapes, scheme: str):
    """Fill a parameter tree of layers ``{"kernel", "bias"}``.

    Args:
      key: typed key.
      shapes: nested dicts whose leaves have a ``shape``; kernels are ``[…, in, out]``.
      scheme: distribution of the weights:

        * ``glorot``: uniform ±√(6 / (fan_in + fan_out)), with zero biases (Locatello et al. 2020, released code).
        * ``torch``: PyTorch's default, uniform ±1/√fan_in, also for biases (Julka et al. 2024).
        * ``kaiming``: uniform ±√(6 / fan_in), with biases as in ``torch`` (the code behind Mahon et al. 2024).

        PyTorch takes the fan-in of a transposed convolution from its *output* channels, and so do the last two schemes
        for layers named ``transposed…``.

    Returns:
      The tree, float32.
    """
    if scheme not in ("glorot", "kaiming", "torch"):
        raise ValueError(f"initialization: needs 'glorot', 'kaiming' or 'torch', got {scheme!r}")
    layers = dict(_layers(shapes))
    drawn = [_layer(jax.random.fold_in(key, i), path, layer, scheme) for i, (path, layer) in enumerate(layers.items())]
    tree: dict = {}
    for path, layer in zip(layers, drawn, strict=True):
        node = tree
        for name in path[:-1]:
            node = node.setdefault(name, {})
        node[path[-1]] = layer
    return tree


def layer_shape(size: int, inputs: int, outputs: int) -> dict[str, jax.ShapeDtypeStruct]:
    """A convolution with a kernel of ``size`` × ``size``, for :func:`draw`."""
    kernel, bias = (size, size, inputs, outputs), (outputs,)
    return {"kernel": jax.ShapeDtypeStruct(kernel, jnp.float32), "bias": jax.ShapeDtypeStruct(bias, jnp.float32)}


def _layer(key, path: tuple[str, ...], layer, scheme: str) -> dict[str, Array]:
    kernel, bias = layer["kernel"].shape, layer["bias"].shape
    field = math.prod(kernel[:-2])
    fan_in, fan_out = field * kernel[-2], field * kernel[-1]
    if scheme != "glorot" and path[-1].startswith("transposed"):
        fan_in = fan_out
    bound = {
        "glorot": math.sqrt(6 / (fan_in + fan_out)),
        "kaiming": math.sqrt(6 / fan_in),
        "torch": 1 / math.sqrt(fan_in),
    }[scheme]
    bias_bound = 0.0 if scheme == "glorot" else 1 / math.sqrt(fan_in)
    kernel_key, bias_key = jax.random.split(key)
    return {
        "kernel": _uniform(kernel_key, kernel, bound),
        "bias": _uniform(bias_key, bias, bias_bound) if bias_bound else jnp.zeros(bias, jnp.float32),
    }


def _uniform(key, shape: tuple[int, ...], bound: float) -> Array:
    return random.uniform(key, shape, -bound, bound)


def _layers(tree, path: tuple[str, ...] = ()):
    """Layers depth first, in the order of their names, so that draws do not depend on the order of a dict."""
    if "kernel" in tree:
        yield path, tree
        return
    for name in sorted(tree):
        yield from _layers(tree[name], (*path, name))
