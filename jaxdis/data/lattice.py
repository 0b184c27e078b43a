"""Rendered or decoded lattices on disk: built once, memory-mapped, checked, replaced when they are not whole."""

import dataclasses
import functools
import json
import logging
import os
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from jaxdis import runtime

logger = logging.getLogger(__name__)
_CHUNK = 2**24


def directory() -> Path:
    """Where lattices are kept: the folder ``data`` of :func:`jaxdis.runtime.default_cache_directory`."""
    return runtime.default_cache_directory() / "data"


def cached(
    name: str, shape: tuple[int, ...], dtype, build: Callable[[np.ndarray], None], origin: str = ""
) -> np.memmap:
    """The array ``name``, memory-mapped read-only; built by ``build(out)`` where it is not yet on disk, or not whole.

    ``out`` is the file itself, mapped for writing, so building needs no memory of the array's size. The file appears
    under its name only when it is complete. ``origin`` says what it was built from; a file of another origin, shape,
    dtype or checksum is rebuilt, with a warning in the log that says why.
    """
    path = directory() / f"{name}.npy"
    wanted = {"shape": list(shape), "dtype": np.dtype(dtype).name, "origin": origin}
    if path.exists():
        fault = _fault(path, wanted)
        if fault is None:
            return np.load(path, mmap_mode="r", allow_pickle=False)
        logger.warning("%s: %s; building it again", path, fault)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{name}-", suffix=".npy")
    os.close(handle)
    try:
        out = np.lib.format.open_memmap(temporary, mode="w+", dtype=dtype, shape=shape)
        build(out)
        out.flush()
        wanted["crc32"] = _crc32(out)
        del out
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        # The description first: a lattice without one, or with another's, is rebuilt; never read.
        description = Path(temporary).with_suffix(".json")
        description.write_text(json.dumps(wanted))
        os.replace(description, path.with_suffix(".json"))
        os.replace(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)
    return np.load(path, mmap_mode="r", allow_pickle=False)


def _fault(path: Path, wanted: dict) -> str | None:
    """Why the file cannot be used, or None."""
    try:
        found = json.loads(path.with_suffix(".json").read_text())
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        return f"cannot be read ({error})"
    for what, value in wanted.items():
        if found.get(what) != value:
            return f"has {what} {found.get(what)}, needed {value}"
    if list(array.shape) != wanted["shape"] or array.dtype.name != wanted["dtype"]:
        return f"holds {array.dtype.name} {array.shape}, needed {wanted['dtype']} {tuple(wanted['shape'])}"
    if _crc32(array) != found.get("crc32"):
        return "has another checksum than when it was written"
    return None


def _crc32(array: np.ndarray) -> int:
    # An ndarray view: slicing a memmap makes a Python object a slice, and the buffer protocol refuses none of them.
    flat, value = np.asarray(array).reshape(-1).view(np.uint8), 0
    for start in range(0, flat.size, _CHUNK):
        value = zlib.crc32(flat[start : start + _CHUNK], value)
    return value


def identity(path: Path) -> str:
    """What tells one version of a file from another without reading it: resolved path, size and time of change."""
    stat = path.stat()
    return f"{path.resolve()} {stat.st_size} {stat.st_mtime_ns}"


def on_device(array: np.ndarray) -> jax.Array:
    """The array copied to the default device, a piece at a time where that saves memory."""
    return jnp.asarray(np.asarray(array))


@dataclasses.dataclass(frozen=True)
class HostGather:
    """A ``draw`` for :class:`~jaxdis.data.render.Render` that reads images from a memory-mapped file, row by row.

    Outside ``jit`` it indexes the file; inside, through a host callback, so a lattice larger than memory can be trained
    on. ``open`` is a module-level function ``path → array [cells, height, width, channels]`` uint8.
    """

    open: Callable
    path: str
    sizes: tuple[int, ...]
    shape: tuple[int, int, int]

    def __call__(self, tables, factors, key):
        if not isinstance(factors, jax.core.Tracer):
            return jnp.asarray(self._read(np.asarray(factors)))
        result = jax.ShapeDtypeStruct((factors.shape[0], *self.shape), jnp.uint8)
        return jax.pure_callback(self._read, result, factors, vmap_method="sequential")

    def _read(self, factors) -> np.ndarray:
        rows = np.ravel_multi_index(tuple(np.asarray(factors).T), self.sizes)
        return np.ascontiguousarray(_opened(self.open, self.path)[rows]).reshape(-1, *self.shape)


@functools.lru_cache(maxsize=32)
def _opened(open_file: Callable, path: str) -> np.ndarray:
    return open_file(path)
