"""It learns: minutes long, run with ``-m slow``."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdis import data, evaluate, models
from jaxdis.models._evidence import evidence as evidence_of

pytestmark = pytest.mark.slow

SPACE = data.FactorSpace.of(x=16, y=16)


def box(factors):
    """A box of 12 pixels with soft edges on 32 × 32, its center from 6 to 26."""
    pixel = np.arange(32, dtype=np.float32)[None] + 0.5
    center = 6 + 20 * factors.astype(jnp.float32) / 15
    x, y = (jnp.clip(6.5 - jnp.abs(pixel - center[:, j : j + 1]), 0, 1) for j in (0, 1))
    return (y[:, :, None] * x[:, None, :])[..., None]


@pytest.mark.timeout(900)
def test_beta_vae_separates_two_positions_for_half_of_the_seeds():
    keys, hyper, labels = models.members({"beta": {"beta": 30.0, "learning_rate": 1e-3}}, seeds=4)
    config = models.Config(data="box", method=models.Vae(network=models.Mlp((128, 128), num_codes=6)), steps=2000)
    zoo = models.train(config, keys, hyper, labels=labels, data=(SPACE, box))
    factors = np.asarray(SPACE.sample(jax.random.key(1), 5000))
    gaps = evaluate(zoo.encode(factors, render=box).mean, factors, "mig")["mig"]
    assert (gaps > 0.3).sum() >= len(gaps) / 2, gaps


@pytest.mark.timeout(900)
def test_every_member_reconstructs_dsprites_better_than_the_mean_image():
    space, render = data.dsprites()
    keys, hyper, labels = models.members({"beta": {"beta": [1.0, 4.0], "learning_rate": 1e-3}}, seeds=1)
    zoo = models.train(models.Config(steps=600), keys, hyper, labels=labels, data=(space, render))
    images = np.asarray(render(space.sample(jax.random.key(1), 2000)))
    mean = np.clip(images.mean(0, keepdims=True), 1e-6, 1 - 1e-6)
    of_mean = -(images * np.log(mean) + (1 - images) * np.log(1 - mean)).sum((1, 2, 3)).mean()
    evidence = evidence_of(zoo, images, jax.random.key(2))
    assert (evidence.reconstruction < 0.6 * of_mean).all()
    assert (zoo.losses.loss[:, -1] < 0.5 * zoo.losses.loss[:, 0]).all()
