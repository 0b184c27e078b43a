"""Recorded outputs of the reference implementations; each file says which, at what commit, with which versions."""

import json
from pathlib import Path

import numpy as np

DIRECTORY = Path(__file__).parent / "golden"


def numbers(name: str) -> dict:
    return json.loads((DIRECTORY / f"{name}.json").read_text())


def arrays(name: str) -> dict[str, np.ndarray]:
    with np.load(DIRECTORY / f"{name}.npz", allow_pickle=False) as archive:
        return dict(archive)


def undefined(values) -> np.ndarray:
    """A list with "nan" strings as floats."""
    return np.array(values, dtype=float)
