"""Principal components of image sets, beside scikit-learn's on the same standardized pixels.

A pass multiplies the covariance of p pixels with w = codes + 6 vectors: 4 n p w operations, and n p bytes of uint8 that
are read once (by a peer, 4 n p of float32, twice per power iteration). The covariance itself would take 2 n p² of these
operations and 4 p² bytes.
"""

import resource
import time

import numpy as np
import pytest
from sklearn.decomposition import PCA

from jaxdis import models
from jaxdis._core import runtime

runtime.use_compilation_cache()


def images_of(n: int, side: int) -> np.ndarray:
    """Smooth color images of forty directions, in 0…255."""
    rng = np.random.default_rng(0)
    coarse = rng.normal(size=(40, side // 8, side // 8, 3)).astype(np.float32)
    directions = coarse.repeat(8, axis=1).repeat(8, axis=2).reshape(40, -1) * np.geomspace(40, 4, 40)[:, None]
    images = np.empty((n, side, side, 3), np.uint8)
    for start in range(0, n, 1000):
        part = rng.normal(size=(min(1000, n - start), 40)).astype(np.float32) @ directions.astype(np.float32)
        part += rng.normal(scale=5, size=part.shape).astype(np.float32)
        images[start : start + 1000] = np.clip(128 + part, 0, 255).reshape(-1, side, side, 3)
    return images


def fit(images: np.ndarray) -> models.Zoo:
    return models.train(models.Config("images", method=models.Pca()), *models.members({"pca": {}}), data=images)


def bench_beside_scikit_learn(benchmark):
    """20,000 images of 32 × 32 × 3; the peer's randomized solver, with its default of seven power iterations."""
    benchmark.group = "principal components"
    images = images_of(20_000, 32)
    fit(images)  # compiles
    zoo = benchmark.pedantic(lambda: fit(images), rounds=3)
    started = time.process_time()
    flat = images.reshape(len(images), -1).astype(np.float32) / 255
    standardized = (flat - flat.mean(0)) / flat.std(0)
    peer = PCA(10, svd_solver="randomized", random_state=0).fit(standardized)
    seconds = time.process_time() - started
    np.testing.assert_allclose(zoo.params.variances[0], peer.explained_variance_, rtol=1e-3)
    benchmark.extra_info |= {"peer": seconds, "ratio": seconds / benchmark.stats.stats.min}
    print("\nratio", benchmark.extra_info)


@pytest.mark.slow
def bench_the_largest_set(benchmark):
    """142,927 images of 64 × 64 × 3, the training set of Eastwood & Williams (2018): seconds, and peak memory."""
    benchmark.group = "principal components"
    images = images_of(142_927, 64)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    zoo = benchmark.pedantic(lambda: fit(images), rounds=1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    benchmark.extra_info |= {"peak GB": peak / 1e6, "before GB": before / 1e6}
    print("\n", benchmark.extra_info, zoo.losses.unexplained)
    assert peak < 4e6
