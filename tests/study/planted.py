"""Slots whose truth is known: three bands of an image hold the factors of three objects, and a method reads them.

The order of the slots differs from image to image, and members add noise of a given size to the codes.
"""

import dataclasses
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdis.data import DataSet, FactorSpace, Scenes
from jaxdis.models import About, Config, Method, Slots, Variant
from jaxdis.study import Sampling, Study, Training

OBJECTS, SLOTS = 3, 4
SPACE = FactorSpace.of(**{f"{name}_{i + 1}": size for i in range(OBJECTS) for name, size in (("level", 5), ("hue", 4))})
# Rows of the image that belong to each slot; the last two are the background.
BANDS = np.repeat(np.eye(SLOTS, dtype=np.float32), 2, axis=0)


def render(factors):
    """``[n, 8, 6, 2]``: both properties of an object as the values of its two rows."""
    values = factors.reshape(-1, OBJECTS, 2).astype(jnp.float32) / 8 + 0.25
    rows = jnp.concatenate([values, jnp.zeros((len(values), 1, 2))], axis=1)
    return jnp.broadcast_to(jnp.repeat(rows, 2, axis=1)[:, :, None], (len(values), 8, 6, 2))


def masks(space, factors):
    numbers = np.repeat([1, 2, 3, 0], 2).astype(np.uint8)
    return jnp.broadcast_to(jnp.asarray(numbers)[None, :, None], (len(factors), 8, 6))


ROW = DataSet(
    title="Planted bands",
    description="three objects in three bands",
    space=SPACE,
    shape=(8, 6, 2),
    renders=True,
    reads="",
    origin="made for a test",
    make=lambda source=None, dtype="float32": (SPACE, render),
    scenes=Scenes(
        labels=lambda space: {name: (f"object {name[-1]}", name[:-2]) for name in space.names},
        masks=masks,
        complete=lambda space: space,
        radius=lambda space: {name: 1 for name in space.names if name.startswith("level")},
    ),
)


class PlantedSettings(NamedTuple):
    noise: float = 0.0


class PlantedLosses(NamedTuple):
    error: jax.Array


@dataclasses.dataclass(frozen=True)
class Planted(Method):
    """Reads the factors out of the image and shuffles the slots; there is nothing to learn."""

    about: ClassVar = About("Planted slots", "Reads true factors in a random order.", ())
    losses: ClassVar = PlantedLosses
    default_steps: ClassVar = 2
    represents: ClassVar = Slots
    variants: ClassVar = {"planted": Variant(PlantedSettings, "noise", about=about)}

    def begin(self, key):
        return jnp.zeros(())

    def update(self, state, step, key, hyperparameters, source):
        return hyperparameters.noise, PlantedLosses(source.images(key, 2).mean() * 0 + hyperparameters.noise)

    def represent(self, params, images):
        def one(image):
            key = jax.random.fold_in(jax.random.key(0), (image.sum() * 1000).astype(jnp.int32))
            order = jax.random.permutation(key, SLOTS)
            bands = jnp.asarray(BANDS).T
            codes = bands @ image[:, 0] / 2 + params * jax.random.normal(jax.random.fold_in(key, 1), (SLOTS, 2))
            return codes[order], jnp.broadcast_to(bands[order][:, :, None], (SLOTS, 8, 6))

        return Slots(*jax.vmap(one)(images))


def planted(**fields) -> Study:
    training = Training.of(Config("planted", method=Planted()), {"planted": {"noise": (0.0, 1.0)}}, 2)
    return Study.of("planted", [training], sampling=Sampling(**{"train": 400, "test": 10, "groups": 2, **fields}))
