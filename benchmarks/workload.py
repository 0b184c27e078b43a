"""The standard workload: noisy non-linear mixtures of factors with dSprites' sizes."""

import numpy as np

DSPRITES = (3, 6, 40, 32, 32)
SHAPES3D = (10, 10, 10, 8, 4, 15)


def make_zoo(members: int, n: int = 10_000, d: int = 10, sizes=DSPRITES, seed: int = 0):
    """codes ``[m, n, d]`` float32 and class numbers ``[n, k]``. At most 16 members differ; more are copies of these."""
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
