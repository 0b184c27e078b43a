"""What every data set returns besides its factors: a pure function from factors to images."""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Num, PRNGKeyArray, UInt8

from jaxdis._core.arrays import as_numpy
from jaxdis._core.options import is_key, shown
from jaxdis._core.precision import exact_products, single_precision

Images = Float[Array, "... height width channels"] | UInt8[Array, "... height width channels"]

DTYPES = ("float32", "uint8")


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Render:
    """``render(factors [..., k], key=None) → images [..., height, width, channels]``; pure, can be jitted and vmapped.

    Images are float32 in [0, 1] or uint8 in 0…255, as requested from the data set. Class numbers outside the lattice
    are clipped to its edge; with a continuous factor, factors are float32. Only a render that ``draws_noise`` uses the
    key, and it requires one.

    It is a pytree: pass a render that gathers from large ``tables`` to a jitted function as an argument, since a
    closure would compile the tables into the program. A render without tables is hashable and may be static.

    Attributes:
      tables: arrays from which images are gathered; ``()`` for a formula.
      draw: ``(tables, factors [n, k], key) → images [n, height, width, channels]``, float32 in [0, 1] or uint8.
      sizes: how many values each factor has; None for a continuous one.
      shape: (height, width, channels).
      dtype: "float32" or "uint8".
      draws_noise: whether images depend on the key.
      source: "procedural" or "file:<name>".
    """

    tables: tuple
    draw: Callable = dataclasses.field(metadata={"static": True})
    sizes: tuple[int | None, ...] = dataclasses.field(metadata={"static": True})
    shape: tuple[int, int, int] = dataclasses.field(default=(64, 64, 1), metadata={"static": True})
    dtype: str = dataclasses.field(default="float32", metadata={"static": True})
    draws_noise: bool = dataclasses.field(default=False, metadata={"static": True})
    source: str = dataclasses.field(default="procedural", metadata={"static": True, "identity": False})

    @single_precision
    @exact_products
    def __call__(self, factors: Num[Array | np.ndarray, "... k"], key: PRNGKeyArray | None = None) -> Images:
        factors = factors if isinstance(factors, jax.Array) else as_numpy(factors, "factors")
        if factors.ndim < 1 or factors.shape[-1] != len(self.sizes):
            raise ValueError(f"factors: must have shape [..., {len(self.sizes)}], got {factors.shape}")
        continuous = np.array([size is None for size in self.sizes])
        if not (jnp.issubdtype(factors.dtype, jnp.integer) or (continuous.any() and factors.dtype.kind == "f")):
            raise ValueError(f"factors: must be class numbers of a whole type, got dtype {factors.dtype}")
        factors = jnp.asarray(factors)
        if key is not None and not is_key(key):
            raise ValueError(f"key: must be a typed key such as jax.random.key(0), got {shown(key)}")
        if self.draws_noise and key is None:
            raise ValueError("key: must be a typed key for a data set that draws noise for every image, got None")
        dtype = np.float32 if continuous.any() else np.int32
        rows, last = factors.reshape(-1, len(self.sizes)).astype(dtype), np.array([[size or 1 for size in self.sizes]])
        rows = jnp.where(continuous[None, :], rows, jnp.clip(rows, 0, (last - 1).astype(dtype)))
        return _drawn(self, rows, key).reshape(*factors.shape[:-1], *self.shape)

    def pooled(self, count: int) -> "Render":
        """The same data set with each ``count × count`` pixels replaced by their mean.

        Raises:
          ValueError: if the sides are not divisible by ``count``.
        """
        height, width, channels = self.shape
        if not isinstance(count, int) or count < 1 or height % count or width % count:
            raise ValueError(f"pool: must be a divisor of the sides {height} and {width}, got {shown(count)}")
        shape = (height // count, width // count, channels)
        return dataclasses.replace(self, draw=Pooled(self.draw, count), shape=shape)


@jax.jit
def _drawn(render: Render, rows: Num[Array, "n k"], key: PRNGKeyArray | None) -> Images:
    """One program for all calls, although a ``draw`` may map a function that is new in each."""
    return as_dtype(render.draw(render.tables, rows, key), render.dtype)


@dataclasses.dataclass(frozen=True)
class Pooled:
    """A ``draw`` for smaller images: means over ``count × count`` pixels."""

    draw: Callable
    count: int

    def __call__(self, tables, factors, key) -> Float[Array, "n h w c"]:
        images = as_dtype(self.draw(tables, factors, key), "float32")
        n, height, width, channels = images.shape
        blocks = images.reshape(n, height // self.count, self.count, width // self.count, self.count, channels)
        return blocks.mean(axis=(2, 4))


def checked_dtype(dtype) -> str:
    """ "float32" or "uint8", from a name or a dtype."""
    try:
        name = dtype if isinstance(dtype, str) else np.dtype(dtype).name
    except Exception:  # an object may raise anything when asked for its dtype
        name = None
    if name not in DTYPES:
        raise ValueError(f"dtype: must be one of {', '.join(DTYPES)}, got {shown(dtype)}")
    return name


def as_dtype(images: Array, dtype: str) -> Array:
    """float32 in [0, 1] ↔ uint8 in 0…255."""
    if images.dtype == dtype:
        return images
    if dtype == "uint8":
        return jnp.round(images * np.float32(255)).astype(jnp.uint8)
    return images.astype(jnp.float32) * np.float32(1 / 255)
