"""Images that are looked up: lattices on disk, built once, memory-mapped and checked; and lists of images."""

import dataclasses
import errno
import functools
import hashlib
import json
import logging
import os
import zlib
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Num, PRNGKeyArray, UInt8

from jaxdis._core import random, runtime
from jaxdis._core.files import full, is_full, remove_leftovers, replacing, write_json
from jaxdis._core.options import Natural, checked
from jaxdis.data._factor_space import FactorSpace

logger = logging.getLogger(__name__)


def directory() -> Path:
    """The folder for lattices: ``data`` in :func:`jaxdis._core.runtime.default_cache_directory`."""
    return runtime.default_cache_directory() / "data"


def cached(
    name: str, shape: tuple[int, ...], dtype, build: Callable[[np.ndarray], None], origin: str = ""
) -> np.memmap:
    """The array ``name``, memory-mapped read-only; built with ``build(out)`` if it is missing or incomplete on disk.

    ``build`` fills the file itself, mapped for writing, so that building needs no memory as large as the array.
    ``origin`` is what the array was built from: a file with another origin, shape, dtype or checksum is rebuilt, and a
    warning in the log gives the reason.
    """
    path = path_of(name)
    wanted = {"shape": list(shape), "dtype": np.dtype(dtype).name, "origin": origin}
    if path.exists():
        fault = _fault(path, wanted)
        if fault is None:
            return open_array(path)
        logger.warning("%s: %s; building it again", path, fault)
    advice = f"make room, or choose another folder with {runtime.CACHE_VARIABLE}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(path.parent)
        with replacing(path) as temporary:
            out = _mapped(temporary, wanted["dtype"], shape)
            build(out)
            out.flush()
            # The description comes first: between the two steps the old array has a wrong checksum: it is rebuilt.
            write_json(path.with_suffix(".json"), {**wanted, "crc32": _crc32(out)})
            del out
    except OSError as error:
        if is_full(error):
            raise full(error, path.parent, advice) from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise OSError(
                error.errno, f"{os.strerror(error.errno)}: images are kept in {path.parent}; {advice}"
            ) from error
        raise
    return open_array(path)


def _mapped(path: Path, dtype: str, shape: tuple[int, ...]) -> np.memmap:
    """An array in a new file, mapped for writing.

    Disk space is allocated first, because a full disk behind a memory map kills the process.
    """
    out = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
    with open(path, "r+b") as file:
        try:
            os.posix_fallocate(file.fileno(), 0, os.fstat(file.fileno()).st_size)
        except AttributeError:  # the system does not have it
            pass
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):  # the file system does not support it
                raise
    return out


def _fault(path: Path, wanted: dict) -> str | None:
    """Why the file cannot be used, or None."""
    try:
        described = json.loads(path.with_suffix(".json").read_text())
        array = open_array(path)
    except (OSError, ValueError, EOFError, RecursionError) as error:
        return f"cannot be read ({error})"
    if not isinstance(described, dict):
        return f"is described by {type(described).__name__}, needed a JSON object"
    for what, value in wanted.items():
        if described.get(what) != value:
            return f"has {what} {described.get(what)}, needed {value}"
    if list(array.shape) != wanted["shape"] or array.dtype.name != wanted["dtype"]:
        return f"holds {array.dtype.name} {array.shape}, needed {wanted['dtype']} {tuple(wanted['shape'])}"
    if _crc32_of(path, path.stat().st_ino, identity(path)) != described.get("crc32"):
        return "has a different checksum than when it was written"
    return None


@functools.lru_cache(maxsize=64)
def _crc32_of(path: Path, *version) -> int:
    """Of a file, which is read again when it has changed: studies open their data sets for every cell."""
    return _crc32(open_array(path))


def _crc32(array: np.ndarray) -> int:
    return zlib.crc32(np.asarray(array).reshape(-1).view(np.uint8))


def path_of(name: str) -> Path:
    return directory() / f"{name}.npy"


def name_of(prefix: str, origin: str) -> str:
    """A name for an array decoded from a file with this origin."""
    return f"{prefix}-{hashlib.sha256(origin.encode()).hexdigest()[:12]}"


def identity(*paths: Path) -> str:
    """What tells file versions apart without reading them: resolved paths, sizes and modification times."""
    return " ".join(f"{path.resolve()} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in paths)


def open_array(path: str | Path) -> np.memmap:
    """An array on disk, memory-mapped read-only."""
    return np.load(path, mmap_mode="r", allow_pickle=False)


@dataclasses.dataclass(frozen=True)
class Gather:
    """A ``draw`` for :class:`~jaxdis.data._render.Render`: rows ``space.index(factors)`` from ``tables[0]``."""

    space: FactorSpace

    def __call__(self, tables: tuple[Array, ...], factors: Int[Array, "n k"], key=None) -> UInt8[Array, "n h w c"]:
        return tables[0][self.space.index(factors)]


@dataclasses.dataclass(frozen=True)
class HiddenGather:
    """As :class:`Gather`, over a space with an additional factor ``hidden`` that is drawn uniformly for each image."""

    space: FactorSpace
    hidden: str

    def __call__(
        self, tables: tuple[Array, ...], factors: Int[Array, "n k"], key: PRNGKeyArray
    ) -> UInt8[Array, "n h w c"]:
        column = self.space.position(self.hidden)
        drawn = random.randint(key, (len(factors), 1), 0, self.space.sizes[column])
        whole = jnp.concatenate([factors[:, :column], drawn, factors[:, column:]], 1)
        return tables[0][self.space.index(whole)]


def from_host(read: Callable, factors: Num[Array, "n k"], shape: tuple[int, ...]) -> UInt8[Array, "n h w c"]:
    """Images that ``read(factors)`` finds on the host: directly outside of ``jit``, inside through a callback."""
    if not isinstance(factors, jax.core.Tracer):
        return jnp.asarray(read(factors))
    result = jax.ShapeDtypeStruct((factors.shape[0], *shape), jnp.uint8)
    return jax.pure_callback(read, result, factors, vmap_method="sequential")


@dataclasses.dataclass(frozen=True)
class HostGather:
    """A ``draw`` that reads images from a memory-mapped file, for lattices larger than memory.

    ``open`` is a module-level function ``path → array [cells, height, width, channels]`` uint8.
    """

    open: Callable[[str], np.ndarray]
    path: str = dataclasses.field(metadata={"identity": False})
    sizes: tuple[int, ...]
    shape: tuple[int, int, int]

    def __call__(self, tables: tuple[Array, ...], factors: Int[Array, "n k"], key=None) -> UInt8[Array, "n h w c"]:
        return from_host(self._read, factors, self.shape)

    def _read(self, factors) -> np.ndarray:
        rows = np.ravel_multi_index(tuple(np.asarray(factors).T), self.sizes)
        return np.ascontiguousarray(_opened(self.open, self.path)[rows])


@functools.lru_cache(maxsize=32)
def _opened(open_file: Callable[[str], np.ndarray], path: str) -> np.ndarray:
    return open_file(path)


class Digested:
    """``n`` stored things, hashable by a digest of what tells them apart."""

    def __init__(self, count: int, content: bytes):
        self._count, self._digest = count, hashlib.sha256(content).hexdigest()[:16]

    def __eq__(self, other) -> bool:
        return type(other) is type(self) and self._digest == other._digest

    def __hash__(self) -> int:
        return hash(self._digest)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._count}, {self._digest})"


class Listing(Digested):
    """Factors ``values [n, k]`` for ``n`` stored images."""

    def __init__(self, values: np.ndarray):
        self.values = np.ascontiguousarray(values, np.float32)
        super().__init__(len(values), self.values.tobytes())


def refused(name: str, got: str) -> Callable:
    """A method of a space whose factors cannot be chosen."""

    def refuse(*_, **__):
        needed = f"{name}: must be called on a data set that is rendered"
        raise ValueError(f"{needed}, got {got}, whose factors cannot be chosen")

    return refuse


@dataclasses.dataclass(frozen=True)
class ListedSpace(FactorSpace):
    """A space whose samples are drawn from a list, with replacement, outside the regions that are left out.

    Interventions, which need images for combinations that nobody stored, are refused.
    """

    listing: Listing | None = None

    @classmethod
    def over(cls, space: FactorSpace, values: np.ndarray) -> "ListedSpace":
        """The space with these rows ``[n, k]`` as its only samples."""
        fields = {field.name: getattr(space, field.name) for field in dataclasses.fields(space)}
        return cls(**fields, listing=Listing(values))

    @checked
    def sample(self, key: PRNGKeyArray, n: Natural) -> Num[Array, "n k"]:
        """n independent samples from the list, uniform over its rows outside all regions."""
        return self._outside_regions(ListedSpace._rows, (n,), key, jnp.asarray(self.listing.values))

    def _rows(self, n: int, key, rows: Float[Array, "l k"]) -> Float[Array, "n k"]:
        return rows[random.randint(key, (n,), 0, len(rows))]

    given, local_group, only = (refused(name, "one of stored images") for name in ("given", "local_group", "only"))


@dataclasses.dataclass(frozen=True)
class NearestListed:
    """A ``draw`` for :class:`~jaxdis.data._render.Render`: the stored image with the nearest factors.

    ``tables`` are the factors ``[n, k]`` and the images ``[n, h, w, c]``. For factors that a :class:`ListedSpace`
    samples, which are in the list, this is their own image.
    """

    def __call__(self, tables: tuple[Array, Array], factors: Float[Array, "n k"], key=None) -> UInt8[Array, "n h w c"]:
        listed, images = tables

        def nearest(row: Float[Array, " k"]) -> Int[Array, ""]:
            return jnp.square(listed - row[None]).sum(1).argmin().astype(jnp.int32)

        return images[jax.lax.map(nearest, factors)]
