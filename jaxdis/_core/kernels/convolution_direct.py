"""Convolutions on CPUs and TPUs: to a smaller map, back to the larger one, and their gradient by the kernel.

XLA's CPU backend computes them about as fast as a matrix product if images are laid out ``[n, h, w, c]`` and kernels
``[s, s, in, out]``. The gradients that JAX derives have other layouts, which are as fast outside loops but not inside:
in a loop over updates, a gradient by the kernel takes up to 70 times as long. The derivatives are therefore written
here, with explicit transposes.

Under ``vmap`` the three run one after another, as convolutions over several kernels at once are slow on CPU.
"""

import functools
from collections.abc import Callable

from jax import lax
from jax.custom_batching import sequential_vmap
from jaxtyping import Array, Float

from jaxdis._core.kernels.convolution_window import Window, derivatives

_LAYOUT = ("NHWC", "HWIO", "NHWC")


def _shrink(window: Window, large: Float[Array, "n h w c"], kernel: Float[Array, "s s c o"]) -> Float[Array, "n y x o"]:
    strides = (window.stride, window.stride)
    return _convolved(window, large, kernel, strides, window.padding)


def _enlarge(
    window: Window, small: Float[Array, "n y x o"], kernel: Float[Array, "s s c o"]
) -> Float[Array, "n h w c"]:
    turned = kernel[::-1, ::-1].transpose(0, 1, 3, 2)
    spread = (window.stride, window.stride)
    return _convolved(window, small, turned, (1, 1), window.padding_back, lhs_dilation=spread)


def _by_kernel(
    window: Window, large: Float[Array, "n h w c"], small: Float[Array, "n y x o"]
) -> Float[Array, "s s c o"]:
    # Channels take the place of images, and images that of channels.
    inputs, outputs = large.transpose(3, 1, 2, 0), small.transpose(1, 2, 0, 3)
    spread = (window.stride, window.stride)
    product = _convolved(window, inputs, outputs, (1, 1), window.padding, rhs_dilation=spread)
    return product.transpose(1, 2, 0, 3)


def _convolved(window: Window, images, kernel, strides, padding, **dilations):
    return lax.conv_general_dilated(
        images, kernel, strides, padding, dimension_numbers=_LAYOUT, precision=window.precision, **dilations
    )


def _one_by_one(function: Callable) -> Callable:
    of_window = functools.cache(lambda window: sequential_vmap(functools.partial(function, window)))
    return lambda window, left, right: of_window(window)(left, right)


shrink, enlarge, by_kernel = derivatives(*map(_one_by_one, (_shrink, _enlarge, _by_kernel)))
