"""Slot codes whose true orders are known: objects of Multi-dSprites read nonlinearly, with noise, and shuffled."""

from typing import NamedTuple

import jax
import numpy as np

from jaxdis.data import FactorSpace
from jaxdis.data import _multi_sprites as multi_sprites
from jaxdis.factors import Factors
from jaxdis.structured import Structure
from tests.programs import compiled_whole

PROPERTIES = multi_sprites.OBJECT_FACTORS
DIMS = 10


class Planted(NamedTuple):
    """``whole [n, s, p]``, object ``o`` in slot ``o``; ``codes``, slot ``i`` holds object ``held[:, i]``."""

    whole: np.ndarray
    codes: np.ndarray
    held: np.ndarray
    factors: Factors
    structure: Structure


def plant(
    seed: int, objects: int, *, groups: int = 1, samples: int = 1000, local: bool = True, noise=0.05, order="shuffled"
) -> Planted:
    """``groups`` local groups (or samples of the whole space) of scenes of ``objects`` objects.

    Every slot bends mixtures of its object's eight properties and adds noise, the same way for all slots. Objects of a
    group may be alike: their colors and sizes have five or six values, of which a group keeps up to three.

    ``order``: ``"shuffled"``, at random; ``"salient"``, from left to right as a noisy eye sees it, so that similar
    scenes have similar orders.
    """
    key, rng = jax.random.key(seed), np.random.default_rng(seed)
    sprites = multi_sprites.space(1, 1)
    names, sizes = sprites.names[4:], sprites.sizes[4:]
    space = FactorSpace.of(
        **{
            name.replace("object_1", f"object_{o + 1}"): size
            for o in range(objects)
            for name, size in zip(names, sizes, strict=True)
        }
    )
    radius = multi_sprites.steps(space) if local else {}
    drawn = np.asarray(compiled_whole(space.local_groups)(key, radius, groups=groups, samples=samples))
    values = drawn.reshape(-1, objects, len(PROPERTIES))
    scaled = values / (np.array(sizes) - 1) * 2 - 1
    mixing = np.eye(len(PROPERTIES), DIMS) + 0.15 * np.random.default_rng(0).normal(size=(len(PROPERTIES), DIMS))
    whole = np.tanh(0.8 * scaled @ mixing) + noise * rng.normal(size=(*scaled.shape[:2], DIMS))
    saliency = rng.random(values.shape[:2])
    if order == "salient":
        saliency = scaled[:, :, PROPERTIES.index("x")] + 0.15 * rng.normal(size=values.shape[:2])
    held = np.argsort(saliency, axis=1)
    codes = np.take_along_axis(whole, held[:, :, None], axis=1)
    structure = Structure.slots(objects, DIMS, objects, PROPERTIES)
    factors = Factors.of(drawn, space.sizes, space.names)
    return Planted(whole.astype(np.float32), codes.astype(np.float32), held, factors, structure)


def recovered(orders, held) -> float:
    """Share of samples whose orders are the planted ones up to one renaming of positions."""
    found = np.take_along_axis(held, np.asarray(orders), axis=1)
    return np.unique(found, axis=0, return_counts=True)[1].max() / len(held)


def shapes(objects: int) -> tuple[int, ...]:
    """Columns of the one property without order."""
    return tuple(o * len(PROPERTIES) + PROPERTIES.index("shape") for o in range(objects))


def columns(objects: int) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(range(o * len(PROPERTIES), (o + 1) * len(PROPERTIES))) for o in range(objects))
