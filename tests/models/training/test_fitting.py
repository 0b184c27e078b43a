"""Large models on the CPU devices of one machine."""

import logging
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdis import models
from jaxdis._core import resources
from jaxdis.models.training._image_source import as_source
from jaxdis.models.training._train import devices_that_fit

DEVICES = tuple(jax.devices())
IMAGES = np.zeros((2, 64, 64, 3), np.uint8)
# A scene under IODINE takes several hundred MB in training, and four are trained on at a time.
IODINE = models.Iodine().resolved((64, 64, 3))


@pytest.mark.parametrize(
    ("method", "free", "count", "said"),
    [
        (IODINE, math.inf, len(DEVICES), False),
        (IODINE, 3e9, 1, False),
        (IODINE, 1e9, 1, True),
        (models.Vae().resolved((64, 64, 3)), 1e6, len(DEVICES), False),
    ],
)
def test_as_many_devices_train_as_have_room_for_a_member(method, free, count, said, monkeypatch, caplog):
    assert len(DEVICES) > 1
    monkeypatch.setattr(resources, "free_bytes", lambda device: free)
    hyperparameters = jax.tree.map(lambda value: jnp.full(2, value, jnp.float32), method.settings())
    with caplog.at_level(logging.WARNING, "jaxdis"):
        assert devices_that_fit(method, hyperparameters, as_source(IMAGES), DEVICES) == DEVICES[:count]
    assert ("of memory, of which 1 GB are free" in caplog.text) == said
