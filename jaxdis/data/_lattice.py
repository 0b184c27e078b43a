"""Rendered or decoded lattices on disk: built once, memory-mapped, checked, and rebuilt if incomplete."""

import errno
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

from jaxdis._core import runtime
from jaxdis._core.files import full, is_full, remove_leftovers, replacing, write_json

logger = logging.getLogger(__name__)
_CHUNK = 2**24


def directory() -> Path:
    """The folder for lattices: ``data`` in :func:`jaxdis._core.runtime.default_cache_directory`."""
    return runtime.default_cache_directory() / "data"


def cached(
    name: str, shape: tuple[int, ...], dtype, build: Callable[[np.ndarray], None], origin: str = ""
) -> np.memmap:
    """The array ``name``, memory-mapped read-only; built with ``build(out)`` if it is missing or incomplete on disk.

    Args:
      name: what the array and its file are called.
      shape, dtype: as the array has them.
      build: fills ``out``, which is the file itself, mapped for writing, so that building needs no memory as large as
        the array. The file gets its name only when it is complete.
      origin: what the array was built from. A file with another origin, shape, dtype or checksum is rebuilt, and a
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
        _build(path, wanted, build)
    except OSError as error:
        if is_full(error):
            raise full(error, path.parent, advice) from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise OSError(
                error.errno, f"{os.strerror(error.errno)}: images are kept in {path.parent}; {advice}"
            ) from error
        raise
    return open_array(path)


def _build(path: Path, wanted: dict, build: Callable[[np.ndarray], None]) -> None:
    """Build an array under a temporary name; rename it when it is complete."""
    with replacing(path) as temporary:
        out = _mapped(temporary, wanted["dtype"], tuple(wanted["shape"]))
        build(out)
        out.flush()
        # The description comes first: between the two steps the old array has a wrong checksum and would be rebuilt.
        write_json(path.with_suffix(".json"), {**wanted, "crc32": _crc32(out)})
        del out


def _mapped(path: Path, dtype: str, shape: tuple[int, ...]) -> np.memmap:
    """An array in a new file, mapped for writing.

    Disk space is allocated first, because a full disk behind a memory map kills the process.

    Raises:
      OSError: if there is not enough space.
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
    if _crc32(array) != described.get("crc32"):
        return "has a different checksum than when it was written"
    return None


def _crc32(array: np.ndarray) -> int:
    flat, value = np.asarray(array).reshape(-1).view(np.uint8), 0
    for start in range(0, flat.size, _CHUNK):
        value = zlib.crc32(flat[start : start + _CHUNK], value)
    return value


def path_of(name: str) -> Path:
    """The file with the array ``name``."""
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


def on_device(array: np.ndarray) -> jax.Array:
    """The array copied to the default device."""
    return jnp.asarray(np.asarray(array))
