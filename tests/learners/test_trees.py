"""Boosted trees and forests against scikit-learn, and what they do with degenerate input."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier

from jaxdis import RELATIONS, SCORES, Factors, Relation, Sample

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


def reference(codes, values, n: int, stages: int, seed: int = 0):
    """Importances ``[d, k]`` and held-out accuracies by scikit-learn."""
    models = [
        GradientBoostingClassifier(n_estimators=stages, random_state=seed).fit(codes[:n], column[:n])
        for column in values.T
    ]
    scores = [model.score(codes[n:], column[n:]) for model, column in zip(models, values.T, strict=True)]
    return np.stack([model.feature_importances_ for model in models], axis=1), np.array(scores)


def ours(codes, values, sizes, n: int, **options):
    relation = relate(codes[:n], values[:n], codes[n:], values[n:], sizes, **options)
    return np.asarray(relation.strength), np.asarray(relation.fit)


def relate(codes, values, held_out, held_values, sizes, *, name="boosted_trees", **options):
    test = Sample(jnp.asarray(held_out), Factors.of(held_values, sizes))
    spec = RELATIONS[name].with_options(**options)
    return _relate(spec, jnp.asarray(codes), Factors.of(values, sizes), test)


@functools.partial(jax.jit, static_argnums=0)
def _relate(spec, codes, factors, test):
    if spec.takes("key"):
        return spec(jax.random.key(0), codes, factors, test=test)
    return spec(codes, factors, test=test)


def d_and_c(importance):
    entropy = SCORES["entropy"](Relation.of(jnp.asarray(importance, jnp.float32), jnp.ones(importance.shape[1])))
    return np.array([entropy.disentanglement, entropy.completeness])


def correlation(left, right):
    return np.corrcoef(left.ravel(), right.ravel())[0, 1]


def check_agreement(name, n, stages, *, tolerance, correlated, histogram):
    """Ours against the mean of two random states of the reference, whose own distance is allowed for."""
    codes, values, sizes = representation(name, n)
    (first, fit), (second, other) = (reference(codes, values, n, stages, seed) for seed in range(2))
    spread = np.abs(d_and_c(first) - d_and_c(second))
    exact, exact_fit = ours(codes, values, sizes, n, stages=stages)
    binned, _ = ours(codes, values, sizes, n, stages=stages, splitter="histogram")
    gap = np.abs(d_and_c(exact) - d_and_c(first))
    binned_gap = np.abs(d_and_c(binned) - d_and_c(first))
    assert (gap <= tolerance + spread).all()
    assert correlation(exact, first) > correlated
    assert abs((exact_fit - fit).mean()) <= 0.005 + np.abs(other - fit).max()
    assert (binned_gap <= histogram).all()
    assert correlation(binned, first) > 0.995


@pytest.mark.slow
@pytest.mark.parametrize("name", REPRESENTATIONS)
def test_agrees_with_scikit_learn_at_its_defaults(name):
    check_agreement(name, 2000, 100, tolerance=0.005, correlated=0.9995, histogram=0.04)
