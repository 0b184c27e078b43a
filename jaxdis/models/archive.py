"""Files of arrays: plain npz with a JSON header and a checksum, written whole or not at all, read without pickle."""

import hashlib
import json
from pathlib import Path

import numpy as np

from jaxdis.files import open_regular, write_whole

_HEADER = "header"
MOST_JSON_BYTES = 2**28


class DamagedFile(ValueError):
    """A file that is not one of ours, or not whole."""


def write(path: str | Path, header: dict, arrays: dict[str, np.ndarray]) -> None:
    """Write a file whole or not at all, in the place of one that is there."""
    contents = packed(header, arrays)
    write_whole(path, lambda file: np.savez(file, **contents))


def packed(header: dict, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What such a file holds: the header, with a checksum, as bytes beside the arrays."""
    full = {**header, "checksum": _checksum(arrays)}
    encoded = np.frombuffer(json.dumps(full, sort_keys=True).encode(), np.uint8)
    return {_HEADER: encoded, **{f"a/{name}": array for name, array in arrays.items()}}


def write_json(path: str | Path, value) -> None:
    """Write readable JSON, atomically."""
    text = json.dumps(value, indent=2, sort_keys=True) + "\n"
    write_whole(path, lambda file: file.write(text.encode()))


def read_json(path: str | Path) -> dict:
    """A JSON object.

    Raises:
      DamagedFile: for a file that holds none. FileNotFoundError where there is nothing.
    """
    try:
        with open_regular(path, MOST_JSON_BYTES) as file:
            found = json.loads(file.read())
    except FileNotFoundError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise DamagedFile(f"{path}: needs a JSON object, got {type(error).__name__}: {error}") from None
    if not isinstance(found, dict):
        raise DamagedFile(f"{path}: needs a JSON object, got {type(found).__name__}")
    return found


def read(path: str | Path) -> tuple[dict, dict[str, np.ndarray]]:
    """The header and the arrays, after checking the checksum.

    Raises:
      DamagedFile: for a file that is truncated, altered, or was not written here. FileNotFoundError if there is none.
    """
    try:
        with open_regular(path) as raw, np.load(raw, allow_pickle=False) as file:
            contents = {name: file[name] for name in file.files}
        header = json.loads(contents.pop(_HEADER).tobytes())
        arrays = {name.removeprefix("a/"): array for name, array in contents.items()}
        whole = header.pop("checksum") == _checksum(arrays)
    except (FileNotFoundError, MemoryError):
        raise
    except Exception as error:  # NumPy, zipfile and zlib have many words for damage
        raise DamagedFile(
            f"{path}: needs a whole npz file written by jaxdis, got {type(error).__name__}: {error}"
        ) from None
    if not whole:
        raise DamagedFile(f"{path}: the checksum does not agree with the contents")
    return header, arrays


def named_leaves(tree) -> dict[str, np.ndarray]:
    """Leaves of a pytree by their path."""
    import jax

    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="/"): np.asarray(leaf) for path, leaf in leaves}


def with_leaves(template, arrays: dict[str, np.ndarray], what: str):
    """The template's tree with the arrays as leaves, after checking names, shapes and dtypes.

    Raises:
      DamagedFile: naming the first leaf that does not fit.
    """
    import jax

    leaves, treedef = jax.tree_util.tree_flatten_with_path(template)
    names = [jax.tree_util.keystr(path, simple=True, separator="/") for path, _ in leaves]
    if set(names) != set(arrays):
        odd = sorted(set(names) ^ set(arrays))
        raise DamagedFile(f"{what}: needs the arrays of this model, {odd[0]!r} is missing or too much")
    for name, (_, leaf) in zip(names, leaves, strict=True):
        if arrays[name].shape != leaf.shape or arrays[name].dtype != leaf.dtype:
            raise DamagedFile(
                f"{what}: {name} needs {leaf.dtype} {leaf.shape}, got {arrays[name].dtype} {arrays[name].shape}"
            )
    return jax.tree_util.tree_unflatten(treedef, [arrays[name] for name in names])


def _checksum(arrays: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name}|{array.dtype.str}|{array.shape}|".encode())
        digest.update(array.data)
    return digest.hexdigest()
