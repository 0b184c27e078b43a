"""Codes and factors from files and trained zoos, as the shell reads them."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from jaxdis._core import executor
from jaxdis._core.files import is_zoo, zoo_file
from jaxdis._core.options import Count, checked_key, checked_value, listed, look_up, shown
from jaxdis._core.store import scored
from jaxdis._core.table_files import matching, named_files
from jaxdis.codes import Posterior
from jaxdis.data import DATASETS, DataSource
from jaxdis.evaluation._arrays_file import Arrays, load_arrays, same_factors
from jaxdis.factors import Factors
from jaxdis.models import Zoo
from jaxdis.models import load as load_zoo

# Encoded at a time.
IMAGES = 2048


class Loaded(NamedTuple):
    """``codes [m, n, d]``, or ``[n, d]`` from one file that holds one member; ``factors``; the members' ``names``."""

    codes: np.ndarray
    factors: Factors
    names: tuple[str, ...]


def load(paths, factors: Factors | str | os.PathLike | None = None, *, samples: Count = 10_000, key=None) -> Loaded:
    """Load codes and factors from files, or by encoding images with a trained zoo.

    Args:
      paths: a file, a pattern such as ``"codes/*.npz"``, several of these, the folder of ``jaxdis score --out``, whose
        files are read as they were scored, or the folder with a zoo that ``jaxdis train`` wrote. A file is an ``.npz``
        with ``codes [n, d]`` or ``[m, n, d]`` and ``factors [n, k]``, and optionally the factors' ``names`` and
        ``sizes``; or it holds codes alone, as ``.npz``, ``.npy`` or a table.
      factors: the factors for files with codes alone: :class:`Factors`, or a file that :meth:`Factors.from_table`
        reads.
      samples: how many images a zoo encodes from its data set.
      key: the PRNG key for a zoo's images, or a seed.

    Returns:
      codes, factors, and the members' names: file names, or the settings of a zoo's members.

    Raises:
      ValueError: for files that are missing or damaged, codes of different shapes, or factors that differ.

    Example: ``codes, factors, names = jaxdis.load("codes/*.npz")``.
    """
    texts = [paths] if isinstance(paths, str | os.PathLike) else listed(paths)
    if texts is None or not all(isinstance(text, str | os.PathLike) for text in texts):
        raise ValueError(f"paths: must be a path, a pattern or several of these, got {shown(paths)}")
    files = matching(texts)
    if is_zoo(files[0]):
        if len(files) > 1 or factors is not None:
            raise ValueError(f"paths: must be one zoo alone, which encodes images of its data, got {len(files)} paths")
        zoo = load_zoo(zoo_file(files[0]))
        posterior, drawn = encoded_by_zoo(zoo, samples, key)
        return Loaded(np.asarray(posterior.mean), drawn, tuple(map(_words, zoo.labels)))
    return _joined(_read(files, texts, factors))


def load_scored(folder: Path, factors=None) -> tuple[Loaded, dict]:
    """What ``jaxdis score --out`` scored, and by which arguments :func:`jaxdis.evaluate` finds its numbers."""
    read, test = _read(matching([folder]), [folder], factors), scored(folder)["test"]
    # A member has the number that it has in its file.
    numbers = [row for each in read.values() for row in range(1 if each.codes.ndim == 2 else len(each.codes))]
    how = {"store": folder, "groups": next(iter(read.values())).groups, "numbers": numbers}
    if test is not None:
        codes, held_out, *_ = load_arrays(test)
        how["test"] = codes if codes.ndim == 3 else np.broadcast_to(codes, (len(numbers), *codes.shape)), held_out
    return _joined(read), how


def _read(files: list[Path], texts: list, factors) -> dict[str, Arrays]:
    """Each file's arrays by its name, read as they were scored if the only text is a folder of scores."""
    folder = scored(Path(texts[0])) if factors is None and len(texts) == 1 else None
    reading = {"factors_path": factors} if folder is None else folder["reading"]
    return {name: load_arrays(path, **reading) for name, path in named_files(files).items()}


def _joined(read: dict[str, Arrays]) -> Loaded:
    """All members in files of one shape and with the same factors."""
    (opening, first), *_ = read.items()
    if len(read) == 1 and first.codes.ndim == 2:
        return Loaded(np.asarray(first.codes), first.factors, tuple(read))
    zoos, names = [], []
    for name, arrays in read.items():
        members = arrays.codes if arrays.codes.ndim == 3 else arrays.codes[None]
        if members.shape[1:] != first.codes.shape[-2:]:
            words = f"the shape {first.codes.shape[-2:]} of those in {opening}, got {members.shape[1:]}"
            raise ValueError(f"{name}: must hold codes of {words}; load it by itself, and join both by jaxdis.stack")
        if not same_factors(arrays.factors, first.factors):
            raise ValueError(f"{name}: must hold the same factors as {opening}, got others; load it by itself")
        zoos.append(members)
        names += [name] if arrays.codes.ndim == 2 else [f"{name}[{member}]" for member in range(len(members))]
    return Loaded(np.concatenate(zoos), first.factors, tuple(names))


def encoded_by_zoo(
    zoo: Zoo, samples: int, key=None, data: str | None = None, source=None, progress: Callable | None = None
) -> tuple[Posterior, Factors]:
    """Representations for images that a data set draws, by default the zoo's own, and their factors."""
    name, key = data or zoo.config.data, checked_key(key)
    if name not in DATASETS and data is None:
        raise ValueError(f"data: the zoo was trained on data of one's own ({name}); needs --images FILE or --data")
    source = DataSource.of(source) if source is not None else zoo.config.source if data is None else None
    space, render = look_up(name, DATASETS, "data set").open(name, source)
    drawn = space.sample(key, checked_value("samples", Count, samples))
    rows = np.asarray(drawn)

    def encoded(places):
        return zoo.encode(rows[places], render=render, key=jax.random.fold_in(key, int(places[0])))

    return by_chunks(encoded, len(rows), progress), space.wrap(drawn)


def encoded_pictures(zoo: Zoo, space, render, progress: Callable | None = None) -> tuple[Posterior, Factors]:
    """Representations for all pictures in a folder in order, and their factors."""
    rows = np.arange(space.sizes[0])[:, None]
    return by_chunks(lambda places: zoo.encode(rows[places], render=render), len(rows), progress), space.wrap(rows)


def by_chunks(encoded: Callable, count: int, progress: Callable | None = None):
    """Representations ``[m, n, …]`` for ``count`` images, from a function that takes the places of some."""
    parts = []
    for places in executor.chunks(count, min(count, IMAGES)):
        parts.append(encoded(places))
        if progress is not None:
            progress(min(len(parts) * IMAGES, count), count)
    return jax.tree.map(lambda *leaves: np.concatenate(leaves, axis=1)[:, :count], *parts)


def _words(label: dict) -> str:
    """``beta, beta=4, seed=0``: a member's settings."""
    order = sorted(label, key=lambda name: (name != "model", name == "seed"))
    return ", ".join(str(label[name]) if name == "model" else f"{name}={label[name]}" for name in order)
