"""Ground-truth factors, checked once: their values, and what must be known before compilation."""

import dataclasses
import functools
import numbers
import os
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Num

from jaxdis._core.arrays import as_numpy, check_one_array
from jaxdis._core.options import Range, checked_value, listed, shown
from jaxdis._core.precision import single_precision
from jaxdis._core.table_columns import Kind, Missing, columns_of, numbered

# More classes than this, and than samples, are ids or time stamps: no table of them fits into memory.
MOST_CLASSES = 2**16
# A continuous factor of which float32 merges more than half of the values is refused.
LEVELS_KEPT = 0.5
NUMBER_CLASSES = "number the values that occur by np.unique(column, return_inverse=True)[1]"
READ_TABLE = "Factors.from_table reads text, categories and missing values"

Codes = Float[Array, "n d"]
Weights = Float[Array, " n"]


# What no program depends on is dropped where one begins: another table of the same sizes runs the same program.
@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["values"],
    meta_fields=["sizes", "names", "periods", "nominal"],
    drop_fields=["classes", "rows", "num_rows", "present"],
)
@dataclasses.dataclass(frozen=True)
class Factors:
    """Ground-truth factors for ``n`` samples; sizes and names are static, since they must be known before compilation.

    Attributes:
      values: ``[n, k]``; int32 if every factor is discrete, float32 if at least one is continuous (class numbers are
        then stored as whole floats; read them by :meth:`discrete`).
      sizes: how many values each factor has; ``None`` marks a continuous or circular factor.
      names: one name per factor.
      periods: each circular factor's period, None for others; None if no factor is circular.
      nominal: which factors have three classes or more without an order, such as text; None if none has. Metrics that
        take class numbers as values read an indicator for each class instead, or leave these factors out.
      classes: for each factor the table's values that its class numbers stand for, in order, or None; None for factors
        from no table. This and what follows is unknown in traced code.
      rows: the table's rows that ``missing="drop"`` kept; None for all.
      num_rows: how many rows the table has; None for no table.
      present: ``[n, k]`` truth values, which values ``missing="each"`` found; None for all.

    Construct it by :meth:`of` or :meth:`from_table`, which check their arguments; the constructor is for traced code
    and checks nothing.
    """

    # A leading axis appears only between transformations; shapes take the place of values while JAX lowers a program.
    values: Num[Array, "... n k"] | jax.ShapeDtypeStruct | jax.stages.ArgInfo
    sizes: tuple[int | None, ...] = dataclasses.field(metadata={"static": True})
    names: tuple[str, ...] = dataclasses.field(metadata={"static": True})
    periods: tuple[float | None, ...] | None = None
    nominal: tuple[bool, ...] | None = None
    classes: tuple[tuple | None, ...] | None = dataclasses.field(default=None, compare=False)
    rows: np.ndarray | None = dataclasses.field(default=None, compare=False)
    num_rows: int | None = dataclasses.field(default=None, compare=False)
    present: np.ndarray | None = dataclasses.field(default=None, compare=False)

    @classmethod
    @single_precision
    def from_table(
        cls,
        table,
        columns: Sequence[str] | None = None,
        kinds: Mapping[str, Kind | tuple] | None = None,
        missing: Missing = "error",
        names: Sequence[str] | None = None,
    ) -> "Factors":
        """Read factors from a table's columns.

        Args:
          table: a data frame (pandas, polars or others), an Arrow table, a mapping from names to columns, or a file's
            path: ``.csv``, ``.tsv``, ``.txt``, ``.parquet``, ``.json`` (rows or columns), ``.npy``, or ``.npz`` (an
            array ``factors [n, k]`` with ``names`` and ``sizes``, or one array ``[n]`` per column).
          columns: the columns to read, in the order wanted; all when None.
          kinds: what a column holds, by its name. ``"continuous"``; ``"circular"``, or ``("circular", 360.0)`` with its
            period, which otherwise is the range and one grid step; ``"classes"``, in order if they are numbers;
            ``"nominal"``, classes without an order; ``("ordered", ("low", "medium", "high"))``, all classes in order,
            or ``"ordered"`` for numbers and declared categories.
          missing: what happens to rows where a column has no value. ``"error"`` refuses them; ``"drop"`` leaves them
            out, and :func:`jaxdis.evaluate` leaves the same rows out of the codes; ``"each"`` keeps them, and
            :func:`jaxdis.evaluate` scores every factor on the rows that have it.
          names: other names for the factors.

        Contract:

        - Text, truth values, categories and whole numbers are classes, numbered from 0: categories as declared, others
          sorted. :attr:`classes` keeps what the numbers stand for.
        - Text and categories are nominal, unless ``kinds`` or the categories declare an order; whole numbers are
          ordered. No score depends on how nominal classes are numbered.
        - Other numbers are continuous.
        - Text that spells a number is one. Entries that are empty, NaN, NA, N/A, null, None, ? or - are missing.
        - A data frame's index, or a nameless column that numbers the rows, is no factor. Whole numbers or texts that
          mostly occur once, such as ids, are refused unless ``kinds`` says what they are.

        >>> table = {"shape": ["heart", "square", "heart"], "x": [0.5, 0.25, 1.5]}
        >>> factors = Factors.from_table(table)
        >>> factors.classes
        (('heart', 'square'), None)
        >>> factors.kinds
        ('classes', 'continuous')
        """
        chosen = [] if columns is None else listed([columns] if isinstance(columns, str) else columns)
        if chosen is None or not all(isinstance(name, str) for name in chosen):
            raise ValueError(f"columns: must be names of columns, got {shown(columns)}")
        if not isinstance(kinds, Mapping | None):
            raise ValueError(f"kinds: must be a mapping from columns to kinds, got {shown(kinds)}")
        found = columns_of(table, chosen)
        try:
            read = numbered(found, kinds or {}, missing)
            factors = cls.of(read.values, read.sizes, list(found) if names is None else names)
        except ValueError as error:
            of_file, named = isinstance(table, str | os.PathLike), str(error).split(" ")[0].endswith(":")
            where = f"{Path(table).name}: " if of_file else "" if named else "table: "
            raise ValueError(f"{where}{error}") from None
        nominal = tuple(  # of two classes either may come first
            each and size is not None and size > 2 for each, size in zip(read.nominal, read.sizes, strict=True)
        )
        return dataclasses.replace(
            factors,
            periods=read.periods if any(read.periods) else None,
            nominal=nominal if any(nominal) else None,
            classes=read.classes,
            rows=None if len(read.rows) == read.num_rows else read.rows,
            num_rows=read.num_rows,
            present=read.present,
        )

    @property
    def kinds(self) -> tuple[str, ...]:
        """``classes``, ``continuous`` or ``circular``, for each factor."""
        periods = self.periods or (None,) * len(self.sizes)
        pairs = zip(self.sizes, periods, strict=True)
        return tuple(
            "classes" if size is not None else "circular" if period else "continuous" for size, period in pairs
        )

    def __repr__(self) -> str:
        """Say how many samples there are, and what each factor is."""
        nominal, periods = self.nominal or [False] * len(self.sizes), self.periods or [None] * len(self.sizes)
        kinds = []
        for size, unordered, period in zip(self.sizes, nominal, periods, strict=True):
            continuous = "continuous" if period is None else f"circular, period {period:g}"
            kinds.append(continuous if size is None else f"{size} classes{' without order' if unordered else ''}")
        named = ", ".join(f"{name} ({kind})" for name, kind in zip(self.names, kinds, strict=True))
        return f"Factors of {np.shape(self.values)[0]:,} samples: {named}"

    @classmethod
    @single_precision
    def of(cls, values, sizes=None, names=None) -> "Factors":
        """Check and wrap factors in an array.

        Args:
          values: ``[n, k]`` (or ``[n]`` for one factor), NumPy, JAX or DLPack. Discrete factors hold whole numbers from
            0 to size − 1.
          sizes: how many values each of ``k`` factors has, ``None`` for a continuous factor; inferred as maximum + 1
            when not given. A size is at most 65,536, or as many as there are samples if that is more.
          names: ``k`` distinct names; when not given, a data frame's column names, or ``factor_0``, ….
        """
        check_one_array(values, "factors")
        frame = list(values.columns) if hasattr(values, "columns") and hasattr(values, "dtypes") else []
        frame = frame if all(isinstance(name, str) for name in frame) else []  # columns may have only numbers
        texts = [name for name in frame if np.asarray(values[name]).dtype.kind not in "iubf"]
        text = f" in {', '.join(texts)}" if texts else ""
        array = as_numpy(values, "factors", f"{text}; {READ_TABLE if hasattr(values, 'columns') else NUMBER_CLASSES}")
        array = array[:, None] if array.ndim == 1 else array
        if array.ndim != 2:
            raise ValueError(f"factors: must have shape [n, k] (samples, factors), got {array.shape}")
        if array.shape[0] < 2:
            raise ValueError(f"factors: must have at least 2 samples, got {array.shape[0]}")
        if array.shape[1] < 1:
            raise ValueError(f"factors: must have at least 1 factor (column), got shape {array.shape}")
        if array.dtype.kind not in "iubf":
            advice = f"; {NUMBER_CLASSES}" if array.dtype.kind in "SU" else ""
            raise ValueError(f"factors: must be whole or real numbers, got dtype {array.dtype}{advice}")
        k = array.shape[1]
        names = (frame or None) if names is None else names
        names = [f"factor_{j}" for j in range(k)] if names is None else _entries(names, "names", k)
        for name in names:
            if not isinstance(name, str) or not name:
                raise ValueError(f"names: must be text that is not empty, got {name}")
        names = tuple(map(str, names))
        if len(set(names)) != k:
            raise ValueError(f"names: must be distinct names, got {names}")
        declared = _entries(sizes, "sizes", k)
        sizes = tuple(
            _checked_size(array[:, j], names[j], None if declared is None else declared[j], inferred=declared is None)
            for j in range(k)
        )
        # Not by jnp.asarray, which compiles a program for every shape.
        return cls(jax.device_put(array.astype(np.float32 if None in sizes else np.int32)), sizes, names)

    @classmethod
    @single_precision
    def checked(cls, factors, *, gaps: bool = False) -> "Factors":
        """Construct factors from an array by :meth:`of`; return a :class:`Factors`, which was checked once, unchanged.

        Args:
          gaps: whether values may be missing.
        """
        if not isinstance(factors, Factors):
            return cls.of(factors)
        if factors.present is not None and not gaps:
            raise ValueError(
                "factors: must have a value in every sample here, got missing ones; read them by "
                "Factors.from_table(…, missing='drop')"
            )
        values, sizes = np.asarray(factors.values), factors.sizes
        sound = (
            values.ndim == 2 and values.shape[1] == len(sizes) and len(values) > 1 and bool(np.isfinite(values).all())
        )
        if sound:
            most = np.array([np.inf if size is None else size for size in sizes])
            sound = bool(((values.max(axis=0) < most) & ((values.min(axis=0) >= 0) | np.isinf(most))).all())
        if not sound:  # made by hand
            cls.of(factors.values, sizes, factors.names)
        return factors

    @single_precision
    def binned(self, bins: int = 20) -> "Factors":
        """The same factors with every continuous one cut into equal-width bins, as classes 0 … bins − 1."""
        bins = checked_value("bins", Annotated[int, Range(1, MOST_CLASSES)], bins)
        values = np.asarray(self.values, float)
        low, high = values.min(axis=0), values.max(axis=0)
        cut = np.clip(np.floor((values - low) / np.where(high > low, high - low, 1.0) * bins), 0, bins - 1)
        continuous = np.array([size is None for size in self.sizes])
        binned = Factors.of(np.where(continuous, cut, values), tuple(size or bins for size in self.sizes), self.names)
        kept = {name: getattr(self, name) for name in ("nominal", "classes", "rows", "num_rows", "present")}
        return dataclasses.replace(binned, **kept)

    @single_precision
    def one_hot(self) -> "Factors":
        """A factor for each class, 1 in the samples that have it and 0 in others, named ``factor=class``.

        Factors with two classes, and continuous ones, stay as they are. Metrics that ask for one code per factor then
        ask for one per class, such as a cell type.

        >>> Factors.from_table({"type": ["B", "T", "NK", "B", "T", "B"]}).one_hot().names
        ('type=B', 'type=NK', 'type=T')
        """
        values, columns, names, kept = np.asarray(self.values), [], [], []
        for j, (name, size) in enumerate(zip(self.names, self.sizes, strict=True)):
            several = size is not None and size > 2
            labels = (self.classes[j] if self.classes else None) or range(size or 0)
            columns += [values[:, j] == value for value in range(size)] if several else [values[:, j]]
            names += [f"{name}={label}" for label in labels] if several else [name]
            kept += [j] * (size if several else 1)
        sizes = [2 if names[place] != self.names[j] else self.sizes[j] for place, j in enumerate(kept)]
        split = Factors.of(np.stack(columns, axis=1), sizes, names)
        periods = None if self.periods is None else tuple(self.periods[j] for j in kept)
        present = None if self.present is None else self.present[:, np.array(kept)]
        kept = {"rows": self.rows, "num_rows": self.num_rows}
        return dataclasses.replace(split, periods=periods, present=present, **kept)

    def at_rows(self, array, axis: int = -2):
        """Take the rows in an array that these factors' table kept, if the array has all rows of the table."""
        if array is None or self.rows is None:
            return array
        array = array if hasattr(array, "shape") else np.asarray(array)
        if len(array.shape) < abs(axis) or array.shape[axis] != self.num_rows:
            return array
        return array[self.rows] if axis == 0 else array[(..., self.rows, *(slice(None),) * (-axis - 1))]

    def bare(self) -> "Factors":
        """The same factors without what is known of their table, as programs see them."""
        return dataclasses.replace(self, classes=None, rows=None, num_rows=None, present=None)

    def alike(self, values) -> "Factors":
        """The same factors on other samples, given as :class:`Factors` or as an array in this form; not checked."""
        if isinstance(values, Factors):
            if values.present is not None or (values.classes and self.classes and values.classes != self.classes):
                raise ValueError(
                    "factors: must be complete and number classes alike on all samples; use jaxdis.evaluate"
                )
            values = values.values
        return dataclasses.replace(self.bare(), values=jnp.asarray(values, self.values.dtype))

    @property
    def there(self) -> np.ndarray:
        """Truth values ``[n, k]``, which values are present."""
        return np.ones(self.values.shape, bool) if self.present is None else self.present

    @property
    def num_samples(self) -> int:
        return self.values.shape[0]

    @property
    def num_factors(self) -> int:
        return len(self.sizes)

    def select(self, columns: Sequence[int]) -> "Factors":
        """Take some factors, by number, for all samples: their values, and what is known in traced code."""
        known = self.sizes, self.names, self.periods, self.nominal
        known = (None if of is None else tuple(of[j] for j in columns) for of in known)
        return Factors(self.values[..., np.array(columns, int)], *known)

    @single_precision
    def discrete(self) -> Int[Array, "n j"]:
        """The discrete factors alone, as int32 class numbers ``[n, j]``, in their order."""
        columns = [j for j, size in enumerate(self.sizes) if size is not None]
        return self.values[:, np.array(columns, int)].astype(jnp.int32)

    @single_precision
    def take(self, rows) -> "Factors":
        """The same factors at the given samples.

        Args:
          rows: ``[r]`` sample numbers from 0, or ``[n]`` truth values.
        """
        if not isinstance(rows, jax.core.Tracer):
            given = np.asarray(rows)
            rows = np.flatnonzero(given) if given.dtype == bool and given.shape == (self.num_samples,) else given
            if rows.ndim != 1 or rows.dtype.kind not in "iu" or ((rows < 0) | (rows >= self.num_samples)).any():
                needed = f"numbers of samples from 0 to {self.num_samples - 1}, or {self.num_samples} truth values"
                raise ValueError(f"rows: must be {needed}, got {shown(given)}")
        present = None if self.present is None else self.present[rows]
        traced = isinstance(rows, jax.core.Tracer) or isinstance(self.values, jax.core.Tracer)
        values = self.values[rows] if traced else jax.device_put(np.asarray(self.values)[rows])
        return dataclasses.replace(self, values=values, rows=None, num_rows=None, present=present)


class Sample(NamedTuple):
    """What a relation reads from one member.

    ``codes [n, d]``; ``factors``; ``weights [n]`` ≥ 0 or None (all 1); posterior ``variances [n, d]`` or None (each
    code is taken as it is); ``groups [n]``, equal numbers for samples that belong together, or None (none do).
    """

    codes: Float[Array, "n d"]
    factors: Factors
    weights: Float[Array, " n"] | None = None
    variances: Float[Array, "n d"] | None = None
    groups: Int[Array, " n"] | None = None

    def take(self, rows) -> "Sample":
        """The same arrays at the given samples, ``[r]`` numbers."""
        weights, variances, groups = (
            None if part is None else part[rows] for part in (self.weights, self.variances, self.groups)
        )
        return Sample(self.codes[rows], self.factors.take(rows), weights, variances, groups)


def _entries(values, name: str, k: int) -> list | None:
    """A sequence's ``k`` entries, one for each factor."""
    if values is None:
        return None
    entries = None if isinstance(values, Set) else listed(values)
    if entries is None or len(entries) != k:
        given = shown(values) if entries is None else len(entries)
        raise ValueError(f"{name}: must have {k} entries, one per factor (column of factors), got {given}")
    return entries


def _checked_size(column: np.ndarray, name: str, size, *, inferred: bool) -> int | None:
    """One factor's size, after checking its values."""
    name = shown(name)
    if not np.isfinite(column).all():
        raise ValueError(f"factors: must be finite values, got {int((~np.isfinite(column)).sum())} others in {name}")
    if size is None and not inferred:
        if np.abs(column).max() > np.finfo(np.float32).max:
            raise ValueError(f"factors: must be values that float32 can hold, got larger ones in {name}")
        levels = np.unique(column.astype(np.float32)).size
        if levels < LEVELS_KEPT * np.unique(column).size:
            raise ValueError(
                f"factors: must be values that float32 tells apart, got {name} between {column.min():g} and "
                f"{column.max():g}; subtract an offset, such as its smallest value"
            )
        return None
    integral = column.dtype.kind in "iub" or (column == np.round(column)).all()
    if not integral:
        example = column[column != np.round(column)][0]
        raise ValueError(
            f"factors: factor {name} holds values that are not whole numbers (such as {example:g}); a discrete "
            "factor needs class numbers 0, 1, …; mark a continuous one by None in sizes (0 in a file)"
        )
    low, high = int(column.min()), int(column.max())
    if low < 0:
        raise ValueError(f"factors: must be class numbers from 0 upwards, got {low} in factor {name}; {NUMBER_CLASSES}")
    if not inferred and (not isinstance(size, numbers.Real) or isinstance(size, bool) or size % 1 or size < 1):
        raise ValueError(f"sizes: must be whole numbers of at least 1 or None, got {shown(size)} for factor {name}")
    size = high + 1 if inferred else int(size)
    if size > max(MOST_CLASSES, len(column)):
        most = max(MOST_CLASSES, len(column))
        raise ValueError(
            f"{'factors' if inferred else 'sizes'}: must have at most {most:,} classes, got "
            f"{size:,} in factor {name}; {NUMBER_CLASSES}, "
            "or mark a continuous factor by None in sizes (0 in a file)"
        )
    if high >= size:
        raise ValueError(
            f"factors: factor {name} of size {size} must have values from 0 to {size - 1}, got {high}; declare classes "
            "that a part of the samples lacks by Factors.of(values, sizes=…)"
        )
    return size


__all__ = ["Codes", "Factors", "Sample", "Weights"]
