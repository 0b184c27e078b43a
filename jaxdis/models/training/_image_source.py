"""Where images come from in training: a pure sampler that runs inside the program."""

import dataclasses
import hashlib
import inspect
import types
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float, Int, Num

from jaxdis._core import random
from jaxdis._core.arrays import as_numpy
from jaxdis.data._factor_space import FactorSpace, Listed
from jaxdis.models._images import Images, check_unit_values, checked_images, noise_key, unit_images


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Source:
    """Independent images, drawn with replacement from a renderer or an array.

    The source is a pytree and an argument of programs: large tables and image arrays are not compiled in, and two
    sources of the same kind share one program. ``arrays`` are the renderer's tables, or the images (and their factors),
    from which ``draw``, which is hashable, draws examples. ``num_data`` distinct images, which estimators of total
    correlation need; None: infinitely many. ``num_factors`` is None for images without factors.
    """

    arrays: Any
    draw: "_FromLattice | _FromArray" = dataclasses.field(metadata={"static": True})
    num_data: int | None = dataclasses.field(metadata={"static": True})
    image_shape: tuple[int, int, int] = dataclasses.field(metadata={"static": True})
    num_factors: int | None = dataclasses.field(default=None, metadata={"static": True})

    @property
    def is_finite_list(self) -> bool:
        """Whether the images are an array, rather than what a renderer draws."""
        return isinstance(self.draw, _FromArray)

    def images(self, key, n: int) -> Float[Array, "n h w c"]:
        """``n`` images, float32 in [0, 1]."""
        return self.draw(self.arrays, key, n)[0]

    def examples(self, key, n: int, among: int | None = None) -> tuple[Float[Array, "n h w c"], Num[Array, "n k"]]:
        """``n`` images and their factors; with ``among``, from the first that many examples of :meth:`at`."""
        if among is None:
            return self.draw(self.arrays, key, n)
        return self.at(random.randint(key, (n,), 0, among))

    def at(self, places: Int[Array, " n"]) -> tuple[Float[Array, "n h w c"], Num[Array, "n k"] | None]:
        """Examples from a fixed sequence, the same for every member: the array in its order, or a renderer's draws."""
        return self.draw.at(self.arrays, places)


def as_source(data) -> Source:
    """Data as for :func:`jaxdis.models.train`, or a :class:`Source`, checked and wrapped; ``[n, h, w]`` is gray."""
    if isinstance(data, Source):
        return data
    if isinstance(data, tuple) and len(data) == 2 and callable(data[1]):
        return _rendered(*data)
    if isinstance(data, tuple) and len(data) == 2:
        return _stored(as_numpy(data[0], "data"), as_numpy(data[1], "factors"))
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
    """Factors are drawn and rendered; the source's arrays are an :class:`Images` and a draw's tables."""

    space: Any
    tied: tuple[int, ...] | None  # positions of the factors whose cells and weights are in the arrays

    def __call__(self, arrays: tuple[Images, tuple], key, n: int) -> tuple[Array, Array]:
        images, tables = arrays
        factor_key, render_key = jax.random.split(key)
        factors = self._sample(tables, factor_key, n)
        return unit_images(images(factors, render_key)), factors

    def at(self, arrays: tuple[Images, tuple], places) -> tuple[Array, Array]:
        images, tables = arrays
        keys = jax.vmap(jax.random.fold_in, (None, 0))(jax.random.key(0), places)
        factors = jax.vmap(lambda key: self._sample(tables, key, 1)[0])(keys)
        return unit_images(images.apart(factors, jax.vmap(noise_key)(keys))), factors

    def identity(self, arrays) -> str:
        return f"{self.space!r} {self.tied} {_named(arrays[0].renderer)}"

    def _sample(self, tables, key, n: int) -> Array:
        if self.tied is None:
            return self.space.sample(key, n)
        return self.space.drawn(key, n, Listed(self.tied, *tables))


@dataclasses.dataclass(frozen=True)
class _FromArray:
    num_images: int

    def __call__(self, arrays, key, n: int) -> tuple[Array, Array | None]:
        return self.at(arrays, random.randint(key, (n,), 0, self.num_images))

    def at(self, arrays, places) -> tuple[Array, Array | None]:
        images, factors = arrays
        places = places % self.num_images
        return unit_images(images[places]), None if factors is None else factors[places]

    def identity(self, arrays) -> str:
        return "array"


def _rendered(space, render) -> Source:
    continuous = bool(getattr(space, "continuous", ()))
    if not callable(getattr(space, "sample", None)) or not (continuous or hasattr(space, "num_cells")):
        raise ValueError(
            f"data: must be a space with sample and num_cells beside the renderer, got {type(space).__name__}"
        )
    num_data = None if continuous else int(space.num_cells)
    draw, tables = _FromLattice(space, None), ()
    if type(space) is FactorSpace:
        unrestricted, tied = space.apart()
        draw, tables = _FromLattice(unrestricted, tied.positions), jax.device_put(tied[1:])
    arrays = (Images.of(render), tables)
    images, factors = jax.eval_shape(lambda arrays, key: draw(arrays, key, 2), arrays, jax.random.key(0))
    if images.ndim != 4:
        raise ValueError(
            f"data: must be a renderer that returns [n, height, width, channels], got shape {images.shape} for n = 2"
        )
    if not type(arrays[0].renderer).__module__.startswith("jaxdis."):
        check_unit_values(arrays[0](space.sample(jax.random.key(0), 1), jax.random.key(1)), "data")
    return Source(arrays, draw, num_data, images.shape[1:], factors.shape[1])


def _stored(array: np.ndarray, factors: np.ndarray | None = None) -> Source:
    images = checked_images(array, "data")
    n = len(images)
    if factors is not None and (factors.ndim != 2 or len(factors) != n or factors.dtype.kind not in "iuf"):
        raise ValueError(f"factors: must be numbers [{n}, k], one row per image, got {factors.shape} {factors.dtype}")
    if factors is not None and not (factors.size and np.isfinite(factors).all()):
        raise ValueError(f"factors: must have at least one factor and finite numbers, got shape {factors.shape}")
    arrays = jax.device_put((images, factors))  # unlike jnp.asarray, never holds two copies on the way
    return Source(arrays, _FromArray(n), n, images.shape[1:], None if factors is None else factors.shape[1])


def _named(render) -> str:
    """A renderer by its functions' names and its plain fields, which do not depend on the process or on paths."""
    if callable(render) and hasattr(render, "__qualname__"):
        name = f"{render.__module__}.{render.__qualname__}"
        function = inspect.unwrap(render)
        local = "<" in render.__qualname__ and isinstance(function, types.FunctionType)
        return f"{name} {_code(function)}" if local else name
    if not dataclasses.is_dataclass(render):
        return type(render).__qualname__
    identifying = (field.name for field in dataclasses.fields(render) if field.metadata.get("identity", True))
    fields = {name: getattr(render, name) for name in identifying}
    plain = {n: _named(v) if callable(v) else v for n, v in fields.items() if callable(v) or _is_plain(v)}
    return f"{type(render).__qualname__} {plain}"


def _code(function: types.FunctionType) -> str:
    """What tells functions apart that share a name, lambdas and local ones: their code, defaults and closures."""
    digest = hashlib.sha256()

    def add(value) -> None:
        value = inspect.unwrap(value) if callable(value) else value
        if isinstance(value, types.FunctionType):  # without its closure, which may hold itself
            value = value.__code__
        if isinstance(value, types.CodeType):
            digest.update(value.co_code)
            for each in (*value.co_names, *value.co_consts):
                add(each)
        elif hasattr(value, "dtype"):
            digest.update(f"{value.dtype}{value.shape}".encode() + np.asarray(value).tobytes())
        else:
            digest.update((repr(value) if _is_plain(value) else _named(value)).encode())

    add(function.__code__)
    defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    for value in (*defaults, *(cell.cell_contents for cell in function.__closure__ or ())):
        add(value)
    return digest.hexdigest()[:16]


def _is_plain(value) -> bool:
    return isinstance(value, str | int | float | bool) or (isinstance(value, tuple) and all(map(_is_plain, value)))
