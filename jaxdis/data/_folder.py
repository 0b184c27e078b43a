"""One's own pictures as a data set: files in a folder, read when they are needed, and a table with their factors."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import jax
import numpy as np
from jaxtyping import Array, Int, Num, UInt8

from jaxdis._core import random
from jaxdis._core.options import printable, shown
from jaxdis._core.table_columns import Missing, columns_of
from jaxdis._core.table_files import read_npy
from jaxdis.data._factor_space import FactorSpace
from jaxdis.data._lattice import Digested, from_host, refused
from jaxdis.data._render import Render, checked_dtype
from jaxdis.factors import Factors

SUFFIXES = (".png", ".jpg", ".jpeg", ".npy")
# Of the pictures, the share on which metrics are computed, if the others are held out (2 : 1).
SCORED_SHARE = 2 / 3


class Pictures(Digested):
    """Files with ``n`` pictures in one shape, told apart by their names."""

    def __init__(self, paths: Sequence[Path]):
        super().__init__(len(paths), "\n".join(path.name for path in paths).encode())
        self.paths = tuple(paths)
        shapes = [_shape_of(path) for path in paths]
        channels = max(shape[2] for shape in shapes)
        self.shape = (*shapes[0][:2], channels)
        for path, shape in zip(paths, shapes, strict=True):
            if shape[:2] != self.shape[:2]:
                size, first = (f"{height} × {width}" for height, width in (shape[:2], self.shape[:2]))
                raise ValueError(
                    f"{printable(path)}: must be of the size of {paths[0].name}, {first}, got {size}; resize the "
                    "pictures to one size"
                )

    def read(self, rows) -> np.ndarray:
        return np.stack([_read(self.paths[row], self.shape) for row in np.asarray(rows).ravel().tolist()])


@dataclasses.dataclass(frozen=True)
class FromFiles:
    """A ``draw`` for :class:`~jaxdis.data._render.Render`: the pictures numbered ``factors [n, 1]``."""

    pictures: Pictures

    def __call__(self, tables: tuple, factors: Int[Array, "n k"], key=None) -> UInt8[Array, "n h w c"]:
        return from_host(self.pictures.read, factors, self.pictures.shape)


@dataclasses.dataclass(frozen=True)
class PictureSpace(FactorSpace):
    """A space of picture numbers, ``[n, 1]``, whose factors :meth:`wrap` looks up. Interventions are refused."""

    labels: Factors | None = dataclasses.field(default=None, compare=False, repr=False)

    def wrap(self, factors: Num[Array | np.ndarray, "n k"]) -> Factors:
        return self.labels.take(np.asarray(factors)[:, 0])

    def split(self, key, samples: int, test_samples: int, groups=None) -> tuple[Array, Array]:
        """Which pictures to score, and which others are held out, each at most once; none are held out of groups."""
        if groups is not None:
            rows = random.shuffled_rows(key, groups, self.sizes[0])[:, None]
            return rows[: samples + test_samples], rows[:0]
        order = jax.random.permutation(key, self.sizes[0])[:, None]
        cut = round(self.sizes[0] * SCORED_SHARE)
        return order[: min(samples, cut)], order[cut : cut + test_samples]

    fix, given, pairs = (refused(name, "pictures of files") for name in ("fix", "given", "pairs"))


def folder(
    images: str | os.PathLike,
    labels,
    *,
    columns: Sequence[str] | None = None,
    kinds: Mapping | None = None,
    missing: Missing = "error",
    dtype="float32",
) -> tuple[PictureSpace, Render]:
    """Take the pictures in a folder as a data set, with factors from a table.

    A table column that holds file names, with or without their suffix, says which row belongs to which picture; without
    one, rows belong to the files sorted by name.

    Args:
      images: folder with ``.png``, ``.jpg`` or ``.npy`` files (``[h, w]`` or ``[h, w, c]``, uint8, or real numbers in
        [0, 1], which are rounded to 255ths), all equally large. They are read when they are needed.
      labels: a table, as for :meth:`jaxdis.Factors.from_table`.
      columns, kinds, missing: as for :meth:`jaxdis.Factors.from_table`. Pictures are left out if their rows are
        dropped.
      dtype: "float32" in [0, 1] or "uint8" in 0…255.

    Returns:
      ``(space, render)``, for :func:`jaxdis.models.train` and :func:`jaxdis.evaluate_encoder`, which scores two thirds
      and holds the others out. Factors cannot be changed in a picture: metrics that intervene are refused.

    Raises:
      ValueError: for a folder without pictures, pictures that differ in size, a missing file that the table names, or
        as :meth:`jaxdis.Factors.from_table`.

    Example: ``jaxdis.evaluate_encoder(encode, jaxdis.data.folder("images/", "labels.csv"), ("mig", "dci"))``.
    """
    place = Path(images)
    if not place.is_dir():
        raise ValueError(f"images: must be a folder of pictures, got {printable(place)}, which is none")
    paths = sorted(path for path in place.iterdir() if path.suffix.lower() in SUFFIXES)
    if not paths:
        raise ValueError(f"images: must be a folder of {', '.join(SUFFIXES)} files, got none in {printable(place)}")
    table = {name: column.entries for name, column in columns_of(labels).items()}
    column = next((name for name, entries in table.items() if _names_files(entries, paths)), None)
    chosen = columns if columns is not None else [name for name in table if name != column]
    factors = Factors.from_table(labels, chosen, kinds, missing)
    rows = np.arange(factors.num_rows) if factors.rows is None else factors.rows
    if column is not None:
        by_name = {name: path for path in paths for name in (path.stem, path.name)}
        names = [str(table[column][row]) for row in rows]
        if gone := [name for name in names if name not in by_name]:
            raise ValueError(f"images: must hold the files of column {column}, got no {shown(gone[0])}")
        paths = [by_name[name] for name in names]
    elif len(paths) != factors.num_rows:
        raise ValueError(
            f"labels: must have a row for each of the {len(paths)} pictures, or a column with their names, got "
            f"{factors.num_rows} rows"
        )
    else:
        paths = [paths[row] for row in rows]
    pictures, size = Pictures(paths), len(paths)
    base = FactorSpace.of(picture=size)
    space = PictureSpace(base.names, base.sizes, base.values, labels=dataclasses.replace(factors, rows=None))
    render = Render((), FromFiles(pictures), space.sizes, pictures.shape, checked_dtype(dtype), source=f"file:{place}")
    return space, render


def _names_files(entries: Sequence, paths: Sequence[Path]) -> bool:
    """Whether a column holds file names: at least half of its entries are, so that a missing one is noticed."""
    names = {name for path in paths for name in (path.stem, path.name)}
    there = sum(isinstance(entry, str) and entry in names for entry in entries)
    return there > 0 and 2 * there >= len(entries)


def _shape_of(path: Path) -> tuple[int, int, int]:
    if path.suffix == ".npy":
        shape = read_npy(path).shape
        shape = (*shape, 1) if len(shape) == 2 else shape
        if len(shape) != 3:
            raise ValueError(f"{printable(path)}: must hold one picture [h, w] or [h, w, c], got shape {shape}")
        return shape
    with _opened(path) as picture:
        return picture.height, picture.width, 1 if picture.mode in ("1", "L") else 3


def _read(path: Path, shape: tuple[int, int, int]) -> np.ndarray:
    if path.suffix != ".npy":
        with _opened(path) as picture:
            array = np.asarray(picture.convert("L" if shape[2] == 1 else "RGB"))
    else:
        array = np.asarray(read_npy(path))
        if array.dtype != np.uint8:
            if array.dtype.kind not in "fb" or not (array.min() >= 0 and array.max() <= 1):
                raise ValueError(f"{printable(path)}: must hold uint8 or real numbers in [0, 1], got {array.dtype}")
            array = np.round(array * 255.0).astype(np.uint8)
    array = array[..., None] if array.ndim == 2 else array
    return np.broadcast_to(array, shape)  # a gray picture among colored ones


def _opened(path: Path):
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise ValueError(f"{printable(path)}: needs pillow (pip install pillow), or pictures as .npy") from None
    try:
        return Image.open(path)
    except (UnidentifiedImageError, OSError) as error:
        raise ValueError(f"{printable(path)}: must be a picture, got a damaged file or another one ({error})") from None
