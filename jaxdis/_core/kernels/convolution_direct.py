"""Convolutions on CPU: to a smaller map, back to the larger one, and their gradient by the kernel.

All three are sums of the same products ``large[i·stride + k − before] · kernel[k] · small[i]``, over two of the three
factors, so that each is a derivative of the other two. XLA's CPU backend computes them about as fast as a matrix
product if images are laid out ``[n, h, w, c]`` and kernels ``[s, s, in, out]``. The gradients that JAX derives have
other layouts, which are as fast outside loops but not inside: in a loop over updates, a gradient by the kernel takes up
to 70 times as long. The derivatives are therefore written here, with explicit transposes.

Under ``vmap`` the three run one after another, as convolutions over several kernels at once are slow on CPU.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
from jax import lax
from jax.custom_batching import sequential_vmap
from jaxtyping import Array, Float

_LAYOUT = ("NHWC", "HWIO", "NHWC")


class Window(NamedTuple):
    """How a kernel moves over the larger map: position ``i`` of the smaller one reads from ``i·stride − before`` on."""

    size: int
    stride: int
    before: int
    large: tuple[int, int]
    small: tuple[int, int]

    @property
    def padding(self) -> list[tuple[int, int]]:
        """Zero rows and columns before and after the larger map."""
        after = [
            (count - 1) * self.stride + self.size - side - self.before
            for side, count in zip(self.large, self.small, strict=True)
        ]
        return [(self.before, number) for number in after]

    @property
    def padding_back(self) -> list[tuple[int, int]]:
        """Zero rows and columns before and after the smaller map, spread out by the stride."""
        return [(self.size - 1 - before, self.size - 1 - after) for before, after in self.padding]


def _product(function: Callable) -> Callable:
    """A function ``(window, left, right)`` as a differentiable one ``(left, right, window)``."""
    of_window = functools.cache(lambda window: sequential_vmap(functools.partial(function, window)))
    return jax.custom_vjp(lambda left, right, window: of_window(window)(left, right), nondiff_argnums=(2,))


def _shrink(window: Window, large: Float[Array, "n h w c"], kernel: Float[Array, "s s c o"]) -> Float[Array, "n y x o"]:
    strides = (window.stride, window.stride)
    return lax.conv_general_dilated(large, kernel, strides, window.padding, dimension_numbers=_LAYOUT)


def _enlarge(
    window: Window, small: Float[Array, "n y x o"], kernel: Float[Array, "s s c o"]
) -> Float[Array, "n h w c"]:
    turned = kernel[::-1, ::-1].transpose(0, 1, 3, 2)
    spread = (window.stride, window.stride)
    return lax.conv_general_dilated(
        small, turned, (1, 1), window.padding_back, lhs_dilation=spread, dimension_numbers=_LAYOUT
    )


def _by_kernel(
    window: Window, large: Float[Array, "n h w c"], small: Float[Array, "n y x o"]
) -> Float[Array, "s s c o"]:
    # Channels take the place of images, and images that of channels.
    inputs, outputs = large.transpose(3, 1, 2, 0), small.transpose(1, 2, 0, 3)
    spread = (window.stride, window.stride)
    product = lax.conv_general_dilated(
        inputs, outputs, (1, 1), window.padding, rhs_dilation=spread, dimension_numbers=_LAYOUT
    )
    return product.transpose(1, 2, 0, 3)


# The cross-correlation of the larger map with the kernel, its transpose by that map, and its transpose by the kernel.
shrink, enlarge, by_kernel = _product(_shrink), _product(_enlarge), _product(_by_kernel)


def _with_factors(product):
    return lambda left, right, window: (product(left, right, window), (left, right))


shrink.defvjp(
    _with_factors(shrink),
    lambda window, factors, small: (enlarge(small, factors[1], window), by_kernel(factors[0], small, window)),
)
enlarge.defvjp(
    _with_factors(enlarge),
    lambda window, factors, large: (shrink(large, factors[1], window), by_kernel(large, factors[0], window)),
)
by_kernel.defvjp(
    _with_factors(by_kernel),
    lambda window, factors, kernel: (enlarge(factors[1], kernel, window), shrink(factors[0], kernel, window)),
)
