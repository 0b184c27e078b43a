"""A table as a head and rows, written as CSV."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from jaxdis._core.files import write_csv

# Named for what it is wherever it stands in a table.
PARTITION = "labelled_partition"


class Table(NamedTuple):
    """A head, and rows of text and numbers."""

    head: list[str]
    rows: list[list]

    def write(self, path: Path) -> None:
        """Write to a file, numbers with six digits."""
        write_csv(path, self.head, ([_cell(value) for value in row] for row in self.rows))


def _cell(value) -> str:
    return value if isinstance(value, str) else "" if np.isnan(value) else f"{value:.6g}"
