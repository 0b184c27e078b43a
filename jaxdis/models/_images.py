"""Images and renderers: how renderers are called and how images are checked."""

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxdis._core.arrays import as_numpy

# Folded into a key, this gives a stream that is distinct from every split of that key.
_NOISE = 0x6E6F6973
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Images:
    """A renderer and how it is called: ``images(factors [n, k], key) → [n, h, w, c]``.

    The value is a pytree, so that it can be passed to jitted functions. A renderer that is a pytree with arrays becomes
    an argument, ``arrays``, and its tables are not compiled into programs; any other renderer is static, ``render``.
    """

    arrays: Any
    render: Callable | None = dataclasses.field(metadata={"static": True})
    takes_key: bool = dataclasses.field(metadata={"static": True})
    draws_noise: bool = dataclasses.field(metadata={"static": True})

    @classmethod
    def of(cls, render: "Callable | Images") -> "Images":
        """Wrap a renderer, ``render(factors)`` or ``render(factors, key)``; a wrapped one is returned unchanged."""
        if isinstance(render, cls):
            return render
        if not callable(render):
            raise ValueError(f"render: must be a function of factors [n, k], got {type(render).__name__}")
        is_pytree = all(hasattr(leaf, "dtype") for leaf in jax.tree.leaves(render))
        takes_key = _takes_key(render)
        draws_noise = takes_key and bool(getattr(render, "draws_noise", True))
        return cls(render if is_pytree else (), None if is_pytree else render, takes_key, draws_noise)

    @property
    def renderer(self) -> Callable:
        return self.arrays if self.render is None else self.render

    def __call__(self, factors: Array, key: Array) -> Array:
        return self.renderer(factors, key) if self.takes_key else self.renderer(factors)

    def apart(self, factors: Array, keys: Array) -> Array:
        """Images for factors, each with noise from its own key, so that no image depends on another."""
        if not self.draws_noise:
            return self(factors, keys[0])
        return jax.vmap(lambda row, key: self(row[None], key)[0])(factors, keys)


def noise_key(key: Array) -> Array:
    """A key for images' noise, distinct from every split of the given key."""
    return jax.random.fold_in(key, _NOISE)


def unit_images(images: Array) -> Array:
    """float32 in [0, 1] from float, boolean or uint8 (0…255) images."""
    if images.dtype != jnp.uint8 and jnp.issubdtype(images.dtype, jnp.integer):
        raise ValueError(f"images: must be uint8 (0…255), bool or real numbers in [0, 1], got dtype {images.dtype}")
    flat = images.reshape(images.shape[0], -1)  # a last axis of length 1 is not vectorized on CPU
    scale = np.float32(1 / 255 if images.dtype == jnp.uint8 else 1)
    return (flat.astype(jnp.float32) * scale).reshape(images.shape)


def checked_images(images, name: str, image_shape: tuple[int, int, int] | None = None) -> np.ndarray:
    """Images on the host as ``[n, h, w, c]``, uint8 or float32."""
    array = as_numpy(images, name)
    array = array[..., None] if array.ndim == 3 else array
    if array.ndim != 4 or 0 in array.shape:
        raise ValueError(f"{name}: must have images of shape [n, height, width, channels], got {array.shape}")
    check_image_shape(array.shape, name, image_shape)
    if array.dtype == np.uint8:
        return array
    if array.dtype.kind not in "bf":
        raise ValueError(f"{name}: must be uint8 (0…255), bool or real numbers in [0, 1], got dtype {array.dtype}")
    check_unit_values(array, name)
    return array.astype(np.float32)


def check_unit_values(images, name: str) -> None:
    """Check the values of real images; uint8 ones have no others."""
    low, high = float(images.min()), float(images.max())
    # NaN compares false and is therefore caught here too.
    if images.dtype != np.uint8 and not (low >= 0 and high <= 1):
        raise ValueError(f"{name}: must be values in [0, 1] (or uint8 in 0…255), got {low:g} to {high:g}")


def check_image_shape(shape: tuple[int, ...], name: str, image_shape: tuple[int, int, int] | None) -> None:
    """Compare a shape ``(n, h, w, c)`` with the image shape that a method was made for, if it is known."""
    if image_shape is not None and tuple(shape[1:]) != tuple(image_shape):
        raise ValueError(f"{name}: must have images of shape {tuple(image_shape)}, got {tuple(shape[1:])}")


def _takes_key(render: Callable) -> bool:
    """Whether the renderer has a second positional parameter, as renderers that draw noise do."""
    try:
        parameters = inspect.signature(render).parameters.values()
    except (TypeError, ValueError):
        return False
    return sum(parameter.kind in _POSITIONAL for parameter in parameters) > 1
