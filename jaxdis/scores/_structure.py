"""How codes and factors are organized: their place at every level in a hierarchy."""

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from jaxdis._core.options import Units, checked, checked_value, listed, shown

Side = Literal["codes", "factors"]
Levels = str | Sequence[str] | None


class Groups(NamedTuple):
    """``number [d]`` (or ``[k]``): the group of each code (or factor), from 0; ``names``: each group's labels."""

    number: np.ndarray
    names: tuple[tuple[str, ...], ...]

    @property
    def indicator(self) -> np.ndarray:
        """``[d, groups]``, 1 where a code belongs to a group."""
        return (self.number[:, None] == np.arange(len(self.names))[None]).astype(np.float32)


@dataclasses.dataclass(frozen=True)
class Structure:
    """How codes and factors are organized in levels. Immutable and hashable: a metric's static option.

    Attributes:
      levels: what the levels are called, such as ``("object", "property")``; as many as wanted.
      codes: one tuple per code with its label in each level: ``("slot 1", "dim 1")``.
      factors: one tuple per factor, ``("object 1", "red")``. Codes and factors share the levels, not the labels.

    Groups may be ragged: not every combination of labels needs to exist. Construct it with :meth:`of`, :meth:`slots` or
    :meth:`flat`.

    Reference: Dang-Nhu 2022, App. B.2 (structures as relations).

    Example:
      >>> structure = Structure.slots(5, 16, objects=4, properties=("red", "green", "x", "y"))
      >>> structure.groups("factors", "property").names
      (('red',), ('green',), ('x',), ('y',))
    """

    levels: tuple[str, ...]
    codes: tuple[tuple[str, ...], ...]
    factors: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, levels: Iterable[str], codes: Iterable[Sequence], factors: Iterable[Sequence]) -> "Structure":
        """Check the arguments and construct a structure.

        Args:
          levels: distinct names.
          codes, factors: one tuple with labels each; one with fewer labels than levels ends early, and is in the group
            ``""`` at the missing levels.

        Raises:
          ValueError: for levels or tuples that are empty or not distinct, or for a tuple with too many labels.
        """
        levels = _words("levels", levels)
        if not levels or len(set(levels)) != len(levels):
            raise ValueError(f"levels: must have at least one name, all distinct, got {levels}")
        sides = {"codes": _labels("codes", codes, levels), "factors": _labels("factors", factors, levels)}
        return cls(levels, **sides)

    @classmethod
    def slots(
        cls,
        slots: int,
        dims: int | Sequence[str],
        objects: int | Sequence[str],
        properties: Sequence[str],
        *,
        background: Sequence[str] = (),
        kinds: Mapping[str, str] | None = None,
    ) -> "Structure":
        """Object-centric: ``slots`` equal slots as codes, and ``objects`` with the same ``properties`` as factors.

        Codes are ordered slot by slot, factors object by object, as in ``codes.reshape(n, slots * dims)``.

        Args:
          slots: how many slots.
          dims: codes per slot; or, for three levels, each one's kind: ``["mask"] * 16 + ["content"] * 64``.
          objects: how many objects, or their names.
          properties: what each object has.
          background: the background's properties, whose factors come first and belong to the object ``"background"``.
          kinds: property → kind (``"intrinsic"``, …), the third level ``"kind"``; needs kinds in ``dims``.

        Raises:
          ValueError: as :meth:`of`; for a property without a kind, or kinds on one side only.
        """
        if isinstance(objects, int | np.integer):
            names = [f"object {i + 1}" for i in range(checked_value("objects", Units, objects))]
        else:
            names = list(_words("objects", objects))
        properties, background = _words("properties", properties), _words("background", background)
        slots = checked_value("slots", Units, slots)
        if kinds is not None and not isinstance(kinds, Mapping):
            raise ValueError(f"kinds: must be a mapping property → kind, got {shown(kinds)}")
        factors = [("background", p) for p in background] + [(o, p) for o in names for p in properties]
        if isinstance(dims, int | np.integer) != (kinds is None):
            needed = "the kind of each property and of each dim of a slot, or of neither"
            raise ValueError(f"kinds: needs {needed}; got dims {shown(dims)}")
        if kinds is None:
            dims = checked_value("dims", Units, dims)
            codes = [(f"slot {s + 1}", f"dim {i + 1}") for s in range(slots) for i in range(dims)]
            return cls.of(("object", "property"), codes, factors)
        dims = _words("dims", dims)
        missing = [p for _, p in factors if p not in kinds]
        if missing:
            raise ValueError(f"kinds: needs a kind for every property, got none for {missing[0]!r}")
        codes = [(f"slot {s + 1}", kind, f"dim {i + 1}") for s in range(slots) for i, kind in enumerate(dims)]
        return cls.of(("object", "kind", "property"), codes, [(o, kinds[p], p) for o, p in factors])

    @classmethod
    @checked
    def flat(cls, num_codes: Units, num_factors: Units) -> "Structure":
        """No hierarchy: a single level in which every code and every factor stands for itself."""
        codes = [(f"code {i + 1}",) for i in range(num_codes)]
        return cls.of(("dimension",), codes, [(f"factor {j + 1}",) for j in range(num_factors)])

    def chosen(self, levels: Levels) -> tuple[str, ...]:
        """Levels by name, in the hierarchy's order; all for None (the identity projection).

        Raises:
          ValueError: for an unknown level.
        """
        names = self.levels if levels is None else (levels,) if isinstance(levels, str) else _words("levels", levels)
        if not names:
            raise ValueError(f"levels: must have names among {self.levels}, got none")
        for name in names:
            if name not in self.levels:
                raise ValueError(f"levels: must have names among {self.levels}, got {shown(name)}")
        return tuple(level for level in self.levels if level in names)

    def groups(self, side: Side, levels: Levels = None) -> Groups:
        """The groups of codes or factors under the projection that keeps ``levels`` and drops the others."""
        checked_value("side", Side, side)
        return _groups(self, side, self.chosen(levels))

    def where(self, side: Side, level: str, label: str) -> np.ndarray:
        """Bool ``[d]`` or ``[k]``: which codes or factors have a label.

        Raises:
          ValueError: for a label that none has.
        """
        checked_value("side", Side, side)
        place = self.levels.index(self.chosen(level)[0])
        checked_value("label", str, label)
        matches = np.array([row[place] == label for row in getattr(self, side)])
        if not matches.any():
            raise ValueError(f"label: no {side} are {shown(label)} in level {level!r}")
        return matches

    @property
    def summary(self) -> str:
        return f"{' × '.join(self.levels)}: {len(self.codes)} codes, {len(self.factors)} factors"


def _words(name: str, words) -> tuple[str, ...]:
    """A sequence of texts, not a text itself."""
    entries = listed(words)
    if entries is None:
        raise ValueError(f"{name}: must be a sequence of names, got {shown(words)}")
    return tuple(checked_value(name, str, word) for word in entries)


def _labels(side: str, rows, levels) -> tuple[tuple[str, ...], ...]:
    entries = listed(rows)
    if entries is None:
        raise ValueError(f"{side}: must be tuples of labels, got {shown(rows)}")
    rows = [_words(side, (row,) if isinstance(row, str) else row) for row in entries]
    if not rows:
        raise ValueError(f"{side}: must have at least one tuple of labels, got none")
    for row in rows:
        if not 1 <= len(row) <= len(levels):
            raise ValueError(f"{side}: must have 1 to {len(levels)} labels, one per level, got {row}")
    rows = tuple(row + ("",) * (len(levels) - len(row)) for row in rows)
    if len(set(rows)) != len(rows):
        twice = next(row for i, row in enumerate(rows) if row in rows[:i])
        raise ValueError(f"{side}: must be distinct tuples, got {twice} twice")
    return rows


@functools.cache
def _groups(structure: Structure, side: Side, levels: tuple[str, ...]) -> Groups:
    places = [structure.levels.index(level) for level in levels]
    labels = [tuple(row[place] for place in places) for row in getattr(structure, side)]
    names = tuple(dict.fromkeys(labels))
    order = {name: number for number, name in enumerate(names)}
    return Groups(np.array([order[label] for label in labels], np.int32), names)
