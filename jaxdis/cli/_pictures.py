"""Pictures of one's own on the command line: ``--data folder:PATH --factors FILE``."""

from pathlib import Path


def own_pictures(data: str | None, factors: Path | None):
    """``(space, render)`` of a folder; None for the name of a data set.

    Raises:
      ValueError: for a folder without factors, or factors without a folder.
    """
    kind, _, place = (data or "").partition(":")
    if kind != "folder":
        if factors is not None:
            raise ValueError(f"--factors: goes with --data folder:PATH, got --data {data}")
        return None
    if factors is None:
        raise ValueError("--factors: must name a table with a row for each picture, got none beside --data folder:PATH")
    from jaxdis.data import folder

    return folder(place, factors)
