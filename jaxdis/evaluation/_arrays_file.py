"""Codes and factors from a user's files, and what the factors are in words."""

import collections
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from jaxdis._core import table_columns as tables
from jaxdis._core import table_files as files
from jaxdis._core.arrays import LARGEST, SMALLEST, is_real
from jaxdis._core.options import printable, shown, some_of
from jaxdis._core.table_columns import Missing, columns_and_kinds, columns_of
from jaxdis._core.table_files import MAKE_ONE, file_and_part, is_cells, read_arrays, suffix_of
from jaxdis.factors import Factors

# Bytes of codes that are scored together.
GROUP_BYTES = 128 << 20
# Classes of a factor that are listed by their names.
MOST_NAMED = 6
# Factors that are listed.
MOST_LISTED = 20
NAMES = ("codes", "factors", "names", "sizes", "variances")
# Of slots: names of the levels of their structure, number of groups of samples, the background, factors without order.
OF_SLOTS = ("levels", "groups", "background", "categorical")
# What may hold codes.
CODE_SUFFIXES = (*files.ARRAY_SUFFIXES, *tables.SUFFIXES, *files.CELL_SUFFIXES)


class Arrays(NamedTuple):
    """``codes [n, d]`` or ``[m, n, d]`` (slots: ``[n, s, d]`` or ``[m, n, s, d]``); ``factors``; ``variances`` shaped
    like codes, or None; what a file with slots says besides; and ``groups``, a name for each row of the factors' table
    that rows which belong together have in common, or None."""

    codes: np.ndarray
    factors: Factors
    variances: np.ndarray | None
    slots: Mapping[str, np.ndarray] = MappingProxyType({})
    groups: list | None = None


def load_arrays(
    path: str | Path,
    factors_path: str | Path | Factors | None = None,
    columns: Sequence[str] = (),
    missing: Missing = "error",
    *,
    slots: bool = False,
    groups: str | None = None,
) -> Arrays:
    """Read codes and factors.

    Args:
      path: ``.npz`` with arrays ``codes`` and, without ``factors_path``, ``factors``, and optionally the factors'
        ``names``, their ``sizes`` (how many values, 0 if continuous) and ``variances``, or ``.safetensors`` with the
        same arrays; or the codes alone, as ``.npy`` (memory-mapped) or as a table (``.csv``, ``.parquet`` and others)
        whose columns are codes, or one of which holds them as lists; or ``cells.h5ad:KEY`` or ``cells.zarr:KEY``, which
        represents cells, whose annotations are the factors. If there are several, the one with codes is named after a
        colon: ``acts.npz:resid``.
      factors_path: the factors, or their file, which :meth:`jaxdis.Factors.from_table` reads; a table may be the one
        with the codes.
      columns: columns in this file, or annotations, each alone or with what it holds, as ``angle:continuous`` or
        ``shape:classes``; all if empty. Without ``factors_path``, a table's columns of these names are the factors, and
        its others the codes.
      missing: as in :meth:`jaxdis.Factors.from_table`; ``"drop"`` leaves out the same samples from codes and variances.
      slots: whether codes are ``[n, slots, d]``, as those with four axes always are: ``[m, n, slots, d]``.
      groups: the column or annotation that says which rows belong together, or an array in an ``.npz``. It is no factor
        unless ``columns`` has it.
    """
    path, given = Path(path), factors_path if isinstance(factors_path, Factors) else None
    file, _ = file_and_part(path)
    factors_path = None if factors_path is None or given is not None else Path(factors_path)
    if groups is not None:
        table = path if factors_path is None else factors_path
        files.check_file(file_and_part(table)[0])
        others, entries = _grouped_once(table, groups, file_and_part(table)[0].stat().st_mtime_ns)
        arrays = load_arrays(path, factors_path, columns or others, missing, slots=slots)
        return arrays._replace(groups=entries)
    if is_cells(path) and given is None and factors_path in (None, file):
        codes, annotations = files.read_cells(path)
        names, kinds = columns_and_kinds(columns)
        given = Factors.from_table(annotations, names or None, kinds, missing)
        return Arrays(_kept(codes, given, path), given, None)
    if (
        suffix_of(file) in tables.SUFFIXES
        and given is None
        and (factors_path == file or (columns and factors_path is None))
    ):
        return _of_one_table(path, columns, missing)
    if (columns or missing != "error") and factors_path is None:
        option = "--columns" if columns else "--missing"
        raise ValueError(f"{option}: goes with --factors FILE ({', '.join(tables.FACTOR_SUFFIXES)}), got no such file")
    if factors_path == file:
        raise ValueError(f"--factors: must be another file than the codes, got {printable(path)} for both")
    arrays = _codes_of(path)
    codes, variances = arrays["codes"], arrays.get("variances")
    if factors_path is None and given is None:
        if "factors" not in arrays:
            raise ValueError(
                f"{printable(path)}: must have an array 'factors', got {shown(sorted(arrays))}; give the file of the "
                f"factors (factors= in Python, --factors factors.npy in the shell), or make one with {MAKE_ONE}"
            )
        array = np.asarray(arrays["factors"])
        try:
            sizes, names = tables.sizes_of(arrays.get("sizes")), tables.names_of(arrays.get("names"))
            factors = _factors_once(array.tobytes(), array.shape, array.dtype, sizes, names and tuple(names))
        except ValueError as error:
            raise ValueError(f"{printable(path)}: {error}") from None
        return Arrays(codes, factors, variances, {n: arrays[n] for n in OF_SLOTS if n in arrays})
    if "factors" in arrays:
        raise ValueError(f"--factors: goes with an .npy of codes; {printable(path)} holds its own")
    if given is None:
        files.check_file(factors_path)
        given = _read_once(factors_path, tuple(columns), missing, factors_path.stat().st_mtime_ns)
    codes, variances = (_kept(array, given, path, slots) for array in (codes, variances))
    return Arrays(codes, given, variances)


def read_files(
    files: Mapping[str, Path], load: Callable[[Path], Any], refused: dict[str, str] | None
) -> Iterator[tuple[str, Any]]:
    """What ``load`` reads of each file. What is wrong with the others goes into ``refused`` if there is one."""
    for name, path in files.items():
        try:
            found = load(path)
        except ValueError as error:
            if refused is None:
                raise
            refused[name] = str(error).removeprefix(f"{printable(path)}: ")
        else:
            yield name, found


def grouped(read: Iterable[tuple[str, Arrays | Path]]) -> Iterator[dict[str, Arrays | Path]]:
    """Files that can be scored as members in one zoo, by name; one that holds something else is alone."""
    group, size, sound = {}, 0, False
    for name, arrays in read:
        was_sound, sound = sound, not isinstance(arrays, Path) and _sound(arrays)
        fits = sound and was_sound and size < GROUP_BYTES and alike(next(iter(group.values())), arrays)
        if group and not fits:
            yield group
            group, size = {}, 0
        group[name] = arrays
        size += 0 if isinstance(arrays, Path) else arrays.codes.nbytes
    if group:
        yield group


def _sound(arrays: Arrays) -> bool:
    """Whether a file holds one member, not too large for a group, about which nothing will be warned or refused."""
    codes, variances = arrays.codes, arrays.variances
    if codes.ndim != 2 or codes.size == 0 or codes.nbytes > GROUP_BYTES:
        return False
    if not is_real(codes) or (variances is not None and not is_real(variances)):
        return False
    # The first row mostly shows that no column is tiny, and bounds of whole arrays are found ten times as fast.
    usual = float(codes.min()) >= -LARGEST and float(codes.max()) <= LARGEST
    usual = usual and bool((np.abs(codes[0].astype(np.float64)) >= SMALLEST).all())
    if not usual:
        largest = np.maximum(-codes.min(axis=0).astype(np.float64), codes.max(axis=0).astype(np.float64))
        usual = bool(((largest == 0) | ((largest >= SMALLEST) & (largest <= LARGEST))).all())  # False for NaN
    return usual and (variances is None or bool((variances >= 0).all()))


def together(group: Mapping[str, Arrays], test: Path | None) -> tuple:
    """Codes and variances of alike files, ``[m, n, d]`` if there are several, and held-out ``(codes, factors)``."""
    first, held_out = next(iter(group.values())), None
    if test is not None:
        for factor, values in zip(first.factors.names, first.factors.classes or (), strict=False):
            if values is not None and list(values) != list(range(len(values))):  # as held-out ones have to be
                words = f"classes of {factor} that are not 0, 1, 2, …; put these numbers into the table"
                raise ValueError(f"--test: must be numbered as the table of factors, got {words}")
        other = load_arrays(test)
        held_out = other.codes, other.factors
    if len(group) == 1:
        return first.codes, first.variances, held_out
    if held_out is not None and held_out[0].ndim == 2:
        held_out = np.broadcast_to(held_out[0], (len(group), *held_out[0].shape)), held_out[1]
    codes, variances = np.stack([arrays.codes for arrays in group.values()]), None
    if first.variances is not None:
        variances = np.stack([arrays.variances for arrays in group.values()])
    return codes, variances, held_out


def alike(one: Arrays, other: Arrays) -> bool:
    """Whether two files' codes can be members in one zoo."""
    shapes = [
        [(array.shape, array.dtype) for array in (arrays.codes, arrays.variances) if array is not None]
        for arrays in (one, other)
    ]
    together = one.groups is other.groups or one.groups == other.groups
    return shapes[0] == shapes[1] and together and same_factors(one.factors, other.factors)


def same_factors(one: Factors, other: Factors) -> bool:
    known = ("sizes", "names", "classes", "periods", "nominal")
    alike = all(getattr(one, name) == getattr(other, name) for name in known)
    return one is other or (alike and np.array_equal(one.values, other.values))


def in_words(factors: Factors) -> str:
    """What each factor is: ``shape (2 classes: heart, square), x (continuous)``, and how many rows lack a value.

    Of many factors, the first are listed, and the others counted.
    """
    values = np.asarray(factors.values)
    there, words = factors.there, []
    for j, (name, kind) in enumerate(zip(factors.names[:MOST_LISTED], factors.kinds, strict=False)):
        count = np.unique(values[there[:, j], j]).size
        kind = kind if kind != "classes" else "1 class" if count == 1 else f"{count} classes"
        kind += " without order" if factors.nominal and factors.nominal[j] else ""
        named = factors.classes[j] if factors.classes else None
        listed = named and len(named) <= MOST_NAMED and any(isinstance(value, str) for value in named)
        words.append(f"{some_of([name])} ({kind}: {some_of(named)})" if listed else f"{some_of([name])} ({kind})")
    others = collections.Counter(factors.kinds[MOST_LISTED:])
    if others:
        counts = ", ".join(
            f"{count:,} {kind if kind != 'classes' else 'with classes'}" for kind, count in others.items()
        )
        words[-1] += f" and {others.total():,} more ({counts})"
    lacking = int((~there).any(axis=1).sum()) if factors.rows is None else factors.num_rows - len(factors.rows)
    left = "are left out" if factors.rows is not None else "count for the factors that have one"
    return ", ".join(words) + (f"; {lacking} of {factors.num_rows} rows lack a value and {left}" if lacking else "")


@functools.lru_cache(maxsize=1)
def _read_once(path: Path, columns: tuple[str, ...], missing: Missing, _time: int) -> Factors:
    """A table that many files' codes share."""
    names, kinds = columns_and_kinds(columns)
    return Factors.from_table(path, names, kinds, missing)


@functools.lru_cache(maxsize=1)
def _grouped_once(path: Path, name: str, _time: int) -> tuple[tuple[str, ...], list]:
    """A table's other columns, and the entries of the one that names groups; or an array in an ``.npz``."""
    file, _ = file_and_part(path)
    if suffix_of(file) in files.ARRAY_SUFFIXES:
        array = None if suffix_of(file) == ".npy" else read_arrays(file, (name,)).get(name)
        if array is None:
            raise ValueError(f"--groups: must be an array in the file, or a column of --factors, got {shown(name)}")
        return (), array.tolist()
    table = files.read_annotations(file) if is_cells(path) else file
    entries = columns_of(table, [name])[name].entries
    return tuple(column for column in columns_of(table) if column != name), entries


def _of_one_table(path: Path, columns: Sequence[str], missing: Missing) -> Arrays:
    """Codes and factors from columns of one table: lists are codes; without lists, all columns that are no factors."""
    file, part = file_and_part(path)
    names, kinds = columns_and_kinds(columns)
    codes = files.codes_in_lists(file, part) if suffix_of(file) in files.ARROW_SUFFIXES else None
    if codes is None and not names:
        raise ValueError(
            f"--factors: must be another file than the codes, or --columns must name the factors among "
            f"{some_of(columns_of(file))}, got {printable(path)} for both"
        )
    if codes is None:
        codes = _codes_of_columns(file, names)
    names = names or [field.name for field in files.read_arrow(file).schema if not files.is_list(field.type)]
    factors = Factors.from_table(file, names, kinds, missing)
    return Arrays(_kept(codes, factors, path), factors, None)


def _codes_of(path: Path) -> dict[str, np.ndarray]:
    """Codes, and what an .npz holds beside them."""
    file, part = file_and_part(path)
    suffix = files.format_of(file, CODE_SUFFIXES, "codes", f"; make one with {MAKE_ONE}")
    if suffix in files.CELL_SUFFIXES:
        return {"codes": files.read_cells(path)[0]}
    if suffix in files.ARROW_SUFFIXES and (codes := files.codes_in_lists(file, part)) is not None:
        return {"codes": codes}
    if suffix in tables.SUFFIXES:
        return {"codes": _codes_of_columns(file)}
    arrays = read_arrays(file, (*NAMES, *OF_SLOTS) if part is None else (part,))
    lone = next(iter(arrays)) if part is None and len(arrays) == 1 and suffix == ".safetensors" else part
    if lone is not None and lone in arrays:
        return {"codes": read_arrays(file, (lone,))[lone]}
    if part is not None or "codes" not in arrays:
        known = some_of([f"{file.name}:{name}" for name in arrays])
        wanted = "codes" if part is None else part
        raise ValueError(
            f"{printable(file)}: must have an array {shown(wanted)}, got {shown(sorted(arrays))}; name another "
            f"({known}), or make one with {MAKE_ONE}"
        )
    return arrays


def _codes_of_columns(path: Path, factors: Sequence[str] = ()) -> np.ndarray:
    """Codes ``[n, d]``: a table's columns, but those of the factors."""
    codes = {name: column.entries for name, column in columns_of(path).items() if name not in factors}
    if not codes:
        raise ValueError(f"{path.name}: must have columns of codes beside {some_of(factors)}, got none")
    for name, entries in codes.items():
        row, text = next(((row, entry) for row, entry in enumerate(entries, 1) if isinstance(entry, str)), (0, None))
        if row:
            advice = "leave out what is no code, or name the factors by --columns"
            if text.startswith("["):
                advice = "make lists an array: numpy.save('codes.npy', numpy.stack(list(map(json.loads, column))))"
            raise ValueError(
                f"{path.name}: column {shown(name)} must hold numbers, got {shown(text)} in row {row}; {advice}"
            )
        if (
            len(entries) > tables.FEW_CLASSES
            and tables.differ(entries)
            and max(entries) - min(entries) == len(entries) - 1
        ):
            raise ValueError(f"{path.name}: column {shown(name)} must hold a code, got row numbers; leave it out")
    return np.array([list(entries) for entries in codes.values()], np.float64).T  # missing ones are NaN


@functools.lru_cache(maxsize=1)
def _factors_once(content: bytes, shape: tuple[int, ...], dtype: np.dtype, sizes, names) -> Factors:
    """Factors that many files have in common."""
    return Factors.of(np.frombuffer(content, dtype).reshape(shape), sizes, names)


def _kept(array: np.ndarray | None, factors: Factors, path: Path, slots: bool = False) -> np.ndarray | None:
    """The rows that a table's factors kept, from codes or variances."""
    if array is None or factors.rows is None:
        return array
    axis = -3 if slots or array.ndim == 4 else -2
    kept = factors.at_rows(array, axis)
    if kept is array:
        raise ValueError(
            f"{printable(path)}: must have as many samples as the table of factors has rows, {factors.num_rows}, got "
            f"shape {array.shape}"
        )
    return kept


def read_images(path: str | Path) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """A file's images, and what it holds about their factors: ``factors``, ``names`` and ``sizes``.

    Args:
      path: ``.npy`` with images, or ``.npz`` with an array ``images``.
    """
    path = Path(path)
    files.format_of(path, (".npy", ".npz"), "images", "; make one with numpy.save('images.npy', images)")
    arrays = read_arrays(path, ("images", "factors", "names", "sizes"))
    if arrays.get("images") is None:
        raise ValueError(f"{printable(path)}: must have an array 'images', got {shown(sorted(arrays))}")
    images = arrays.pop("images")
    if not images.ndim or not len(images):
        raise ValueError(f"{printable(path)}: must have at least one image, got shape {images.shape}")
    if "factors" in arrays and arrays["factors"].shape[:1] != images.shape[:1]:
        shapes = f"factors {arrays['factors'].shape} of images {images.shape}"
        raise ValueError(f"{printable(path)}: must have one row of factors per image, got {shapes}")
    return images, arrays
