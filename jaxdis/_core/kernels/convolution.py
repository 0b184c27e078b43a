"""Convolutions, and transposes of those with stride 2: patches and one matrix product on a GPU, else the direct form.

A convolution vmapped over its *weights* (a zoo) becomes a grouped convolution, which is slow. Written as a product
between patches and a flattened kernel, it becomes a batched matrix product, for GPUs. On a CPU the copies into patches
cost as much as the products, and a TPU runs one operation after the other anyway and would move four times the bytes:
the direct form takes one member after the other there, without copies. Kernels have the ordinary layout ``[size, size,
in, out]``, so that all forms have the same parameters. Each is a function that ``flax.linen.Conv`` takes instead of its
own, as ``conv_general_dilated``; see :mod:`~jaxdis.models.networks._architectures`.

A convolution to a smaller map, the one back to the larger map, and their gradient by the kernel sum the same products
``large[i·stride + k − before] · kernel[k] · small[i]``. Each sums over two of the three factors and is a derivative of
the other two. Those that JAX derives would be slower on CPU and would store patches on accelerators.
"""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_batching import sequential_vmap
from jaxtyping import Array, Float

from jaxdis._core.platforms import Kernel

# What is convolved, by what, and what results.
Images, Weights, Maps = Float[Array, "n h w c"], Float[Array, "s s c o"], Float[Array, "n y x o"]
_LAYOUT = ("NHWC", "HWIO", "NHWC")


class Window(NamedTuple):
    """How a kernel moves over the larger map: position ``i`` of the smaller one reads from ``i·stride − before`` on."""

    size: int
    stride: int
    before: tuple[int, int]
    large: tuple[int, int]
    small: tuple[int, int]
    precision: str | None = None

    @property
    def padding(self) -> list[tuple[int, int]]:
        """Zero rows and columns before and after the larger map; negative ones are not read."""
        return [
            (before, (count - 1) * self.stride + self.size - side - before)
            for before, side, count in zip(self.before, self.large, self.small, strict=True)
        ]

    @property
    def padding_back(self) -> list[tuple[int, int]]:
        """Zero rows and columns before and after the smaller map, spread out by the stride."""
        return [(self.size - 1 - before, self.size - 1 - after) for before, after in self.padding]

    @property
    def back(self) -> "Window":
        """The window from the smaller map to the larger one, for stride 1."""
        before = tuple(before for before, _ in self.padding_back)
        return self._replace(before=before, large=self.small, small=self.large)


class Products(NamedTuple):
    """Functions ``(left, right, window)``, each a derivative of the other two."""

    shrink: Callable
    enlarge: Callable
    by_kernel: Callable


def derivatives(shrink: Callable, enlarge: Callable, by_kernel: Callable) -> Products:
    """Make functions ``(window, left, right)`` the derivatives of each other."""
    smaller, larger, kernel_of = map(_differentiable, (shrink, enlarge, by_kernel))
    smaller.defvjp(
        _with_factors(smaller),
        lambda window, factors, small: (larger(small, factors[1], window), kernel_of(factors[0], small, window)),
    )
    larger.defvjp(
        _with_factors(larger),
        lambda window, factors, large: (smaller(large, factors[1], window), kernel_of(large, factors[0], window)),
    )
    kernel_of.defvjp(
        _with_factors(kernel_of),
        lambda window, factors, kernel: (larger(factors[1], kernel, window), smaller(factors[0], kernel, window)),
    )
    return Products(smaller, larger, kernel_of)


def _differentiable(function):
    return jax.custom_vjp(lambda left, right, window: function(window, left, right), nondiff_argnums=(2,))


def _with_factors(product):
    return lambda left, right, window: (product(left, right, window), (left, right))


# The direct form. XLA's CPU backend computes convolutions about as fast as a matrix product if images are laid out
# ``[n, h, w, c]`` and kernels ``[s, s, in, out]``. The gradients that JAX derives have other layouts, which are as fast
# outside loops but not inside: in a loop over updates, a gradient by the kernel takes up to 70 times as long. The
# derivatives are therefore written here, with explicit transposes. Under ``vmap`` the three run one after another, as
# convolutions over several kernels at once are slow on CPU.


def _shrink_directly(window: Window, large: Images, kernel: Weights) -> Maps:
    strides = (window.stride, window.stride)
    return _convolved(window, large, kernel, strides, window.padding)


def _enlarge_directly(window: Window, small: Maps, kernel: Weights) -> Images:
    turned = kernel[::-1, ::-1].transpose(0, 1, 3, 2)
    spread = (window.stride, window.stride)
    return _convolved(window, small, turned, (1, 1), window.padding_back, lhs_dilation=spread)


def _kernel_directly(window: Window, large: Images, small: Maps) -> Weights:
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


direct = derivatives(*map(_one_by_one, (_shrink_directly, _enlarge_directly, _kernel_directly)))


# Patches take ``size²`` times the memory of a map, and most of the time goes into writing and reading them. They are
# therefore made where they cost less: as patches of a map before the product, or as parts of the result after it, which
# are added up. The gradients make patches anew instead of storing them, and with stride 1 both gradients may read the
# same ones, those of the smaller map's gradient.

# To read or write a number takes about as long as so many products and sums of float32 on an NVIDIA H100.
MOVED = 36


def _padded(window: Window, images: Images) -> Float[Array, "n y x c"]:
    """The map with zeros around it."""
    pads = [(0, 0, 0), *((before, after, 0) for before, after in window.padding), (0, 0, 0)]
    return lax.pad(images, jnp.zeros((), images.dtype), pads)


def _shrink_by_patches(window: Window, large: Images, kernel: Weights) -> Maps:
    inputs, outputs = kernel.shape[2:]
    before = inputs * math.prod(window.small) * (2 * MOVED + outputs)
    after = outputs * math.prod(window.large) * (2 * MOVED + inputs)
    form = _by_patches if window.stride > 1 or before <= after else _by_parts
    return form(window, large, kernel)


def _enlarge_by_patches(window: Window, small: Maps, kernel: Weights) -> Images:
    inputs, outputs = kernel.shape[2:]
    if window.stride == 1:
        form = _by_patches if _shares_patches(window, inputs, outputs) else _by_parts
        return form(window.back, small, kernel[::-1, ::-1].transpose(0, 1, 3, 2))
    parts = _product(window, small, kernel.transpose(1, 0, 2, 3).reshape(-1, outputs))
    large = jax.ShapeDtypeStruct((len(small), *window.large, inputs), small.dtype)
    return jax.linear_transpose(functools.partial(_patches, window), large)(parts)[0]


def _kernel_by_patches(window: Window, large: Images, small: Maps) -> Weights:
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
    parts = _padded(window, parts)
    parts = parts.reshape(*parts.shape[:3], size, size, outputs)
    rows, columns = window.small
    places = [(i, j) for i in range(size) for j in range(size)]
    return sum(parts[:, i : i + rows, j : j + columns, j, i] for i, j in places).astype(large.dtype)


def _patches(window: Window, images: Images) -> Float[Array, "n y x e"]:
    """What a kernel sees at every position, in the order (column, row, channel)."""
    images, size, stride = _padded(window, images), window.size, window.stride
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


def _summed(window: Window, left: Float[Array, "n y x e"], right: Maps) -> Float[Array, "e o"]:
    """The channels' products, summed over positions."""
    rows = _in_rows(left), _in_rows(right)
    return lax.dot_general(*rows, (((0,), (0,)), ((), ())), precision=window.precision)


def _in_rows(maps: Float[Array, "n y x e"]) -> Float[Array, "r e"]:
    """One axis of positions: the compiler would write maps with several of them transposed."""
    return maps.reshape(-1, maps.shape[-1])


patches = derivatives(_shrink_by_patches, _enlarge_by_patches, _kernel_by_patches)


def _window(images, kernel, strides, padding) -> Window:
    size, stride, sides = kernel.shape[0], strides[0], images.shape[1:3]
    pads = lax.padtype_to_pads(sides, (size, size), strides, padding) if isinstance(padding, str) else padding
    small = tuple((side + sum(pad) - size) // stride + 1 for side, pad in zip(sides, pads, strict=True))
    return Window(size, stride, tuple(before for before, _ in pads), sides, small, _precision())


def _precision() -> str | None:
    """How precise products are where this is traced: gradients are often traced elsewhere."""
    return jax.config.jax_default_matmul_precision


def _convolution_direct(images: Images, kernel: Weights, strides, padding, **_) -> Maps:
    window = _window(images, kernel, strides, padding)
    return (direct if window.size > 1 else patches).shrink(images, kernel, window)


def _convolution_by_patches(images: Images, kernel: Weights, strides, padding, **_) -> Maps:
    window = _window(images, kernel, strides, padding)
    if window.stride == 1 or window.size % 2:
        return patches.shrink(images, kernel, window)
    # Blocks of 2 × 2 pixels as channels, in the order (row, column, channel): a convolution of half the size with
    # stride 1.
    half, (inputs, outputs) = window.size // 2, kernel.shape[2:]
    padded = _padded(window, images)
    n, h, w, _ = padded.shape
    blocks = padded.reshape(n, h // 2, 2, w // 2, 2, inputs).transpose(0, 1, 3, 2, 4, 5)
    blocks = blocks.reshape(n, h // 2, w // 2, 4 * inputs)
    kernel = kernel.reshape(half, 2, half, 2, inputs, outputs).transpose(0, 2, 1, 3, 4, 5)
    kernel = kernel.reshape(half, half, 4 * inputs, outputs)
    return patches.shrink(blocks, kernel, Window(half, 1, (0, 0), blocks.shape[1:3], window.small, _precision()))


# ``convolution(images [n, h, w, c], kernel [s, s, c, o], strides, padding) -> [n, y, x, o]``:
# ``lax.conv_general_dilated`` as ``flax.linen.Conv`` calls it, for square kernels, equal strides and no dilation;
# positions that a stride leaves over at the end are not read.
convolution = Kernel(cpu=_convolution_direct, accelerator=_convolution_by_patches, tpu=_convolution_direct)


def _check_size(kernel, size: int) -> None:
    if kernel.shape[0] != size:
        raise ValueError(f"kernel: must have size {size}, got {kernel.shape[0]}")


def _transposed_direct(images: Images, kernel: Weights, *_, **__) -> Maps:
    _check_size(kernel, 4)
    _, h, w, _ = images.shape
    window = Window(4, 2, (1, 1), (2 * h, 2 * w), (h, w), _precision())
    return direct.enlarge(images, kernel[::-1, ::-1].transpose(0, 1, 3, 2), window)


def _transposed_by_patches(images: Images, kernel: Weights, *_, **__) -> Maps:
    """Output block ``i`` (rows ``2i−1`` and ``2i``) depends on input rows ``i−1`` and ``i`` alone.

    The result is therefore a convolution with a kernel ``[2, 2, c, 4·o]``, then depth-to-space, then one pixel cropped
    per side.
    """
    _check_size(kernel, 4)
    n, h, w, c = images.shape
    o = kernel.shape[-1]
    # Output row 2i−1+δ reads input row i−1+Y through kernel row 2Y+1−δ: split the rows into (Y, 1−δ), then reverse
    # the latter.
    parts = kernel.reshape(2, 2, 2, 2, c, o)[:, ::-1, :, ::-1]
    parts = parts.transpose(0, 2, 4, 1, 3, 5).reshape(2, 2, c, 4 * o)
    window = Window(2, 1, (1, 1), (h, w), (h + 1, w + 1), _precision())
    blocks = patches.shrink(images, parts, window).reshape(n, h + 1, w + 1, 2, 2, o)
    grid = blocks.transpose(0, 1, 3, 2, 4, 5).reshape(n, 2 * h + 2, 2 * w + 2, o)
    return grid[:, 1:-1, 1:-1]


# ``transposed_convolution(images [n, h, w, c], kernel [4, 4, c, o]) -> [n, 2h, 2w, o]``: of stride 2 and SAME padding;
# equals ``flax.linen.ConvTranspose(o, (4, 4), strides=(2, 2))`` without bias.
transposed_convolution = Kernel(cpu=_transposed_direct, accelerator=_transposed_by_patches, tpu=_transposed_direct)


def _five_direct(images: Images, kernel: Weights, *_, **__) -> Maps:
    _check_size(kernel, 5)
    _, h, w, _ = images.shape
    window = Window(5, 2, (2, 2), (2 * h, 2 * w), (h, w), _precision())
    return direct.enlarge(images, kernel.transpose(0, 1, 3, 2), window)


def _five_by_patches(images: Images, kernel: Weights, *_, **__) -> Maps:
    """Output rows ``2r`` and ``2r + 1`` depend on input rows ``r−1``, ``r`` and ``r+1`` alone.

    The result is a product between 3 × 3 windows and a kernel ``[9·c, 4·o]``, in which 11 of 36 blocks are 0, then
    depth-to-space.
    """
    _check_size(kernel, 5)
    n, h, w, c = images.shape
    o = kernel.shape[-1]
    # Row 2r + a reads input row r + 1 − u through kernel row 2u + a.
    parts = jnp.pad(kernel, ((0, 1), (0, 1), (0, 0), (0, 0))).reshape(3, 2, 3, 2, c, o)[::-1, :, ::-1]
    parts = parts.transpose(0, 2, 4, 1, 3, 5).reshape(3, 3, c, 4 * o)
    phases = _convolution_by_patches(images, parts, (1, 1), "SAME")
    return phases.reshape(n, h, w, 2, 2, o).transpose(0, 1, 3, 2, 4, 5).reshape(n, 2 * h, 2 * w, o)


# ``transposed_convolution_five(images [n, h, w, c], kernel [5, 5, c, o]) -> [n, 2h, 2w, o]``: ``y[p] = Σ_{2i + k = p +
# 2} x[i] w[k]`` in each direction; equals ``torch.nn.ConvTranspose2d(c, o, 5, 2, padding=2, output_padding=1)``.
transposed_convolution_five = Kernel(cpu=_five_direct, accelerator=_five_by_patches, tpu=_five_direct)


def enlarged(images: Images) -> Float[Array, "n y x c"]:
    """Each pixel as 2 × 2 pixels."""
    n, h, w, c = images.shape
    twice = jnp.broadcast_to(images[:, :, None, :, None], (n, h, 2, w, 2, c))
    return twice.reshape(n, 2 * h, 2 * w, c)


def pooled_convolution(images: Images, kernel: Float[Array, "3 3 c o"], *_, **__) -> Maps:
    """A convolution with SAME padding, then the mean of 2 × 2 pixels: one with stride 2, for 16 products instead of
    36."""
    return convolution(images, 0.25 * _box_filtered(kernel), (2, 2), "SAME")


def enlarged_convolution(images: Images, kernel: Float[Array, "3 3 c o"], *_, **__) -> Maps:
    """:func:`enlarged`, then a convolution with SAME padding: a transposed one, for 16 products instead of 36."""
    return transposed_convolution(images, _box_filtered(kernel))


def _box_filtered(kernel: Float[Array, "3 3 c o"]) -> Float[Array, "4 4 c o"]:
    """The kernel summed over windows of 2 × 2 positions."""
    padded = jnp.pad(kernel, ((1, 1), (1, 1), (0, 0), (0, 0)))
    return padded[:-1, :-1] + padded[:-1, 1:] + padded[1:, :-1] + padded[1:, 1:]
