"""The standard workload: codes of trained models, or noisy non-linear mixtures of factors with dSprites' sizes.

``BENCHMARK_CODES=drawn`` chooses the mixtures, on which probes and trees stop earlier. Other sizes are always drawn.
"""

import os
from pathlib import Path

import numpy as np

from jaxdis._core.files import read_arrays

KIND = os.environ.get("BENCHMARK_CODES", "trained")
TRAINED = Path(__file__).with_name("trained_codes.npz")
DSPRITES = (3, 6, 40, 32, 32)
SHAPES3D = (10, 10, 10, 8, 4, 15)


def make_zoo(members: int, n: int = 10_000, d: int = 10, sizes=DSPRITES, seed: int = 0):
    """codes ``[m, n, d]`` float32 and class numbers ``[n, k]``. Two trained members differ, or 16 drawn ones."""
    if KIND not in ("trained", "drawn"):
        raise ValueError(f"BENCHMARK_CODES must be trained or drawn, got {KIND!r}")
    if KIND == "trained" and (d, tuple(sizes)) == (10, DSPRITES) and n <= 15_000:
        _, arrays = read_arrays(TRAINED)
        codes = np.pad(arrays["codes"], ((0, 0), (0, 0), (0, 0), (1, 0))).view("<f4")[..., 0]  # the last byte is 0
        return codes[np.arange(members) % 2, :n].astype(np.float32), arrays["factors"][:n].astype(np.int32)
    return mixtures(members, n, d, sizes, seed)


def mixtures(members: int, n: int, d: int, sizes, seed: int):
    rng = np.random.default_rng(seed)
    k = len(sizes)
    values = np.stack([rng.integers(0, size, n) for size in sizes], axis=1).astype(np.int32)
    scaled = values / (np.array(sizes) - 1.0) * 2 - 1
    codes = np.empty((members, n, d), np.float32)
    for member in range(members):
        if member >= 16:
            codes[member] = codes[member % 16]
            continue
        draw = np.random.default_rng([seed, member])
        strength = draw.choice([0.1, 0.3, 0.6], size=(1, d)) * (draw.random((k, d)) < 0.5)
        mixed = scaled @ (np.eye(k, d) + draw.normal(size=(k, d)) * strength)
        bent = np.where(draw.random(d) < 0.4, np.tanh(2 * mixed), mixed)
        codes[member] = bent + 0.3 * (0.3 + draw.random(d)) * draw.normal(size=(n, d))
    return codes, values
