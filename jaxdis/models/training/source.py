"""Where images come from in training: a pure sampler that runs inside the program."""

import dataclasses
import hashlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdis.arrays import as_numpy
from jaxdis.models.images import Images, checked_images, unit_images
from jaxdis.typing import Array, Float


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Source:
    """Independent images, drawn with replacement from a renderer or an array.

    The source is a pytree and an argument of programs: large tables and arrays of images are not compiled in, and two
    sources of the same kind share one program.

    Attributes:
      arrays: the tables of the renderer, or the images.
      draw: ``(arrays, key, n) → images [n, h, w, c]``, float32 in [0, 1]; hashable.
      num_data: number of distinct images, which estimators of total correlation need.
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
    """Data to train on, checked and wrapped.

    Args:
      data: ``(space, render)``, with ``space.sample(key, n) → factors [n, k]`` and a pure ``render(factors, key) →
        images [n, h, w, c]`` in [0, 1] or uint8; or an array of images ``[n, h, w, c]`` (or ``[n, h, w]`` for one
        channel), uint8 in 0…255, bool, or real numbers in [0, 1]; or a :class:`Source`.

    Raises:
      ValueError: naming what is needed and what was passed.
    """
    if isinstance(data, Source):
        return data
    if isinstance(data, tuple) and len(data) == 2 and callable(data[1]):
        return _rendered(*data)
    return _stored(as_numpy(data, "data"))


def fingerprint(source: Source) -> str:
    """16 hexadecimal digits that identify the arrays, the lattice and the image shape, for run directories."""
    digest = hashlib.sha256()
    digest.update(repr((source.num_data, source.image_shape, source.draw.identity(source.arrays))).encode())
    for leaf in jax.tree.leaves(source.arrays):
        array = np.ascontiguousarray(leaf)
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(array.data)
    return digest.hexdigest()[:16]


@dataclasses.dataclass(frozen=True)
class _FromLattice:
    """Factors are drawn and rendered; the arrays of the source are an :class:`Images`."""

    space: Any

    def __call__(self, arrays: Images, key, n: int) -> Array:
        factor_key, render_key = jax.random.split(key)
        return unit_images(arrays(self.space.sample(factor_key, n), render_key))

    def identity(self, arrays) -> str:
        return f"{self.space!r} {_named(Images.of(arrays).renderer)}"


@dataclasses.dataclass(frozen=True)
class _FromArray:
    num_images: int

    def __call__(self, arrays, key, n: int) -> Array:
        return unit_images(arrays[jax.random.randint(key, (n,), 0, self.num_images)])

    def identity(self, arrays) -> str:
        return "array"


def _rendered(space, render) -> Source:
    if not callable(getattr(space, "sample", None)) or not hasattr(space, "num_cells"):
        raise ValueError(
            f"data: needs a space with sample and num_cells beside the renderer, got {type(space).__name__}"
        )
    draw, arrays = _FromLattice(space), Images.of(render)
    images = jax.eval_shape(lambda arrays, key: draw(arrays, key, 2), arrays, jax.random.key(0))
    if images.ndim != 4:
        raise ValueError(
            f"data: needs a renderer that returns [n, height, width, channels], got shape {images.shape} for n = 2"
        )
    return Source(arrays, draw, int(space.num_cells), images.shape[1:])


def _stored(array: np.ndarray) -> Source:
    images = checked_images(array, "data")
    return Source(jnp.asarray(images), _FromArray(images.shape[0]), images.shape[0], images.shape[1:])


def _named(render) -> str:
    """A renderer by the names of its functions and its plain fields, which do not depend on the process or on paths."""
    if callable(render) and hasattr(render, "__qualname__"):
        return f"{render.__module__}.{render.__qualname__}"
    if not dataclasses.is_dataclass(render):
        return type(render).__qualname__
    identifying = (field.name for field in dataclasses.fields(render) if field.metadata.get("identity", True))
    fields = {name: getattr(render, name) for name in identifying}
    plain = {n: _named(v) if callable(v) else v for n, v in fields.items() if callable(v) or _is_plain(v)}
    return f"{type(render).__qualname__} {plain}"


def _is_plain(value) -> bool:
    return isinstance(value, str | int | float | bool) or (isinstance(value, tuple) and all(map(_is_plain, value)))
