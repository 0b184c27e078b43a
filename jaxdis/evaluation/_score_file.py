"""A score table as one file: arrays in an npz, everything else in its JSON header."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from jaxdis._core.files import DamagedFile, read_arrays, write_arrays

_FORMAT = 1
ARRAYS = ("columns", "parts", "replicates", "nulls", "relations")


def save(path: str | Path, fields: dict[str, Any]) -> None:
    """Write what :class:`~jaxdis.evaluation.Scores` holds."""
    arrays = {f"{kind}/{name}": np.asarray(array) for kind in ARRAYS for name, array in fields[kind].items()}
    others = {name: value for name, value in fields.items() if name not in ARRAYS}
    # As text, since a header is written with sorted keys, and columns of metadata have an order.
    write_arrays(path, {"scores": _FORMAT, "fields": json.dumps({"order": list(arrays), **others})}, arrays)


def load(path: str | Path) -> dict[str, Any]:
    """Read and check what :func:`save` wrote.

    Raises:
      DamagedFile: for another file.
    """
    header, arrays = read_arrays(path)
    if header.get("scores") != _FORMAT:
        raise DamagedFile(f"{path}: must be a file written by Scores.save, got another file of jaxdis")
    try:
        fields, header = {kind: {} for kind in ARRAYS}, json.loads(header["fields"])
        for key in header["order"]:
            kind, _, name = key.partition("/")
            fields[kind][name] = arrays[key] if arrays[key].ndim else arrays[key][()]
        fields |= {
            "factor_names": tuple(map(str, header["factor_names"])),
            "members": tuple(map(dict, header["members"])),
            "axes": {name: tuple(letters) for name, letters in header["axes"].items()},
            "notes": tuple((metric, note) for metric, note in header["notes"]),
            "evaluation": dict(header["evaluation"]),
            "errors": tuple(map(str, header.get("errors", ()))),
        }
        counts = {np.shape(column)[:1] for column in fields["columns"].values()}
        if counts not in ({()}, {(len(fields["members"]),)}):
            raise ValueError(f"{len(fields['members'])} members and columns of shapes {sorted(counts)}")
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        words = f"{type(error).__name__}: {error}"
        raise DamagedFile(f"{path}: must be a file written by Scores.save, got {words}") from None
    return fields
