"""Samples that belong together, such as one episode's frames: their numbers, and whether they can move."""

import numpy as np

from jaxdis._core.options import shown
from jaxdis._core.table_columns import columns_of
from jaxdis.factors import Factors


def as_groups(groups, factors: Factors) -> np.ndarray | None:
    """Number groups ``[n]`` from 0 as they occur, from whole numbers, text or a table's column; None for None."""
    if groups is None:
        return None
    if isinstance(groups, str):
        raise ValueError(
            f"groups: must have one entry per sample, got {shown(groups)}; of a table, give its column: "
            f"groups=table[{groups!r}]"
        )
    try:
        (column,) = columns_of({"groups": groups}).values()
    except ValueError as error:
        raise ValueError(f"groups: must be whole numbers or text, one entry per sample; {error}") from None
    if odd := [entry for entry in column.entries if entry is None or (isinstance(entry, float) and entry % 1)]:
        got = "none for some" if odd[0] is None else f"{odd[0]:g}"
        raise ValueError(f"groups: must be whole numbers or text, one entry per sample, got {got}")
    numbers = factors.at_rows(_numbered(column.entries), 0)
    if len(numbers) != factors.num_samples:
        raise ValueError(f"groups: must have one entry for each of {factors.num_samples} samples, got {len(numbers)}")
    return _numbered(numbers.tolist())


def _numbered(labels: list) -> np.ndarray:
    """Numbers from 0 in the labels' order, whatever the order of samples."""
    ordered = sorted(set(labels), key=lambda label: (isinstance(label, str), label))
    numbers = {label: number for number, label in enumerate(ordered)}
    return np.array([numbers[label] for label in labels], np.int32)


def check_groups(groups, purpose: str, *others) -> None:
    """Check that several groups can move, and that there are no ``others``, samples whose groups are not known."""
    if groups is None:
        return
    if groups.max() == 0:
        raise ValueError(f"groups: must be at least two for {purpose}, got one")
    if any(other is not None for other in others):
        raise ValueError(
            f"groups: must be of all samples for {purpose}, got test or validation samples whose groups are not known; "
            "give all samples together, and whole groups are held out"
        )
