"""What a study's driver asks from it: its cells, batches of missing ones, and what is derived from them all.

Studies are values; :data:`WORKS` says what computes each kind.
"""

from collections.abc import Callable, Iterator, MutableMapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

from jaxdis.study._store import Store

Updates = Callable[[float], None]


class Batch(NamedTuple):
    """Cells that are computed together. Small values, since they are sent to workers.

    Attributes:
      kind: a kind in :data:`jaxdis.study._store.KINDS`.
      members: what the work needs in order to compute them.
      cells: how many cells.
    """

    kind: str
    members: tuple
    cells: int


class Totals(NamedTuple):
    """What all cells of one kind cost: floating-point operations, seconds, bytes, and one member's memory."""

    flops: float
    seconds: float
    disk_bytes: float
    memory_bytes: float = 0.0


class Digest(NamedTuple):
    """A short table for a terminal: title, heads, text rows, and a remark below."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    remark: str


@runtime_checkable
class Work(Protocol):
    """A study as the driver sees it. Each kind of study has a row in :data:`WORKS`."""

    study: Any

    def describe(self) -> dict:
        """The identity of the study's directory."""

    def wanted(self) -> dict[str, set[str]]:
        """Ids of all cells, by kind."""

    def missing(self, store: Store) -> Iterator[Batch]:
        """Batches of missing cells whose parents exist."""

    def compute(self, store: Store, batch: Batch, on_updates: Updates | None = None) -> None:
        """Compute and publish the cells of a batch.

        ``on_updates`` is called with the training done so far, in members: 1.5 is one and a half members' updates.
        """

    def finish(self, store: Store) -> Path:
        """Write the tables that are derived from all cells; returns the path of the first."""

    def report(self, store: Store) -> Path:
        """Write the report from the tables; returns its path."""

    def digest(self, store: Store) -> Digest | None:
        """A short table to print once all cells are there; None if there is none."""

    def costs(self) -> dict[str, Totals]:
        """Estimated costs of all cells, by kind."""


# The work of each class of studies. The module that defines a work adds its row.
WORKS: MutableMapping[type, Callable[..., Work]] = {}


def work_of(study) -> Work:
    """Wrap a study as the driver sees it; a work is returned as it is, so that the ids of its cells are made once.

    A class without a row has the work of the class that it derives from.

    Raises:
      TypeError: for anything else.
    """
    if isinstance(study, Work):
        return study
    for kind in type(study).__mro__:
        if kind in WORKS:
            return WORKS[kind](study)
    kinds = ", ".join(kind.__name__ for kind in WORKS)
    raise TypeError(f"study: must be one of {kinds}, got {type(study).__name__}")
