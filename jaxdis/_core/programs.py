"""Traced functions on disk: a process that finds one there neither traces nor lowers it again.

JAX keeps compiled programs, but to find one it first traces and lowers the function, which takes longer than reading
the program. A function's key is made from this package's sources, its libraries' versions, settings, static arguments
and shapes. A process whose sources are edited while it runs traces as usual; a function that a program replaces in this
package's modules is not noticed. Files hold StableHLO of :mod:`jax.export` and a checksum; nothing is unpickled.
:func:`jaxdis._core.runtime.use_compilation_cache` chooses the folder.
"""

import contextlib
import dataclasses
import functools
import hashlib
import importlib
import importlib.metadata
from collections.abc import Callable, Hashable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.export
import numpy as np

from jaxdis._core import files

PACKAGE = __name__.split(".")[0]
SOURCES = Path(__file__).parents[1]
# What tracing follows besides its arguments.
LIBRARIES = ("jax", "jaxlib", "numpy", "optax")
SETTINGS = (
    "jax_enable_x64",
    "jax_default_matmul_precision",
    "jax_default_prng_impl",
    "jax_threefry_partitionable",
    "jax_random_seed_offset",
    "jax_numpy_dtype_promotion",
)
# Settings that look into functions.
DEBUGGING = ("jax_disable_jit", "jax_debug_nans", "jax_debug_infs", "jax_debug_key_reuse")
# Custom calls that JAX does not guarantee across versions; a file is only read by the version that wrote it.
SAME_VERSION = ("LayoutConstraint",)

# Where traced functions are kept; None: nowhere.
folder_of_programs: Path | None = None


class _Unknown(Exception):
    """A value that is not defined in this package; what belongs to it cannot be looked up on disk."""


def keep_in(folder: Path | None) -> None:
    """Keep traced functions in a folder, or no longer (None)."""
    global folder_of_programs
    folder_of_programs = folder


def kept(function: Callable, static: Hashable) -> Callable:
    """``function(static, …)`` for CPU, to be called inside a program; as traced before, if that is on disk.

    Functions and static arguments that are not of this package are traced as usual.
    """
    whole = functools.partial(function, static)
    used = (
        folder_of_programs is not None
        and jax.config.jax_enable_compilation_cache
        and jax.sharding.get_abstract_mesh().empty
    )
    if not used or any(getattr(jax.config, name) for name in DEBUGGING) or _stamps() != _STAMPS or not _sources():
        return whole
    try:
        identity = f"{_identity(function)}({_identity(static)})"
    except _Unknown:
        return whole
    return functools.partial(_call, whole, identity)


def _call(function: Callable, identity: str, *arguments):
    leaves, tree = jax.tree.flatten(arguments)
    shapes = [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves]
    settings = [f"{name}={getattr(jax.config, name)}" for name in SETTINGS]
    key = "\n".join([_sources(), *settings, identity, str(tree), *map(str, shapes)])
    path = folder_of_programs / f"{hashlib.sha256(key.encode()).hexdigest()}.npz"
    found = _read(path) or _write(path, function, tree, shapes)
    if found is None:
        return function(*arguments)
    program, structure = found
    return _assembled(structure, iter(program.call(*leaves)))


def _read(path: Path) -> tuple[jax.export.Exported, Any] | None:
    """The program and the structure of its result; None if there is no whole file."""
    try:
        header, arrays = files.read_arrays(path)
        program, structure = jax.export.deserialize(bytearray(arrays["program"])), header["result"]
        _assembled(structure, iter(program.out_avals))
    except Exception:  # whatever is wrong with it, it is written again
        return None
    return program, structure


def _write(path: Path, function: Callable, tree, shapes: list) -> tuple[jax.export.Exported, Any] | None:
    """As :func:`_read`; None for a function that cannot be kept, or cannot be traced."""
    structure = None

    @jax.jit
    def flat(*leaves):
        nonlocal structure
        result = function(*jax.tree.unflatten(tree, leaves))
        structure = _structure(result)
        return jax.tree.leaves(result)

    checks = [jax.export.DisabledSafetyCheck.custom_call(name) for name in SAME_VERSION]
    try:
        program = jax.export.export(flat, platforms=["cpu"], disabled_checks=checks)(*shapes)
    except (_Unknown, NotImplementedError, ValueError):  # it calls back to Python, say
        return None
    written = program.serialize()
    with contextlib.suppress(OSError):  # a full disk
        files.write_arrays(path, {"result": structure}, {"program": np.frombuffer(written, np.uint8)})
    # As the next process will read it: its text, of which JAX's key for the compiled program is made, is the same.
    return jax.export.deserialize(written), structure


def _structure(tree) -> Any:
    """What a tree of dictionaries, tuples and arrays looks like, as JSON; _Unknown for anything else in it."""
    if tree is None:
        return None
    if type(tree) is dict and all(type(name) is str for name in tree):
        return {"dict": {name: _structure(tree[name]) for name in sorted(tree)}}
    if isinstance(tree, tuple):
        kind = None if type(tree) is tuple else _identity(type(tree))
        return {"tuple": [_structure(part) for part in tree], "kind": kind}
    if not isinstance(tree, jax.Array):
        raise _Unknown(type(tree).__name__)
    return "array"


def _assembled(structure, leaves: Iterator):
    if structure is None:
        return None
    if structure == "array":
        return next(leaves)
    if "dict" in structure:
        return {name: _assembled(part, leaves) for name, part in structure["dict"].items()}
    parts = [_assembled(part, leaves) for part in structure["tuple"]]
    if structure["kind"] is None:
        return tuple(parts)
    kind = _found(structure["kind"])
    if not (isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_make")):
        raise _Unknown(structure["kind"])
    return kind(*parts)


def _identity(value) -> str:
    """A text that only equal values with the same type have; _Unknown for what this package does not define."""
    if value is None or type(value) in (bool, int, float, str):
        return repr(value)
    if isinstance(value, tuple):
        kind = "" if type(value) is tuple else _identity(type(value))
        return f"{kind}({''.join(f'{_identity(part)},' for part in value)})"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.compare}
        return f"{_identity(type(value))}({''.join(f'{name}={_identity(part)},' for name, part in parts.items())})"
    name = f"{getattr(value, '__module__', None)}:{getattr(value, '__qualname__', None)}"
    if _found(name) is not value:
        raise _Unknown(name)
    return name


def _found(name: str):
    """The function or class that a module of this package defines as ``module:name``; None for any other name."""
    module, _, path = name.partition(":")
    if module.split(".")[0] != PACKAGE:
        return None
    try:
        found = importlib.import_module(module)
    except ImportError:
        return None
    for part in path.split("."):
        found = getattr(found, part, None)
    defined = getattr(found, "__module__", None), getattr(found, "__qualname__", None)
    return found if defined == (module, path) else None


@functools.cache
def _sources() -> str:
    """A digest of what tracing reads: this package's sources, and the versions of those that it calls.

    Empty where there are no source files, as in an archive.
    """
    digest, paths = hashlib.sha256(), _modules()
    for path in paths:
        digest.update(f"{path.relative_to(SOURCES)}\n".encode() + path.read_bytes())
    versions = [f"{name} {importlib.metadata.version(name)}" for name in LIBRARIES]
    return f"{digest.hexdigest()} {versions}" if paths else ""


def _stamps() -> list[tuple]:
    """When each source file was written, and its size."""
    found = [(path, path.stat()) for path in _modules()]
    return [(path, stat.st_mtime_ns, stat.st_size) for path, stat in found]


def _modules() -> list[Path]:
    """The source files, and texts that they read; not the links that lead nowhere by which some editors lock a file."""
    return [path for suffix in ("py", "txt") for path in sorted(SOURCES.rglob(f"*.{suffix}")) if path.is_file()]


_STAMPS = _stamps()
