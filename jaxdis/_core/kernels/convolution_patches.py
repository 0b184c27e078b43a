"""Convolutions on accelerators: patches and one matrix product; to a smaller map, back, and by the kernel.

Patches take ``size²`` times the memory of a map, and most of the time goes into writing and reading them. They are
therefore made where they cost less: as patches of a map before the product, or as parts of the result after it, which
are added up. The gradients make patches anew instead of storing them, and with stride 1 both gradients may read the
same ones, those of the smaller map's gradient.
"""

import functools
import math

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from jaxdis._core.kernels.convolution_window import Window, derivatives

# To read or write a number takes about as long as so many products and sums of float32 on an NVIDIA H100.
MOVED = 36


def padded(window: Window, images: Float[Array, "n h w c"]) -> Float[Array, "n y x c"]:
    """The map with zeros around it."""
    pads = [(0, 0, 0), *((before, after, 0) for before, after in window.padding), (0, 0, 0)]
    return lax.pad(images, jnp.zeros((), images.dtype), pads)


def _shrink(window: Window, large: Float[Array, "n h w c"], kernel: Float[Array, "s s c o"]) -> Float[Array, "n y x o"]:
    inputs, outputs = kernel.shape[2:]
    before = inputs * math.prod(window.small) * (2 * MOVED + outputs)
    after = outputs * math.prod(window.large) * (2 * MOVED + inputs)
    form = _by_patches if window.stride > 1 or before <= after else _by_parts
    return form(window, large, kernel)


def _enlarge(
    window: Window, small: Float[Array, "n y x o"], kernel: Float[Array, "s s c o"]
) -> Float[Array, "n h w c"]:
    inputs, outputs = kernel.shape[2:]
    if window.stride == 1:
        form = _by_patches if _shares_patches(window, inputs, outputs) else _by_parts
        return form(window.back, small, kernel[::-1, ::-1].transpose(0, 1, 3, 2))
    parts = _product(window, small, kernel.transpose(1, 0, 2, 3).reshape(-1, outputs))
    large = jax.ShapeDtypeStruct((len(small), *window.large, inputs), small.dtype)
    return jax.linear_transpose(functools.partial(_patches, window), large)(parts)[0]


def _by_kernel(
    window: Window, large: Float[Array, "n h w c"], small: Float[Array, "n y x o"]
) -> Float[Array, "s s c o"]:
    size, inputs, outputs = window.size, large.shape[-1], small.shape[-1]
    if _shares_patches(window, inputs, outputs):
        sums = _summed(window, _patches(window.back, small), large).reshape(size, size, outputs, inputs)
        return sums.transpose(1, 0, 3, 2)[::-1, ::-1]
    # Without the barrier, the compiler would keep the patches of the forward pass.
    sums = _summed(window, _patches(window, lax.optimization_barrier(large)), small)
    return sums.reshape(size, size, inputs, outputs).transpose(1, 0, 2, 3)


def _shares_patches(window: Window, inputs: int, outputs: int) -> bool:
    """Whether both gradients read patches of the smaller map, which cost less than parts for one and patches for the
    other."""
    shared = outputs * math.prod(window.large) * (3 * MOVED + 2 * inputs)
    apart = inputs * math.prod(window.small) * (4 * MOVED + 2 * outputs)
    return window.stride == 1 and shared <= apart


def _by_patches(window, large, kernel):
    """Patches before the product."""
    return _product(window, _patches(window, large), kernel.transpose(3, 1, 0, 2).reshape(kernel.shape[3], -1))


def _by_parts(window, large, kernel):
    """With stride 1, parts of the results around every position after the product, in float32 until they are added."""
    size, _, inputs, outputs = kernel.shape
    parts = _product(window, large, kernel.transpose(1, 0, 3, 2).reshape(-1, inputs), jnp.float32)
    parts = padded(window, parts)
    parts = parts.reshape(*parts.shape[:3], size, size, outputs)
    rows, columns = window.small
    places = [(i, j) for i in range(size) for j in range(size)]
    return sum(parts[:, i : i + rows, j : j + columns, j, i] for i, j in places).astype(large.dtype)


def _patches(window: Window, images: Float[Array, "n h w c"]) -> Float[Array, "n y x e"]:
    """What a kernel sees at every position, in the order (column, row, channel)."""
    images, size, stride = padded(window, images), window.size, window.stride
    rows, columns = ((count - 1) * stride + 1 for count in window.small)
    # First rows, then columns: 2 · size slices in place of size², which take less time to compile.
    images = jnp.concatenate([images[:, i : i + rows : stride] for i in range(size)], axis=-1)
    return jnp.concatenate([images[:, :, j : j + columns : stride] for j in range(size)], axis=-1)


def _product(window: Window, maps: Float[Array, "n y x e"], rows: Float[Array, "o e"], dtype=None):
    """The rows' products with every position, ``[n, y, x, o]``."""
    product = lax.dot_general(
        _in_rows(maps), rows, (((1,), (1,)), ((), ())), precision=window.precision, preferred_element_type=dtype
    )
    return product.reshape(*maps.shape[:3], -1)


def _summed(window: Window, left: Float[Array, "n y x e"], right: Float[Array, "n y x o"]) -> Float[Array, "e o"]:
    """The channels' products, summed over positions."""
    rows = _in_rows(left), _in_rows(right)
    return lax.dot_general(*rows, (((0,), (0,)), ((), ())), precision=window.precision)


def _in_rows(maps: Float[Array, "n y x e"]) -> Float[Array, "r e"]:
    """One axis of positions: the compiler would write maps with several of them transposed."""
    return maps.reshape(-1, maps.shape[-1])


shrink, enlarge, by_kernel = derivatives(_shrink, _enlarge, _by_kernel)
