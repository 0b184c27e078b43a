"""Scores of a zoo as a table: one row a member, one column a number."""

import csv
import dataclasses
import io
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np


@dataclasses.dataclass(frozen=True)
class Scores(Mapping[str, np.ndarray | np.generic]):
    """A mapping from column names to numbers: ``[]`` for one representation, ``[m]`` for a zoo.

    A metric with one headline number is the column of its own name; one with several is a column for each,
    ``metric.field``. Per-code and per-factor arrays are not columns: :meth:`part` gives them.
    """

    columns: dict[str, np.ndarray | np.generic]
    parts: dict[str, np.ndarray]
    factor_names: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> np.ndarray | np.generic:
        if name not in self.columns:
            raise KeyError(f"no column {name!r}; the columns are {list(self.columns)}")
        return self.columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def part(self, name: str) -> np.ndarray:
        """The array behind a score, such as ``"mig.per_factor"``: ``[…]``, or ``[m, …]`` for a zoo."""
        if name not in self.parts:
            raise KeyError(f"no part {name!r}; the parts are {list(self.parts)}")
        return self.parts[name]

    def to_dict(self) -> dict[str, float | list[float]]:
        """Columns as plain numbers, or lists of them for a zoo."""
        return {name: column.tolist() for name, column in self.columns.items()}

    def to_csv(self, path: str | Path | None = None) -> str:
        """Comma-separated text, one row a member under a header; written to ``path`` when given."""
        rows = zip(*(np.atleast_1d(column).tolist() for column in self.columns.values()), strict=True)
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["member", *self.columns])
        writer.writerows([member, *row] for member, row in enumerate(rows))
        if path is not None:
            Path(path).write_text(text.getvalue(), encoding="utf-8")
        return text.getvalue()

    def __repr__(self) -> str:
        members = {np.size(column) for column in self.columns.values()}
        width = max(map(len, self.columns), default=0)
        lines = [f"Scores of {max(members, default=0)} member(s)"]
        for name, column in self.columns.items():
            values = np.atleast_1d(column)
            spread = f" ± {np.std(values):.4f}" if np.ndim(column) else ""
            lines.append(f"  {name:<{width}}  {np.mean(values):.4f}{spread}")
        return "\n".join(lines)
