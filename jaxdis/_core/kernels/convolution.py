"""Convolutions, and transposes of those with stride 2: patches and one matrix product on a GPU, else the direct form.

A convolution vmapped over its *weights* (a zoo) becomes a grouped convolution, which is slow. Written as a product
between patches and a flattened kernel, it becomes a batched matrix product, for GPUs. On a CPU the copies into patches
cost as much as the products, and a TPU runs one operation after the other anyway and would move four times the bytes:
:mod:`~jaxdis._core.kernels.convolution_direct` takes one member after the other there, without copies. Kernels have the
ordinary layout ``[size, size, in, out]``, so that all forms have the same parameters. Each is a function that
``flax.linen.Conv`` takes instead of its own, as ``conv_general_dilated``; see :mod:`~jaxdis.models.networks._layers`.
"""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from jaxdis._core.kernels import convolution_direct as direct
from jaxdis._core.kernels import convolution_patches as patches
from jaxdis._core.kernels.convolution_window import Window
from jaxdis._core.kernels.kernel import Kernel

_LAYOUT = ("NHWC", "HWIO", "NHWC")


def _convolution_reference(images, kernel, strides, padding, **_):
    return lax.conv_general_dilated(images, kernel, strides, padding, dimension_numbers=_LAYOUT)


def _window(images, kernel, strides, padding) -> Window:
    size, stride, sides = kernel.shape[0], strides[0], images.shape[1:3]
    pads = lax.padtype_to_pads(sides, (size, size), strides, padding) if isinstance(padding, str) else padding
    small = tuple((side + sum(pad) - size) // stride + 1 for side, pad in zip(sides, pads, strict=True))
    return Window(size, stride, tuple(before for before, _ in pads), sides, small, _precision())


def _precision() -> str | None:
    """How precise products are where this is traced: gradients are often traced elsewhere."""
    return jax.config.jax_default_matmul_precision


def _convolution_direct(
    images: Float[Array, "n h w c"], kernel: Float[Array, "s s c o"], strides, padding, **_
) -> Float[Array, "n y x o"]:
    window = _window(images, kernel, strides, padding)
    return (direct if window.size > 1 else patches).shrink(images, kernel, window)


def _convolution_by_patches(
    images: Float[Array, "n h w c"], kernel: Float[Array, "s s c o"], strides, padding, **_
) -> Float[Array, "n y x o"]:
    window = _window(images, kernel, strides, padding)
    if window.stride == 1 or window.size % 2:
        return patches.shrink(images, kernel, window)
    # Blocks of 2 × 2 pixels as channels: a convolution of half the size with stride 1.
    half, (inputs, outputs) = window.size // 2, kernel.shape[2:]
    blocks = space_to_depth(patches.padded(window, images))
    kernel = kernel.reshape(half, 2, half, 2, inputs, outputs).transpose(0, 2, 1, 3, 4, 5)
    kernel = kernel.reshape(half, half, 4 * inputs, outputs)
    return patches.shrink(blocks, kernel, Window(half, 1, (0, 0), blocks.shape[1:3], window.small, _precision()))


# ``convolution(images [n, h, w, c], kernel [s, s, c, o], strides, padding) -> [n, y, x, o]``:
# ``lax.conv_general_dilated`` as ``flax.linen.Conv`` calls it, for square kernels, equal strides and no dilation;
# positions that a stride leaves over at the end are not read.
convolution = Kernel(
    _convolution_reference,
    {"direct": _convolution_direct, "patches": _convolution_by_patches},
    cpu="direct",
    accelerator="patches",
    tpu="direct",
)


def _check_size(kernel, size: int) -> None:
    if kernel.shape[0] != size:
        raise ValueError(f"kernel: must have size {size}, got {kernel.shape[0]}")


def _transposed_reference(images, kernel, *_, **__):
    return lax.conv_transpose(images, kernel, (2, 2), "SAME", dimension_numbers=_LAYOUT)


def _transposed_direct(
    images: Float[Array, "n h w c"], kernel: Float[Array, "s s c o"], *_, **__
) -> Float[Array, "n y x o"]:
    _check_size(kernel, 4)
    _, h, w, _ = images.shape
    window = Window(4, 2, (1, 1), (2 * h, 2 * w), (h, w), _precision())
    return direct.enlarge(images, kernel[::-1, ::-1].transpose(0, 1, 3, 2), window)


def _transposed_by_patches(
    images: Float[Array, "n h w c"], kernel: Float[Array, "s s c o"], *_, **__
) -> Float[Array, "n y x o"]:
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
transposed_convolution = Kernel(
    _transposed_reference,
    {"direct": _transposed_direct, "patches": _transposed_by_patches},
    cpu="direct",
    accelerator="patches",
    tpu="direct",
)


def _five_reference(images, kernel, *_, **__):
    return lax.conv_general_dilated(
        images, kernel[::-1, ::-1], (1, 1), [(2, 3)] * 2, lhs_dilation=(2, 2), dimension_numbers=_LAYOUT
    )


def _five_direct(images: Float[Array, "n h w c"], kernel: Float[Array, "s s c o"], *_, **__) -> Float[Array, "n y x o"]:
    _check_size(kernel, 5)
    _, h, w, _ = images.shape
    window = Window(5, 2, (2, 2), (2 * h, 2 * w), (h, w), _precision())
    return direct.enlarge(images, kernel.transpose(0, 1, 3, 2), window)


def _five_by_patches(
    images: Float[Array, "n h w c"], kernel: Float[Array, "s s c o"], *_, **__
) -> Float[Array, "n y x o"]:
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
transposed_convolution_five = Kernel(
    _five_reference,
    {"direct": _five_direct, "patches": _five_by_patches},
    cpu="direct",
    accelerator="patches",
    tpu="direct",
)


def enlarged(images: Float[Array, "n h w c"]) -> Float[Array, "n y x c"]:
    """Each pixel as 2 × 2 pixels."""
    n, h, w, c = images.shape
    twice = jnp.broadcast_to(images[:, :, None, :, None], (n, h, 2, w, 2, c))
    return twice.reshape(n, 2 * h, 2 * w, c)


def space_to_depth(images: Float[Array, "n h w c"]) -> Float[Array, "n y x e"]:
    """Blocks of 2 × 2 pixels as channels, in the order (row, column, channel): ``[n, h/2, w/2, 4c]``."""
    n, h, w, c = images.shape
    blocks = images.reshape(n, h // 2, 2, w // 2, 2, c).transpose(0, 1, 3, 2, 4, 5)
    return blocks.reshape(n, h // 2, w // 2, 4 * c)


def pooled_convolution(
    images: Float[Array, "n h w c"], kernel: Float[Array, "3 3 c o"], *_, **__
) -> Float[Array, "n y x o"]:
    """A convolution with SAME padding, then the mean of 2 × 2 pixels: one with stride 2, for 16 products instead of
    36."""
    return convolution(images, 0.25 * _box_filtered(kernel), (2, 2), "SAME")


def enlarged_convolution(
    images: Float[Array, "n h w c"], kernel: Float[Array, "3 3 c o"], *_, **__
) -> Float[Array, "n y x o"]:
    """:func:`enlarged`, then a convolution with SAME padding: a transposed one, for 16 products instead of 36."""
    return transposed_convolution(images, _box_filtered(kernel))


def _box_filtered(kernel: Float[Array, "3 3 c o"]) -> Float[Array, "4 4 c o"]:
    """The kernel summed over windows of 2 × 2 positions."""
    padded = jnp.pad(kernel, ((1, 1), (1, 1), (0, 0), (0, 0)))
    return padded[:-1, :-1] + padded[:-1, 1:] + padded[1:, :-1] + padded[1:, 1:]
