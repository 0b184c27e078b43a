"""One file's scores that have arrived so far, as one table."""

from collections.abc import Sequence

import numpy as np

from jaxdis.evaluation._results import Scores


def joined(arrived: Sequence[Scores]) -> Scores:
    """The columns that have arrived, for the members that they all have.

    Members come in chunks: the first chunk's metrics arrive one after the other, then the next chunk's.
    """

    def whole(field: str) -> dict:
        tables = [getattr(scores, field) for scores in arrived]
        pieces = {name: [table[name] for table in tables if name in table] for table in tables for name in table}
        return {name: np.concatenate(piece) if len(piece) > 1 else piece[0] for name, piece in pieces.items()}

    columns, replicates = whole("columns"), whole("replicates")
    if any(map(np.ndim, columns.values())):
        count = min(map(len, columns.values()))
        columns, replicates = ({name: rows[:count] for name, rows in each.items()} for each in (columns, replicates))
    return Scores(columns, {}, arrived[0].factor_names, replicates)
