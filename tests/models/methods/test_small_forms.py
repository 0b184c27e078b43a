"""What the methods of Mahon et al. (2024) show in minutes: perceptrons on 32 × 32 images of sprites near the center.

Over all of dSprites, perceptrons need more than the paper's 10 000 labels: they do not know that images can be shifted.
"""

import itertools
import os
import random
import signal
import subprocess
import sys
import textwrap
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdis import data, models
from jaxdis.data._factor_space import RandomCells
from jaxdis.models.methods._weak_de import class_of
from tests.models.conftest import largest_difference, same
from tests.models.methods.test_methods import SMALLEST

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
WIDE = {"hidden": (256, 256), "decoder_hidden": (256, 256)}
METHODS = ("parted_vae", "weak_de", "labelled_partition")


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


def trained(method, settings, steps, images, seeds=1):
    name = method.trained[0]
    config = models.Config("sprites", method=method, steps=steps)
    zoo = models.train(config, *models.members({name: settings}, seeds, method), data=images)
    assert (zoo.stopped == -1).all()
    return zoo


def first(zoo):
    return jax.tree.map(lambda leaf: leaf[0], zoo.params)


def unit(images):
    return jnp.asarray(images, jnp.float32) / 255


@pytest.mark.parametrize("labelled", [True, False])
def test_parted_vae_finds_shapes_in_its_category_with_labels_alone(labelled):
    images, factors = pool(central(), 0, 16_384)
    unseen, truth = pool(central(), 1, 2048)
    method = models.PartedVae(models.Stacks(**WIDE), labelled=labelled)
    settings = {"capacity_steps": 4000, "learning_rate": 1e-3, "labelled_learning_rate": 1e-3}
    zoo = trained(method, settings, 4000, (images, factors) if labelled else images)
    found = np.asarray(zoo.config.method.categories(first(zoo), unit(unseen))).argmax(1)
    # Without labels, a category may stand for any shape.
    names = [(0, 1, 2)] if labelled else itertools.permutations(range(3))
    accuracy = max((np.array(order)[found] == truth[:, 0]).mean() for order in names)
    assert accuracy >= 0.9 if labelled else accuracy <= 0.6


def test_the_labelled_partition_fails_on_a_new_combination():
    """Size and shape by the nearest prototypes, where a random fifth of the cells or one combination is held out."""
    space = central()
    combination = {"scale": 3, "shape": 1}
    normal = (space.outside(RandomCells(0.2)), space.inside(RandomCells(0.2)))
    method = models.LabelledPartition(network=models.Mlp((256, 256)))
    both = []
    for seen, unseen in (normal, (space.without(combination), space.only(combination))):
        zoo = trained(method, {"label_weight": 20}, 6000, pool(seen, 0, 32_768))
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
    for warm_up in (1200, 10**6):
        settings = {"warmup_steps": warm_up, "learning_rate": 2e-3}
        zoo = trained(method, settings, 3000, (images, factors))
        codes, judged = (zoo.encode(part).mean[0] for part in (images, unseen))
        ratio, means = spread(codes, classes)
        nearest = np.square(judged[:, None] - means[None]).sum(2).argmin(1)
        ratios.append(ratio)
        accuracies.append((nearest == names).mean())
    assert ratios[0] > 1.3 * ratios[1]
    assert accuracies[0] > max(8 / 27, accuracies[1])


ZOO = """
    import sys
    import numpy as np
    from jaxdis import models
    from jaxdis._core import runtime
    from tests.models.methods.test_methods import SMALLEST

    runtime.use_compilation_cache()
    rng = np.random.default_rng(0)
    images = rng.random((40, 8, 8, 1), np.float32)
    data = images, np.stack([np.arange(40) % 3, np.arange(40) % 2], axis=1)
    method = SMALLEST[sys.argv[1]]
    settings = {"warmup_steps": 500} if sys.argv[1] == "weak_de" else {}
    zoo = models.train(
        models.Config("noise", method=method, steps=2000),
        *models.members({method.trained[0]: settings}, 10, method),
        data=data,
        directory=sys.argv[2],
        log_every=25,
        checkpoint_every=25,
        execution="vmap",
    )
    zoo.save(sys.argv[3])
"""


def start(name, directory, file) -> subprocess.Popen:
    command = [sys.executable, "-c", textwrap.dedent(ZOO), name, str(directory), str(file)]
    return subprocess.Popen(command, env=os.environ)


@pytest.mark.parametrize("name", METHODS)
def test_ten_seeds_in_one_program_resume_after_a_kill_to_the_same_bits(name, tmp_path):
    assert start(name, tmp_path / "whole", tmp_path / "whole.npz").wait() == 0
    checkpoints, kills = tmp_path / "killed" / "checkpoints", 0
    for _ in range(2):
        had = set(checkpoints.glob("step_*"))
        process = start(name, tmp_path / "killed", tmp_path / "killed.npz")
        while process.poll() is None and set(checkpoints.glob("step_*")) == had:
            time.sleep(0.01)
        time.sleep(random.uniform(0, 0.2))
        kills += process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert kills > 0
    assert start(name, tmp_path / "killed", tmp_path / "killed.npz").wait() == 0
    killed, whole = (models.load(tmp_path / f"{run}.npz") for run in ("killed", "whole"))
    assert len(whole) == 10
    assert same(killed, whole)


@pytest.mark.parametrize("name", METHODS)
def test_ten_vmapped_seeds_are_those_trained_alone(name):
    method, images = SMALLEST[name], np.random.default_rng(0).random((40, 8, 8, 1), np.float32)
    labelled = images, np.stack([np.arange(40) % 3, np.arange(40) % 2], axis=1)
    settings = {"warmup_steps": 10} if name == "weak_de" else {}
    config = models.Config("noise", method=method, steps=20)
    members = models.members({method.trained[0]: settings}, 10, method)
    one_device = {"data": labelled, "devices": jax.devices()[:1]}
    together = models.train(config, *members, **one_device, execution="vmap")
    for seed in (0, 9):
        alone = jax.tree.map(lambda leaf, seed=seed: leaf[seed : seed + 1], members[:2])
        single = models.train(config, *alone, **one_device, execution="map")
        # Rounding of 20 updates: Adam's steps of 1e-3 or less follow gradients near 0 in either direction.
        assert largest_difference(single.params, together[seed : seed + 1].params) < 1e-4
