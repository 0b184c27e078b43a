"""Principal components against scikit-learn's."""

import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.decomposition import PCA

from jaxdis import models
from jaxdis.data import FactorSpace, Interval
from jaxdis.models.training import _train as runner
from jaxdis.models.training._image_source import as_source


@pytest.fixture(scope="module")
def photographs():
    """500 images of 12 × 12 with thirty directions of falling variance, noise, a constant and a nearly white pixel."""
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(30, 144))
    images = 0.5 + 0.02 * (rng.normal(size=(500, 30)) * np.geomspace(3, 0.3, 30)) @ directions
    images += rng.normal(scale=0.01, size=images.shape)
    images[:, 7], images[:, 8] = 0.3, 0.999 + 1e-4 * rng.random(500)
    return np.clip(images, 0, 1).reshape(-1, 12, 12, 1).astype(np.float32)


@pytest.fixture(scope="module")
def fitted(photographs):
    before = runner._advance._cache_size()
    zoo = fit(photographs, models.Pca(batch_size=500))
    assert runner._advance._cache_size() == before + 1  # one program serves all passes
    return zoo


def standardized(images):
    flat = images.reshape(len(images), -1).astype(np.float64)
    deviation = flat.std(0)
    return (flat - flat.mean(0)) / np.where(deviation < 1e-7, np.inf, deviation)


def fit(images, method, steps=None, seeds=2):
    return models.train(
        models.Config("x", method=method, steps=steps), *models.members({"pca": {}}, seeds), data=images
    )


def aligned(got, wanted):
    return got * np.sign((got * wanted).sum(0))


@pytest.mark.parametrize("batch_size", [64, 500])
def test_codes_are_those_of_scikit_learn(batch_size, photographs, fitted):
    zoo = fitted if batch_size == 500 else fit(photographs, models.Pca(batch_size=batch_size))
    wanted = PCA(10, svd_solver="full").fit(standardized(photographs))
    codes = wanted.transform(standardized(photographs))
    got = zoo.encode(photographs)
    for member in range(2):
        # The issue is rotation between neighbors, whose variances here differ by 15 %.
        np.testing.assert_allclose(aligned(got.mean[member], codes), codes, atol=1e-4 * np.abs(codes).max())
    assert not got.variance.any()
    np.testing.assert_allclose(zoo.params.variances[0], wanted.explained_variance_ * 499 / 500, rtol=1e-5)
    np.testing.assert_allclose(zoo.losses.unexplained[:, -1], 1 - wanted.explained_variance_ratio_.sum(), atol=1e-5)
    assert (np.diff(zoo.losses.unexplained, axis=1) < 1e-5).all()


def test_seeds_and_signs_do_not_matter(fitted):
    first, second = fitted.params.components[..., :3]
    np.testing.assert_allclose(first, second, atol=1e-4)
    largest = np.abs(first).argmax(0)
    assert (first[largest, range(3)] > 0).all()


def test_constant_pixels_have_no_weight_and_decode_to_themselves(photographs, fitted):
    assert not fitted.params.components[0, 7].any()
    assert fitted.params.components[0, 8].any()
    np.testing.assert_allclose(fitted.reconstruct(photographs)[0].reshape(500, -1)[:, 7], 0.3, rtol=1e-6)


def test_decoding_is_the_projection(photographs, fitted):
    wanted = PCA(10, svd_solver="full").fit(standardized(photographs))
    flat = photographs.reshape(500, -1)
    projected = wanted.inverse_transform(wanted.transform(standardized(photographs))) * flat.std(0) + flat.mean(0)
    np.testing.assert_allclose(fitted.reconstruct(photographs)[0].reshape(500, -1), np.clip(projected, 0, 1), atol=1e-4)


def test_fewer_directions_than_components_leave_the_others_empty():
    """Rank 2: the products span no more, and rounding errors are not directions."""
    rng = np.random.default_rng(1)
    images = (0.5 + 0.1 * np.tanh(rng.normal(size=(60, 2))) @ rng.normal(size=(2, 64)) * 0.5).astype(np.float32)
    zoo = fit(images.reshape(-1, 8, 8, 1), models.Pca(num_codes=4, passes=4), seeds=1)
    wanted = np.linalg.svd(standardized(images), compute_uv=False)[:4] ** 2 / 60
    np.testing.assert_allclose(zoo.params.variances[0], wanted, rtol=1e-4, atol=1e-4)
    assert not zoo.params.variances[0][2:].any()
    assert not zoo.params.components[0][:, 2:].any()
    assert not zoo.encode(rng.random((5, 8, 8, 1)).astype(np.float32)).mean[0][:, 2:].any()


def test_images_that_are_all_alike_have_no_components():
    zoo = fit(np.full((60, 8, 8, 1), 0.4, np.float32), models.Pca(num_codes=4, passes=4), seeds=1)
    assert zoo.stopped[0] == -1
    assert zoo.losses.unexplained[0, -1] == 1
    assert not zoo.params.components.any()
    np.testing.assert_allclose(zoo.reconstruct(np.zeros((5, 8, 8, 1), np.float32)), 0.4, rtol=1e-6)


def test_a_renderers_images_are_the_first_of_its_sequence():
    space = FactorSpace.of(x=3, y=4, level=Interval(0.2, 0.9))

    def render(factors):
        x, y, level = factors.T[:, :, None, None]
        grid = jnp.arange(4.0)
        shape = jnp.exp(-jnp.abs(grid[None, :, None] - x) - jnp.abs(grid[None, None] - y))
        return (level * shape)[..., None]

    drawn = fit((space, render), models.Pca(num_codes=2, passes=2, num_images=90, batch_size=32), seeds=1)
    source = as_source((space, render))
    images = np.asarray(source.at(jnp.arange(90))[0])
    given = fit(images, models.Pca(num_codes=2, passes=2, batch_size=32), seeds=1)
    np.testing.assert_allclose(drawn.params.components, given.params.components, atol=1e-5)
    assert source.num_data is None
    assert len(np.unique(np.asarray(source.at(jnp.arange(90))[1])[:, 2])) == 90


@pytest.mark.parametrize(
    ("method", "steps", "message"),
    [
        (models.Pca(), 1, r"steps: must be from 2 to 9 \(one pass for the mean, and 8\), got 1"),
        (models.Pca(), 10, "steps: must be from 2 to 9"),
        (models.Pca(num_codes=200, passes=1), None, "num_codes: must have at most the 144 pixels of an image, got 200"),
        (models.Pca(num_images=501), None, "num_images: must be at most the 500 images, got 501"),
        (models.Pca(num_codes=20), None, "passes: must be at most 5 for images of 144 pixels and 20 codes, got 8"),
    ],
)
def test_what_does_not_suit_is_refused(method, steps, message, photographs):
    with pytest.raises(ValueError, match=message):
        fit(photographs, method, steps)


def test_the_program_serves_other_seeds(photographs, fitted):
    before = runner._advance._cache_size()
    fit(photographs, models.Pca(batch_size=500), seeds=[5, 7])
    assert runner._advance._cache_size() == before
