"""Convolutions, and transposes of those of stride 2: patches and one matrix product, or the direct form on CPU.

On an accelerator, a convolution vmapped over its *weights* (a zoo) becomes a grouped convolution, which is slow.
Written as a product of patches with a flattened kernel, it becomes a batched matrix product. On CPU the copies into
patches cost as much as the products, and :mod:`~jaxdis.models.networks._convolution_direct` needs none. Kernels have
the ordinary layout ``[size, size, in, out]``, so that all forms have the same parameters.
"""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from jaxdis._core.platforms import on_cpu
from jaxdis.models.networks._convolution_direct import Window, enlarge, shrink


def convolve_same(images: Float[Array, "n h w c"], kernel: Float[Array, "s s c o"]) -> Float[Array, "n h w o"]:
    """Cross-correlation of stride 1 and SAME padding, kernel size 1 or 3.

    Returns:
      ``[n, h, w, o]``; equals ``flax.linen.Conv(o, (size, size))`` without bias.
    """
    size = kernel.shape[0]
    if size not in (1, 3):
        raise ValueError(f"kernel: needs size 1 or 3 for a convolution of stride 1 by patches, got {size}")
    return convolve_padded(images, kernel, padding=size // 2)


def convolve_padded(
    images: Float[Array, "n h w c"], kernel: Float[Array, "s s c o"], *, stride: int = 1, padding: int = 0
) -> Float[Array, "n y x o"]:
    """Cross-correlation of any stride and kernel size, with as many zeros on each side, as in PyTorch.

    Returns:
      ``[n, ⌊(h + 2·padding − size) / stride⌋ + 1, …, o]``; equals ``flax.linen.Conv(o, (size, size), stride, padding)``
      without bias.
    """
    size, inputs, outputs = kernel.shape[0], *kernel.shape[2:]
    if _direct() and size > 1:
        sides = images.shape[1:3]
        small = tuple((side + 2 * padding - size) // stride + 1 for side in sides)
        return shrink(images, kernel, Window(size, stride, padding, sides, small))
    images = jnp.pad(images, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    rows, columns = ((side - size) // stride * stride + 1 for side in images.shape[1:3])
    # First rows, then columns: 2 · size slices in place of size², which take less time to compile.
    images = jnp.concatenate([images[:, i : i + rows : stride] for i in range(size)], axis=-1)
    patches = jnp.concatenate([images[:, :, j : j + columns : stride] for j in range(size)], axis=-1)
    return _product(patches, kernel.transpose(3, 1, 0, 2).reshape(outputs, size * size * inputs))


def convolve(images: Float[Array, "n h w c"], kernel: Float[Array, "s s c o"]) -> Float[Array, "n y x o"]:
    """Cross-correlation of stride 2 and SAME padding, kernel size 2 or 4.

    Args:
      images: ``[n, h, w, c]``, any height and width.
      kernel: ``[size, size, c, o]``, size 2 or 4.

    Returns:
      ``[n, ⌈h/2⌉, ⌈w/2⌉, o]``; equals ``flax.linen.Conv(o, (size, size), strides=2)`` without bias.
    """
    size = kernel.shape[0]
    if size not in (2, 4):
        raise ValueError(f"kernel: needs size 2 or 4 for a convolution by patches, got {size}")
    if _direct():
        h, w = images.shape[1:3]
        return shrink(images, kernel, Window(size, 2, (size - 2) // 2, (h, w), (-(-h // 2), -(-w // 2))))
    images = _even(images)
    if size == 4:
        blocks = space_to_depth(jnp.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0))))
        patches = _windows(blocks)
    else:
        patches = space_to_depth(images)
    return _product(patches, _flat_kernel(kernel))


def convolve_transposed(images: Float[Array, "n h w c"], kernel: Float[Array, "s s c o"]) -> Float[Array, "n y x o"]:
    """Transposed convolution of stride 2, kernel size 4 and SAME padding: twice the height and width.

    As patches: output block ``i`` (rows ``2i−1`` and ``2i``) depends on input rows ``i−1`` and ``i`` alone. The result
    is therefore a product of 2 × 2 windows with a kernel ``[4·c, 4·o]``, then depth-to-space, then a crop of one pixel
    per side.

    Returns:
      ``[n, 2h, 2w, o]``; equals ``flax.linen.ConvTranspose(o, (4, 4), strides=(2, 2))`` without bias.
    """
    if kernel.shape[0] != 4:
        raise ValueError(f"kernel: needs size 4 for a transposed convolution by patches, got {kernel.shape[0]}")
    n, h, w, c = images.shape
    o = kernel.shape[-1]
    if _direct():
        return enlarge(images, kernel[::-1, ::-1].transpose(0, 1, 3, 2), Window(4, 2, 1, (2 * h, 2 * w), (h, w)))
    windows = _windows(jnp.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0))))
    # Output row 2i−1+δ reads input row i−1+Y through kernel row 2Y+1−δ: split the rows into (Y, 1−δ), then reverse
    # the latter.
    parts = kernel.reshape(2, 2, 2, 2, c, o)[:, ::-1, :, ::-1]
    flat = parts.transpose(1, 3, 5, 0, 2, 4).reshape(4 * o, 4 * c)
    blocks = _product(windows, flat).reshape(n, h + 1, w + 1, 2, 2, o)
    grid = blocks.transpose(0, 1, 3, 2, 4, 5).reshape(n, 2 * h + 2, 2 * w + 2, o)
    return grid[:, 1:-1, 1:-1]


def convolve_transposed_five(
    images: Float[Array, "n h w c"], kernel: Float[Array, "s s c o"]
) -> Float[Array, "n y x o"]:
    """Transposed convolution of stride 2 and kernel size 5: ``y[p] = Σ_{2i + k = p + 2} x[i] w[k]`` in each direction.

    As patches: output rows ``2r`` and ``2r + 1`` depend on input rows ``r−1``, ``r`` and ``r+1`` alone. The result is a
    product of 3 × 3 windows with a kernel ``[9·c, 4·o]``, in which 11 of 36 blocks are 0, then depth-to-space.

    Returns:
      ``[n, 2h, 2w, o]``; equals ``torch.nn.ConvTranspose2d(c, o, 5, 2, padding=2, output_padding=1)`` without bias.
    """
    if kernel.shape[0] != 5:
        raise ValueError(f"kernel: needs size 5, got {kernel.shape[0]}")
    n, h, w, c = images.shape
    o = kernel.shape[-1]
    if _direct():
        return enlarge(images, kernel.transpose(0, 1, 3, 2), Window(5, 2, 2, (2 * h, 2 * w), (h, w)))
    # Row 2r + a reads input row r + 1 − u through kernel row 2u + a.
    parts = jnp.pad(kernel, ((0, 1), (0, 1), (0, 0), (0, 0))).reshape(3, 2, 3, 2, c, o)[::-1, :, ::-1]
    phases = convolve_padded(images, parts.transpose(0, 2, 4, 1, 3, 5).reshape(3, 3, c, 4 * o), padding=1)
    return phases.reshape(n, h, w, 2, 2, o).transpose(0, 1, 3, 2, 4, 5).reshape(n, 2 * h, 2 * w, o)


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


def _direct() -> bool:
    return on_cpu()


def _windows(images: Float[Array, "n h w c"]) -> Float[Array, "n y x e"]:
    """Every window of 2 × 2 positions as channels, in the order (row, column, channel)."""
    rows, columns = (side - 1 for side in images.shape[1:3])
    places = [images[:, i : i + rows, j : j + columns] for i in (0, 1) for j in (0, 1)]
    return jnp.concatenate(places, axis=-1)


def _even(images: Float[Array, "n h w c"]) -> Float[Array, "n y x c"]:
    """Images with a row of zeros after each odd side, which has the SAME padding of the next even side."""
    h, w = images.shape[1:3]
    if h % 2 == 0 and w % 2 == 0:
        return images
    return jnp.pad(images, ((0, 0), (0, h % 2), (0, w % 2), (0, 0)))


def _flat_kernel(kernel: Float[Array, "s s c o"]) -> Float[Array, "o e"]:
    """The kernel as ``[o, size²·c]`` in the order of the patches: (block row, block column, row, column, channel)."""
    size, _, c, o = kernel.shape
    half = size // 2
    return kernel.reshape(half, 2, half, 2, c, o).transpose(5, 0, 2, 1, 3, 4).reshape(o, size * size * c)


def _product(patches: Float[Array, "n y x e"], flat: Float[Array, "o e"]) -> Float[Array, "n y x o"]:
    """Patches times kernel. The kernel has output channels first, so that its gradient is a product of wide rows, which
    is five times faster on CPU for few output channels."""
    n, y, x, e = patches.shape
    rows = patches.reshape(n * y * x, e)
    product = lax.dot_general(rows, flat, (((1,), (1,)), ((), ())))
    return product.reshape(n, y, x, flat.shape[0])


def box_filtered(kernel: Float[Array, "s s c o"]) -> Float[Array, "s+1 s+1 c o"]:
    """The kernel summed over windows of 2 × 2 positions.

    With a 3 × 3 kernel, a quarter of it turns a convolution followed by the mean of 2 × 2 pixels into one
    :func:`convolve`, and all of it an enlargement by nearest neighbors followed by a convolution into one
    :func:`convolve_transposed`, for 16 products in place of 36.
    """
    padded = jnp.pad(kernel, ((1, 1), (1, 1), (0, 0), (0, 0)))
    return padded[:-1, :-1] + padded[:-1, 1:] + padded[1:, :-1] + padded[1:, 1:]
