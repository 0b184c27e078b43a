"""Arrays inside npz and hdf5 files: read in blocks of rows, never unpickled, checked, and decoded once."""

import contextlib
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from jaxdis.data import _lattice as lattice
from jaxdis.data._factor_space import FactorSpace


def existing(source: str | Path, *, what: str, where: str, md5: str | None = None) -> Path:
    """The path, if it is a file or a folder; the error names the file, where it is published, and its checksum."""
    path = Path(source)
    if not path.exists():
        digest = f" (md5 {md5})" if md5 else ""
        raise FileNotFoundError(f"source: found nothing at {path}; needs {what}{digest}, published at {where}")
    if not (path.is_file() or path.is_dir()):
        raise ValueError(f"source: must be a file or a folder, got {path}")
    return path


def decoded(kind: str, files: Iterable[Path], shape: tuple[int, ...], dtype, decode: Callable) -> np.memmap:
    """An array that ``decode(out)`` fills from files once, memory-mapped from the cache."""
    origin = lattice.identity(*files)
    return lattice.cached(lattice.name_of(kind, origin), shape, dtype, decode, origin)


def is_hdf5(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(8) == b"\x89HDF\r\n\x1a\n"


def header(path: Path, name: str) -> tuple[tuple[int, ...], np.dtype]:
    """Shape and dtype of one array, without reading it."""
    with _opened(path, name) as (shape, dtype, _):
        return shape, dtype


def blocks(path: Path, name: str, step: int) -> Iterator[np.ndarray]:
    """Consecutive rows of one array, ``step`` at a time (the last block may be shorter)."""
    with _opened(path, name) as (shape, _, read):
        for start in range(0, shape[0], step):
            yield read(start, min(step, shape[0] - start))


def whole(path: Path, name: str) -> np.ndarray:
    return np.concatenate(list(blocks(path, name, 2**16)))


def mapped(path: Path, name: str) -> np.ndarray | None:
    """One array of an uncompressed npz, memory-mapped at its offset in the file; None if it is compressed."""
    with _zip(path) as archive:
        info = _info(archive, path, name)
        if info.compress_type != zipfile.ZIP_STORED:
            return None
    with _member(path, name) as file:
        shape, dtype = _npy_header(file, path, name)
        skipped = file.tell()
    with path.open("rb") as file:
        # The local header repeats the name and has its own extra field, whose length is only given here.
        file.seek(info.header_offset)
        local = file.read(30)
    start = info.header_offset + 30 + int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little")
    needed = start + skipped + int(np.prod([float(s) for s in shape])) * dtype.itemsize
    if needed > path.stat().st_size:
        raise ValueError(f"source: {path} ends inside {name!r}; the file is truncated, copy it again")
    return np.memmap(path, dtype, "r", start + skipped, shape)


def copied(path: Path, name: str, step: int, out: np.ndarray, checked=lambda rows: rows) -> None:
    """Fill ``out`` with one array's rows, ``step`` at a time, each as ``checked`` returns it."""
    start = 0
    for block in blocks(path, name, step):
        out[start : start + len(block)] = checked(block)
        start += len(block)


@contextlib.contextmanager
def _opened(path: Path, name: str) -> Iterator[tuple[tuple[int, ...], np.dtype, Callable]]:
    """Shape and dtype of one array, and a function that reads rows: from where, in order, and how many."""
    if is_hdf5(path):
        with _hdf5(path, name) as array:
            yield array.shape, array.dtype, lambda start, count: array[start : start + count]
        return
    with _member(path, name) as file:
        shape, dtype = _npy_header(file, path, name)

        def read(_start, count):
            data = file.read(count * int(np.prod(shape[1:])) * dtype.itemsize)
            if len(data) != count * int(np.prod(shape[1:])) * dtype.itemsize:
                raise ValueError(f"source: {path} ends inside {name!r}; the file is truncated, copy it again")
            return np.frombuffer(data, dtype).reshape(count, *shape[1:])

        yield shape, dtype, read


@contextlib.contextmanager
def _hdf5(path: Path, name: str):
    import h5py

    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise ValueError(f"source: {path} is not a whole hdf5 file ({error})") from None
    with file:
        if name not in file or not isinstance(file[name], h5py.Dataset):
            raise ValueError(f"source: {path} holds {', '.join(list(file)[:8])}; needs an array {name!r}")
        if file[name].dtype.hasobject:
            raise ValueError(f"source: {name!r} in {path} holds Python objects, which are never read")
        yield file[name]


def _zip(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError) as error:
        raise ValueError(f"source: {path} is neither a whole npz nor an hdf5 file ({error})") from None


def _info(archive: zipfile.ZipFile, path: Path, name: str) -> zipfile.ZipInfo:
    if f"{name}.npy" not in archive.namelist():
        held = ", ".join(n.removesuffix(".npy") for n in archive.namelist())
        raise ValueError(f"source: {path} holds {held or 'nothing'}; needs an array {name!r}")
    return archive.getinfo(f"{name}.npy")


@contextlib.contextmanager
def _member(path: Path, name: str):
    with _zip(path) as archive, archive.open(_info(archive, path, name)) as file:
        try:
            yield file
        except (zipfile.BadZipFile, EOFError) as error:
            raise ValueError(f"source: {name!r} in {path} is damaged ({error}); copy the file again") from None


def _npy_header(file, path: Path, name: str) -> tuple[tuple[int, ...], np.dtype]:
    try:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(file)
    except ValueError as error:
        raise ValueError(f"source: {name!r} in {path} is not a NumPy array ({error})") from None
    if dtype.hasobject:
        raise ValueError(f"source: {name!r} in {path} holds Python objects, which are never unpickled")
    if fortran:
        raise ValueError(f"source: {name!r} in {path} is stored column by column; needs row by row (C order)")
    return shape, dtype


def images(path: Path, shape: tuple[int, ...], dtype: np.dtype, needed: tuple[int, ...]) -> None:
    """Check for uint8 images of the whole lattice."""
    if tuple(shape) != needed or dtype != np.uint8:
        raise ValueError(f"source: {path} holds {dtype} images {tuple(shape)}; needs uint8 {needed}")


def values(path: Path, rows: np.ndarray, space: FactorSpace) -> None:
    """Check that the rows of real factor values are those of the lattice, in its order."""
    needed = np.stack(np.meshgrid(*space.values, indexing="ij"), -1).reshape(-1, space.num_factors)
    _check_rows(path, rows, needed, "factor values", 1e-4)


def classes(path: Path, rows: np.ndarray, space: FactorSpace) -> None:
    """Check that the rows of class numbers are those of the lattice, in its order."""
    needed = np.stack(np.unravel_index(np.arange(space.num_lattice), space.sizes), -1)
    _check_rows(path, rows, needed, "class numbers", 0.0)


def _check_rows(path: Path, rows: np.ndarray, needed: np.ndarray, what: str, tolerance: float) -> None:
    if rows.shape != needed.shape:
        raise ValueError(f"source: {path} holds {what} {rows.shape}; needs {needed.shape}")
    wrong = np.flatnonzero((np.abs(rows - needed) > tolerance).any(-1) | ~np.isfinite(rows).all(-1))
    if len(wrong):
        row = int(wrong[0])
        raise ValueError(
            f"source: {path} is not in lattice order: row {row} holds {what} {rows[row].tolist()}, "
            f"needs {needed[row].tolist()} ({len(wrong)} rows differ)"
        )


def cell(path: Path, factors: np.ndarray, space: FactorSpace) -> np.ndarray:
    """Each row's lattice index, for ``factors [n, k]``."""
    outside = (factors < 0) | (factors >= np.array(space.sizes))
    if outside.any():
        row, column = (int(i[0]) for i in np.nonzero(outside))
        name, size = space.names[column], space.sizes[column]
        raise ValueError(
            f"source: {path} holds the label {factors[row, column]} of factor {name!r}; needs 0 to {size - 1}"
        )
    return np.ravel_multi_index(tuple(factors.T), space.sizes)


def placed(path: Path, factors: np.ndarray, space: FactorSpace) -> np.ndarray:
    """Lattice index of each row of ``factors [n, k]``, after checking that every cell occurs exactly once.

    For files without a guaranteed order: images are placed by their labels.
    """
    index = cell(path, factors, space)
    counts = np.bincount(index, minlength=space.num_lattice)
    missing, repeated = int((counts == 0).sum()), int((counts > 1).sum())
    if missing or repeated:
        first = np.unravel_index(int(np.flatnonzero(counts != 1)[0]), space.sizes)
        named = {name: int(value) for name, value in zip(space.names, first, strict=True)}
        raise ValueError(
            f"source: {path} does not hold every cell of the lattice once: {missing} are missing and {repeated} come "
            f"more than once, the first at {named}"
        )
    return index
