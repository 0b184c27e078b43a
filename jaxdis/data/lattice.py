"""Rendered or decoded lattices on disk: built once, memory-mapped, checked, replaced when they are not whole."""

import hashlib
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
    path = path_of(name)
    wanted = {"shape": list(shape), "dtype": np.dtype(dtype).name, "origin": origin}
    if path.exists():
        fault = _fault(path, wanted)
        if fault is None:
            return open_array(path)
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
        # The description goes first: between the two steps the old array has a wrong checksum, and would be rebuilt.
        description = Path(temporary).with_suffix(".json")
        description.write_text(json.dumps(wanted))
        os.replace(description, path.with_suffix(".json"))
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)
    return open_array(path)


def _fault(path: Path, wanted: dict) -> str | None:
    """Why the file cannot be used, or None."""
    try:
        found = json.loads(path.with_suffix(".json").read_text())
        array = open_array(path)
    except (OSError, ValueError, EOFError) as error:
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
    flat, value = np.asarray(array).reshape(-1).view(np.uint8), 0
    for start in range(0, flat.size, _CHUNK):
        value = zlib.crc32(flat[start : start + _CHUNK], value)
    return value


def path_of(name: str) -> Path:
    """The file of the array ``name``."""
    return directory() / f"{name}.npy"


def name_of(prefix: str, origin: str) -> str:
    """A name for what is decoded from a file of this origin."""
    return f"{prefix}-{hashlib.sha256(origin.encode()).hexdigest()[:12]}"


def identity(*paths: Path) -> str:
    """What tells one version of files from another without reading them: resolved paths, sizes and times of change."""
    return " ".join(f"{path.resolve()} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in paths)


def open_array(path: str | Path) -> np.memmap:
    """An array on disk, memory-mapped read-only."""
    return np.load(path, mmap_mode="r", allow_pickle=False)


def on_device(array: np.ndarray) -> jax.Array:
    """The array copied to the default device."""
    return jnp.asarray(np.asarray(array))
