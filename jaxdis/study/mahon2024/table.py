"""A table as a head and rows, written as CSV."""

import csv
import io
from typing import NamedTuple

import numpy as np

# Named for what it is wherever it stands in a table.
PARTITION = "labelled_partition"


class Table(NamedTuple):
    """A head, and rows of text and numbers."""

    head: list[str]
    rows: list[list]

    def csv(self) -> str:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.head)
        for row in self.rows:
            writer.writerow([_cell(value) for value in row])
        return text.getvalue()


def _cell(value) -> str:
    return value if isinstance(value, str) else "" if np.isnan(value) else f"{value:.6g}"
