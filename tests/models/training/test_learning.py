"""It learns: minutes long, run with ``-m slow``."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdis import data, models
from jaxdis.models._evidence import evidence as evidence_of

pytestmark = pytest.mark.slow

SPACE = data.FactorSpace.of(x=16, y=16)


def box(factors):
    """A box of 12 pixels with soft edges on 32 × 32, its center from 6 to 26."""
    pixel = np.arange(32, dtype=np.float32)[None] + 0.5
    center = 6 + 20 * factors.astype(jnp.float32) / 15
    x, y = (jnp.clip(6.5 - jnp.abs(pixel - center[:, j : j + 1]), 0, 1) for j in (0, 1))
    return (y[:, :, None] * x[:, None, :])[..., None]


def mutual_information_gap(representation, factors, bins=20) -> float:
    """Locatello et al. (2020), appendix: histogram of each code, discrete mutual information, mean gap over factors."""
    information = np.zeros((representation.shape[1], factors.shape[1]))
    entropies = np.zeros(factors.shape[1])
    for j, factor in enumerate(factors.T):
        marginal = np.bincount(factor) / len(factor)
        entropies[j] = -(marginal * np.log(marginal)).sum()
        for i, code in enumerate(representation.T):
            table = np.histogram2d(code, factor, bins=(bins, len(marginal)))[0] / len(factor)
            product = table.sum(1, keepdims=True) * table.sum(0, keepdims=True)
            filled = table > 0
            information[i, j] = (table[filled] * np.log(table[filled] / product[filled])).sum()
    ordered = np.sort(information, axis=0)[::-1]
    return float(((ordered[0] - ordered[1]) / entropies).mean())


@pytest.mark.timeout(900)
def test_beta_vae_separates_two_positions_for_half_of_the_seeds():
    keys, hyper, labels = models.members({"beta": {"beta": 30.0, "learning_rate": 1e-3}}, seeds=8)
    config = models.Config(data="box", method=models.Vae(network=models.Mlp((128, 128), num_codes=6)), steps=3000)
    zoo = models.train(config, keys, hyper, labels=labels, data=(SPACE, box))
    factors = np.asarray(SPACE.sample(jax.random.key(1), 5000))
    means = zoo.encode(factors, render=box).mean
    gaps = [mutual_information_gap(mean, factors) for mean in means]
    print("MIG", np.round(gaps, 3))  # noqa: T201
    assert sum(gap > 0.3 for gap in gaps) >= 4, gaps


@pytest.mark.timeout(900)
def test_every_member_reconstructs_dsprites_better_than_the_mean_image():
    space, render = data.dsprites()
    keys, hyper, labels = models.members({"beta": {"beta": [1.0, 4.0], "learning_rate": 1e-3}}, seeds=4)
    zoo = models.train(models.Config(steps=2000), keys, hyper, labels=labels, data=(space, render))
    images = np.asarray(render(space.sample(jax.random.key(1), 2000)))
    mean = np.clip(images.mean(0, keepdims=True), 1e-6, 1 - 1e-6)
    of_mean = -(images * np.log(mean) + (1 - images) * np.log(1 - mean)).sum((1, 2, 3)).mean()
    evidence = evidence_of(zoo, images, jax.random.key(2))
    print("mean image", of_mean, "members", evidence.reconstruction)  # noqa: T201
    assert (evidence.reconstruction < 0.6 * of_mean).all()
    assert (zoo.losses.loss[:, -1] < 0.5 * zoo.losses.loss[:, 0]).all()
