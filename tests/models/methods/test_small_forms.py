"""What the methods of Mahon et al. (2024) show in minutes: perceptrons on 32 × 32 images of sprites near the center.

Over all of dSprites, perceptrons need more than the paper's 10 000 labels: they do not know that images can be shifted.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdis import data, models
from jaxdis.data._factor_space import RandomCells
from jaxdis.models.methods._weak_de import class_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
WIDE = {"hidden": (256, 256), "decoder_hidden": (256, 256)}


def far_from_the_center(factors):
    return ((factors[:, 3:] < 10) | (factors[:, 3:] > 21)).any(1)


def pool(space, seed, n):
    """Images ``[n, 32, 32, 1]``, means of 2 × 2 pixels, and factors (shape, scale, orientation, x, y)."""
    _, render = data.dsprites()
    factors = np.asarray(space.sample(jax.random.key(seed), n))

    @jax.jit
    def draw(rows):
        blocks = render(rows).reshape(-1, 32, 2, 32, 2)
        return jnp.round(255 * blocks.mean((2, 4))).astype(jnp.uint8)[..., None]

    return np.concatenate([np.asarray(draw(factors[i : i + 1024])) for i in range(0, n, 1024)]), factors


def central():
    return data.dsprites()[0].outside(far_from_the_center)


def trained(method, settings, steps, images):
    name = method.trained[0]
    config = models.Config("sprites", method=method, steps=steps)
    zoo = models.train(config, *models.members({name: settings}, 1, method), data=images)
    assert (zoo.stopped == -1).all()
    return zoo


def first(zoo):
    return jax.tree.map(lambda leaf: leaf[0], zoo.params)


def unit(images):
    return jnp.asarray(images, jnp.float32) / 255


def test_parted_vae_finds_shapes_in_its_category_with_labels():
    unseen, truth = pool(central(), 1, 2048)
    method = models.PartedVae(models.Stacks(**WIDE), labelled=True)
    settings = {"capacity_steps": 1500, "learning_rate": 1e-3, "labelled_learning_rate": 1e-3}
    zoo = trained(method, settings, 1500, pool(central(), 0, 16_384))
    found = np.asarray(zoo.config.method.categories(first(zoo), unit(unseen))).argmax(1)
    assert (found == truth[:, 0]).mean() >= 0.9


def test_the_labelled_partition_fails_on_a_new_combination():
    """Size and shape by the nearest prototypes, where a random fifth of the cells or one combination is held out."""
    space = central()
    combination = {"scale": 3, "shape": 1}
    normal = (space.outside(RandomCells(0.2)), space.inside(RandomCells(0.2)))
    method = models.LabelledPartition(network=models.Mlp((256, 256)))
    both = []
    for seen, unseen in (normal, (space.without(combination), space.only(combination))):
        zoo = trained(method, {"label_weight": 20, "learning_rate": 2e-3}, 3000, pool(seen, 0, 32_768))
        images, truth = pool(unseen, 1, 2048)
        found = np.asarray(zoo.config.method.classify(first(zoo), unit(images)))
        both.append((found == truth)[:, :2].all(1).mean())
    assert both[0] >= 0.95
    assert both[1] <= both[0] / 2


def spread(codes, classes):
    """Variance of the classes' means over the mean variance within a class, and the means."""
    means = np.stack([codes[classes == c].mean(0) for c in range(27)])
    within = np.mean([codes[classes == c].var(0).sum() for c in range(27)])
    return means.var(0).sum() / within, means


def test_the_adaptive_prior_draws_the_codes_of_each_class_together():
    """On all of dSprites, against the same training with the uniform prior to the end.

    No label reaches the encoder but through the Gaussians that the labelled images defined once.
    """
    images, factors = pool(data.dsprites()[0], 0, 16_384)
    unseen, truth = pool(data.dsprites()[0], 1, 2048)
    slopes = {"hidden_slope": 0.1, "decoder_slope": 0.1}
    method = models.WeakDe(
        models.Stacks(hidden=(128, 128), decoder_hidden=(128, 128), **slopes),
        opponents=(64, 64),
        batch_size=64,
        relation_batch=16,
        num_labelled=4096,
        augmented=False,
    )
    ratios, accuracies = [], []
    classes, names = (np.asarray(class_of(jnp.asarray(rows), method.classes)) for rows in (factors, truth))
    for warm_up in (600, 10**6):
        settings = {"warmup_steps": warm_up, "learning_rate": 2e-3}
        zoo = trained(method, settings, 1500, (images, factors))
        codes, judged = (zoo.encode(part).mean[0] for part in (images, unseen))
        ratio, means = spread(codes, classes)
        nearest = np.square(judged[:, None] - means[None]).sum(2).argmin(1)
        ratios.append(ratio)
        accuracies.append((nearest == names).mean())
    assert ratios[0] > 1.3 * ratios[1]
    assert accuracies[0] > max(8 / 27, accuracies[1])
