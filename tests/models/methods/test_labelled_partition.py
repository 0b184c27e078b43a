"""The labelled partition against float64 NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit, log_softmax

from jaxdis import models
from jaxdis.models.methods._labelled_partition import Draws
from tests.models.methods.derived import adam, assert_close, differences, flat, layer, nested, squares
from tests.programs import compiled_whole

SMALL = models.LabelledPartition((3, 2), models.Mlp((6,)), block=2, content=1, deviation=0.8, batch_size=5).resolved(
    (4, 4, 1)
)
SETTINGS = models.LabelledPartition.variants["labelled_partition"].settings(
    content_weight=0.7, block_weight=0.3, label_weight=1.5, swap_weight=2.0
)
PROTOTYPES = slice(0, 3), slice(3, 5)


def encode(params, x):
    return np.split(
        layer(params["network"]["encoder_1"], np.maximum(layer(params["network"]["encoder_0"], x), 0)), 2, 1
    )


def decode(params, codes):
    hidden = np.maximum(layer(params["network"]["decoder_0"], codes), 0)
    return expit(layer(params["network"]["decoder_1"], hidden))


def cross_entropy(params, mean, labels):
    total = 0.0
    for f in range(2):
        block, prototypes = mean[:, 2 * f : 2 * f + 2], params["prototypes"][PROTOTYPES[f]]
        distances = ((block[:, None] - prototypes[None]) ** 2).sum(2) / (2 * 0.8**2)
        total -= log_softmax(-distances, axis=1)[np.arange(5), labels[:, f]].mean()
    return total


def reference(params, images, labels, draws, h):
    x = images.reshape(5, -1)
    mean, log_variance = encode(params, x)
    deviation = np.concatenate([np.full((5, 4), 0.8), np.exp(log_variance[:, 4:] / 2)], axis=1)
    codes = mean + deviation * draws.normal
    p = decode(params, codes)
    reconstruction = -(x * np.log(p) + (1 - x) * np.log(1 - p)).sum() / 5
    content = 0.5 * (mean[:, 4:] ** 2 + np.exp(log_variance[:, 4:]) - log_variance[:, 4:] - 1).sum() / 5
    nearest = np.concatenate([params["prototypes"][PROTOTYPES[f]][labels[:, f]] for f in (0, 1)], axis=1)
    own = ((mean[:, :4] - nearest) ** 2).sum() / 5 / (2 * 0.8**2)
    named = cross_entropy(params, mean, labels)
    moved, names, f = codes.copy(), labels.copy(), int(draws.factor)
    moved[:, 2 * f : 2 * f + 2] = codes[draws.order, 2 * f : 2 * f + 2]
    names[:, f] = labels[draws.order, f]
    swapped = cross_entropy(params, encode(params, decode(params, moved))[0], names)
    loss = reconstruction + h.content_weight * content + h.block_weight * own + h.label_weight * named
    return loss + h.swap_weight * swapped, reconstruction, content, own, named, swapped


def test_an_update_is_that_of_the_formula():
    source, key = squares(), jax.random.key(0)
    state = compiled_whole(SMALL.begin)(jax.random.key(1))
    new, losses = jax.jit(SMALL.update)(state, jnp.int32(0), key, SETTINGS, source)
    data_key, normal_key, order_key, factor_key = jax.random.split(key, 4)
    images, labels = (np.asarray(part) for part in source.examples(data_key, 5))
    draws = Draws(
        np.asarray(jax.random.normal(normal_key, (5, 5)), np.float64),
        np.argsort(jax.random.uniform(order_key, (5,))),
        np.asarray(jax.random.randint(factor_key, (), 0, 2)),
    )
    params = nested(flat(state.params))
    wanted = reference(params, images.astype(np.float64), labels, draws, SETTINGS)
    np.testing.assert_allclose(losses, wanted, rtol=1e-4)
    slopes = differences(lambda p: reference(p, images.astype(np.float64), labels, draws, SETTINGS)[0], params)
    assert_close(jax.tree.map(lambda leaf: leaf / 0.1, adam(new.moments)[0]), slopes)


def test_representations_are_the_blocks_and_classes_the_nearest_prototypes():
    params = compiled_whole(SMALL.begin)(jax.random.key(1)).params
    images = squares().arrays[0]
    mean = encode(nested(flat(params)), np.asarray(images, np.float64).reshape(12, -1))[0]
    seen = compiled_whole(SMALL.represent)(params, images)
    np.testing.assert_allclose(seen.mean, mean[:, :4], rtol=1e-4, atol=1e-6)
    prototypes = np.asarray(params["prototypes"])
    nearest = [
        ((mean[:, None, 2 * f : 2 * f + 2] - prototypes[None, PROTOTYPES[f]]) ** 2).sum(2).argmin(1) for f in (0, 1)
    ]
    np.testing.assert_array_equal(compiled_whole(SMALL.classify)(params, images), np.stack(nearest, axis=1))


def test_its_name_says_what_it_is_not():
    assert all("not MTD" in row.about.title for row in (models.LabelledPartition, *SMALL.variants.values()))


def test_every_factor_needs_its_number_of_values():
    config = models.Config("x", method=models.LabelledPartition((3,), models.Mlp((4,))))
    data = np.zeros((12, 4, 4, 1), np.float32), np.zeros((12, 2), int)
    with pytest.raises(ValueError, match="sizes: must have 2 entries, one per factor, got 1"):
        models.train(config, *models.members({"labelled_partition": {}}), data=data)
