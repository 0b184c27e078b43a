"""The mixture's two forms, stick breaking and the mask loss, against sums written out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from jaxdis.models.methods.slots import _base as mixture

mixture_error = jax.jit(mixture.mixture_error, static_argnums=4)
mask_divergence, stick_breaking = map(jax.jit, (mixture.mask_divergence, mixture.stick_breaking))


@pytest.fixture
def scene():
    rng = np.random.default_rng(0)
    images, shown = rng.random((2, 3, 4, 3)), rng.random((3, 2, 3, 4, 3))
    masks = rng.dirichlet(np.ones(3), size=(2, 3, 4)).transpose(3, 0, 1, 2)
    return images, shown, masks


@pytest.mark.parametrize("form", ["channel", "pixel"])
def test_an_image_is_a_mixture_of_channels_or_of_pixels(form, scene):
    images, shown, masks = scene
    deviations = np.array([0.3, 0.5, 0.4])
    wanted = np.zeros(2)
    for n, h, w in np.ndindex(2, 3, 4):
        densities = np.array([norm.pdf(images[n, h, w], shown[k, n, h, w], deviations[k]) for k in range(3)])
        if form == "channel":
            wanted[n] -= sum(np.log(masks[:, n, h, w] @ densities[:, c]) for c in range(3))
        else:
            wanted[n] -= np.log(masks[:, n, h, w] @ densities.prod(1))
    got = mixture_error(*map(jnp.float32, (images, shown, np.log(masks), deviations)), form)
    np.testing.assert_allclose(got, wanted, rtol=1e-5)


def test_far_logits_leave_finite_logarithms():
    got = np.asarray(stick_breaking(jnp.float32([300, -300, 300]).reshape(3, 1, 1, 1)))[:, 0, 0, 0]
    np.testing.assert_allclose(got, [0, -600, -300, -600], rtol=1e-6)


def test_the_mask_loss_is_a_divergence_of_floored_shares(scene):
    _, _, masks = scene
    masks = np.stack([np.ones((2, 3, 4)), np.zeros((2, 3, 4)), np.zeros((2, 3, 4))])
    priors = scene[2]
    floored = np.array([1, 1e-5, 1e-5]) / (1 + 2e-5)
    wanted = np.zeros(2)
    for n, h, w in np.ndindex(2, 3, 4):
        p = np.maximum(priors[:, n, h, w], 1e-5)
        wanted[n] += (floored * np.log(floored / (p / p.sum()))).sum()
    logs = np.log(np.maximum(masks, 1e-30))
    got = mask_divergence(jnp.float32(logs), jnp.float32(np.log(priors)))
    np.testing.assert_allclose(got, wanted, rtol=1e-4)
    np.testing.assert_allclose(mask_divergence(*[jnp.float32(np.log(priors))] * 2), 0, atol=1e-5)
