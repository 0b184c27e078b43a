"""Representations that trees are judged on, and what scikit-learn's trees say of them.

``python -m tests._learners.tree_references`` fits scikit-learn again (half an hour of one core) and records importances
and held-out accuracies over random states in ``tests/golden/boosting.json``.
"""

import json

import numpy as np
import sklearn
from sklearn.ensemble import GradientBoostingClassifier

from tests.golden_values import DIRECTORY

SIZES = (3, 6, 10)


def identity(rng, scaled):
    return scaled


def rotation(rng, scaled):
    return scaled @ np.linalg.qr(rng.normal(size=(scaled.shape[1],) * 2))[0]


def mixture(rng, scaled):
    return np.tanh(scaled @ rng.normal(size=(scaled.shape[1], 6)))


def redundant(rng, scaled):
    return np.c_[scaled, scaled @ rng.normal(size=(scaled.shape[1], 3)) * 0.5]


def products(rng, scaled):
    return np.c_[scaled[:, 0] * scaled[:, 1], scaled[:, 1:], np.abs(scaled[:, :1])]


def faint(rng, scaled):
    return np.c_[scaled[:, :1], 0.05 * scaled[:, 1:], rng.normal(size=(len(scaled), 2))]


# name: (what becomes of factors in [-1, 1], standard deviation of the noise, sizes of the factors)
REPRESENTATIONS = {
    "identity": (identity, 0.02, SIZES),
    "rotation": (rotation, 0.1, SIZES),
    "mixture": (mixture, 0.2, (2, 6, 10)),
    "redundant": (redundant, 0.3, (3, 40)),
    "products": (products, 0.1, SIZES),
    "faint": (faint, 0.3, (3, 6, 40)),
}


def representation(name: str, n: int):
    """Codes, class numbers and sizes; half as many samples again to hold out."""
    make, noise, sizes = REPRESENTATIONS[name]
    rng = np.random.default_rng(list(REPRESENTATIONS).index(name))
    values = np.stack([rng.integers(0, size, n + n // 2) for size in sizes], axis=1)
    codes = make(rng, values / (np.array(sizes) - 1) * 2 - 1)
    codes = codes + noise * rng.normal(size=codes.shape)
    return codes.astype(np.float32), values, sizes


# Representations of graded entanglement, samples to fit, random states of scikit-learn.
GRADED, FITTED, STATES = 30, 2000, 5


def graded(member: int, n: int):
    """Three factors turned by up to 45 degrees in every plane, leaking into two codes more, under changing noise."""
    rng = np.random.default_rng([7, member])
    values = np.stack([rng.integers(0, size, n + n // 2) for size in SIZES], axis=1)
    scaled = values / (np.array(SIZES) - 1) * 2 - 1
    angle = np.pi / 4 * member / (GRADED - 1)
    turn = np.eye(3)
    for i, j in ((0, 1), (1, 2), (0, 2)):
        plane = np.eye(3)
        plane[[i, j], [i, j]], plane[i, j], plane[j, i] = np.cos(angle), -np.sin(angle), np.sin(angle)
        turn = turn @ plane
    codes = np.c_[scaled @ turn, 0.3 * scaled @ rng.normal(size=(3, 2))]
    codes = codes + rng.choice([0.05, 0.15, 0.3]) * rng.normal(size=codes.shape)
    return codes.astype(np.float32), values, SIZES


def reference(codes, values, n: int, stages: int = 100, seed: int = 0, depth: int = 3):
    """Importances ``[d, k]`` and held-out accuracies by scikit-learn."""
    models = [
        GradientBoostingClassifier(n_estimators=stages, random_state=seed, max_depth=depth).fit(codes[:n], column[:n])
        for column in values.T
    ]
    scores = [model.score(codes[n:], column[n:]) for model, column in zip(models, values.T, strict=True)]
    return np.stack([model.feature_importances_ for model in models], axis=1), np.array(scores)


def record(cases: dict, states: int) -> dict:
    """Name → importances ``[s, d, k]`` and accuracies ``[s, k]`` over random states 0, 1, …"""
    found = {}
    for name, (codes, values, _) in cases.items():
        fits = [reference(codes, values, FITTED, seed=seed) for seed in range(states)]
        found[name] = {
            "importance": [np.round(importance, 6).tolist() for importance, _ in fits],
            "accuracy": [accuracy.tolist() for _, accuracy in fits],
        }
    return found


def main():
    golden = {
        "provenance": f"scikit-learn {sklearn.__version__}, GradientBoostingClassifier at its defaults, random states "
        f"0, 1, …; inputs, {FITTED} samples to fit and half as many held out: tests/_learners/tree_references.py",
        "representations": record({name: representation(name, FITTED) for name in REPRESENTATIONS}, STATES),
        "graded": record({str(member): graded(member, FITTED) for member in range(GRADED)}, 1),
    }
    (DIRECTORY / "boosting.json").write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    main()
