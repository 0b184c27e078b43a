"""Where a training program's images come from: a pure sampler that is drawn from inside the program."""

import dataclasses
import hashlib
import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdis.typing import Array, Float, as_numpy


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Source:
    """Independent images with replacement, from a renderer or an array.

    A pytree, passed to programs as an argument: large tables and image arrays are not compiled into them, and two
    sources of the same kind share one program.

    Attributes:
      arrays: the renderer's tables or the images.
      draw: ``(arrays, key, n) → images [n, h, w, c]``, float32 in [0, 1]; hashable.
      num_data: distinct images (the estimators of total correlation need it).
      image_shape: ``(height, width, channels)``.
    """

    arrays: Any
    draw: Callable = dataclasses.field(metadata={"static": True})
    num_data: int = dataclasses.field(metadata={"static": True})
    image_shape: tuple[int, int, int] = dataclasses.field(metadata={"static": True})

    def images(self, key, n: int) -> Float[Array, "n h w c"]:
        """``n`` images, float32 in [0, 1]."""
        return self.draw(self.arrays, key, n)


def as_source(data) -> Source:
    """Check and wrap what a user trains on.

    Args:
      data: ``(space, render)``, with ``space.sample(key, n) → factors [n, k]`` and a pure ``render(factors, key) →
        images [n, h, w, c]`` in [0, 1] or uint8; or an array of images ``[n, h, w, c]`` (or ``[n, h, w]`` for one
        channel), uint8 in 0…255, bool, or real numbers in [0, 1]; or a :class:`Source`.

    Raises:
      ValueError: naming what came and what is needed.
    """
    if isinstance(data, Source):
        return data
    if isinstance(data, tuple) and len(data) == 2 and callable(data[1]):
        return _rendered(*data)
    return _stored(as_numpy(data, "data"))


def fingerprint(source: Source) -> str:
    """16 hexadecimal digits that change when the arrays, the lattice or the image shape do; for run directories."""
    digest = hashlib.sha256()
    digest.update(repr((source.num_data, source.image_shape, source.draw.identity(source.arrays))).encode())
    for leaf in jax.tree.leaves(source.arrays):
        array = np.ascontiguousarray(leaf)
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(array.data)
    return digest.hexdigest()[:16]


@dataclasses.dataclass(frozen=True)
class _FromLattice:
    """Draw factors, render them. ``render`` is None where the renderer is a pytree and comes in as the arrays."""

    space: Any
    render: Callable | None
    takes_key: bool

    def __call__(self, arrays, key, n: int) -> Array:
        factor_key, render_key = jax.random.split(key)
        factors = self.space.sample(factor_key, n)
        render = arrays if self.render is None else self.render
        return unit_images(render(factors, render_key) if self.takes_key else render(factors))

    def identity(self, arrays) -> str:
        render = arrays if self.render is None else self.render
        return f"{self.space!r} {_named(render)}"


@dataclasses.dataclass(frozen=True)
class _FromArray:
    num_images: int

    def __call__(self, arrays, key, n: int) -> Array:
        return unit_images(arrays[jax.random.randint(key, (n,), 0, self.num_images)])

    def identity(self, arrays) -> str:
        return "array"


def unit_images(images: Array) -> Array:
    """float32 in [0, 1] from float, boolean or uint8 (0…255) images."""
    flat = images.reshape(images.shape[0], -1)  # a last axis of length 1 would not be vectorised on CPU
    scale = np.float32(1 / 255 if images.dtype == jnp.uint8 else 1)
    return (flat.astype(jnp.float32) * scale).reshape(images.shape)


def checked_images(images, name: str, image_shape: tuple[int, int, int] | None = None) -> np.ndarray:
    """Images on the host as ``[n, h, w, c]``, uint8 or float32.

    Raises:
      ValueError: for a shape, dtype or range that images do not have, or another image shape than needed.
    """
    array = as_numpy(images, name)
    array = array[..., None] if array.ndim == 3 else array
    if array.ndim != 4 or 0 in array.shape:
        raise ValueError(f"{name}: needs images of shape [n, height, width, channels], got {array.shape}")
    if image_shape is not None and array.shape[1:] != tuple(image_shape):
        raise ValueError(f"{name}: needs images of shape {tuple(image_shape)}, got {array.shape[1:]}")
    if array.dtype == np.uint8:
        return array
    if array.dtype.kind not in "bf":
        raise ValueError(f"{name}: needs uint8 (0…255), bool or real numbers in [0, 1], got dtype {array.dtype}")
    low, high = float(array.min()), float(array.max())
    # NaN compares false, so it is caught here too.
    if not (low >= 0 and high <= 1):
        raise ValueError(f"{name}: needs values in [0, 1] (or uint8 in 0…255), got {low:g} to {high:g}")
    return array.astype(np.float32)


def _rendered(space, render) -> Source:
    if not callable(getattr(space, "sample", None)) or not hasattr(space, "num_cells"):
        raise ValueError(f"data: needs a space with sample and num_cells beside the render, got {type(space).__name__}")
    leaves = jax.tree.leaves(render)
    is_pytree = all(hasattr(leaf, "dtype") for leaf in leaves)
    takes_key = _takes_key(render)
    draw = _FromLattice(space, None if is_pytree else render, takes_key)
    arrays = render if is_pytree else ()
    images = jax.eval_shape(lambda arrays, key: draw(arrays, key, 2), arrays, jax.random.key(0))
    if images.ndim != 4:
        raise ValueError(
            f"data: needs a render giving [n, height, width, channels], got shape {images.shape} for n = 2"
        )
    return Source(arrays, draw, int(space.num_cells), images.shape[1:])


def _stored(array: np.ndarray) -> Source:
    images = checked_images(array, "data")
    return Source(jnp.asarray(images), _FromArray(images.shape[0]), images.shape[0], images.shape[1:])


def _named(render) -> str:
    """A renderer by the names of its functions and its plain fields: the same in every process."""
    if callable(render) and hasattr(render, "__qualname__"):
        return f"{render.__module__}.{render.__qualname__}"
    if not dataclasses.is_dataclass(render):
        return type(render).__qualname__
    fields = {field.name: getattr(render, field.name) for field in dataclasses.fields(render)}
    plain = {n: _named(v) if callable(v) else v for n, v in fields.items() if callable(v) or _is_plain(v)}
    return f"{type(render).__qualname__} {plain}"


def _is_plain(value) -> bool:
    return isinstance(value, str | int | float | bool) or (isinstance(value, tuple) and all(map(_is_plain, value)))


def _takes_key(render) -> bool:
    """Whether the renderer has a second parameter, for renderers that draw noise."""
    try:
        return len(inspect.signature(render).parameters) > 1
    except (TypeError, ValueError):
        return False
